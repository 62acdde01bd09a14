// The errors of the pointwise operators, measured on the simulator over all bf16 inputs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "generators/pointwise_functions.h"
#include "isa/machine.h"

namespace atalla {

struct NumericsRow {
    std::string expression;        // "gelu(x, approximate=tanh)"
    int64_t inputs = 0;            // compared
    double worst_ulps = 0;         // of the bf16 number nearest to the exact value; denormals have the smallest normal's
    std::vector<double> worst_at;  // the operands there
    int64_t over_one = 0;          // inputs with more than one ulp
    int64_t wrong_special = 0;     // NaN, infinity or sign of a zero other than the exact value's
    std::vector<double> wrong_at;  // the first operands with that
    LaneCount work;
};

// The expressions of the table: every operator, with the keyword arguments that change its computation.
std::vector<std::string> numerics_expressions();

// One operand: all 65,536 patterns. Several: a dense sample, with all pairs of special values.
NumericsRow measure_numerics(const std::string &expression, const Machine &machine);

}  // namespace atalla
