#include "generators/row_operators.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "generators/column_softmax.h"
#include "generators/lane_math.h"
#include "generators/movement.h"
#include "generators/row_norm.h"
#include "generators/row_workload.h"
#include "generators/vocabulary.h"
#include "isa/error.h"
#include "simulator/numerics.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

int64_t product(const Shape &shape, size_t first, size_t end) {
    int64_t count = 1;
    for (size_t i = first; i < end; i++) count *= shape[i];
    return count;
}

// What their references and bounds share.
class ReferencedRows : public RowWorkload {
public:
    using RowWorkload::RowWorkload;

protected:
    // A row of the reference at a time: values in, values and the magnitude that errors are relative to out.
    template <class RowFunction>
    std::vector<Reference> by_rows(const TensorData &x, RowFunction &&function) const {
        Reference reference;
        reference.values.resize(x.size());
        reference.peaks.resize(x.size());
        const auto length = static_cast<size_t>(shape_.length);
        std::vector<double> row(length);
        for (size_t first = 0; first + length <= x.size() && length > 0; first += length) {
            for (size_t i = 0; i < length; i++) row[i] = static_cast<double>(bf16_float(x[first + i]));
            function(row, &reference.values[first], &reference.peaks[first]);
        }
        return {std::move(reference)};
    }
    std::vector<double> row_values(const TensorData &data) const {
        std::vector<double> values;
        for (uint16_t one : data) values.push_back(static_cast<double>(bf16_float(one)));
        return values;
    }
    int64_t all_vectors() const { return shape_.rows * tiles_of(shape_.length); }
    static void sum_on_array(KernelWork &work, int64_t vectors) {
        work.array_rows = vectors;
        work.array_loads = 32;
        work.array_tiles = 1;
    }
};

// ---- softmax

// The logarithm of a row's sum is lane operations, as many as several vectors take.
RowCost softmax_cost(const RowShape &shape, bool logarithm) {
    RowCost cost;
    cost.adds = logarithm ? 4 : 2;
    cost.waiting_adds = logarithm ? 1 : 0;
    cost.muls = logarithm ? 1 : 2;
    cost.exps = 1;
    cost.passes = 3;
    cost.sums = 1;
    cost.latency = logarithm ? 300 : 200;
    cost.values = 2;
    cost.steps_in_pads = 1;
    cost.row_operations = logarithm ? 40 : 0;
    cost.packets = !logarithm && shape.has_parts() ? 6.5 : 0;
    cost.row_packets = logarithm ? 70 : 0;
    cost.beside = logarithm;
    return cost;
}

// exp(x - max) / sum of it, or the logarithm of that: x - max - log(sum).
class Softmax : public ReferencedRows {
public:
    Softmax(const WorkloadRequest &request, const RowShape &shape, bool logarithm)
        : ReferencedRows(request, with_short_parts(shape), softmax_cost(shape, logarithm)), logarithm_(logarithm) {}

