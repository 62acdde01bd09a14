// Softmax and the normalizations: sums in double, results in the type of the tensor.
#include <cmath>

#include "host/kernels.h"

namespace atalla {

namespace {

void add_softmax(HostKernels &kernels) {
    for (const char *name : {"softmax.int", "_softmax", "log_softmax.int", "_log_softmax", "_safe_softmax"}) {
        const std::string target = std::string("aten::") + name;
        const bool logarithm = target.find("log_softmax") != std::string::npos, safe = target == "aten::_safe_softmax";
        kernels[target] = [logarithm, safe](const HostCall &call) {
            const HostTensor self = call.tensor("self");
            const AxisSplit axis(self.sizes, call.dimension("dim", self.sizes.size()));
            std::vector<double> values = values_of<double>(self);
            for (int64_t o = 0; o < axis.outer; o++)
                for (int64_t i = 0; i < axis.inner; i++) {
                    double *at = values.data() + o * axis.length * axis.inner + i;
                    double largest = -INFINITY, sum = 0;
                    for (int64_t j = 0; j < axis.length; j++) largest = std::max(largest, at[j * axis.inner]);
                    for (int64_t j = 0; j < axis.length; j++) sum += std::exp(at[j * axis.inner] - largest);
                    for (int64_t j = 0; j < axis.length; j++) {
                        double &x = at[j * axis.inner];
                        x = safe && largest == -INFINITY ? 0 : logarithm ? x - largest - std::log(sum) : std::exp(x - largest) / sum;
                    }
                }
            return std::vector{tensor_of_values(call.result(), values)};
        };
    }
}

// Rows of `length` neighbouring elements, each brought to mean 0 (not for the root mean square) and variance 1.
struct Statistics {
    std::vector<double> mean, reciprocal;
};
Statistics normalize(std::vector<double> &values, int64_t length, double epsilon, bool centred) {
    Statistics statistics;
    for (size_t row = 0; row < values.size(); row += static_cast<size_t>(length)) {
        double mean = 0, squares = 0;
        if (centred)
            for (int64_t i = 0; i < length; i++) mean += values[row + static_cast<size_t>(i)] / static_cast<double>(length);
        for (int64_t i = 0; i < length; i++) squares += std::pow(values[row + static_cast<size_t>(i)] - mean, 2);
        const double reciprocal = 1 / std::sqrt(squares / static_cast<double>(length) + epsilon);
        for (int64_t i = 0; i < length; i++) values[row + static_cast<size_t>(i)] = (values[row + static_cast<size_t>(i)] - mean) * reciprocal;
        statistics.mean.push_back(mean);
        statistics.reciprocal.push_back(reciprocal);
    }
    return statistics;
}

std::vector<HostTensor> results_of(const HostCall &call, const std::vector<double> &values, const Statistics &statistics) {
    std::vector<HostTensor> results = {tensor_of_values(call.result(), values)};
    if (call.results() > 1) results.push_back(tensor_of_values(call.result(1), statistics.mean));
    if (call.results() > 2) results.push_back(tensor_of_values(call.result(2), statistics.reciprocal));
    return results;
}

void add_row_norms(HostKernels &kernels) {
    for (const char *name : {"aten::layer_norm", "aten::native_layer_norm", "aten::rms_norm"})
        kernels[name] = [](const HostCall &call) {
            const HostTensor input = call.tensor("input");
            const bool centred = call.node().target != "aten::rms_norm";
            int64_t length = 1;
            for (int64_t size : call.integers("normalized_shape")) length *= size;
            std::vector<double> values = values_of<double>(input);
            // rms_norm's default is the epsilon of the type.
            const Statistics statistics = normalize(values, length, call.number("eps", centred ? 1e-5 : 1.1920928955078125e-07), centred);
            for (const char *factor : {"weight", "bias"}) {
                const std::optional<HostTensor> given = call.optional_tensor(factor);
                if (!given) continue;
                const std::vector<double> vector = values_of<double>(*given);
                const bool is_weight = factor == std::string_view("weight");
                for (size_t i = 0; i < values.size(); i++) {
                    const double x = vector[i % vector.size()];
                    values[i] = is_weight ? values[i] * x : values[i] + x;
                }
            }
            return results_of(call, values, statistics);
        };
}

// y = x * scale[channel] + shift[channel], channels in dimension 1.
void per_channel(std::vector<double> &values, const std::vector<int64_t> &sizes, const std::optional<HostTensor> &scale, const std::optional<HostTensor> &shift) {
    const AxisSplit axis(sizes, 1);
    const std::vector<double> a = scale ? values_of<double>(*scale) : std::vector<double>(static_cast<size_t>(axis.length), 1.0);
    const std::vector<double> b = shift ? values_of<double>(*shift) : std::vector<double>(static_cast<size_t>(axis.length), 0.0);
    for (size_t i = 0; i < values.size(); i++) {
        const size_t channel = i / static_cast<size_t>(axis.inner) % static_cast<size_t>(axis.length);
        values[i] = values[i] * a[channel] + b[channel];
    }
}

void add_channel_norms(HostKernels &kernels) {
    for (const char *name : {"aten::batch_norm", "aten::_native_batch_norm_legit_no_training"})
        kernels[name] = [](const HostCall &call) {
            const HostTensor input = call.tensor("input");
            if (call.flag("training", false)) call.refuse("training is not there, only inference");
            const std::vector<double> mean = values_of<double>(call.tensor("running_mean")), variance = values_of<double>(call.tensor("running_var"));
            const double epsilon = call.number("eps", 1e-5);
            std::vector<double> values = values_of<double>(input);
            const AxisSplit axis(input.sizes, 1);
            for (size_t i = 0; i < values.size(); i++) {
                const size_t channel = i / static_cast<size_t>(axis.inner) % static_cast<size_t>(axis.length);
                values[i] = (values[i] - mean[channel]) / std::sqrt(variance[channel] + epsilon);
            }
            per_channel(values, input.sizes, call.optional_tensor("weight"), call.optional_tensor("bias"));
            std::vector<HostTensor> results = {tensor_of_values(call.result(), values)};
            for (size_t i = 1; i < call.results(); i++) results.push_back(make_tensor(call.result(i).dtype, call.result(i).sizes));
            return results;
        };
    for (const char *name : {"aten::group_norm", "aten::native_group_norm"})
        kernels[name] = [](const HostCall &call) {
            const HostTensor input = call.tensor("input");
            const int64_t groups = call.has("num_groups") ? call.integer("num_groups", 1) : call.integer("group", 1);
            std::vector<double> values = values_of<double>(input);
            const int64_t length = input.elements() / std::max<int64_t>(input.sizes[0] * groups, 1);
            const Statistics statistics = normalize(values, length, call.number("eps", 1e-5), true);
            per_channel(values, input.sizes, call.optional_tensor("weight"), call.optional_tensor("bias"));
            return results_of(call, values, statistics);
        };
}

}  // namespace

void add_normalization_kernels(HostKernels &kernels) {
    add_softmax(kernels);
    add_row_norms(kernels);
    add_channel_norms(kernels);
}

}  // namespace atalla
