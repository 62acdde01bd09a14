// Matrix products and attention.
#include <fmt/format.h>

#include <cmath>

#include "graph_import/interpreter/call.h"

namespace atalla::interpreter {

namespace {

// rows x depth times depth x columns. Sums are kept in double.
template <typename T>
void multiply(const T *a, const T *b, T *c, int64_t rows, int64_t depth, int64_t columns) {
    using S = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
    std::vector<S> sums(columns);
    for (int64_t i = 0; i < rows; i++) {
        std::fill(sums.begin(), sums.end(), S(0));
        for (int64_t k = 0; k < depth; k++) {
            const S factor = a[i * depth + k];
            const T *row = b + k * columns;
            for (int64_t j = 0; j < columns; j++) sums[j] += factor * row[j];
        }
        for (int64_t j = 0; j < columns; j++) c[i * columns + j] = static_cast<T>(sums[j]);
    }
}

HostTensor transposed(HostTensor x) {
    const size_t rank = x.sizes.size();
    std::swap(x.sizes[rank - 2], x.sizes[rank - 1]);
    std::swap(x.strides[rank - 2], x.strides[rank - 1]);
    return x;
}

// As torch.matmul: vectors are taken as a row or a column, what is in front of matrices broadcasts.
template <typename T>
Array<T> matmul(HostTensor a, HostTensor b, const Call &call) {
    if (a.sizes.empty() || b.sizes.empty()) call.fail("a tensor without dimensions");
    const bool row = a.sizes.size() == 1, column = b.sizes.size() == 1;
    if (row) {
        a.sizes.insert(a.sizes.begin(), 1);
        a.strides.insert(a.strides.begin(), 0);
    }
    if (column) {
        b.sizes.push_back(1);
        b.strides.push_back(0);
    }
    const int64_t rows = a.sizes[a.sizes.size() - 2], depth = a.sizes.back(), columns = b.sizes.back();
    if (depth != b.sizes[b.sizes.size() - 2]) call.fail("the matrices do not fit each other");
    const Extents batch = broadcast(Extents(a.sizes.begin(), a.sizes.end() - 2), Extents(b.sizes.begin(), b.sizes.end() - 2));
    const auto with = [&](int64_t m, int64_t n) {
        Extents sizes = batch;
        sizes.insert(sizes.end(), {m, n});
        return sizes;
    };
    const Array<T> x = load<T>(a, with(rows, depth)), y = load<T>(b, with(depth, columns));
    Array<T> result(with(rows, columns));
    for (int64_t i = 0; i < product(batch); i++) {
        multiply(&x.data[i * rows * depth], &y.data[i * depth * columns], &result.data[i * rows * columns], rows, depth,
                 columns);
    }
    if (column) result.sizes.pop_back();
    if (row) result.sizes.erase(result.sizes.end() - (column ? 1 : 2));
    return result;
}

template <typename T>
void add(Array<T> &to, const HostTensor &term, double factor) {
    const Array<T> values = load<T>(term, to.sizes);
    for (size_t i = 0; i < to.data.size(); i++) to.data[i] += static_cast<T>(factor) * values.data[i];
}

Kernel plain_product(const char *first, const char *second) {
    return [=](const Call &call) -> Results {
        return with_compute_type(call.result_dtype(), [&](auto zero) -> Results {
            return {store(matmul<decltype(zero)>(call.tensor(first), call.tensor(second), call), call.result_dtype())};
        });
    };
}

Results linear(const Call &call) {
    return with_compute_type(call.result_dtype(), [&](auto zero) -> Results {
        const HostTensor weight = call.tensor("weight");
        auto result = matmul<decltype(zero)>(call.tensor("input"), weight.sizes.size() < 2 ? weight : transposed(weight), call);
        if (call.has("bias")) add(result, call.tensor("bias"), 1);
        return {store(result, call.result_dtype())};
    });
}

// beta * self + alpha * a @ b.
Kernel added_product(const char *first, const char *second) {
    return [=](const Call &call) -> Results {
        return with_compute_type(call.result_dtype(), [&](auto zero) -> Results {
            using T = decltype(zero);
            auto result = matmul<T>(call.tensor(first), call.tensor(second), call);
            const double alpha = call->number("alpha"), beta = call->number("beta");
            for (T &value : result.data) value *= static_cast<T>(alpha);
            if (beta != 0) add(result, call.tensor("self"), beta);
            return {store(result, call.result_dtype())};
        });
    };
}

// Repeats the heads of keys and values for grouped queries.
HostTensor with_heads(HostTensor x, int64_t heads, const Call &call) {
    const size_t d = x.sizes.size() - 3;
    if (x.sizes.size() < 3 || heads % x.sizes[d] != 0) call.fail("the heads of keys do not divide those of queries");
    const int64_t times = heads / x.sizes[d];
    x.sizes.insert(x.sizes.begin() + static_cast<int64_t>(d) + 1, times);
    x.strides.insert(x.strides.begin() + static_cast<int64_t>(d) + 1, 0);
    HostTensor dense = dense_copy(x);
    dense.sizes.erase(dense.sizes.begin() + static_cast<int64_t>(d) + 1);
    dense.sizes[d] = heads;
    dense.strides = dense_strides(dense.sizes);
    return dense;
}

Results attention(const Call &call) {
    if (call->number("dropout_p") != 0) call.fail("dropout is random");
    HostTensor query = call.tensor("query"), key = call.tensor("key"), value = call.tensor("value");
    if (call->flag("enable_gqa")) {
        key = with_heads(key, query.sizes[query.sizes.size() - 3], call);
        value = with_heads(value, query.sizes[query.sizes.size() - 3], call);
    }
    const double scale = call->optional_number("scale").value_or(1 / std::sqrt(static_cast<double>(query.sizes.back())));
    const bool causal = call->flag("is_causal");
    return with_compute_type(call.result_dtype(), [&](auto zero) -> Results {
        using T = decltype(zero);
        Array<T> scores = matmul<T>(query, transposed(key), call);
        const int64_t rows = scores.size(scores.rank() - 2), columns = scores.size(scores.rank() - 1);
        for (T &score : scores.data) score *= static_cast<T>(scale);
        if (call.has("attn_mask")) {
            const HostTensor mask = call.tensor("attn_mask");
            if (mask.dtype == DType::Bool) {
                const Array<int64_t> attended = load<int64_t>(mask, scores.sizes);
                for (size_t i = 0; i < scores.data.size(); i++) {
                    if (!attended.data[i]) scores.data[i] = static_cast<T>(-INFINITY);
                }
            } else {
                add(scores, mask, 1);
            }
        }
        for (int64_t at = 0; at < static_cast<int64_t>(scores.data.size()); at += columns) {
            T *row = &scores.data[at];
            const int64_t visible = causal ? std::min(columns, at / columns % rows + 1) : columns;
            double largest = -INFINITY, total = 0;
            for (int64_t i = 0; i < visible; i++) largest = std::max(largest, static_cast<double>(row[i]));
            for (int64_t i = 0; i < columns; i++) {
                // A row in which everything is masked gives zeros.
                const bool seen = i < visible && !(std::isinf(largest) && largest < 0);
                row[i] = seen ? static_cast<T>(std::exp(static_cast<double>(row[i]) - largest)) : T(0);
                total += row[i];
            }
            if (total > 0) {
                for (int64_t i = 0; i < columns; i++) row[i] = static_cast<T>(row[i] / total);
            }
        }
        constexpr DType computed = std::is_same_v<T, double> ? DType::Float64 : DType::Float32;
        return {store(matmul<T>(store(scores, computed), value, call), call.result_dtype())};
    });
}

// Sums over the letters that the result does not have, by walking all combinations of letters.
Results einsum(const Call &call) {
    std::string equation;
    for (char c : call->string("equation")) {
        if (c != ' ') equation += c;
    }
    const std::vector<HostTensor> operands = call.tensors("tensors");
    const size_t arrow = equation.find("->");
    if (arrow == equation.npos || equation.find("...") != equation.npos)
        call.fail(fmt::format("'{}': write out the result and all dimensions", equation));
    std::vector<std::string> terms(1);
    for (char c : equation.substr(0, arrow)) {
        if (c == ',')
            terms.emplace_back();
        else
            terms.back() += c;
    }
    const std::string result_letters = equation.substr(arrow + 2);
    if (terms.size() != operands.size()) call.fail(fmt::format("'{}' has another number of operands", equation));
    std::string letters = result_letters;
    for (const std::string &term : terms) {
        for (char c : term) {
            if (letters.find(c) == letters.npos) letters += c;
        }
    }
    Extents sizes(letters.size(), 1);
    std::vector<Extents> strides(operands.size(), Extents(letters.size(), 0));
    for (size_t t = 0; t < terms.size(); t++) {
        if (terms[t].size() != operands[t].sizes.size()) call.fail(fmt::format("'{}' does not fit its operands", equation));
        const Extents dense = dense_strides(operands[t].sizes);
        for (size_t d = 0; d < terms[t].size(); d++) {
            const size_t letter = letters.find(terms[t][d]);
            if (operands[t].sizes[d] == 1) continue;
            sizes[letter] = operands[t].sizes[d];
            strides[t][letter] += dense[d];
        }
    }
    return with_compute_type(call.result_dtype(), [&](auto zero) -> Results {
        using T = decltype(zero);
        std::vector<Array<T>> values;
        for (const HostTensor &operand : operands) values.push_back(load<T>(operand));
        const auto kept = static_cast<int64_t>(result_letters.size());
        Array<T> result(Extents(sizes.begin(), sizes.begin() + kept));
        const int64_t inner = product(Extents(sizes.begin() + kept, sizes.end()));
        Extents index(sizes.size());
        for (int64_t i = 0; i < static_cast<int64_t>(result.data.size()); i++) {
            double sum = 0;
            for (int64_t k = 0; k < inner; k++) {
                double term = 1;
                for (size_t t = 0; t < values.size(); t++) {
                    int64_t at = 0;
                    for (size_t d = 0; d < index.size(); d++) at += index[d] * strides[t][d];
                    term *= static_cast<double>(values[t][at]);
                }
                sum += term;
                for (size_t d = index.size(); d-- > 0;) {
                    if (++index[d] < sizes[d]) break;
                    index[d] = 0;
                }
            }
            result[i] = static_cast<T>(sum);
        }
        return {store(result, call.result_dtype())};
    });
}

// Of each row of one tensor from each of another.
Results distances(const Call &call) {
    const HostTensor a = call.tensor("x1"), b = call.tensor("x2");
    const double order = call->number("p");
    const Extents sizes = call.result_sizes();
    if (a.sizes.size() < 2 || b.sizes.size() < 2) call.fail("matrices are expected");
    const int64_t rows = a.sizes[a.sizes.size() - 2], columns = b.sizes[b.sizes.size() - 2], width = a.sizes.back();
    const auto batched = [&](const HostTensor &x) {
        Extents batch(sizes.begin(), sizes.end() - 2);
        batch.insert(batch.end(), x.sizes.end() - 2, x.sizes.end());
        return batch;
    };
    return with_compute_type(call.result_dtype(), [&](auto zero) -> Results {
        using T = decltype(zero);
        const Array<T> x = load<T>(a, batched(a)), y = load<T>(b, batched(b));
        Array<T> result(sizes);
        for (int64_t i = 0; i < static_cast<int64_t>(result.data.size()); i++) {
            const int64_t plane = i / (rows * columns);
            const T *row = x.data.data() + (plane * rows + i / columns % rows) * width,
                    *column = y.data.data() + (plane * columns + i % columns) * width;
            double total = 0;
            for (int64_t k = 0; k < width; k++) {
                const double distance = std::fabs(static_cast<double>(row[k]) - static_cast<double>(column[k]));
                if (std::isinf(order))
                    total = distance > total || distance != distance ? distance : total;
                else
                    total += order == 0 ? distance != 0 : std::pow(distance, order);
            }
            result[i] = static_cast<T>(order == 0 || std::isinf(order) ? total : std::pow(total, 1 / order));
        }
        return {store(result, call.result_dtype())};
    });
}

}  // namespace

void add_product_kernels(Kernels &kernels) {
    kernels["aten::cdist"] = kernels["aten::_cdist_forward"] = distances;
    kernels["aten::mm"] = kernels["aten::bmm"] = plain_product("self", "mat2");
    kernels["aten::matmul"] = plain_product("self", "other");
    kernels["aten::mv"] = plain_product("self", "vec");
    kernels["aten::dot"] = plain_product("self", "tensor");
    kernels["aten::linear"] = linear;
    kernels["aten::addmm"] = added_product("mat1", "mat2");
    kernels["aten::baddbmm"] = added_product("batch1", "batch2");
    kernels["aten::addmv"] = added_product("mat", "vec");
    kernels["aten::scaled_dot_product_attention"] = attention;
    kernels["aten::einsum"] = einsum;
}

}  // namespace atalla::interpreter