    Expr element(RowKernel &k) const override {
        const auto rows = [&] { return k.rows_of("X", -infinity); };
        const Func largest = k.largest("largest", rows());
        Func inverse("inverse");
        const auto less_largest = [&] {
            Func centred("centred");
            centred(k.n, k.m) = strict_float(rows()(k.n, k.m) - bf16(largest(k.m)));
            return centred;
        };
        const auto power = [&](const Func &centred) {
            Func e("e");
            e(k.n, k.m) = machine_exp(centred(k.n, k.m));
            return e;
        };
        const Func centred = less_largest(), e = power(centred);
        if (logarithm_) k.each_waiting(centred);
        k.each(e);
        const Func total = k.sum("total", e);
        const Func centred_again = k.in_parts() ? less_largest() : centred;
        if (logarithm_) {
            k.each_before(centred);
            return strict_float(centred_again(k.n, k.m) - k.in_lanes("log_total", total, lane_math::logarithm));
        }
        inverse(k.m) = machine_rcp(total(k.m));
        k.single(inverse);
        return strict_float((k.in_parts() ? power(centred_again) : e)(k.n, k.m) * bf16(inverse(k.m)));
    }
    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override {
        return by_rows(inputs[0], [this](const std::vector<double> &row, double *values, double *peaks) {
            const double largest = *std::max_element(row.begin(), row.end());
            double sum = 0;
            for (double x : row) sum += std::exp(x - largest);
            for (size_t i = 0; i < row.size(); i++) {
                values[i] = logarithm_ ? row[i] - largest - std::log(sum) : std::exp(row[i] - largest) / sum;
                // The sum begins with exp(0) = 1, whose rounding the logarithm turns into an absolute error.
                peaks[i] = logarithm_ ? std::max({1.0, std::log(sum), largest - row[i]}) : 1 / sum;
            }
        });
    }
    // Of the largest of the row: x - largest is rounded, exp, the blocks of the sum, its reciprocal and the product.
    double tolerance_ulps() const override { return 3; }
    double flops() const override { return 5 * static_cast<double>(shape_.rows * shape_.length); }
    KernelWork work(const Machine &) const override {
        const int64_t vectors = all_vectors(), later = vectors - shape_.rows;
        KernelWork work;
        work.bytes = tensor_bytes();
        if (logarithm_)
            work.lanes = {2 * vectors + later, 0, vectors, shape_.rows};
        else
            work.lanes = {vectors + later, vectors, vectors, shape_.rows};
        work.copies = later;
        work.rows_loaded = work.rows_stored = vectors;
        if (!shape_.is_short()) sum_on_array(work, vectors);
        return work;
    }

private:
    bool logarithm_;
};

// ---- normalizations

struct NormShape {
    bool centred = true, weight = false, bias = false;
    int64_t addends = 0;  // tensors that are added to x before
    double epsilon = 1e-5;
};

RowCost norm_cost(const NormShape &norm) {
    RowCost cost;
    cost.adds = static_cast<double>(norm.centred + norm.bias + norm.addends);
    cost.muls = 2 + norm.weight;
    cost.passes = norm.centred ? 3 : 2;
    cost.sums = norm.centred ? 2 : 1;
    cost.latency = 200;
    cost.values = 2 + (norm.addends > 0);
    cost.row_tensors = 1 + norm.addends;
    cost.fixed_rows = norm.weight + norm.bias;
    cost.light_steps = norm.centred ? 2 : 1;
    cost.steps_in_pads = cost.light_steps + (norm.addends > 0);
    cost.waits = norm.centred || norm.addends > 0;
    cost.packets = norm.centred ? 10 : 6.5;
    return cost;
}

class Norm : public ReferencedRows {
public:
    Norm(const WorkloadRequest &request, const RowShape &shape, const NormShape &norm)
        : ReferencedRows(request, shape, norm_cost(norm)), norm_(norm) {}

