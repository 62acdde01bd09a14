#include "generators/group_norm_workload.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "generators/deviation.h"
#include "generators/group_norm_parts.h"
#include "generators/group_total.h"
#include "generators/pad_room.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"
#include "simulator/numerics.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

GroupNorm::GroupNorm(const WorkloadRequest &request, const GroupShape &shape) : PipelineWorkload(request), shape_(shape) {
    for (const WorkloadRequest::Tensor &tensor : request.tensors) inputs_.push_back(tensor_spec(tensor.name, tensor.shape));
    set_result("Y", request.shape("x"));
}

Space GroupNorm::space(const Machine &machine) const {
    Space whole = whole_space(machine);
    return count(whole, 1) > 0 ? whole : group_parts_space(shape_, machine);
}

std::string GroupNorm::words(const Machine &, const Point &point) const {
    return is_group_in_parts(point) ? group_parts_words(point)
           : point["skewed"] != 0   ? skewed_words(point)
                                    : whole_words(point);
}

double GroupNorm::draft(const Machine &machine, const Point &point) const {
    return is_group_in_parts(point) ? group_parts_draft(shape_, machine, point)
           : point["skewed"] != 0   ? skewed_draft(machine, point)
                                    : whole_draft(machine, point);
}

KernelDefinition GroupNorm::build(const Machine &machine, const Point &point) const {
    return is_group_in_parts(point) ? named(group_norm_in_parts(shape_, machine, point))
           : point["skewed"] != 0   ? build_skewed(machine, point)
                                    : build_whole(machine, point);
}

std::vector<Reference> GroupNorm::reference(const std::vector<TensorData> &inputs) const {
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

KernelWork GroupNorm::work(const Machine &) const {
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

Space GroupNorm::whole_space(const Machine &machine) const {
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
                if (given) uses.insert(uses.end(), {{shape_.spread_rows(), false}, {tiles_of(shape_.all_channels()), false}});
            return fit_pads(machine, uses);
        });
    return space;
}

std::string GroupNorm::whole_words(const Point &point) const {
    return fmt::format("{} channels, {} vectors of each in straight-line code, {} where they are summed",
                       point["channel_unroll"], point["vector_unroll"], point["sum_unroll"]);
}

double GroupNorm::whole_draft(const Machine &machine, const Point &point) const {
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
    out.bound(n, 0, area).bound(c, 0, channels).bound(g, 0, groups).bound(i, 0, images);
    const bool ring = machine.timed() && groups * images > 1;
    for (Func f : {xs, result}) {
        f.compute_at(out, g).bound_extent(n, vectors * lanes).bound_extent(c, channels);
        if (ring) f.hoist_storage_root().ring_buffer(2);
        in_pads({f});
    }
    if (narrow) xs.vectorize(n, lanes);
    over_channels(result, n, c, vector_unroll, channel_unroll);
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

}  // namespace atalla
