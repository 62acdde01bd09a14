// Resizing and padding of lines, images and volumes as products with constant matrices, one for each dimension.
#include "graph_import/resampling.h"

#include <algorithm>

#include "graph_import/decompositions/expansion.h"

namespace atalla {

namespace {

// Larger matrices cost more than a copy by the host.
constexpr int64_t largest = 512;

bool is_identity(const Taps &taps, int64_t extent) {
    bool same = static_cast<int64_t>(taps.size()) == extent;
    for (size_t at = 0; same && at < taps.size(); at++)
        same = taps[at].size() == 1 && taps[at][0].from == static_cast<int64_t>(at) && taps[at][0].weight == 1;
    return same;
}

// How often each element comes in a row, if all come as often and nothing else; otherwise 0.
int64_t repeats(const Taps &taps, int64_t extent) {
    const auto size = static_cast<int64_t>(taps.size());
    if (size % extent != 0) return 0;
    for (int64_t at = 0; at < size; at++)
        if (const auto &one = taps[static_cast<size_t>(at)];
            one.size() != 1 || one[0].from != at / (size / extent) || one[0].weight != 1)
            return 0;
    return size / extent;
}

// A row for each result.
ValueId matrix(Expansion &e, const char *name, const Taps &taps, int64_t extent) {
    std::vector<double> weights(taps.size() * static_cast<size_t>(extent));
    for (size_t at = 0; at < taps.size(); at++)
        for (const Tap &tap : taps[at]) weights[at * static_cast<size_t>(extent) + static_cast<size_t>(tap.from)] += tap.weight;
    return e.constant(name, {static_cast<int64_t>(taps.size()), extent}, weights);
}

// x with its last dimensions mapped, one to three of them.
bool map(Expansion &e, ValueId x, const std::vector<Taps> &dimensions) {
    const std::vector<int64_t> own = constant_sizes(e.sizes(x));
    const size_t count = dimensions.size(), before = own.size() - count;
    std::vector<int64_t> from(own.begin() + static_cast<ptrdiff_t>(before), own.end()), to;
    for (const Taps &taps : dimensions) to.push_back(static_cast<int64_t>(taps.size()));
    if (std::max(*std::ranges::max_element(from), *std::ranges::max_element(to)) > largest) return false;
    int64_t planes = 1;
    for (size_t d = 0; d < before; d++) planes *= own[d];
    if (planes == 0) return false;
    // The innermost dimension first, so that the others have rows of the result behind them.
    int64_t behind = 1;
    for (size_t d = count; d-- > 0;) {
        const Taps &taps = dimensions[d];
        int64_t above = planes;
        for (size_t outer = 0; outer < d; outer++) above *= from[outer];
        if (!is_identity(taps, from[d])) {
            const int64_t times = behind == 1 ? 0 : repeats(taps, from[d]);
            if (d + 1 == count) {
                x = e.call(
                    "aten::linear",
                    {{"input", e.view(x, {planes, above / planes, from[d]})}, {"weight", matrix(e, "columns", taps, from[d])}},
                    Sizes{planes, above / planes, to[d]});
            } else if (times > 1) {
                x = e.expand(e.view(x, {above, from[d], 1, behind}), {above, from[d], times, behind});
            } else {
                x = e.call("aten::matmul",
                           {{"self", matrix(e, "rows", taps, from[d])}, {"other", e.view(x, {above, from[d], behind})}},
                           Sizes{above, to[d], behind});
            }
        }
        behind *= to[d];
    }
    e.last_view(x);
    return true;
}

bool resize(Expansion &e) {
    const ValueId x = e.tensor(e.node.find("input") != nullptr ? "input" : "self");
    if (!is_constant(e.sizes(x)) || !is_constant(e.result.sizes)) return false;
    const Resizing how = resizing_of(e.node.target);
    const std::vector<int64_t> from = constant_sizes(e.sizes(x)), to = constant_sizes(e.result.sizes);
    std::vector<Taps> dimensions;
    for (size_t d = 2; d < from.size(); d++) dimensions.push_back(resized(how, e.node, d - 2, from[d], to[d]));
    return map(e, x, dimensions);
}

// By elements of the image: of zeros the accelerator has an operator.
bool pad(Expansion &e) {
    const std::string mode = e.node.string("mode");
    const ValueId x = e.tensor("self");
    const std::vector<int64_t> added = e.node.integers("pad");
    if (mode == "constant" || added.empty() || added.size() > 6 || !is_constant(e.sizes(x))) return false;
    const std::vector<int64_t> from = constant_sizes(e.sizes(x));
    std::vector<Taps> dimensions;
    for (size_t d = added.size() / 2; d-- > 0;)
        dimensions.push_back(padded(mode, from[from.size() - 1 - d], added[2 * d], added[2 * d + 1]));
    return map(e, x, dimensions);
}

}  // namespace

void add_resampling_decompositions(Decompositions &all) {
    for (const char *name : {"aten::upsample_nearest1d",        "aten::upsample_nearest1d.vec",
                             "aten::upsample_nearest2d",        "aten::upsample_nearest2d.vec",
                             "aten::upsample_nearest3d",        "aten::upsample_nearest3d.vec",
                             "aten::_upsample_nearest_exact1d", "aten::_upsample_nearest_exact1d.vec",
                             "aten::_upsample_nearest_exact2d", "aten::_upsample_nearest_exact2d.vec",
                             "aten::_upsample_nearest_exact3d", "aten::_upsample_nearest_exact3d.vec",
                             "aten::upsample_linear1d",         "aten::upsample_linear1d.vec",
                             "aten::upsample_bilinear2d",       "aten::upsample_bilinear2d.vec",
                             "aten::upsample_trilinear3d",      "aten::upsample_trilinear3d.vec",
                             "aten::upsample_bicubic2d",        "aten::upsample_bicubic2d.vec",
                             "aten::_upsample_bilinear2d_aa",   "aten::_upsample_bilinear2d_aa.vec",
                             "aten::_upsample_bicubic2d_aa",    "aten::_upsample_bicubic2d_aa.vec"})
        all[name] = resize;
    all["aten::pad"] = pad;
}

}  // namespace atalla
