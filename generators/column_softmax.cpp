#include "generators/column_softmax.h"

#include <algorithm>
#include <cmath>
#include <functional>
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

// Columns, of which each lane of a vector has one.
struct Columns : ColumnShape {
    int64_t vectors() const { return tiles_of(inner); }
    int64_t sides() const { return length >= 2 * most_sides ? most_sides : 1; }
    // Elements that a running value meets.
    int64_t steps() const { return ceil_div(length, sides()); }
    // Elements of a column in the pads: as many for each running value.
    int64_t stored() const { return steps() * sides(); }
    // Results of a column in straight-line code.
    int64_t straight(int64_t unroll) const {
        int64_t count = std::min(unroll * sides(), length);
        while (length % count != 0) count--;
        return count;
    }
    // Of so many vectors.
    int64_t blocks(int64_t columns) const { return ceil_div(vectors(), columns) * outer; }
};

class ColumnSoftmaxKernel {
public:
    // `in_parts`: each pass brings columns again, a part at a time.
    ColumnSoftmaxKernel(const Columns &shape, bool logarithm, const Machine &machine, const Point &point, bool in_parts)
        : shape_(shape),
          logarithm_(logarithm),
          in_parts_(in_parts),
          skewed_(point["skewed"] != 0),
          width_(size(shape.inner)),
          length_(size(shape.length)),
          side_(size(shape.sides())),
          turns_(size(shape.steps())),
          block_(size(point["columns"])),
          blocks_(ceil_div(size(shape.vectors()), block_)),
          unroll_(size(point["unroll"])),
          filled_(shape.stored() != shape.length),
          narrow_(width_ % lanes != 0 && blocks_ == 1),
          ring_(machine.timed() && shape.blocks(block_) > 1),
          image_(tensor("X", {shape.inner, shape.length, shape.outer})),
          seen_(0, turns_, skewed_ ? "seen_alike" : "seen"),
          no_(skewed_ ? "no_skewed" : "no") {}

    Pipeline build() {
        find_largest();
        add_powers();
        make_results();
        loop_over_blocks();
        if (in_parts_)
            pass_in_parts();
        else
            hold_columns();
        run_along_columns();
        whole_loops(out_);
        fix_shape(out_.output_buffer(), {shape_.inner, shape_.length, shape_.outer});
        return Pipeline(out_);
    }
    const ImageParam &image() const { return image_; }

private:
    // ---- algorithm

    // Rows behind the last change neither maxima nor sums.
    Func rows_of_image(const std::string &name) const {
        Func xs(name);
        const Expr there = image_(narrow_ ? min(n, width_ - 1) : Expr(n), filled_ ? min(y, length_ - 1) : Expr(y), j);
        if (filled_) xs(n, y, j) = bf16(-infinity);
        if (filled_ || narrow_)
            xs(n, y, j) = select(n < width_ && y < length_, there, undef<BFloat>());
        else
            xs(n, y, j) = there;
        if (filled_) xs.vectorize(n, lanes);
        return xs;
    }
    // Those of another pass.
    Func rows_again(const std::string &name) {
        if (in_parts_) rows_.push_back(rows_of_image(name));
        return rows_.back();
    }

    Expr in_pairs(const Func &parts, const std::function<Expr(const Expr &, const Expr &)> &both) const {
        std::vector<Expr> terms;
        for (int a = 0; a < side_; a++) terms.push_back(parts(n, a, j));
        for (; terms.size() > 1; terms.resize(terms.size() / 2))
            for (size_t a = 0; a < terms.size() / 2; a++) terms[a] = both(terms[2 * a], terms[2 * a + 1]);
        return terms[0];
    }

    void find_largest() {
        rows_ = {rows_of_image("X_rows")};
        part_(n, u, j) = bf16(-infinity);
        part_(n, u, j) = strict_float(max(rows_[0](n, seen_ * side_ + u, j), part_(n, u, j)));
        largest_(n, j) = in_pairs(part_, [](const Expr &a, const Expr &b) { return strict_float(max(a, b)); });
    }

    Expr centred(const Func &xs) const { return strict_float(xs(n, y, j) - largest_(n, j)); }
    Func powers_of(const Func &xs) {
        if (in_parts_ || powers_.empty()) {
            powers_.emplace_back("e");
            powers_.back()(n, y, j) = machine_exp(centred(xs));
        }
        return powers_.back();
    }

