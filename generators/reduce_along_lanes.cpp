#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "generators/reduce_kernel.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

class ReduceAlongLanes : ReduceKernel {
public:
    ReduceAlongLanes(const ReduceShape &shape, const Machine &machine, const Point &point)
        : ReduceKernel(shape, machine, point),
          row_unroll_(size(point["row_unroll"])),
          grouped_(point["grouped"] != 0),
          by_columns_(by_columns(shape, rows_, chunk_)),
          ends_apart_(ends_apart(shape, machine, point)),
          means_first_(means_come_first(shape, point)) {}

    KernelDefinition run() {
        const int vectors = static_cast<int>(shape_.vectors_in_pads());
        image_ = tensor("X", {shape_.length, shape_.kept, shape_.other, shape_.outer});
        const Elements xs = rows_of_tensor("X_rows");
        Func result("result");
        const RDom all(0, vectors, 0, other_, "all"), depth(0, lanes, "q");
        ones_(k, w) = bf16(1.0f);
        if (unchecked_) {
            define_unchecked(xs, result);
        } else if (shape_.extremum()) {
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
            const int chunk = whole() ? steps - first : chunk_, unroll = grouped_ ? chunk : std::min(vector_unroll_, chunk);
            schedule_input(xs.held, best, schedule_running(best, result, turns, side, chunk, unroll));
            value.compute_at(result, row_).update().atomic().vectorize(lane, lanes);
            schedule_total(nan, looked, result, looks_again() ? vectors : side);
            powers.compute_at(nan.at).bound_extent(k, lanes).vectorize(k);
            in_registers({best, value, powers});
        } else if (shape_.kind == Reduction::Var) {
            const Elements xs_again = whole() ? xs : rows_of_tensor("X_again");
            Total sum = total("sum", xs, all, depth);
            Func mean("mean"), square("square");
            mean(l, i, j) = bf16(strict_float(sum.sum(i, j) * static_cast<float>(1.0 / static_cast<double>(shape_.count()))));
            const Expr centred = strict_float(xs_again.at(k, b, r) - mean(k, i, j));
            const Expr squared = strict_float(centred * centred);
            square(k, b, i, r, j) = shape_.whole_vectors() ? squared : select(b * lanes + k < length_, squared, bf16(0.0f));
            const RDom again(0, vectors, 0, other_, "again"), deep(0, lanes, "p");
            Total squares = total("squares", made(square), again, deep);
            result(l, i, j) = bf16(scaled(squares.sum(i, j)));
            schedule_result(result);
            const RVar chunks = schedule_total(sum, all, schedule_mean(mean, result), vectors);
            schedule_input(xs.held, loop_of(sum), chunks);
            const RVar chunk = schedule_total(squares, again, result, vectors);
            if (!whole()) schedule_input(xs_again.held, loop_of(squares), chunk);
            square.compute_at(squares.at).bound_extent(k, lanes).vectorize(k);
            in_registers({square});
        } else {
            Total sum = total("sum", xs, all, depth);
            result(l, i, j) = bf16(scaled(sum.sum(i, j)));
            schedule_result(result);
            const RVar chunks = schedule_total(sum, all, result, vectors);
            schedule_input(xs.held, loop_of(sum), chunks);
        }
        if (!grouped_ && !unchecked_) {
            ones_.compute_root().vectorize(k, lanes).bound(k, 0, lanes).bound(w, 0, lanes);
            in_registers({ones_});
        }
        return finish({shape_.kept, shape_.outer});
    }

private:
    // Does a second look at a row's elements find NaN? Those of several planes would come through the array one at a time.
    bool looks_again() const { return whole() && (other_ == 1 || grouped_); }
    bool in_parts() const { return shape_.extremum() ? grouped_ : shape_.fills_array(); }
    Expr scaled(Expr sum) const {
        if (shape_.divisor == 1) return sum;
        return strict_float(std::move(sum) * static_cast<float>(1 / shape_.divisor));
    }

    // A lane of a vector of row i of a plane.
    struct Elements {
        std::function<Expr(const Expr &lane, const Expr &vector, const Expr &plane)> at;
        Func held;  // what is in the pads
    };

    // Running extrema that keep NaN, and behind them an exponential of what they come to, whose sum is NaN if a lane is.
    void define_unchecked(const Elements &xs, Func result) {
        const RDom lane(0, lanes, "e");
        const int side = sides_of(shape_), steps = size(shape_.vectors_in_pads()) / side;
        const RDom turns(0, steps, "turns");
        Func best("best"), one("one"), power("power"), value("value"), mark("mark");
        best(l, u, i, j) = bf16(worst());
        best(l, u, i, j) = keeping_nan(xs.at(l, turns.x * side + u, 0), best(l, u, i, j));
        std::vector<Expr> sides;
        for (int a = 0; a < side; a++) sides.push_back(best(l, a, i, j));
        for (; sides.size() > 1; sides.resize(sides.size() / 2))
            for (size_t a = 0; a < sides.size() / 2; a++) sides[a] = keeping_nan(sides[2 * a], sides[2 * a + 1]);
        one(l, i, j) = sides[0];
        power(l, i, j) = machine_exp(one(l, i, j));
        value(i, j) = worst();
        const Expr extremum = f32(one(lane, i, j));
        value(i, j) = shape_.kind == Reduction::Amax ? max(value(i, j), extremum) : min(value(i, j), extremum);
        mark(i, j) = 0.0f;
        mark(i, j) += f32(power(lane, i, j));
        const Expr sum = bf16(mark(i, j));
        result(l, i, j) = select(strict_float(sum > bf16(-1.0f)), bf16(value(i, j)), sum);
        schedule_result(result);
        schedule_input(xs.held, best, schedule_running(best, result, turns, side, steps, vector_unroll_));
        for (Func f : {one, power}) f.compute_at(result, row_).vectorize(l, lanes).bound_extent(l, lanes);
        for (Func f : {value, mark}) f.compute_at(result, row_).update().atomic().vectorize(lane, lanes);
        in_registers({best, one, power, value, mark});
    }

