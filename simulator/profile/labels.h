// What a slice and a packet are called: by instruction, with where they came from.
#pragma once

#include <string>

#include "isa/program.h"
#include "simulator/profile/trace.h"

namespace atalla {

// "add.vv v5, v4, v3, m0"; of a wait the cause, of a beat who asked for it.
std::string slice_name(const Slice &slice, const Track &track, const Program &program);

// The part of the program that a packet belongs to: "P.s0 / k_outer (aten::addmm)" by the source map, else the label at or
// before it; "" if neither is known.
std::string part_of(int32_t packet, const Program &program);

// The same, or "line 12" of the file.
std::string origin_of(int32_t packet, const Program &program);

}  // namespace atalla
