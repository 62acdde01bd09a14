#include "generators/gemm_inner.h"

#include <algorithm>
#include <array>

#include "generators/gemm_plan.h"
#include "generators/gemm_space.h"
#include "isa/vectors.h"

namespace atalla {

namespace {

const std::string prefix = "inner_";

// What it decides for itself, and what both products decide together. All else is as in its naive point: there is little of it
// beside the outer one.
constexpr std::array own = {"sums_in_registers", "b_row_major", "b_resident", "weight_unroll", "row_unroll", "k_block"};
const std::string stage_all = "stage_all";
constexpr std::array shared = {"rows", "slots"};

bool is_own(std::string_view name) {
    return name.starts_with(prefix) || name.starts_with("prologue_") || std::ranges::find(own, name) != own.end();
}
bool is_shared(std::string_view name) { return std::ranges::find(shared, name) != shared.end(); }

}  // namespace

Point inner_point(const Point &point) {
    Point inner = gemm_common_point();
    for (const auto &[name, value] : point.values()) {
        if (is_shared(name))
            inner.set(name, value);
        else if (name.starts_with(prefix))
            inner.set(name.substr(prefix.size()), value);
    }
    return inner;
}

void add_inner(Space &space, const GemmShape &shape, const Machine &machine) {
    const Space inner = gemm_space(*shape.inner, machine);
    for (const Parameter &parameter : inner.parameters)
        if (is_own(parameter.name))
            (parameter.choice
                 ? space.choice(prefix + parameter.name, parameter.meaning + ", of the inner product", parameter.values)
                 : space.parameter(prefix + parameter.name, parameter.meaning + ", of the inner product", parameter.values));
    space.choice(prefix + stage_all,
                 "1: all columns of the inner product are in the pads before its epilogue begins, which is one loop for them; "
                 "0: those of a tile",
                 shape.inner->staged ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0});
    // What is about a parameter that it has not, as only an A that is an input can stay, is not about it.
    const auto has = [](const std::string &name) {
        return is_shared(name) || is_own(name) || gemm_common_point().contains(name);
    };
    for (const Constraint &constraint : inner.constraints) {
        std::vector<std::string> names;
        for (const std::string &name : constraint.parameters) {
            if (is_shared(name)) names.push_back(name);
            if (is_own(name)) names.push_back(prefix + name);
        }
        // Buffers have one for all together.
        if (names.empty() || constraint.name == "pads" || !std::ranges::all_of(constraint.parameters, has)) continue;
        // Asked very often: only what it is about is looked up.
        space.constraint(
            "inner product: " + constraint.name, names, constraint.protects,
            [names, holds = constraint.holds](const Point &point) { return holds(inner_point(point.only(names))); });
    }
    space.constraint("made once", {"m_outer"}, "Rows that a product makes are made once, for all columns.",
                     [](const Point &point) { return point["m_outer"] != 0; });
}

void set_naive_inner(Point &point, const GemmShape &shape, const Machine &machine) {
    const Point inner = gemm_naive_point(*shape.inner, machine);
    for (const auto &[name, value] : inner.values())
        if (is_own(name)) point.set(prefix + std::string(name), value);
    point.set(prefix + stage_all, 0);
}

int64_t inner_pad_rows(const GemmShape &shape, const Machine &machine, const Point &point) {
    const int64_t rows = ceil_div(std::min(point["rows"], shape.m), machine.pad.count) * machine.pad.count;
    const int64_t staged = point[prefix + stage_all] != 0 ? rows * (shape.k_tiles() - 1) : 0;  // one tile is in any case
    return gemm_pad_rows(*shape.inner, machine, inner_point(point), false) + staged + rows * shape.k_tiles();
}

}  // namespace atalla
