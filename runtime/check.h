// Is a loadable whole and consistent? Everything that the runtime relies on without looking again.
#pragma once

#include <cstdint>
#include <span>

#include "isa/machine.h"
#include "runtime/loadable_generated.h"

namespace atalla {

// The table of the bytes. Error (without the file's name) for other files, damaged ones and other versions.
const loadable::Model *verified_table(std::span<const uint8_t> bytes);

// The machine that the model is for. Error if its values contradict each other or its fingerprint.
Machine machine_of(const loadable::Model &model);

// Error naming the first index, size or address that is out of range.
void check_contents(const loadable::Model &model, const Machine &machine);

}  // namespace atalla
