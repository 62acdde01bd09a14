#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "generators/reduce_kernel.h"
#include "generators/vocabulary.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

class ReduceAcrossLanes : ReduceKernel {
public:
    using ReduceKernel::ReduceKernel;

    KernelDefinition run() {
        const int width = static_cast<int>(shape_.lanes), side = accumulators_of(length_);
        const int steps = static_cast<int>(shape_.steps());
        image_ = tensor("X", {shape_.lanes, shape_.length, shape_.kept, shape_.other, shape_.outer});
        // Rows that are not there, so that every accumulator has as many, change none.
        const int block = std::min(rows_, static_cast<int>(shape_.vectors())),
                  blocks = (static_cast<int>(shape_.vectors()) + block - 1) / block;
        // The last of several blocks begins earlier and makes some results again, so that all are alike.
        const bool filled = steps * side != length_, narrow = width % lanes != 0 && blocks == 1, parts = chunk_ != 0;
        const auto rows_of_tensor = [&](const std::string &name) {
            Func xs(name);
            const Expr there = image_(narrow ? min(n, width - 1) : Expr(n), filled ? min(y, length_ - 1) : Expr(y), i, r, j);
            if (filled) xs(n, y, i, r, j) = bf16(shape_.extremum() ? worst() : -0.0f);
            if (filled || narrow)
                xs(n, y, i, r, j) = select(n < width && y < length_, there, undef<BFloat>());
            else
                xs(n, y, i, r, j) = there;
            return xs;
        };
        const Func xs = rows_of_tensor("X_rows");

        // What runs along the steps of results, with the rows that each run has in the pads.
        struct Running {
            std::vector<SummingFunc> funcs;
            std::vector<Func> rows;
        };
        Func part("part"), result("result");
        std::vector<Running> all(1);
        const auto sum_of = [&](Running &running, const Func &sum,
                                const std::function<Expr(const Func &, const Expr &, const Expr &)> &term) {
            running.funcs = summing_funcs(sum, {n, u, i, j}, shape_.in_a_row(), [&](size_t run) -> SumTerm {
                const bool first = run == 0 && &running == &all.front();
                running.rows.push_back(first || !parts ? xs : rows_of_tensor(fmt::format("{}_{}", sum.name(), run)));
                return [&term, rows = running.rows.back()](const Expr &step, const Expr &plane) {
                    return term(rows, step, plane);
                };
            });
        };
        if (shape_.extremum()) {
            const RDom terms(0, steps, 0, other_, "all");
            define_extrema(
                part, [&](const Expr &at) -> Expr { return xs(n, terms.x * side + at, i, terms.y, j); }, side);
            all[0] = {{{part, shape_.in_a_row(), terms}}, {xs}};
        } else {
            sum_of(all[0], part, [&](const Func &rows, const Expr &step, const Expr &plane) {
                return rows(n, step * side + u, i, plane, j);
            });
        }
        Func squares("squares"), mean("mean");
        if (shape_.kind == Reduction::Var) {
            mean(n, i, j) =
                strict_float(tree(part, side) * bf16(static_cast<float>(1.0 / static_cast<double>(shape_.count()))));
            sum_of(all.emplace_back(), squares, [&](const Func &rows, const Expr &step, const Expr &plane) {
                const Expr centred = strict_float(rows(n, step * side + u, i, plane, j) - mean(n, i, j)),
                           squared = strict_float(centred * centred);
                return filled ? select(step * side + u < length_, squared, bf16(-0.0f)) : squared;
            });
            result(n, i, j) = strict_float(tree(squares, side) * bf16(static_cast<float>(1 / shape_.divisor)));
        } else {
            const Expr all_sides = tree(part, side);
            if (marks_of(side) > 0) {
                const Expr mark = strict_float(part(n, side, i, j) + part(n, side + 1, i, j));
                result(n, i, j) = select(strict_float(mark == mark), all_sides, mark);
            } else {
                result(n, i, j) =
                    shape_.divisor == 1 ? all_sides : strict_float(all_sides * bf16(static_cast<float>(1 / shape_.divisor)));
            }
        }
        out_(n, i, j) = result(n, i, j);

        const Var no(unchecked_ ? "no_unchecked" : "no"), ni("ni"), v("v"), vi("vi");
        out_.bound(n, 0, width).bound(i, 0, kept_).bound(j, 0, outer_);
        out_.split(n, no, ni, blocks == 1 ? width : lanes * block, TailStrategy::ShiftInwards).reorder(ni, no, i, j);
        const bool ring = machine_.timed() && (blocks > 1 || kept_ > 1 || outer_ > 1);
        const auto in_block = [&](Func f) {
            f.compute_at(out_, blocks > 1 ? no : i);
            if (ring && (blocks > 1 || kept_ > 1)) f.hoist_storage_root().ring_buffer(2);
        };
        in_block(result);
        result.bound_extent(n, lanes * block).split(n, v, vi, lanes).vectorize(vi);
        for (Running &running : all) {
            size_t run = 0;
            for (SummingFunc &one : running.funcs) {
                one.sum.compute_at(one.place(running.funcs, LoopLevel(result, v)))
                    .vectorize(n, lanes)
                    .bound_extent(u, side + marks_of(side));
                in_registers({one.sum});
                if (marks_of(side) > 0) {
                    one.sum.unroll(u);
                    one.sum.update().unroll(u);
                }
                if (one.of.in_groups()) {
                    one.sum.update().reorder(n, u, one.terms.x).vectorize(n, lanes);
                    if (one.of.rest) one.sum.update(1).reorder(n, u).vectorize(n, lanes);
                    continue;
                }
                const RVar chunks("chunks"), inside("inside"), step("step"), unrolled("r_unroll");
                const int steps_of_run = static_cast<int>(one.of.steps),
                          chunk = parts ? std::gcd(chunk_, steps_of_run) : steps_of_run,
                          unroll = std::gcd(vector_unroll_, chunk);
                std::vector<VarOrRVar> order = {n, u, inside, chunks};
                if (one.terms.dimensions() > 1) order.emplace_back(one.terms.y);
                one.sum.update().split(one.terms.x, chunks, inside, chunk).reorder(order).vectorize(n, lanes);
                if (unroll > 1) one.sum.update().split(inside, step, unrolled, unroll).reorder(n, u, unrolled, step, chunks);
                Func &rows = running.rows[run];
                if (parts)
                    rows.compute_at(one.sum, chunks).bound_extent(n, lanes).bound_extent(y, chunk * side);
                else if (run == 0 && &running == &all.front())
                    in_block(rows.bound_extent(n, lanes * block).bound_extent(y, steps * side));
                run++;
                if (!parts && (run > 1 || &running != &all.front())) continue;
                if (filled) rows.vectorize(n, lanes);
                in_pads({rows});
            }
        }
        if (mean.defined()) {
            mean.compute_at(result, v).vectorize(n, lanes);
            in_registers({mean});
        }
        in_pads({result});
        return finish({shape_.lanes, shape_.kept, shape_.outer});
    }

private:
    // What runs beside the extrema of each side and is NaN if an element was.
    int marks_of(int side) const { return shape_.extremum() && side > 1 && !unchecked_ ? 2 : 0; }

