#include "generators/reduce.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "generators/vocabulary.h"
#include "isa/error.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

constexpr int lanes = 32;
constexpr float infinity = std::numeric_limits<float>::infinity();

// As many sums or extrema side by side as hide the latency of the adder.
int accumulators_of(int64_t terms) {
    constexpr int most = 8;
    return terms >= 2 * most ? most : 1;
}

class ReduceKernel {
public:
    ReduceKernel(const ReduceShape &shape, const Machine &machine, const Point &point)
        : shape_(shape), machine_(machine), rows_(static_cast<int>(point["rows"])), chunk_(static_cast<int>(point["chunk"])),
          row_unroll_(static_cast<int>(point["row_unroll"])), vector_unroll_(static_cast<int>(point["vector_unroll"])), length_(static_cast<int>(shape.length)),
          kept_(static_cast<int>(shape.kept)), other_(static_cast<int>(shape.other)), outer_(static_cast<int>(shape.outer)) {}

    KernelDefinition run() { return shape_.along_lanes ? rows() : columns(); }

private:
    Expr better(Expr a, Expr b) const {
        return shape_.kind == Reduction::Amax ? strict_float(max(std::move(a), std::move(b))) : strict_float(min(std::move(a), std::move(b)));
    }
    float worst() const { return shape_.kind == Reduction::Amax ? -infinity : infinity; }
    Expr scaled(Expr sum) const {
        if (shape_.divisor == 1) return sum;
        return strict_float(std::move(sum) * static_cast<float>(1 / shape_.divisor));
    }

    // ---- the innermost axis is reduced: a row of lanes becomes one value

    KernelDefinition rows() {
        const int vectors = static_cast<int>(shape_.vectors());
        ImageParam x = tensor("X", {shape_.length, shape_.kept, shape_.other, shape_.outer});
        xs_ = Func("X_rows");
        if (length_ % lanes == 0) {
            xs_(n, i, r, j) = x(n, i, r, j);
        } else {
            xs_(n, i, r, j) = bf16(shape_.extremum() ? worst() : 0.0f);
            xs_(n, i, r, j) = select(n < length_, x(min(n, length_ - 1), i, r, j), undef<BFloat>());
        }
        Func result("result");
        const RDom all(0, vectors, 0, other_, "all"), depth(0, lanes, "q");
        ones_(k, w) = bf16(1.0f);
        if (shape_.extremum()) {
            const RDom lane(0, lanes, "e");
            const Func best("best"), value("value"), powers("powers");
            Func b = best, v = value, e = powers;
            b(l, i, j) = bf16(worst());
            b(l, i, j) = better(xs_(all.x * lanes + l, i, all.y, j), b(l, i, j));
            v(i, j) = worst();
            v(i, j) = shape_.kind == Reduction::Amax ? max(v(i, j), f32(b(lane, i, j))) : min(v(i, j), f32(b(lane, i, j)));
            // Not a number if and only if an element is none: exponentials are never of two signs.
            e(n, i, r, j) = machine_exp(xs_(n, i, r, j));
            Total nan = total("nan", e, all, depth);
            result(l, i, j) = select(strict_float(bf16(nan.sum(i, j)) == bf16(nan.sum(i, j))), bf16(v(i, j)), bf16(nan.sum(i, j)));
            schedule_rows(result, x);
            b.compute_at(result, row_).vectorize(l, lanes).bound_extent(l, lanes).update().vectorize(l, lanes).reorder(l, all.x, all.y);
            unroll(b, all.x, vectors);
            v.compute_at(result, row_).update().atomic().vectorize(lane, lanes);
            schedule_total(nan, all, result, vectors);
            e.compute_at(nan.at).vectorize(n, lanes);
            in_registers({b, v, e});
        } else if (shape_.kind == Reduction::Var) {
            Total sum = total("sum", xs_, all, depth);
            Func mean("mean"), square("square");
            mean(i, j) = strict_float(sum.sum(i, j) * static_cast<float>(1.0 / static_cast<double>(shape_.count())));
            const Expr centred = strict_float(xs_(n, i, r, j) - bf16(mean(i, j)));
            const Expr squared = strict_float(centred * centred);
            square(n, i, r, j) = length_ % lanes == 0 ? squared : select(n < length_, squared, bf16(0.0f));
            const RDom again(0, vectors, 0, other_, "again"), deep(0, lanes, "p");
            Total squares = total("squares", square, again, deep);
            result(l, i, j) = bf16(scaled(squares.sum(i, j)));
            schedule_rows(result, x);
            schedule_total(sum, all, result, vectors);
            mean.compute_at(result, row_);
            schedule_total(squares, again, result, vectors);
            square.compute_at(squares.at).vectorize(n, lanes);
            in_registers({mean, square});
        } else {
            Total sum = total("sum", xs_, all, depth);
            result(l, i, j) = bf16(scaled(sum.sum(i, j)));
            schedule_rows(result, x);
            schedule_total(sum, all, result, vectors);
        }
        ones_.compute_root().vectorize(k, lanes).bound(k, 0, lanes).bound(w, 0, lanes);
        in_registers({ones_});
        fix_shape(out_.output_buffer(), {shape_.kept, shape_.outer});
        KernelDefinition kernel;
        kernel.pipeline = Pipeline(out_);
        kernel.arguments = {x};
        kernel.inputs = {{"X", {shape_.length, shape_.kept, shape_.other, shape_.outer}}};
        kernel.outputs = {{"Y", {shape_.kept, shape_.outer}}};
        return kernel;
    }

