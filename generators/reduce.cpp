#include "generators/reduce.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "generators/pad_room.h"
#include "generators/row_sums.h"
#include "generators/vocabulary.h"
#include "isa/error.h"
#include "isa/vectors.h"
#include "simulator/numerics.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// As many sums or extrema side by side as hide the latency of the adder.
int accumulators_of(int64_t terms) {
    constexpr int most = 8;
    return terms >= 2 * most ? most : 1;
}

// Of a row whose parts are weights of the array: code of all of them, which the instruction cache holds.
constexpr int most_straight_parts = 4, most_straight_extrema = 3;

bool straight_parts(const ReduceShape &shape) {
    const int64_t parts = tiles_of(shape.vectors_in_pads() * (shape.extremum() ? shape.other : 1));
    return shape.extremum() ? parts <= most_straight_extrema
                            : parts * (shape.kind == Reduction::Var ? 2 : 1) <= most_straight_parts;
}

// May what finds NaN in a row of an extremum, or in those of all planes, be weights of the array? Of shorter rows, what the
// array leads to, which is as long, takes more time than their lanes; those of planes would be loops.
bool marks_fill_array(const ReduceShape &shape) {
    const int64_t least = shape.other > 1 ? 8 : 24;
    return shape.along_lanes && shape.extremum() && shape.vectors() * shape.other >= least && straight_parts(shape);
}

// Of an extremum along lanes, whose steps are a compare and a copy that waits for it: as many as divide the vectors of a row.
// Of many in straight-line code so many that none is under way longer than the row takes.
int extrema_of(const ReduceShape &shape) {
    const int64_t vectors = shape.vectors_in_pads();
    int side = shape.other == 1 && marks_fill_array(shape) ? 16 : 4;
    while (vectors % side != 0 || (vectors == side && side > 1)) side /= 2;
    return side;
}

// Of rows of a few vectors in several planes: planes whose vectors are all compared side by side.
int64_t planes_beside(const ReduceShape &shape) {
    constexpr int64_t few = 8, most = 16;
    const int64_t vectors = shape.vectors_in_pads();
    if (!shape.along_lanes || !shape.extremum() || shape.other == 1 || vectors > few) return 1;
    int64_t planes = most / vectors;
    while (planes > 1 && (shape.other % planes != 0 || planes == shape.other)) planes--;
    return planes;
}

// Rows that end inside a vector, and so many at a time as a row has vectors, lie by columns of vectors: a transfer brings a
// vector of many rows, where those of one row would be two transfers.
bool by_columns(const ReduceShape &shape, int64_t rows, int64_t chunk) {
    return shape.along_lanes && chunk == 0 && shape.length % lanes != 0 && rows >= shape.vectors_in_pads();
}

// Of those that are weights of the array, in straight-line code, the last part alone does.
bool ends_apart(const ReduceShape &shape, const Machine &machine, const Point &point) {
    return point["grouped"] != 0 && straight_parts(shape) && !shape.whole_vectors() && machine.timed() &&
           !by_columns(shape, point["rows"], point["chunk"]) && shape.vectors() > machine.pad.count;
}

class ReduceKernel {
public:
    ReduceKernel(const ReduceShape &shape, const Machine &machine, const Point &point)
        : shape_(shape),
          machine_(machine),
          rows_(static_cast<int>(point["rows"])),
          chunk_(static_cast<int>(point["chunk"])),
          row_unroll_(static_cast<int>(point["row_unroll"])),
          vector_unroll_(static_cast<int>(point["vector_unroll"])),
          length_(static_cast<int>(shape.length)),
          kept_(static_cast<int>(shape.kept)),
          other_(static_cast<int>(shape.other)),
          outer_(static_cast<int>(shape.outer)),
          grouped_(point["grouped"] != 0),
          ends_apart_(ends_apart(shape, machine, point)) {}

    KernelDefinition run() { return shape_.along_lanes ? rows() : columns(); }
    // Are all elements of a result in the pads at a time?
    bool whole() const { return chunk_ == 0; }
    // Does a second look at a row's elements find NaN? Those of several planes would come through the array one at a time.
    bool looks_again() const { return whole() && (other_ == 1 || grouped_); }
    bool in_parts() const { return shape_.extremum() ? grouped_ : shape_.fills_array(); }

private:
    Expr better(Expr a, Expr b) const {
        return shape_.kind == Reduction::Amax ? strict_float(max(std::move(a), std::move(b)))
                                              : strict_float(min(std::move(a), std::move(b)));
    }
    float worst() const { return shape_.kind == Reduction::Amax ? -infinity : infinity; }
    Expr scaled(Expr sum) const {
        if (shape_.divisor == 1) return sum;
        return strict_float(std::move(sum) * static_cast<float>(1 / shape_.divisor));
    }

