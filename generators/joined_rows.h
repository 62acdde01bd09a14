// Rows that end inside vectors, or are too long to come whole, one behind the other in memory, as one run of vectors; each has
// a number, which all of its elements meet. A turn of a loop makes the vectors of a row from the one on that it begins in, so
// that a vector of two rows is made by both, the second time right: of the numbers of both.
#pragma once

#include <cstdint>
#include <vector>

#include "isa/machine.h"
#include "isa/vectors.h"

namespace atalla {

// There are such rows where both counts of elements are not 0.
struct JoinedRows {
    int64_t elements = 0, rows = 0;   // of a row; and how many there are, in each of the images
    int64_t images = 1;               // which have the same numbers
    int64_t operands = 0;             // that are runs of the size of a block
    int64_t inputs = 0, numbers = 0;  // with a number for each row: tensors, and what the run meets
    int64_t operations = 0;           // of the busier lane unit on a vector

    bool exist() const { return rows > 0; }
    // Where a row is at least a vector, no vector has elements of three. Rows that are no whole vectors together are few, and
    // only of one image.
    bool suit() const;
    // Rows after which one begins with a vector again.
    int64_t period() const;
    // Rows of whole periods.
    int64_t whole() const { return rows / period() * period(); }
    // Vectors that a turn, or several, make of each row.
    int64_t vectors_of_row() const { return tiles_of(elements); }
    // Of rows that begin with one.
    int64_t vectors(int64_t of_rows) const { return tiles_of(of_rows * elements); }
    // The run that blocks of so many rows cut: all images as one where a block has these.
    JoinedRows in_blocks_of(int64_t block) const;
    int64_t blocks(int64_t block) const;
    // Blocks have their own numbers, made beside the transfers of others, where no image comes to the same ones again.
    bool has_own_numbers(int64_t block) const { return images == 1 && blocks(block) > 1; }
    int64_t numbers_of_block(int64_t block) const { return has_own_numbers(block) ? block : rows; }
    // How many of a pad's rows follow each other in memory, before the next pads have theirs. A lone block, whose transfers
    // run beside its loop and take longer, has those that suit the bank groups of the DRAM best.
    int64_t rows_together(const Machine &machine, int64_t pads, int64_t block) const;
    // How much longer transfers take than at best, as a part of that: those of pads whose rows, so many in each, follow each
    // other in memory, so that they may be in one bank group, or are cut into short tiles, or into unequal ones.
    double slowdown(const Machine &machine, int64_t pads, int64_t of_pad) const;
    // Transfers of so many rows that follow each other, and whether they are equal.
    int64_t tiles(const Machine &machine, int64_t of_rows) const;
    bool has_equal_tiles(const Machine &machine, int64_t of_rows) const;
};

// What straight-line code takes of the rows of a pad: several rows, or a part of one, the last of which begins earlier where
// parts do not divide.
struct RowTurn {
    int64_t rows = 1, parts = 1;
    int64_t vectors = 1;  // of each row

    // `straight`: vectors of one pad.
    static RowTurn of(const JoinedRows &run, int64_t straight);
    // Vectors of all of so many pads.
    static std::vector<int64_t> choices(const JoinedRows &run, int64_t pads);
    int64_t turns(int64_t rows_of_pad) const { return rows_of_pad / rows * parts; }
};

}  // namespace atalla
