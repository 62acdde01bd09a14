// The shared slot to DRAM: one launch per cycle, round robin over the masters (rule 34).
#pragma once

#include <algorithm>
#include <array>

#include "isa/machine.h"
#include "simulator/timing/cycle.h"

namespace atalla::timing {

// Masters in the order of the round robin: I$, D$, pads 0 to 3.
constexpr int instruction_master = 0, data_master = 1, first_pad_master = 2, master_count = 6;

// A beat as DRAM sees it. `tag` is for the master that launched it.
struct Beat {
    uint32_t address = 0;
    uint32_t tag = 0;
    uint8_t master = 0;
    bool write = false;
};

class Bus {
public:
    Bus(const Machine &machine, Wakes &wakes) : launches_(static_cast<int>(machine.bus.launches)), wake_(wakes.bus) {
        next_launch_.fill(never);
    }

    // From which cycle on a master has a beat to launch; `never` while it has none or may not.
    void set_next_launch(int master, Cycle from) {
        next_launch_[master] = from;
        wake_ = std::min(wake_, from);
    }

    // Calls launch(master) for each launch of this cycle; it must set the master's next launch to a later cycle.
    template <class Launch>
    void step(Cycle now, Launch &&launch) {
        for (int count = 0; count < launches_; count++) {
            int candidate = last_;
            for (int tried = 0; tried < master_count; tried++) {
                candidate = candidate + 1 == master_count ? 0 : candidate + 1;
                if (next_launch_[candidate] <= now) {
                    last_ = candidate;
                    launch(candidate);
                    break;
                }
            }
        }
        wake_ = *std::ranges::min_element(next_launch_);
    }

private:
    const int launches_;
    Cycle &wake_;
    std::array<Cycle, master_count> next_launch_;
    int last_ = master_count - 1;  // so that the instruction cache is first at reset
};

}  // namespace atalla::timing
