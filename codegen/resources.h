// What a packet and the units can take in a cycle: the table that both schedulers fill.
#pragma once

#include <array>
#include <vector>

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// Reservations by cycle; with an initiation interval, cycle c and c + interval are the same.
class ResourceTable {
public:
    ResourceTable(const Kernel &kernel, int interval) : kernel_(kernel), machine_(*kernel.machine), interval_(interval) {
        if (interval > 0) rows_.resize(interval);
    }
    bool fits(const Op &op, int cycle) const;
    void take(const Op &op, int cycle);

private:
    struct Row {
        int slots = 0, scalar_reads = 0, vector_reads = 0, mask_reads = 0, array = 0, lanes = 0, to_scalar = 0;
        std::array<bool, 16> issued{};      // by unit: an operation of this packet
        std::array<bool, 16> busy{};        // by unit: an earlier operation still keeps it
        std::array<bool, 4> vlsu{}, sdma{};
        std::array<uint8_t, 4> scalar_banks{}, vector_banks{};
        std::array<bool, 4> read_started{}, write_started{};   // by pad
    };
    const Row *row(int cycle) const;
    Row &at(int cycle);
    int busy_cycles(const Op &op) const;

    const Kernel &kernel_;
    const Machine &machine_;
    int interval_;
    std::vector<Row> rows_;
};

// Cycles that a block cannot take less than, from its busiest resource.
int resource_bound(const Kernel &kernel, const std::vector<Op> &ops);

}  // namespace atalla::codegen
