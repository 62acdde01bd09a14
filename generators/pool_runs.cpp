// Means of windows over images in PyTorch's layout that come as they lie in memory: the rows of the image that a few rows of
// results see are one run of elements, whose vectors meet constant weights one after the other. The array adds what of a
// window lies in a vector, and the lanes what the vectors of a run have of it.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "generators/pad_room.h"
#include "generators/pool.h"
#include "generators/pool_transfers.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// A run and its vectors. A window has a part in each of them that has elements of one of its rows.
class Runs {
public:
    int64_t rows = 0;      // of results that a run has; 0: they do not fit a vector
    int64_t elements = 0;  // of a run
    int64_t results = 0;
    int64_t count = 0;  // of all runs

    Runs(const PoolShape &shape, int64_t rows_of_run) : shape_(&shape) {
        const int64_t all = shape.images * shape.channels * shape.y.results;
        if (all % rows_of_run != 0 || rows_of_run * shape.x.results > lanes) return;
        rows = rows_of_run;
        elements = rows * shape.y.stride * shape.x.size;
        results = rows * shape.x.results;
        count = all / rows;
        std::vector<int64_t> starts;
        for (int64_t vector = 0; vector < vectors(); vector++)
            for (int64_t window = 0; window < results; window++)
                for (const int64_t start : parts(vector, window)) starts.push_back(start);
        first_start_ = *std::min_element(starts.begin(), starts.end());
        step_ = 0;
        for (const int64_t start : starts) step_ = std::gcd(step_, start - first_start_);
        step_ = std::max<int64_t>(step_, 1);
    }

    int64_t vectors() const { return ceil_div(elements, int64_t{lanes}); }
    int64_t columns(int64_t vector) const { return std::min<int64_t>(lanes, elements - vector * lanes); }
    // The lanes where the rows of a window begin of which a vector has elements; those of the first may be in the vector
    // before.
    std::vector<int64_t> parts(int64_t vector, int64_t window) const {
        std::vector<int64_t> starts;
        for (int64_t row = 0; row < shape_->y.kernel; row++) {
            const int64_t start = (window / shape_->x.results * shape_->y.stride + row) * shape_->x.size +
                                  window % shape_->x.results * shape_->x.stride - vector * lanes;
            if (start < lanes && start + shape_->x.kernel > 0) starts.push_back(start);
        }
        return starts;
    }
    int64_t most_parts(int64_t vector) const {
        size_t most = 1;
        for (int64_t window = 0; window < results; window++) most = std::max(most, parts(vector, window).size());
        return static_cast<int64_t>(most);
    }

    // Rows of weights that are all the same but for where they begin, of which the last one is zero.
    int64_t start_of_weights(int64_t row) const { return first_start_ + row * step_; }
    int64_t rows_of_weights() const { return ceil_div(lanes - first_start_, step_) + 1; }
    // That of a part of a window.
    int64_t row_of_weights(int64_t vector, int64_t window, int64_t part) const {
        const std::vector<int64_t> starts = window < results ? parts(vector, window) : std::vector<int64_t>{};
        return part < static_cast<int64_t>(starts.size()) ? (starts[static_cast<size_t>(part)] - first_start_) / step_
                                                          : rows_of_weights() - 1;
    }

    // Results of which a vector has elements, from the first to the last.
    std::pair<int64_t, int64_t> seen(int64_t vector) const {
        int64_t first = results, last = -1;
        for (int64_t window = 0; window < results; window++)
            if (!parts(vector, window).empty()) {
                first = std::min(first, window);
                last = window;
            }
        return {first, last};
    }
    bool sees(int64_t vector, int64_t window) const { return !parts(vector, window).empty(); }
    // A vector's products need no addition to those of the vectors before it, back to `from`, where no result has elements of
    // both.
    bool apart(int64_t from, int64_t vector) const {
        const auto [first, last] = seen(vector);
        for (int64_t before = from; before < vector; before++)
            for (int64_t window = first; window <= last; window++)
                if (sees(before, window)) return false;
        return true;
    }
    // Where a vector's products begin a sum of their own.
    std::vector<bool> begins() const {
        std::vector<bool> result;
        int64_t from = 0;
        for (int64_t vector = 0; vector < vectors(); vector++) {
            result.push_back(vector == 0 || !apart(from, vector));
            if (result.back()) from = vector;
        }
        return result;
    }
    int64_t additions() const {
        const std::vector<bool> all = begins();
        return std::count(all.begin(), all.end(), true) - 1;
    }