    void add_powers() {
        added_ = summing_funcs(
            sums_, {n, u, j}, long_sum(shape_.steps()),
            [&](size_t run) {
                const Func e = powers_of(rows_again(fmt::format("X_added_{}", static_cast<char>('a' + run))));
                return [=, this](const Expr &step, const Expr &) { return e(n, step * side_ + u, j); };
            },
            skewed_ ? "added_alike" : "added");
        const Expr total = in_pairs(sums_, [](const Expr &a, const Expr &b) { return strict_float(a + b); });
        closing_(n, j) = logarithm_ ? lane_math::logarithm(total) : lane_math::reciprocal_of_sum(total, shape_.stored());
    }

    void make_results() {
        left_ = rows_again("X_left");
        result_(n, y, j) = logarithm_ ? strict_float(centred(left_) - closing_(n, j))
                                      : strict_float(powers_of(left_)(n, y, j) * closing_(n, j));
        out_(n, y, j) = result_(n, y, j);
    }

    // ---- loops

    // The last of several blocks begins earlier and makes some columns again, so that all are alike.
    void loop_over_blocks() {
        out_.bound(n, 0, width_).bound(y, 0, length_).bound(j, 0, size(shape_.outer));
        out_.split(n, no_, ni_, blocks_ == 1 ? width_ : lanes * block_, TailStrategy::ShiftInwards).reorder(ni_, y, no_, j);
        if (skewed_ && blocks_ > 1 && shape_.outer > 1) out_.fuse(no_, j, no_);
    }

    void hold(Func f, const LoopLevel &at, int rows) const {
        f.compute_at(at).bound_extent(n, lanes * block_).bound_extent(y, rows);
        in_pads({f});
    }

    void pass_in_parts() {
        const int rows = unroll_ * side_;
        const Var yo("yo"), yi("yi");
        out_.split(y, yo, yi, rows, TailStrategy::GuardWithIf).reorder(ni_, yi, yo, no_, j);
        for (const Func &f : {left_, result_}) hold(f, LoopLevel(out_, yo), rows);
        result_.vectorize(n, lanes).split(y, y, yu_, rows);
        of_columns_ = LoopLevel(out_, no_);
    }

    // Steps of a run in straight-line code.
    int together(int64_t steps) const { return std::gcd(unroll_, size(steps)); }

    void hold_columns() {
        const auto hold_in_block = [&](Func f, int rows) {
            hold(f, LoopLevel(out_, no_), rows);
            if (ring_) f.hoist_storage_root().ring_buffer(2);
        };
        hold_in_block(left_, turns_ * side_);
        hold_in_block(result_, length_);
        // Whole columns of 32 after each other, so many elements of each in straight-line code.
        const Var v("v"), vi("vi");
        result_.split(n, v, vi, lanes).reorder(vi, y, v).vectorize(vi);
        if (const int64_t straight = shape_.straight(unroll_); straight > 1) result_.split(y, y, yu_, size(straight));
        of_columns_ = LoopLevel(result_, v);
        Func e = powers_[0];
        e.compute_at(of_columns_).bound_extent(n, lanes).bound_extent(y, turns_ * side_).vectorize(n, lanes);
        if (const int straight = together(turns_) * side_; straight > 1) e.split(y, y, yu_, straight);
        in_pads({e});
    }

    // Returns the loop that turns.
    LoopLevel run_along(Func f, const RDom &over, const LoopLevel &at, int straight) const {
        RVar turn(skewed_ ? "turn_alike" : "turn"), unrolled("r_unroll");
        f.compute_at(at).bound_extent(n, lanes).vectorize(n, lanes).bound_extent(u, side_);
        f.update().reorder(n, u, over.x).vectorize(n, lanes);
        if (straight > 1) f.update().split(over.x, turn, unrolled, straight).reorder(n, u, unrolled, turn);
        in_registers({f});
        return LoopLevel(f, straight > 1 ? turn : over.x);
    }

    void run_along_columns() {
        const int of_all = together(turns_);
        const LoopLevel turn = run_along(part_, seen_, of_columns_, of_all);
        if (in_parts_) hold(rows_[0], turn, of_all * side_);
        size_t run = 0;
        for (SummingFunc &one : added_) {
            const int terms = one.of.in_groups() ? 1 : together(one.of.steps);
            const LoopLevel turn_of_run = run_along(one.sum, one.terms, one.place(added_, of_columns_), terms);
            if (in_parts_ && !one.of.in_groups()) hold(rows_[1 + run++], turn_of_run, terms * side_);
            if (one.of.rest) one.sum.update(1).reorder(n, u).vectorize(n, lanes);
        }
        for (Func f : {largest_, closing_}) f.compute_at(of_columns_).bound_extent(n, lanes).vectorize(n, lanes);
        in_registers({largest_, closing_});
    }

