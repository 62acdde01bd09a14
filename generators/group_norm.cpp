#include "generators/group_norm.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "generators/deviation.h"
#include "generators/movement.h"
#include "generators/pad_room.h"
#include "generators/pipeline_workload.h"
#include "generators/vocabulary.h"
#include "isa/error.h"
#include "isa/vectors.h"
#include "simulator/numerics.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// [area] [channels of a group] [groups] [images], innermost first, dense; weight and bias have a value for each channel.
struct GroupShape {
    int64_t area = 1, channels = 1, groups = 1, images = 1;
    bool weight = false, bias = false;
    double epsilon = 1e-5;

    int64_t length() const { return area * channels; }
    int64_t vectors() const { return tiles_of(area); }
    int64_t rows() const { return channels * vectors(); }   // of a group, in the pads
    int64_t all_channels() const { return channels * groups; }
};

class GroupNorm : public PipelineWorkload {
public:
    GroupNorm(const WorkloadRequest &request, const GroupShape &shape) : PipelineWorkload(request), shape_(shape) {
        for (const WorkloadRequest::Tensor &tensor : request.tensors) inputs_.push_back(tensor_spec(tensor.name, tensor.shape));
        outputs_ = {tensor_spec("Y", request.shape("x"))};
    }

    Space space(const Machine &machine) const override {
        Space space;
        space.parameter("channel_unroll", "channels in straight-line code", divisors(shape_.channels, 16))
            .parameter("vector_unroll", "vectors of a channel in straight-line code, of the steps that are no sums", divisors(shape_.vectors(), lanes))
            .parameter("sum_unroll", "vectors of a channel that are summed in straight-line code", divisors(shape_.vectors(), lanes));
        constexpr int64_t most_unrolled = 32;
        space.constraint("code", {"channel_unroll", "vector_unroll", "sum_unroll"}, "Straight-line code fits the instruction cache.", [](const Point &point) {
            return point["channel_unroll"] * std::max(point["vector_unroll"], point["sum_unroll"]) <= most_unrolled;
        });
        space.constraint("channels", {"channel_unroll", "vector_unroll", "sum_unroll"}, "Several channels are straight-line code where all vectors of each are.", [vectors = shape_.vectors()](const Point &point) {
            return point["channel_unroll"] == 1 || (point["vector_unroll"] == vectors && point["sum_unroll"] == vectors);
        });
        space.constraint("pads", {"channel_unroll", "vector_unroll", "sum_unroll"}, "A group as it comes and goes and a row for each channel fit the pads.", [=, this](const Point &point) {
            const int64_t slots = machine.timed() && shape_.groups * shape_.images > 1 ? 2 : 1;
            const auto is_round = [&](const char *unroll) { return point["channel_unroll"] * point[unroll] % machine.pad.count == 0; };
            const bool round = is_round("vector_unroll") && is_round("sum_unroll");
            std::vector<PadUse> uses = {{slots * shape_.rows(), round}, {slots * shape_.rows(), round}};
            for (const bool given : {shape_.weight, shape_.bias})
                if (given) uses.insert(uses.end(), {{spread_rows(), false}, {tiles_of(shape_.all_channels()), false}});
            return fit_pads(machine, uses);
        });
        return space;
    }
    std::string words(const Machine &, const Point &point) const override {
        return fmt::format("{} channels, {} vectors of each in straight-line code, {} where they are summed", point["channel_unroll"], point["vector_unroll"], point["sum_unroll"]);
    }
    double draft(const Machine &machine, const Point &point) const override {
        // A loop over sums waits for the array in each iteration; too much straight-line code comes from memory for each group.
        constexpr double most_packets = 380, miss = 11, array_latency = 110, loop_cost = 20, steps = 6, summed = 10;
        const auto rows = static_cast<double>(shape_.rows());
        const auto unrolled = [&](const char *name) { return static_cast<double>(point["channel_unroll"] * point[name]); };
        const double sums = rows * (14 + 2 * array_latency / unrolled("sum_unroll")), others = rows * (10 + 2 * loop_cost / unrolled("vector_unroll"));
        const double packets = 100 + unrolled("vector_unroll") * steps + unrolled("sum_unroll") * summed;
        const double missed = miss * std::max(0.0, packets - most_packets);
        const double group = 600 + sums + others + (machine.timed() ? missed : 0);
        return (machine.timed() ? 900 : 60) + static_cast<double>(shape_.groups * shape_.images) * group + 30 * static_cast<double>(shape_.all_channels() * (shape_.weight + shape_.bias));
    }

