// Cheaper operators with the same results, bit for bit.
#include <algorithm>
#include <cmath>

#include "graph_import/passes.h"
#include "graph_import/passes/rewriter.h"

namespace atalla {

namespace {

// The value of an operand that is a number, or a constant tensor of one element that all elements see.
std::optional<double> constant_number(const Graph &graph, const Node &node, std::string_view name) {
    const Argument *argument = node.find(name);
    if (!argument) return std::nullopt;
    if (const auto *size = std::get_if<SymInt>(argument)) {
        if (!size->is_constant()) return std::nullopt;
        return static_cast<double>(size->value());
    }
    if (const auto *number = std::get_if<double>(argument)) return *number;
    const auto *id = std::get_if<ValueId>(argument);
    const HostTensor *data = id ? graph.constant_data(*id) : nullptr;
    if (!data || data->elements() != 1 || !data->sizes.empty() || is_complex(data->dtype)) return std::nullopt;
    return element_as_double(*data, 0);
}

bool is_power_of_two(double value) {
    int exponent = 0;
    return std::isfinite(value) && std::fabs(std::frexp(value, &exponent)) == 0.5 && std::abs(exponent) < 100;
}

struct Reducer {
    Graph &graph;
    Rewriter &rewriter;

    // The operand as a tensor of exactly the result's type: then no conversion or broadcasting is lost.
    ValueId like_result(const Node &node, std::string_view name) const {
        const Argument *argument = node.find(name);
        const auto *id = argument ? std::get_if<ValueId>(argument) : nullptr;
        return id && same_type(graph.type(*id), graph.type(node.outputs[0])) ? *id : ValueId{};
    }

    void hand_on(Node &node, ValueId value) const {
        rewriter.replace(node.outputs[0], value);
        node.target.clear();
    }

    void become(Node &node, const char *target, std::vector<NamedArgument> arguments) const {
        node = make_call(target, std::move(arguments), node);
        rewriter.count();
    }

    void product(Node &node) const {
        for (const auto &[factor, operand] : {std::pair("other", "self"), std::pair("self", "other")}) {
            const auto number = constant_number(graph, node, factor);
            const ValueId x = like_result(node, operand);
            if (!number || !x) continue;
            if (*number == 1) return hand_on(node, x);
            if (*number == 2) return become(node, "aten::add.Tensor", {{"self", x}, {"other", x}});
            if (*number == -1) return become(node, "aten::neg", {{"self", x}});
        }
    }

    void quotient(Node &node) const {
        const auto divisor = constant_number(graph, node, "other");
        const ValueId x = like_result(node, "self");
        if (!divisor || !x || !is_floating(graph.type(x).dtype)) return;
        if (*divisor == 1) return hand_on(node, x);
        // The reciprocal of a power of two is exact.
        if (is_power_of_two(*divisor)) become(node, "aten::mul.Tensor", {{"self", x}, {"other", 1 / *divisor}});
    }

    void sum(Node &node) const {
        // -0.0 + 0 is 0: only integers may lose a 0 that is added; everything may lose one that is subtracted.
        const bool add = node.target == "aten::add.Tensor";
        const auto number = constant_number(graph, node, "other");
        const ValueId x = like_result(node, "self");
        if (number && *number == 0 && x && (!add || !is_floating(graph.type(x).dtype))) hand_on(node, x);
    }

    void power(Node &node) const {
        const auto exponent = constant_number(graph, node, "exponent");
        const ValueId x = like_result(node, "self");
        if (!exponent || !x) return;
        if (*exponent == 1) return hand_on(node, x);
        if (*exponent == 2) return become(node, "aten::mul.Tensor", {{"self", x}, {"other", x}});
        if (*exponent == 0.5 && is_floating(graph.type(x).dtype)) return become(node, "aten::sqrt", {{"self", x}});
        if (*exponent == -1 && is_floating(graph.type(x).dtype)) become(node, "aten::reciprocal", {{"self", x}});
    }

