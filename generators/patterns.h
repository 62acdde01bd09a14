// Operands without outer dimensions, which begin anew along the result, as patterns of whole vectors: the result is one run of
// vectors that each meet one of the pattern, whatever the operand's length.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "generators/broadcast.h"
#include "isa/machine.h"
#include "isa/vectors.h"

namespace atalla {

// A pattern is repeated until it is as long as the pads go round a whole number of times, and by a block more, so that each
// block's vectors are one after the other in the pads that their places in the block say; though not beyond the run.
class Pattern {
public:
    Pattern(int64_t elements, int64_t pads, int64_t vectors_of_run)
        : elements_(elements), pads_(pads), vectors_of_run_(vectors_of_run) {}

    int64_t elements() const { return elements_; }  // after which the operand begins anew
    int64_t period() const;                         // vectors after which lanes are the same again
    int64_t turn() const;                           // and pads, too
    // Vectors that come from memory, which are then repeated.
    int64_t base() const;
    // They follow each other at whole turns, or after each period.
    bool in_turns() const;
    int64_t step() const { return in_turns() ? base() : period(); }
    // How often for blocks of so many vectors, and how many vectors that makes.
    int64_t times(int64_t block) const { return ceil_div(std::min(turn() + block, vectors_of_run_), step()); }
    int64_t vectors(int64_t block) const { return (times(block) - 1) * step() + base(); }
    // Operands that do not end with a vector are written so many times, one after the other, and read as whole vectors.
    int64_t copies() const { return ceil_div(base() * lanes, elements_); }
    // Many copies of a short row leave as one transfer for each of its vectors.
    bool by_vectors() const;

private:
    int64_t elements_, pads_, vectors_of_run_;
};

// The result as one run: blocks of whole rounds of the pads, the last of which begins earlier, and less than a round behind
// them.
// Where the others are too long to be repeated each image is such a run, and meets them as they are.
struct PatternRun {
    int64_t elements = 0;          // of an image; 0: it is no such run
    int64_t images = 1;            // of the result; otherwise one for all of it
    int64_t operands = 0;          // with all elements
    std::vector<int64_t> periods;  // elements of each of the others

    bool exists() const { return elements > 0; }
    bool in_images() const { return images > 1; }
    static int64_t round(const Machine &machine) { return machine.pad.count * lanes; }
    Pattern pattern(const Machine &machine, int64_t period) const { return {period, machine.pad.count, tiles_of(elements)}; }
    int64_t whole(const Machine &machine) const { return elements / round(machine) * round(machine); }
    // Do blocks of so many elements, in two slots, fit the pads beside the patterns, and what is written to memory the result?
    bool fits(const Machine &machine, int64_t block, int64_t small_operands) const;
};

// Nothing where an operand is a number for each row. `used`: inputs that are read as they are; `parts`: how many rows are
// computed once along the innermost dimension.
PatternRun pattern_run(const LoopNest &nest, const std::vector<bool> &used, int64_t parts);

}  // namespace atalla
