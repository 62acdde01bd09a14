#include "generators/row_kernel.h"

#include <algorithm>
#include <limits>

#include "generators/vocabulary.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

constexpr int lanes = 32;

}  // namespace

RowKernel::RowKernel(const RowShape &shape, const Machine &machine, const Point &point, std::string name)
    : machine_(machine), rows_(static_cast<int>(shape.rows)), length_(static_cast<int>(shape.length)), vectors_(static_cast<int>(shape.vectors())),
      block_(static_cast<int>(std::min(point["rows"], shape.rows))), row_unroll_(static_cast<int>(point["row_unroll"])),
      vector_unroll_(static_cast<int>(point["vector_unroll"])), out_(std::move(name)) {
    ones_(k_, w_) = bf16(1.0f);
}

Func RowKernel::rows_of(const std::string &name, std::optional<float> beyond) {
    Input input{tensor(name, {length_, rows_}), Func(name + "_rows")};
    if (length_ % lanes == 0) {
        input.rows(n, m) = input.param(n, m);
    } else {
        if (beyond) input.rows(n, m) = bf16(*beyond);
        input.rows(n, m) = select(n < length_, input.param(min(n, length_ - 1), m), undef<BFloat>());
    }
    inputs_.push_back(input);
    return input.rows;
}

Func RowKernel::row_of(const std::string &name) {
    Input input{tensor(name, {length_}), Func(name + "_row"), true};
    input.rows(n) = length_ % lanes == 0 ? Expr(input.param(n)) : select(n < length_, input.param(min(n, length_ - 1)), undef<BFloat>());
    inputs_.push_back(input);
    return input.rows;
}

void RowKernel::each(Func step) { each_.push_back(std::move(step)); }
void RowKernel::single(Func step) { single_.push_back(std::move(step)); }
void RowKernel::lanes_of(Func step, Var lane) { lanes_.emplace_back(std::move(step), std::move(lane)); }

Func RowKernel::sum(const std::string &name, Func values) {
    Sum s{Func(name + "_part"), Func(name + "_block"), Func(name), Var("l"), RDom(0, lanes, name + "_q"), RDom(0, vectors_, name + "_r")};
    Var b("b");
    s.part(s.lane, m, b) = 0.0f;
    s.part(s.lane, m, b) += f32(values(b * lanes + s.depth, m)) * f32(ones_(s.depth, s.lane));
    s.block(s.lane, m, b) = bf16(s.part(s.lane, m, b));
    s.total(m) = -0.0f;
    s.total(m) = strict_float(s.total(m) + f32(s.block(0, m, s.blocks)));
    sums_.push_back(s);
    return s.total;
}

Func RowKernel::largest(const std::string &name, Func values) {
    Extremum x{Func(name + "_lanes"), Func(name), Var("l"), vectors_ > 1 ? RDom(1, vectors_ - 1, name + "_r") : RDom(), RDom(0, lanes, name + "_q")};
    x.lanes(x.lane, m) = values(x.lane, m);
    if (vectors_ > 1) x.lanes(x.lane, m) = strict_float(max(values(x.rest * lanes + x.lane, m), x.lanes(x.lane, m)));
    // In float32: Halide's JIT has no maximum of bf16 lanes.
    x.value(m) = -std::numeric_limits<float>::infinity();
    x.value(m) = max(x.value(m), f32(x.lanes(x.all, m)));
    extrema_.push_back(x);
    return x.value;
}

