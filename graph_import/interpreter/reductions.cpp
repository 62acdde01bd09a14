// Operators that reduce or scan dimensions.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "graph_import/interpreter/call.h"

namespace atalla::interpreter {

namespace {

int64_t rank_of(const HostTensor &x) { return static_cast<int64_t>(x.sizes.size()); }

// The tensor with the reduced dimensions last and dense, as rows that are reduced to one value each.
template <typename T>
struct Rows {
    Array<T> values;
    int64_t length = 1;   // of a row
    Extents kept;         // sizes of the result, reduced dimensions left out
    Extents kept_as_one;  // ... or left in as 1
    int64_t count() const { return product(kept); }
    const T *row(int64_t i) const { return values.data.data() + i * length; }
};

template <typename T>
Rows<T> rows_of(const HostTensor &x, const Extents &dimensions) {
    HostTensor moved = x;
    moved.sizes.clear();
    moved.strides.clear();
    Rows<T> rows;
    for (int64_t d = 0; d < rank_of(x); d++) {
        if (std::find(dimensions.begin(), dimensions.end(), d) != dimensions.end()) {
            rows.kept_as_one.push_back(1);
            continue;
        }
        moved.sizes.push_back(x.sizes[d]);
        moved.strides.push_back(x.strides[d]);
        rows.kept.push_back(x.sizes[d]);
        rows.kept_as_one.push_back(x.sizes[d]);
    }
    for (int64_t d : dimensions) {
        moved.sizes.push_back(x.sizes[d]);
        moved.strides.push_back(x.strides[d]);
        rows.length *= x.sizes[d];
    }
    rows.values = load<T>(moved);
    return rows;
}

bool keeps(const Call &call) { return call->find("keepdim") && call->flag("keepdim"); }

// `f(row, length)` of each row, computed in the result's type, or in the operand's if the result is a bool or an index.
template <typename F>
HostTensor reduce(const Call &call, DType compute, F &&f, const char *dims = "dim") {
    const HostTensor x = call.tensor("self");
    return with_compute_type(compute, [&](auto zero) {
        using T = decltype(zero);
        const Rows<T> rows = rows_of<T>(x, call.dimensions(dims, rank_of(x)));
        using R = decltype(f(rows.row(0), rows.length));
        Array<R> result(keeps(call) ? rows.kept_as_one : rows.kept);
        for (int64_t i = 0; i < rows.count(); i++) result[i] = f(rows.row(i), rows.length);
        return store(result, call.result_dtype());
    });
}

// Sums of floats are kept in double.
template <typename T>
using Sum = std::conditional_t<std::is_integral_v<T>, int64_t, double>;

template <typename T>
Sum<T> sum(const T *row, int64_t length) {
    Sum<T> total = 0;
    for (int64_t i = 0; i < length; i++) total += row[i];
    return total;
}

// The first of the extreme elements; NaN is more extreme than all.
template <typename T>
int64_t extreme(const T *row, int64_t length, bool largest) {
    int64_t best = 0;
    for (int64_t i = 1; i < length; i++) {
        if (row[best] != row[best]) break;
        if (row[i] != row[i] || (largest ? row[i] > row[best] : row[i] < row[best])) best = i;
    }
    return best;
}

template <typename T>
double variance(const T *row, int64_t length, double correction) {
    const double mean = static_cast<double>(sum(row, length)) / static_cast<double>(length);
    double total = 0;
    for (int64_t i = 0; i < length; i++) total += (row[i] - mean) * (row[i] - mean);
    return total / std::max(0.0, static_cast<double>(length) - correction);
}

double correction_of(const Call &call) {
    if (call->find("correction")) return call->optional_number("correction").value_or(1);
    return call->find("unbiased") && !call->flag("unbiased") ? 0 : 1;
}

Kernel spread(bool root) {
    return [root](const Call &call) -> Results {
        const double correction = correction_of(call);
        return {reduce(call, call.result_dtype(), [&](const auto *row, int64_t length) {
            const double v = variance(row, length, correction);
            return root ? std::sqrt(v) : v;
        })};
    };
}

Kernel extreme_value(bool largest) {
    return [largest](const Call &call) -> Results {
        return {reduce(call, call.result_dtype(),
                       [&](const auto *row, int64_t length) { return row[extreme(row, length, largest)]; })};
    };
}

// Values, then indices.
Kernel extreme_with_index(bool largest) {
    return [largest](const Call &call) -> Results {
        const HostTensor x = call.tensor("self");
        const Extents dimension = {call.dimension("dim", rank_of(x))};
        return with_compute_type(x.dtype, [&](auto zero) -> Results {
            using T = decltype(zero);
            const Rows<T> rows = rows_of<T>(x, x.sizes.empty() ? Extents{} : dimension);
            Array<T> values(keeps(call) ? rows.kept_as_one : rows.kept);
            Array<int64_t> indices(values.sizes);
            for (int64_t i = 0; i < rows.count(); i++) {
                indices[i] = extreme(rows.row(i), rows.length, largest);
                values[i] = rows.row(i)[indices[i]];
            }
            return {store(values, x.dtype), store(indices, DType::Int64)};
        });
    };
}

Kernel index_of_extreme(bool largest) {
    return [largest](const Call &call) -> Results {
        const HostTensor x = call.tensor("self");
        Extents dimensions;
        if (call.has("dim")) {
            dimensions = {call.dimension("dim", rank_of(x))};
        } else {
            for (int64_t d = 0; d < rank_of(x); d++) dimensions.push_back(d);
        }
        if (x.sizes.empty()) dimensions.clear();
        return with_compute_type(x.dtype, [&](auto zero) -> Results {
            const auto rows = rows_of<decltype(zero)>(x, dimensions);
            Array<int64_t> indices(keeps(call) ? rows.kept_as_one : rows.kept);
            for (int64_t i = 0; i < rows.count(); i++) indices[i] = extreme(rows.row(i), rows.length, largest);
            return {store(indices, DType::Int64)};
        });
    };
}

// Applies `f(row, length)`, which changes a row in place, along one dimension.
template <typename F>
Results along_rows(const Call &call, DType compute, F &&f) {
    HostTensor x = call.tensor("self");
    if (x.sizes.empty()) {
        x.sizes = {1};
        x.strides = {1};
    }
    const int64_t rank = rank_of(x), d = call.dimension("dim", rank);
    std::swap(x.sizes[d], x.sizes[rank - 1]);
    std::swap(x.strides[d], x.strides[rank - 1]);
    return with_compute_type(compute, [&](auto zero) -> Results {
        auto values = load<decltype(zero)>(x);
        const int64_t length = x.sizes[rank - 1];
        for (int64_t at = 0; at < static_cast<int64_t>(values.data.size()); at += length) f(values.data.data() + at, length);
        HostTensor result = store(values, call.result_dtype());
        std::swap(result.sizes[d], result.sizes[rank - 1]);
        std::swap(result.strides[d], result.strides[rank - 1]);
        if (call.tensor("self").sizes.empty()) result.sizes = result.strides = {};
        return {result};
    });
}

Kernel softmax(bool logarithm) {
    return [logarithm](const Call &call) -> Results {
        return along_rows(call, call.result_dtype(), [&](auto *row, int64_t length) {
            const auto largest = *std::max_element(row, row + length);
            double total = 0;
            for (int64_t i = 0; i < length; i++) total += std::exp(static_cast<double>(row[i] - largest));
            using T = std::remove_reference_t<decltype(*row)>;
            for (int64_t i = 0; i < length; i++) {
                const double shifted = static_cast<double>(row[i] - largest);
                row[i] = static_cast<T>(logarithm ? shifted - std::log(total) : std::exp(shifted) / total);
            }
        });
    };
}

Results vector_norm(const Call &call) {
    const double order = call->optional_number(call->find("ord") ? "ord" : "p").value_or(2);
    return {reduce(call, call.result_dtype(), [&](const auto *row, int64_t length) {
        double total = 0, extreme = order < 0 ? INFINITY : 0;
        for (int64_t i = 0; i < length; i++) {
            const double magnitude = std::fabs(static_cast<double>(row[i]));
            if (!(order < 0 ? magnitude >= extreme : magnitude <= extreme) && extreme == extreme) extreme = magnitude;
            total += order == 2 ? magnitude * magnitude : order == 0 ? magnitude != 0 : std::pow(magnitude, order);
        }
        if (std::isinf(order)) return extreme;
        return order == 2 ? std::sqrt(total) : order == 0 ? total : std::pow(total, 1 / order);
    })};
}

// NaN is larger than all, as PyTorch orders numbers.
template <typename T>
bool is_less(T a, T b) {
    return a < b || (b != b && a == a);
}

// The order of a row's elements: by value, equal ones as they stand.
template <typename T>
std::vector<int64_t> ranking(const T *row, int64_t length, bool descending) {
    std::vector<int64_t> order(length);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return descending ? is_less(row[b], row[a]) : is_less(row[a], row[b]); });
    return order;
}

