#include "generators/group_norm.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "generators/channel_rows.h"
#include "generators/deviation.h"
#include "generators/group_norm_parts.h"
#include "generators/group_total.h"
#include "generators/movement.h"
#include "generators/pad_room.h"
#include "generators/pipeline_workload.h"
#include "generators/row_norm.h"
#include "generators/vocabulary.h"
#include "isa/error.h"
#include "isa/vectors.h"
#include "simulator/numerics.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

class GroupNorm : public PipelineWorkload {
public:
    GroupNorm(const WorkloadRequest &request, const GroupShape &shape) : PipelineWorkload(request), shape_(shape) {
        for (const WorkloadRequest::Tensor &tensor : request.tensors) inputs_.push_back(tensor_spec(tensor.name, tensor.shape));
        set_result("Y", request.shape("x"));
    }

    // Groups that the pads do not hold come in parts.
    Space space(const Machine &machine) const final {
        Space whole = whole_space(machine);
        return count(whole, 1) > 0 ? whole : group_parts_space(shape_, machine);
    }
    std::string words(const Machine &, const Point &point) const final {
        return is_group_in_parts(point) ? group_parts_words(point)
               : point["skewed"] != 0   ? skewed_words(point)
                                        : whole_words(point);
    }
    double draft(const Machine &machine, const Point &point) const final {
        return is_group_in_parts(point) ? group_parts_draft(shape_, machine, point)
               : point["skewed"] != 0   ? skewed_draft(machine, point)
                                        : whole_draft(machine, point);
    }
    KernelDefinition build(const Machine &machine, const Point &point) const final {
        return is_group_in_parts(point) ? named(group_norm_in_parts(shape_, machine, point))
               : point["skewed"] != 0   ? build_skewed(machine, point)
                                        : build_whole(machine, point);
    }

    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override {
        const auto value = [](const TensorData &data, int64_t at) {
            return static_cast<double>(bf16_float(data[static_cast<size_t>(at)]));
        };
        const int64_t count = shape_.channels * shape_.area;
        Reference reference;
        for (int64_t group = 0; group < shape_.groups * shape_.images; group++) {
            double mean = 0, squares = 0, largest = 0;
            for (int64_t i = 0; i < count; i++) mean += value(inputs[0], group * count + i) / static_cast<double>(count);
            for (int64_t i = 0; i < count; i++) {
                const double x = value(inputs[0], group * count + i);
                squares += (x - mean) * (x - mean) / static_cast<double>(count);
                largest = std::max(largest, std::abs(x));
            }
            const double scale = 1 / std::sqrt(squares + shape_.epsilon);
            for (int64_t i = 0; i < count; i++) {
                const int64_t channel = group % shape_.groups * shape_.channels + i / shape_.area;
                const double weight = shape_.weight ? value(inputs[1], channel) : 1,
                             bias = shape_.bias ? value(inputs.back(), channel) : 0;
                reference.values.push_back((value(inputs[0], group * count + i) - mean) * scale * weight + bias);
                reference.peaks.push_back(std::max(largest * scale * std::abs(weight), std::abs(bias)));
            }
        }
        return {std::move(reference)};
    }
    double tolerance_ulps() const override { return 4; }
    double flops() const override { return (6 + shape_.weight + shape_.bias) * static_cast<double>(outputs_[0].elements()); }

protected:
    // ---- groups that are in the pads, and whose passes are loops of their own

