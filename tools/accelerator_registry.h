// The accelerator's operators as the importer's reports ask for them.
#pragma once

#include "graph_import/support.h"

namespace atalla {

// Null in a build without the operators.
const OperatorRegistry *accelerator_registry();

}  // namespace atalla