    // Of a run's vector, of its results, and of all; a run begins anywhere.
    double beats_of(int64_t vector) const { return mean_beats(elements, vector * lanes, columns(vector)); }
    double beats_of_results() const { return mean_beats(results, 0, results); }
    double beats() const {
        double sum = beats_of_results();
        for (int64_t vector = 0; vector < vectors(); vector++) sum += beats_of(vector);
        return sum;
    }
    // Each vector of a run has a loop nest of its own, at the pace of the bus or of the lanes and the array.
    double cycles() const {
        constexpr double of_nest = 600;
        constexpr int64_t of_addition = 3;
        const auto compute = static_cast<double>(of_addition * additions() + vectors());
        return static_cast<double>(count) * std::max(beats(), compute) + static_cast<double>(vectors()) * of_nest;
    }

private:
    const PoolShape *shape_;
    int64_t first_start_ = 0, step_ = 1;
};

// The run that takes the fewest cycles, if there is one.
Runs runs_of(const PoolShape &shape) {
    constexpr int64_t most_vectors = 6;
    Runs best(shape, lanes + 1);
    if (!continuous(shape)) return best;
    double least = 0;
    for (int64_t rows = 1; rows * shape.x.results <= lanes; rows++) {
        const Runs runs(shape, rows);
        if (runs.rows == 0 || runs.vectors() > most_vectors) continue;
        if (best.rows == 0 || runs.cycles() < least) {
            least = runs.cycles();
            best = runs;
        }
    }
    return best;
}

class RunPool {
public:
    RunPool(const PoolShape &shape, const Machine &machine, const Point &point)
        : shape_(shape),
          machine_(machine),
          runs_(runs_of(shape)),
          together_(size(point["together"])),
          block_(size(point["block"])),
          unroll_(size(point["unroll"])),
          parts_(parts_of(machine, point)) {}

    // A part of each block is in each pad where straight-line code takes runs of all parts.
    static int parts_of(const Machine &machine, const Point &point) {
        const int64_t pads = machine.pad.count;
        return point["block"] % pads == 0 && point["unroll"] % pads == 0 ? size(pads) : 1;
    }

    KernelDefinition run() {
        define_table();
        const std::vector<bool> begins = runs_.begins();
        for (int64_t vector = 0; vector < runs_.vectors(); vector++) {
            steps_.emplace_back(vector);
            define(steps_.back(), begins[static_cast<size_t>(vector)]);
        }
        out_(x, y) = steps_.back().sums(x, y);
        schedule();
        KernelDefinition kernel;
        kernel.pipeline = Pipeline(out_);
        kernel.add_input("X", image_);
        kernel.outputs = {{"Y", {runs_.results, runs_.count}}};
        if (parts_ > 1)
            for (const Step &step : steps_)
                for (const Func &func : {step.raw, step.sums}) kernel.lay_out(func, {0, block_ / parts_});
        return kernel;
    }

private:
    // What a vector of all runs adds to the results.
    struct Step {
        int64_t vector;
        Func raw, weights, part, product, sums;
        explicit Step(int64_t number)
            : vector(number),
              raw(name("raw", number)),
              weights(name("weights", number)),
              part(name("part", number)),
              product(name("product", number)),
              sums(name("sums", number)) {}
        static std::string name(const char *of, int64_t number) {
            return of + std::string("_") + static_cast<char>('a' + number);
        }
    };

    // Rows of weights are alike but for the lane in which the windows' rows begin.
    void define_table() {
        const double elements = shape_.divisor != 0 ? shape_.divisor : static_cast<double>(shape_.x.kernel * shape_.y.kernel);
        const Expr place =
            k - s * size(runs_.start_of_weights(1) - runs_.start_of_weights(0)) - size(runs_.start_of_weights(0));
        table_(k, s) = select(place >= 0 && place < size(shape_.x.kernel), bf16(static_cast<float>(1 / elements)), bf16(0.0f));
    }
    // The row of the table that each result's part has: runs of results at one distance.
    Expr row_of_weights(int64_t vector, int64_t part) const {
        std::vector<int64_t> rows;
        for (int64_t window = 0; window < lanes; window++) rows.push_back(runs_.row_of_weights(vector, window, part));
        Expr row;
        for (int64_t end = lanes, from = 0; end > 0; end = from) {
            from = end - 1;
            const int64_t distance = from > 0 ? rows[from] - rows[from - 1] : 0;
            while (from > 0 && rows[from] - rows[from - 1] == distance) from--;
            const Expr here = size(rows[from]) + (w - size(from)) * size(distance);
            row = row.defined() ? select(w < size(end), here, row) : here;
        }
        return row;
    }

