#include "generators/gemm_prologue.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "simulator/numerics.h"

namespace atalla {

namespace {

const std::string prefix = "prologue_";
constexpr double ulp = 1.0 / 256;   // of bf16, relative, at least

// What the product decides.
const std::string shared = "rows";
std::string outer_name(const std::string &name) { return name == shared ? name : prefix + name; }

// Few: the product has parameters enough. All vectors of a row, the largest part, and one.
bool keeps(const Parameter &parameter, int64_t value) {
    if (parameter.name != "vector_unroll") return true;
    const auto at = std::ranges::find(parameter.values, value);
    return value == 1 || parameter.values.end() - at <= 2;
}

}  // namespace

Point prologue_point(const Point &point) {
    Point own;
    for (const auto &[name, value] : point.values()) {
        if (name == shared) own.set(name, value);
        else if (name.starts_with(prefix)) own.set(name.substr(prefix.size()), value);
    }
    return own;
}

void add_prologue(Space &space, const GemmShape &shape, const Machine &machine) {
    for (const Parameter &parameter : shape.prologue->space(machine).parameters) {
        if (parameter.name == shared) continue;
        std::vector<int64_t> values;
        for (const int64_t value : parameter.values)
            if (keeps(parameter, value)) values.push_back(value);
        space.parameter(outer_name(parameter.name), parameter.meaning + ", of those that are made", std::move(values));
    }
    for (const Constraint &constraint : shape.prologue->space(machine).constraints) {
        std::vector<std::string> names;
        for (const std::string &name : constraint.parameters) names.push_back(outer_name(name));
        space.constraint("made rows: " + constraint.name, std::move(names), constraint.protects, [holds = constraint.holds](const Point &point) { return holds(prologue_point(point)); });
    }
}

void set_naive_prologue(Point &point, const GemmShape &shape, const Machine &machine) {
    for (const Parameter &parameter : shape.prologue->space(machine).parameters)
        if (parameter.name != shared) point.set(outer_name(parameter.name), parameter.values.front());
}

int64_t prologue_pad_rows(const GemmShape &shape, const Machine &machine, const Point &point) {
    const RowCost &cost = shape.prologue->row_cost();
    const Point own = prologue_point(point);
    const int64_t vectors = shape.prologue->row_shape().vectors(), rows = std::min(own["rows"], shape.m), slots = machine.timed() && rows < shape.m ? 2 : 1;
    // What straight-line code does not go round the pads with is in one of them: as if it took as much of each.
    const int64_t straight = own["vector_unroll"] * own["row_unroll"], pads = own["vector_unroll"] % machine.pad.count == 0 || straight == rows * vectors ? 1 : machine.pad.count;
    int64_t all = cost.row_tensors * slots * rows + cost.fixed_rows;
    if (own["vector_unroll"] < vectors || own["stored"] != 0) all += cost.steps_in_pads * own["row_unroll"];
    return pads * vectors * all;
}

std::vector<TensorData> with_rows_made(const GemmShape &shape, const Machine &machine, std::vector<TensorData> inputs) {
    const auto end = inputs.begin() + static_cast<ptrdiff_t>(shape.a_tensors());
    TensorData a = shape.prologue->host_result(machine, {inputs.begin(), end}).at(0);
    inputs.erase(inputs.begin() + 1, end);
    inputs[0] = std::move(a);
    return inputs;
}

ExactRows exact_rows(const GemmShape &shape, std::vector<TensorData> inputs) {
    const auto end = inputs.begin() + static_cast<ptrdiff_t>(shape.a_tensors());
    const Reference reference = shape.prologue->reference({inputs.begin(), end}).at(0);
    ExactRows rows;
    TensorData a;
    // Half a unit more for the rounding here; a unit is at most two of the smallest of its binade.
    const double units = 2 * ulp * (shape.prologue->tolerance_ulps() + 0.5);
    for (size_t i = 0; i < reference.values.size(); i++) {
        a.push_back(bf16_truncate(bf16_round(static_cast<float>(reference.values[i]))));
        rows.errors.push_back(units * std::max(reference.peaks[i], std::abs(reference.values[i])));
    }
    inputs.erase(inputs.begin() + 1, end);
    inputs[0] = std::move(a);
    rows.inputs = std::move(inputs);
    return rows;
}

void add_row_errors(Reference &product, const GemmShape &shape, const ExactRows &rows, double product_ulps) {
    const auto m = static_cast<size_t>(shape.m), n = static_cast<size_t>(shape.n), k = static_cast<size_t>(shape.k);
    std::vector<double> errors(n);
    for (size_t i = 0; i < m; i++) {
        std::ranges::fill(errors, 0);
        for (size_t q = 0; q < k; q++)
            for (size_t j = 0; j < n; j++) errors[j] += rows.errors[i * k + q] * std::abs(static_cast<double>(bf16_float(rows.inputs[1][shape.b_transposed ? j * k + q : q * n + j])));
        for (size_t j = 0; j < n; j++) product.peaks[i * n + j] += std::abs(shape.alpha) * errors[j] / (ulp * product_ulps);
    }
}

}  // namespace atalla