    virtual Space whole_space(const Machine &machine) const {
        Space space;
        space.parameter("channel_unroll", "channels in straight-line code", divisors(shape_.channels, 16))
            .parameter("vector_unroll", "vectors of a channel in straight-line code, of the steps that are no sums",
                       divisors(shape_.vectors(), lanes))
            .parameter("sum_unroll", "vectors of a channel that are summed in straight-line code",
                       divisors(shape_.vectors(), lanes));
        constexpr int64_t most_unrolled = 32;
        space.constraint("code", {"channel_unroll", "vector_unroll", "sum_unroll"},
                         "Straight-line code fits the instruction cache.", [](const Point &point) {
                             return point["channel_unroll"] * std::max(point["vector_unroll"], point["sum_unroll"]) <=
                                    most_unrolled;
                         });
        space.constraint("channels", {"channel_unroll", "vector_unroll", "sum_unroll"},
                         "Several channels are straight-line code where all vectors of each are.",
                         [vectors = shape_.vectors()](const Point &point) {
                             return point["channel_unroll"] == 1 ||
                                    (point["vector_unroll"] == vectors && point["sum_unroll"] == vectors);
                         });
        add_skewed(space, machine, {{"channel_unroll", 1}, {"vector_unroll", 1}, {"sum_unroll", 1}});
        space.constraint(
            "pads", {"channel_unroll", "vector_unroll", "sum_unroll", "skewed"},
            "A group as it comes and goes and a row for each channel fit the pads.", [=, this](const Point &point) {
                if (point["skewed"] != 0) return skewed_fits(machine, point);
                const int64_t slots = machine.timed() && shape_.groups * shape_.images > 1 ? 2 : 1;
                const auto is_round = [&](const char *unroll) {
                    return point["channel_unroll"] * point[unroll] % machine.pad.count == 0;
                };
                const bool round = is_round("vector_unroll") && is_round("sum_unroll");
                std::vector<PadUse> uses = {{slots * shape_.rows(), round}, {slots * shape_.rows(), round}};
                for (const bool given : {shape_.weight, shape_.bias})
                    if (given)
                        uses.insert(uses.end(), {{shape_.spread_rows(), false}, {tiles_of(shape_.all_channels()), false}});
                return fit_pads(machine, uses);
            });
        return space;
    }
    virtual std::string whole_words(const Point &point) const {
        return fmt::format("{} channels, {} vectors of each in straight-line code, {} where they are summed",
                           point["channel_unroll"], point["vector_unroll"], point["sum_unroll"]);
    }
    virtual double whole_draft(const Machine &machine, const Point &point) const {
        // A loop over sums waits for the array in each iteration; too much straight-line code comes from memory for each group.
        constexpr double most_packets = 380, miss = 11, array_latency = 110, loop_cost = 20, steps = 6, summed = 10;
        const auto rows = static_cast<double>(shape_.rows());
        const auto unrolled = [&](const char *name) { return static_cast<double>(point["channel_unroll"] * point[name]); };
        const double sums = rows * (14 + 2 * array_latency / unrolled("sum_unroll")),
                     others = rows * (10 + 2 * loop_cost / unrolled("vector_unroll"));
        const double packets = 100 + unrolled("vector_unroll") * steps + unrolled("sum_unroll") * summed;
        const double missed = miss * std::max(0.0, packets - most_packets);
        const double group = 600 + sums + others + (machine.timed() ? missed : 0);
        return (machine.timed() ? 900 : 60) + static_cast<double>(shape_.groups * shape_.images) * group +
               30 * static_cast<double>(shape_.all_channels() * (shape_.weight + shape_.bias));
    }

    virtual KernelDefinition build_whole(const Machine &machine, const Point &point) const;

    KernelWork work(const Machine &) const override {
        const int64_t vectors = tiles_of(outputs_[0].elements());
        KernelWork work;
        work.bytes = tensor_bytes();
        work.lanes = {(1 + shape_.bias) * vectors, (2 + shape_.weight) * vectors, 0, 0};
        work.rows_loaded = work.rows_stored = vectors;
        work.array_rows = 2 * vectors;
        work.array_loads = lanes;
        work.array_tiles = 1;
        return work;
    }

    // ---- a group as one row, whose passes are one loop (row_kernel.h)

