// The least beats of programs that move elements by DMA alone, each in one lane of the pads from where it comes to where it
// goes.
#pragma once

#include <cstdint>
#include <vector>

#include "isa/machine.h"

namespace atalla {

// Runs of neighbouring elements that are neighbours in the result, too; offsets and distances in elements. Each element is read
// for one place.
struct MovedRuns {
    struct Dim {
        int64_t extent = 1, from = 0, to = 0;
    };
    int64_t run = 1, from = 0, to = 0;
    std::vector<Dim> dims;  // there is a run at each index
    bool constant = false;  // nothing is read
};

// Beats that all runs take, reads and writes together, in tensors that begin with a beat, if no element changes its lane on the
// way: the start of a row in the pads, which its load and its store share, is in the middle of a beat on one side where both
// are not equally far from one. docs/bounds.md, data movement. Hardware machines.
int64_t least_moved_beats(const Machine &machine, const std::vector<MovedRuns> &moved);

// Beats of a kernel whose result is several images of so many elements, as are `whole` tensors, itself included, and that reads
// `repeated` tensors of one image, which all of them meet: in the same lanes, so that rows of the pads begin as far from the
// image in one as in the others. docs/bounds.md, broadcast operands. Hardware machines.
int64_t least_broadcast_beats(const Machine &machine, int64_t elements, int64_t images, int64_t whole, int64_t repeated);

}  // namespace atalla
