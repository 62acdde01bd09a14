// Where the tensors of a kernel lie in memory when it is run by itself. Cycles depend on it: whoever tunes, and whoever
// promises the cycles of what was tuned, must place alike.
#pragma once

#include <cstdint>
#include <vector>

#include "isa/machine.h"

namespace atalla {

// Bytes before and after each tensor that belong to nobody.
constexpr uint64_t tensor_guard_bytes = 64;

// The first byte address from `at` on where a tensor of so many bytes should start: a multiple of 2 KiB; that of a page of
// the DRAM or more in the middle of a page, that of more than eight of an even one.
uint64_t tensor_start(uint64_t at, uint64_t bytes, const Machine &machine);

// Byte addresses of inputs then outputs, whose sizes in bytes are given: above the parameter block, each at its tensor_start().
// Error if memory cannot hold them.
std::vector<uint64_t> place_tensors(const std::vector<uint64_t> &bytes, const Machine &machine);

}  // namespace atalla