    // Vectors of a group that are taken at a time; 0: each pass is a loop of its own, with points of `others` alone at their
    // least values else.
    void add_skewed(Space &space, const Machine &machine, const std::vector<std::pair<std::string, int64_t>> &others) const {
        constexpr int64_t most_unrolled = 32;
        std::vector<int64_t> unrolls = {0};
        const int64_t vectors = row_shape().vectors();
        if (machine.timed() && (in_parts() ? row_shape().fills_array() : shape_.whole_vectors()))
            for (const int64_t unroll : divisors(vectors, std::min(most_unrolled, vectors - 1))) {
                const Point point = {{"skewed", unroll}};
                if (unroll % parts() == 0 && (shape_.has_vector_rows(run(point)) || reads_channels(point)))
                    unrolls.push_back(unroll);
            }
        space.parameter("skewed",
                        "vectors of a group at a time where the passes over groups are one loop, each on another group; 0: "
                        "loops of their own",
                        unrolls);
        std::vector<std::string> names = {"skewed"};
        for (const auto &[name, value] : others) names.push_back(name);
        space.constraint("skewed", names, "Passes that are one loop have nothing else to choose.",
                         [others](const Point &point) {
                             return point["skewed"] == 0 || std::all_of(others.begin(), others.end(), [&](const auto &other) {
                                        return point[other.first] == other.second;
                                    });
                         });
    }
    bool skewed_fits(const Machine &machine, const Point &point) const {
        constexpr int64_t slots = 2, waiting = 4;  // of differences, and of elements until they are scaled
        const int64_t vectors = row_shape().vectors(),
                      rows = parts() > 1 ? vectors / parts() * round_up(parts(), machine.pad.count) : vectors;
        std::vector<PadUse> uses(2, {slots * rows, true});
        uses.insert(uses.end(), {{waiting * rows, true}, {waiting * rows, true}, {rows, true}});
        for (const bool given : {shape_.weight, shape_.bias})
            if (given)
                uses.insert(
                    uses.end(),
                    {{shape_.spread_rows(), false}, {tiles_of(shape_.all_channels()), false}, {rows_of_runs(point), false}});
        return fit_pads(machine, uses);
    }
    static std::string skewed_words(const Point &point) {
        return fmt::format("a group as one row; {} vectors at a time, all passes in one loop", point["skewed"]);
    }
    double skewed_draft(const Machine &machine, const Point &point) const {
        RowCost cost;
        cost.adds = 1 + shape_.bias;
        cost.muls = 2 + shape_.weight;
        cost.passes = 3;
        constexpr double of_channel = 16, of_vector = 3.5;
        const double made =
            of_channel * static_cast<double>(shape_.all_channels()) + of_vector * static_cast<double>(rows_of_runs(point));
        return row_draft(row_shape(), machine, row_point(point), cost) + (shape_.weight + shape_.bias) * made;
    }
    KernelDefinition build_skewed(const Machine &machine, const Point &point) const;
    // Vectors of a channel that follow each other where the passes over groups are one loop: a turn takes as many of each part.
    int64_t vectors_in_turn(const Point &point) const { return point["skewed"] / parts(); }
    int64_t parts() const { return std::max<int64_t>(1, row_shape().parts()); }
    // Does the loop go on by whole channels, or by parts of one, so that it can read the rows of channels? There are none for
    // what is behind the last one. Which channel a part is of takes the loop time: rows for each are better where they are few.
    bool reads_channels(const Point &point) const {
        if (!shape_.whole_vectors() || !row_shape().whole_vectors()) return false;
        const int64_t turn = vectors_in_turn(point);
        return turn % shape_.vectors() == 0 || (shape_.vectors() % turn == 0 && !shape_.has_vector_rows(run(point)));
    }
    // So many vectors of one channel that a turn takes have one row.
    int64_t run(const Point &point) const {
        return shape_.whole_vectors() ? std::gcd(vectors_in_turn(point), shape_.vectors()) : 1;
    }
    int64_t rows_of_runs(const Point &point) const {
        return reads_channels(point) ? 0 : shape_.groups * row_shape().vectors() / run(point);
    }
    // A value at element `n` of a group, times the weight and plus the bias, from the rows of channels, or from rows for each
    // `run` of `count` vectors.
    Expr with_numbers(KernelDefinition &kernel, Expr value, const Func &ones, bool of_channels, int count, int run,
                      const Expr &n, const Expr &group) const {
        // A loop that divides its count, or loops for each pass, need the registers of constants.
        const bool divides = of_channels && run < size(shape_.vectors());
        const int unroll = divides ? few_channels : size(lanes);
        std::vector<Func> channels;
        if (shape_.weight) channels.push_back(channel_rows(kernel, "weight", shape_, ones, unroll));
        if (shape_.bias) channels.push_back(channel_rows(kernel, "bias", shape_, ones, unroll));
        if (channels.empty()) return value;
        std::function<Expr(size_t)> number;
        if (of_channels) {
            const Expr channel = group * size(shape_.channels) + n / size(shape_.area);
            number = [=](size_t i) -> Expr { return channels[i](n % lanes, channel); };
        } else {
            GroupShape runs = shape_;
            runs.area /= run;
            const FuncRef rows = vector_rows(channels, runs, count / run)(n % lanes, n / (run * lanes), group);
            number = [=](size_t i) -> Expr { return channels.size() == 1 ? Expr(rows) : rows[static_cast<int>(i)]; };
        }
        if (shape_.weight) value = strict_float(value * number(0));
        if (shape_.bias) value = strict_float(value + number(channels.size() - 1));
        return value;
    }
    // Are the sums of up to 32 vectors rounded, as where these are weights of the array? Passes that are one loop add as those
    // in loops of their own do.
    virtual bool in_parts() const { return false; }
    RowShape row_shape() const { return {shape_.groups * shape_.images, shape_.length(), 0, !in_parts()}; }
    static Point row_point(const Point &point) {
        return {{"rows", 1},    {"row_unroll", 1}, {"vector_unroll", point["skewed"]}, {"reduced", 0}, {"stored", 0},
                {"grouped", 0}, {"skewed", 1}};
    }

