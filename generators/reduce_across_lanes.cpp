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
    ReduceAcrossLanes(const ReduceShape &shape, const Machine &machine, const Point &point)
        : ReduceKernel(shape, machine, point),
          width_(size(shape.lanes)),
          side_(accumulators_of(length_)),
          steps_(size(shape.steps())),
          block_(std::min(rows_, size(shape.vectors()))),
          blocks_(ceil_div(size(shape.vectors()), block_)),
          filled_(steps_ * side_ != length_),
          narrow_(width_ % lanes != 0 && blocks_ == 1) {
        image_ = tensor("X", {shape.lanes, shape.length, shape.kept, shape.other, shape.outer});
    }

    KernelDefinition run() {
        xs_ = rows_of_tensor("X_rows");
        if (shape_.extremum())
            find_extrema();
        else
            sum_elements();
        if (shape_.kind == Reduction::Var)
            sum_squares();
        else
            make_result();
        out_(n, i, j) = result_(n, i, j);
        loop_over_blocks();
        for (Running &running : all_) run_along_steps(running);
        if (mean_.defined()) {
            mean_.compute_at(result_, v_).vectorize(n, lanes);
            in_registers({mean_});
        }
        in_pads({result_});
        return finish({shape_.lanes, shape_.kept, shape_.outer});
    }