    Expr element(RowKernel &k) const override {
        // In the order of the tensors.
        k.rows_of("X", 0.0f);
        const Func weight = norm_.weight ? k.row_of("weight") : Func(), bias = norm_.bias ? k.row_of("bias") : Func();
        const auto rows = [&] {
            Func x = k.rows_of("X", 0.0f);
            if (norm_.addends == 0) return x;
            Expr sum = x(k.n, k.m);
            for (int64_t a = 0; a < norm_.addends; a++)
                sum = strict_float(sum + k.rows_of(fmt::format("addend_{}", a), 0.0f)(k.n, k.m));
            x = Func("x_sum");
            x(k.n, k.m) = sum;
            k.each(x);
            return x;
        };
        Expr result = normalized_row(k, rows, norm_.centred, norm_.epsilon);
        if (norm_.weight) result = strict_float(result * weight(k.n));
        if (norm_.bias) result = strict_float(result + bias(k.n));
        return result;
    }
    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override {
        const std::vector<double> weight = norm_.weight ? row_values(inputs[1]) : std::vector<double>(),
                                  bias = norm_.bias ? row_values(inputs[1 + norm_.weight]) : std::vector<double>();
        TensorData x = inputs[0];
        for (size_t a = inputs.size() - static_cast<size_t>(norm_.addends); a < inputs.size(); a++)
            for (size_t i = 0; i < x.size(); i++) x[i] = bf16_truncate(bf16_round(bf16_float(x[i]) + bf16_float(inputs[a][i])));
        return by_rows(x, [&](const std::vector<double> &row, double *values, double *peaks) {
            const auto count = static_cast<double>(row.size());
            double mean = 0, squares = 0, largest = 0;
            if (norm_.centred)
                for (double x : row) mean += x / count;
            for (double x : row) {
                squares += (x - mean) * (x - mean) / count;
                largest = std::max(largest, std::abs(x));
            }
            const double scale = 1 / std::sqrt(squares + norm_.epsilon);
            for (size_t i = 0; i < row.size(); i++) {
                const double w = norm_.weight ? weight[i] : 1, b = norm_.bias ? bias[i] : 0;
                values[i] = (row[i] - mean) * scale * w + b;
                peaks[i] = std::max(largest * scale * std::abs(w), std::abs(b));
            }
        });
    }
    double tolerance_ulps() const override { return 4; }
    double flops() const override {
        return static_cast<double>(3 * norm_.centred + 3 + norm_.weight + norm_.bias + norm_.addends) *
               static_cast<double>(shape_.rows * shape_.length);
    }
    KernelWork work(const Machine &) const override {
        const int64_t vectors = all_vectors();
        KernelWork work;
        work.bytes = tensor_bytes();
        work.lanes = {(norm_.centred + norm_.bias + norm_.addends) * vectors, (2 + norm_.weight) * vectors, 0, 0};
        work.rows_loaded = (1 + norm_.addends) * vectors;
        work.rows_stored = vectors;
        if (!shape_.is_short()) sum_on_array(work, (1 + norm_.centred) * vectors);
        return work;
    }

private:
    NormShape norm_;
};

RowShape trailing(const WorkloadRequest &request) {
    const Shape &shape = request.shape("x");
    std::vector<int64_t> normalized = request.integers("normalized_shape");
    if (normalized.empty() && !shape.empty()) normalized = {shape.back()};
    if (normalized.empty() || normalized.size() > shape.size() ||
        !std::equal(normalized.rbegin(), normalized.rend(), shape.rbegin()))
        throw Error(fmt::format("{}: given normalized_shape={}, expected input with shape [*, {}], but got input of size {}",
                                request.op, shape_text(normalized), shape_text(normalized), shape_text(shape)));
    for (const char *name : {"weight", "bias"})
        if (request.has(name) && request.shape(name) != normalized)
            throw Error(fmt::format(
                "{}: expected {} of the same shape as normalized_shape, but got {} of shape {} and normalized_shape = {}",
                request.op, name, name, shape_text(request.shape(name)), shape_text(normalized)));
    const size_t split = shape.size() - normalized.size();
    return {product(shape, 0, split), product(shape, split, shape.size())};
}

OperatorDeclaration softmax_row(bool logarithm) {
    OperatorDeclaration row;
    row.name = logarithm ? "log_softmax" : "softmax";
    row.schemas = logarithm ? std::vector<std::string>{"log_softmax.int", "_log_softmax"}
                            : std::vector<std::string>{"softmax.int", "_softmax"};
    row.help = logarithm ? "x - max - log(sum of exp(x - max)) along an axis" : "exp(x - max) / sum of it along an axis";
    row.card = {
        "normalization",
        fmt::format("x minus the row's largest, exp, the sum in blocks of 32 through the array (fp32 inside, rounded to bf16; "
                    "from 12 blocks on up to 32 of them added and rounded likewise) added in fp32, {}",
                    logarithm ? "rounded to bf16, its logarithm subtracted" : "times its reciprocal"),
        "rows in the pads, rows and vectors in straight-line code",
        fmt::format(
            "dram, and lanes: {} a vector, a reduction a row",
            logarithm ? "two subtractions, compare, masked copy and exp" : "subtract, compare, masked copy, exp and multiply"),
        logarithm
            ? "float64, to 3 units of the largest of 1, x - max and the sum's logarithm; NaN and infinities as PyTorch has them"
            : "float64, to 3 units of the row's largest result; NaN and infinities as PyTorch has them",
        "any sizes, along any axis: behind the last elements of others, sums are in bf16, eight side by side, long ones in "
        "groups; rows and columns that the pads do not hold come in parts, again for each pass, and the sum of each part of a "
        "row is "
        "rounded",
        "",
        "nothing yet"};
    row.tensors = {{"x", {"self", "input"}, "the tensor"}};
    row.attributes = {{"dim", "the axis", -1}};
    row.example = {{"shape", "1024x512"}};
    row.ignored = {"dtype", "half_to_float"};
    row.make = [logarithm](const WorkloadRequest &request) -> std::unique_ptr<Workload> {
        const Shape &shape = request.shape("x");
        const int64_t rank = static_cast<int64_t>(shape.size()), dim = wrap_dim(request.op, request.integer("dim"), rank);
        const int64_t length = shape.empty() ? 1 : shape[static_cast<size_t>(dim)],
                      inner = shape.empty() ? 1 : product(shape, static_cast<size_t>(dim) + 1, shape.size());
        if (element_count(shape) == 0) return constant_workload(request, shape);
        if (inner != 1) return column_softmax(request, {inner, length, element_count(shape) / length / inner}, logarithm);
        return std::make_unique<Softmax>(request, RowShape{length == 0 ? 0 : element_count(shape) / length, length}, logarithm);
    };
    return row;
}