    // Channels whose rows are made in straight-line code beside little room for constants.
    static constexpr int few_channels = 8;
    GroupShape shape_;
};

KernelDefinition GroupNorm::build_skewed(const Machine &machine, const Point &point) const {
    RowKernel row(row_shape(), machine, row_point(point), "Y");
    KernelDefinition made;
    Func result("result");
    const Expr value = normalized_row(
        row, [&] { return row.rows_of("X"); }, true, shape_.epsilon);
    result(row.n, row.m) = with_numbers(made, value, row.ones(), reads_channels(point), row.vectors(), size(run(point)), row.n,
                                        row.m % size(shape_.groups));
    KernelDefinition kernel = row.finish(result);
    kernel.arguments.insert(kernel.arguments.end(), made.arguments.begin(), made.arguments.end());
    return named(std::move(kernel));
}

KernelDefinition GroupNorm::build_whole(const Machine &machine, const Point &point) const {
    const int area = size(shape_.area), channels = size(shape_.channels), groups = size(shape_.groups),
              images = size(shape_.images), vectors = size(shape_.vectors());
    const int channel_unroll = size(point["channel_unroll"]), vector_unroll = size(point["vector_unroll"]),
              sum_unroll = size(point["sum_unroll"]);
    const bool narrow = !shape_.whole_vectors();
    const Var n("n"), c("c"), g("g"), i("i"), k("k"), w("w");
    const ImageParam image = tensor("X", {area, channels, groups, images});
    KernelDefinition kernel;
    kernel.arguments = {image};

    Func ones("ones"), xs("X_rows"), mean("mean"), centred("centred"), square("square"), scale("scale"), result("result"),
        out("Y");
    ones(k, w) = bf16(1.0f);
    if (narrow) {
        xs(n, c, g, i) = bf16(0.0f);
        xs(n, c, g, i) = select(n < area, image(min(n, area - 1), c, g, i), undef<BFloat>());
    } else {
        xs(n, c, g, i) = image(n, c, g, i);
    }

    const auto share = static_cast<float>(1 / static_cast<double>(shape_.channels * shape_.area));
    GroupTotal sum("total", xs, ones, vectors, channels);
    mean(g, i) = strict_float(sum.sum(g, i) * share);
    centred(n, c, g, i) = strict_float(xs(n, c, g, i) - bf16(mean(g, i)));
    const Expr squared = strict_float(centred(n, c, g, i) * centred(n, c, g, i));
    square(n, c, g, i) = narrow ? select(n < area, squared, bf16(0.0f)) : squared;
    GroupTotal squares("squares", square, ones, vectors, channels);
    scale(g, i) = inverse_deviation(squares.sum(g, i), shape_.channels * shape_.area, shape_.epsilon);

    Expr value = strict_float(centred(n, c, g, i) * bf16(scale(g, i)));
    if (shape_.weight)
        value = strict_float(value * channel_rows(kernel, "weight", shape_, ones, few_channels)(n % lanes, g * channels + c));
    if (shape_.bias)
        value = strict_float(value + channel_rows(kernel, "bias", shape_, ones, few_channels)(n % lanes, g * channels + c));
    result(n, c, g, i) = value;
    out(n, c, g, i) = result(n, c, g, i);

    // ---- schedule: a group at a time
    const Var no("no"), ni("ni"), nu("n_unroll"), cu("c_unroll");
    out.bound(n, 0, area).bound(c, 0, channels).bound(g, 0, groups).bound(i, 0, images);
    const bool ring = machine.timed() && groups * images > 1;
    const auto over_group = [&](Func f) {
        f.split(n, no, ni, lanes).vectorize(ni);
        if (vector_unroll > 1) f.split(no, no, nu, vector_unroll);
        if (channel_unroll > 1) {
            f.split(c, c, cu, channel_unroll);
            if (vector_unroll > 1)
                f.reorder(ni, nu, cu, no, c);
            else
                f.reorder(ni, cu, no, c);
        }
    };
    for (Func f : {xs, result}) {
        f.compute_at(out, g).bound_extent(n, vectors * lanes).bound_extent(c, channels);
        if (ring) f.hoist_storage_root().ring_buffer(2);
        in_pads({f});
    }
    if (narrow) xs.vectorize(n, lanes);
    over_group(result);
    for (Func f : {mean, scale}) {
        f.compute_at(out, g);
        in_registers({f});
    }
    for (GroupTotal *t : {&sum, &squares}) {
        const RVar ru("r_unroll"), ruy("ry_unroll");
        t->sum.compute_at(out, g);
        LoopLevel at(t->sum, t->all.x);
        if (sum_unroll > 1) {
            t->sum.update().split(t->all.x, t->all.x, ru, sum_unroll);
            at = LoopLevel(t->sum, ru);
        }
        if (channel_unroll > 1) {
            t->sum.update().split(t->all.y, t->all.y, ruy, channel_unroll);
            if (sum_unroll > 1) t->sum.update().reorder(ru, t->all.x, ruy, t->all.y);
        }
        t->make_blocks(at);
        if (t == &squares) square.compute_at(at).vectorize(n, lanes);
    }
    in_registers({square});
    ones.compute_root().vectorize(k, lanes).bound(k, 0, lanes).bound(w, 0, lanes);
    in_registers({ones});
    whole_loops(out);
    fix_shape(out.output_buffer(), {area, channels, groups, images});

    kernel.pipeline = Pipeline(out);
    return named(std::move(kernel));
}