private:
    // What runs along the steps of results, with the rows that each run has in the pads.
    struct Running {
        std::vector<SummingFunc> funcs;
        std::vector<Func> rows;
    };

    // ---- algorithm

    // Rows that are not there, so that every accumulator has as many, change none.
    Func rows_of_tensor(const std::string &name) const {
        Func xs(name);
        const Expr there = image_(narrow_ ? min(n, width_ - 1) : Expr(n), filled_ ? min(y, length_ - 1) : Expr(y), i, r, j);
        if (filled_) xs(n, y, i, r, j) = bf16(shape_.extremum() ? worst() : -0.0f);
        if (filled_ || narrow_)
            xs(n, y, i, r, j) = select(n < width_ && y < length_, there, undef<BFloat>());
        else
            xs(n, y, i, r, j) = there;
        return xs;
    }

    void find_extrema() {
        const RDom terms(0, steps_, 0, other_, "all");
        define_extrema(part_, [&](const Expr &at) -> Expr { return xs_(n, terms.x * side_ + at, i, terms.y, j); });
        all_.push_back({{{part_, shape_.in_a_row(), terms}}, {xs_}});
    }

    // The first of all is of the rows that are there; where they come in parts, others bring their own.
    void sum_of(const Func &sum, const std::function<Expr(const Func &, const Expr &, const Expr &)> &term) {
        const bool first = all_.empty();
        Running &running = all_.emplace_back();
        running.funcs = summing_funcs(sum, {n, u, i, j}, shape_.in_a_row(), [&](size_t run) -> SumTerm {
            const bool there = whole() || (first && run == 0);
            running.rows.push_back(there ? xs_ : rows_of_tensor(fmt::format("{}_{}", sum.name(), run)));
            return [&term, rows = running.rows.back()](const Expr &step, const Expr &plane) { return term(rows, step, plane); };
        });
    }
    void sum_elements() {
        sum_of(part_,
               [&](const Func &rows, const Expr &step, const Expr &plane) { return rows(n, step * side_ + u, i, plane, j); });
    }
    void sum_squares() {
        mean_(n, i, j) = strict_float(tree(part_) * bf16(static_cast<float>(1.0 / static_cast<double>(shape_.count()))));
        const Func squares("squares");
        sum_of(squares, [&](const Func &rows, const Expr &step, const Expr &plane) {
            const Expr centred = strict_float(rows(n, step * side_ + u, i, plane, j) - mean_(n, i, j)),
                       squared = strict_float(centred * centred);
            return filled_ ? select(step * side_ + u < length_, squared, bf16(-0.0f)) : squared;
        });
        result_(n, i, j) = strict_float(tree(squares) * bf16(static_cast<float>(1 / shape_.divisor)));
    }

    void make_result() {
        const Expr all_sides = tree(part_);
        if (marks() > 0) {
            const Expr mark = strict_float(part_(n, side_, i, j) + part_(n, side_ + 1, i, j));
            result_(n, i, j) = select(strict_float(mark == mark), all_sides, mark);
        } else {
            result_(n, i, j) =
                shape_.divisor == 1 ? all_sides : strict_float(all_sides * bf16(static_cast<float>(1 / shape_.divisor)));
        }
    }

    // What runs beside the extrema of each side and is NaN if an element was.
    int marks() const { return shape_.extremum() && side_ > 1 && !unchecked_ ? 2 : 0; }

    // The running extremum of each side, and behind them their marks.
    void define_extrema(Func part, const std::function<Expr(const Expr &)> &element) {
        if (marks() == 0) {
            part(n, u, i, j) = bf16(worst());
            part(n, u, i, j) = keeping_nan(element(u), part(n, u, i, j));
            return;
        }
        // Comparisons pass NaN over. An exponential is NaN if its element is, else from 0 to infinity, so that a sum of some
        // never subtracts infinities; the exponential of that is from 1 to infinity, so that a product of some never has a zero
        // with an infinity. Half of the elements are in the one, half in the other, since the lanes that compare also add and
        // those that copy also multiply.
        part(n, u, i, j) = select(u < side_, bf16(worst()), bf16(1.0f));
        Expr sum = part(n, u, i, j), product = part(n, u, i, j);
        for (int a = 0; a < side_; a += 2) {
            sum = strict_float(sum + machine_exp(element(a)));
            product = strict_float(product * machine_exp(machine_exp(element(a + 1))));
        }
        part(n, u, i, j) = select(u < side_, better(element(min(u, side_ - 1)), part(n, u, i, j)), u == side_, sum, product);
    }

    // The accumulators together, in pairs.
    Expr tree(Func parts) const {
        std::vector<Expr> terms;
        for (int a = 0; a < side_; a++) terms.push_back(parts(n, a, i, j));
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

    // ---- loops

    // The last of several blocks begins earlier and makes some results again, so that all are alike.
    void loop_over_blocks() {
        const Var ni("ni"), vi("vi");
        out_.bound(n, 0, width_).bound(i, 0, kept_).bound(j, 0, outer_);
        out_.split(n, no_, ni, blocks_ == 1 ? width_ : lanes * block_, TailStrategy::ShiftInwards).reorder(ni, no_, i, j);
        hold_in_block(result_);
        result_.bound_extent(n, lanes * block_).split(n, v_, vi, lanes).vectorize(vi);
        if (!whole()) return;
        hold_in_block(xs_.bound_extent(n, lanes * block_).bound_extent(y, steps_ * side_));
        hold_rows(xs_);
    }
    void hold_in_block(Func f) {
        f.compute_at(out_, blocks_ > 1 ? no_ : i);
        if (machine_.timed() && (blocks_ > 1 || kept_ > 1)) f.hoist_storage_root().ring_buffer(2);
    }
    void hold_rows(Func rows) const {
        if (filled_) rows.vectorize(n, lanes);
        in_pads({rows});
    }

    void run_along_steps(Running &running) {
        size_t run = 0;
        for (SummingFunc &one : running.funcs) {
            one.sum.compute_at(one.place(running.funcs, LoopLevel(result_, v_)))
                .vectorize(n, lanes)
                .bound_extent(u, side_ + marks());
            in_registers({one.sum});
            if (marks() > 0) {
                one.sum.unroll(u);
                one.sum.update().unroll(u);
            }
            if (one.of.in_groups()) {
                one.sum.update().reorder(n, u, one.terms.x).vectorize(n, lanes);
                if (one.of.rest) one.sum.update(1).reorder(n, u).vectorize(n, lanes);
            } else {
                add_chunks(one, running.rows[run++]);
            }
        }
    }

    // Of the steps of a run, each with its rows where these do not come as a whole.
    void add_chunks(SummingFunc &one, Func rows) {
        const RVar chunks("chunks"), inside("inside"), step("step"), unrolled("r_unroll");
        const int steps = size(one.of.steps), chunk = whole() ? steps : std::gcd(chunk_, steps),
                  unroll = std::gcd(vector_unroll_, chunk);
        std::vector<VarOrRVar> order = {n, u, inside, chunks};
        if (one.terms.dimensions() > 1) order.emplace_back(one.terms.y);
        one.sum.update().split(one.terms.x, chunks, inside, chunk).reorder(order).vectorize(n, lanes);
        if (unroll > 1) one.sum.update().split(inside, step, unrolled, unroll).reorder(n, u, unrolled, step, chunks);
        if (whole()) return;
        rows.compute_at(one.sum, chunks).bound_extent(n, lanes).bound_extent(y, chunk * side_);
        hold_rows(rows);
    }

    const int width_, side_, steps_;
    const int block_, blocks_;  // vectors, and how many times as many
    const bool filled_, narrow_;
    Func xs_, part_{"part"}, mean_{"mean"}, result_{"result"};
    std::vector<Running> all_;
    const Var y{"y"}, no_{unchecked_ ? "no_unchecked" : "no"}, v_{"v"};
};

}  // namespace

KernelDefinition reduce_across_lanes(const ReduceShape &shape, const Machine &machine, const Point &point) {
    return ReduceAcrossLanes(shape, machine, point).run();
}

}  // namespace atalla
