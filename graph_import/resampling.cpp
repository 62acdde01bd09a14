#include "graph_import/resampling.h"

#include <algorithm>
#include <array>
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
    // Overloads that have an argument for each dimension.
    const std::array<const char *, 3> names = {"scales_d", "scales_h", "scales_w"};
    const size_t first = call.find("scales_d") != nullptr ? 0 : call.find("scales_h") != nullptr ? 1 : names.size();
    const char *const single = first + d < names.size() ? names[first + d] : "scales";
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
    for (int64_t i = 0; i < 4; i++)
        taps.push_back({std::clamp<int64_t>(static_cast<int64_t>(std::floor(at)) - 1 + i, 0, extent - 1), weights[i]});
    return taps;
}

// Of all elements that a result covers, or that a filter of one element's step reaches where a result is smaller; `at` is its
// middle.
std::vector<Tap> smooth(bool cubic, double at, double step, int64_t extent) {
    const double unit = std::max(step, 1.0), reach = (cubic ? 2 : 1) * unit;
    const auto weight = [&](double distance) {
        const double t = std::abs(distance);
        if (!cubic) return std::max(0.0, 1 - t);
        // The cubic convolution of Keys, a = -0.5.
        return t < 1 ? (1.5 * t - 2.5) * t * t + 1 : t < 2 ? ((-0.5 * t + 2.5) * t - 4) * t + 2 : 0;
    };
    const auto first = std::max<int64_t>(static_cast<int64_t>(at - reach + 0.5), 0),
               end = std::min<int64_t>(static_cast<int64_t>(at + reach + 0.5), extent);
    std::vector<Tap> taps;
    double total = 0;
    for (int64_t from = first; from < end; from++) {
        taps.push_back({from, weight((static_cast<double>(from) - at + 0.5) / unit)});
        total += taps.back().weight;
    }
    for (Tap &tap : taps) tap.weight /= total;
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

Resizing resizing_of(const std::string &target) {
    const auto has = [&](const char *part) { return target.find(part) != std::string::npos; };
    if (has("nearest")) return has("exact") ? Resizing::NearestExact : Resizing::Nearest;
    if (has("linear")) return has("_aa") ? Resizing::SmoothLinear : Resizing::Linear;
    return has("_aa") ? Resizing::SmoothCubic : Resizing::Cubic;
}

Taps resized(Resizing how, const Node &call, size_t d, int64_t extent, int64_t size) {
    const bool exact = how == Resizing::Nearest && (size == extent || size == 2 * extent),
               nearest = how == Resizing::Nearest || how == Resizing::NearestExact;
    const bool corners = !nearest && call.flag("align_corners");
    const double between_corners = size > 1 ? static_cast<double>(extent - 1) / static_cast<double>(size - 1) : 0;
    const double step = corners ? between_corners
                        : exact ? static_cast<double>(extent) / static_cast<double>(size)
                                : step_of(call, d, extent, size);
    Taps taps;
    for (int64_t at = 0; at < size; at++) {
        const double place = corners ? static_cast<double>(at) * step : (static_cast<double>(at) + 0.5) * step - 0.5;
        switch (how) {
            // PyTorch finds the nearest in float32, by the sizes alone where the size stays or doubles.
            case Resizing::Nearest:
            case Resizing::NearestExact: {
                const float middle = how == Resizing::Nearest ? 0.0F : 0.5F;
                taps.push_back(
                    {{std::min<int64_t>(static_cast<int64_t>((static_cast<float>(at) + middle) * static_cast<float>(step)),
                                        extent - 1),
                      1}});
                break;
            }
            case Resizing::Linear:
                taps.push_back(linear(place, extent));
                break;
            case Resizing::Cubic:
                taps.push_back(cubic(place, extent));
                break;
            case Resizing::SmoothLinear:
            case Resizing::SmoothCubic:
                taps.push_back(smooth(how == Resizing::SmoothCubic, (static_cast<double>(at) + 0.5) * step, step, extent));
                break;
        }
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
