// The state of an A48 machine where it differs from A40: pad cells that may be empty, a spill store, raw weights.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "simulator/machine_state.h"

namespace atalla::a48 {

using Vector = std::array<float, lanes>;

// A scratchpad of 32 banks x 32 slots; a cell that was never written is empty.
struct Pad {
    float cell[lanes][lanes] = {};  // [slot][bank]
    bool filled[lanes][lanes] = {};
};

// Vectors in the order they were loaded; the first load after a gemm starts over (quirk 12).
struct Weights {
    alignas(64) float row[lanes][lanes] = {};
    uint32_t count = 0;
    bool used = false;  // a gemm ran since the last load
};

struct State : Registers {
    std::array<Pad, 2> pads{};
    std::unordered_map<uint32_t, Vector> spills;  // vreg.* at addresses from 1024 on
    Weights weights;
    Traffic traffic;
    WordMemory words{uint64_t{1} << 30};  // as much as the machine fsim has

    // Everything but data memory.
    void reset() {
        static_cast<Registers &>(*this) = {};
        pads = {};
        spills.clear();
        weights = {};
        traffic = {};
    }
};

}  // namespace atalla::a48
