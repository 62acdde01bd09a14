// The shared slot to DRAM: one launch per cycle, round robin over the masters (rule 34).
#pragma once

#include <algorithm>
#include <array>
#include <bit>

#include "isa/machine.h"
#include "simulator/timing/cycle.h"

namespace atalla::timing {

// Masters in the order of the round robin: I$, D$, pads 0 to 3.
constexpr int instruction_master = 0, data_master = 1, first_pad_master = 2, master_count = 6;

// A beat as DRAM sees it, in one word: it passes from unit to unit in a register. `row` is for the DMA engine that launched it.
class Beat {
public:
    Beat() = default;
    Beat(uint32_t address, uint32_t row, uint32_t master, bool write)
        : word_(address | uint64_t{row} << row_at | uint64_t{master} << master_at | uint64_t{write} << write_at) {}
    uint32_t address() const { return static_cast<uint32_t>(word_); }
    uint32_t row() const { return static_cast<uint32_t>(word_ >> row_at & 0xFF); }
    int master() const { return static_cast<int>(word_ >> master_at & 0xFF); }
    bool write() const { return word_ >> write_at != 0; }

private:
    static constexpr int row_at = 32, master_at = 40, write_at = 48;
    uint64_t word_ = 0;
};

class Bus {
public:
    Bus(const Machine &machine, Wakes &wakes) : launches_(static_cast<int>(machine.bus.launches)), wake_(wakes.bus) {}

    // From which cycle on a master has a beat to launch; `never` while it has none or may not.
    void set_next_launch(int master, Cycle from) {
        const uint32_t bit = 1u << master;
        ready_ &= ~bit;
        later_ &= ~bit;
        if (from == never) {
            return;
        }
        (from <= next_step_ ? ready_ : later_) |= bit;
        from_[static_cast<size_t>(master)] = from;
        wake_ = std::min(wake_, from);
    }

    // Calls launch(master) for each launch of this cycle; it must set the master's next launch to a later cycle.
    template <class Launch>
    void step(Cycle now, Launch &&launch) {
        next_step_ = now + 1;
        for (uint32_t left = later_; left != 0; left &= left - 1) {
            const uint32_t come = uint32_t{from_[static_cast<size_t>(std::countr_zero(left))] <= now} << std::countr_zero(left);
            ready_ |= come;
            later_ &= ~come;
        }
        uint32_t ready = ready_;
        for (int count = 0; count < launches_ && ready != 0; count++) {
            // The first after the last one, around.
            const uint32_t behind = ready >> (last_ + 1) << (last_ + 1);
            last_ = std::countr_zero(behind != 0 ? behind : ready);
            ready &= ~(1u << last_);
            launch(last_);
        }
        Cycle next = ready_ != 0 ? next_step_ : never;
        for (uint32_t left = later_; left != 0; left &= left - 1) {
            next = std::min(next, from_[static_cast<size_t>(std::countr_zero(left))]);
        }
        wake_ = next;
    }

private:
    const int launches_;
    Cycle &wake_;
    // One bit a master: those that may launch in the next step, and those that may from a cycle on.
    uint32_t ready_ = 0, later_ = 0;
    std::array<Cycle, master_count> from_{};
    Cycle next_step_ = 0;          // no step before it is to come
    int last_ = master_count - 1;  // so that the instruction cache is first at reset
};

}  // namespace atalla::timing
