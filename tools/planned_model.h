// What the compiler would make of a model, as inspect prints and draws it.
#pragma once

#include <set>
#include <string>

#include "graph_import/graph.h"

namespace atalla {

struct PlannedModel {
    std::string text, svg;
};

// At the sizes that the model was exported with, with what the user's database knows. Error as from compile_model(), or in a build
// without the operators.
PlannedModel planned_model(const Graph &graph, const std::string &machine, const std::set<std::string> &skipped_passes);

}  // namespace atalla
