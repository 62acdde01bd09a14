// Whether a model may be run with a size larger than a call's, the rest filled with anything: what it computes of the call's
// part must be what it computes without the rest.
#pragma once

#include <string>

#include "graph_import/graph.h"

namespace atalla {

// Of a symbol of the graph: empty if in all tensors of this size each position depends on the same position of the inputs
// alone, as the examples of a batch do; otherwise why not, naming the first node that mixes positions, or that is not known not
// to.
std::string dependence(const Graph &graph, const std::string &symbol);

}  // namespace atalla
