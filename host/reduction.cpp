// Sums, extremes, positions and scans along dimensions.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "host/kernels.h"

namespace atalla {

namespace {

// The tensor as rows of what is reduced: [kept elements][reduced elements], row-major in each.
struct Rows {
    std::vector<double> values;
    int64_t kept = 1, length = 1;
};

Rows rows_of(const HostCall &call, const HostTensor &self) {
    const std::vector<int64_t> dims = call.dimensions("dim", self.sizes.size());
    HostTensor moved = self;
    moved.sizes.clear();
    moved.strides.clear();
    Rows rows;
    for (const bool reduced : {false, true})
        for (size_t d = 0; d < self.sizes.size(); d++) {
            if ((std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end()) != reduced) continue;
            moved.sizes.push_back(self.sizes[d]);
            moved.strides.push_back(self.strides[d]);
            (reduced ? rows.length : rows.kept) *= self.sizes[d];
        }
    rows.values = values_of<double>(moved);
    return rows;
}

using Fold = std::function<double(const double *row, int64_t length)>;

void add_fold(HostKernels &kernels, std::initializer_list<const char *> names, const std::function<Fold(const HostCall &)> &make) {
    for (const char *name : names)
        kernels[std::string("aten::") + name] = [make](const HostCall &call) {
            const Fold fold = make(call);
            const Rows rows = rows_of(call, call.tensor("self"));
            std::vector<double> result;
            for (int64_t r = 0; r < rows.kept; r++) result.push_back(fold(rows.values.data() + r * rows.length, rows.length));
            return std::vector{tensor_of_values(call.result(), result)};
        };
}

// PyTorch's order: NaN first, then the first of equals.
int64_t best_of(const double *row, int64_t length, bool largest) {
    int64_t best = 0;
    for (int64_t i = 0; i < length; i++) {
        if (std::isnan(row[i])) return i;
        if (largest ? row[i] > row[best] : row[i] < row[best]) best = i;
    }
    return best;
}

double sum_of(const double *row, int64_t length) { return std::accumulate(row, row + length, 0.0); }

void add_positions(HostKernels &kernels) {
    for (const bool largest : {true, false}) {
        add_fold(kernels, {largest ? "argmax" : "argmin"},
                 [largest](const HostCall &) { return [largest](const double *row, int64_t n) { return static_cast<double>(best_of(row, n, largest)); }; });
        kernels[largest ? "aten::max.dim" : "aten::min.dim"] = [largest](const HostCall &call) {
            const Rows rows = rows_of(call, call.tensor("self"));
            std::vector<double> values, indices;
            for (int64_t r = 0; r < rows.kept; r++) {
                const double *row = rows.values.data() + r * rows.length;
                const int64_t at = best_of(row, rows.length, largest);
                values.push_back(row[at]);
                indices.push_back(static_cast<double>(at));
            }
            return std::vector{tensor_of_values(call.result(0), values), tensor_of_values(call.result(1), indices)};
        };
    }
    for (const char *name : {"aten::topk", "aten::sort"})
        kernels[name] = [](const HostCall &call) {
            const HostTensor self = call.tensor("self");
            const AxisSplit axis(self.sizes, call.dimension("dim", self.sizes.size()));
            const std::vector<double> values = values_of<double>(self);
            const bool sorts = call.node().target == "aten::sort", largest = sorts ? call.flag("descending", false) : call.flag("largest", true);
            const int64_t k = sorts ? axis.length : call.integer("k", 1);
            std::vector<double> best(static_cast<size_t>(axis.outer * k * axis.inner)), at(best.size());
            std::vector<int64_t> order(static_cast<size_t>(axis.length));
            for (int64_t o = 0; o < axis.outer; o++)
                for (int64_t i = 0; i < axis.inner; i++) {
                    const auto value = [&](int64_t j) { return values[static_cast<size_t>((o * axis.length + j) * axis.inner + i)]; };
                    std::iota(order.begin(), order.end(), 0);
                    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return largest ? value(a) > value(b) : value(a) < value(b); });
                    for (int64_t j = 0; j < k; j++) {
                        const auto to = static_cast<size_t>((o * k + j) * axis.inner + i);
                        best[to] = value(order[static_cast<size_t>(j)]);
                        at[to] = static_cast<double>(order[static_cast<size_t>(j)]);
                    }
                }
            return std::vector{tensor_of_values(call.result(0), best), tensor_of_values(call.result(1), at)};
        };
}

}  // namespace

