// Runs a program on a machine of model Hardware, cycle for cycle by section 17 of the microarchitecture reference.
#pragma once

#include "isa/machine.h"
#include "isa/program.h"
#include "simulator/machine_state.h"
#include "simulator/simulator.h"
#include "simulator/timing/packets.h"

namespace atalla {

// How the clock advances. Skip jumps over cycles in which nothing can happen; EveryCycle visits each one and steps every
// unit in it. Both give the same result; the second exists so that tests can compare them.
enum class Advance { Skip, EveryCycle };

// Runs from address 0 to halt. `state` must be as at reset, its data memory may hold anything. A refusal is a result that
// is not ok: counters then tell how far the run came, and `state` is what it was when the simulator stopped. Throws Error if
// the machine is not of model Hardware or its values contradict each other.
RunResult run_timed(const Machine &machine, const Program &program, MachineState &state, const RunOptions &options = {},
                    Advance advance = Advance::Skip);
// The same with what was prepared for this machine and program; one run at a time may use it.
RunResult run_timed(const Machine &machine, const Program &program, timing::TimedProgram &prepared, MachineState &state,
                    const RunOptions &options = {}, Advance advance = Advance::Skip);

}  // namespace atalla
