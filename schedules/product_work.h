// What a product does, for the bounds of kernels of several.
#pragma once

#include <cstdint>

#include "isa/machine.h"
#include "schedules/bounds.h"

namespace atalla {

// What the programs of Programs::Tiled do for C[m,n] = A[m,k] B[k,n] (+ an addend, if `added`) on the array and with lanes,
// with the stationary operand that suits the array; and the vectors of B and C that pass between pads and registers, those of A
// only if it `comes` from memory.
KernelWork product_work(const Machine &machine, int64_t m, int64_t n, int64_t k, bool added, bool comes);

}  // namespace atalla
