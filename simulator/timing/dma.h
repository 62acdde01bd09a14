// The DMA engines, one for each pad: tiles between DRAM and pad rows (rules 29 to 33).
#pragma once

#include <array>

#include "isa/machine.h"
#include "simulator/semantics.h"
#include "simulator/timing/bus.h"
#include "simulator/timing/cycle.h"
#include "simulator/timing/observer.h"
#include "simulator/timing/scoreboard.h"

namespace atalla::timing {

// A transfer as scpad.ld or scpad.st started it. `order` is the number of its packet in the order of issue.
struct Transfer {
    DmaTile tile;
    bool is_load = false;
    RegisterId base = no_register;  // rs1, busy to the end
    int32_t packet = -1;            // index in the program
    uint64_t order = 0;
};

class Dma {
public:
    Dma(const Machine &machine, Bus &bus, Scoreboard &scoreboard, Wakes &wakes, Observer *observer);

    // 0 if the engine of a pad is free for a packet that issues now, else when it is free, `never` if that is not known.
    Cycle blocked_until(uint32_t pad, Cycle now) const { return free_at_[pad] > now ? free_at_[pad] : 0; }
    [[gnu::noinline]] void start(const Transfer &transfer, Cycle now);

    // The transfer in flight on a pad in this cycle, its last one included; nullptr if there is none (rule 53).
    const Transfer *in_flight(uint32_t pad, Cycle now) const { return free_at_[pad] > now ? &engines_[pad].transfer : nullptr; }
    // Whether a transfer in flight in this cycle holds this register.
    bool holds(RegisterId reg, Cycle now) const {
        for (uint32_t pad = 0; pad < engines_.size(); pad++) {
            if (const Transfer *transfer = in_flight(pad, now); transfer != nullptr && transfer->base == reg) {
                return true;
            }
        }
        return false;
    }
    const Transfer &transfer(uint32_t pad) const { return engines_[pad].transfer; }

    // From which cycle on the engine presents its next row to its pad; `never` while it has none or may not.
    Cycle next_present(uint32_t pad) const { return present_at_[pad]; }
    // The pad accepts the row presented. Returns its index in the tile.
    int accept_row(uint32_t pad, Cycle now);
    // The pad starts to write the next row of a load, or to read that of a store.
    void row_started(uint32_t pad, Cycle now);

    Beat launch(uint32_t pad, Cycle now);
    // A beat of row `row` completed. Returns whether the transfer ends.
    bool arrive(uint32_t pad, uint32_t row, Cycle now);

    // The end of the last transfer that ended (rule 41).
    Cycle last_end() const { return last_end_; }

private:
    struct Engine {
        Transfer transfer;
        Cycle issued = 0;
        int next_present = 0;       // row
        int rows_started = 0;       // by the pad
        Cycle accepted = long_ago;  // the row before
        // The next beat to launch: its row and address, and the last of the row.
        int launch_row = 0;
        uint32_t launch_address = 0, launch_last = 0;
        int64_t outstanding = 0;           // beats launched and not completed
        std::array<int, 32> beats_left{};  // load: beats of a row that have not arrived
        // Load: a row may be presented to the pad from here on. Store: its beats may be launched from here on.
        std::array<Cycle, 32> row_ready_at{};
        int rows() const { return static_cast<int>(transfer.tile.rows); }
    };

    void begin_row(Engine &engine) const;
    void update_launch(uint32_t pad, Cycle from);
    void update_present(Engine &engine, Cycle from);
    void end(Engine &engine, Cycle last);

    const Machine::Sdma timing_;
    const Cycle write_land_, row_held_;
    Bus &bus_;
    Scoreboard &scoreboard_;
    Wakes &wakes_;
    Observer *const observer_;
    std::array<Engine, 4> engines_;
    // By pad, apart from the rest because every access asks: when its engine is free, and presents its next row.
    std::array<Cycle, 4> free_at_{}, present_at_ = {never, never, never, never};
    Cycle last_end_ = long_ago;
};

}  // namespace atalla::timing
