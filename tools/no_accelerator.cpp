// For builds without the operators, which need Halide.
#include "tools/accelerator_registry.h"

namespace atalla {

const OperatorRegistry *accelerator_registry() { return nullptr; }

}  // namespace atalla
