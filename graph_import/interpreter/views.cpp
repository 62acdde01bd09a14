// Operators that move elements and compute nothing.
#include <algorithm>
#include <cmath>

#include "graph_import/interpreter/call.h"
#include "graph_import/resampling.h"
#include "isa/error.h"

namespace atalla::interpreter {

namespace {

HostTensor with_sizes(const HostTensor &x, const Extents &sizes, const Call &call) {
    if (product(sizes) != x.elements()) call.fail("the sizes hold another number of elements");
    HostTensor result = x.is_dense() ? x : dense_copy(x);
    result.sizes = sizes;
    result.strides = dense_strides(sizes);
    return result;
}

// One size may be -1.
HostTensor viewed(const HostTensor &x, Extents sizes, const Call &call) {
    int64_t known = 1, open = -1;
    for (size_t i = 0; i < sizes.size(); i++) {
        if (sizes[i] == -1) {
            if (open >= 0) call.fail("only one size may be -1");
            open = static_cast<int64_t>(i);
        } else {
            known *= sizes[i];
        }
    }
    if (open >= 0) {
        if (known <= 0 || x.elements() % known != 0) call.fail("the sizes do not divide the number of elements");
        sizes[open] = x.elements() / known;
    }
    return with_sizes(x, sizes, call);
}

HostTensor permuted(const HostTensor &x, const Extents &order) {
    HostTensor result = x;
    for (size_t i = 0; i < order.size(); i++) {
        result.sizes[i] = x.sizes[order[i]];
        result.strides[i] = x.strides[order[i]];
    }
    return result;
}

HostTensor swapped(const HostTensor &x, int64_t a, int64_t b) {
    HostTensor result = x;
    if (x.sizes.empty()) return result;
    std::swap(result.sizes[a], result.sizes[b]);
    std::swap(result.strides[a], result.strides[b]);
    return result;
}

HostTensor converted(const HostTensor &x, DType dtype) {
    if (x.dtype == dtype) return dense_copy(x);
    return with_compute_type(x.dtype, [&](auto zero) { return store(load<decltype(zero)>(x), dtype); });
}

// Start, end and step as Python's slices, clamped to the size.
HostTensor sliced(const HostTensor &x, int64_t d, int64_t start, int64_t end, int64_t step, const Call &call) {
    if (step <= 0) call.fail("a slice's step must be positive");
    const int64_t size = x.sizes[d];
    const auto settle = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
    start = settle(start);
    end = std::max(settle(end), start);
    HostTensor result = x;
    result.offset += start * x.strides[d];
    result.sizes[d] = (end - start + step - 1) / step;
    result.strides[d] *= step;
    return result;
}

HostTensor slice(const Call &call, const HostTensor &x) {
    const int64_t d = call.dimension("dim", static_cast<int64_t>(x.sizes.size()));
    const int64_t start = call->optional_integer("start").value_or(0);
    const int64_t end = call->optional_integer("end").value_or(INT64_MAX);
    return sliced(x, d, start, end, call->integer("step"), call);
}

HostTensor selected(const HostTensor &x, int64_t d, int64_t index, const Call &call) {
    if (index < -x.sizes[d] || index >= x.sizes[d]) call.fail("the index is outside the dimension");
    HostTensor result = x;
    result.offset += (index < 0 ? index + x.sizes[d] : index) * x.strides[d];
    result.sizes.erase(result.sizes.begin() + d);
    result.strides.erase(result.strides.begin() + d);
    return result;
}

// Copies the elements of `source` over those of the view `place` of a tensor that was just made.
void overwrite(const HostTensor &place, const HostTensor &source) {
    const HostTensor values = dense_copy(converted(expand(source, place.sizes), place.dtype));
    const int64_t bytes = element_bytes(place.dtype);
    auto *to = const_cast<std::byte *>(place.begin());
    int64_t next = 0;
    for_each_offset(place.sizes, place.strides,
                    [&](int64_t offset) { std::memcpy(to + offset * bytes, values.begin() + next++ * bytes, bytes); });
}

HostTensor unsqueezed(const HostTensor &x, int64_t d) {
    HostTensor result = x;
    result.sizes.insert(result.sizes.begin() + d, 1);
    result.strides.insert(result.strides.begin() + d, 1);
    return result;
}

HostTensor squeezed(const HostTensor &x, const Extents &dimensions) {
    HostTensor result = x;
    for (size_t i = dimensions.size(); i-- > 0;) {
        const int64_t d = dimensions[i];
        if (result.sizes[d] != 1) continue;
        result.sizes.erase(result.sizes.begin() + d);
        result.strides.erase(result.strides.begin() + d);
    }
    return result;
}

Results split(const HostTensor &x, int64_t d, const Extents &sizes, const Call &call) {
    Results parts;
    int64_t at = 0;
    for (int64_t size : sizes) {
        parts.push_back(sliced(x, d, at, at + size, 1, call));
        at += size;
    }
    return parts;
}

Results split_evenly(const Call &call, const HostTensor &x, int64_t size) {
    const int64_t d = call.dimension("dim", static_cast<int64_t>(x.sizes.size()));
    if (size <= 0) call.fail("the parts must have a positive size");
    Extents sizes;
    for (int64_t at = 0; at < x.sizes[d]; at += size) sizes.push_back(std::min(size, x.sizes[d] - at));
    if (sizes.empty()) sizes.push_back(0);
    return split(x, d, sizes, call);
}

Results roll(const Call &call) {
    HostTensor x = dense_copy(call.tensor("self"));
    Extents shifts = call->integers("shifts"), dims = call->integers("dims");
    const Extents sizes = x.sizes;
    if (dims.empty()) {
        x = with_sizes(x, {x.elements()}, call);
        dims = {0};
    }
    for (size_t i = 0; i < dims.size(); i++) {
        const int64_t d = dims[i] < 0 ? dims[i] + static_cast<int64_t>(x.sizes.size()) : dims[i];
        const int64_t size = x.sizes.at(d);
        if (size == 0) continue;
        const int64_t shift = ((shifts.at(i) % size) + size) % size;
        x = concatenated({sliced(x, d, size - shift, size, 1, call), sliced(x, d, 0, size - shift, 1, call)}, d, x.dtype);
    }
    return {with_sizes(x, sizes, call)};
}

Results flip(const Call &call) {
    HostTensor x = call.tensor("self");
    for (int64_t d : call.dimensions("dims", static_cast<int64_t>(x.sizes.size()))) {
        x.offset += (x.sizes[d] - 1) * x.strides[d];
        x.strides[d] = -x.strides[d];
    }
    return {dense_copy(x)};
}

Results repeat(const Call &call) {
    HostTensor x = call.tensor("self");
    const Extents times = call->integers("repeats");
    while (x.sizes.size() < times.size()) x = unsqueezed(x, 0);
    // Each dimension as (times, size), the first with stride 0.
    HostTensor grid = x;
    Extents sizes;
    grid.sizes.clear();
    grid.strides.clear();
    for (size_t d = 0; d < x.sizes.size(); d++) {
        grid.sizes.insert(grid.sizes.end(), {times[d], x.sizes[d]});
        grid.strides.insert(grid.strides.end(), {0, x.strides[d]});
        sizes.push_back(times[d] * x.sizes[d]);
    }
    return {with_sizes(dense_copy(grid), sizes, call)};
}

Results repeat_interleave(const Call &call) {
    HostTensor x = call.tensor("self");
    if (!call.has("dim")) x = with_sizes(x, {x.elements()}, call);
    const int64_t d = call.has("dim") ? call.dimension("dim", static_cast<int64_t>(x.sizes.size())) : 0;
    const int64_t times = call->integer("repeats");
    Extents sizes = x.sizes;
    sizes[d] *= times;
    HostTensor grid = unsqueezed(x, d + 1);
    grid.sizes[d + 1] = times;
    grid.strides[d + 1] = 0;
    return {with_sizes(dense_copy(grid), sizes, call)};
}

Results constant_pad(const Call &call) {
    const HostTensor x = call.tensor("self");
    const Extents pads = call->integers("pad");
    const auto rank = static_cast<int64_t>(x.sizes.size());
    Extents sizes = x.sizes;
    HostTensor source = x;
    Extents before(rank);
    for (size_t i = 0; i < pads.size() / 2; i++) {
        const int64_t d = rank - 1 - static_cast<int64_t>(i);
        if (d < 0) call.fail("more paddings than dimensions");
        const int64_t low = pads[2 * i], high = pads[2 * i + 1];
        sizes[d] += low + high;
        source = sliced(source, d, std::max<int64_t>(-low, 0), source.sizes[d] - std::max<int64_t>(-high, 0), 1, call);
        before[d] = std::max<int64_t>(low, 0);
    }
    const double value = call->optional_number("value").value_or(0);
    HostTensor result = with_compute_type(
        x.dtype, [&](auto zero) { return store(Array<decltype(zero)>(sizes, static_cast<decltype(zero)>(value)), x.dtype); });
    HostTensor place = result;
    place.sizes = source.sizes;
    for (int64_t d = 0; d < rank; d++) place.offset += before[d] * place.strides[d];
    overwrite(place, source);
    return {result};
}

Results pad(const Call &call) {
    const std::string mode = call->string("mode");
    if (mode == "constant") return constant_pad(call);
    HostTensor x = call.tensor("self");
    const Extents pads = call->integers("pad");
    for (size_t i = 0; i < pads.size() / 2; i++) {
        const auto d = static_cast<int64_t>(x.sizes.size() - 1 - i);
        std::vector<HostTensor> parts;
        try {
            for (const std::vector<Tap> &taps : padded(mode, x.sizes.at(d), pads[2 * i], pads[2 * i + 1]))
                parts.push_back(sliced(x, d, taps[0].from, taps[0].from + 1, 1, call));
        } catch (const Error &error) {
            call.fail(error.what());
        }
        x = concatenated(parts, d, x.dtype);
    }
    return {x};
}

HostTensor diagonal(const Call &call, HostTensor x) {
    const auto rank = static_cast<int64_t>(x.sizes.size());
    const int64_t a = call.dimension("dim1", rank), b = call.dimension("dim2", rank), offset = call->integer("offset");
    const int64_t size = std::max<int64_t>(
        0, offset >= 0 ? std::min(x.sizes[a], x.sizes[b] - offset) : std::min(x.sizes[a] + offset, x.sizes[b]));
    const int64_t stride = x.strides[a] + x.strides[b];
    if (size > 0) x.offset += offset >= 0 ? offset * x.strides[b] : -offset * x.strides[a];
    for (int64_t d : {std::max(a, b), std::min(a, b)}) {
        x.sizes.erase(x.sizes.begin() + d);
        x.strides.erase(x.strides.begin() + d);
    }
    x.sizes.push_back(size);
    x.strides.push_back(stride);
    return x;
}

Results diagonal_scatter(const Call &call) {
    const HostTensor result = dense_copy(call.tensor("self"));
    overwrite(diagonal(call, result), call.tensor("src"));
    return {result};
}

Results pixel_shuffle(const Call &call) {
    const HostTensor x = call.tensor("self");
    const int64_t r = call->integer("upscale_factor");
    const size_t rank = x.sizes.size();
    if (rank < 3) call.fail("an image is expected");
    const int64_t c = x.sizes[rank - 3], h = x.sizes[rank - 2], w = x.sizes[rank - 1];
    const int64_t images = x.elements() / std::max<int64_t>(c * h * w, 1);
    const HostTensor grid = with_sizes(x, {images, c / (r * r), r, r, h, w}, call);
    Extents sizes = x.sizes;
    sizes[rank - 3] = c / (r * r);
    sizes[rank - 2] = h * r;
    sizes[rank - 1] = w * r;
    return {with_sizes(permuted(grid, {0, 1, 4, 2, 5, 3}), sizes, call)};
}

void add_shape_kernels(Kernels &kernels) {
    for (const char *name : {"aten::view", "aten::_unsafe_view", "aten::reshape"}) {
        kernels[name] = [name = std::string(name)](const Call &call) -> Results {
            return {viewed(call.tensor("self"), call->integers(name == "aten::reshape" ? "shape" : "size"), call)};
        };
    }
    // Their results' sizes are known.
    for (const char *name : {"aten::flatten.using_ints", "aten::unflatten.int", "aten::view_as"}) {
        kernels[name] = [](const Call &call) -> Results {
            return {with_sizes(call.tensor("self"), call.result_sizes(), call)};
        };
    }
    for (const char *name : {"aten::expand", "aten::expand_as", "aten::broadcast_to"}) {
        kernels[name] = [](const Call &call) -> Results { return {expand(call.tensor("self"), call.result_sizes())}; };
    }
    kernels["aten::unsqueeze"] = [](const Call &call) -> Results {
        const HostTensor x = call.tensor("self");
        return {unsqueezed(x, call.dimension("dim", static_cast<int64_t>(x.sizes.size()) + 1))};
    };
    for (const char *name : {"aten::squeeze", "aten::squeeze.dim", "aten::squeeze.dims"}) {
        kernels[name] = [](const Call &call) -> Results {
            const HostTensor x = call.tensor("self");
            return {squeezed(x, call.dimensions("dim", static_cast<int64_t>(x.sizes.size())))};
        };
    }
    kernels["aten::transpose.int"] = [](const Call &call) -> Results {
        const HostTensor x = call.tensor("self");
        const auto rank = static_cast<int64_t>(x.sizes.size());
        return {swapped(x, call.dimension("dim0", rank), call.dimension("dim1", rank))};
    };
    for (const char *name : {"aten::t", "aten::mT", "aten::numpy_T"}) {
        kernels[name] = [](const Call &call) -> Results {
            const HostTensor x = call.tensor("self");
            const auto rank = static_cast<int64_t>(x.sizes.size());
            if (call->target == "aten::numpy_T") {
                Extents order(rank);
                for (int64_t i = 0; i < rank; i++) order[i] = rank - 1 - i;
                return {permuted(x, order)};
            }
            return {rank < 2 ? x : swapped(x, rank - 2, rank - 1)};
        };
    }
    kernels["aten::permute"] = [](const Call &call) -> Results {
        const HostTensor x = call.tensor("self");
        Extents order = call->integers("dims");
        const auto rank = static_cast<int64_t>(x.sizes.size());
        if (static_cast<int64_t>(order.size()) != rank) call.fail("one entry for each dimension is expected");
        for (int64_t &d : order) {
            if (d < -rank || d >= rank) call.fail("a dimension that the tensor does not have");
            if (d < 0) d += rank;
        }
        return {permuted(x, order)};
    };
    kernels["aten::diagonal"] = [](const Call &call) -> Results { return {diagonal(call, call.tensor("self"))}; };
    kernels["aten::diagonal_scatter"] = diagonal_scatter;
    kernels["aten::pixel_shuffle"] = pixel_shuffle;
}

void add_part_kernels(Kernels &kernels) {
    kernels["aten::slice.Tensor"] = [](const Call &call) -> Results { return {slice(call, call.tensor("self"))}; };
    kernels["aten::select.int"] = [](const Call &call) -> Results {
        const HostTensor x = call.tensor("self");
        return {selected(x, call.dimension("dim", static_cast<int64_t>(x.sizes.size())), call->integer("index"), call)};
    };
    kernels["aten::narrow"] = [](const Call &call) -> Results {
        const HostTensor x = call.tensor("self");
        const int64_t d = call.dimension("dim", static_cast<int64_t>(x.sizes.size())), start = call->integer("start");
        return {sliced(x, d, start, start + call->integer("length"), 1, call)};
    };
    kernels["aten::slice_scatter"] = [](const Call &call) -> Results {
        const HostTensor result = dense_copy(call.tensor("self"));
        overwrite(slice(call, result), call.tensor("src"));
        return {result};
    };
    kernels["aten::select_scatter"] = [](const Call &call) -> Results {
        const HostTensor result = dense_copy(call.tensor("self"));
        const int64_t d = call.dimension("dim", static_cast<int64_t>(result.sizes.size()));
        overwrite(selected(result, d, call->integer("index"), call), call.tensor("src"));
        return {result};
    };
    kernels["aten::copy"] = [](const Call &call) -> Results {
        return {converted(expand(call.tensor("src"), call.tensor("self").sizes), call.result_dtype())};
    };
    kernels["aten::cat"] = [](const Call &call) -> Results {
        const std::vector<HostTensor> parts = call.tensors("tensors");
        return {
            concatenated(parts, call.dimension("dim", static_cast<int64_t>(call.result_sizes().size())), call.result_dtype())};
    };
    kernels["aten::stack"] = [](const Call &call) -> Results {
        std::vector<HostTensor> parts = call.tensors("tensors");
        const int64_t d = call.dimension("dim", static_cast<int64_t>(call.result_sizes().size()));
        for (HostTensor &part : parts) part = unsqueezed(part, d);
        return {concatenated(parts, d, call.result_dtype())};
    };
    kernels["aten::split.Tensor"] = [](const Call &call) {
        return split_evenly(call, call.tensor("self"), call->integer("split_size"));
    };
    kernels["aten::chunk"] = [](const Call &call) {
        const HostTensor x = call.tensor("self");
        const int64_t size = x.sizes[call.dimension("dim", static_cast<int64_t>(x.sizes.size()))],
                      chunks = call->integer("chunks");
        return split_evenly(call, x, std::max<int64_t>(1, (size + chunks - 1) / std::max<int64_t>(chunks, 1)));
    };
    for (const char *name : {"aten::split_with_sizes", "aten::split.sizes"}) {
        kernels[name] = [](const Call &call) {
            const HostTensor x = call.tensor("self");
            const char *sizes = call->find("split_sizes") ? "split_sizes" : "split_size";
            return split(x, call.dimension("dim", static_cast<int64_t>(x.sizes.size())), call->integers(sizes), call);
        };
    }
    kernels["aten::unbind.int"] = [](const Call &call) {
        const HostTensor x = call.tensor("self");
        const int64_t d = call.dimension("dim", static_cast<int64_t>(x.sizes.size()));
        Results parts;
        for (int64_t i = 0; i < x.sizes[d]; i++) parts.push_back(selected(x, d, i, call));
        return parts;
    };
    kernels["aten::roll"] = roll;
    kernels["aten::flip"] = flip;
    kernels["aten::repeat"] = repeat;
    kernels["aten::repeat_interleave.self_int"] = repeat_interleave;
    kernels["aten::constant_pad_nd"] = constant_pad;
    kernels["aten::pad"] = pad;
}

}  // namespace

HostTensor concatenated(const std::vector<HostTensor> &parts, int64_t d, DType dtype) {
    Extents sizes;
    for (const HostTensor &part : parts) {
        if (part.sizes == Extents{0}) continue;  // an old convention: such a tensor fits everywhere
        if (sizes.empty()) {
            sizes = part.sizes;
        } else {
            sizes[d] += part.sizes[d];
        }
    }
    if (sizes.empty()) sizes = {0};
    HostTensor result = make_tensor(dtype, sizes);
    int64_t at = 0;
    for (const HostTensor &part : parts) {
        if (part.sizes == Extents{0}) continue;
        HostTensor place = result;
        place.offset += at * place.strides[d];
        place.sizes = part.sizes;
        overwrite(place, part);
        at += part.sizes[d];
    }
    return result;
}

void add_view_kernels(Kernels &kernels) {
    add_shape_kernels(kernels);
    add_part_kernels(kernels);
    for (const char *name : {"aten::clone", "aten::alias", "aten::detach", "aten::contiguous", "aten::lift_fresh_copy",
                             "aten::lift_fresh", "aten::lift"}) {
        kernels[name] = [](const Call &call) -> Results { return {call.tensor("self")}; };
    }
    for (const char *name :
         {"aten::_to_copy", "aten::to.dtype", "aten::to.dtype_layout", "aten::to.device", "aten::type_as", "aten::to.other"}) {
        kernels[name] = [](const Call &call) -> Results { return {converted(call.tensor("self"), call.result_dtype())}; };
    }
    kernels["aten::dropout"] = [](const Call &call) -> Results {
        if (call->flag("train")) call.fail("in training mode it is random");
        return {call.tensor("input")};
    };
}

}  // namespace atalla::interpreter
