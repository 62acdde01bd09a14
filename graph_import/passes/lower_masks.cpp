// Boolean attention masks become numbers that are added to the scores, as kernels of bf16 numbers take them.
#include <map>

#include <fmt/format.h>

#include "graph_import/passes.h"
#include "graph_import/passes/rewriter.h"

namespace atalla {

namespace {

// The lowest number of bf16: added to a score, what is left is it again, and its share of the softmax is 0.
constexpr double hidden = -3.3895313892515355e38;

// What stands for a boolean mask.
struct Lowered {
    ValueId added;   // 0 where the mask attends, else `hidden`
    ValueId kept;    // 1 for rows that attend to anything, 0 for those whose result is 0; none if all do
};

class Lowering {
public:
    explicit Lowering(Graph &graph) : graph_(graph), rewriter_(graph) {}

    int run() {
        return rewriter_.sweep([&](Node &node) {
            if (node.target != "aten::scaled_dot_product_attention") return;
            const ValueId mask = node.optional_tensor("attn_mask");
            const Sizes &query = graph_.type(node.tensor("query")).sizes;
            if (!mask || graph_.type(mask).dtype != DType::Bool || graph_.type(mask).sizes.size() < 2 || query.size() < 2) return;
            const Lowered lowered = lower(mask, query[query.size() - 2], graph_.type(node.outputs[0]).dtype, node);
            for (NamedArgument &argument : node.arguments)
                if (argument.name == "attn_mask") argument.value = lowered.added;
            if (lowered.kept) {
                const ValueId result = node.outputs[0];
                const ValueId attended = rewriter_.insert(node, graph_.value(result).name, graph_.type(result));
                Node product = make_call("aten::mul.Tensor", {{"self", attended}, {"other", lowered.kept}}, node);
                product.outputs = {result};
                node = std::move(product);
            }
            rewriter_.count();
        });
    }

private:
    Lowered lower(ValueId mask, const SymInt &queries, DType dtype, const Node &origin) {
        const auto [known, is_new] = known_.try_emplace({mask, queries.text()});
        if (!is_new) return known->second;
        Sizes sizes = graph_.type(mask).sizes;
        sizes[sizes.size() - 2] = queries;
        const HostTensor *data = graph_.constant_data(mask);
        return known->second = data != nullptr && is_constant(sizes) ? of_constant(mask, *data, constant_sizes(sizes), dtype) : of_value(mask, sizes, dtype, origin);
    }

    Lowered of_constant(ValueId mask, const HostTensor &data, const std::vector<int64_t> &sizes, DType dtype) {
        const HostTensor dense = dense_copy(data);
        const std::string name = graph_.value(mask).name;
        HostTensor added = make_tensor(dtype, sizes);
        const int64_t keys = sizes.back(), rows = added.elements() / std::max<int64_t>(1, keys), repeats = rows * keys / std::max<int64_t>(1, dense.elements());
        std::vector<int64_t> row_sizes = data.sizes;
        row_sizes.back() = 1;
        HostTensor kept = make_tensor(dtype, row_sizes);
        bool all = true;
        for (int64_t row = 0; row < kept.elements(); row++) {
            bool any = false;
            for (int64_t key = 0; key < keys; key++) {
                const bool attends = element_as_double(dense, row * keys + key) != 0;
                any = any || attends;
                // A mask of one row serves all queries.
                for (int64_t copy = 0; copy < repeats; copy++) put(added, (row * repeats + copy) * keys + key, attends ? 0 : hidden);
            }
            put(kept, row, any ? 1 : 0);
            all = all && any;
        }
        Lowered lowered;
        lowered.added = graph_.add_constant(fmt::format("{}_added", name), std::move(added));
        if (!all) lowered.kept = graph_.add_constant(fmt::format("{}_kept", name), std::move(kept));
        return lowered;
    }
    static void put(HostTensor &tensor, int64_t index, double value) { store_double(mutable_data(tensor) + index * element_bytes(tensor.dtype), tensor.dtype, value); }

    Lowered of_value(ValueId mask, const Sizes &sizes, DType dtype, const Node &origin) {
        const std::string name = graph_.value(mask).name;
        Sizes row_sizes = graph_.type(mask).sizes;
        row_sizes.back() = 1;
        const auto call = [&](const char *target, std::vector<NamedArgument> arguments, const char *suffix, DType type, const Sizes &of) {
            return rewriter_.insert(make_call(target, std::move(arguments), origin), fmt::format("{}_{}", name, suffix), dense_type(type, of));
        };
        Lowered lowered;
        const ValueId any = call("aten::any.dim", {{"self", mask}, {"dim", SymInt(-1)}, {"keepdim", true}}, "any", DType::Bool, row_sizes);
        lowered.kept = call("aten::_to_copy", {{"self", any}, {"dtype", dtype}}, "kept", dtype, row_sizes);
        ValueId expanded = mask;
        if (!(sizes == graph_.type(mask).sizes)) expanded = call("aten::expand", {{"self", mask}, {"size", sizes}}, "expanded", DType::Bool, sizes);
        const ValueId number = call("aten::where.Scalar", {{"condition", expanded}, {"self", 0.0}, {"other", hidden}}, "number", DType::Float32, sizes);
        lowered.added = dtype == DType::Float32 ? number : call("aten::_to_copy", {{"self", number}, {"dtype", dtype}}, "added", dtype, sizes);
        return lowered;
    }

    Graph &graph_;
    Rewriter rewriter_;
    std::map<std::pair<ValueId, std::string>, Lowered> known_;
};

}  // namespace

int lower_masks(Graph &graph) { return Lowering(graph).run(); }

}  // namespace atalla
