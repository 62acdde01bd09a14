// A transposed convolution with stride s is a convolution that computes, for each place of its input, s x s places of the
// result as channels, which are then shuffled to their places: what falls on the same place of the result are weights s
// elements apart.
#include <numeric>

#include "graph_import/decompositions/expansion.h"
#include "isa/vectors.h"

namespace atalla {

namespace {

struct Axis {
    int64_t kernel = 1, stride = 1, padding = 0, size = 0;  // size: of the result
    int64_t taps() const { return ceil_div(kernel, stride); }
    // The convolution's padding, and what is left out in front of its shuffled result.
    int64_t around() const { return stride == 1 && padding < kernel ? kernel - 1 - padding : taps() - 1; }
    int64_t left_out() const { return stride == 1 && padding < kernel ? 0 : padding; }
};

// [in][out of a group][kernel...] as [groups * out of a group * strides...][in of a group][taps...].
std::vector<double> phases(const HostTensor &weight, int64_t groups, const Axis &y, const Axis &x) {
    const HostTensor dense = dense_copy(weight);
    const int64_t in = dense.sizes[0] / groups, out = dense.sizes[1];
    std::vector<double> values;
    for (int64_t g = 0; g < groups; g++)
        for (int64_t o = 0; o < out; o++)
            for (int64_t ry = 0; ry < y.stride; ry++)
                for (int64_t rx = 0; rx < x.stride; rx++)
                    for (int64_t i = 0; i < in; i++)
                        for (int64_t ty = y.taps() - 1; ty >= 0; ty--)
                            for (int64_t tx = x.taps() - 1; tx >= 0; tx--) {
                                const int64_t ky = ry + y.stride * ty, kx = rx + x.stride * tx;
                                values.push_back(
                                    ky < y.kernel && kx < x.kernel
                                        ? element_as_double(dense, (((g * in + i) * out + o) * y.kernel + ky) * x.kernel + kx)
                                        : 0);
                            }
    return values;
}

bool transposed(Expansion &e) {
    const size_t dims = e.node.target == "aten::conv_transpose1d" ? 1 : 2;
    const ValueId input = e.tensor("input"), bias = e.node.optional_tensor("bias");
    const HostTensor *weight = e.constant_data(e.tensor("weight"));
    if (weight == nullptr || e.sizes(input).size() != dims + 2 || !is_constant(e.sizes(input)) || !is_constant(e.result.sizes))
        return false;
    const std::vector<int64_t> from = constant_sizes(e.sizes(input)), to = constant_sizes(e.result.sizes);
    std::vector<Axis> axes(2);
    for (size_t d = 0; d < dims; d++) {
        if (e.listed("dilation", d) != 1) return false;
        Axis &axis = axes[2 - dims + d];
        axis = {weight->sizes[2 + d], e.listed("stride", d), e.listed("padding", d), to[2 + d]};
        if (axis.left_out() + axis.size > (from[2 + d] + 2 * axis.around() - axis.taps() + 1) * axis.stride) return false;
    }
    const auto &[y, x] = std::tie(axes[0], axes[1]);
    const int64_t groups = e.node.integer("groups"), channels = to[1], apart = y.stride * x.stride;
    std::vector<int64_t> packed = {channels * apart, from[1] / groups};
    Sizes around, convolved = {from[0], channels * apart}, grid = {from[0], channels};
    for (size_t d = 2 - dims; d < 2; d++) {
        packed.push_back(axes[d].taps());
        around.emplace_back(axes[d].around());
        grid.emplace_back(axes[d].stride);
        convolved.emplace_back(from[d + dims] + 2 * axes[d].around() - axes[d].taps() + 1);
    }
    grid.insert(grid.end(), convolved.begin() + 2, convolved.end());
    std::vector<NamedArgument> arguments = {{"input", input},
                                            {"weight", e.constant("phases", packed, phases(*weight, groups, y, x))},
                                            {"padding", around},
                                            {"groups", SymInt(groups)}};
    if (bias)
        arguments.push_back({"bias", e.view(e.expand(e.view(bias, {channels, 1}), {channels, apart}), {channels * apart})});
    ValueId image = e.call(dims == 1 ? "aten::conv1d" : "aten::conv2d", std::move(arguments), convolved);
    if (apart > 1)
        image = e.permute(e.view(image, grid),
                          dims == 1 ? std::vector<int64_t>{0, 1, 3, 2} : std::vector<int64_t>{0, 1, 4, 2, 5, 3});
    Sizes shuffled = {from[0], channels};
    for (size_t d = 2 - dims; d < 2; d++) shuffled.push_back(convolved[d + dims] * axes[d].stride);
    image = e.view(image, shuffled);
    for (size_t d = 2 - dims; d < 2; d++) {
        const SymInt first = axes[d].left_out(), size = axes[d].size;
        const size_t at = d + dims;
        if (first == SymInt(0) && shuffled[at] == size) continue;
        shuffled[at] = size;
        image = e.call("aten::slice.Tensor",
                       {{"self", image},
                        {"dim", SymInt(static_cast<int64_t>(at))},
                        {"start", first},
                        {"end", first + size},
                        {"step", SymInt(1)}},
                       shuffled);
    }
    e.last_view(image);
    return true;
}

}  // namespace

void add_transposed_convolution(Decompositions &all) {
    all["aten::conv_transpose1d"] = all["aten::conv_transpose2d.input"] = transposed;
}

}  // namespace atalla
