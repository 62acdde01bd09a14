#include "generators/gemm_prologue.h"

#include <algorithm>
#include <cmath>

#include "generators/gemm_host.h"
#include "simulator/numerics.h"

namespace atalla {

namespace {

const std::string prefix = "prologue_";
constexpr double ulp = 1.0 / 256;  // of bf16, relative, at least

std::string outer_name(const std::string &name) { return prefix + name; }
// Rows of a block, of which the product's parameter decides where each of its blocks is made for itself.
const std::string block_rows = "rows";

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
        if (name.starts_with(prefix) && (value != 0 || name != outer_name(block_rows)))
            own.set(name.substr(prefix.size()), value);
        else if (name == block_rows && !own.contains(name))
            own.set(name, value);
    }
    return own;
}

void add_prologue(Space &space, const GemmShape &shape, const Machine &machine) {
    for (const Parameter &parameter : shape.prologue->space(machine).parameters) {
        std::vector<int64_t> values;
        if (parameter.name == block_rows) values.push_back(0);
        for (const int64_t value : parameter.values)
            if (keeps(parameter, value)) values.push_back(value);
        const bool rows = parameter.name == block_rows;
        space.parameter(outer_name(parameter.name),
                        rows ? "rows of A that are made at a time, before the product; 0: those of a block in front of it"
                             : parameter.meaning + ", of those that are made",
                        std::move(values));
    }
    for (const Constraint &constraint : shape.prologue->space(machine).constraints) {
        std::vector<std::string> names;
        for (const std::string &name : constraint.parameters) {
            if (name == block_rows) names.push_back(name);
            names.push_back(outer_name(name));
        }
        // Asked very often: only what it is about is looked up.
        space.constraint(
            "made rows: " + constraint.name, names, constraint.protects,
            [names, holds = constraint.holds](const Point &point) { return holds(prologue_point(point.only(names))); });
    }
    // The last block begins earlier where blocks are not whole.
    space.constraint("made rows at the first pad", {"rows", outer_name(block_rows)},
                     "Blocks of rows that are made before begin at the first pad: straight-line code knows the pad of each "
                     "row, and all would be in one otherwise.",
                     [m = shape.m, round = machine.pad.count](const Point &point) {
                         const int64_t rows = std::min(point["rows"], m);
                         return point[outer_name(block_rows)] == 0 || rows == m || (rows % round == 0 && m % round == 0);
                     });
    space.constraint("made rows of one pad", {"rows", outer_name(block_rows), outer_name("row_unroll")},
                     "Rows whose pad straight-line code does not know, as it does where it goes round the pads, are in one, "
                     "which has room for them.",
                     [m = shape.m, round = machine.pad.count, vectors = shape.prologue->row_shape().vectors(),
                      room = machine.pad_rows()](const Point &point) {
                         const int64_t made = point[outer_name(block_rows)] > 0 ? m : std::min(point["rows"], m),
                                       unroll = point[outer_name("row_unroll")];
                         return unroll % round == 0 || unroll >= made || round_up(made, round) * vectors <= room;
                     });
    space.constraint("made once", {"m_outer", outer_name(block_rows)},
                     "Rows that are not made before the product are made once, for all columns.",
                     [](const Point &point) { return point["m_outer"] != 0 || point[outer_name(block_rows)] > 0; });
}

void set_naive_prologue(Point &point, const GemmShape &shape, const Machine &machine) {
    for (const Parameter &parameter : shape.prologue->space(machine).parameters)
        point.set(outer_name(parameter.name), parameter.name == block_rows ? 0 : parameter.values.front());
}

int64_t prologue_pad_rows(const GemmShape &shape, const Machine &machine, const Point &point) {
    const RowCost &cost = shape.prologue->row_cost();
    const Point own = prologue_point(point);
    const int64_t vectors = shape.prologue->row_shape().vectors(), rows = std::min(own["rows"], shape.m),
                  slots = machine.timed() && rows < shape.m ? 2 : 1;
    // What straight-line code does not go round the pads with is in one of them: as if it took as much of each.
    const int64_t straight = own["vector_unroll"] * own["row_unroll"],
                  pads = own["vector_unroll"] % machine.pad.count == 0 || straight == rows * vectors ? 1 : machine.pad.count;
    const int64_t made =
        ceil_div(point[outer_name(block_rows)] > 0 ? shape.m : std::min(point["rows"], shape.m), machine.pad.count) *
        machine.pad.count;
    int64_t all = cost.row_tensors * slots * rows + cost.fixed_rows;
    all += steps_in_pads(shape.prologue->row_shape(), own, cost) * own["row_unroll"];
    return vectors * (pads * all + made);
}

std::vector<TensorData> with_rows_made(const GemmShape &shape, const Machine &machine, std::vector<TensorData> inputs) {
    const auto end = inputs.begin() + static_cast<ptrdiff_t>(shape.a_tensors());
    TensorData a = shape.inner ? gemm_host(*shape.inner, machine, {inputs.begin(), end})
                               : shape.prologue->host_result(machine, {inputs.begin(), end}).at(0);
    inputs.erase(inputs.begin() + 1, end);
    inputs[0] = std::move(a);
    return inputs;
}

ExactRows exact_rows(const GemmShape &shape, std::vector<TensorData> inputs) {
    const auto end = inputs.begin() + static_cast<ptrdiff_t>(shape.a_tensors());
    const Reference reference = shape.inner ? gemm_reference(*shape.inner, {inputs.begin(), end})
                                            : shape.prologue->reference({inputs.begin(), end}).at(0);
    ExactRows rows;
    TensorData a;
    // Half a unit more for the rounding here; a unit is at most two of the smallest of its binade.
    const double units = 2 * ulp * ((shape.inner ? gemm_tolerance_ulps(*shape.inner) : shape.prologue->tolerance_ulps()) + 0.5);
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
            for (size_t j = 0; j < n; j++)
                errors[j] +=
                    rows.errors[i * k + q] *
                    std::abs(static_cast<double>(bf16_float(rows.inputs[1][shape.b_transposed ? j * k + q : q * n + j])));
        for (size_t j = 0; j < n; j++) product.peaks[i * n + j] += std::abs(shape.alpha) * errors[j] / (ulp * product_ulps);
    }
}

}  // namespace atalla
