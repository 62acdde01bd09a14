// A loadable and its runs in JSON, and a loadable as text: for inspect, for reports and for the C interface.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "runtime/context.h"
#include "runtime/model.h"

namespace atalla {

// Format, machine, inputs and outputs, constants, and for each specialization its memory, code and steps.
nlohmann::ordered_json describe(const Model &model);
// Who ran what in the last run, with cycles, counters and times.
nlohmann::ordered_json describe_run(const Context &context);

// The same for people.
std::string describe_text(const Model &model);

}  // namespace atalla
