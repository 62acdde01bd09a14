#include "generators/pool.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "generators/long_sums.h"
#include "generators/vocabulary.h"
#include "isa/error.h"
#include "isa/vectors.h"
#include "simulator/numerics.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

// Elements of the window that count, in PyTorch's way: with count_include_pad those of the padding too, but never those beyond
// it.
int64_t counted(const PoolAxis &axis, int64_t at, bool count_include_pad) {
    const int64_t first = axis.first(at), end = std::min(axis.end(at), axis.size + axis.padding);
    return count_include_pad ? end - first : std::min(end, axis.size) - std::max<int64_t>(first, 0);
}
bool uniform(const PoolAxis &axis, bool count_include_pad) {
    for (int64_t at = 0; at < axis.results; at++)
        if (counted(axis, at, count_include_pad) != axis.kernel) return false;
    return true;
}
int64_t covered_elements(const PoolAxis &axis) {
    int64_t covered = 0, behind = 0;  // behind the windows before
    for (int64_t at = 0; at < axis.results; at++) {
        const int64_t first = std::max(behind, axis.first(at)), end = std::min(axis.end(at), axis.size);
        covered += std::max<int64_t>(0, end - first);
        behind = std::max(behind, end);
    }
    return covered;
}

namespace {

// Of each element of an axis, the first and the last window that have it.
struct Sharing {
    std::vector<int64_t> first, last;
    explicit Sharing(const PoolAxis &axis)
        : first(static_cast<size_t>(axis.size), axis.results), last(static_cast<size_t>(axis.size), -1) {
        for (int64_t at = 0; at < axis.results; at++)
            for (int64_t e = std::max<int64_t>(axis.first(at), 0); e < std::min(axis.end(at), axis.size); e++) {
                first[static_cast<size_t>(e)] = std::min(first[static_cast<size_t>(e)], at);
                last[static_cast<size_t>(e)] = at;
            }
    }
    // Windows that have both elements.
    int64_t common(int64_t a, int64_t b) const {
        const auto i = static_cast<size_t>(a), j = static_cast<size_t>(b);
        return std::max<int64_t>(0, std::min(last[i], last[j]) - std::max(first[i], first[j]) + 1);
    }
    // One window of each kind, and how many there are: those of a kind share their elements alike.
    std::vector<std::pair<int64_t, int64_t>> windows(const PoolAxis &axis) const {
        std::map<std::vector<std::pair<int64_t, int64_t>>, std::pair<int64_t, int64_t>> kinds;
        for (int64_t at = 0; at < axis.results; at++) {
            std::vector<std::pair<int64_t, int64_t>> kind;
            for (int64_t e = std::max<int64_t>(axis.first(at), 0); e < std::min(axis.end(at), axis.size); e++)
                kind.push_back({first[static_cast<size_t>(e)] - at, last[static_cast<size_t>(e)] - at});
            kinds.try_emplace(kind, at, 0).first->second.second++;
        }
        std::vector<std::pair<int64_t, int64_t>> result;
        for (const auto &[kind, window] : kinds) result.push_back(window);
        return result;
    }
    // Most windows that have elements so far from each other.
    int64_t most_common(int64_t distance) const {
        int64_t most = 0;
        for (int64_t e = 0; e + distance < static_cast<int64_t>(first.size()); e++)
            most = std::max(most, common(e, e + distance));
        return most;
    }
};

// From the first to behind the last element of a window that is in the image.
struct Inside {
    int64_t first, end;
    Inside(const PoolAxis &axis, int64_t window)
        : first(std::max<int64_t>(axis.first(window), 0)), end(std::min(axis.end(window), axis.size)) {}
};

// What the steps that lead to a window come to at least, each divided among the windows that may have it. They are a tree
// whose leaves are the window's elements, and what is made of n of them has a box around it of n elements or more.
double least_shares(const Sharing &along_x, const Inside &columns, const Sharing &along_y, const Inside &rows) {
    const int64_t all = (columns.end - columns.first) * (rows.end - rows.first);
    if (all <= 1) return 0;
    std::vector<double> share(static_cast<size_t>(all) + 1, 1), least(share.size(), 0);
    for (int64_t x = columns.first; x < columns.end; x++)
        for (int64_t to_x = x; to_x < columns.end; to_x++)
            for (int64_t y = rows.first; y < rows.end; y++)
                for (int64_t to_y = y; to_y < rows.end; to_y++) {
                    double &of_box = share[static_cast<size_t>((to_x - x + 1) * (to_y - y + 1))];
                    of_box = std::min(of_box, 1 / static_cast<double>(along_x.common(x, to_x) * along_y.common(y, to_y)));
                }
    for (size_t n = share.size() - 1; n-- > 1;) share[n] = std::min(share[n], share[n + 1]);
    for (size_t n = 2; n < least.size(); n++) {
        least[n] = least[1] + least[n - 1];
        for (size_t part = 2; part <= n / 2; part++) least[n] = std::min(least[n], least[part] + least[n - part]);
        least[n] += share[n];
    }
    return least.back();
}

}  // namespace

