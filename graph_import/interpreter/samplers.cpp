// Images read at places that other tensors say.
#include <algorithm>
#include <cmath>

#include "graph_import/interpreter/call.h"

namespace atalla::interpreter {

namespace {

enum Interpolation { Linear, Nearest, Cubic };
enum Padding { Zeros, Border, Reflection };

struct Weighted {
    int64_t from;
    double weight;
};

// Places are computed in the type of the grid, as PyTorch does: the nearest element depends on it.

// From -1 ... 1, which are the centres of the elements at the ends, or their outer edges, to elements.
template <typename T>
T element_place(T at, int64_t size, bool corners) {
    const auto elements = static_cast<T>(size);
    return corners ? (at + 1) / 2 * (elements - 1) : ((at + 1) * elements - 1) / 2;
}

template <typename T>
T clipped(T at, int64_t size) {
    return at > 0 ? std::min(at, static_cast<T>(size - 1)) : T(0);
}

// Mirrored at the ends as often as it takes.
template <typename T>
T reflected(T at, int64_t size, bool corners) {
    const T low = corners ? T(0) : T(-0.5), span = static_cast<T>(corners ? size - 1 : size);
    if (span <= 0) return 0;
    const T distance = std::fabs(at - low), rest = std::fmod(distance, span);
    return std::fmod(std::floor(distance / span), T(2)) == 0 ? rest + low : span - rest + low;
}

template <typename T>
T padded_place(T at, int64_t size, Padding padding, bool corners) {
    if (padding == Border) return clipped(at, size);
    return padding == Reflection ? clipped(reflected(at, size, corners), size) : at;
}

// What lies in the image.
void add_inside(std::vector<Weighted> &taps, double at, int64_t size, double weight) {
    if (at >= 0 && at < static_cast<double>(size)) taps.push_back({static_cast<int64_t>(at), weight});
}

template <typename T>
std::vector<Weighted> taps_of(T coordinate, int64_t size, Interpolation interpolation, Padding padding, bool corners) {
    const T place = element_place(coordinate, size, corners);
    std::vector<Weighted> taps;
    // Between which elements NaN lies nobody knows, unless the padding moves it to one.
    if (place != place && padding == Zeros && interpolation != Nearest) return {{0, NAN}};
    if (interpolation == Cubic) {
        const T first = std::floor(place);
        const double t = place - first;
        const auto near = [](double x) { return (1.25 * x - 2.25) * x * x + 1; };
        const auto far = [](double x) { return ((-0.75 * x + 3.75) * x - 6) * x + 3; };
        const double weights[4] = {far(1 + t), near(t), near(1 - t), far(2 - t)};
        for (int i = 0; i < 4; i++)
            add_inside(taps, padded_place(first + static_cast<T>(i - 1), size, padding, corners), size, weights[i]);
        return taps;
    }
    const T at = padded_place(place, size, padding, corners);
    if (interpolation == Nearest) {
        add_inside(taps, std::nearbyint(at), size, 1);
        return taps;
    }
    const T low = std::floor(at);
    add_inside(taps, low, size, 1 - (at - low));
    add_inside(taps, low + 1, size, at - low);
    return taps;
}

// Of two or three dimensions. The last number of a place in the grid belongs to the first of them.
Results grid_sample(const Call &call) {
    const HostTensor input = call.tensor("input"), places = call.tensor("grid");
    const size_t rank = input.sizes.size() - 2;
    const int64_t mode = call->integer("interpolation_mode"), padding = call->integer("padding_mode");
    if (input.sizes.size() < 4 || rank > 3 || places.sizes.size() != rank + 2)
        call.fail("images or volumes are expected, and a grid of as many dimensions");
    if (mode < Linear || mode > Cubic || padding < Zeros || padding > Reflection || (mode == Cubic && rank == 3))
        call.fail("an interpolation or padding that is not known");
    const bool corners = call->flag("align_corners");
    if (!is_floating(call.result_dtype())) call.fail("images of floating numbers are expected");
    return with_compute_type(call.result_dtype(), [&](auto zero) -> Results {
        using T = std::conditional_t<std::is_integral_v<decltype(zero)>, float, decltype(zero)>;
        const Array<T> x = load<T>(input), grid = load<T>(places);
        Array<T> result(call.result_sizes());
        const int64_t channels = x.size(1);
        int64_t elements = 1, points = 1;
        for (size_t d = 0; d < rank; d++) {
            elements *= input.sizes[d + 2];
            points *= places.sizes[d + 1];
        }
        for (int64_t n = 0; n < x.size(0); n++) {
            for (int64_t p = 0; p < points; p++) {
                std::vector<Weighted> taps = {{0, 1}};
                for (size_t d = 0; d < rank; d++) {
                    const T coordinate =
                        grid[(n * points + p) * static_cast<int64_t>(rank) + static_cast<int64_t>(rank - 1 - d)];
                    const int64_t size = input.sizes[d + 2];
                    std::vector<Weighted> joined;
                    for (const Weighted &tap :
                         taps_of(coordinate, size, static_cast<Interpolation>(mode), static_cast<Padding>(padding), corners))
                        for (const Weighted &outer : taps)
                            joined.push_back({outer.from * size + tap.from, outer.weight * tap.weight});
                    taps = std::move(joined);
                }
                for (int64_t c = 0; c < channels; c++) {
                    double total = 0;
                    for (const Weighted &tap : taps)
                        total += tap.weight * static_cast<double>(x[(n * channels + c) * elements + tap.from]);
                    result[(n * channels + c) * points + p] = static_cast<T>(total);
                }
            }
        }
        return {store(result, call.result_dtype())};
    });
}

}  // namespace

void add_sampler_kernels(Kernels &kernels) {
    for (const char *name : {"aten::grid_sampler", "aten::grid_sampler_2d", "aten::grid_sampler_3d"})
        kernels[name] = grid_sample;
}

}  // namespace atalla::interpreter
