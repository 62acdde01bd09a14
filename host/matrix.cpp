// Matrix products and attention in float32.
#include <cmath>

#include "host/kernels.h"

namespace atalla {

namespace {

// c[m][n] += a[m][k] * b, where b is [k][n].
void multiply(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t p = 0; p < k; p++) {
            const float x = a[i * k + p];
            for (int64_t j = 0; j < n; j++) c[i * n + j] += x * b[p * n + j];
        }
}

HostTensor transposed(HostTensor tensor) {
    const size_t rank = tensor.sizes.size();
    std::swap(tensor.sizes[rank - 1], tensor.sizes[rank - 2]);
    std::swap(tensor.strides[rank - 1], tensor.strides[rank - 2]);
    return tensor;
}

// PyTorch's matmul: vectors, batches and their broadcasting. `sizes` are those of the result.
std::vector<float> product(HostTensor a, HostTensor b, const std::vector<int64_t> &sizes) {
    std::vector<int64_t> batch = sizes;
    if (a.sizes.size() > 1 && !batch.empty()) batch.pop_back();
    if (b.sizes.size() > 1 && !batch.empty()) batch.pop_back();
    if (a.sizes.size() == 1) {
        a.sizes = {1, a.sizes[0]};
        a.strides = {0, a.strides[0]};
    }
    if (b.sizes.size() == 1) {
        b.sizes.push_back(1);
        b.strides.push_back(0);
    }
    const int64_t m = a.sizes[a.sizes.size() - 2], k = a.sizes.back(), n = b.sizes.back();
    std::vector<int64_t> a_sizes = batch, b_sizes = batch;
    a_sizes.insert(a_sizes.end(), {m, k});
    b_sizes.insert(b_sizes.end(), {k, n});
    const std::vector<float> left = values_of<float>(a, a_sizes), right = values_of<float>(b, b_sizes);
    int64_t count = 1;
    for (int64_t size : batch) count *= size;
    std::vector<float> result(static_cast<size_t>(count * m * n), 0.0f);
    for (int64_t i = 0; i < count; i++) multiply(left.data() + i * m * k, right.data() + i * k * n, result.data() + i * m * n, m, n, k);
    return result;
}

void add(std::vector<float> &values, const std::vector<float> &other, float factor) {
    for (size_t i = 0; i < values.size(); i++) values[i] += factor * other[i];
}

std::vector<HostTensor> attention(const HostCall &call) {
    const HostTensor query = call.tensor("query"), key = call.tensor("key"), value = call.tensor("value");
    const size_t rank = query.sizes.size();
    if (call.number("dropout_p", 0) != 0) call.refuse("dropout is not there");
    const std::vector<int64_t> &sizes = call.result().sizes;
    const int64_t q_length = query.sizes[rank - 2], depth = query.sizes[rank - 1], k_length = key.sizes[rank - 2], width = value.sizes[rank - 1];
    int64_t count = 1;
    std::vector<int64_t> batch(sizes.begin(), sizes.end() - 2);
    for (int64_t size : batch) count *= size;
    // Grouped queries: neighbouring heads of the query share one of key and value.
    int64_t group = 1;
    if (rank >= 3 && key.sizes[rank - 3] != query.sizes[rank - 3]) {
        if (!call.flag("enable_gqa", false)) call.refuse("key and query have different numbers of heads");
        group = query.sizes[rank - 3] / key.sizes[rank - 3];
    }
    const std::vector<float> q = values_of<float>(query), k = values_of<float>(transposed(key)), v = values_of<float>(value);
    std::vector<int64_t> score_sizes = batch;
    score_sizes.insert(score_sizes.end(), {q_length, k_length});
    const std::optional<HostTensor> mask = call.optional_tensor("attn_mask");
    const std::vector<float> bias = mask ? values_of<float>(*mask, score_sizes) : std::vector<float>{};
    const bool choose = mask && mask->dtype == DType::Bool, causal = call.flag("is_causal", false);
    const auto scale = static_cast<float>(call.number("scale", 1 / std::sqrt(static_cast<double>(depth))));
    std::vector<float> result(static_cast<size_t>(count * q_length * width), 0.0f), scores(static_cast<size_t>(q_length * k_length));
    for (int64_t i = 0; i < count; i++) {
        std::fill(scores.begin(), scores.end(), 0.0f);
        multiply(q.data() + i * q_length * depth, k.data() + i / group * depth * k_length, scores.data(), q_length, k_length, depth);
        for (int64_t r = 0; r < q_length; r++) {
            float *row = scores.data() + r * k_length, largest = -INFINITY, sum = 0;
            for (int64_t c = 0; c < k_length; c++) {
                row[c] *= scale;
                if (mask) {
                    const float b = bias[static_cast<size_t>((i * q_length + r) * k_length + c)];
                    row[c] = choose ? (b != 0 ? row[c] : -INFINITY) : row[c] + b;
                }
                if (causal && c > r) row[c] = -INFINITY;
                largest = std::max(largest, row[c]);
            }
            // A row with nothing to attend to gives zeros.
            for (int64_t c = 0; c < k_length; c++) sum += row[c] = largest == -INFINITY ? 0 : std::exp(row[c] - largest);
            for (int64_t c = 0; sum != 0 && c < k_length; c++) row[c] /= sum;
        }
        multiply(scores.data(), v.data() + i / group * k_length * width, result.data() + i * q_length * width, q_length, width, k_length);
    }
    return {tensor_of_values(call.result(), result)};
}

}  // namespace

void add_matrix_kernels(HostKernels &kernels) {
    kernels["aten::linear"] = [](const HostCall &call) {
        const HostTensor input = call.tensor("input"), weight = call.tensor("weight");
        const HostTensor flat_weight = weight.sizes.size() > 1 ? transposed(weight) : weight;
        std::vector<float> values = product(input, flat_weight, call.result().sizes);
        if (const std::optional<HostTensor> bias = call.optional_tensor("bias")) add(values, values_of<float>(*bias, call.result().sizes), 1);
        return std::vector{tensor_of_values(call.result(), values)};
    };
    for (const char *name : {"aten::matmul", "aten::mm", "aten::bmm", "aten::dot", "aten::mv"})
        kernels[name] = [](const HostCall &call) {
            return std::vector{tensor_of_values(call.result(), product(call.tensor("self"), call.tensor_of({"other", "mat2", "tensor", "vec"}), call.result().sizes))};
        };
    for (const char *name : {"aten::addmm", "aten::baddbmm"})
        kernels[name] = [](const HostCall &call) {
            std::vector<float> values = product(call.tensor_of({"mat1", "batch1"}), call.tensor_of({"mat2", "batch2"}), call.result().sizes);
            const auto alpha = static_cast<float>(call.number("alpha", 1)), beta = static_cast<float>(call.number("beta", 1));
            for (float &value : values) value *= alpha;
            if (beta != 0) add(values, values_of<float>(call.tensor("self"), call.result().sizes), beta);
            return std::vector{tensor_of_values(call.result(), values)};
        };
    kernels["aten::scaled_dot_product_attention"] = attention;
}

}  // namespace atalla