    // ---- the innermost axis is reduced: a row of lanes becomes one value

    KernelDefinition rows() {
        const int vectors = static_cast<int>(shape_.vectors_in_pads());
        image_ = tensor("X", {shape_.length, shape_.kept, shape_.other, shape_.outer});
        const Elements xs = rows_of_tensor("X_rows");
        Func result("result");
        const RDom all(0, vectors, 0, other_, "all"), depth(0, lanes, "q");
        ones_(k, w) = bf16(1.0f);
        if (shape_.extremum()) {
            const RDom lane(0, lanes, "e");
            Func best("best"), value("value"), powers("powers");
            // Vectors of a plane, or of several, side by side. As weights, the rows of all planes are one.
            const int side = sides_of(shape_), beside = size(planes_beside(shape_)), planes = grouped_ ? 1 : other_ / beside,
                      steps = vectors * other_ / planes / side;
            const auto of_row = [=, this](const Expr &lane, const Expr &vector, const Expr &plane) {
                return other_ / planes > 1 ? xs.at(lane, vector % vectors, plane * beside + vector / vectors)
                                           : xs.at(lane, vector, plane);
            };
            // In straight-line code of several rows the first vectors are what the others are compared with; a single row takes
            // longer so.
            const int first =
                whole() && planes == 1 && steps > 1 && (grouped_ || (vector_unroll_ == steps && row_unroll_ > 1)) ? 1 : 0;
            const RDom turns(first, steps - first, 0, planes, "turns");
            best(l, u, i, j) = first > 0 ? of_row(l, u, 0) : Expr(bf16(worst()));
            const Expr element = of_row(l, turns.x * side + u, turns.y), found = better(element, best(l, u, i, j));
            // NaN stay where they are; with the row in the pads, a second look finds them for less.
            best(l, u, i, j) = looks_again() ? found : select(strict_float(element != element), element, found);
            std::vector<Expr> all_lanes;
            for (int a = 0; a < side; a++) all_lanes.push_back(best(lane, a, i, j));
            while (all_lanes.size() > 1) {
                std::vector<Expr> pairs;
                for (size_t a = 0; a + 1 < all_lanes.size(); a += 2) pairs.push_back(better(all_lanes[a], all_lanes[a + 1]));
                if (all_lanes.size() % 2 != 0) pairs.push_back(all_lanes.back());
                all_lanes = std::move(pairs);
            }
            value(i, j) = worst();
            value(i, j) =
                shape_.kind == Reduction::Amax ? max(value(i, j), f32(all_lanes[0])) : min(value(i, j), f32(all_lanes[0]));
            // Not a number if and only if an element is none: exponentials are never of two signs.
            powers(k, b, i, r, j) = machine_exp(looks_again() ? of_row(k, b, r) : best(k, b, i, j));
            const RDom looked(0, looks_again() ? vectors : side, 0, 1, "looked");
            Total nan = total("nan", made(powers), looked, depth);
            const Expr mark = bf16(nan.sum(i, j));
            result(l, i, j) = select(strict_float(mark > bf16(-1.0f)), bf16(value(i, j)), mark);
            schedule_result(result);
            best.compute_at(result, row_)
                .vectorize(l, lanes)
                .bound_extent(l, lanes)
                .bound_extent(u, side)
                .update()
                .vectorize(l, lanes);
            const RVar chunks("chunks"), inside("inside"), step("step"), unrolled("r_unroll");
            const int chunk = whole() ? steps - first : chunk_, unroll = grouped_ ? chunk : std::min(vector_unroll_, chunk);
            best.update().split(turns.x, chunks, inside, chunk).reorder(l, u, inside, chunks, turns.y);
            if (unroll > 1) best.update().split(inside, step, unrolled, unroll).reorder(l, u, unrolled, step, chunks, turns.y);
            schedule_input(xs.held, best, chunks);
            value.compute_at(result, row_).update().atomic().vectorize(lane, lanes);
            schedule_total(nan, looked, result, looks_again() ? vectors : side);
            powers.compute_at(nan.at).bound_extent(k, lanes).vectorize(k);
            in_registers({best, value, powers});
        } else if (shape_.kind == Reduction::Var) {
            const Elements xs_again = whole() ? xs : rows_of_tensor("X_again");
            Total sum = total("sum", xs, all, depth);
            Func mean("mean"), square("square");
            mean(i, j) = strict_float(sum.sum(i, j) * static_cast<float>(1.0 / static_cast<double>(shape_.count())));
            const Expr centred = strict_float(xs_again.at(k, b, r) - bf16(mean(i, j)));
            const Expr squared = strict_float(centred * centred);
            square(k, b, i, r, j) = shape_.whole_vectors() ? squared : select(b * lanes + k < length_, squared, bf16(0.0f));
            const RDom again(0, vectors, 0, other_, "again"), deep(0, lanes, "p");
            Total squares = total("squares", made(square), again, deep);
            result(l, i, j) = bf16(scaled(squares.sum(i, j)));
            schedule_result(result);
            const RVar chunks = schedule_total(sum, all, result, vectors);
            schedule_input(xs.held, loop_of(sum), chunks);
            mean.compute_at(result, row_);
            const RVar chunk = schedule_total(squares, again, result, vectors);
            if (!whole()) schedule_input(xs_again.held, loop_of(squares), chunk);
            square.compute_at(squares.at).bound_extent(k, lanes).vectorize(k);
            in_registers({mean, square});
        } else {
            Total sum = total("sum", xs, all, depth);
            result(l, i, j) = bf16(scaled(sum.sum(i, j)));
            schedule_result(result);
            const RVar chunks = schedule_total(sum, all, result, vectors);
            schedule_input(xs.held, loop_of(sum), chunks);
        }
        if (!grouped_) {
            ones_.compute_root().vectorize(k, lanes).bound(k, 0, lanes).bound(w, 0, lanes);
            in_registers({ones_});
        }
        return finish({shape_.kept, shape_.outer});
    }

