// The sum of a group of channels: blocks of 32 elements through the array, rounded to bf16 and added in float32.
#pragma once

#include <string>

#include <Halide.h>

namespace atalla {

struct GroupTotal {
    Halide::Func part, block, sum;
    Halide::RDom depth, all;  // elements of a block; blocks of a channel, and channels

    // Of `values` over an element of a channel, the channel, the group and the image; `ones` are the array's weights.
    GroupTotal(const std::string &name, const Halide::Func &values, const Halide::Func &ones, int vectors, int channels);
    // Where a block is made.
    void make_blocks(const Halide::LoopLevel &at);

private:
    Halide::Var l_{"l"}, b_{"b"}, c_{"c"}, g_{"g"}, i_{"i"};
};

}  // namespace atalla
