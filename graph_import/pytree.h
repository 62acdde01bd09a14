// The calling convention of a model: how its flat outputs are named in what it returns.
#pragma once

#include <string>
#include <vector>

#include "graph_import/json_view.h"

namespace atalla {

// "logits", "past.0", or "0" where there is no name: one for each leaf of what the model returns, in order. Empty if the
// module (`graph_module` of an exported program) does not say, or in a form that is not understood.
std::vector<std::string> output_names(const JsonView &module);

}  // namespace atalla
