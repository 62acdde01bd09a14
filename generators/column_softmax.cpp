#include "generators/column_softmax.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "generators/lane_math.h"
#include "generators/long_sums.h"
#include "generators/pad_room.h"
#include "generators/pipeline_workload.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"
#include "simulator/numerics.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// As many running values side by side as hide the latency of the adder.
constexpr int64_t most_sides = 8;
constexpr int64_t most_unrolled = 8;
// Lane operations of a reciprocal and of a logarithm, which each column has one of.
constexpr double closing_operations = 40;

class ColumnSoftmax : public PipelineWorkload {
public:
    ColumnSoftmax(const WorkloadRequest &request, const ColumnShape &shape, bool logarithm)
        : PipelineWorkload(request), shape_(shape), logarithm_(logarithm) {
        inputs_ = {tensor_spec("x", request.shape("x"))};
        set_result("Y", request.shape("x"));
    }

    Space space(const Machine &machine) const override {
        std::vector<int64_t> columns, unrolls;
        for (int64_t block = 1; block < 2 * vectors(); block *= 2) columns.push_back(std::min(block, vectors()));
        const int64_t run = long_sum(steps()).run().steps;
        for (int64_t unroll = 1; unroll <= std::min(run, most_unrolled); unroll++)
            if (run % unroll == 0) unrolls.push_back(unroll);
        Space space;
        space.parameter("columns", "vectors of columns in the pads at a time", columns)
            .parameter("unroll", "steps along a column in straight-line code", unrolls)
            .parameter("skewed", "the passes along a column are one loop, each on another column",
                       may_skew(machine) ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0});
        space.constraint("skewed", {"columns", "skewed"}, "Passes that become one loop take a column of vectors at a time.",
                         [](const Point &point) { return point["skewed"] == 0 || point["columns"] == 1; });
        if (in_parts(machine)) space.parameters[0].values = {1};
        space.constraint("pads", {"columns", "unroll", "skewed"},
                         "Whole columns, their exponentials and their results fit the pads, or parts of them for each pass.",
                         [=, this](const Point &point) {
                             return in_parts(machine)
                                        ? parts_fit(machine, point["unroll"])
                                        : columns_fit(machine, point["columns"], point["unroll"], point["skewed"] != 0);
                         });
        return space;
    }
    std::string words(const Machine &machine, const Point &point) const override {
        if (in_parts(machine))
            return fmt::format("parts of {} elements of 32 columns, again for each pass", point["unroll"] * sides());
        return fmt::format("{} vectors of columns at a time, {} elements of each in straight-line code{}", point["columns"],
                           point["unroll"] * sides(), point["skewed"] != 0 ? ", all passes in one loop" : "");
    }
    double draft(const Machine &machine, const Point &point) const override {
        const auto columns = static_cast<double>(vectors() * shape_.outer), elements = static_cast<double>(stored());
        const auto straight = static_cast<double>(point["unroll"] * sides());
        if (!machine.timed()) return 60 + columns * (elements * (9 + 180 / straight) + closing_operations * 8);
        // Passes one after the other wait for their first and their last values, and their code comes from memory anew for each
        // column where the instruction cache does not hold it. One loop for all has the last pass some columns behind.
        constexpr double start = 2000, packets_of_step = 34, cached_packets = 409, miss = 11, ends = 450, turn_end = 250,
                         behind = 4;
        const double passes = (logarithm_ ? 4 : 3) * static_cast<double>(machine.vec.ii),
                     one_more = static_cast<double>(machine.vec.ii), closing = logarithm_ ? 600 : 0;
        if (point["skewed"] != 0) return start + 500 + (columns + behind) * (elements * passes + turn_end + closing);
        return start +
               columns * (elements * (passes + one_more) + ends + closing / 2 +
                          miss * std::max(0.0, packets_of_step * straight - cached_packets)) +
               300 * static_cast<double>(blocks(point["columns"]));
    }

    KernelDefinition build(const Machine &machine, const Point &point) const override {
        const Var n("n"), y("y"), j("j"), u("u");
        const int width = size(shape_.inner), length = size(shape_.length), side = size(sides()), turns = size(steps()),
                  block = size(point["columns"]), parts = ceil_div(size(vectors()), block), unroll = size(point["unroll"]);
        const ImageParam image = tensor("X", {shape_.inner, shape_.length, shape_.outer});
        // The last of several blocks begins earlier and makes some columns again, so that all are alike.
        const bool filled = stored() != shape_.length, narrow = width % lanes != 0 && parts == 1;
        Func part("part"), largest("largest"), sums("sums"), closing("closing"), result("result"), out("Y");
        // Rows behind the last change neither maxima nor sums.
        const auto rows_of_image = [&](const std::string &name) {
            Func xs(name);
            const Expr there = image(narrow ? min(n, width - 1) : Expr(n), filled ? min(y, length - 1) : Expr(y), j);
            if (filled) xs(n, y, j) = bf16(-infinity);
            if (filled || narrow)
                xs(n, y, j) = select(n < width && y < length, there, undef<BFloat>());
            else
                xs(n, y, j) = there;
            if (filled) xs.vectorize(n, lanes);
            return xs;
        };
        // In parts those of the maxima, of each run of the sums, and of the results.
        const bool skewed = point["skewed"] != 0, again = in_parts(machine);
        std::vector<Func> all_rows = {rows_of_image("X_rows")}, powers;
        const auto rows_again = [&](const std::string &name) {
            if (again) all_rows.push_back(rows_of_image(name));
            return all_rows.back();
        };
        const RDom seen(0, turns, skewed ? "seen_alike" : "seen");
        part(n, u, j) = bf16(-infinity);
        part(n, u, j) = strict_float(max(all_rows[0](n, seen * side + u, j), part(n, u, j)));
        const auto in_pairs = [&](const Func &parts, const auto &both) {
            std::vector<Expr> terms;
            for (int a = 0; a < side; a++) terms.push_back(parts(n, a, j));
            for (; terms.size() > 1; terms.resize(terms.size() / 2))
                for (size_t a = 0; a < terms.size() / 2; a++) terms[a] = both(terms[2 * a], terms[2 * a + 1]);
            return terms[0];
        };
        largest(n, j) = in_pairs(part, [](const Expr &a, const Expr &b) { return strict_float(max(a, b)); });
        const auto centred = [&](const Func &xs) { return strict_float(xs(n, y, j) - largest(n, j)); };
        const auto powers_of = [&](const Func &xs) {
            if (again || powers.empty()) {
                powers.emplace_back("e");
                powers.back()(n, y, j) = machine_exp(centred(xs));
            }
            return powers.back();
        };
        std::vector<SummingFunc> added = summing_funcs(
            sums, {n, u, j}, long_sum(steps()),
            [&](size_t run) {
                const Func e = powers_of(rows_again(fmt::format("X_added_{}", static_cast<char>('a' + run))));
                return [=](const Expr &step, const Expr &) { return e(n, step * side + u, j); };
            },
            skewed ? "added_alike" : "added");
        const Expr total = in_pairs(sums, [](const Expr &a, const Expr &b) { return strict_float(a + b); });
        closing(n, j) = logarithm_ ? lane_math::logarithm(total) : lane_math::reciprocal_of_sum(total, stored());
        const Func xs = rows_again("X_left");
        result(n, y, j) =
            logarithm_ ? strict_float(centred(xs) - closing(n, j)) : strict_float(powers_of(xs)(n, y, j) * closing(n, j));
        out(n, y, j) = result(n, y, j);

        const Var no(skewed ? "no_skewed" : "no"), ni("ni"), v("v"), vi("vi"), yu("y_unroll");
        out.bound(n, 0, width).bound(y, 0, length).bound(j, 0, size(shape_.outer));
        out.split(n, no, ni, parts == 1 ? width : lanes * block, TailStrategy::ShiftInwards).reorder(ni, y, no, j);
        if (skewed && parts > 1 && shape_.outer > 1) out.fuse(no, j, no);
        const bool ring = machine.timed() && blocks(block) > 1;
        const auto in_block = [&](Func f, int rows) {
            f.compute_at(out, no).bound_extent(n, lanes * block).bound_extent(y, rows);
            if (ring) f.hoist_storage_root().ring_buffer(2);
            in_pads({f});
        };
        const auto held = [&](Func f, const LoopLevel &at, int rows) {
            f.compute_at(at).bound_extent(n, lanes * block).bound_extent(y, rows);
            in_pads({f});
        };
        const int of_all = std::gcd(unroll, turns);
        const LoopLevel of_columns = again ? LoopLevel(out, no) : LoopLevel(result, v);
        if (again) {
            const int rows = unroll * side;
            const Var yo("yo"), yi("yi");
            out.split(y, yo, yi, rows, TailStrategy::GuardWithIf).reorder(ni, yi, yo, no, j);
            for (const Func &f : {xs, result}) held(f, LoopLevel(out, yo), rows);
            result.vectorize(n, lanes).split(y, y, yu, rows);
        } else {
            in_block(xs, turns * side);
            in_block(result, length);
            // Whole columns of 32 after each other, so many elements of each in straight-line code.
            result.split(n, v, vi, lanes).reorder(vi, y, v).vectorize(vi);
            if (straight(unroll) > 1) result.split(y, y, yu, size(straight(unroll)));
            Func e = powers[0];
            e.compute_at(of_columns).bound_extent(n, lanes).bound_extent(y, turns * side).vectorize(n, lanes);
            if (of_all * side > 1) e.split(y, y, yu, of_all * side);
            in_pads({e});
        }
        // The loop that turns.
        const auto running = [&](Func f, const RDom &over, const LoopLevel &at, int straight) {
            RVar turn(skewed ? "turn_alike" : "turn"), unrolled("r_unroll");
            f.compute_at(at).bound_extent(n, lanes).vectorize(n, lanes).bound_extent(u, side);
            f.update().reorder(n, u, over.x).vectorize(n, lanes);
            if (straight > 1) f.update().split(over.x, turn, unrolled, straight).reorder(n, u, unrolled, turn);
            in_registers({f});
            return LoopLevel(f, straight > 1 ? turn : over.x);
        };
        LoopLevel turns_of = running(part, seen, of_columns, of_all);
        if (again) held(all_rows[0], turns_of, of_all * side);
        size_t run = 0;
        for (SummingFunc &one : added) {
            const int terms = one.of.in_groups() ? 1 : std::gcd(unroll, size(one.of.steps));
            turns_of = running(one.sum, one.terms, one.place(added, of_columns), terms);
            if (again && !one.of.in_groups()) held(all_rows[1 + run++], turns_of, terms * side);
            if (one.of.rest) one.sum.update(1).reorder(n, u).vectorize(n, lanes);
        }
        for (Func f : {largest, closing}) f.compute_at(of_columns).bound_extent(n, lanes).vectorize(n, lanes);
        in_registers({largest, closing});
        whole_loops(out);
        fix_shape(out.output_buffer(), {shape_.inner, shape_.length, shape_.outer});

        return kernel(Pipeline(out), {image});
    }

    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override {
        const TensorData &x = inputs[0];
        Reference reference;
        reference.values.resize(x.size());
        reference.peaks.resize(x.size());
        const auto inner = static_cast<size_t>(shape_.inner), length = static_cast<size_t>(shape_.length);
        for (size_t column = 0; column < x.size() / length; column++) {
            const size_t first = column / inner * inner * length + column % inner;
            const auto value = [&](size_t i) { return static_cast<double>(bf16_float(x[first + i * inner])); };
            double largest = -INFINITY, sum = 0;
            for (size_t i = 0; i < length; i++) largest = std::max(largest, value(i));
            for (size_t i = 0; i < length; i++) sum += std::exp(value(i) - largest);
            for (size_t i = 0; i < length; i++) {
                const double below = value(i) - largest;
                reference.values[first + i * inner] = logarithm_ ? below - std::log(sum) : std::exp(below) / sum;
                // The sum begins with exp(0) = 1, whose rounding the logarithm turns into an absolute error.
                reference.peaks[first + i * inner] = logarithm_ ? std::max({1.0, std::log(sum), -below}) : 1 / sum;
            }
        }
        return {std::move(reference)};
    }
    // Beside what a row of lanes has, the roundings of a running sum, half a unit each with random signs, and the function at
    // the end.
    double tolerance_ulps() const override {
        return 5 + 0.5 * std::sqrt(static_cast<double>(long_sum(steps()).additions_in_a_row()));
    }
    double flops() const override { return 5 * static_cast<double>(shape_.inner * shape_.length * shape_.outer); }

