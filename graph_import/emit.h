// A graph in the forms of other tools.
#pragma once

#include <string>

#include "graph_import/graph.h"

namespace atalla {

// One MLIR module with a function `forward` whose arguments are all inputs, weights included, named by attributes.
// Operations of arith, math, linalg and tensor where one means the same; the others in generic form, "aten.linear"(...).
// mlir-opt --allow-unregistered-dialect reads and verifies it.
std::string emit_mlir(const Graph &graph);

// Graphviz: a box for each call, an ellipse for each input and output.
std::string emit_dot(const Graph &graph);

// A program for dc that reads each input from a line of standard input and prints each output. Error naming the operator
// or value if the graph is more than arithmetic on single numbers.
std::string emit_rpn(const Graph &graph);

}  // namespace atalla