    // A lane of a vector of row i of a plane.
    struct Elements {
        std::function<Expr(const Expr &lane, const Expr &vector, const Expr &plane)> at;
        Func held;  // what is in the pads
    };

    // What is made of each vector.
    Elements made(const Func &f) {
        return {[this, f](const Expr &lane, const Expr &vector, const Expr &plane) { return f(lane, vector, i, plane, j); }, f};
    }

    Elements rows_of_tensor(const std::string &name) {
        const Expr beyond = bf16(shape_.extremum() ? worst() : 0.0f);
        if (by_columns_ || ends_apart_) {
            const int first = by_columns_ ? 0 : vectors_of_body();
            const Expr at = (first + b) * lanes + k;
            column_(k, i, b, r, j) = beyond;
            column_(k, i, b, r, j) = select(at < length_, image_(min(at, length_ - 1), i, r, j), undef<BFloat>());
        }
        if (by_columns_)
            return {
                [this](const Expr &lane, const Expr &vector, const Expr &plane) { return column_(lane, i, vector, plane, j); },
                column_};
        Func xs(name);
        if (shape_.whole_vectors() || ends_apart_) {
            xs(n, i, r, j) = image_(n, i, r, j);
        } else {
            xs(n, i, r, j) = beyond;
            xs(n, i, r, j) = select(n < length_, image_(min(n, length_ - 1), i, r, j), undef<BFloat>());
        }
        const auto in_row = [this, xs](const Expr &lane, const Expr &vector, const Expr &plane) {
            return xs(vector * lanes + lane, i, plane, j);
        };
        if (!ends_apart_) return {in_row, xs};
        return {[this, in_row](const Expr &lane, const Expr &vector, const Expr &plane) {
                    const int first = vectors_of_body();
                    return select(vector < first, in_row(lane, min(vector, first - 1), plane),
                                  column_(lane, i, max(vector - first, 0), plane, j));
                },
                xs};
    }

    // Of a row that ends inside a vector, in equal parts of the pads' transfers, and what is left.
    int vectors_of_body() const { return size(shape_.length / lanes / machine_.pad.count * machine_.pad.count); }

    struct Total {
        Func part, block, sum;
        RDom depth;
        LoopLevel at;
        Func weights, group;  // of rows that fill the array
        RDom members, parts;
    };

    Total total(const std::string &name, const Elements &values, const RDom &all, const RDom &depth) {
        Total t{Func(name + "_part"), Func(name + "_block"), Func(name), depth, LoopLevel(), {}, {}, {}, {}};
        if (in_parts()) return total_of_parts(t, values);
        t.part(l, b, i, r, j) = 0.0f;
        t.part(l, b, i, r, j) += f32(values.at(depth, b, r)) * f32(ones_(depth, l));
        t.block(l, b, i, r, j) = bf16(t.part(l, b, i, r, j));
        t.sum(i, j) = -0.0f;
        t.sum(i, j) = strict_float(t.sum(i, j) + f32(t.block(0, all.x, i, all.y, j)));
        return t;
    }

    // Of a row that is summed in parts.
    int vectors_of_weights() const { return size(shape_.vectors_in_pads()) * (shape_.extremum() ? other_ : 1); }