    KernelDefinition build(const Machine &machine, const Point &point) const override;

    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override {
        const auto value = [](const TensorData &data, int64_t at) { return static_cast<double>(bf16_float(data[static_cast<size_t>(at)])); };
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
                const double weight = shape_.weight ? value(inputs[1], channel) : 1, bias = shape_.bias ? value(inputs.back(), channel) : 0;
                reference.values.push_back((value(inputs[0], group * count + i) - mean) * scale * weight + bias);
                reference.peaks.push_back(std::max(largest * scale * std::abs(weight), std::abs(bias)));
            }
        }
        return {std::move(reference)};
    }
    double tolerance_ulps() const override { return 4; }
    double flops() const override { return (6 + shape_.weight + shape_.bias) * static_cast<double>(outputs_[0].elements()); }

protected:
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

    // Rows of 32 lanes with a channel's value each, from a tensor of a value for each channel; `ones` are the weights of the array meanwhile.
    Func spread(KernelDefinition &kernel, const std::string &name, const Func &ones) const;
    // 32 at a time where there are more.
    int64_t spread_rows() const { return shape_.all_channels() < lanes ? shape_.all_channels() : round_up(shape_.all_channels(), lanes); }

    GroupShape shape_;
};

// All other lanes of a channel's value are 0 on the way through the array.
Func GroupNorm::spread(KernelDefinition &kernel, const std::string &name, const Func &ones) const {
    const int all = static_cast<int>(shape_.all_channels()), rows = static_cast<int>(spread_rows());
    constexpr int most_unrolled = 8;
    const ImageParam values = tensor(name, {all});
    kernel.arguments.push_back(values);
    Func row(name + "_row"), one(name + "_one"), part(name + "_part"), spread(name + "_rows");
    const Var k("k"), w("w"), l("l"), b("b"), wo("wo"), wu("w_unroll");
    const RDom q(0, lanes, name + "_q");
    row(k, b) = bf16(0.0f);
    row(k, b) = select(b * lanes + k < all, values(min(b * lanes + k, all - 1)), undef<BFloat>());
    one(k, w) = select(k == w % lanes, row(k, w / lanes), bf16(0.0f));
    part(l, w) = 0.0f;
    part(l, w) += f32(one(q, w)) * f32(ones(q, l));
    spread(l, w) = bf16(part(l, w));
    row.compute_root().bound(k, 0, lanes).vectorize(k, lanes).bound_extent(b, tiles_of(all));
    spread.compute_root().bound(l, 0, lanes).bound(w, 0, rows).split(w, wo, w, std::min(lanes, rows)).split(w, w, wu, std::gcd(rows, most_unrolled)).vectorize(l, lanes);
    one.compute_at(spread, wu).vectorize(k, lanes);
    part.compute_at(spread, wu).vectorize(l, lanes).update().reorder(q, l).atomic().vectorize(l, lanes).vectorize(q, lanes);
    in_pads({row, spread});
    in_registers({one, part});
    return spread;
}

