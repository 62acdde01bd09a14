// Images as the columns of their windows, and back.
#include <algorithm>

#include "graph_import/decompositions/expansion.h"

namespace atalla {

namespace {

struct Windows {
    int64_t kernel[2], dilation[2], padding[2], stride[2], count[2];  // of rows and columns
    SymInt batch, channels;
    int64_t image[2];

    // Windows that lie side by side and fill the image are its elements in another order.
    bool tile() const {
        for (int d = 0; d < 2; d++)
            if (padding[d] != 0 || stride[d] != kernel[d] || dilation[d] != 1 || count[d] * kernel[d] != image[d]) return false;
        return true;
    }
    int64_t taps() const { return kernel[0] * kernel[1]; }
};

constexpr int64_t most_taps = 64;  // each is a copy of its own

// `image`: the sizes of the images, channels in front of the last two; nothing if they are not known.
bool read(const Expansion &e, const Sizes &image, Windows &w) {
    if (!is_constant(image) || !is_constant(e.result.sizes) || (image.size() != 3 && image.size() != 4)) return false;
    for (size_t d = 0; d < 2; d++) {
        w.kernel[d] = e.listed("kernel_size", d);
        w.dilation[d] = e.listed("dilation", d);
        w.padding[d] = e.listed("padding", d);
        w.stride[d] = e.listed("stride", d);
        w.image[d] = image[image.size() - 2 + d].value();
        w.count[d] = (w.image[d] + 2 * w.padding[d] - w.dilation[d] * (w.kernel[d] - 1) - 1) / w.stride[d] + 1;
    }
    w.batch = image.size() == 4 ? image[0] : SymInt(1);
    w.channels = image[image.size() - 3];
    return true;
}

bool to_columns(Expansion &e) {
    Windows w;
    ValueId x = e.tensor("self");
    if (!read(e, e.sizes(x), w)) return false;
    if (w.tile()) {
        const ValueId apart = e.view(x, {w.batch, w.channels, w.count[0], w.kernel[0], w.count[1], w.kernel[1]});
        e.last_view(e.permute(apart, {0, 1, 3, 5, 2, 4}));
        return true;
    }
    if (w.taps() > most_taps) return false;
    Sizes sizes = {w.batch, w.channels, w.image[0] + 2 * w.padding[0], w.image[1] + 2 * w.padding[1]};
    x = e.view(x, {w.batch, w.channels, w.image[0], w.image[1]});
    if (w.padding[0] > 0 || w.padding[1] > 0)
        x = e.call("aten::constant_pad_nd",
                   {{"self", x}, {"pad", Sizes{w.padding[1], w.padding[1], w.padding[0], w.padding[0]}}, {"value", 0.0}},
                   sizes);
    const auto part = [&](ValueId from, size_t d, int64_t tap) {
        const int64_t first = tap * w.dilation[d], end = first + (w.count[d] - 1) * w.stride[d] + 1;
        Sizes taken = e.sizes(from);
        taken[2 + d] = w.count[d];
        return e.call("aten::slice.Tensor",
                      {{"self", from},
                       {"dim", SymInt(static_cast<int64_t>(2 + d))},
                       {"start", SymInt(first)},
                       {"end", SymInt(end)},
                       {"step", SymInt(w.stride[d])}},
                      taken);
    };
    const SymInt places = w.count[0] * w.count[1];
    std::vector<ValueId> parts;
    for (int64_t row = 0; row < w.kernel[0]; row++) {
        const ValueId rows = part(x, 0, row);
        for (int64_t column = 0; column < w.kernel[1]; column++)
            parts.push_back(e.view(part(rows, 1, column), {w.batch, w.channels, 1, places}));
    }
    const ValueId joined = parts.size() == 1 ? parts[0]
                                             : e.call("aten::cat", {{"tensors", parts}, {"dim", SymInt(2)}},
                                                      {w.batch, w.channels, w.taps(), places});
    e.last_view(joined);
    return true;
}

// Each element of an image is the sum of what the windows have for it.
bool to_image(Expansion &e) {
    Windows w;
    const ValueId x = e.tensor("self");
    if (!is_constant(e.sizes(x)) || !read(e, e.result.sizes, w)) return false;
    if (w.tile()) {
        const ValueId apart = e.view(x, {w.batch, w.channels, w.kernel[0], w.kernel[1], w.count[0], w.count[1]});
        e.last_view(e.permute(apart, {0, 1, 4, 2, 5, 3}));
        return true;
    }
    if (w.taps() > most_taps || w.stride[0] != 1 || w.stride[1] != 1) return false;
    const ValueId apart = e.view(x, {w.batch, w.channels, w.taps(), w.count[0], w.count[1]});
    const Sizes part = {w.batch, w.channels, w.count[0], w.count[1]}, image = {w.batch, w.channels, w.image[0], w.image[1]};
    ValueId sum;
    for (int64_t tap = 0; tap < w.taps(); tap++) {
        const ValueId one = e.call("aten::select.int", {{"self", apart}, {"dim", SymInt(2)}, {"index", SymInt(tap)}}, part);
        Sizes pad;
        for (const size_t d : {1, 0}) {
            const int64_t before = (d == 0 ? tap / w.kernel[1] : tap % w.kernel[1]) * w.dilation[d] - w.padding[d];
            pad.emplace_back(before);
            pad.emplace_back(w.image[d] - w.count[d] - before);
        }
        const ValueId placed = e.call("aten::constant_pad_nd", {{"self", one}, {"pad", pad}, {"value", 0.0}}, image);
        sum = sum ? e.both("aten::add.Tensor", sum, placed) : placed;
    }
    e.last_view(sum);
    return true;
}

}  // namespace

void add_column_decompositions(Decompositions &all) {
    all["aten::im2col"] = to_columns;
    all["aten::col2im"] = to_image;
}

}  // namespace atalla