    // The Func whose loops go over the vectors of a row, or of a part of it.
    static Func loop_of(const Total &t) { return t.group.defined() ? t.group : t.sum; }

    // Up to 32 vectors at a time: weights of the array, through which one row of ones goes, or one after the other.
    Total total_of_parts(Total t, const Elements &values) {
        const int vectors = vectors_of_weights(), parts = tiles_of(vectors), members = ceil_div(vectors, parts);
        t.parts = RDom(0, parts, t.sum.name() + "_parts");
        t.group = Func(t.sum.name() + "_group");
        if (grouped_) {
            t.weights = Func(t.sum.name() + "_weights");
            t.members = RDom(0, lanes, t.sum.name() + "_members");
            const Expr vector = b * members + w, last = vectors - 1, there = min(b * members + min(w, members - 1), last);
            const bool whole_parts = members * parts == vectors;
            const Expr element = values.at(k, members == lanes && whole_parts ? vector : there, 0);
            t.weights(k, w, b, i, j) = !whole_parts       ? select(w < members && vector < vectors, element, bf16(0.0f))
                                       : members == lanes ? element
                                                          : select(w < members, element, bf16(0.0f));
            t.part(l, b, i, j) = 0.0f;
            t.part(l, b, i, j) += f32(t.weights(t.depth, l, b, i, j));
            t.block(l, b, i, j) = bf16(t.part(l, b, i, j));
            t.group(b, i, j) = 0.0f;
            t.group(b, i, j) += f32(t.block(t.members, b, i, j));
        } else {
            t.members = RDom(0, members, t.sum.name() + "_members");
            t.part(l, b, i, j) = 0.0f;
            t.part(l, b, i, j) += f32(values.at(t.depth, b, 0)) * f32(ones_(t.depth, l));
            t.block(l, b, i, j) = bf16(t.part(l, b, i, j));
            t.group(b, i, j) = 0.0f;
            t.group(b, i, j) = strict_float(t.group(b, i, j) + f32(t.block(0, b * members + t.members, i, j)));
        }
        t.sum(i, j) = -0.0f;
        t.sum(i, j) = strict_float(t.sum(i, j) + f32(bf16(t.group(t.parts, i, j))));
        return t;
    }

    // The loops over the vectors of a part; that over chunks is returned.
    RVar schedule_parts(Total &t) {
        const int vectors = vectors_of_weights(), parts = tiles_of(vectors), members = ceil_div(vectors, parts);
        const bool straight = grouped_ ? straight_parts(shape_) : vector_unroll_ == members && parts * members <= lanes * 2;
        const RVar unrolled("r_unroll"), rest("rest"), chunks("chunks"), inside("inside"), vector("vector"),
            members_unrolled("g_unroll");
        LoopLevel part(t.sum, t.parts);
        if (straight && parts > 1) {
            t.sum.update().split(t.parts, rest, unrolled, parts);
            part = LoopLevel(t.sum, unrolled);
        }
        t.group.compute_at(part);
        t.at = part;
        if (grouped_) {
            t.group.update().atomic().vectorize(t.members, lanes);
            t.weights.compute_at(part)
                .bound_extent(k, lanes)
                .bound_extent(w, lanes)
                .split(w, w, Var("w_unroll"), lanes)
                .vectorize(k);
            in_registers({t.weights});
        } else {
            t.group.update().split(t.members, chunks, inside, whole() ? members : chunk_);
            t.at = LoopLevel(t.group, inside);
            if (vector_unroll_ > 1) {
                t.group.update().split(inside, vector, members_unrolled, vector_unroll_);
                t.at = LoopLevel(t.group, members_unrolled);
            }
        }
        t.block.compute_at(t.at).bound_extent(l, lanes).vectorize(l, lanes);
        t.part.compute_at(t.at)
            .vectorize(l, lanes)
            .update()
            .reorder(t.depth, l)
            .atomic()
            .vectorize(l, lanes)
            .vectorize(t.depth, lanes);
        in_registers({t.part, t.block, t.group, t.sum});
        return chunks;
    }

    // The loops over the vectors of a row: chunks, vectors, straight-line code. The loop over chunks is returned.
    RVar over(Func f, const RDom &all, int vectors) {
        RVar chunks("chunks"), inside("inside"), vector("vector"), unrolled("r_unroll");
        const int side = sides_of(shape_), chunk = whole() ? vectors : std::min(chunk_ * side, vectors);
        f.update().split(all.x, chunks, inside, chunk);
        if (vector_unroll_ * side > 1) f.update().split(inside, vector, unrolled, std::min(vector_unroll_ * side, chunk));
        return chunks;
    }

