// Program to assembly text that assembles back to the same packets, data words and symbols.
#pragma once

#include <string>

#include "isa/program.h"

namespace atalla {

// "add.s x1, x2, x3"; branches and jumps show their byte offset.
std::string assembly_text(const Instruction &instruction);
// "add.s x1, x2, x3 ; lw.s x4, 8(x5)"; nops after the last operation are left out.
std::string assembly_text(const Packet &packet);

// The whole program with labels, addresses and, from the source map, where each run of packets comes from.
std::string disassemble(const Program &program);

}  // namespace atalla
