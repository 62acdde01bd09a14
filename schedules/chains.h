// The shortest waits from one thing to the next, for the start and the end of every bound. docs/bounds.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "isa/machine.h"

namespace atalla {

// Cycles. "A to B" is from the cycle in which A happens to the first in which B can; ends are cycle counts of a run.
struct Chains {
    // Reset to the first issue: looked up in 0, requested in 1, row opened, beat arrived, used (rules 2, 3).
    int64_t first_packet;
    int64_t constant;        // an operation to a packet that reads the scalar register it writes
    int64_t transfer;        // scpad.ld or scpad.st issued to its first beat or row (rules 32, 33)
    int64_t arrival;         // a column command to its data (rule 36)
    int64_t beat_to_vector;  // the command of a load's last beat to a packet that uses the vector: pad written, vreg.ld (28,
                             // 31, 32)
    int64_t row_to_vector;   // gemm.vv to a packet that uses its result (rule 20)
    int64_t sum_to_vector;   // add to a packet that uses its result
    int64_t vector_to_end;   // a packet that stores a vector to the end: scpad.st a packet later, its last beat complete (33,
                             // 41, 53)
    int64_t scalar_load, scalar_store;  // lw.s to a packet that uses its result; sw.s to the end
    int64_t element_to_vector;          // a scalar register to a vector that holds it, by a lane operation
    int64_t switch_gap;      // idle cycles of the array between the last row of a tile and the first load of the next (24, 52)
    int64_t element_to_end;  // a packet that takes an element out of a vector to the end of its store

    explicit Chains(const Machine &machine) {
        const auto &[dram, sdma, pad, vlsu, vec] = std::tie(machine.dram, machine.sdma, machine.pad, machine.vlsu, machine.vec);
        const int64_t use = 1 + machine.wb.offer_to_use;
        first_packet = 1 + dram.open_closed + dram.complete + 1;
        constant = std::min(machine.ex1.L, vec.mov_to_scalar_L) + use;
        transfer = sdma.setup;
        arrival = dram.complete;
        beat_to_vector = arrival + 1 + pad.write_land + 1 + vlsu.present + pad.read_L + vlsu.load_extra + use - 1;
        row_to_vector = machine.sa.L + use;
        sum_to_vector = vec.add_L + use;
        vector_to_end = 1 + transfer + pad.read_L + sdma.load_extra + arrival + 1;
        scalar_load = machine.ex5.load_hit + machine.dcache.miss_clean + use;
        scalar_store = machine.ex5.store_hit + 2;
        element_to_vector = std::min(vec.add_L, vec.mul_L) + use;
        switch_gap = machine.sa.weight_buffers > 1 ? 0 : std::max<int64_t>(0, machine.sa.switch_spacing - 1);
        element_to_end = vec.mov_to_scalar_L + use + scalar_store;
    }

    // The first column command of a tensor's beat by DMA: its address is not 0, where the program lies, so a packet made it.
    int64_t first_beat() const { return first_packet + constant + transfer; }
    // The first packet that can use a vector, or a scalar, of a tensor, and the shortest way out, if scalar registers may carry
    // elements.
    int64_t any_vector() const {
        return std::min(first_beat() + beat_to_vector, first_packet + scalar_load + element_to_vector);
    }
    int64_t any_scalar() const { return std::min(first_beat() + beat_to_vector, first_packet + scalar_load); }
    int64_t any_end() const { return std::min(vector_to_end, element_to_end); }
};

}  // namespace atalla