    struct Total {
        Func part, block, sum;
        RDom depth;
        LoopLevel at;
    };

    Total total(const std::string &name, Func values, const RDom &all, const RDom &depth) {
        Total t{Func(name + "_part"), Func(name + "_block"), Func(name), depth, LoopLevel()};
        t.part(l, b, i, r, j) = 0.0f;
        t.part(l, b, i, r, j) += f32(values(b * lanes + depth, i, r, j)) * f32(ones_(depth, l));
        t.block(l, b, i, r, j) = bf16(t.part(l, b, i, r, j));
        t.sum(i, j) = -0.0f;
        t.sum(i, j) = strict_float(t.sum(i, j) + f32(t.block(0, all.x, i, all.y, j)));
        return t;
    }

    void unroll(Func f, const RVar &over, int count) {
        if (vector_unroll_ > 1) f.update().split(over, RVar("ro"), RVar("r_unroll"), std::min(vector_unroll_, count));
    }

    void schedule_total(Total &t, const RDom &all, Func result, int vectors) {
        t.sum.compute_at(result, row_);
        unroll(t.sum, all.x, vectors);
        t.at = vector_unroll_ > 1 ? LoopLevel(t.sum, RVar("r_unroll")) : LoopLevel(t.sum, all.x);
        t.block.compute_at(t.at).bound_extent(l, lanes).vectorize(l, lanes);
        t.part.compute_at(t.at).vectorize(l, lanes).update().reorder(t.depth, l).atomic().vectorize(l, lanes).vectorize(t.depth, lanes);
        in_registers({t.part, t.block, t.sum});
    }

    void schedule_rows(Func result, const ImageParam &) {
        const Var io("io"), ii("ii"), iu("i_unroll");
        out_(i, j) = result(0, i, j);
        out_.bound(i, 0, kept_).bound(j, 0, outer_).split(i, io, ii, rows_, TailStrategy::ShiftInwards);
        const bool ring = kept_ > rows_ && machine_.timed();
        result.compute_at(out_, io).bound_extent(l, lanes).vectorize(l, lanes).bound_storage(i, rows_);
        xs_.compute_at(out_, io).bound_extent(n, lanes * static_cast<int>(shape_.vectors())).bound_storage(i, rows_);
        if (xs_.num_update_definitions() > 0) xs_.vectorize(n, lanes);
        if (ring) {
            result.hoist_storage_root().ring_buffer(2);
            xs_.hoist_storage_root().ring_buffer(2);
        }
        row_ = i;
        if (row_unroll_ > 1) {
            result.split(i, i, iu, row_unroll_);
            row_ = iu;
        }
        in_pads({xs_, result});
        whole_loops(out_);
    }

    // ---- the innermost axis is kept: lanes are results

