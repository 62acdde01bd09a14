// Ring buffers: allocations of two slots, of which one is computed on while transfers fill or empty the other.
#pragma once

#include <map>

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

struct Ring {
    int atom = -1, loop = -1;  // the slot's number, and the loop that changes it
    int64_t rows = 0;          // of a slot
    bool usable = true;
    bool computed = false;  // operations read or write it: what copies alone touch needs no slot ahead
    bool copied = false;    // transfers change its slot: what operations alone touch names it by the number
    Reg current = {};       // byte address (in the pads) of the slot this iteration computes on
};

class Rings {
public:
    // With `ahead` off there are none: every access names its slot by the loop's number.
    Rings(Kernel &kernel, bool ahead);

    // Null if the allocation has one slot, or slots that its accesses do not name alike, or copies alone touch it, or none
    // does.
    const Ring *of(int allocation) const;
    // The register that holds where its current slot begins in the pads; bytes from slot to slot; where the first one begins.
    Reg slot(int allocation);
    int64_t slot_bytes(int allocation) const;
    int64_t first_byte(int allocation) const;
    // Accesses to a ring go through its slot register instead of `loop % 2`.
    void use_slots(Body &body);
    // current -> the other slot: both are linear in one sum.
    Op other_slot(int allocation, Reg dst, Reg from);

private:
    void note(int allocation, const LinearForm &row);
    // What runs before all loops (fills of every slot) names slots by number.
    void find(const Body &body, int depth);

    Kernel &kernel_;
    std::map<int, Ring> rings_;  // by allocation
};

}  // namespace atalla::codegen
