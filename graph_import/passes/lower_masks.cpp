// Boolean masks become numbers, as kernels of bf16 numbers take them: those of attention are added to the scores, those that
// choose between tensors are 1 or 0, and comparisons of numbers give these at once.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "graph_import/passes.h"
#include "graph_import/passes/rewriter.h"

namespace atalla {

namespace {

class Lowering {
public:
    explicit Lowering(Graph &graph) : graph_(graph), rewriter_(graph) {}

    int run() {
        return rewriter_.sweep([&](Node &node) {
            if (const char *condition = condition_of(node); condition != nullptr && chooses_values(node))
                return lower_condition(node, condition);
            if (node.target == "aten::_to_copy" && is_floating(graph_.type(node.outputs[0]).dtype))
                return lower_conversion(node);
            if (node.target != "aten::scaled_dot_product_attention") return;
            const ValueId mask = node.optional_tensor("attn_mask");
            const Sizes &query = graph_.type(node.tensor("query")).sizes;
            if (!mask || graph_.type(mask).dtype != DType::Bool || graph_.type(mask).sizes.size() < 2 || query.size() < 2)
                return;
            const ValueId added = lower(mask, query[query.size() - 2], graph_.type(node.outputs[0]).dtype, node);
            for (NamedArgument &argument : node.arguments)
                if (argument.name == "attn_mask") argument.value = added;
            rewriter_.count();
        });
    }

private:
    static const char *condition_of(const Node &node) {
        if (node.target == "aten::where.self" || node.target == "aten::where.ScalarOther" ||
            node.target == "aten::where.ScalarSelf")
            return "condition";
        return node.target == "aten::masked_fill.Scalar" ? "mask" : nullptr;
    }

    // Are there values to choose from that the model computes? A mask that is made of numbers is the host's.
    bool chooses_values(const Node &node) const {
        const TensorType &result = graph_.type(node.outputs[0]);
        return is_floating(result.dtype) && std::ranges::any_of(node.arguments, [&](const NamedArgument &argument) {
                   const auto *id = std::get_if<ValueId>(&argument.value);
                   if (id == nullptr || !*id || (argument.name != "self" && argument.name != "other") ||
                       graph_.constant_data(*id) != nullptr)
                       return false;
                   const TensorType &type = graph_.type(*id);
                   return type.dtype == result.dtype &&
                          (type.sizes == result.sizes ||
                           std::ranges::any_of(type.sizes, [](const SymInt &size) { return !(size == SymInt(1)); }));
               });
    }

    void lower_condition(Node &node, std::string_view condition) {
        const ValueId mask = node.tensor(condition);
        if (graph_.type(mask).dtype != DType::Bool) return;
        const DType dtype = graph_.type(node.outputs[0]).dtype;
        const auto [known, is_new] = known_.try_emplace({mask, std::string(dtype_name(dtype))});
        if (is_new) {
            const Sizes &sizes = graph_.type(mask).sizes;
            const std::string name = fmt::format("{}_number", graph_.value(mask).name);
            if (const HostTensor *data = graph_.constant_data(mask))
                known->second = graph_.add_constant(name, converted(*data, dtype));
            else if (const Node *compared = comparison_of_numbers(mask))
                known->second =
                    rewriter_.insert(make_call(compared->target, compared->arguments, node), name, dense_type(dtype, sizes));
            else
                known->second = rewriter_.insert(make_call("aten::_to_copy", {{"self", mask}, {"dtype", dtype}}, node), name,
                                                 dense_type(dtype, sizes));
        }
        for (NamedArgument &argument : node.arguments)
            if (argument.name == condition) argument.value = known->second;
        rewriter_.count();
    }

    // A comparison whose result is a number computes 1 or 0, as the accelerator's kernels do.
    void lower_conversion(Node &node) {
        const Node *compared = comparison_of_numbers(node.tensor("self"));
        if (compared == nullptr) return;
        node = make_call(compared->target, compared->arguments, node);
        rewriter_.count();
    }

