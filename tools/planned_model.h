// What the compiler would make of a model, as inspect prints and draws it.
#pragma once

#include <set>
#include <string>

#include "graph_import/graph.h"
#include "tools/model_options.h"

namespace atalla {

struct PlannedModel {
    std::string text, json, svg;
};

// Of the first sizes, with what the database knows. Error as from compile_model(), or in a build without the operators.
PlannedModel planned_model(const Graph &graph, const ModelOptions &how, const std::set<std::string> &skipped_passes);

}  // namespace atalla