    KernelDefinition columns() {
        const int width = static_cast<int>(shape_.lanes), side = accumulators_of(length_);
        const int steps = (length_ + side - 1) / side;
        ImageParam x = tensor("X", {shape_.lanes, shape_.length, shape_.kept, shape_.other, shape_.outer});
        xs_ = Func("X_rows");
        // Rows that are not there, so that every accumulator has as many, change none.
        const bool filled = steps * side != length_, narrow = width % lanes != 0;
        const Expr there = x(narrow ? min(n, width - 1) : Expr(n), filled ? min(y, length_ - 1) : Expr(y), i, r, j);
        if (filled) xs_(n, y, i, r, j) = bf16(shape_.extremum() ? worst() : -0.0f);
        if (filled || narrow) xs_(n, y, i, r, j) = select(n < width && y < length_, there, undef<BFloat>());
        else xs_(n, y, i, r, j) = there;

        const RDom all(0, steps, 0, other_, "all"), again(0, steps, 0, other_, "again");
        Func part("part"), result("result");
        const Expr element = xs_(n, all.x * side + u, i, all.y, j);
        if (shape_.extremum()) {
            part(n, u, i, j) = bf16(worst());
            const Expr found = better(element, part(n, u, i, j));
            part(n, u, i, j) = select(strict_float(element != element), element, found);
        } else {
            part(n, u, i, j) = bf16(-0.0f);
            part(n, u, i, j) = strict_float(part(n, u, i, j) + element);
        }
        Func squares("squares"), mean("mean");
        if (shape_.kind == Reduction::Var) {
            mean(n, i, j) = strict_float(tree(part, side) * bf16(static_cast<float>(1.0 / static_cast<double>(shape_.count()))));
            const Expr centred = strict_float(xs_(n, again.x * side + u, i, again.y, j) - mean(n, i, j));
            Expr squared = strict_float(centred * centred);
            if (filled) squared = select(again.x * side + u < length_, squared, bf16(-0.0f));
            squares(n, u, i, j) = bf16(-0.0f);
            squares(n, u, i, j) = strict_float(squares(n, u, i, j) + squared);
            result(n, i, j) = strict_float(tree(squares, side) * bf16(static_cast<float>(1 / shape_.divisor)));
        } else {
            const Expr sum = tree(part, side);
            result(n, i, j) = shape_.divisor == 1 ? sum : strict_float(sum * bf16(static_cast<float>(1 / shape_.divisor)));
        }
        out_(n, i, j) = result(n, i, j);

        const Var no("no"), ni("ni"), v("v"), vi("vi");
        const int block = std::min(rows_, static_cast<int>(shape_.vectors())), blocks = (static_cast<int>(shape_.vectors()) + block - 1) / block;
        // The last block begins earlier, at whole vectors where the row has any left over.
        const bool whole = width % lanes == 0 || blocks == 1;
        out_.bound(n, 0, width).bound(i, 0, kept_).bound(j, 0, outer_);
        out_.split(n, no, ni, blocks == 1 ? width : lanes * block, whole ? TailStrategy::ShiftInwards : TailStrategy::GuardWithIf).reorder(ni, no, i, j);
        const bool ring = machine_.timed() && (blocks > 1 || kept_ > 1 || outer_ > 1);
        const Var inner = blocks > 1 ? no : i;
        for (Func f : {xs_, result}) {
            f.compute_at(out_, blocks > 1 ? no : i).bound_extent(n, lanes * block);
            if (ring && (blocks > 1 || kept_ > 1)) f.hoist_storage_root().ring_buffer(2);
        }
        static_cast<void>(inner);
        xs_.bound_extent(y, steps * side);
        if (xs_.num_update_definitions() > 0 && filled) xs_.vectorize(n, lanes);
        result.split(n, v, vi, lanes).vectorize(vi);
        for (Func f : {part, squares}) {
            if (!f.defined()) continue;
            f.compute_at(result, v).vectorize(n, lanes).bound_extent(u, side);
            const RDom &over = f.name() == part.name() ? all : again;
            f.update().reorder(n, u, over.x, over.y).vectorize(n, lanes);
            if (vector_unroll_ > 1) f.update().split(over.x, RVar("ro"), RVar("r_unroll"), std::min(vector_unroll_, steps)).reorder(n, u, RVar("r_unroll"), RVar("ro"), over.y);
            in_registers({f});
        }
        if (mean.defined()) {
            mean.compute_at(result, v).vectorize(n, lanes);
            in_registers({mean});
        }
        in_pads({xs_, result});
        whole_loops(out_);
        fix_shape(out_.output_buffer(), {shape_.lanes, shape_.kept, shape_.outer});
        KernelDefinition kernel;
        kernel.pipeline = Pipeline(out_);
        kernel.arguments = {x};
        kernel.inputs = {{"X", {shape_.lanes, shape_.length, shape_.kept, shape_.other, shape_.outer}}};
        kernel.outputs = {{"Y", {shape_.lanes, shape_.kept, shape_.outer}}};
        return kernel;
    }

    // The accumulators together, in pairs.
    Expr tree(Func parts, int side) {
        std::vector<Expr> terms;
        for (int a = 0; a < side; a++) terms.push_back(parts(n, a, i, j));
        const auto both = [&](Expr a, Expr b) {
            if (!shape_.extremum()) return strict_float(std::move(a) + std::move(b));
            return select(strict_float(a != a), a, better(a, b));
        };
        while (terms.size() > 1) {
            for (size_t a = 0; a < terms.size() / 2; a++) terms[a] = both(terms[2 * a], terms[2 * a + 1]);
            terms.resize(terms.size() / 2);
        }
        return terms[0];
    }

    const ReduceShape &shape_;
    const Machine &machine_;
    int rows_, chunk_, row_unroll_, vector_unroll_, length_, kept_, other_, outer_;
    Var n{"n"}, y{"y"}, u{"u"}, l{"l"}, i{"i"}, r{"r"}, j{"j"}, b{"b"}, k{"k"}, w{"w"};
    Var row_{"i"};
    Func xs_, out_{"Y"}, ones_{"ones"};
};

}  // namespace

KernelDefinition reduce_kernel(const ReduceShape &shape, const Machine &machine, const Point &point) { return ReduceKernel(shape, machine, point).run(); }

}  // namespace atalla