KernelDefinition RowKernel::finish(Func result) {
    Var mo("mo"), mi("mi"), mu("m_unroll"), nu("n_unroll");
    out_(n, m) = result(n, m);
    out_.bound(n, 0, length_).bound(m, 0, rows_).split(m, mo, mi, block_, TailStrategy::ShiftInwards);
    const bool ring = rows_ > block_ && machine_.timed();
    const auto in_block = [&](Func rows) {
        rows.compute_at(out_, mo).bound_extent(n, padded()).bound_storage(m, block_);
        if (ring) rows.hoist_storage_root().ring_buffer(2);
        in_pads({rows});
    };
    const auto unroll_vectors = [&](Func step) {
        if (vector_unroll_ > 1) step.split(n, n, nu, lanes * vector_unroll_).vectorize(nu, lanes);
        else step.vectorize(n, lanes);
    };
    static_cast<void>(unroll_vectors);
    for (Input &input : inputs_) {
        if (input.one_row) {
            input.rows.compute_root().bound(n, 0, padded());
            in_pads({input.rows});
            continue;
        }
        in_block(input.rows);
        if (input.rows.num_update_definitions() > 0) input.rows.vectorize(n, lanes);
    }
    in_block(result);
    Var row = m;
    if (row_unroll_ > 1) {
        result.split(m, m, mu, row_unroll_);
        row = mu;
    }
    // The vectors of a row: a loop, or straight-line code.
    const Var no("no"), ni("ni"), nun("n_unroll");
    const auto over_vectors = [&](Func step) {
        step.split(n, no, ni, lanes).vectorize(ni);
        if (vector_unroll_ > 1) step.split(no, no, nun, std::min(vector_unroll_, vectors_));
    };
    over_vectors(result);
    for (Func step : each_) {
        step.compute_at(result, row);
        over_vectors(step);
        if (unrolled()) in_registers({step});
        else in_pads({step});
    }
    for (Func step : single_) {
        step.compute_at(result, row);
        in_registers({step});
    }
    for (auto &[step, lane] : lanes_) {
        step.compute_at(result, row).vectorize(lane, lanes);
        in_registers({step});
    }
    for (Sum &s : sums_) {
        s.total.compute_at(result, row);
        if (vector_unroll_ > 1) {
            RVar ro("ro"), ru("r_unroll");
            s.total.update().split(s.blocks, ro, ru, std::min(vector_unroll_, vectors_));
        }
        const LoopLevel at = vector_unroll_ > 1 ? LoopLevel(s.total, RVar("r_unroll")) : LoopLevel(s.total, s.blocks);
        s.block.compute_at(at).bound_extent(s.lane, lanes).vectorize(s.lane, lanes);
        s.part.compute_at(at).vectorize(s.lane, lanes).update().reorder(s.depth, s.lane).atomic().vectorize(s.lane, lanes).vectorize(s.depth, lanes);
        in_registers({s.part, s.block, s.total});
    }
    for (Extremum &x : extrema_) {
        x.value.compute_at(result, row).update().atomic().vectorize(x.all, lanes);
        x.lanes.compute_at(result, row).bound_extent(x.lane, lanes).vectorize(x.lane, lanes);
        if (vectors_ > 1) {
            x.lanes.update().vectorize(x.lane, lanes);
            if (vector_unroll_ > 1) {
                RVar ro("ro"), ru("r_unroll");
                x.lanes.update().split(x.rest, ro, ru, std::min(vector_unroll_, vectors_ - 1), TailStrategy::GuardWithIf);
            }
        }
        in_registers({x.lanes, x.value});
    }
    if (!sums_.empty()) {
        ones_.compute_root().vectorize(k_, lanes).bound(k_, 0, lanes).bound(w_, 0, lanes);
        in_registers({ones_});
    }
    whole_loops(out_);
    fix_shape(out_.output_buffer(), {length_, rows_});

    KernelDefinition kernel;
    kernel.pipeline = Pipeline(out_);
    for (const Input &input : inputs_) {
        kernel.arguments.push_back(input.param);
        kernel.inputs.push_back({input.param.name(), {length_}});
        if (!input.one_row) kernel.inputs.back().extents.push_back(rows_);
    }
    kernel.outputs = {{out_.name(), {length_, rows_}}};
    return kernel;
}

}  // namespace atalla
