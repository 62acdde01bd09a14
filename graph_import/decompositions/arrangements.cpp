// Elements in another order, or several times: views, transposes and expansions.
#include <algorithm>

#include "graph_import/decompositions/expansion.h"

namespace atalla {

namespace {

// The tensor as it is, as often along each dimension; dimensions may be added in front.
bool repeat(Expansion &e) {
    const char *name = e.node.target == "aten::tile" ? "dims" : "repeats";
    Sizes times = e.node.sizes(name), own = e.sizes(e.tensor("self"));
    while (times.size() < own.size()) times.insert(times.begin(), 1);
    while (own.size() < times.size()) own.insert(own.begin(), 1);
    Sizes apart, expanded;
    for (size_t d = 0; d < own.size(); d++) {
        for (const SymInt &size : {SymInt(1), own[d]}) apart.push_back(size);
        for (const SymInt &size : {times[d], own[d]}) expanded.push_back(size);
    }
    e.last_view(e.expand(e.view(e.tensor("self"), apart), expanded));
    return true;
}

// Each element of a dimension as often in a row.
bool repeat_each(Expansion &e) {
    if (e.node.is_none("dim")) return false;
    const Sizes own = e.sizes(e.tensor("self"));
    const size_t dim = Expansion::dimension(e.node.integer("dim"), own.size());
    Sizes apart = own;
    apart.insert(apart.begin() + static_cast<ptrdiff_t>(dim) + 1, 1);
    Sizes expanded = apart;
    expanded[dim + 1] = SymInt(e.node.integer("repeats"));
    e.last_view(e.expand(e.view(e.tensor("self"), apart), expanded));
    return true;
}

// The last dimensions of an image taken apart into `apart`, in another order; all before them stay.
void rearrange(Expansion &e, const Sizes &apart, const std::vector<int64_t> &order) {
    const Sizes own = e.sizes(e.tensor("self"));
    const size_t before = own.size() - 3;
    Sizes grid(own.begin(), own.begin() + static_cast<ptrdiff_t>(before));
    grid.insert(grid.end(), apart.begin(), apart.end());
    std::vector<int64_t> dims;
    for (size_t d = 0; d < before; d++) dims.push_back(static_cast<int64_t>(d));
    for (int64_t d : order) dims.push_back(static_cast<int64_t>(before) + d);
    e.last_view(e.permute(e.view(e.tensor("self"), grid), dims));
}

bool pixel_shuffle(Expansion &e) {
    const Sizes own = e.sizes(e.tensor("self"));
    const SymInt r = e.node.integer("upscale_factor");
    const size_t last = own.size() - 1;
    rearrange(e, {e.result.sizes[last - 2], r, r, own[last - 1], own[last]}, {0, 3, 1, 4, 2});
    return true;
}

bool pixel_unshuffle(Expansion &e) {
    const Sizes own = e.sizes(e.tensor("self"));
    const SymInt r = e.node.integer("downscale_factor");
    const size_t last = own.size() - 1;
    rearrange(e, {own[last - 2], e.result.sizes[last - 1], r, e.result.sizes[last], r}, {0, 2, 4, 1, 3});
    return true;
}

// Channels of several groups, the first of each group first.
bool channel_shuffle(Expansion &e) {
    const Sizes own = e.sizes(e.tensor("self"));
    if (own.size() < 3 || !own[1].is_constant()) return false;
    const int64_t groups = e.node.integer("groups"), channels = own[1].value();
    Sizes apart = own;
    apart[1] = groups;
    apart.insert(apart.begin() + 2, channels / groups);
    std::vector<int64_t> dims(apart.size());
    for (size_t d = 0; d < dims.size(); d++) dims[d] = static_cast<int64_t>(d);
    std::swap(dims[1], dims[2]);
    e.last_view(e.permute(e.view(e.tensor("self"), apart), dims));
    return true;
}

// Windows of `size` elements along a dimension, `step` apart, whose elements become the last dimension.
bool windows(Expansion &e) {
    const ValueId x = e.tensor("self");
    const Sizes own = e.sizes(x);
    if (own.empty() || !is_constant(own)) return false;
    const size_t dim = Expansion::dimension(e.node.integer("dimension"), own.size());
    const int64_t size = e.node.integer("size"), step = e.node.integer("step"), count = e.result.sizes[dim].value();
    constexpr int64_t most_windows = 64;
    if (step != size && count > most_windows) return false;
    const auto part = [&](int64_t from, int64_t elements) {
        Sizes sizes = own;
        sizes[dim] = elements;
        if (sizes == own) return x;
        return e.call("aten::slice.Tensor",
                      {{"self", x},
                       {"dim", SymInt(static_cast<int64_t>(dim))},
                       {"start", SymInt(from)},
                       {"end", SymInt(from + elements)},
                       {"step", SymInt(1)}},
                      sizes);
    };
    // [.., count, size, ..]
    Sizes apart = own;
    apart[dim] = count;
    apart.insert(apart.begin() + static_cast<ptrdiff_t>(dim) + 1, size);
    ValueId rows;
    if (step == size || count == 1) {
        rows = e.view(part(0, count * size), apart);
    } else {
        Sizes joined = own;
        joined[dim] = count * size;
        std::vector<ValueId> parts;
        for (int64_t at = 0; at < count; at++) parts.push_back(part(at * step, size));
        rows = e.view(e.call("aten::cat", {{"tensors", parts}, {"dim", SymInt(static_cast<int64_t>(dim))}}, joined), apart);
    }
    std::vector<int64_t> dims;
    for (size_t d = 0; d < apart.size(); d++)
        if (d != dim + 1) dims.push_back(static_cast<int64_t>(d));
    dims.push_back(static_cast<int64_t>(dim) + 1);
    if (std::is_sorted(dims.begin(), dims.end()))
        e.last_view(rows);
    else
        e.last("aten::permute", {{"self", rows}, {"dims", Sizes(dims.begin(), dims.end())}});
    return true;
}

// A tensor with other values in the positions first, first + step, ... of a dimension.
bool scatter(Expansion &e, const SymInt &first, const SymInt &end, int64_t step) {
    const ValueId x = e.tensor("self");
    const Sizes own = e.sizes(x);
    const size_t dim = Expansion::dimension(e.node.integer("dim"), own.size());
    if (step != 1 || !own[dim].is_constant() || !first.is_constant() || !end.is_constant()) return false;
    Sizes replaced = own;
    replaced[dim] = end - first;
    ValueId values = e.view(e.tensor("src"), replaced);
    std::vector<ValueId> parts;
    const auto part = [&](const SymInt &from, const SymInt &to) {
        if (from == to) return;
        Sizes sizes = own;
        sizes[dim] = to - from;
        parts.push_back(
            e.call("aten::slice.Tensor",
                   {{"self", x}, {"dim", SymInt(static_cast<int64_t>(dim))}, {"start", from}, {"end", to}, {"step", SymInt(1)}},
                   sizes));
    };
    part(0, first);
    parts.push_back(values);
    part(end, own[dim]);
    if (parts.size() == 1)
        e.last_view(values);
    else
        e.last("aten::cat", {{"tensors", parts}, {"dim", SymInt(static_cast<int64_t>(dim))}});
    return true;
}

bool select_scatter(Expansion &e) {
    const Sizes own = e.sizes(e.tensor("self"));
    const size_t dim = Expansion::dimension(e.node.integer("dim"), own.size());
    if (!own[dim].is_constant()) return false;
    const int64_t index = e.node.integer("index"), at = index < 0 ? index + own[dim].value() : index;
    return scatter(e, at, at + 1, 1);
}

bool slice_scatter(Expansion &e) {
    const Sizes own = e.sizes(e.tensor("self"));
    const size_t dim = Expansion::dimension(e.node.integer("dim"), own.size());
    if (!own[dim].is_constant()) return false;
    const int64_t size = own[dim].value();
    const auto bound = [&](const char *name, int64_t otherwise) {
        const int64_t given = e.node.optional_integer(name).value_or(otherwise);
        return std::clamp<int64_t>(given < 0 ? given + size : given, 0, size);
    };
    return scatter(e, bound("start", 0), bound("end", size), e.node.integer("step"));
}

// The other tensor's values in this one's sizes and element type.
bool copy(Expansion &e) {
    const ValueId source = e.tensor("src");
    const ValueId wide = e.expand(source, e.result.sizes);
    e.last("aten::_to_copy", {{"self", wide}, {"dtype", e.result.dtype}});
    return true;
}

}  // namespace

void add_arrangement_decompositions(Decompositions &all) {
    all["aten::repeat"] = all["aten::tile"] = repeat;
    all["aten::repeat_interleave.self_int"] = repeat_each;
    all["aten::unfold"] = windows;
    all["aten::select_scatter"] = select_scatter;
    all["aten::slice_scatter"] = slice_scatter;
    all["aten::copy"] = copy;
    all["aten::pixel_shuffle"] = pixel_shuffle;
    all["aten::pixel_unshuffle"] = pixel_unshuffle;
    all["aten::channel_shuffle"] = all["aten::native_channel_shuffle"] = channel_shuffle;
}

}  // namespace atalla
