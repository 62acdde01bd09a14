// A convolution of volumes is one of images: the slices that meet in a place of the result's depth are channels of one image.
#include <optional>

#include "graph_import/decompositions/expansion.h"

namespace atalla {

namespace {

struct Axis {
    int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;
};

// As much on both sides; nothing where that is not possible.
std::optional<int64_t> padding_of(const Expansion &e, size_t at, const Axis &axis) {
    if (e.node.target != "aten::conv3d.padding") return e.listed("padding", at);
    if (e.node.string("padding") == "valid") return 0;
    const int64_t both = axis.dilation * (axis.kernel - 1);
    return both % 2 == 0 ? std::optional(both / 2) : std::nullopt;
}

// [n][c][depth][..] as [n * depth of the result][c * taps][..].
ValueId slices(Expansion &e, ValueId x, const Axis &axis, int64_t depth) {
    Sizes sizes = e.sizes(x);  // [n][c][d][h][w]
    const SymInt batch = sizes[0], channels = sizes[1], rows = sizes[3], columns = sizes[4];
    if (axis.padding > 0) {
        sizes[2] = sizes[2] + SymInt(2 * axis.padding);
        x = e.call("aten::constant_pad_nd",
                   {{"self", x}, {"pad", Sizes{0, 0, 0, 0, axis.padding, axis.padding}}, {"value", 0.0}}, sizes);
    }
    const auto part = [&](int64_t first, int64_t step, int64_t count) {
        const int64_t end = first + (count - 1) * step + 1;
        if (first == 0 && step == 1 && sizes[2] == SymInt(count)) return x;
        Sizes taken = sizes;
        taken[2] = count;
        return e.call("aten::slice.Tensor",
                      {{"self", x}, {"dim", SymInt(2)}, {"start", SymInt(first)}, {"end", SymInt(end)}, {"step", SymInt(step)}},
                      taken);
    };
    ValueId apart;  // [n][depth][c][taps][h][w]
    if (axis.stride == axis.kernel && axis.dilation == 1) {
        apart = e.permute(e.view(part(0, 1, depth * axis.kernel), {batch, channels, depth, axis.kernel, rows, columns}),
                          {0, 2, 1, 3, 4, 5});
    } else {
        std::vector<ValueId> taps;
        for (int64_t tap = 0; tap < axis.kernel; tap++)
            taps.push_back(e.view(part(tap * axis.dilation, axis.stride, depth), {batch, channels, 1, depth, rows, columns}));
        const ValueId joined = taps.size() == 1 ? taps[0]
                                                : e.call("aten::cat", {{"tensors", taps}, {"dim", SymInt(2)}},
                                                         {batch, channels, axis.kernel, depth, rows, columns});
        apart = e.permute(joined, {0, 3, 1, 2, 4, 5});
    }
    return e.view(apart, {batch * SymInt(depth), channels * SymInt(axis.kernel), rows, columns});
}

bool in_depth(Expansion &e) {
    const ValueId input = e.tensor("input"), weight = e.tensor("weight"), bias = e.node.optional_tensor("bias");
    const Sizes of_weight = e.sizes(weight);
    if (of_weight.size() != 5 || !is_constant(of_weight) || !is_constant(e.sizes(input)) || !is_constant(e.result.sizes))
        return false;
    if (e.node.target == "aten::convolution" && e.node.flag("transposed")) return false;
    const bool batched = e.sizes(input).size() == 5;
    Sizes volume = e.sizes(input), made = e.result.sizes;
    if (!batched) {
        volume.insert(volume.begin(), 1);
        made.insert(made.begin(), 1);
    }
    std::vector<Axis> axes(3);
    for (size_t d = 0; d < axes.size(); d++) {
        axes[d] = {of_weight[d + 2].value(), e.listed("stride", d), 0, e.listed("dilation", d)};
        const std::optional<int64_t> padding = padding_of(e, d, axes[d]);
        if (!padding) return false;
        axes[d].padding = *padding;
    }
    const int64_t depth = made[2].value();
    const ValueId image = slices(e, e.view(input, volume), axes[0], depth);
    const ValueId packed = e.view(weight, {of_weight[0], of_weight[1] * of_weight[2], of_weight[3], of_weight[4]});
    const auto both = [&](int64_t Axis::*of) { return Sizes{axes[1].*of, axes[2].*of}; };
    std::vector<NamedArgument> arguments = {{"input", image},
                                            {"weight", packed},
                                            {"stride", both(&Axis::stride)},
                                            {"padding", both(&Axis::padding)},
                                            {"dilation", both(&Axis::dilation)},
                                            {"groups", SymInt(e.node.integer("groups"))}};
    if (bias) arguments.push_back({"bias", bias});
    const ValueId convolved =
        e.call("aten::conv2d", std::move(arguments), {made[0] * SymInt(depth), made[1], made[3], made[4]});
    // [n][depth][out][h][w] to [n][out][depth][h][w].
    e.last_view(e.permute(e.view(convolved, {made[0], depth, made[1], made[3], made[4]}), {0, 2, 1, 3, 4}));
    return true;
}

}  // namespace

void add_convolution_in_depth(Decompositions &all) {
    for (const char *name : {"aten::conv3d", "aten::conv3d.padding", "aten::convolution"}) all[name] = in_depth;
}

}  // namespace atalla