    // The call that made a mask out of floating numbers; null if another one did.
    const Node *comparison_of_numbers(ValueId mask) const {
        static const std::set<std::string_view> comparisons = {
            "aten::gt.Scalar", "aten::gt.Tensor", "aten::ge.Scalar", "aten::ge.Tensor", "aten::lt.Scalar", "aten::lt.Tensor",
            "aten::le.Scalar", "aten::le.Tensor", "aten::eq.Scalar", "aten::eq.Tensor", "aten::ne.Scalar", "aten::ne.Tensor"};
        const Node *node = rewriter_.producer(mask);
        if (node == nullptr || !comparisons.contains(node->target)) return nullptr;
        bool numbers = true;
        for_each_value(*node, [&](ValueId id) { numbers = numbers && is_floating(graph_.type(id).dtype); });
        return numbers ? node : nullptr;
    }

    static HostTensor converted(const HostTensor &flags, DType dtype) {
        const HostTensor dense = dense_copy(flags);
        HostTensor numbers = make_tensor(dtype, dense.sizes);
        for (int64_t i = 0; i < dense.elements(); i++)
            store_double(mutable_data(numbers) + i * element_bytes(dtype), dtype, element_as_double(dense, i));
        return numbers;
    }

    // What is added for a mask: 0 where it attends, else minus infinity, which hides a key as the boolean does: a row of
    // nothing else gives zeros.
    ValueId lower(ValueId mask, const SymInt &queries, DType dtype, const Node &origin) {
        const auto [known, is_new] = known_.try_emplace({mask, queries.text()});
        if (!is_new) return known->second;
        Sizes sizes = graph_.type(mask).sizes;
        sizes[sizes.size() - 2] = queries;
        const HostTensor *data = graph_.constant_data(mask);
        return known->second = data != nullptr && is_constant(sizes) ? of_constant(mask, *data, constant_sizes(sizes), dtype)
                                                                     : of_value(mask, sizes, dtype, origin);
    }

    ValueId of_constant(ValueId mask, const HostTensor &data, const std::vector<int64_t> &sizes, DType dtype) {
        const HostTensor dense = dense_copy(data);
        HostTensor added = make_tensor(dtype, sizes);
        const int64_t keys = sizes.back(), rows = added.elements() / std::max<int64_t>(1, keys),
                      repeats = rows * keys / std::max<int64_t>(1, dense.elements());
        for (int64_t row = 0; row < rows; row++)
            for (int64_t key = 0; key < keys; key++) {
                // A mask of one row serves all queries.
                const bool attends = element_as_double(dense, row / repeats * keys + key) != 0;
                store_double(mutable_data(added) + (row * keys + key) * element_bytes(dtype), dtype, attends ? 0 : -INFINITY);
            }
        return graph_.add_constant(fmt::format("{}_added", graph_.value(mask).name), std::move(added));
    }

    ValueId of_value(ValueId mask, const Sizes &sizes, DType dtype, const Node &origin) {
        const std::string name = graph_.value(mask).name;
        const auto call = [&](const char *target, std::vector<NamedArgument> arguments, const char *suffix, DType type) {
            return rewriter_.insert(make_call(target, std::move(arguments), origin), fmt::format("{}_{}", name, suffix),
                                    dense_type(type, sizes));
        };
        ValueId expanded = mask;
        if (!(sizes == graph_.type(mask).sizes))
            expanded = call("aten::expand", {{"self", mask}, {"size", sizes}}, "expanded", DType::Bool);
        const ValueId number = call("aten::where.Scalar", {{"condition", expanded}, {"self", 0.0}, {"other", -INFINITY}},
                                    "number", DType::Float32);
        return dtype == DType::Float32 ? number : call("aten::_to_copy", {{"self", number}, {"dtype", dtype}}, "added", dtype);
    }

    Graph &graph_;
    Rewriter rewriter_;
    std::map<std::pair<ValueId, std::string>, ValueId> known_;
};

}  // namespace

int lower_masks(Graph &graph) { return Lowering(graph).run(); }

}  // namespace atalla
