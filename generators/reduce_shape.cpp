#include "generators/reduce_shape.h"

#include <algorithm>
#include <cmath>

#include "generators/packed_row_sums.h"
#include "isa/error.h"
#include "isa/vectors.h"
#include "simulator/numerics.h"

namespace atalla {

int accumulators_of(int64_t terms) {
    constexpr int most = 8;
    return terms >= 2 * most ? most : 1;
}

// Extrema of rows of many vectors are made four at a time, of long ones 32, with vectors behind the row that change none.
int64_t ReduceShape::vectors_in_pads() const {
    constexpr int64_t many = 16, together = 4, very_many = 256;
    if (along_lanes && extremum() && other == 1 && vectors() >= many)
        return round_up(vectors(), vectors() >= very_many ? atalla::lanes : together);
    return parts() * part_vectors();
}

bool ReduceShape::whole_vectors() const { return length == vectors_in_pads() * atalla::lanes; }

int64_t ReduceShape::steps() const { return along_lanes ? vectors_in_pads() : ceil_div(length, accumulators_of(length)); }

bool ReduceShape::vectors_added_first() const {
    // Fewer rows wait for their transfers; more vectors take longer than sums of each, at once where they are whole.
    constexpr int64_t many_rows = 64, few = 2, few_that_end_inside = 3;
    return along_lanes && !extremum() && kind != Reduction::Var && other == 1 && kept >= many_rows && vectors() > 1 &&
           vectors() <= (length % atalla::lanes == 0 ? few : few_that_end_inside);
}

bool ReduceShape::sums_side_by_side() const {
    constexpr int64_t most_apart = 4;  // results of several vectors each, whose tiles would hardly fill the array
    if (!along_lanes || extremum()) return false;
    if (other > 1) return kept > most_apart || vectors() == 1;
    if (vectors_added_first()) return true;
    // Rows of one vector, whose sums the lanes scale without another rounding.
    int exponent = 0;
    return vectors() == 1 && kept > most_apart && kind != Reduction::Var && std::frexp(divisor, &exponent) == 0.5;
}

LongSum ReduceShape::in_a_row() const {
    if (vectors_added_first()) return long_sum(1);
    return (along_lanes && !sums_side_by_side()) || extremum() ? LongSum{steps(), other, 0, nullptr, nullptr}
                                                               : long_sum(steps(), other);
}

ReduceShape reduce_shape(Reduction kind, const std::vector<int64_t> &extents, const std::vector<bool> &reduced,
                         double divisor) {
    // Innermost first: runs of axes of one kind.
    std::vector<std::pair<int64_t, bool>> runs;
    for (size_t d = extents.size(); d-- > 0;) {
        if (extents[d] == 1) continue;
        if (!runs.empty() && runs.back().second == reduced[d])
            runs.back().first *= extents[d];
        else
            runs.emplace_back(extents[d], reduced[d]);
    }
    ReduceShape shape;
    shape.kind = kind;
    shape.divisor = divisor;
    shape.along_lanes = runs.empty() || runs.front().second;
    std::vector<int64_t *> places = {&shape.length, &shape.kept, &shape.other, &shape.outer};
    if (!shape.along_lanes) places.insert(places.begin(), &shape.lanes);
    if (runs.size() > places.size())
        throw Error("reduce: the axes alternate between kept and reduced too often; permute first");
    for (size_t i = 0; i < runs.size(); i++) *places[i] = runs[i].first;
    return shape;
}

// Every element, in float64: NaN where one is none.
Reference reduce_reference(const ReduceShape &shape, const TensorData &input) {
    const auto kept = static_cast<size_t>(shape.results()), count = static_cast<size_t>(shape.count());
    const auto lanes_of_row = static_cast<size_t>(shape.lanes), length = static_cast<size_t>(shape.length),
               middle = static_cast<size_t>(shape.kept), other = static_cast<size_t>(shape.other);
    Reference reference;
    reference.values.resize(kept);
    reference.peaks.resize(kept);
    std::vector<double> elements(count);
    for (size_t result = 0; result < kept; result++) {
        const size_t lane = result % lanes_of_row, i = result / lanes_of_row % middle, j = result / lanes_of_row / middle;
        for (size_t e = 0; e < count; e++) {
            const size_t at = (((j * other + e / length) * middle + i) * length + e % length) * lanes_of_row + lane;
            elements[e] = static_cast<double>(bf16_float(input[at]));
        }
        double sum = 0, magnitudes = 0, largest = 0;
        for (double x : elements) {
            sum += x;
            magnitudes += std::abs(x);
            largest = std::max(largest, std::abs(x));
        }
        double &value = reference.values[result], &peak = reference.peaks[result];
        const auto elements_of = static_cast<double>(count);
        if (shape.extremum()) {
            value = elements.empty() ? std::nan("") : elements[0];
            for (double x : elements)
                if (std::isnan(x) || (shape.kind == Reduction::Amax ? x > value : x < value))
                    value = std::isnan(value) ? value : x;
            peak = std::abs(value);
        } else if (shape.kind == Reduction::Var) {
            const double mean = sum / elements_of;
            for (double x : elements) value += (x - mean) * (x - mean);
            value /= shape.divisor;
            // The mean is rounded, relative to the largest element.
            peak = value + std::abs(mean) * std::sqrt(value);
        } else {
            value = sum / shape.divisor;
            peak = magnitudes / shape.divisor;
        }
    }
    return reference;
}

double reduce_tolerance_ulps(const ReduceShape &shape) {
    if (shape.extremum()) return 0;
    // Along lanes each block of 32 and the result are rounded. Across lanes so is every addition: half a unit of a sum that has
    // grown to its share, and the roundings of random signs add up as their root.
    // A share of the sum that bf16 does not have is two products and their sum.
    constexpr int64_t of_share = 2;
    const auto additions =
        static_cast<double>(shape.vectors_added_first() ? shape.vectors() + of_share : shape.in_a_row().additions_in_a_row());
    double sum = shape.fills_array()         ? 2
                 : shape.sums_side_by_side() ? 1.5 + 0.5 * std::sqrt(additions)
                 : shape.along_lanes         ? 1.5
                                             : 3 + 0.5 * std::sqrt(additions);
    if (rows_are_packed(shape))
        sum = std::max(sum, 1.5 + 0.5 * std::sqrt(static_cast<double>(packed_row_additions(shape) + of_share)));
    return shape.kind == Reduction::Var ? 2 * sum + 2 : sum;
}

}  // namespace atalla