    const Columns &shape_;
    const bool logarithm_, in_parts_, skewed_;
    const int width_, length_, side_, turns_, block_, blocks_, unroll_;
    const bool filled_;  // columns in the pads have more elements than the tensor's,
    const bool narrow_;  // or vectors more lanes
    const bool ring_;
    const ImageParam image_;
    const RDom seen_;
    const Var n{"n"}, y{"y"}, j{"j"}, u{"u"}, no_, ni_{"ni"}, yu_{"y_unroll"};
    std::vector<Func> rows_;  // of the maxima, of each run of the sums and of the results, or one for all
    std::vector<Func> powers_;
    Func part_{"part"}, largest_{"largest"}, sums_{"sums"}, closing_{"closing"}, left_, result_{"result"}, out_{"Y"};
    std::vector<SummingFunc> added_;
    LoopLevel of_columns_;  // where columns of 32 follow each other
};

class ColumnSoftmax : public PipelineWorkload {
public:
    ColumnSoftmax(const WorkloadRequest &request, const ColumnShape &shape, bool logarithm)
        : PipelineWorkload(request), shape_{shape}, logarithm_(logarithm) {
        inputs_ = {tensor_spec("x", request.shape("x"))};
        set_result("Y", request.shape("x"));
    }

    Space space(const Machine &machine) const override {
        std::vector<int64_t> columns, unrolls;
        for (int64_t block = 1; block < 2 * shape_.vectors(); block *= 2) columns.push_back(std::min(block, shape_.vectors()));
        const int64_t run = long_sum(shape_.steps()).run().steps;
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
            return fmt::format("parts of {} elements of 32 columns, again for each pass", point["unroll"] * shape_.sides());
        return fmt::format("{} vectors of columns at a time, {} elements of each in straight-line code{}", point["columns"],
                           point["unroll"] * shape_.sides(), point["skewed"] != 0 ? ", all passes in one loop" : "");
    }
    double draft(const Machine &machine, const Point &point) const override {
        const auto columns = static_cast<double>(shape_.vectors() * shape_.outer),
                   elements = static_cast<double>(shape_.stored());
        const auto straight = static_cast<double>(point["unroll"] * shape_.sides());
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
               300 * static_cast<double>(shape_.blocks(point["columns"]));
    }

    KernelDefinition build(const Machine &machine, const Point &point) const override {
        ColumnSoftmaxKernel softmax(shape_, logarithm_, machine, point, in_parts(machine));
        return kernel(softmax.build(), {softmax.image()});
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
        return 5 + 0.5 * std::sqrt(static_cast<double>(long_sum(shape_.steps()).additions_in_a_row()));
    }
    double flops() const override { return 5 * static_cast<double>(shape_.inner * shape_.length * shape_.outer); }

protected:
    KernelWork work(const Machine &) const override {
        const int64_t columns = shape_.vectors() * shape_.outer, all = columns * shape_.length, later = all - columns;
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
        if (3 * 2 * shape_.stored() <= machine.pad_rows()) return false;
        for (int64_t unroll = 1; unroll <= most_unrolled; unroll++)
            if (columns_fit(machine, 1, unroll, false)) return false;
        return true;
    }
    bool columns_fit(const Machine &machine, int64_t columns, int64_t unroll, bool skewed) const {
        constexpr int64_t waiting = 6;  // slots of what a pass on another column reads
        const int64_t slots = shape_.blocks(columns) > 1 && machine.timed() ? 2 : 1,
                      kept = skewed ? waiting * shape_.stored() : 0;
        const bool round = unroll * shape_.sides() % machine.pad.count == 0;
        return fit_pads(machine, {{slots * columns * shape_.stored(), round},
                                  {shape_.stored() + kept, round},
                                  {kept, round},
                                  {slots * columns * shape_.length, shape_.straight(unroll) % machine.pad.count == 0}});
    }
    // For the maxima, each run of the sums, and the results.
    bool parts_fit(const Machine &machine, int64_t unroll) const {
        const int64_t rows = unroll * shape_.sides(), buffers = 3 + long_sum(shape_.steps()).runs();
        return fit_pads(machine, {static_cast<size_t>(buffers), {rows, rows % machine.pad.count == 0}});
    }

    // Passes that are loops of equal length, over whole vectors of several columns.
    bool may_skew(const Machine &machine) const {
        return machine.timed() && (shape_.inner % lanes == 0 || shape_.vectors() > 1) && shape_.stored() == shape_.length &&
               shape_.steps() > 1 && !long_sum(shape_.steps()).in_groups() && shape_.vectors() * shape_.outer > 1;
    }
    Columns shape_;
    bool logarithm_;
};

}  // namespace

std::unique_ptr<Workload> column_softmax(const WorkloadRequest &request, const ColumnShape &shape, bool logarithm) {
    return std::make_unique<ColumnSoftmax>(request, shape, logarithm);
}

}  // namespace atalla