// Groups of channels that end inside vectors, while whole groups do not: a group is one row of vectors, whatever its channels.
// Up to 32 vectors are the weights of the array, through which a row of ones goes, and each vector has rows of its own for the
// weights and biases of its lanes.
class ContiguousGroupNorm : public GroupNorm {
public:
    using GroupNorm::GroupNorm;

    // Several tiles of at least half as many vectors as the array has weights, and few rows for weights and biases, which are
    // made by little code.
    static bool suits(const GroupShape &shape) {
        constexpr int64_t least_tiles = 2;
        if (shape.whole_vectors() || !shape.has_vector_rows()) return false;
        const int64_t vectors = shape.length() / lanes, part = members(vectors);
        return part > 0 && vectors / part >= least_tiles;
    }

protected:
    bool in_parts() const override { return true; }
    Space whole_space(const Machine &machine) const override {
        constexpr int64_t most_unrolled = 32, most_share = 24;  // of the vectors that no result needs
        std::vector<int64_t> unrolls;
        for (int64_t unroll = 1; unroll <= std::min(all(), most_unrolled); unroll++)
            if ((round_up(all(), unroll) - all()) * most_share <= all()) unrolls.push_back(unroll);
        const std::vector<int64_t> weights = {4, 8, 16, 32};
        Space space;
        space.parameter("vector_unroll", "vectors of the result in straight-line code", unrolls)
            .parameter("sum_unroll", "vectors that become weights in straight-line code, where they are summed", weights)
            .parameter("square_unroll", "the same, of squares", weights);
        add_skewed(space, machine,
                   {{"vector_unroll", unrolls.front()}, {"sum_unroll", weights.front()}, {"square_unroll", weights.front()}});
        space.constraint("pads", {"vector_unroll", "skewed"},
                         "A group as it comes and goes, the rows of all channels and the sums of tiles fit the pads.",
                         [=, this](const Point &point) {
                             if (point["skewed"] != 0) return skewed_fits(machine, point);
                             const int64_t slots = machine.timed() && shape_.groups * shape_.images > 1 ? 2 : 1;
                             std::vector<PadUse> uses = {{slots * image_rows(point), round(machine, point)},
                                                         {slots * result_rows(point), round(machine, point)},
                                                         {tiles(), false},
                                                         {tiles(), false}};
                             for (const bool given : {shape_.weight, shape_.bias})
                                 if (given)
                                     uses.insert(uses.end(), {{shape_.spread_rows(), false},
                                                              {tiles_of(shape_.all_channels()), false},
                                                              {shape_.groups * result_rows(point), false}});
                             return fit_pads(machine, uses);
                         });
        return space;
    }
    std::string whole_words(const Point &point) const override {
        return fmt::format(
            "{} vectors of the result in straight-line code, {} where they are summed, {} where they are squared",
            point["vector_unroll"], point["sum_unroll"], point["square_unroll"]);
    }
    double whole_draft(const Machine &machine, const Point &point) const override {
        // Straight-line code beyond what the instruction cache keeps comes from memory for each group. A loop that fills a tile
        // waits for its sums.
        constexpr double start = 900, group_latency = 700, most_packets = 340, miss = 16, wait = 50, loop_cost = 12, tile = 75,
                         squared = 5, one_pad = 4, iteration = 20;
        const auto vectors = static_cast<double>(all()), unroll = static_cast<double>(point["vector_unroll"]);
        const auto sum_unroll = static_cast<double>(point["sum_unroll"]),
                   square_unroll = static_cast<double>(point["square_unroll"]);
        const auto filling = [&](double straight) { return straight < lanes ? wait + lanes / straight * loop_cost : 0; };
        const double packets = 130 + 10 * unroll + 2.5 * sum_unroll + 6 * square_unroll;
        const double sums =
            static_cast<double>(tiles()) * (2 * tile + lanes * squared + filling(sum_unroll) + filling(square_unroll));
        const double lane = static_cast<double>(machine.vec.ii) * std::max<double>(1 + shape_.bias, 1 + shape_.weight) +
                            (round(machine, point) ? 0 : one_pad);
        const double group = group_latency + sums + vectors * (lane + iteration / unroll) +
                             (machine.timed() ? miss * std::max(0.0, packets - most_packets) : 0);
        const double channels =
            static_cast<double>(shape_.weight + shape_.bias) *
            (16 * static_cast<double>(shape_.all_channels()) + 2 * static_cast<double>(shape_.groups) * vectors);
        return (machine.timed() ? start : 60) + static_cast<double>(shape_.groups * shape_.images) * group + channels;
    }
    KernelDefinition build_whole(const Machine &machine, const Point &point) const override;