    // A view of a view, a transpose of a transpose, a conversion back.
    void repeated(Node &node) const {
        const ValueId operand = node.tensor("self");
        const Node *before = rewriter.producer(operand);
        if (!before || before->target != node.target) return;
        const ValueId source = before->tensor("self");
        if (node.target == "aten::view") {
            if (graph.type(source).sizes == graph.type(node.outputs[0]).sizes) return hand_on(node, source);
            return become(node, "aten::view", {{"self", source}, {"size", *node.find("size")}});
        }
        const std::vector<int64_t> first = permutation(*before), second = permutation(node);
        Sizes composed;
        bool identity = true;
        for (size_t i = 0; i < second.size(); i++) {
            composed.emplace_back(first.at(second[i]));
            identity = identity && first[second[i]] == static_cast<int64_t>(i);
        }
        if (identity) return hand_on(node, source);
        become(node, "aten::permute", {{"self", source}, {"dims", composed}});
    }

    // The elements of one dimension at constant indices that follow each other at equal steps.
    void index(Node &node) const {
        const bool select = node.target == "aten::index_select";
        const std::vector<ValueId> indices = select ? std::vector<ValueId>{node.tensor("index")} : node.tensors("indices");
        const auto is_given = [](ValueId id) { return static_cast<bool>(id); };
        const auto given = std::ranges::find_if(indices, is_given);
        if (given == indices.end() || std::find_if(given + 1, indices.end(), is_given) != indices.end()) return;
        const HostTensor *data = graph.constant_data(*given);
        const Sizes &sizes = graph.type(node.tensor("self")).sizes;
        const int64_t rank = static_cast<int64_t>(sizes.size()),
                      dim = select ? (node.integer("dim") + rank) % std::max<int64_t>(rank, 1) : given - indices.begin();
        if (!data || data->sizes.size() != 1 || data->elements() == 0 || data->dtype == DType::Bool || dim >= rank ||
            !sizes[static_cast<size_t>(dim)].is_constant())
            return;
        const HostTensor dense = dense_copy(*data);
        const int64_t size = sizes[static_cast<size_t>(dim)].value(), count = dense.elements();
        const auto at = [&](int64_t i) {
            const int64_t value = element_as_int(dense, i);
            return value < 0 ? value + size : value;
        };
        const int64_t first = at(0), last = at(count - 1), step = count > 1 ? at(1) - first : 1;
        if (first < 0 || last >= size || step < 1) return;
        for (int64_t i = 1; i < count; i++)
            if (at(i) != first + i * step) return;
        become(node, "aten::slice.Tensor",
               {{"self", *node.find("self")},
                {"dim", SymInt(dim)},
                {"start", SymInt(first)},
                {"end", SymInt(last + 1)},
                {"step", SymInt(step)}});
        slice(node);
    }

    void slice(Node &node) const {
        const ValueId x = like_result(node, "self");
        if (x && node.integer("step") == 1) hand_on(node, x);
    }
};

}  // namespace

int reduce_strength(Graph &graph) {
    Rewriter rewriter(graph);
    const Reducer reducer{graph, rewriter};
    return rewriter.sweep([&](Node &node) {
        if (node.outputs.size() != 1) return;
        if (node.target == "aten::mul.Tensor") return reducer.product(node);
        if (node.target == "aten::div.Tensor") return reducer.quotient(node);
        if (node.target == "aten::add.Tensor" || node.target == "aten::sub.Tensor") return reducer.sum(node);
        if (node.target == "aten::pow.Tensor_Scalar") return reducer.power(node);
        if (node.target == "aten::view" || node.target == "aten::permute") return reducer.repeated(node);
        if (node.target == "aten::index.Tensor" || node.target == "aten::index_select") return reducer.index(node);
        if (node.target == "aten::slice.Tensor") return reducer.slice(node);
        if (node.target == "aten::cat" && node.tensors("tensors").size() == 1) {
            if (same_type(graph.type(node.tensors("tensors")[0]), graph.type(node.outputs[0]))) {
                reducer.hand_on(node, node.tensors("tensors")[0]);
            }
        }
    });
}

}  // namespace atalla