// Elements that are chosen along one dimension, and where they were: `choose(row, length)` has the places for each row.
template <typename F>
Results chosen(const Call &call, F &&choose) {
    HostTensor x = call.tensor("self");
    const bool is_number = x.sizes.empty();
    if (is_number) x.sizes = x.strides = {1};
    const int64_t rank = rank_of(x), d = call.dimension("dim", rank);
    std::swap(x.sizes[d], x.sizes[rank - 1]);
    std::swap(x.strides[d], x.strides[rank - 1]);
    return with_compute_type(x.dtype, [&](auto zero) -> Results {
        using T = decltype(zero);
        const Array<T> values = load<T>(x);
        const int64_t length = x.sizes[rank - 1];
        std::vector<T> taken;
        std::vector<int64_t> places;
        int64_t count = 0;
        for (int64_t at = 0; at < static_cast<int64_t>(values.data.size()); at += length) {
            const T *row = values.data.data() + at;
            const std::vector<int64_t> order = choose(row, length);
            count = static_cast<int64_t>(order.size());
            for (int64_t place : order) {
                taken.push_back(row[place]);
                places.push_back(place);
            }
        }
        Extents sizes = x.sizes;
        sizes[rank - 1] = values.data.empty() ? length : count;
        Array<T> found;
        Array<int64_t> indices;
        found.sizes = indices.sizes = sizes;
        found.data = std::move(taken);
        indices.data = std::move(places);
        Results results = {store(found, x.dtype), store(indices, DType::Int64)};
        for (HostTensor &result : results) {
            std::swap(result.sizes[d], result.sizes[rank - 1]);
            std::swap(result.strides[d], result.strides[rank - 1]);
            if (is_number) result.sizes = result.strides = {};
        }
        return results;
    });
}