OperatorDeclaration norm_row(const std::string &name, bool centred) {
    OperatorDeclaration row;
    row.name = name;
    row.schemas = centred ? std::vector<std::string>{"layer_norm", "native_layer_norm"}
                          : std::vector<std::string>{"rms_norm", "_fused_rms_norm"};
    row.help = centred ? "(x - mean) / sqrt(variance + eps) * weight + bias along the last axes"
                       : "x / sqrt(mean of squares + eps) * weight along the last axes";
    row.card = {
        "normalization",
        centred ? "mean and mean of squared differences from it: blocks of 32 through the array (from 12 on up to 32 "
                  "of them added and rounded likewise), added in fp32; fp32 reciprocal of the root; then in bf16"
                : "mean of squares: blocks of 32 through the array (from 12 on up to 32 of them added and rounded "
                  "likewise), added in fp32; fp32 reciprocal of the root; then in bf16",
        "rows in the pads, rows and vectors in straight-line code",
        "dram, and lanes: the additions and multiplications of each vector",
        "float64, to 4 units of the largest of the row as it is scaled",
        "any sizes, any number of last axes; rows that the pads do not hold come in parts, again for each pass, and the "
        "sum of each part is rounded",
        "",
        "additions before it: addends"};
    row.tensors = {{"x", {"input"}, "the tensor"}, {"weight", {"weight"}, "factors, of the normalized axes", false}};
    if (centred) row.tensors.push_back({"bias", {"bias"}, "addends, of the normalized axes", false});
    row.tensors.push_back({"addends", {"addends"}, "added to the tensor before, one after the other", false, true});
    row.attributes = {{"normalized_shape", "sizes of the axes; the last one if not given", std::vector<int64_t>{}},
                      {"eps", "added to the variance", centred ? 1e-5 : 1.1920928955078125e-7}};
    row.example = {{"shape", centred ? "1024x768,768,768" : "1024x768,768"}};
    row.ignored = {"cudnn_enable"};
    row.make = [centred](const WorkloadRequest &request) -> std::unique_ptr<Workload> {
        NormShape norm;
        norm.centred = centred;
        norm.weight = request.has("weight");
        norm.bias = request.has("bias");
        norm.epsilon = request.number("eps");
        for (const Shape &addend : request.shapes("addends")) {
            norm.addends++;
            if (addend != request.shape("x"))
                throw Error(fmt::format("{}: an addend of {} is not of the shape of the tensor, {}", request.op,
                                        shape_text(addend), shape_text(request.shape("x"))));
        }
        const RowShape rows = trailing(request);
        if (rows.rows * rows.length == 0) return constant_workload(request, request.shape("x"));
        return std::make_unique<Norm>(request, rows, norm);
    };
    return row;
}

}  // namespace

std::vector<OperatorDeclaration> row_operators() {
    return {softmax_row(false), softmax_row(true), norm_row("layer_norm", true), norm_row("rms_norm", false)};
}

}  // namespace atalla
