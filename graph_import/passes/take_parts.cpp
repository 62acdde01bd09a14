// Lists of parts become slices or selections, each a call of its own; a linear layer of which only parts of the result are used
// becomes a layer for each part, with its rows of the weights.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph_import/passes.h"
#include "graph_import/passes/rewriter.h"
#include "graph_import/passes/row_part.h"

namespace atalla {

namespace {

using Names = std::set<std::string_view>;

const Names splits = {"aten::split.Tensor", "aten::split_with_sizes", "aten::split.sizes", "aten::chunk",
                      "aten::unsafe_split.Tensor"};

int64_t settled_dim(const Graph &graph, const Node &node) {
    const int64_t dim = node.integer("dim");
    return dim < 0 ? dim + static_cast<int64_t>(graph.type(node.tensor("self")).sizes.size()) : dim;
}

int split_lists(Graph &graph) {
    Rewriter rewriter(graph);
    return rewriter.sweep([&](Node &node) {
        const bool one_each = node.target == "aten::unbind.int";
        if ((!one_each && !splits.contains(node.target)) || std::ranges::any_of(node.outputs, [](ValueId id) { return !id; }))
            return;
        const int64_t dim = settled_dim(graph, node);
        const auto part = [&](size_t i, Node call) {
            rewriter.replace(node.outputs[i],
                             rewriter.insert(std::move(call), fmt::format("{}_part", graph.value(node.outputs[i]).name),
                                             graph.type(node.outputs[i])));
        };
        SymInt at = 0;
        for (size_t i = 0; i < node.outputs.size(); i++) {
            const SymInt size = one_each ? SymInt(1) : graph.type(node.outputs[i]).sizes[static_cast<size_t>(dim)];
            if (one_each)
                part(i,
                     make_call("aten::select.int", {{"self", *node.find("self")}, {"dim", SymInt(dim)}, {"index", at}}, node));
            else
                part(i, make_call("aten::slice.Tensor",
                                  {{"self", *node.find("self")},
                                   {"dim", SymInt(dim)},
                                   {"start", at},
                                   {"end", at + size},
                                   {"step", SymInt(1)}},
                                  node));
            at = at + size;
        }
        node.target.clear();
    });
}

class LinearSplitter {
public:
    explicit LinearSplitter(Graph &graph) : graph_(graph), rewriter_(graph), uses_(graph.uses()) {
        for (const Node &node : graph.nodes) {
            if (node.target != "aten::linear" || !graph.constant_data(node.tensor("weight"))) continue;
            if (const ValueId bias = node.optional_tensor("bias"); bias && !graph.constant_data(bias)) continue;
            const Sizes &sizes = graph.type(node.outputs[0]).sizes;
            std::map<ValueId, RowPart> parts;
            int64_t taken = 0;
            if (!in_parts(node.outputs[0], Places(sizes), sizes, parts)) continue;
            for (const auto &[id, part] : parts) taken += part.end - part.start;
            if (taken > sizes.back().value()) continue;
            for (const auto &[id, part] : parts) parts_[id] = {node.outputs[0], part};
        }
    }

    int run() {
        return rewriter_.sweep([&](Node &node) {
            const auto found = node.outputs.size() == 1 ? parts_.find(node.outputs[0]) : parts_.end();
            if (found == parts_.end()) return;
            const auto &[whole, part] = found->second;
            const Node linear = *rewriter_.producer(whole);
            std::vector<NamedArgument> arguments = {{"input", *linear.find("input")},
                                                    {"weight", rows(linear.tensor("weight"), part)}};
            if (const ValueId bias = linear.optional_tensor("bias")) arguments.push_back({"bias", rows(bias, part)});
            Node layer = make_call("aten::linear", std::move(arguments), node);
            const TensorType &result = graph_.type(node.outputs[0]);
            Sizes sizes = graph_.type(whole).sizes;
            sizes.back() = part.end - part.start;
            if (sizes == result.sizes)
                node = std::move(layer);
            else {
                const ValueId value = rewriter_.insert(std::move(layer), graph_.value(node.outputs[0]).name + "_layer",
                                                       dense_type(result.dtype, sizes));
                node = make_call("aten::view", {{"self", value}, {"size", result.sizes}}, node);
            }
            rewriter_.count();
        });
    }

private:
    // Whether whatever is made of these places of a layer's result is made of parts of its rows, which are found.
    bool in_parts(ValueId id, const Places &places, const Sizes &whole, std::map<ValueId, RowPart> &parts) const {
        const auto &users = uses_[static_cast<size_t>(id.index)];
        return !graph_.is_output(id) && std::ranges::all_of(users, [&](int32_t user) {
            const Node &node = graph_.nodes[static_cast<size_t>(user)];
            const std::optional<Places> left =
                node.outputs.size() == 1 ? places.after(node, graph_.type(node.outputs[0]).sizes) : std::nullopt;
            if (!left) return false;
            const std::optional<RowPart> part = left->part_of_rows(whole);
            if (!part || part->end - part->start == whole.back().value()) return in_parts(node.outputs[0], *left, whole, parts);
            parts[node.outputs[0]] = *part;
            return true;
        });
    }

    // The part of a constant's first dimension, as a view of the same storage.
    ValueId rows(ValueId id, const RowPart &part) {
        HostTensor data = *graph_.constant_data(id);
        data.offset += part.start * data.strides[0];
        data.sizes[0] = part.end - part.start;
        return graph_.add_constant(fmt::format("{}_{}_{}", graph_.value(id).name, part.start, part.end), std::move(data));
    }

    Graph &graph_;
    Rewriter rewriter_;
    std::vector<std::vector<int32_t>> uses_;
    std::map<ValueId, std::pair<ValueId, RowPart>> parts_;  // a value, and what it is a part of
};

}  // namespace

int take_parts(Graph &graph) {
    const int lists = split_lists(graph);
    return lists + LinearSplitter(graph).run();
}

}  // namespace atalla
