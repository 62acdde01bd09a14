// What a pointwise expression computes of single numbers or of inputs along one dimension alone, and so once for all others:
// the reciprocal of a row's divisor.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "Halide.h"

namespace atalla {

struct PointwisePart {
    std::string name;
    Halide::Expr value;            // over a variable for each input
    std::set<std::string> inputs;  // of which it is made
    size_t dim = 0;                // the innermost dimension or the next, or of_single_numbers
    static constexpr size_t of_single_numbers = SIZE_MAX;
};

// The inputs that an expression over variables reads.
std::set<std::string> inputs_of(const Halide::Expr &e);

// The lane operations `e` with a variable for each largest part for whose inputs `only_dim` knows a dimension. Conditions are
// no parts, since masks do not wait in the pads.
Halide::Expr take_parts(const Halide::Expr &e,
                        const std::function<std::optional<size_t>(const std::set<std::string> &)> &only_dim,
                        std::vector<PointwisePart> &parts);

}  // namespace atalla
