// What an A48 instruction does to the state.
#pragma once

#include "isa/a48.h"
#include "simulator/a48_state.h"
#include "simulator/semantics.h"

namespace atalla::a48 {

// Executes one slot of the packet at `pc`. `out` holds what earlier slots left there. Throws Refusal where upstream's
// simulator aborts.
void execute(State &state, const Instruction &instruction, int64_t pc, PacketOutcome &out);

}  // namespace atalla::a48
