// How the address of rows goes on from iteration to iteration of a loop.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// Bytes of a pointer in the first iteration of a loop, and from each to the next: `usual`, but `jump` behind each `period`-th
// one; 0: there are none.
struct PointerSteps {
    int64_t first = 0, usual = 0, jump = 0, period = 0;
};

// Of a pointer of these terms, bytes by atoms, as far as they depend on the loop. Nothing if steps differ otherwise, or at all
// where they may not (`may_jump`).
std::optional<PointerSteps> pointer_steps(const Kernel &kernel, const std::map<int, int64_t> &terms, const Loop &loop,
                                          bool may_jump);

// Bytes of the terms that depend on the loop in its first iteration, if these are its variable and quotients of that, of which
// the next one takes few operations.
std::optional<int64_t> first_of_quotients(const Kernel &kernel, const std::map<int, int64_t> &terms, const Loop &loop);

// Is a loop a visit of an array that forms sums itself? Its pointers need no constant steps: with weights of its own it has no
// stages that run idle, no sums that run later, and time to count beside its rows.
bool sums_visit(const Kernel &kernel, const Loop &loop);

}  // namespace atalla::codegen
