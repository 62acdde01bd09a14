// Normalizations.
#include <cmath>

#include "graph_import/interpreter/call.h"

namespace atalla::interpreter {

namespace {

struct Statistics {
    double mean = 0, reciprocal = 0;  // 1 / sqrt(variance + eps)
};

template <typename T>
Statistics statistics(const T *row, int64_t length, double eps, bool centred = true) {
    Statistics result;
    for (int64_t i = 0; i < length; i++) result.mean += static_cast<double>(row[i]);
    result.mean /= static_cast<double>(length);
    if (!centred) result.mean = 0;
    double total = 0;
    for (int64_t i = 0; i < length; i++) {
        const double centred_value = static_cast<double>(row[i]) - result.mean;
        total += centred_value * centred_value;
    }
    result.reciprocal = 1 / std::sqrt(total / static_cast<double>(length) + eps);
    return result;
}

// x * scale + shift, of each element by its own index.
template <typename T, typename F>
HostTensor affine(Array<T> x, DType dtype, F &&f) {
    for (int64_t i = 0; i < static_cast<int64_t>(x.data.size()); i++) x[i] = static_cast<T>(f(i, static_cast<double>(x[i])));
    return store(x, dtype);
}

template <typename T>
Array<T> weights(const Call &call, const char *name, int64_t count, T otherwise) {
    if (!call.has(name)) return Array<T>({count}, otherwise);
    Array<T> values = load<T>(call.tensor(name));
    if (static_cast<int64_t>(values.data.size()) != count) call.fail(std::string(name) + " has another number of elements");
    return values;
}

// Of the last dimensions; with the statistics as further results where the operator has them.
Kernel layer_norm(const char *eps_name, bool centred) {
    return [=](const Call &call) -> Results {
        const HostTensor input = call.tensor("input");
        const Extents shape = call->integers("normalized_shape");
        const int64_t length = product(shape);
        return with_compute_type(call.result_dtype(), [&](auto zero) -> Results {
            using T = decltype(zero);
            const double smallest =
                std::is_same_v<T, double> ? 2.220446049250313e-16 : 1.1920928955078125e-07;  // of its arithmetic
            const double eps = call->optional_number(eps_name).value_or(smallest);
            const Array<T> x = load<T>(input);
            const Array<T> weight = weights<T>(call, "weight", length, T(1));
            const Array<T> bias = centred ? weights<T>(call, "bias", length, T(0)) : Array<T>({length});
            const int64_t rows = length ? static_cast<int64_t>(x.data.size()) / length : 0;
            std::vector<Statistics> found;
            for (int64_t r = 0; r < rows; r++) found.push_back(statistics(&x.data[r * length], length, eps, centred));
            Results results = {affine(x, call.result_dtype(), [&](int64_t i, double value) {
                const Statistics &s = found[i / length];
                return (value - s.mean) * s.reciprocal * weight[i % length] + bias[i % length];
            })};
            if (call->outputs.size() == 3) {
                Array<double> mean(call.result_sizes(1)), reciprocal(call.result_sizes(2));
                for (int64_t r = 0; r < rows; r++) {
                    mean[r] = found[r].mean;
                    reciprocal[r] = found[r].reciprocal;
                }
                results.push_back(store(mean, call.result_dtype(1)));
                results.push_back(store(reciprocal, call.result_dtype(2)));
            }
            return results;
        });
    };
}

// One mean and variance for each group of channels of each image; without groups, for each channel.
Results group_norm(const Call &call) {
    const HostTensor input = call.tensor("input");
    const bool grouped = call->find("num_groups") || call->find("group");
    const int64_t groups = grouped ? call->integer(call->find("num_groups") ? "num_groups" : "group") : input.sizes.at(1);
    const double eps = call->number("eps");
    return with_compute_type(call.result_dtype(), [&](auto zero) -> Results {
        using T = decltype(zero);
        const Array<T> x = load<T>(input);
        const int64_t channels = x.size(1);
        if (groups < 1 || channels % groups) call.fail("the groups do not divide the channels");
        const int64_t area = static_cast<int64_t>(x.data.size()) / std::max<int64_t>(x.size(0) * channels, 1);
        const int64_t length = channels / groups * area;
        const Array<T> weight = weights<T>(call, "weight", channels, T(1)), bias = weights<T>(call, "bias", channels, T(0));
        std::vector<Statistics> found;
        for (int64_t at = 0; at < static_cast<int64_t>(x.data.size()); at += length) {
            found.push_back(statistics(&x.data[at], length, eps));
        }
        return {affine(x, call.result_dtype(), [&](int64_t i, double value) {
            const int64_t channel = i / area % channels;
            return (value - found[i / length].mean) * found[i / length].reciprocal * weight[channel] + bias[channel];
        })};
    });
}

// With the running statistics; what training needs further is empty.
Results batch_norm(const Call &call) {
    if (call->find("training") && call->flag("training")) call.fail("in training mode it changes its statistics");
    const double eps = call->number("eps");
    return with_compute_type(call.result_dtype(), [&](auto zero) -> Results {
        using T = decltype(zero);
        const Array<T> x = load<T>(call.tensor("input"));
        if (x.rank() < 2) call.fail("channels are expected as second dimension");
        const int64_t channels = x.size(1);
        const int64_t area = static_cast<int64_t>(x.data.size()) / std::max<int64_t>(x.size(0) * channels, 1);
        const Array<T> weight = weights<T>(call, "weight", channels, T(1)), bias = weights<T>(call, "bias", channels, T(0));
        const Array<T> mean = weights<T>(call, "running_mean", channels, T(0));
        const Array<T> variance = weights<T>(call, "running_var", channels, T(1));
        Results results = {affine(x, call.result_dtype(), [&](int64_t i, double value) {
            const int64_t c = i / std::max<int64_t>(area, 1) % channels;
            return (value - mean[c]) / std::sqrt(static_cast<double>(variance[c]) + eps) * weight[c] + bias[c];
        })};
        for (size_t i = 1; i < call->outputs.size(); i++)
            results.push_back(make_tensor(call.result_dtype(i), call.result_sizes(i)));
        return results;
    });
}

// With the statistics of this batch, which are further results.
Results batch_norm_of_batch(const Call &call) {
    if (!call->flag("training")) call.fail("it has no statistics but those of the batch");
    const double eps = call->number("eps");
    return with_compute_type(call.result_dtype(), [&](auto zero) -> Results {
        using T = decltype(zero);
        const Array<T> x = load<T>(call.tensor("input"));
        if (x.rank() < 2) call.fail("channels are expected as second dimension");
        const int64_t channels = x.size(1), images = x.size(0);
        const int64_t area = static_cast<int64_t>(x.data.size()) / std::max<int64_t>(images * channels, 1);
        const Array<T> weight = weights<T>(call, "weight", channels, T(1)), bias = weights<T>(call, "bias", channels, T(0));
        Array<double> mean({channels}), reciprocal({channels});
        std::vector<T> one;
        for (int64_t c = 0; c < channels; c++) {
            one.clear();
            for (int64_t n = 0; n < images; n++)
                one.insert(one.end(), &x.data[(n * channels + c) * area], &x.data[(n * channels + c) * area] + area);
            const Statistics found = statistics(one.data(), static_cast<int64_t>(one.size()), eps);
            mean[c] = found.mean;
            reciprocal[c] = found.reciprocal;
        }
        Results results = {affine(x, call.result_dtype(), [&](int64_t i, double value) {
            const int64_t c = i / area % channels;
            return (value - mean[c]) * reciprocal[c] * weight[c] + bias[c];
        })};
        if (call->outputs.size() == 3) {
            results.push_back(store(mean, call.result_dtype(1)));
            results.push_back(store(reciprocal, call.result_dtype(2)));
        }
        return results;
    });
}

// With the statistics of each image, or running ones.
Results instance_norm(const Call &call) { return call->flag("use_input_stats") ? group_norm(call) : batch_norm(call); }

// g v / |v|, with a length for each index of a dimension, or one for all (-1).
Results weight_norm(const Call &call) {
    return with_compute_type(call.result_dtype(), [&](auto zero) -> Results {
        using T = decltype(zero);
        Array<T> v = load<T>(call.tensor("v"));
        const Array<T> g = load<T>(call.tensor("g"));
        const int64_t dim = call->integer("dim");
        int64_t inner = 1;
        for (int64_t d = dim + 1; dim >= 0 && d < v.rank(); d++) inner *= v.size(d);
        const int64_t count = dim < 0 ? 1 : v.size(dim);
        if (static_cast<int64_t>(g.data.size()) != count) call.fail("g has another number of elements");
        Array<double> length(call.tensor("g").sizes);
        for (int64_t i = 0; i < static_cast<int64_t>(v.data.size()); i++)
            length[i / inner % count] += static_cast<double>(v[i]) * static_cast<double>(v[i]);
        for (double &value : length.data) value = std::sqrt(value);
        for (int64_t i = 0; i < static_cast<int64_t>(v.data.size()); i++)
            v[i] = static_cast<T>(v[i] * (g[i / inner % count] / length[i / inner % count]));
        Results results = {store(v, call.result_dtype())};
        if (call->outputs.size() == 2) results.push_back(store(length, call.result_dtype(1)));
        return results;
    });
}

}  // namespace

void add_norm_kernels(Kernels &kernels) {
    kernels["aten::layer_norm"] = kernels["aten::native_layer_norm"] = layer_norm("eps", true);
    kernels["aten::rms_norm"] = layer_norm("eps", false);
    kernels["aten::group_norm"] = group_norm;
    kernels["aten::instance_norm"] = instance_norm;
    kernels["aten::_native_batch_norm_legit.no_stats"] = batch_norm_of_batch;
    kernels["aten::_weight_norm"] = kernels["aten::_weight_norm_interface"] = weight_norm;
    kernels["aten::batch_norm"] = kernels["aten::_native_batch_norm_legit_no_training"] = batch_norm;
}

}  // namespace atalla::interpreter
