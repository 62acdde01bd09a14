// Whether the fast timing model and the reference agree on a program, and the smallest program on which they do not.
#pragma once

#include <functional>
#include <string>

#include "isa/machine.h"
#include "isa/program.h"
#include "simulator/simulator.h"

namespace atalla {

// Runs both models from reset and compares refusal, every counter, issues and stalls of every packet, registers, masks,
// weights, pads and memory. Empty if they agree, otherwise what differs first, as a sentence. `fast` gets the result of
// the fast model if it is not null.
std::string disagreement(const Machine &machine, const Program &program, const RunOptions &options = {},
                         RunResult *fast = nullptr);

// Makes packets nops, then leaves them out, then single operations, for as long as `fails` stays true. Branches by offset keep
// their targets. `fails(program)` must hold; the packets of the program must follow each other without gaps.
Program shrink(Program program, const std::function<bool(const Program &)> &fails);

}  // namespace atalla