    RVar schedule_total(Total &t, const RDom &all, Func result, int vectors) {
        t.sum.compute_at(result, row_);
        if (in_parts()) return schedule_parts(t);
        const RVar chunks = over(t.sum, all, vectors);
        t.at = LoopLevel(t.sum, RVar(vector_unroll_ * sides_of(shape_) > 1 ? "r_unroll" : "inside"));
        t.block.compute_at(t.at).bound_extent(l, lanes).vectorize(l, lanes);
        t.part.compute_at(t.at)
            .vectorize(l, lanes)
            .update()
            .reorder(t.depth, l)
            .atomic()
            .vectorize(l, lanes)
            .vectorize(t.depth, lanes);
        in_registers({t.part, t.block, t.sum});
        return chunks;
    }

    // In the pads: whole rows of several results, or a part of one row where it is used.
    void schedule_input(Func xs, Func user, const RVar &chunks) {
        const bool moves = kept_ > rows_;
        if (by_columns_ || ends_apart_) {
            column_.compute_at(out_, Var("io"))
                .vectorize(k, lanes)
                .bound_extent(k, lanes)
                .bound_extent(b, size(shape_.vectors_in_pads()) - (ends_apart_ ? vectors_of_body() : 0))
                .bound_storage(i, rows_);
            if (ends_apart_) column_.reorder_storage(k, b, i, r, j);
            if (moves && machine_.timed()) column_.hoist_storage_root().ring_buffer(2);
            in_pads({column_});
            if (by_columns_) return;
        }
        if (whole())
            xs.compute_at(out_, Var("io"))
                .bound_extent(n, lanes * (ends_apart_ ? vectors_of_body() : size(shape_.vectors_in_pads())))
                .bound_storage(i, rows_);
        else
            xs.compute_at(user, chunks).bound_extent(n, lanes * chunk_ * sides_of(shape_) / size(planes_beside(shape_)));
        if (xs.num_update_definitions() > 0) xs.vectorize(n, lanes);
        if (moves && whole() && machine_.timed()) xs.hoist_storage_root().ring_buffer(2);
        in_pads({xs});
    }

    void schedule_result(Func result) {
        const Var io("io"), ii("ii"), iu("i_unroll");
        out_(i, j) = result(0, i, j);
        out_.bound(i, 0, kept_).bound(j, 0, outer_).split(i, io, ii, rows_, TailStrategy::ShiftInwards);
        result.compute_at(out_, io).bound_extent(l, lanes).vectorize(l, lanes).bound_storage(i, rows_);
        if (kept_ > rows_ && machine_.timed()) result.hoist_storage_root().ring_buffer(2);
        row_ = i;
        if (row_unroll_ > 1) {
            result.split(i, i, iu, row_unroll_);
            row_ = iu;
        }
        in_pads({result});
    }

    KernelDefinition finish(const std::vector<int64_t> &results) {
        whole_loops(out_);
        fix_shape(out_.output_buffer(), results);
        KernelDefinition kernel;
        kernel.pipeline = Pipeline(out_);
        kernel.arguments = {image_};
        kernel.inputs = {{"X", {shape_.elements()}}};
        kernel.outputs = {{"Y", {shape_.results()}}};
        return kernel;
    }

    // ---- the innermost axis is kept: lanes are results

