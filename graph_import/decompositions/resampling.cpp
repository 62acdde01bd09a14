// Resizing and padding of images as products with constant matrices: one for the rows, one for the columns.
#include "graph_import/resampling.h"

#include <algorithm>

#include "graph_import/decompositions/expansion.h"

namespace atalla {

namespace {

// Larger matrices cost more than a copy by the host.
constexpr int64_t largest = 512;

bool is_identity(const Taps &taps, int64_t extent) {
    bool same = static_cast<int64_t>(taps.size()) == extent;
    for (size_t at = 0; same && at < taps.size(); at++) same = taps[at].size() == 1 && taps[at][0].from == static_cast<int64_t>(at) && taps[at][0].weight == 1;
    return same;
}

// How often each element comes in a row, if all come as often and nothing else; otherwise 0.
int64_t repeats(const Taps &taps, int64_t extent) {
    const auto size = static_cast<int64_t>(taps.size());
    if (size % extent != 0) return 0;
    for (int64_t at = 0; at < size; at++)
        if (const auto &one = taps[static_cast<size_t>(at)]; one.size() != 1 || one[0].from != at / (size / extent) || one[0].weight != 1) return 0;
    return size / extent;
}

// A row for each result.
ValueId matrix(Expansion &e, const char *name, const Taps &taps, int64_t extent) {
    std::vector<double> weights(taps.size() * static_cast<size_t>(extent));
    for (size_t at = 0; at < taps.size(); at++)
        for (const Tap &tap : taps[at]) weights[at * static_cast<size_t>(extent) + static_cast<size_t>(tap.from)] += tap.weight;
    return e.constant(name, {static_cast<int64_t>(taps.size()), extent}, weights);
}

// x with its last two dimensions mapped; `rows` is empty for a tensor of which only the last one is.
bool map(Expansion &e, ValueId x, const Taps &rows, const Taps &columns) {
    const std::vector<int64_t> own = constant_sizes(e.sizes(x));
    const int64_t width = own.back(), height = rows.empty() ? 1 : own[own.size() - 2], wide = static_cast<int64_t>(columns.size()), high = rows.empty() ? 1 : static_cast<int64_t>(rows.size());
    if (std::max({width, height, wide, high}) > largest) return false;
    int64_t all = 1;
    for (const SymInt &size : e.result.sizes) all *= size.value();
    const int64_t planes = all / (wide * high);
    ValueId image = e.view(x, {planes, height, width});
    if (!is_identity(columns, width)) image = e.call("aten::linear", {{"input", image}, {"weight", matrix(e, "columns", columns, width)}}, Sizes{planes, height, wide});
    if (const int64_t times = rows.empty() ? 0 : repeats(rows, height); times > 1) {
        image = e.expand(e.view(image, {planes, height, 1, wide}), {planes, height, times, wide});
    } else if (!rows.empty() && !is_identity(rows, height)) {
        image = e.call("aten::matmul", {{"self", matrix(e, "rows", rows, height)}, {"other", image}}, Sizes{planes, high, wide});
    }
    e.last_view(image);
    return true;
}

bool resize(Expansion &e) {
    const ValueId x = e.tensor(e.node.find("input") != nullptr ? "input" : "self");
    const bool flat = e.node.target.find("1d") != std::string::npos;
    if (!is_constant(e.sizes(x)) || !is_constant(e.result.sizes)) return false;
    const Resizing how = e.node.target.find("nearest") != std::string::npos ? Resizing::Nearest : e.node.target.find("linear") != std::string::npos ? Resizing::Linear : Resizing::Cubic;
    const std::vector<int64_t> from = constant_sizes(e.sizes(x)), to = constant_sizes(e.result.sizes);
    const size_t last = from.size() - 1;
    const Taps rows = flat ? Taps{} : resized(how, e.node, 0, from[last - 1], to[last - 1]);
    return map(e, x, rows, resized(how, e.node, flat ? 0 : 1, from[last], to[last]));
}

// By elements of the image: of zeros the accelerator has an operator.
bool pad(Expansion &e) {
    const std::string mode = e.node.string("mode");
    const ValueId x = e.tensor("self");
    const std::vector<int64_t> added = e.node.integers("pad");
    if (mode == "constant" || added.empty() || added.size() > 4 || !is_constant(e.sizes(x))) return false;
    const std::vector<int64_t> from = constant_sizes(e.sizes(x));
    const size_t last = from.size() - 1;
    const Taps rows = added.size() < 4 ? Taps{} : padded(mode, from[last - 1], added[2], added[3]);
    return map(e, x, rows, padded(mode, from[last], added[0], added[1]));
}

}  // namespace

void add_resampling_decompositions(Decompositions &all) {
    for (const char *name : {"aten::upsample_nearest1d.vec", "aten::upsample_nearest2d.vec", "aten::upsample_nearest2d", "aten::upsample_linear1d.vec", "aten::upsample_bilinear2d.vec", "aten::upsample_bicubic2d.vec"})
        all[name] = resize;
    all["aten::pad"] = pad;
}

}  // namespace atalla