KernelDefinition GroupNorm::build(const Machine &machine, const Point &point) const {
    const int area = size(shape_.area), channels = size(shape_.channels), groups = size(shape_.groups), images = size(shape_.images), vectors = size(shape_.vectors());
    const int channel_unroll = size(point["channel_unroll"]), vector_unroll = size(point["vector_unroll"]), sum_unroll = size(point["sum_unroll"]);
    const bool narrow = area % lanes != 0;
    const Var n("n"), c("c"), g("g"), i("i"), k("k"), w("w"), l("l"), b("b");
    const ImageParam image = tensor("X", {area, channels, groups, images});
    KernelDefinition kernel;
    kernel.arguments = {image};

    Func ones("ones"), xs("X_rows"), mean("mean"), centred("centred"), square("square"), scale("scale"), result("result"), out("Y");
    ones(k, w) = bf16(1.0f);
    if (narrow) {
        xs(n, c, g, i) = bf16(0.0f);
        xs(n, c, g, i) = select(n < area, image(min(n, area - 1), c, g, i), undef<BFloat>());
    } else {
        xs(n, c, g, i) = image(n, c, g, i);
    }

    // Blocks of 32 through the array, rounded to bf16, added in float32.
    struct Total {
        Func part, block, sum;
        RDom depth, all;
    };
    const auto total = [&](const std::string &name, const Func &values) {
        Total t{Func(name + "_part"), Func(name + "_block"), Func(name), RDom(0, lanes, name + "_q"), RDom(0, vectors, 0, channels, name + "_r")};
        t.part(l, b, c, g, i) = 0.0f;
        t.part(l, b, c, g, i) += f32(values(b * lanes + t.depth, c, g, i)) * f32(ones(t.depth, l));
        t.block(l, b, c, g, i) = bf16(t.part(l, b, c, g, i));
        t.sum(g, i) = -0.0f;
        t.sum(g, i) = strict_float(t.sum(g, i) + f32(t.block(0, t.all.x, t.all.y, g, i)));
        return t;
    };
    const auto share = static_cast<float>(1 / static_cast<double>(shape_.channels * shape_.area));
    Total sum = total("total", xs);
    mean(g, i) = strict_float(sum.sum(g, i) * share);
    centred(n, c, g, i) = strict_float(xs(n, c, g, i) - bf16(mean(g, i)));
    const Expr squared = strict_float(centred(n, c, g, i) * centred(n, c, g, i));
    square(n, c, g, i) = narrow ? select(n < area, squared, bf16(0.0f)) : squared;
    Total squares = total("squares", square);
    scale(g, i) = inverse_deviation(squares.sum(g, i), shape_.channels * shape_.area, shape_.epsilon);

    Expr value = strict_float(centred(n, c, g, i) * bf16(scale(g, i)));
    if (shape_.weight) value = strict_float(value * spread(kernel, "weight", ones)(n % lanes, g * channels + c));
    if (shape_.bias) value = strict_float(value + spread(kernel, "bias", ones)(n % lanes, g * channels + c));
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
            if (vector_unroll > 1) f.reorder(ni, nu, cu, no, c);
            else f.reorder(ni, cu, no, c);
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
    for (Total *t : {&sum, &squares}) {
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
        t->block.compute_at(at).bound_extent(l, lanes).vectorize(l, lanes);
        t->part.compute_at(at).vectorize(l, lanes).update().reorder(t->depth, l).atomic().vectorize(l, lanes).vectorize(t->depth, lanes);
        if (t == &squares) square.compute_at(at).vectorize(n, lanes);
        in_registers({t->part, t->block, t->sum});
    }
    in_registers({square});
    ones.compute_root().vectorize(k, lanes).bound(k, 0, lanes).bound(w, 0, lanes);
    in_registers({ones});
    whole_loops(out);
    fix_shape(out.output_buffer(), {area, channels, groups, images});

    kernel.pipeline = Pipeline(out);
    return named(std::move(kernel));
}

// Groups of channels that end inside vectors, while whole groups do not: a group is one row of vectors, whatever its channels. Up to 32
// vectors are the weights of the array, through which a row of ones goes, and each vector has rows of its own for the weights and
// biases of its lanes.
class ContiguousGroupNorm : public GroupNorm {
public:
    using GroupNorm::GroupNorm;

