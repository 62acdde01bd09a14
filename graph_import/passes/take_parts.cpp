// Lists of parts become slices or selections, each a call of its own; a linear layer of which only parts of the result are used becomes a layer
// for each part, with its rows of the weights.
#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "graph_import/passes.h"
#include "graph_import/passes/rewriter.h"
#include "graph_import/passes/row_slice.h"

namespace atalla {

namespace {

using Names = std::set<std::string_view>;

const Names splits = {"aten::split.Tensor", "aten::split_with_sizes", "aten::split.sizes", "aten::chunk", "aten::unsafe_split.Tensor"};

int64_t settled_dim(const Graph &graph, const Node &node) {
    const int64_t dim = node.integer("dim");
    return dim < 0 ? dim + static_cast<int64_t>(graph.type(node.tensor("self")).sizes.size()) : dim;
}

int split_lists(Graph &graph) {
    Rewriter rewriter(graph);
    return rewriter.sweep([&](Node &node) {
        const bool one_each = node.target == "aten::unbind.int";
        if ((!one_each && !splits.contains(node.target)) || std::ranges::any_of(node.outputs, [](ValueId id) { return !id; })) return;
        const int64_t dim = settled_dim(graph, node);
        const auto part = [&](size_t i, Node call) {
            rewriter.replace(node.outputs[i], rewriter.insert(std::move(call), fmt::format("{}_part", graph.value(node.outputs[i]).name), graph.type(node.outputs[i])));
        };
        SymInt at = 0;
        for (size_t i = 0; i < node.outputs.size(); i++) {
            const SymInt size = one_each ? SymInt(1) : graph.type(node.outputs[i]).sizes[static_cast<size_t>(dim)];
            if (one_each) part(i, make_call("aten::select.int", {{"self", *node.find("self")}, {"dim", SymInt(dim)}, {"index", at}}, node));
            else part(i, make_call("aten::slice.Tensor", {{"self", *node.find("self")}, {"dim", SymInt(dim)}, {"start", at}, {"end", at + size}, {"step", SymInt(1)}}, node));
            at = at + size;
        }
        node.target.clear();
    });
}

// With all elements between two.
std::optional<RowSlice> last_part(const Graph &graph, const Node &node) {
    const std::optional<RowSlice> slice = row_slice(graph, node);
    return slice && slice->step == 1 ? slice : std::nullopt;
}

class LinearSplitter {
public:
    explicit LinearSplitter(Graph &graph) : graph_(graph), rewriter_(graph) {
        const auto uses = graph.uses();
        for (const Node &node : graph.nodes) {
            if (node.target != "aten::linear" || graph.is_output(node.outputs[0]) || !graph.constant_data(node.tensor("weight"))) continue;
            if (const ValueId bias = node.optional_tensor("bias"); bias && !graph.constant_data(bias)) continue;
            int64_t taken = 0;
            const auto &users = uses[static_cast<size_t>(node.outputs[0].index)];
            const bool in_parts = !users.empty() && std::ranges::all_of(users, [&](int32_t user) {
                const std::optional<RowSlice> part = last_part(graph, graph.nodes[static_cast<size_t>(user)]);
                taken += part ? part->end - part->start : 0;
                return part.has_value();
            });
            if (in_parts && taken <= graph.type(node.outputs[0]).sizes.back().value()) split_.insert(node.outputs[0]);
        }
    }

    int run() {
        return rewriter_.sweep([&](Node &node) {
            if (node.target != "aten::slice.Tensor" || !split_.contains(node.tensor("self"))) return;
            const std::optional<RowSlice> part = last_part(graph_, node);
            const Node linear = *rewriter_.producer(node.tensor("self"));
            std::vector<NamedArgument> arguments = {{"input", *linear.find("input")}, {"weight", rows(linear.tensor("weight"), *part)}};
            if (const ValueId bias = linear.optional_tensor("bias")) arguments.push_back({"bias", rows(bias, *part)});
            node = make_call("aten::linear", std::move(arguments), node);
            rewriter_.count();
        });
    }

private:
    // The part of a constant's first dimension, as a view of the same storage.
    ValueId rows(ValueId id, const RowSlice &part) {
        HostTensor data = *graph_.constant_data(id);
        data.offset += part.start * data.strides[0];
        data.sizes[0] = part.end - part.start;
        return graph_.add_constant(fmt::format("{}_{}_{}", graph_.value(id).name, part.start, part.end), std::move(data));
    }

    Graph &graph_;
    Rewriter rewriter_;
    std::set<ValueId> split_;
};

}  // namespace

int take_parts(Graph &graph) { return split_lists(graph) + LinearSplitter(graph).run(); }

}  // namespace atalla