// All elements of each row in order, or the first of them.
Results ordered(const Call &call, bool descending, int64_t taken) {
    return chosen(call, [&](const auto *row, int64_t length) {
        std::vector<int64_t> order = ranking(row, length, descending);
        if (taken >= 0) order.resize(static_cast<size_t>(taken));
        return order;
    });
}

// The most extreme element so far, the last one of equals; NaN stays.
Kernel running_extreme(bool largest) {
    return [largest](const Call &call) {
        return chosen(call, [&](const auto *row, int64_t length) {
            std::vector<int64_t> places(static_cast<size_t>(length), 0);
            int64_t best = 0;
            for (int64_t i = 1; i < length; i++) {
                if (row[i] != row[i] || (row[best] == row[best] && (largest ? row[i] >= row[best] : row[i] <= row[best])))
                    best = i;
                places[static_cast<size_t>(i)] = best;
            }
            return places;
        });
    };
}

// The element of a rank, counted from 1, along one dimension.
Results of_rank(const Call &call, const std::function<int64_t(int64_t)> &rank) {
    Results results = chosen(call, [&](const auto *row, int64_t length) {
        return std::vector<int64_t>{ranking(row, length, false).at(static_cast<size_t>(rank(length) - 1))};
    });
    for (size_t i = 0; i < results.size(); i++) {
        results[i].sizes = call.result_sizes(i);
        results[i].strides = dense_strides(results[i].sizes);
    }
    return results;
}