protected:
    KernelWork work(const Machine &) const override {
        const int64_t columns = vectors() * shape_.outer, all = columns * shape_.length, later = all - columns;
        KernelWork work;
        work.bytes = tensor_bytes();
        work.lanes = {all + 2 * later + (logarithm_ ? all : 0), logarithm_ ? 0 : all, all, 0};
        work.copies = later;
        work.rows_loaded = work.rows_stored = all;
        return work;
    }

private:
    // Columns whose results, and what they are made of, do not fit the pads: each pass brings them again, a part at a time.
    bool in_parts(const Machine &machine) const {
        if (3 * 2 * stored() <= machine.pad_rows()) return false;
        for (int64_t unroll = 1; unroll <= most_unrolled; unroll++)
            if (columns_fit(machine, 1, unroll, false)) return false;
        return true;
    }
    bool columns_fit(const Machine &machine, int64_t columns, int64_t unroll, bool skewed) const {
        constexpr int64_t waiting = 6;  // slots of what a pass on another column reads
        const int64_t slots = blocks(columns) > 1 && machine.timed() ? 2 : 1, kept = skewed ? waiting * stored() : 0;
        const bool round = unroll * sides() % machine.pad.count == 0;
        return fit_pads(machine, {{slots * columns * stored(), round},
                                  {stored() + kept, round},
                                  {kept, round},
                                  {slots * columns * shape_.length, straight(unroll) % machine.pad.count == 0}});
    }
    // For the maxima, each run of the sums, and the results.
    bool parts_fit(const Machine &machine, int64_t unroll) const {
        const int64_t rows = unroll * sides(), buffers = 3 + long_sum(steps()).runs();
        return fit_pads(machine, {static_cast<size_t>(buffers), {rows, rows % machine.pad.count == 0}});
    }

    // Passes that are loops of equal length, over whole vectors of several columns.
    bool may_skew(const Machine &machine) const {
        return machine.timed() && (shape_.inner % lanes == 0 || vectors() > 1) && stored() == shape_.length && steps() > 1 &&
               !long_sum(steps()).in_groups() && vectors() * shape_.outer > 1;
    }
    int64_t vectors() const { return tiles_of(shape_.inner); }
    int64_t sides() const { return shape_.length >= 2 * most_sides ? most_sides : 1; }
    // Elements that a running value meets.
    int64_t steps() const { return ceil_div(shape_.length, sides()); }
    // Elements of a column in the pads: as many for each running value.
    int64_t stored() const { return steps() * sides(); }
    // Results of a column in straight-line code.
    int64_t straight(int64_t unroll) const {
        int64_t count = std::min(unroll * sides(), shape_.length);
        while (shape_.length % count != 0) count--;
        return count;
    }
    int64_t blocks(int64_t columns) const { return ceil_div(vectors(), columns) * shape_.outer; }

    ColumnShape shape_;
    bool logarithm_;
};

}  // namespace

std::unique_ptr<Workload> column_softmax(const WorkloadRequest &request, const ColumnShape &shape, bool logarithm) {
    return std::make_unique<ColumnSoftmax>(request, shape, logarithm);
}

}  // namespace atalla