    void define(Step &step, bool begins) {
        const int columns = size(runs_.columns(step.vector)), start = size(step.vector * lanes);
        if (columns == lanes) {
            step.raw(k, y) = image_(start + k, y);
        } else {
            // What lies behind the run meets a weight of zero, but must be a number.
            step.raw(k, y) = bf16(0.0f);
            step.raw(k, y) = select(k < columns, image_(start + min(k, columns - 1), y), undef<BFloat>());
        }
        Expr weight = table_(k, row_of_weights(step.vector, 0));
        for (int64_t part = 1; part < runs_.most_parts(step.vector); part++)
            weight = strict_float(weight + table_(k, row_of_weights(step.vector, part)));
        step.weights(k, w) = weight;
        step.part(l, y) = 0.0f;
        step.part(l, y) += f32(step.raw(q, y)) * f32(step.weights(q, l));
        step.product(l, y) = bf16(step.part(l, y));
        Expr value = step.product(l, y);
        if (!begins) {
            const auto [first, last] = runs_.seen(step.vector);
            value = select(l >= size(first) && l <= size(last), value, steps_[static_cast<size_t>(step.vector) - 1].sums(l, y));
        }
        // A sum of its own joins those before it with its last vector.
        const std::vector<bool> all = runs_.begins();
        const bool ends = step.vector + 1 == runs_.vectors() || all[static_cast<size_t>(step.vector) + 1];
        int64_t before = step.vector;
        while (!all[static_cast<size_t>(before)]) before--;
        if (ends && before > 0) value = strict_float(steps_[static_cast<size_t>(before) - 1].sums(l, y) + value);
        step.sums(l, y) = value;
    }

    void schedule() {
        const int runs = size(runs_.count);
        out_.bound(x, 0, size(runs_.results)).bound(y, 0, runs);
        whole_loops(out_);
        fix_shape(out_.output_buffer(), {size(runs_.results), runs});
        table_.compute_root().vectorize(k, lanes).bound(k, 0, lanes).bound(s, 0, size(runs_.rows_of_weights()));
        in_pads({table_});
        const Var turn("turn"), block("block"), whole("whole");  // `whole`: of one turn, in front of which weights are loaded
        out_.split(y, turn, y, together_)
            .split(y, whole, y, together_)
            .split(y, block, y, block_)
            .reorder(x, y, block, whole, turn);
        for (Step &step : steps_) {
            Func &sums = step.sums;
            const bool leaves = &step == &steps_.back();
            Func &nest = leaves ? out_ : sums;
            if (leaves) {
                two_slots(sums.compute_at(out_, block).bound_extent(y, block_));
            } else {
                sums.compute_at(out_, turn).bound_extent(y, together_).split(y, whole, y, together_).split(y, block, y, block_);
            }
            const Var pad("pad_unroll"), unrolled("y_unroll");
            sums.vectorize(l, lanes)
                .bound_extent(l, lanes)
                .split(y, pad, y, block_ / parts_)
                .split(y, y, unrolled, unroll_ / parts_);
            std::vector<VarOrRVar> order = {l, pad, unrolled, y};
            if (!leaves) order.insert(order.end(), {block, whole});
            sums.reorder(order);
            two_slots(step.raw.compute_at(nest, block).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(y, block_));
            step.weights.compute_at(nest, whole)
                .vectorize(k, lanes)
                .bound_extent(k, lanes)
                .bound_extent(w, lanes)
                .split(w, w, Var("w_unroll"), lanes);
            const LoopLevel one_run(sums, pad);
            as_array_row(step.part.compute_at(one_run), l, q);
            step.product.compute_at(one_run).vectorize(l, lanes);
            in_registers({step.weights, step.part, step.product});
            in_pads({step.raw, sums});
        }
    }
    void two_slots(Func f) const {
        if (runs_.count > block_) f.hoist_storage_root().ring_buffer(2);
    }

    const PoolShape &shape_;
    const Machine &machine_;
    const Runs runs_;
    const int together_, block_, unroll_, parts_;
    Var k{"k"}, w{"w"}, l{"l"}, s{"s"}, x{"x"}, y{"y"};
    RDom q{0, lanes, "q"};
    ImageParam image_ = tensor("X", {runs_.elements, runs_.count});
    Func table_{"table"}, out_{"Y"};
    std::vector<Step> steps_;
};

