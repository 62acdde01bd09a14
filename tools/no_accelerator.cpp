// For builds without the operators, which need Halide.
#include "isa/error.h"
#include "tools/accelerator_registry.h"
#include "tools/planned_model.h"

namespace atalla {

const OperatorRegistry *accelerator_registry() { return nullptr; }

PlannedModel planned_model(const Graph &, const ModelOptions &, const std::set<std::string> &) {
    throw Error("this build has no compiler, which makes the plan");
}

}  // namespace atalla
