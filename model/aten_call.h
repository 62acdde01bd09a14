// A node of a graph as the operator registry asks for it.
#pragma once

#include <vector>

#include "generators/operator.h"
#include "graph_import/graph.h"

namespace atalla {

struct NodeCall {
    AtenCall call;
    std::vector<ValueId> tensors;  // of the call, in its order, lists flattened
};

// Error if a size is not constant.
NodeCall aten_call(const Graph &graph, const Node &node);

ElementType element_type(DType type);

}  // namespace atalla