    KernelWork work(const Machine &machine) const override {
        KernelWork work = GroupNorm::work(machine);
        const int64_t vectors = tiles_of(outputs_[0].elements());
        work.array_rows = work.array_tiles = 2 * ceil_div(vectors, lanes);
        work.array_loads = 2 * vectors;
        return work;
    }

private:
    struct Total {
        Func weights, part, block, group, total;
        RDom depth, members, tiles;
    };
    Total total(const std::string &name, const std::function<Expr(const Expr &)> &value) const;
    void schedule_total(Total &t, const LoopLevel &at, int unroll) const;

    static int64_t members(int64_t vectors) {
        constexpr int64_t least = 16;
        for (int64_t part = lanes; part >= least; part--)
            if (vectors % part == 0) return part;
        return 0;
    }
    int64_t all() const { return shape_.length() / lanes; }
    int64_t tiles() const { return all() / members(all()); }
    int64_t result_rows(const Point &point) const { return round_up(all(), point["vector_unroll"]); }
    // A tile is 32 vectors, of which only members count.
    int64_t image_rows(const Point &point) const { return std::max(result_rows(point), all() + lanes - members(all())); }
    // Do the vectors go round the pads?
    bool round(const Machine &machine, const Point &point) const {
        return point["vector_unroll"] % machine.pad.count == 0 && members(all()) % machine.pad.count == 0;
    }

    Var n_{"n"}, g_{"g"}, i_{"i"}, k_{"k"}, w_{"w"}, l_{"l"}, t_{"t"}, s_{"s"};
};

