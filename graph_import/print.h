// A graph for people (a table, code, summaries) and for programs (JSON).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "graph_import/import.h"

namespace atalla {

// "f32[1, s77, 64]"; with strides where the tensor is not dense: "f32[4, 5] strides [1, 4]".
std::string type_text(const TensorType &type);
// "x", "[a, None]", "0.5", "true", "'mean'".
std::string argument_text(const Graph &graph, const Argument &argument);

// One row for each input, call and output: kind, name, target, arguments, type.
std::string print_table(const Graph &graph);
// "def forward(x: f32[4, 8]): ..." with one call a line. Arguments that have their default are left out.
std::string print_code(const Graph &graph);
// Operators with the number of calls, most frequent first; parameters, buffers and constants; symbols and guards.
std::string print_operators(const Graph &graph);
std::string print_parameters(const Graph &graph);
std::string print_symbols(const Graph &graph);

nlohmann::json graph_json(const Graph &graph);
nlohmann::json model_json(const ImportedModel &model);

// Left-aligned columns, two spaces apart, a rule under the first row.
std::string columns(const std::vector<std::vector<std::string>> &rows);

}  // namespace atalla
