#include "generators/gemm_host.h"

#include <algorithm>
#include <cmath>

#include "generators/gemm_epilogue.h"
#include "generators/gemm_prologue.h"
#include "generators/reference_peaks.h"
#include "isa/vectors.h"
#include "simulator/numerics.h"

namespace atalla {

namespace {

constexpr int64_t depth = 32;  // of a dot product, and columns computed together

// B as [k][columns of one block], so that the innermost loop runs over columns.
template <typename T>
std::vector<T> transposed_block(const GemmShape &shape, const TensorData &b, int64_t first, int64_t columns) {
    std::vector<T> block(static_cast<size_t>(shape.k * columns));
    for (int64_t j = 0; j < columns; j++)
        for (int64_t k = 0; k < shape.k; k++)
            block[static_cast<size_t>(k * columns + j)] =
                bf16_float(b[static_cast<size_t>(shape.b_transposed ? (first + j) * shape.k + k : k * shape.n + first + j)]);
    return block;
}

float as_bf16(double factor) { return bf16_round(static_cast<float>(factor)); }

// The operands after the product, in the order of the kernel's inputs.
struct Epilogue {
    Epilogue(const GemmShape &shape, const std::vector<TensorData> &inputs)
        : bias(shape.bias ? &inputs[2] : nullptr), addend(shape.addend ? &inputs[shape.bias ? 3 : 2] : nullptr) {}
    // The bias of a column, times beta where that is its factor; not rounded.
    template <typename T>
    T bias_term(const GemmShape &shape, int64_t column) const {
        return static_cast<T>(bf16_float((*bias)[static_cast<size_t>(column)])) * (shape.addend ? 1.0f : as_bf16(shape.beta));
    }
    const TensorData *bias, *addend;
};

// The array's transpose of B stored [k][n]: rows of the identity through blocks of 32 x 32, which start at multiples of 32.
TensorData transposed_by_array(const GemmShape &shape, const TensorData &b) {
    TensorData result(b.size());
    for (int64_t first = 0; first < shape.n; first += depth)
        for (int64_t k = 0; k < shape.k; k++)
            for (int64_t j = first; j < std::min(shape.n, first + depth); j++) {
                float dot = 0;
                for (int64_t q = first; q < first + depth; q++)
                    dot += (q == j ? 1.0f : 0.0f) * (q < shape.n ? bf16_float(b[static_cast<size_t>(k * shape.n + q)]) : 0.0f);
                result[static_cast<size_t>(j * shape.k + k)] = bf16_truncate(bf16_round(dot));
            }
    return result;
}

// One of the products: its part of every tensor, with the extents of a single one.
GemmShape single(const GemmShape &shape) {
    GemmShape one = shape;
    one.batch.clear();
    return one;
}
std::vector<TensorData> operands_of(const GemmShape &shape, const std::vector<TensorData> &inputs, int64_t product) {
    std::vector<TensorData> operands;
    const auto take = [&](bool BatchDim::*has, int64_t elements) {
        int64_t at = 0, rest = product, stride = 1;
        for (size_t d = shape.batch.size(); d-- > 0;) {
            if (shape.batch[d].*has) {
                at += rest % shape.batch[d].extent * stride;
                stride *= shape.batch[d].extent;
            }
            rest /= shape.batch[d].extent;
        }
        const TensorData &all = inputs[operands.size()];
        operands.emplace_back(all.begin() + at * elements, all.begin() + (at + 1) * elements);
    };
    take(&BatchDim::a, shape.m * shape.k);
    take(&BatchDim::b, shape.n * shape.k);
    if (shape.bias) operands.push_back(inputs[2]);
    if (shape.addend) take(&BatchDim::addend, shape.m * shape.n);
    return operands;
}

Reference single_reference(const GemmShape &shape, const std::vector<TensorData> &inputs) {
    const Epilogue epilogue(shape, inputs);
    const int64_t group = shape.sum_group() * depth;
    Reference reference;
    reference.values.resize(static_cast<size_t>(shape.m * shape.n));
    reference.peaks.resize(reference.values.size());
    for (int64_t first = 0; first < shape.n; first += depth) {
        const int64_t columns = std::min(depth, shape.n - first);
        const std::vector<double> b = transposed_block<double>(shape, inputs[1], first, columns);
        std::vector<double> b_squares(static_cast<size_t>(ceil_div(shape.k, depth) * columns), 0);  // by block of k
        for (int64_t q = 0; q < shape.k; q++)
            for (int64_t j = 0; j < columns; j++)
                b_squares[static_cast<size_t>(q / depth * columns + j)] +=
                    b[static_cast<size_t>(q * columns + j)] * b[static_cast<size_t>(q * columns + j)];
        for (int64_t i = 0; i < shape.m; i++) {
            double sum[depth] = {}, within_group[depth] = {}, peak[depth] = {};
            for (int64_t j = 0; j < columns && shape.starts_with_bias(); j++) {
                sum[j] = epilogue.bias_term<double>(shape, first + j);
                peak[j] = std::abs(sum[j]);
            }
            for (int64_t k = 0; k < shape.k; k += depth) {
                double dot[depth] = {}, a_squares = 0;
                for (int64_t q = k; q < std::min(shape.k, k + depth); q++) {
                    const double a = bf16_float(inputs[0][static_cast<size_t>(i * shape.k + q)]);
                    a_squares += a * a;
                    for (int64_t j = 0; j < columns; j++) dot[j] += a * b[static_cast<size_t>(q * columns + j)];
                }
                for (int64_t j = 0; j < columns; j++) {
                    sum[j] += dot[j];
                    within_group[j] = k % group == 0 ? dot[j] : within_group[j] + dot[j];
                    // No partial sum is larger than the product of the norms.
                    const double within = std::sqrt(a_squares * b_squares[static_cast<size_t>(k / depth * columns + j)]);
                    peak[j] = std::max(
                        {peak[j], std::abs(dot[j]), std::abs(sum[j]), std::abs(within_group[j]), within * float32_share});
                }
            }
            for (int64_t j = 0; j < columns; j++) {
                const auto at = static_cast<size_t>(i * shape.n + first + j);
                double value = sum[j] * as_bf16(shape.alpha);
                peak[j] = std::max(std::abs(value), peak[j] * std::abs(as_bf16(shape.alpha)));
                const auto add = [&](double term) {
                    value += term;
                    peak[j] = std::max({peak[j], std::abs(term), std::abs(value)});
                };
                if (epilogue.bias && !shape.starts_with_bias()) add(epilogue.bias_term<double>(shape, first + j));
                if (epilogue.addend) add(static_cast<double>(bf16_float((*epilogue.addend)[at])) * as_bf16(shape.beta));
                reference.values[at] = shape.relu ? std::max(value, 0.0) : value;
                reference.peaks[at] = peak[j];
            }
        }
    }
    return reference;
}

TensorData single_host(const GemmShape &shape, const Machine &machine, const std::vector<TensorData> &inputs) {
    if (!shape.b_transposed) {
        GemmShape transposed = shape;
        transposed.b_transposed = true;
        std::vector<TensorData> operands = inputs;
        operands[1] = transposed_by_array(shape, inputs[1]);
        return single_host(transposed, machine, operands);
    }
    const Epilogue epilogue(shape, inputs);
    TensorData result(static_cast<size_t>(shape.m * shape.n));
    // Hardware with a partial-sum input begins with the zero register; otherwise the sum begins with the first product.
    const float start = machine.timed() && machine.sa.psum_in ? 0.0f : -0.0f;
    const int64_t group = shape.sum_group() * depth;
    for (int64_t first = 0; first < shape.n; first += depth) {
        const int64_t columns = std::min(depth, shape.n - first);
        const std::vector<float> b = transposed_block<float>(shape, inputs[1], first, columns);
        for (int64_t i = 0; i < shape.m; i++) {
            float sum[depth], total[depth];
            std::fill_n(total, depth, -0.0f);
            for (int64_t k = 0; k < shape.k_tiles() * depth; k += depth) {
                if (k % group == 0)
                    for (int64_t j = 0; j < columns; j++)
                        sum[j] = shape.starts_with_bias() ? bf16_round(epilogue.bias_term<float>(shape, first + j)) : start;
                float dot[depth] = {};
                for (int64_t q = k; q < std::min(shape.k, k + depth); q++) {
                    const float a = bf16_float(inputs[0][static_cast<size_t>(i * shape.k + q)]);
                    for (int64_t j = 0; j < columns; j++) dot[j] += a * b[static_cast<size_t>(q * columns + j)];
                }
                for (int64_t j = 0; j < columns; j++) sum[j] = bf16_round(sum[j] + bf16_round(dot[j]));
                if ((k + depth) % group == 0)
                    for (int64_t j = 0; j < columns; j++)
                        total[j] = shape.blocked_sums ? bf16_round(total[j] + sum[j]) : sum[j];
            }
            for (int64_t j = 0; j < columns; j++) {
                const auto at = static_cast<size_t>(i * shape.n + first + j);
                float value = total[j];
                if (shape.alpha != 1) value = bf16_round(value * as_bf16(shape.alpha));
                if (epilogue.bias && !shape.starts_with_bias())
                    value = bf16_round(value + bf16_round(epilogue.bias_term<float>(shape, first + j)));
                if (epilogue.addend) {
                    float term = bf16_float((*epilogue.addend)[at]);
                    if (shape.beta != 1) term = bf16_round(term * as_bf16(shape.beta));
                    value = bf16_round(value + term);
                }
                if (shape.relu && value < 0) value = 0;
                result[at] = bf16_truncate(value);
            }
        }
    }
    return result;
}

Reference products_reference(const GemmShape &shape, const std::vector<TensorData> &inputs) {
    Reference all;
    for (int64_t product = 0; product < shape.products(); product++) {
        const Reference one = single_reference(single(shape), operands_of(shape, inputs, product));
        all.values.insert(all.values.end(), one.values.begin(), one.values.end());
        all.peaks.insert(all.peaks.end(), one.peaks.begin(), one.peaks.end());
    }
    return all;
}

}  // namespace

Reference gemm_reference(const GemmShape &shape, const std::vector<TensorData> &inputs) {
    const double ulps = gemm_tolerance_ulps(shape) - epilogue_tolerance_ulps(shape);
    if (!shape.makes_rows()) return epilogue_reference(shape, products_reference(shape, inputs), ulps, inputs);
    const ExactRows rows = exact_rows(shape, inputs);
    Reference product = products_reference(shape, rows.inputs);
    add_row_errors(product, shape, rows, ulps);
    return epilogue_reference(shape, product, ulps, rows.inputs);
}

double gemm_tolerance_ulps(const GemmShape &shape) {
    const auto sums = static_cast<double>(shape.sum_group() + (shape.blocked_sums ? shape.sum_groups() : 0));
    return sums + 1 + 0.5 * ((shape.alpha != 1) + shape.bias + shape.addend * (1 + (shape.beta != 1))) +
           epilogue_tolerance_ulps(shape);
}

TensorData gemm_host(const GemmShape &shape, const Machine &machine, const std::vector<TensorData> &inputs) {
    TensorData all;
    const std::vector<TensorData> &operands = shape.makes_rows() ? with_rows_made(shape, machine, inputs) : inputs;
    for (int64_t product = 0; product < shape.products(); product++) {
        const TensorData one = single_host(single(shape), machine, operands_of(shape, operands, product));
        all.insert(all.end(), one.begin(), one.end());
    }
    return epilogue_on_host(shape, std::move(all), inputs);
}

}  // namespace atalla