// The lower one of two in the middle; NaN if one is there, or the middle of the others.
Kernel median(bool skips_nan) {
    return [skips_nan](const Call &call) -> Results {
        return {reduce(call, call.result_dtype(), [&](const auto *row, int64_t length) {
            const std::vector<int64_t> order = ranking(row, length, false);
            int64_t numbers = length;
            while (numbers > 0 && row[order[static_cast<size_t>(numbers - 1)]] != row[order[static_cast<size_t>(numbers - 1)]])
                numbers--;
            const bool is_nan = numbers == 0 || (!skips_nan && numbers < length);
            return row[order[static_cast<size_t>(is_nan ? length - 1 : (numbers - 1) / 2)]];
        })};
    };
}

// Bins of equal width between two limits, those of the elements if both are 0. The upper limit is in the last bin; what lies
// outside counts nowhere.
Results histogram(const Call &call) {
    const HostTensor x = call.tensor("self");
    const int64_t bins = call->integer("bins");
    if (bins < 1) call.fail(fmt::format("bins must be > 0, but is {}", bins));
    return with_compute_type(x.dtype, [&](auto zero) -> Results {
        using T = decltype(zero);
        const Array<T> values = load<T>(x);
        T low = static_cast<T>(call->number("min")), high = static_cast<T>(call->number("max"));
        if (low == high && !values.data.empty() && low == 0) {
            const auto [least, most] = std::minmax_element(values.data.begin(), values.data.end());
            low = *least;
            high = *most;
        }
        if (low == high) {
            low -= 1;
            high += 1;
        }
        if (!(low < high) || !std::isfinite(static_cast<double>(low)) || !std::isfinite(static_cast<double>(high)))
            call.fail("the limits of a histogram must be finite, the lower one first");
        Array<T> counts(Extents{bins});
        for (const T value : values.data)
            if (value >= low && value <= high)
                counts[std::min(bins - 1, static_cast<int64_t>((value - low) * static_cast<T>(bins) / (high - low)))] += 1;
        return {store(counts, call.result_dtype())};
    });
}

Results diff(const Call &call) {
    std::vector<HostTensor> parts = {call.tensor("self")};
    const int64_t d = call.dimension("dim", rank_of(parts[0]));
    if (call.has("prepend")) parts.insert(parts.begin(), call.tensor("prepend"));
    if (call.has("append")) parts.push_back(call.tensor("append"));
    HostTensor x = parts.size() == 1 ? parts[0] : concatenated(parts, d, parts[0].dtype);
    for (int64_t times = call->integer("n"); times > 0; times--) {
        HostTensor later = x, earlier = x;
        later.offset += x.strides[d];
        later.sizes[d] = earlier.sizes[d] = std::max<int64_t>(0, x.sizes[d] - 1);
        x = with_compute_type(x.dtype, [&](auto zero) {
            auto result = load<decltype(zero)>(later);
            const auto subtracted = load<decltype(zero)>(earlier);
            for (size_t i = 0; i < result.data.size(); i++) result.data[i] -= subtracted.data[i];
            return store(result, x.dtype);
        });
    }
    return {x};
}

}  // namespace

