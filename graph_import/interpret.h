// Runs a graph on the host, node by node, in PyTorch's arithmetic: to fold constants, to check passes, to compare with.
#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "graph_import/graph.h"

namespace atalla {

// Whether the host has a kernel of this target ("aten::add.Tensor"), or it needs none.
bool can_interpret(std::string_view target);

// The results of one call of constant shape, given the values of its operands. Error naming the operator if it cannot be
// computed, or if a result has not the type and sizes that the graph says.
std::vector<HostTensor> interpret_node(const Graph &graph, const Node &node,
                                       const std::function<const HostTensor &(ValueId)> &operands);

struct Interpretation {
    std::vector<std::optional<HostTensor>> outputs;  // of User outputs in order; none where it is no tensor
    std::map<int32_t, HostTensor> mutated;           // new values of mutated inputs, by index into Graph::inputs
};

// `user_inputs` are the tensors of the User inputs in order. Symbols are bound to their sizes; guards and ranges hold, or
// Error. `state` replaces the data of buffers by index into Graph::inputs, as `mutated` of an earlier run gives it.
Interpretation interpret(const Graph &graph, const std::vector<HostTensor> &user_inputs,
                         const std::map<int32_t, HostTensor> &state = {});

}  // namespace atalla