// Lane w is the sum of vector w, rounded to bf16. The reduction unit adds those of a tile; tiles are added in float32.
ContiguousGroupNorm::Total ContiguousGroupNorm::total(const std::string &name,
                                                      const std::function<Expr(const Expr &)> &value) const {
    const int part = static_cast<int>(members(all()));
    Total s{Func(name + "_weights"),
            Func(name + "_part"),
            Func(name + "_block"),
            Func(name + "_group"),
            Func(name),
            RDom(0, lanes, name + "_q"),
            RDom(0, lanes, name + "_g"),
            RDom(0, static_cast<int>(tiles()), name + "_r")};
    s.weights(k_, w_, t_, g_, i_) = value((t_ * part + w_) * lanes + k_);
    s.part(l_, t_, g_, i_) = 0.0f;
    s.part(l_, t_, g_, i_) += f32(s.weights(s.depth, l_, t_, g_, i_));
    s.block(l_, t_, g_, i_) = bf16(s.part(l_, t_, g_, i_));
    const Expr sum = s.block(s.members, t_, g_, i_);
    s.group(t_, g_, i_) = 0.0f;
    s.group(t_, g_, i_) += f32(part == lanes ? sum : select(s.members < part, sum, bf16(0.0f)));
    s.total(g_, i_) = -0.0f;
    s.total(g_, i_) = strict_float(s.total(g_, i_) + f32(bf16(s.group(s.tiles, g_, i_))));
    return s;
}

// What leaves the array goes to the pads: a loop that waited for the sums of its tiles would not overlap.
void ContiguousGroupNorm::schedule_total(Total &s, const LoopLevel &at, int unroll) const {
    s.block.compute_at(at).bound_extent(l_, lanes).bound_extent(t_, static_cast<int>(tiles())).vectorize(l_, lanes);
    as_array_row(s.part.compute_at(s.block, t_).bound_extent(l_, lanes), l_, s.depth);
    s.weights.compute_at(s.block, t_)
        .bound_extent(k_, lanes)
        .bound_extent(w_, lanes)
        .split(w_, w_, Var("w_unroll"), unroll)
        .vectorize(k_);
    s.total.compute_at(at);
    const RVar ro("ro"), ru("r_unroll");
    s.total.update().split(s.tiles, ro, ru, largest_divisor(static_cast<int>(tiles())));
    s.group.compute_at(s.total, ru).update().atomic().vectorize(s.members, lanes);
    in_pads({s.block});
    in_registers({s.weights, s.part, s.group, s.total});
}

KernelDefinition ContiguousGroupNorm::build_whole(const Machine &machine, const Point &point) const {
    const int length = size(shape_.length()), groups = size(shape_.groups), images = size(shape_.images),
              vector_unroll = size(point["vector_unroll"]);
    const ImageParam image = tensor("X", {length, groups, images});
    KernelDefinition kernel;
    kernel.arguments = {image};

    Func ones("ones"), xs("X_rows"), mean("mean"), scale("scale"), result("result"), out("Y");
    ones(k_, w_) = bf16(1.0f);
    xs(n_, g_, i_) = image(n_, g_, i_);
    const auto share = static_cast<float>(1 / static_cast<double>(length));
    Total sum = total("total", [&](const Expr &at) -> Expr { return xs(at, g_, i_); });
    mean(g_, i_) = strict_float(sum.total(g_, i_) * share);
    const auto centred = [&](const Expr &at) -> Expr { return strict_float(xs(at, g_, i_) - bf16(mean(g_, i_))); };
    Total squares = total("squares", [&](const Expr &at) -> Expr { return strict_float(centred(at) * centred(at)); });
    scale(g_, i_) = inverse_deviation(squares.total(g_, i_), length, shape_.epsilon);
    const Expr value = strict_float(centred(n_) * bf16(scale(g_, i_)));
    result(n_, g_, i_) = with_numbers(kernel, value, ones, false, size(result_rows(point)), 1, n_, g_);
    out(n_, g_, i_) = result(n_, g_, i_);

    // ---- schedule: a group at a time
    const Var no("no"), ni("ni"), nu("n_unroll");
    out.bound(n_, 0, length).bound(g_, 0, groups).bound(i_, 0, images);
    for (Func f : {xs, result}) {
        f.compute_at(out, g_);
        if (machine.timed() && groups * images > 1) f.hoist_storage_root().ring_buffer(2);
        in_pads({f});
    }
    xs.bound_extent(n_, size(image_rows(point)) * lanes);
    result.bound_extent(n_, size(result_rows(point)) * lanes).split(n_, no, ni, lanes).vectorize(ni);
    if (vector_unroll > 1) result.split(no, no, nu, vector_unroll);
    for (Func f : {mean, scale}) {
        f.compute_at(out, g_);
        in_registers({f});
    }
    schedule_total(sum, LoopLevel(out, g_), size(point["sum_unroll"]));
    schedule_total(squares, LoopLevel(out, g_), size(point["square_unroll"]));
    if (shape_.weight || shape_.bias) {
        ones.compute_root().vectorize(k_, lanes).bound(k_, 0, lanes).bound(w_, 0, lanes);
        in_registers({ones});
    }
    whole_loops(out);
    fix_shape(out.output_buffer(), {length, groups, images});

    kernel.pipeline = Pipeline(out);
    return named(std::move(kernel));
}

