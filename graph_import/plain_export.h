// What only plain exports hold: blocks that set a mode, and operators that write to their operands.
#pragma once

#include <string>

#include "graph_import/graph.h"

namespace atalla {

// Inlines `wrap_with_set_grad_enabled`. Error that names `run_decompositions({})` if the graph mutates a tensor or uses
// autocast, since then the file does not say what the program computes. `name` stands for the file.
void settle_plain_export(Graph &graph, const std::string &name);

}  // namespace atalla