    // The loops of running extrema, `side` vectors of them: chunks, steps, straight-line code. The loop over chunks is
    // returned.
    RVar schedule_running(Func best, const Func &result, const RDom &turns, int side, int chunk, int unroll) {
        best.compute_at(result, row_)
            .vectorize(l, lanes)
            .bound_extent(l, lanes)
            .bound_extent(u, side)
            .update()
            .vectorize(l, lanes);
        const RVar chunks("chunks"), inside("inside"), step("step"), unrolled("r_unroll");
        best.update().split(turns.x, chunks, inside, chunk);
        std::vector<VarOrRVar> loops = {l, u};
        if (unroll > 1) {
            best.update().split(inside, step, unrolled, unroll);
            loops.insert(loops.end(), {unrolled, step, chunks});
        } else {
            loops.insert(loops.end(), {inside, chunks});
        }
        if (turns.dimensions() > 1) loops.emplace_back(turns.y);
        best.update().reorder(loops);
        return chunks;
    }

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
        schedule_product(t);
        in_registers({t.group});
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

    // The array's product of a block of a row, where it is summed.
    void schedule_product(Total &t) {
        t.block.compute_at(t.at).bound_extent(l, lanes).vectorize(l, lanes);
        as_array_row(t.part.compute_at(t.at), l, t.depth);
        in_registers({t.part, t.block, t.sum});
    }

    RVar schedule_total(Total &t, const RDom &all, Func result, int vectors) {
        t.sum.compute_at(result, row_);
        if (in_parts()) return schedule_parts(t);
        const RVar chunks = over(t.sum, all, vectors);
        t.at = LoopLevel(t.sum, RVar(vector_unroll_ * sides_of(shape_) > 1 ? "r_unroll" : "inside"));
        schedule_product(t);
        return chunks;
    }

    // In the pads: whole rows of several results, or a part of one row where it is used.
    void schedule_input(Func xs, Func user, const RVar &chunks) {
        const bool moves = kept_ > rows_;
        if (by_columns_ || ends_apart_) {
            column_.compute_at(out_, io_)
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
            xs.compute_at(out_, io_)
                .bound_extent(n, lanes * (ends_apart_ ? vectors_of_body() : size(shape_.vectors_in_pads())))
                .bound_storage(i, rows_);
        else
            xs.compute_at(user, chunks).bound_extent(n, lanes * chunk_ * sides_of(shape_) / size(planes_beside(shape_)));
        if (xs.num_update_definitions() > 0) xs.vectorize(n, lanes);
        if (moves && whole() && machine_.timed()) xs.hoist_storage_root().ring_buffer(2);
        in_pads({xs});
    }

    // Returns the Func in whose loop over rows their sums are.
    Func schedule_mean(Func mean, const Func &result) {
        mean.bound_extent(l, lanes).vectorize(l, lanes);
        if (!means_first_) {
            mean.compute_at(result, row_);
            in_registers({mean});
            return result;
        }
        mean.compute_at(out_, io_);
        if (row_unroll_ > 1) mean.split(i, i, Var("i_unroll"), row_unroll_);
        in_pads({mean});
        return mean;
    }

    void schedule_result(Func result) {
        const Var ii("ii"), iu("i_unroll");
        out_(i, j) = result(0, i, j);
        out_.bound(i, 0, kept_).bound(j, 0, outer_).split(i, io_, ii, rows_, TailStrategy::ShiftInwards);
        result.compute_at(out_, io_).bound_extent(l, lanes).vectorize(l, lanes).bound_storage(i, rows_);
        if (kept_ > rows_ && machine_.timed()) result.hoist_storage_root().ring_buffer(2);
        row_ = i;
        if (row_unroll_ > 1) {
            result.split(i, i, iu, row_unroll_);
            row_ = iu;
        }
        in_pads({result});
    }

    int row_unroll_;
    bool grouped_;  // the vectors of a part are weights of the array
    bool by_columns_, ends_apart_, means_first_;
    Var l{"l"}, b{"b"}, k{"k"}, w{"w"};
    Var row_{"i"};
    const Var io_{unchecked_ ? "io_unchecked" : "io"};
    Func ones_{"ones"}, column_{ends_apart_ ? "X_ends" : "X_rows"};
};

}  // namespace

KernelDefinition reduce_along_lanes(const ReduceShape &shape, const Machine &machine, const Point &point) {
    return ReduceAlongLanes(shape, machine, point).run();
}

}  // namespace atalla