std::unique_ptr<Workload> group_norm(const WorkloadRequest &request) {
    const Shape &x = request.shape("x");
    if (x.size() < 2)
        throw Error(fmt::format("{}: expected at least 2 dimensions, of which the second is the channel, but got {}",
                                request.op, shape_text(x)));
    const int64_t groups = request.integer("num_groups");
    if (groups < 1) throw Error(fmt::format("{}: expected num_groups to be at least 1, but got {}", request.op, groups));
    if (x[1] % groups != 0)
        throw Error(fmt::format(
            "{}: expected the number of channels to be divisible by num_groups, but got an input of {} and num_groups={}",
            request.op, shape_text(x), groups));
    for (const char *name : {"weight", "bias"})
        if (request.has(name) && request.shape(name) != Shape{x[1]})
            throw Error(fmt::format("{}: expected {} to be a vector with an element for each of the {} channels, but got {}",
                                    request.op, name, x[1], shape_text(request.shape(name))));
    if (element_count(x) == 0) return constant_workload(request, x);
    GroupShape shape;
    shape.images = x[0];
    shape.groups = groups;
    shape.channels = x[1] / groups;
    shape.area = element_count(Shape(x.begin() + 2, x.end()));
    shape.weight = request.has("weight");
    shape.bias = request.has("bias");
    shape.epsilon = request.number("eps");
    if (ContiguousGroupNorm::suits(shape)) return std::make_unique<ContiguousGroupNorm>(request, shape);
    return std::make_unique<GroupNorm>(request, shape);
}

}  // namespace

std::vector<OperatorDeclaration> group_norm_operators() {
    OperatorDeclaration row;
    row.name = "group_norm";
    row.schemas = {"group_norm"};
    row.help = "(x - mean) / sqrt(variance + eps) * weight + bias in groups of channels";
    row.card = {
        "normalization",
        "mean and mean of squared differences from it: blocks of 32 of a channel through the array, added in fp32 (of a group "
        "whose channels end inside vectors and that itself does not, blocks of 32 of the group, up to 32 of them added and "
        "rounded likewise); fp32 reciprocal of the root; then in bf16, with a row of lanes for each channel",
        "channels and vectors in straight-line code, of sums and of other steps",
        "dram, and lanes: the additions and multiplications of each vector",
        "float64, to 4 units of the largest of the group as it is scaled",
        "any sizes with the channel as second dimension; weight and bias may be left out; groups that the pads do not hold "
        "come in parts, again for each pass",
        "",
        "nothing yet"};
    row.tensors = {{"x", {"input"}, "the tensor"},
                   {"weight", {"weight"}, "factors of the channels", false},
                   {"bias", {"bias"}, "addends of the channels", false}};
    row.attributes = {{"num_groups", "groups that the channels are divided into", 1}, {"eps", "added to the variance", 1e-5}};
    row.example = {{"shape", "4x64x28x28,64,64"}, {"num-groups", "8"}};
    row.ignored = {"cudnn_enabled"};
    row.make = group_norm;
    return {row};
}

}  // namespace atalla
