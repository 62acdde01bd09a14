#include "graph_import/resampling.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "isa/error.h"

namespace atalla {

namespace {

// The distance of neighbouring results in elements: by the scale that was given, else by the ratio of the sizes.
double step_of(const Node &call, size_t d, int64_t extent, int64_t size) {
    const Argument *given = call.find("scale_factors");
    const auto *factors = given != nullptr ? std::get_if<std::vector<double>>(given) : nullptr;
    if (factors != nullptr && d < factors->size() && (*factors)[d] > 0) return 1 / (*factors)[d];
    // Overloads of two dimensions that have an argument for each.
    const char *const single = d == 0 ? "scales_h" : "scales_w";
    if (call.find(single) != nullptr)
        if (const double factor = call.optional_number(single).value_or(0); factor > 0) return 1 / factor;
    return static_cast<double>(extent) / static_cast<double>(size);
}

std::vector<Tap> linear(double at, int64_t extent) {
    at = std::max(0.0, at);
    const int64_t low = std::min(static_cast<int64_t>(at), extent - 1);
    const double fraction = at - static_cast<double>(low);
    return {{low, 1 - fraction}, {std::min(low + 1, extent - 1), fraction}};
}

// Four elements with the weights of the cubic convolution of Keys, a = -0.75.
std::vector<Tap> cubic(double at, int64_t extent) {
    const auto near = [](double t) { return (1.25 * t - 2.25) * t * t + 1; };
    const auto far = [](double t) { return ((-0.75 * t + 3.75) * t - 6) * t + 3; };
    const double t = at - std::floor(at), weights[4] = {far(1 + t), near(t), near(1 - t), far(2 - t)};
    std::vector<Tap> taps;
    for (int64_t i = 0; i < 4; i++) taps.push_back({std::clamp<int64_t>(static_cast<int64_t>(std::floor(at)) - 1 + i, 0, extent - 1), weights[i]});
    return taps;
}

int64_t padded_index(const std::string &mode, int64_t at, int64_t extent) {
    if (mode == "circular") return ((at % extent) + extent) % extent;
    if (mode == "replicate") return std::clamp<int64_t>(at, 0, extent - 1);
    if (mode != "reflect") throw Error(fmt::format("padding mode '{}' is not known", mode));
    if (at < 0) at = -at;
    return at >= extent ? 2 * (extent - 1) - at : at;
}

}  // namespace

Taps resized(Resizing how, const Node &call, size_t d, int64_t extent, int64_t size) {
    const bool exact = how == Resizing::Nearest && (size == extent || size == 2 * extent);
    const double step = exact ? static_cast<double>(extent) / static_cast<double>(size) : step_of(call, d, extent, size);
    const bool corners = how != Resizing::Nearest && call.flag("align_corners");
    const double between_corners = size > 1 ? static_cast<double>(extent - 1) / static_cast<double>(size - 1) : 0;
    Taps taps;
    for (int64_t at = 0; at < size; at++) {
        const double place = corners ? static_cast<double>(at) * between_corners : (static_cast<double>(at) + 0.5) * step - 0.5;
        // PyTorch finds the nearest in float32, by the sizes alone where the size stays or doubles.
        if (how == Resizing::Nearest) taps.push_back({{std::min<int64_t>(static_cast<int64_t>(static_cast<float>(at) * static_cast<float>(step)), extent - 1), 1}});
        else taps.push_back(how == Resizing::Linear ? linear(place, extent) : cubic(place, extent));
    }
    return taps;
}

Taps padded(const std::string &mode, int64_t extent, int64_t before, int64_t behind) {
    Taps taps;
    for (int64_t at = -before; at < extent + behind; at++) {
        const int64_t from = padded_index(mode, at, extent);
        if (from < 0 || from >= extent) throw Error("the padding is larger than the tensor");
        taps.push_back({{from, 1}});
    }
    return taps;
}

}  // namespace atalla
