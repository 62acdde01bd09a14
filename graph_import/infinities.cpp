#include "graph_import/infinities.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

namespace atalla {

namespace {

using Names = std::set<std::string_view>;

// What gives finite results whatever is masked (by minus infinity), or adds so many values that an infinity on purpose has no
// place in them.
// clang-format off
const Names finite = {
    "aten::linear", "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::matmul", "aten::conv1d", "aten::conv2d",
    "aten::conv_transpose2d.input", "aten::convolution", "aten::scaled_dot_product_attention", "aten::softmax.int",
    "aten::_softmax", "aten::log_softmax.int", "aten::_log_softmax", "aten::layer_norm", "aten::native_layer_norm",
    "aten::rms_norm", "aten::group_norm", "aten::native_group_norm", "aten::batch_norm", "aten::embedding", "aten::sigmoid",
    "aten::tanh", "aten::erf", "aten::exp", "aten::relu6", "aten::hardtanh", "aten::hardsigmoid", "aten::sin", "aten::cos",
    "aten::isinf", "aten::isnan"};
// clang-format on

const Names of_zero = {"aten::log", "aten::log2", "aten::log10", "aten::log1p"};

// Finite numbers stay finite in bf16 (simulator/within_bf16.h).
bool is_infinite(double value) { return !std::isfinite(value); }

bool is_infinite(const Argument &argument) {
    if (const auto *number = std::get_if<double>(&argument)) return is_infinite(*number);
    const auto *numbers = std::get_if<std::vector<double>>(&argument);
    return numbers != nullptr && std::ranges::any_of(*numbers, [](double value) { return is_infinite(value); });
}

bool has_infinities(const HostTensor &data) {
    if (!is_floating(data.dtype)) return false;
    const HostTensor dense = dense_copy(data);
    for (int64_t i = 0, count = dense.elements(); i < count; i++)
        if (is_infinite(element_as_double(dense, i))) return true;
    return false;
}

}  // namespace

std::vector<bool> intended_infinities(const Graph &graph) {
    std::vector<bool> infinite(graph.values.size()), looked_at(graph.values.size());
    const auto holds = [&](ValueId id) {
        const auto index = static_cast<size_t>(id.index);
        if (graph.values[index].producer < 0 && !looked_at[index]) {
            looked_at[index] = true;
            const HostTensor *data = graph.constant_data(id);
            infinite[index] = data != nullptr && has_infinities(*data);
        }
        return infinite[index];
    };
    for (const Node &node : graph.nodes) {
        if (finite.contains(node.target)) continue;
        bool found = of_zero.contains(node.target) || std::ranges::any_of(node.arguments, [](const NamedArgument &argument) {
                         return is_infinite(argument.value);
                     });
        for_each_value(node, [&](ValueId operand) { found = found || holds(operand); });
        for (ValueId output : node.outputs)
            if (output) infinite[static_cast<size_t>(output.index)] = found;
    }
    return infinite;
}

}  // namespace atalla
