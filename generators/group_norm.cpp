#include "generators/group_norm.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

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
        const auto divisors = [](int64_t n, int64_t most) {
            std::vector<int64_t> values;
            for (int64_t v = 1; v <= std::min(n, most); v++)
                if (n % v == 0) values.push_back(v);
            return values;
        };
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

private:
    // Rows of one value each, 32 at a time where there are more.
    int64_t spread_rows() const { return shape_.all_channels() < lanes ? shape_.all_channels() : round_up(shape_.all_channels(), lanes); }

    GroupShape shape_;
};

KernelDefinition GroupNorm::build(const Machine &machine, const Point &point) const {
    const auto size = [](int64_t n) { return static_cast<int>(n); };
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
    scale(g, i) = machine_rcp(machine_sqrt(strict_float(strict_float(squares.sum(g, i) * share) + static_cast<float>(shape_.epsilon))));

    // A row of 32 times its value for each channel: all other lanes are 0 on the way through the array.
    std::vector<Func> affine;
    const auto of_channels = [&](const std::string &name) {
        const int all = size(shape_.all_channels());
        const ImageParam values = tensor(name, {all});
        kernel.arguments.push_back(values);
        Func row(name + "_row"), one(name + "_one"), part(name + "_part"), spread(name + "_rows");
        const RDom q(0, lanes, name + "_q");
        row(k, b) = bf16(0.0f);
        row(k, b) = select(b * lanes + k < all, values(min(b * lanes + k, all - 1)), undef<BFloat>());
        one(k, w) = select(k == w % lanes, row(k, w / lanes), bf16(0.0f));
        part(l, w) = 0.0f;
        part(l, w) += f32(one(q, w)) * f32(ones(q, l));
        spread(l, w) = bf16(part(l, w));
        const Var wo("wo");
        row.compute_root().bound(k, 0, lanes).vectorize(k, lanes).bound_extent(b, tiles_of(all));
        spread.compute_root().bound(l, 0, lanes).bound(w, 0, size(spread_rows())).split(w, wo, w, std::min(lanes, all)).vectorize(l, lanes);
        one.compute_at(spread, w).vectorize(k, lanes);
        part.compute_at(spread, w).vectorize(l, lanes).update().reorder(q, l).atomic().vectorize(l, lanes).vectorize(q, lanes);
        in_pads({row, spread});
        in_registers({one, part});
        return spread(n % lanes, g * channels + c);
    };
    Expr value = strict_float(centred(n, c, g, i) * bf16(scale(g, i)));
    if (shape_.weight) value = strict_float(value * of_channels("weight"));
    if (shape_.bias) value = strict_float(value + of_channels("bias"));
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
    return std::make_unique<GroupNorm>(request, shape);
}

}  // namespace

std::vector<OperatorDeclaration> group_norm_operators() {
    OperatorDeclaration row;
    row.name = "group_norm";
    row.schemas = {"group_norm"};
    row.help = "(x - mean) / sqrt(variance + eps) * weight + bias in groups of channels";
    row.card = {"normalization",
                "mean and mean of squared differences from it: blocks of 32 of a channel through the array, added in fp32; fp32 reciprocal of the root; then in bf16, with a row of lanes for each channel",
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