void add_reduction_kernels(Kernels &kernels) {
    const auto each = [&](std::initializer_list<const char *> names, const Kernel &kernel) {
        for (const char *name : names) kernels[name] = kernel;
    };
    each({"aten::sum", "aten::sum.dim_IntList"}, [](const Call &call) -> Results {
        return {reduce(call, call.result_dtype(), [](const auto *row, int64_t length) { return sum(row, length); })};
    });
    each({"aten::mean", "aten::mean.dim"}, [](const Call &call) -> Results {
        return {reduce(call, call.result_dtype(), [](const auto *row, int64_t length) {
            return static_cast<double>(sum(row, length)) / static_cast<double>(length);
        })};
    });
    each({"aten::prod", "aten::prod.dim_int"}, [](const Call &call) -> Results {
        return {reduce(call, call.result_dtype(), [](const auto *row, int64_t length) {
            Sum<std::remove_cvref_t<decltype(*row)>> result = 1;
            for (int64_t i = 0; i < length; i++) result *= row[i];
            return result;
        })};
    });
    each({"aten::any", "aten::any.dim", "aten::any.dims", "aten::_is_any_true"}, [](const Call &call) -> Results {
        return {reduce(call, call.tensor("self").dtype, [](const auto *row, int64_t length) {
            return static_cast<int64_t>(std::any_of(row, row + length, [](auto v) { return v != 0; }));
        })};
    });
    each({"aten::all", "aten::all.dim", "aten::all.dims", "aten::_is_all_true"}, [](const Call &call) -> Results {
        return {reduce(call, call.tensor("self").dtype, [](const auto *row, int64_t length) {
            return static_cast<int64_t>(std::all_of(row, row + length, [](auto v) { return v != 0; }));
        })};
    });
    each({"aten::amax", "aten::max"}, extreme_value(true));
    each({"aten::amin", "aten::min"}, extreme_value(false));
    kernels["aten::max.dim"] = extreme_with_index(true);
    kernels["aten::min.dim"] = extreme_with_index(false);
    kernels["aten::argmax"] = index_of_extreme(true);
    kernels["aten::argmin"] = index_of_extreme(false);
    each({"aten::var.correction", "aten::var.dim", "aten::var"}, spread(false));
    each({"aten::std.correction", "aten::std.dim", "aten::std"}, spread(true));
    each({"aten::linalg_vector_norm", "aten::norm.ScalarOpt_dim", "aten::norm.Scalar"}, vector_norm);
    kernels["aten::logsumexp"] = [](const Call &call) -> Results {
        return {reduce(call, call.result_dtype(), [](const auto *row, int64_t length) {
            const double largest = static_cast<double>(row[extreme(row, length, true)]);
            if (!std::isfinite(largest)) return largest;
            double total = 0;
            for (int64_t i = 0; i < length; i++) total += std::exp(static_cast<double>(row[i]) - largest);
            return largest + std::log(total);
        })};
    };
    kernels["aten::cumsum"] = [](const Call &call) {
        return along_rows(call, call.result_dtype(), [](auto *row, int64_t length) {
            std::remove_reference_t<decltype(*row)> total = 0;  // as PyTorch begins, so that a sum of -0 is 0
            for (int64_t i = 0; i < length; i++) row[i] = total = static_cast<decltype(total)>(total + row[i]);
        });
    };
    kernels["aten::cumprod"] = [](const Call &call) {
        return along_rows(call, call.result_dtype(), [](auto *row, int64_t length) {
            for (int64_t i = 1; i < length; i++) row[i] *= row[i - 1];
        });
    };
    kernels["aten::logcumsumexp"] = [](const Call &call) {
        return along_rows(call, call.result_dtype(), [](auto *row, int64_t length) {
            double total = -INFINITY;  // kept in double, rounded where it is stored
            for (int64_t i = 0; i < length; i++) {
                const auto next = static_cast<double>(row[i]), most = std::max(total, next), least = std::min(total, next);
                total = next != next || total != total ? NAN
                        : std::isinf(most)             ? most
                                                       : most + std::log1p(std::exp(least - most));
                row[i] = static_cast<std::remove_reference_t<decltype(*row)>>(total);
            }
        });
    };
    kernels["aten::cummax"] = running_extreme(true);
    kernels["aten::cummin"] = running_extreme(false);
    kernels["aten::median"] = median(false);
    kernels["aten::nanmedian"] = median(true);
    kernels["aten::kthvalue"] = [](const Call &call) { return of_rank(call, [&](int64_t) { return call->integer("k"); }); };
    kernels["aten::median.dim"] = [](const Call &call) {
        return of_rank(call, [](int64_t length) { return (length + 1) / 2; });
    };
    each({"aten::softmax.int", "aten::_softmax"}, softmax(false));
    each({"aten::log_softmax.int", "aten::_log_softmax"}, softmax(true));
    kernels["aten::topk"] = [](const Call &call) { return ordered(call, call->flag("largest"), call->integer("k")); };
    each({"aten::sort", "aten::sort.stable"}, [](const Call &call) { return ordered(call, call->flag("descending"), -1); });
    kernels["aten::argsort"] = [](const Call &call) -> Results { return {ordered(call, call->flag("descending"), -1)[1]}; };
    kernels["aten::diff"] = diff;
    kernels["aten::histc"] = histogram;
}

}  // namespace atalla::interpreter
