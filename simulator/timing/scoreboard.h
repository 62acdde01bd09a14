// Busy registers: from which cycle on a packet that names a register may issue (rule 5).
#pragma once

#include <array>

#include "isa/instruction.h"
#include "simulator/timing/cycle.h"

namespace atalla::timing {

// A register of any file as one number. The constants x0, v0 and m0 are never busy and share `no_register`.
using RegisterId = uint16_t;
constexpr RegisterId vector_base = 256, mask_base = 512, no_register = 528;
constexpr RegisterId always_free = no_register + 1;  // no packet writes it
constexpr size_t register_ids = always_free + 1;

inline RegisterId register_id(Register reg) {
    if (is_constant(reg)) {
        return no_register;
    }
    constexpr RegisterId base[] = {0, vector_base, mask_base};
    return static_cast<RegisterId>(base[static_cast<int>(reg.cls)] + reg.number);
}

class Scoreboard {
public:
    // Busy with a result or a transfer (rule 30) until release().
    void reserve(RegisterId reg) { free_at_[reg] = never; }
    // Free for packets that issue in cycle `from` or later.
    void release(RegisterId reg, Cycle from) { free_at_[reg] = from; }

    // `never` while nobody knows.
    Cycle free_at(RegisterId reg) const { return free_at_[reg]; }

private:
    std::array<Cycle, register_ids> free_at_{};
};

}  // namespace atalla::timing