    KernelDefinition columns() {
        const int width = static_cast<int>(shape_.lanes), side = accumulators_of(length_);
        const int steps = static_cast<int>(shape_.steps());
        image_ = tensor("X", {shape_.lanes, shape_.length, shape_.kept, shape_.other, shape_.outer});
        // Rows that are not there, so that every accumulator has as many, change none.
        const bool filled = steps * side != length_, narrow = width % lanes != 0, parts = chunk_ != 0;
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

        const Var no("no"), ni("ni"), v("v"), vi("vi");
        const int block = std::min(rows_, static_cast<int>(shape_.vectors())),
                  blocks = (static_cast<int>(shape_.vectors()) + block - 1) / block;
        // The last block begins earlier, at whole vectors where the row has any left over.
        const bool whole = width % lanes == 0 || blocks == 1;
        out_.bound(n, 0, width).bound(i, 0, kept_).bound(j, 0, outer_);
        out_.split(n, no, ni, blocks == 1 ? width : lanes * block,
                   whole ? TailStrategy::ShiftInwards : TailStrategy::GuardWithIf)
            .reorder(ni, no, i, j);
        // What surrounds a tile must be the same for all that share a slot.
        const bool alike = !(filled && narrow && blocks > 1);
        const bool ring = alike && machine_.timed() && (blocks > 1 || kept_ > 1 || outer_ > 1);
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

    // What runs beside the extrema of each side and is NaN if an element was.
    int marks_of(int side) const { return shape_.extremum() && side > 1 ? 2 : 0; }

    // The running extremum of each side, and behind them their marks.
    void define_extrema(Func part, const std::function<Expr(const Expr &)> &element, int side) {
        if (marks_of(side) == 0) {
            part(n, u, i, j) = bf16(worst());
            part(n, u, i, j) = select(strict_float(element(u) != element(u)), element(u), better(element(u), part(n, u, i, j)));
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
            return shape_.extremum() ? better(std::move(a), std::move(b)) : strict_float(std::move(a) + std::move(b));
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
    bool grouped_;  // the vectors of a part are weights of the array
    const bool by_columns_ = by_columns(shape_, rows_, chunk_), ends_apart_;
    Var n{"n"}, y{"y"}, u{"u"}, l{"l"}, i{"i"}, r{"r"}, j{"j"}, b{"b"}, k{"k"}, w{"w"};
    Var row_{"i"};
    ImageParam image_;
    Func out_{"Y"}, ones_{"ones"}, column_{ends_apart_ ? "X_ends" : "X_rows"};
};

}  // namespace

// Extrema of rows of many vectors are made four at a time, with vectors behind the row that change none.
int64_t ReduceShape::vectors_in_pads() const {
    constexpr int64_t many = 16, together = 4;
    if (along_lanes && extremum() && other == 1 && vectors() >= many) return round_up(vectors(), together);
    return parts() * part_vectors();
}

bool ReduceShape::whole_vectors() const { return length == vectors_in_pads() * atalla::lanes; }

int64_t ReduceShape::steps() const { return along_lanes ? vectors_in_pads() : ceil_div(length, accumulators_of(length)); }

bool ReduceShape::sums_side_by_side() const {
    constexpr int64_t most_apart = 4;  // results of several vectors each, whose tiles would hardly fill the array
    return along_lanes && other > 1 && (kept > most_apart || vectors() == 1) && !extremum();
}

LongSum ReduceShape::in_a_row() const {
    return (along_lanes && !sums_side_by_side()) || extremum() ? LongSum{steps(), other, 0, nullptr, nullptr}
                                                               : long_sum(steps(), other);
}

int sides_of(const ReduceShape &shape) {
    if (!shape.along_lanes) return accumulators_of(shape.length);
    if (!shape.extremum()) return 1;
    const int64_t planes = planes_beside(shape);
    return planes > 1 ? size(planes * shape.vectors_in_pads()) : extrema_of(shape);
}

ReduceShape reduce_shape(Reduction kind, const std::vector<int64_t> &extents, const std::vector<bool> &reduced,
                         double divisor) {
    // Innermost first: runs of axes of one kind.
    std::vector<std::pair<int64_t, bool>> runs;
    for (size_t d = extents.size(); d-- > 0;) {
        if (extents[d] == 1) continue;
        if (!runs.empty() && runs.back().second == reduced[d])
            runs.back().first *= extents[d];
        else
            runs.emplace_back(extents[d], reduced[d]);
    }
    ReduceShape shape;
    shape.kind = kind;
    shape.divisor = divisor;
    shape.along_lanes = runs.empty() || runs.front().second;
    std::vector<int64_t *> places = {&shape.length, &shape.kept, &shape.other, &shape.outer};
    if (!shape.along_lanes) places.insert(places.begin(), &shape.lanes);
    if (runs.size() > places.size())
        throw Error("reduce: the axes alternate between kept and reduced too often; permute first");
    for (size_t i = 0; i < runs.size(); i++) *places[i] = runs[i].first;
    return shape;
}

Space reduce_space(const ReduceShape &shape, const Machine &machine) {
    if (shape.sums_side_by_side()) return row_sums_space(shape, machine);
    const int64_t vectors = shape.vectors_in_pads();
    constexpr int64_t most_rows = 128, most_unrolled_rows = 8, most_unrolled = 32, most_straight = 64;
    std::vector<int64_t> rows, chunks, row_unrolls, vector_unrolls;
    const int64_t side = sides_of(shape), steps = ceil_div(shape.along_lanes ? vectors : shape.length, side);
    const int64_t results = shape.along_lanes ? shape.kept : vectors, terms = shape.fills_array() ? shape.part_vectors()
                                                                              : shape.along_lanes && shape.extremum()
                                                                                  ? steps
                                                                                  : shape.in_a_row().run().steps;
    for (int64_t block = 1; block < 2 * std::min(results, most_rows); block *= 2) rows.push_back(std::min(block, results));
    if (shape.along_lanes && results > rows.back()) rows.push_back(results);
    for (int64_t unroll = 1; unroll <= (shape.along_lanes ? std::min(results, most_unrolled_rows) : 1); unroll *= 2)
        row_unrolls.push_back(unroll);
    for (int64_t unroll = 1; unroll <= std::min(terms, most_unrolled / side); unroll++)
        if (terms % unroll == 0) vector_unrolls.push_back(unroll);
    // All of a short sum that no loop goes along.
    if (!shape.along_lanes && !shape.extremum() && terms * side <= most_straight && terms > vector_unrolls.back())
        vector_unrolls.push_back(terms);
    if (marks_fill_array(shape) && shape.other == 1 && vector_unrolls.back() != steps) vector_unrolls.push_back(steps);
    // Whole results, or parts that divide a row of them, the largest of each order of magnitude and the smallest.
    chunks.push_back(0);
    // None of which is only vectors of zeros behind a row.
    const int64_t behind = shape.along_lanes ? (vectors - shape.vectors()) / side : 0;
    const auto add = [&](int64_t part) {
        if (terms % part != 0 || part <= behind) return false;
        if (chunks.back() != part) chunks.push_back(part);
        return true;
    };
    for (int64_t most = 512; most >= 1; most /= 8)
        for (int64_t part = std::min(most, terms); part >= 1 && !add(part);) part--;
    for (int64_t part = 1; part <= terms && !add(part);) part++;
    Space space;
    space.parameter("rows", "results (vectors of them, if lanes are results) in the pads at a time", rows)
        .parameter("chunk", "steps along a result in the pads at a time, 0: all", chunks)
        .parameter("row_unroll", "results in straight-line code", row_unrolls)
        .parameter("vector_unroll", "steps along a result in straight-line code", vector_unrolls)
        .parameter("grouped", "vectors of a row are weights of the array, which one row of ones sums",
                   shape.fills_array() || marks_fill_array(shape) ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0});
    constexpr int64_t most_rows_of_weights = 2;  // in straight-line code, out of whose loop transfers must be in reach
    // What finds the extremum is straight-line code, too, of all planes if there are several.
    const int64_t of_weights = shape.extremum() && shape.other == 1 ? steps : 1;
    space.constraint(
        "grouped", {"grouped", "chunk", "row_unroll", "vector_unroll"},
        "Weights of the array are in the pads as whole rows, of which few are straight-line code.", [=](const Point &point) {
            return point["grouped"] == 0 ||
                   (point["chunk"] == 0 && point["row_unroll"] <= most_rows_of_weights && point["vector_unroll"] == of_weights);
        });
    space.constraint("whole unrolls", {"rows", "row_unroll"}, "The results in straight-line code divide those in the pads.",
                     [](const Point &point) { return point["rows"] % point["row_unroll"] == 0; });
    space.constraint("chunks", {"chunk", "rows", "vector_unroll"},
                     "Unrolling divides a chunk; parts of results come one result at a time.", [=](const Point &point) {
                         return point["chunk"] % point["vector_unroll"] == 0 &&
                                (point["chunk"] == 0 || point["rows"] == rows.front());
                     });
    space.constraint(
        "pads", {"rows", "chunk", "row_unroll", "vector_unroll", "grouped"}, "What is in the pads at a time fits.",
        [=](const Point &point) {
            const bool parts = point["chunk"] != 0;
            const int64_t block = point["rows"], step = point["vector_unroll"] * side, others = parts ? 1 : shape.other;
            const int64_t of_result = shape.along_lanes ? vectors : steps * side,
                          elements = parts ? point["chunk"] * side : block * of_result * others;
            const bool several = results > block || (!shape.along_lanes && shape.kept > 1) || shape.outer > 1;
            const int64_t slots = machine.timed() && several ? 2 : 1;
            // As weights, the vectors of the results in straight-line code.
            const bool round = point["grouped"] == 0
                                   ? step % machine.pad.count == 0
                                   : point["row_unroll"] * vectors % machine.pad.count == 0 || point["row_unroll"] == block;
            const bool rows_go_round = point["row_unroll"] % machine.pad.count == 0;
            const auto runs = static_cast<size_t>(shape.in_a_row().runs() * (shape.kind == Reduction::Var ? 2 : 1));
            std::vector<PadUse> uses(
                parts ? runs : 1,
                PadUse{(parts ? 1 : slots) * elements,
                       by_columns(shape, block, point["chunk"]) ? rows_go_round && block % machine.pad.count == 0 : round});
            uses.push_back({slots * block, rows_go_round});
            return fit_pads(machine, uses);
        });
    space.constraint("code", {"row_unroll", "vector_unroll", "grouped"}, "Straight-line code fits the instruction cache.",
                     [=](const Point &point) {
                         return point["row_unroll"] * point["vector_unroll"] * side <=
                                (point["grouped"] != 0 ? most_straight_parts * lanes : most_straight);
                     });
    return space;
}

// Every element, in float64: NaN where one is none.
Reference reduce_reference(const ReduceShape &shape, const TensorData &input) {
    const auto kept = static_cast<size_t>(shape.results()), count = static_cast<size_t>(shape.count());
    const auto lanes_of_row = static_cast<size_t>(shape.lanes), length = static_cast<size_t>(shape.length),
               middle = static_cast<size_t>(shape.kept), other = static_cast<size_t>(shape.other);
    Reference reference;
    reference.values.resize(kept);
    reference.peaks.resize(kept);
    std::vector<double> elements(count);
    for (size_t result = 0; result < kept; result++) {
        const size_t lane = result % lanes_of_row, i = result / lanes_of_row % middle, j = result / lanes_of_row / middle;
        for (size_t e = 0; e < count; e++) {
            const size_t at = (((j * other + e / length) * middle + i) * length + e % length) * lanes_of_row + lane;
            elements[e] = static_cast<double>(bf16_float(input[at]));
        }
        double sum = 0, magnitudes = 0, largest = 0;
        for (double x : elements) {
            sum += x;
            magnitudes += std::abs(x);
            largest = std::max(largest, std::abs(x));
        }
        double &value = reference.values[result], &peak = reference.peaks[result];
        const auto elements_of = static_cast<double>(count);
        if (shape.extremum()) {
            value = elements.empty() ? std::nan("") : elements[0];
            for (double x : elements)
                if (std::isnan(x) || (shape.kind == Reduction::Amax ? x > value : x < value))
                    value = std::isnan(value) ? value : x;
            peak = std::abs(value);
        } else if (shape.kind == Reduction::Var) {
            const double mean = sum / elements_of;
            for (double x : elements) value += (x - mean) * (x - mean);
            value /= shape.divisor;
            // The mean is rounded, relative to the largest element.
            peak = value + std::abs(mean) * std::sqrt(value);
        } else {
            value = sum / shape.divisor;
            peak = magnitudes / shape.divisor;
        }
    }
    return reference;
}

double reduce_tolerance_ulps(const ReduceShape &shape) {
    if (shape.extremum()) return 0;
    // Along lanes each block of 32 and the result are rounded. Across lanes so is every addition: half a unit of a sum that has
    // grown to its share, and the roundings of random signs add up as their root.
    const auto additions = static_cast<double>(shape.in_a_row().additions_in_a_row());
    const double sum = shape.fills_array()         ? 2
                       : shape.sums_side_by_side() ? 1.5 + 0.5 * std::sqrt(additions)
                       : shape.along_lanes         ? 1.5
                                                   : 3 + 0.5 * std::sqrt(additions);
    return shape.kind == Reduction::Var ? 2 * sum + 2 : sum;
}

Point reduce_naive_point(const ReduceShape &shape, const Machine &machine) {
    const Space space = reduce_space(shape, machine);
    Point least = {{"rows", space.find("rows").values.front()},
                   {"row_unroll", 1},
                   {"vector_unroll", 1},
                   {"grouped", space.find("grouped").values.front()}};
    least.set("chunk", space.find("chunk").values.back());
    if (shape.sums_side_by_side()) least.set("weight_unroll", 8);
    return least;
}

bool reduction_streams(const ReduceShape &shape, const Machine &machine, const Point &point) {
    constexpr int64_t least_transfers = 4;  // of each pad
    const int64_t vectors = shape.vectors_in_pads();
    const bool straight = point["grouped"] != 0 ? straight_parts(shape) : point["vector_unroll"] * sides_of(shape) >= vectors;
    return machine.timed() && shape.along_lanes && shape.other == 1 && shape.outer == 1 && point["chunk"] == 0 && straight &&
           point["rows"] == shape.kept && (shape.whole_vectors() || ends_apart(shape, machine, point)) &&
           point["row_unroll"] * vectors % machine.pad.count == 0 &&
           shape.kept * vectors >= least_transfers * machine.pad.count * machine.sdma.max_rows;
}

KernelDefinition reduce_kernel(const ReduceShape &shape, const Machine &machine, const Point &point) {
    return shape.sums_side_by_side() ? row_sums_kernel(shape, machine, point) : ReduceKernel(shape, machine, point).run();
}

}  // namespace atalla
