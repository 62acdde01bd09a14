// Pooling of volumes, as pooling of images twice: of each slice, then along the depth of all of them.
#include <algorithm>

#include "graph_import/decompositions/expansion.h"

namespace atalla {

namespace {

struct Volumes {
    SymInt batch, channels, depth, height, width;
};

Volumes volumes_of(Sizes sizes) {
    if (sizes.size() == 4) sizes.insert(sizes.begin(), 1);
    return {sizes.at(0), sizes.at(1), sizes.at(2), sizes.at(3), sizes.at(4)};
}

bool is_known(const Expansion &e, ValueId x) {
    const size_t rank = e.sizes(x).size();
    return (rank == 4 || rank == 5) && is_constant(e.sizes(x)) && is_constant(e.result.sizes);
}

// `pool` makes images of images: of these sizes, with the dimensions of the volume that the windows of the first and the second
// one lie along; -1 for one along which they are of one element.
template <typename Pool>
bool twice(Expansion &e, Pool &&pool) {
    const ValueId x = e.tensor("self");
    const Volumes from = volumes_of(e.sizes(x)), to = volumes_of(e.result.sizes);
    const ValueId slices = pool(e.view(x, {from.batch, from.channels * from.depth, from.height, from.width}),
                                Sizes{from.batch, from.channels * from.depth, to.height, to.width}, 1, 2);
    const ValueId columns = e.view(slices, {from.batch, from.channels, from.depth, to.height * to.width});
    e.last_view(pool(columns, Sizes{from.batch, from.channels, to.depth, to.height * to.width}, 0, -1));
    return true;
}

// Of an argument along both dimensions.
Sizes along(const Expansion &e, const char *name, int first, int second, int64_t otherwise) {
    return {e.listed(name, static_cast<size_t>(first)), second < 0 ? otherwise : e.listed(name, static_cast<size_t>(second))};
}

Sizes strides_along(const Expansion &e, int first, int second) {
    return along(e, e.node.integers("stride").empty() ? "kernel_size" : "stride", first, second, 1);
}

bool max_pool(Expansion &e) {
    if (!is_known(e, e.tensor("self"))) return false;
    return twice(e, [&](ValueId image, const Sizes &to, int first, int second) {
        return e.call("aten::max_pool2d",
                      {{"self", image},
                       {"kernel_size", along(e, "kernel_size", first, second, 1)},
                       {"stride", strides_along(e, first, second)},
                       {"padding", along(e, "padding", first, second, 0)},
                       {"dilation", along(e, "dilation", first, second, 1)},
                       {"ceil_mode", e.node.flag("ceil_mode")}},
                      to);
    });
}

// The mean of means, where every window counts as many elements.
bool avg_pool(Expansion &e) {
    const std::vector<int64_t> padding = e.node.integers("padding");
    const bool padded = std::ranges::any_of(padding, [](int64_t n) { return n != 0; });
    if (!is_known(e, e.tensor("self")) || e.node.flag("ceil_mode") || (padded && !e.node.flag("count_include_pad")) ||
        !e.node.is_none("divisor_override"))
        return false;
    return twice(e, [&](ValueId image, const Sizes &to, int first, int second) {
        return e.call("aten::avg_pool2d",
                      {{"self", image},
                       {"kernel_size", along(e, "kernel_size", first, second, 1)},
                       {"stride", strides_along(e, first, second)},
                       {"padding", along(e, "padding", first, second, 0)}},
                      to);
    });
}

bool adaptive_avg_pool(Expansion &e) {
    if (!is_known(e, e.tensor("self"))) return false;
    return twice(e, [&](ValueId image, const Sizes &to, int, int) {
        return e.call("aten::adaptive_avg_pool2d", {{"self", image}, {"output_size", Sizes{to[2], to[3]}}}, to);
    });
}

}  // namespace

void add_volume_decompositions(Decompositions &all) {
    all["aten::max_pool3d"] = max_pool;
    all["aten::avg_pool3d"] = avg_pool;
    all["aten::adaptive_avg_pool3d"] = all["aten::_adaptive_avg_pool3d"] = adaptive_avg_pool;
}

}  // namespace atalla