void add_reduction_kernels(HostKernels &kernels) {
    add_fold(kernels, {"sum", "sum.dim_IntList"}, [](const HostCall &) { return sum_of; });
    add_fold(kernels, {"mean", "mean.dim"}, [](const HostCall &) { return [](const double *row, int64_t n) { return sum_of(row, n) / static_cast<double>(n); }; });
    add_fold(kernels, {"amax", "max"}, [](const HostCall &) { return [](const double *row, int64_t n) { return row[best_of(row, n, true)]; }; });
    add_fold(kernels, {"amin", "min"}, [](const HostCall &) { return [](const double *row, int64_t n) { return row[best_of(row, n, false)]; }; });
    add_fold(kernels, {"prod", "prod.dim_int"}, [](const HostCall &) { return [](const double *row, int64_t n) { return std::accumulate(row, row + n, 1.0, std::multiplies<>()); }; });
    add_fold(kernels, {"any", "any.dim", "any.dims"}, [](const HostCall &) { return [](const double *row, int64_t n) -> double { return std::any_of(row, row + n, [](double x) { return x != 0; }); }; });
    add_fold(kernels, {"all", "all.dim", "all.dims"}, [](const HostCall &) { return [](const double *row, int64_t n) -> double { return std::all_of(row, row + n, [](double x) { return x != 0; }); }; });
    add_fold(kernels, {"var.correction", "std.correction", "var.dim", "std.dim"}, [](const HostCall &call) {
        const double correction = call.has("unbiased") ? (call.flag("unbiased", true) ? 1 : 0) : call.number("correction", 1);
        const bool root = call.node().target.find("std") != std::string::npos;
        return [=](const double *row, int64_t n) {
            const double mean = sum_of(row, n) / static_cast<double>(n);
            double squares = 0;
            for (int64_t i = 0; i < n; i++) squares += (row[i] - mean) * (row[i] - mean);
            const double variance = squares / std::max(static_cast<double>(n) - correction, 0.0);
            return root ? std::sqrt(variance) : variance;
        };
    });
    add_fold(kernels, {"linalg_vector_norm"}, [](const HostCall &call) {
        return [order = call.number("ord", 2)](const double *row, int64_t n) {
            double sum = 0;
            for (int64_t i = 0; i < n; i++) sum += std::pow(std::abs(row[i]), order);
            return std::pow(sum, 1 / order);
        };
    });
    add_positions(kernels);
    kernels["aten::cumsum"] = [](const HostCall &call) {
        const HostTensor self = call.tensor("self");
        const AxisSplit axis(self.sizes, call.dimension("dim", self.sizes.size()));
        std::vector<double> values = values_of<double>(self);
        for (int64_t o = 0; o < axis.outer; o++)
            for (int64_t j = 1; j < axis.length; j++)
                for (int64_t i = 0; i < axis.inner; i++)
                    values[static_cast<size_t>((o * axis.length + j) * axis.inner + i)] += values[static_cast<size_t>((o * axis.length + j - 1) * axis.inner + i)];
        return std::vector{tensor_of_values(call.result(), values)};
    };
    kernels["aten::diff"] = [](const HostCall &call) {
        const HostTensor self = call.tensor("self");
        if (call.integer("n", 1) != 1 || call.has("prepend") || call.has("append")) call.refuse("only the first difference, without additions");
        const AxisSplit axis(self.sizes, call.dimension("dim", self.sizes.size()));
        const std::vector<double> values = values_of<double>(self);
        std::vector<double> result;
        for (int64_t o = 0; o < axis.outer; o++)
            for (int64_t j = 1; j < axis.length; j++)
                for (int64_t i = 0; i < axis.inner; i++)
                    result.push_back(values[static_cast<size_t>((o * axis.length + j) * axis.inner + i)] - values[static_cast<size_t>((o * axis.length + j - 1) * axis.inner + i)]);
        return std::vector{tensor_of_values(call.result(), result)};
    };
}

}  // namespace atalla