    // Several tiles of at least half as many vectors as the array has weights, and few rows for weights and biases, which are made by little code.
    static bool suits(const GroupShape &shape) {
        constexpr int64_t least_tiles = 2, most_rows = 4096, most_channels = 8;
        if (shape.area < 2 * lanes || shape.area % lanes == 0 || shape.length() % lanes != 0 || section_channels(shape) > most_channels) return false;
        const int64_t vectors = shape.length() / lanes, part = members(vectors);
        return part > 0 && vectors / part >= least_tiles && shape.groups * vectors <= most_rows && shape.channels % section_channels(shape) == 0;
    }

    Space space(const Machine &machine) const override {
        constexpr int64_t most_unrolled = 32, most_share = 24;   // of the vectors that no result needs
        std::vector<int64_t> unrolls;
        for (int64_t unroll = 1; unroll <= std::min(all(), most_unrolled); unroll++)
            if ((round_up(all(), unroll) - all()) * most_share <= all()) unrolls.push_back(unroll);
        const std::vector<int64_t> weights = {4, 8, 16, 32};
        Space space;
        space.parameter("vector_unroll", "vectors of the result in straight-line code", unrolls)
            .parameter("sum_unroll", "vectors that become weights in straight-line code, where they are summed", weights)
            .parameter("square_unroll", "the same, of squares", weights);
        space.constraint("pads", {"vector_unroll"}, "A group as it comes and goes, the rows of all channels and the sums of tiles fit the pads.", [=, this](const Point &point) {
            const int64_t slots = machine.timed() && shape_.groups * shape_.images > 1 ? 2 : 1;
            std::vector<PadUse> uses = {{slots * image_rows(point), round(machine, point)}, {slots * result_rows(point), round(machine, point)}, {tiles(), false}, {tiles(), false}};
            for (const bool given : {shape_.weight, shape_.bias})
                if (given) uses.insert(uses.end(), {{spread_rows(), false}, {tiles_of(shape_.all_channels()), false}, {shape_.groups * result_rows(point), false}});
            return fit_pads(machine, uses);
        });
        return space;
    }
    std::string words(const Machine &, const Point &point) const override {
        return fmt::format("{} vectors of the result in straight-line code, {} where they are summed, {} where they are squared", point["vector_unroll"], point["sum_unroll"], point["square_unroll"]);
    }
    double draft(const Machine &machine, const Point &point) const override {
        // Straight-line code beyond what the instruction cache keeps comes from memory for each group. A loop that fills a tile waits for its sums.
        constexpr double start = 900, group_latency = 700, most_packets = 340, miss = 16, wait = 50, loop_cost = 12, tile = 75, squared = 5, one_pad = 4, iteration = 20;
        const auto vectors = static_cast<double>(all()), unroll = static_cast<double>(point["vector_unroll"]);
        const auto sum_unroll = static_cast<double>(point["sum_unroll"]), square_unroll = static_cast<double>(point["square_unroll"]);
        const auto filling = [&](double straight) { return straight < lanes ? wait + lanes / straight * loop_cost : 0; };
        const double packets = 130 + 10 * unroll + 2.5 * sum_unroll + 6 * square_unroll;
        const double sums = static_cast<double>(tiles()) * (2 * tile + lanes * squared + filling(sum_unroll) + filling(square_unroll));
        const double lane = static_cast<double>(machine.vec.ii) * std::max<double>(1 + shape_.bias, 1 + shape_.weight) + (round(machine, point) ? 0 : one_pad);
        const double group = group_latency + sums + vectors * (lane + iteration / unroll) + (machine.timed() ? miss * std::max(0.0, packets - most_packets) : 0);
        const double channels = static_cast<double>(shape_.weight + shape_.bias) * (16 * static_cast<double>(shape_.all_channels()) + 2 * static_cast<double>(shape_.groups) * vectors);
        return (machine.timed() ? start : 60) + static_cast<double>(shape_.groups * shape_.images) * group + channels;
    }
    KernelDefinition build(const Machine &machine, const Point &point) const override;

protected:
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
    Func in_sections(const Func &spread, const std::string &name, int count) const;

