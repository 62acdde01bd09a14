// Rows of the pads with the values of channels, such as weights and biases of norms: for each channel, or for each vector of a
// group of channels.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <Halide.h>

#include "generators/kernel_definition.h"
#include "isa/vectors.h"

namespace atalla {

// [area] [channels of a group] [groups] [images], innermost first, dense; weight and bias have a value for each channel.
struct GroupShape {
    int64_t area = 1, channels = 1, groups = 1, images = 1;
    bool weight = false, bias = false;
    double epsilon = 1e-5;

    int64_t length() const { return area * channels; }
    int64_t vectors() const { return tiles_of(area); }
    int64_t rows() const { return channels * vectors(); }  // of a group, in the pads
    int64_t all_channels() const { return channels * groups; }
    // Channels that have rows of lanes: 32 at a time where there are more.
    int64_t spread_rows() const { return all_channels() < lanes ? all_channels() : round_up(all_channels(), lanes); }
    bool whole_vectors() const { return area % lanes == 0; }  // of channels
    // The fewest channels that end where a vector does.
    int64_t section_channels() const { return lanes / std::gcd(area, static_cast<int64_t>(lanes)); }
    // Are there rows for each `run` of vectors of a group, whose lanes are of two channels at most, few rows, which are made by
    // little code?
    bool has_vector_rows(int64_t run = 1) const {
        constexpr int64_t most_rows = 4096, most_channels = 8;
        return area >= 2 * lanes && length() % lanes == 0 && section_channels() <= most_channels &&
               channels % section_channels() == 0 && groups * (length() / lanes / run) <= most_rows;
    }
};

// So many of `count` vectors in straight-line code.
int largest_divisor(int count);

// A step over the vectors of channels, of which so many of each, and so many channels, are straight-line code.
void over_channels(Halide::Func step, const Halide::Var &element, Halide::Var channel, int vector_unroll, int channel_unroll);

// Rows of 32 lanes with a channel's value each, from a tensor of a value for each channel, which becomes an argument; `ones`
// are the weights of the array meanwhile. Up to `unroll` of them are straight-line code, whose masks are constants.
Halide::Func channel_rows(KernelDefinition &kernel, const std::string &name, const GroupShape &shape, const Halide::Func &ones,
                          int unroll);

// The rows of each vector of a group, over a lane, the vector and the group: of its channel, or of both channels that its lanes
// belong to; an element of a tuple for each of `channels`, which store beside each other, each in a pad of its own. `count`: of
// the vectors that are read.
Halide::Func vector_rows(const std::vector<Halide::Func> &channels, const GroupShape &shape, int count);

}  // namespace atalla
