// Replaces values and nodes of a graph in one sweep from its inputs to its outputs.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph_import/graph.h"

namespace atalla {

// A call of `target` with its schema's defaults for what is not given. Error if an argument is missing or not the
// schema's.
Node make_call(std::string target, std::vector<NamedArgument> given, const Node &origin);
// The call of `node` with another tensor as `self`.
Node call_on(ValueId self, const Node &node, const Node &origin);

class Rewriter {
public:
    explicit Rewriter(Graph &graph);

    // Calls `visit` with each node, whose operands are already the replaced ones. It may change the node in place, insert
    // nodes before it with `insert`, replace its results, and erase it by clearing its target.
    template <typename Visit>
    int sweep(Visit &&visit) {
        std::vector<Node> old = std::move(graph_.nodes);
        graph_.nodes.clear();
        for (Node &node : old) {
            resolve(node);
            visit(node);
            if (!node.target.empty()) push(std::move(node));
        }
        finish();
        return changes_;
    }

    // Later uses of `from` become uses of `to`.
    void replace(ValueId from, ValueId to);
    // A new node before the one that is visited; its result has this type.
    ValueId insert(Node node, const std::string &name, TensorType type);
    // The same of a node whose results are there already, one or several.
    void insert_whole(Node node) { push(std::move(node)); }
    // The node that computes a value, among those that were visited; null for an input.
    const Node *producer(ValueId id) const;
    void count() { changes_++; }

private:
    void resolve(Node &node);
    void push(Node node);
    void finish();

    Graph &graph_;
    std::map<ValueId, ValueId> replaced_;
    int changes_ = 0;
};

// Calls of one tensor, `self`, that compute each element by itself.
bool is_element_wise(std::string_view target);

bool same_type(const TensorType &a, const TensorType &b);  // element type and sizes
TensorType dense_type(DType dtype, Sizes sizes);
Sizes broadcast(Sizes a, Sizes b);  // of two tensors that do

// The indices of dimensions that a canonical permute has.
std::vector<int64_t> permutation(const Node &node);

}  // namespace atalla