    static int64_t members(int64_t vectors) {
        constexpr int64_t least = 16;
        for (int64_t part = lanes; part >= least; part--)
            if (vectors % part == 0) return part;
        return 0;
    }
    // The fewest channels that end where a vector does.
    static int64_t section_channels(const GroupShape &shape) { return lanes / std::gcd(shape.area, static_cast<int64_t>(lanes)); }

    int64_t all() const { return shape_.length() / lanes; }
    int64_t tiles() const { return all() / members(all()); }
    int64_t result_rows(const Point &point) const { return round_up(all(), point["vector_unroll"]); }
    // A tile is 32 vectors, of which only members count.
    int64_t image_rows(const Point &point) const { return std::max(result_rows(point), all() + lanes - members(all())); }
    // Do the vectors go round the pads?
    bool round(const Machine &machine, const Point &point) const { return point["vector_unroll"] % machine.pad.count == 0 && members(all()) % machine.pad.count == 0; }

    Var n_{"n"}, g_{"g"}, i_{"i"}, k_{"k"}, w_{"w"}, l_{"l"}, t_{"t"}, s_{"s"};
};

// So many of `count` in straight-line code.
int largest_divisor(int count) {
    constexpr int most = 12;
    int best = 1;
    for (int part = 2; part <= most; part++)
        if (count % part == 0) best = part;
    return best;
}

// Lane w is the sum of vector w, rounded to bf16. The reduction unit adds those of a tile; tiles are added in float32.
ContiguousGroupNorm::Total ContiguousGroupNorm::total(const std::string &name, const std::function<Expr(const Expr &)> &value) const {
    const int part = static_cast<int>(members(all()));
    Total s{Func(name + "_weights"), Func(name + "_part"), Func(name + "_block"), Func(name + "_group"), Func(name),
            RDom(0, lanes, name + "_q"), RDom(0, lanes, name + "_g"), RDom(0, static_cast<int>(tiles()), name + "_r")};
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
    s.part.compute_at(s.block, t_).bound_extent(l_, lanes).vectorize(l_, lanes).update().reorder(s.depth, l_).atomic().vectorize(l_, lanes).vectorize(s.depth, lanes);
    s.weights.compute_at(s.block, t_).bound_extent(k_, lanes).bound_extent(w_, lanes).split(w_, w_, Var("w_unroll"), unroll).vectorize(k_);
    s.total.compute_at(at);
    const RVar ro("ro"), ru("r_unroll");
    s.total.update().split(s.tiles, ro, ru, largest_divisor(static_cast<int>(tiles())));
    s.group.compute_at(s.total, ru).update().atomic().vectorize(s.members, lanes);
    in_pads({s.block});
    in_registers({s.weights, s.part, s.group, s.total});
}

