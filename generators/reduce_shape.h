// What a reduction of a tensor over some of its axes computes.
#pragma once

#include <vector>

#include "generators/long_sums.h"
#include "generators/operator.h"
#include "isa/vectors.h"

namespace atalla {

enum class Reduction { Sum, Mean, Amax, Amin, Var };

// Neighbouring axes that are both kept or both reduced are one. With the innermost first, a tensor is
//   along lanes:  [length, reduced] [kept] [other, reduced] [outer, kept]
//   otherwise:    [lanes, kept] [length, reduced] [kept] [other, reduced] [outer, kept]
struct ReduceShape {
    Reduction kind = Reduction::Sum;
    bool along_lanes = true;
    int64_t lanes = 1, length = 1, kept = 1, other = 1, outer = 1;
    double divisor = 1;  // of the sum: Mean, Var

    int64_t vectors() const { return tiles_of(along_lanes ? length : lanes); }
    int64_t count() const { return length * other; }  // elements that make a result
    int64_t elements() const { return lanes * length * kept * other * outer; }
    int64_t results() const { return lanes * kept * outer; }
    bool extremum() const { return kind == Reduction::Amax || kind == Reduction::Amin; }
    // Is a sum that of a row of enough vectors for up to 32 of them to be the weights of the array? It is made in equal parts
    // that are rounded each, of which the last one may have vectors of zeros.
    bool fills_array() const { return along_lanes && !extremum() && other == 1 && vectors() >= 12; }
    // Are sums over rows of several planes, of one vector, or of a few, made side by side (row_sums.h)?
    bool sums_side_by_side() const;
    // Of a few vectors: lanes add these first.
    bool vectors_added_first() const;
    int64_t parts() const { return fills_array() ? tiles_of(vectors()) : 1; }
    int64_t part_vectors() const { return ceil_div(vectors(), parts()); }
    int64_t vectors_in_pads() const;  // of a row
    bool whole_vectors() const;       // are there no lanes in the pads that no element is in?
    int64_t steps() const;            // of a plane: elements that a running value meets
    LongSum in_a_row() const;         // the elements of a running value
};

// As many sums or extrema across lanes side by side as hide the latency of the adder.
int accumulators_of(int64_t terms);

// Of a tensor (outermost extent first) and, for each axis, whether it is reduced. Error if the axes alternate more often than
// the form above has room for.
ReduceShape reduce_shape(Reduction kind, const std::vector<int64_t> &extents, const std::vector<bool> &reduced, double divisor);

// Sums along lanes: blocks of 32 in float32, rounded to bf16, added in float32; of rows that fill the array in parts of up to
// 32 blocks, each rounded to bf16, which are added in float32. Sums across lanes: bf16, eight elements apart side by side, long
// ones in groups (LongSum), then what is side by side. NaN spread to their result, as in PyTorch.
Reference reduce_reference(const ReduceShape &shape, const TensorData &input);
double reduce_tolerance_ulps(const ReduceShape &shape);

}  // namespace atalla
