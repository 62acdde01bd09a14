// Rows that end inside vectors, or are too long to come whole, one behind the other in memory, as one run of vectors; each has
// a number, which all of its elements meet.
#pragma once

#include <cstdint>
#include <vector>

#include <Halide.h>

namespace atalla {

// There are such rows where both counts of elements are not 0.
struct JoinedRows {
    int64_t elements = 0, rows = 0;   // of a row; and how many there are
    int64_t operands = 0;             // that are runs of the size of a block
    int64_t inputs = 0, numbers = 0;  // with a number for each row: tensors, and what the run meets
    int64_t vectors() const;
    // Where `elements` are at least a vector, each vector of the run has elements of two rows at most.
    bool suits() const;
};

// The vectors of a run in chunks of straight-line code. Vectors beside each other that have the same row in every chunk share
// one vector of numbers, so that a chunk has fewer of these; they repeat, some rows on, after some chunks.
class Chunks {
public:
    Chunks(const JoinedRows &run, int64_t vectors);
    // Whole chunks, and whole periods of them that little code makes.
    bool suits() const { return suits_; }
    // Vectors of numbers: of a chunk, of a period, of the run.
    int64_t of_chunk() const { return static_cast<int64_t>(starts_.size()); }
    int64_t of_period() const { return period_ * of_chunk(); }
    int64_t all() const { return run_.vectors() / vectors_ * of_chunk(); }
    int64_t periods() const { return run_.rows / rows_; }
    // Which of all of them the vector of an element of the run meets.
    Halide::Expr row_of(const Halide::Expr &element) const;
    // Number `at` of a period that begins with row `first`, in a lane, of `number`s over a lane and a row.
    Halide::Expr value(const Halide::Func &number, const Halide::Expr &lane, const Halide::Expr &at,
                       const Halide::Expr &first) const;
    int64_t rows_of_period() const { return rows_; }

private:
    JoinedRows run_;
    int64_t vectors_;                // of a chunk
    int64_t period_ = 1, rows_ = 1;  // chunks, and the rows in them
    std::vector<int64_t> starts_;    // the first vector that meets each vector of numbers of a chunk
    bool suits_ = false;
};

}  // namespace atalla