// The rows of each vector of a group: of its channel, or of both channels that its lanes belong to.
Func ContiguousGroupNorm::in_sections(const Func &spread, const std::string &name, int count) const {
    const int channels = static_cast<int>(shape_.channels), area = static_cast<int>(shape_.area), of_section = static_cast<int>(section_channels(shape_));
    const int vectors = of_section * area / lanes, sections = channels / of_section;
    Func rows(name + "_of_vectors");
    rows(l_, t_, g_) = undef<BFloat>();
    // Vectors `from` to `end` of every section are one row, in a register meanwhile.
    const auto store = [&](int from, int end, const std::string &suffix, const std::function<Expr(const Expr &)> &value) {
        const RDom r(0, end - from, 0, sections, name + suffix);
        const RVar ro("ro"), ru("r_unroll");
        Func held(name + "_held" + suffix);
        held(l_, s_, g_) = value(g_ * channels + s_ * of_section);
        rows(l_, from + r.x + r.y * vectors, g_) = held(l_, r.y, g_);
        rows.update(rows.num_update_definitions() - 1).reorder(l_, r.x, r.y, g_).vectorize(l_, lanes).split(r.x, ro, ru, largest_divisor(end - from));
        held.compute_at(rows, r.y).vectorize(l_, lanes).bound_extent(l_, lanes);
        in_registers({held});
    };
    for (int c = 0; c < of_section; c++) {
        const int end = (c + 1) * area / lanes;
        store(ceil_div(c * area, lanes), end, fmt::format("_c{}", c), [&](const Expr &first) -> Expr { return spread(l_, first + c); });
        if (const int cut = (c + 1) * area % lanes; cut != 0)
            store(end, end + 1, fmt::format("_v{}", c), [&](const Expr &first) { return select(l_ < cut, spread(l_, first + c), spread(l_, first + c + 1)); });
    }
    rows.vectorize(l_, lanes).compute_root().bound(l_, 0, lanes).bound(t_, 0, count).bound(g_, 0, static_cast<int>(shape_.groups));
    in_pads({rows});
    return rows;
}

KernelDefinition ContiguousGroupNorm::build(const Machine &machine, const Point &point) const {
    const int length = size(shape_.length()), groups = size(shape_.groups), images = size(shape_.images), vector_unroll = size(point["vector_unroll"]);
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
    const auto of_vector = [&](const std::string &name) -> Expr { return in_sections(spread(kernel, name, ones), name, size(result_rows(point)))(n_ % lanes, n_ / lanes, g_); };
    Expr value = strict_float(centred(n_) * bf16(scale(g_, i_)));
    if (shape_.weight) value = strict_float(value * of_vector("weight"));
    if (shape_.bias) value = strict_float(value + of_vector("bias"));
    result(n_, g_, i_) = value;
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
    if (x.size() < 2) throw Error(fmt::format("{}: expected at least 2 dimensions, of which the second is the channel, but got {}", request.op, shape_text(x)));
    const int64_t groups = request.integer("num_groups");
    if (groups < 1) throw Error(fmt::format("{}: expected num_groups to be at least 1, but got {}", request.op, groups));
    if (x[1] % groups != 0) throw Error(fmt::format("{}: expected the number of channels to be divisible by num_groups, but got an input of {} and num_groups={}", request.op, shape_text(x), groups));
    for (const char *name : {"weight", "bias"})
        if (request.has(name) && request.shape(name) != Shape{x[1]})
            throw Error(fmt::format("{}: expected {} to be a vector with an element for each of the {} channels, but got {}", request.op, name, x[1], shape_text(request.shape(name))));
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
    row.card = {"normalization",
                "mean and mean of squared differences from it: blocks of 32 of a channel through the array, added in fp32 (of a group whose channels end inside vectors and that itself does not, blocks of 32 of the group, up to 32 of them added and rounded likewise); fp32 reciprocal of the root; then in bf16, with a row of lanes for each channel",
                "channels and vectors in straight-line code, of sums and of other steps",
                "dram, and lanes: the additions and multiplications of each vector",
                "float64, to 4 units of the largest of the group as it is scaled",
                "any sizes with the channel as second dimension; weight and bias may be left out",
                "groups that do not fit the pads twice, or four times where there are several",
                "nothing yet"};
    row.tensors = {{"x", {"input"}, "the tensor"}, {"weight", {"weight"}, "factors of the channels", false}, {"bias", {"bias"}, "addends of the channels", false}};
    row.attributes = {{"num_groups", "groups that the channels are divided into", 1}, {"eps", "added to the variance", 1e-5}};
    row.example = {{"shape", "4x64x28x28,64,64"}, {"num_groups", "8"}};
    row.ignored = {"cudnn_enabled"};
    row.make = group_norm;
    return {row};
}

}  // namespace atalla