int64_t least_maximum_steps(const PoolAxis &x, const PoolAxis &y) {
    const Sharing along_x(x), along_y(y);
    // Windows that share a step have at least two elements in common.
    const int64_t most = std::max<int64_t>(
        {1, along_x.most_common(1) * along_y.most_common(0), along_x.most_common(0) * along_y.most_common(1)});
    int64_t steps = 0;  // times `most`
    double shares = 0;
    for (const auto &[row, rows] : along_y.windows(y))
        for (const auto &[column, columns] : along_x.windows(x)) {
            const Inside in_x(x, column), in_y(y, row);
            shares += static_cast<double>(rows * columns) * least_shares(along_x, in_x, along_y, in_y);
            // Elements of which no two are in another window, too: those that are in the fewest windows first.
            std::vector<std::pair<int64_t, int64_t>> elements, apart;
            for (int64_t at_y = in_y.first; at_y < in_y.end; at_y++)
                for (int64_t at_x = in_x.first; at_x < in_x.end; at_x++) elements.push_back({at_x, at_y});
            const auto windows_of = [&](const auto &e) {
                return along_x.common(e.first, e.first) * along_y.common(e.second, e.second);
            };
            std::stable_sort(elements.begin(), elements.end(),
                             [&](const auto &a, const auto &b) { return windows_of(a) < windows_of(b); });
            for (const auto &e : elements)
                if (std::all_of(apart.begin(), apart.end(), [&](const auto &a) {
                        return along_x.common(a.first, e.first) * along_y.common(a.second, e.second) == 1;
                    }))
                    apart.push_back(e);
            const auto all = static_cast<int64_t>(elements.size()), separate = static_cast<int64_t>(apart.size());
            if (all > 0) steps += rows * columns * ((most - 1) * (separate - 1) + all - 1);
        }
    constexpr double rounding = 1e-9;
    return std::max(ceil_div(steps, most), static_cast<int64_t>(std::ceil(shares * (1 - rounding))));
}

// Does any window reach beyond the image?
bool reaches_out(const PoolAxis &axis) { return axis.padding > 0 || axis.end(axis.results - 1) > axis.size; }

std::vector<PoolPhase> pool_phases(const PoolAxis &axis) {
    if (!axis.adaptive) return {{0, 1, axis.results, 0, axis.stride, axis.kernel}};
    const int64_t count = std::gcd(axis.size, axis.results), step = axis.results / count;
    std::vector<PoolPhase> phases;
    for (int64_t at = 0; at < step; at++)
        phases.push_back({at, step, count, axis.first(at), axis.size / count, axis.end(at) - axis.first(at)});
    return phases;
}

Expr window_mean(const PoolShape &shape, Expr sum, Expr lane, Expr x, Expr y) {
    const auto constant = [](double factor) { return bf16(static_cast<float>(factor)); };
    if (shape.divisor != 0) return strict_float(std::move(sum) * constant(1 / shape.divisor));
    const bool even_x = uniform(shape.x, shape.count_include_pad), even_y = uniform(shape.y, shape.count_include_pad);
    if (even_x && even_y)
        return strict_float(std::move(sum) * constant(1 / static_cast<double>(shape.x.kernel * shape.y.kernel)));
    Expr value = std::move(sum);
    for (const bool along_x : {true, false}) {
        const PoolAxis &axis = along_x ? shape.x : shape.y;
        if (along_x ? even_x : even_y) {
            value = strict_float(value * constant(1 / static_cast<double>(axis.kernel)));
            continue;
        }
        Func share(along_x ? "share_x" : "share_y");
        const Var l("l"), at("at");
        share(l, at) = constant(1 / static_cast<double>(axis.kernel));
        for (int64_t result = 0; result < axis.results; result++)
            if (const int64_t count = counted(axis, result, shape.count_include_pad); count != axis.kernel)
                share(l, static_cast<int>(result)) = constant(1 / static_cast<double>(count));
        share.compute_root().bound(l, 0, lanes).vectorize(l, lanes).bound(at, 0, static_cast<int>(axis.results));
        for (int u = 0; u < share.num_update_definitions(); u++) share.update(u).vectorize(l, lanes);
        in_pads({share});
        value = strict_float(value * share(lane, along_x ? x : y));
    }
    return value;
}