bool fits(const Runs &runs, const Machine &machine, const Point &point) {
    const int64_t slots = runs.count > point["block"] ? 2 : 1;
    std::vector<PadUse> uses = {{runs.rows_of_weights(), false}, {slots * point["block"], true}};
    for (int64_t vector = 0; vector < runs.vectors(); vector++) {
        uses.push_back({slots * point["block"], true});
        if (vector > 0) uses.push_back({point["together"], true});
    }
    return fit_pads(machine, uses);
}

std::vector<int64_t> together_of(const Runs &runs) {
    constexpr int64_t most_runs = 8192, choices = 4;
    std::vector<int64_t> all = divisors(runs.count, most_runs);
    if (const auto count = static_cast<int64_t>(all.size()); count > choices)
        all.erase(all.begin(), all.begin() + (count - choices));
    return all;
}

Space space_of(const PoolShape &shape, const Machine &machine) {
    constexpr int64_t most_of_block = 512, most_unrolled = 64;
    const Runs runs = runs_of(shape);
    Space space;
    space.parameter("together", "runs in the pads at a time", together_of(runs))
        .parameter("block", "runs that come together", divisors(runs.count, most_of_block))
        .parameter("unroll", "of those in straight-line code", divisors(runs.count, most_unrolled));
    space.constraint("whole blocks", {"together", "block"}, "The runs that come together divide those in the pads.",
                     [](const Point &point) { return point["together"] % point["block"] == 0; });
    space.constraint("whole unrolls", {"block", "unroll"}, "The runs in straight-line code divide those that come together.",
                     [](const Point &point) { return point["block"] % point["unroll"] == 0; });
    space.constraint("pads", {"together", "block"}, "Runs, sums and results fit the pads.",
                     [=](const Point &point) { return fits(runs, machine, point); });
    return space;
}

Point naive_point_of(const PoolShape &shape, const Machine &) {
    return {{"together", together_of(runs_of(shape)).front()}, {"block", 1}, {"unroll", 1}};
}

bool takes(const PoolShape &shape, const Machine &machine) {
    if (!shape.planes_outermost || shape.kind != Pooling::Average || shape.x.adaptive || shape.y.adaptive || !machine.timed() ||
        reaches_out(shape.x) || reaches_out(shape.y))
        return false;
    // A run takes as many loop nests as it has vectors, which must spare the bus a third of what it takes along rows.
    constexpr double most_of_rows = 2.0 / 3;
    const Runs runs = runs_of(shape);
    return runs.rows > 0 && fits(runs, machine, naive_point_of(shape, machine)) &&
           static_cast<double>(runs.count) * runs.beats() < most_of_rows * beats_along_rows(shape, machine);
}

double draft_of(const PoolShape &shape, const Machine &machine, const Point &point) {
    // Each vector of the runs goes at the pace of the bus, of the lanes or of the latency of the array, which runs in
    // straight-line code share.
    constexpr double latency = 60, start = 2000, around = 150, of_nest = 600, lost = 1.15, beside = 0.3;
    const Runs runs = runs_of(shape);
    const auto real = [](int64_t n) { return static_cast<double>(n); };
    const double blocks = real(runs.count / point["block"]), turns = real(runs.count / point["together"]);
    const std::vector<bool> begins = runs.begins();
    double cycles = start;
    for (int64_t vector = 0; vector < runs.vectors(); vector++) {
        const bool last = vector + 1 == runs.vectors(), adds = vector > 0 && (last || begins[static_cast<size_t>(vector) + 1]);
        const double lane = std::max(adds ? real(machine.vec.ii) : 1.25, latency / real(point["unroll"]));
        const double bus = lost * (runs.beats_of(vector) + (last ? runs.beats_of_results() : 0));
        const double compute = real(point["block"]) * lane + around, transfers = real(point["block"]) * bus;
        cycles += turns * of_nest + blocks * (std::max(compute, transfers) + beside * std::min(compute, transfers));
        if (vector == 0 || last) cycles += transfers;
    }
    return cycles;
}

}  // namespace

const PoolForm run_pool = {
    takes, space_of, naive_point_of, draft_of,
    [](const PoolShape &shape, const Machine &machine, const Point &point) { return RunPool(shape, machine, point).run(); }};

}  // namespace atalla