    // The running extremum of each side, and behind them their marks.
    void define_extrema(Func part, const std::function<Expr(const Expr &)> &element, int side) {
        if (marks_of(side) == 0) {
            part(n, u, i, j) = bf16(worst());
            part(n, u, i, j) = keeping_nan(element(u), part(n, u, i, j));
            return;
        }
        // Comparisons pass NaN over. An exponential is NaN if its element is, else from 0 to infinity, so that a sum of some
        // never subtracts infinities; the exponential of that is from 1 to infinity, so that a product of some never has a zero
        // with an infinity. Half of the elements are in the one, half in the other, since the lanes that compare also add and
        // those that copy also multiply.
        part(n, u, i, j) = select(u < side, bf16(worst()), bf16(1.0f));
        Expr sum = part(n, u, i, j), product = part(n, u, i, j);
        for (int a = 0; a < side; a += 2) {
            sum = strict_float(sum + machine_exp(element(a)));
            product = strict_float(product * machine_exp(machine_exp(element(a + 1))));
        }
        part(n, u, i, j) = select(u < side, better(element(min(u, side - 1)), part(n, u, i, j)), u == side, sum, product);
    }

    // The accumulators together, in pairs.
    Expr tree(Func parts, int side) {
        std::vector<Expr> terms;
        for (int a = 0; a < side; a++) terms.push_back(parts(n, a, i, j));
        const auto both = [&](Expr a, Expr b) {
            if (!shape_.extremum()) return strict_float(std::move(a) + std::move(b));
            return unchecked_ ? keeping_nan(a, b) : better(std::move(a), std::move(b));
        };
        while (terms.size() > 1) {
            for (size_t a = 0; a < terms.size() / 2; a++) terms[a] = both(terms[2 * a], terms[2 * a + 1]);
            terms.resize(terms.size() / 2);
        }
        return terms[0];
    }

    Var y{"y"};
};

}  // namespace

KernelDefinition reduce_across_lanes(const ReduceShape &shape, const Machine &machine, const Point &point) {
    return ReduceAcrossLanes(shape, machine, point).run();
}

}  // namespace atalla
