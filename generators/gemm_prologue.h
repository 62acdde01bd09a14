// The operator along rows in front of a matrix product: it makes the rows of A in the pads, for each block of rows, or all of
// them before.
#pragma once

#include <string>
#include <vector>

#include "generators/gemm.h"
#include "generators/kernel_run.h"
#include "generators/operator.h"
#include "generators/row_workload.h"
#include "schedules/space.h"

namespace atalla {

// Its parameters, named apart, and constraints, as far as they do not follow from those of the product.
void add_prologue(Space &space, const GemmShape &shape, const Machine &machine);
// The point of its own space that a product's point has for it, and the first of them.
Point prologue_point(const Point &point);
void set_naive_prologue(Point &point, const GemmShape &shape, const Machine &machine);
// Rows of all pads together that its buffers take, and what it makes.
int64_t prologue_pad_rows(const GemmShape &shape, const Machine &machine, const Point &point);

// The inputs of the product alone: with A as the machine computes it.
std::vector<TensorData> with_rows_made(const GemmShape &shape, const Machine &machine, std::vector<TensorData> inputs);

// The same with A as it exactly is, rounded; and how far each element of the machine's may be from that.
struct ExactRows {
    std::vector<TensorData> inputs;
    std::vector<double> errors;
};
ExactRows exact_rows(const GemmShape &shape, std::vector<TensorData> inputs);
// Peaks of a product that count these errors, where it is compared to so many units in the last place.
void add_row_errors(Reference &product, const GemmShape &shape, const ExactRows &rows, double product_ulps);

}  // namespace atalla
