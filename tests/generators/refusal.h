// What an operator says of a workload that it does not take.
#pragma once

#include <string>

#include "generators/registry.h"
#include "tests/support/error_of.h"

namespace atalla {

inline std::string refusal(const std::string &op, const WorkloadArguments &arguments) {
    return error_of([&] { find_operator(op).workload(arguments); });
}

}  // namespace atalla