PoolAxis pool_axis(const std::string &op, int64_t size, int64_t kernel, int64_t stride, int64_t padding, bool ceil_mode) {
    if (kernel < 1) throw Error(fmt::format("{}: kernel size should be greater than zero, but got {}", op, kernel));
    if (stride < 1) throw Error(fmt::format("{}: stride should be greater than zero, but got {}", op, stride));
    if (padding < 0 || padding > kernel / 2)
        throw Error(fmt::format(
            "{}: padding should be at least 0 and at most half of the kernel size, but got padding {} and kernel size {}", op,
            padding, kernel));
    PoolAxis axis{size, 0, kernel, stride, padding};
    const int64_t room = size + 2 * padding - kernel;
    if (room < 0 && !(ceil_mode && room + stride - 1 >= 0))
        throw Error(
            fmt::format("{}: kernel size {} is larger than the padded input of {} + 2 * {}", op, kernel, size, padding));
    axis.results = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    // A window that would begin behind the image and the padding before it is left out.
    if (ceil_mode && (axis.results - 1) * stride >= size + padding) axis.results--;
    // What a window reaches beyond the padding has no elements, and is not counted either.
    axis.kernel = std::min(kernel, size + 2 * padding);
    return axis;
}

PoolAxis adaptive_axis(int64_t size, int64_t results) {
    PoolAxis axis{size, results, size / results, size / results, 0};
    if (size % results == 0) return axis;
    axis.adaptive = true;
    for (int64_t at = 0; at < results; at++) axis.kernel = std::max(axis.kernel, axis.end(at) - axis.first(at));
    // Windows of one size at even distances are like any others.
    for (int64_t at = 0; at < results; at++)
        if (axis.stride == 0 || axis.first(at) != at * axis.stride || axis.end(at) - axis.first(at) != axis.kernel) return axis;
    axis.adaptive = false;
    return axis;
}

const PoolForm &pool_form(const PoolShape &shape, const Machine &machine) {
    for (const PoolForm *form : {&run_pool, &row_pool, &band_pool, &row_maxima, &channel_pool, &plane_pool, &element_pool})
        if (form->takes(shape, machine)) return *form;
    return plane_pool;
}

Reference pool_reference(const PoolShape &shape, const TensorData &input) {
    const PoolAxis &ax = shape.x, &ay = shape.y;
    // Planes outermost are images of one channel.
    PoolShape single = shape;
    if (shape.planes_outermost && shape.channels > 1) {
        single.images = shape.images * shape.channels;
        single.channels = 1;
        return pool_reference(single, input);
    }
    Reference reference;
    const auto at = [&](int64_t image, int64_t y, int64_t x, int64_t c) {
        return static_cast<size_t>(((image * ay.size + y) * ax.size + x) * shape.channels + c);
    };
    for (int64_t image = 0; image < shape.images; image++)
        for (int64_t oy = 0; oy < ay.results; oy++)
            for (int64_t ox = 0; ox < ax.results; ox++)
                for (int64_t c = 0; c < shape.channels; c++) {
                    double sum = 0, largest = -std::numeric_limits<double>::infinity(), magnitudes = 0;
                    for (int64_t y = std::max<int64_t>(ay.first(oy), 0); y < std::min(ay.end(oy), ay.size); y++)
                        for (int64_t x = std::max<int64_t>(ax.first(ox), 0); x < std::min(ax.end(ox), ax.size); x++) {
                            const auto value = static_cast<double>(bf16_float(input[at(image, y, x, c)]));
                            sum += value;
                            magnitudes += std::abs(value);
                            if (std::isnan(value) || value > largest) largest = value;
                        }
                    if (shape.kind == Pooling::Max) {
                        reference.values.push_back(largest);
                        reference.peaks.push_back(std::abs(largest));
                        continue;
                    }
                    const double divisor = shape.divisor != 0 ? shape.divisor
                                                              : static_cast<double>(counted(ax, ox, shape.count_include_pad) *
                                                                                    counted(ay, oy, shape.count_include_pad));
                    reference.values.push_back(sum / divisor);
                    reference.peaks.push_back(std::abs(magnitudes / divisor));
                }
    return reference;
}

double pool_tolerance_ulps(const PoolShape &shape) {
    // Every addition is rounded, and so are the factor and the products with it.
    const int64_t in_a_row = std::max(shape.y.kernel, long_sum(shape.x.kernel, shape.y.kernel).additions_in_a_row());
    return shape.kind == Pooling::Max ? 0 : 3 + 0.5 * std::sqrt(static_cast<double>(in_a_row));
}

}  // namespace atalla
