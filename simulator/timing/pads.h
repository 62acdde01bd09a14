// Scratchpads, each with its VLSU: requests queue, reads and writes start, results are offered (rules 25 to 28, 51).
#pragma once

#include <array>

#include "isa/machine.h"
#include "simulator/timing/cycle.h"
#include "simulator/timing/dma.h"
#include "simulator/timing/hazards.h"
#include "simulator/timing/writeback.h"

namespace atalla::timing {

class Pad {
public:
    Pad(uint32_t number, const Machine &machine, Dma &dma, Writeback &writeback, const Hazards &hazards, Wakes &wakes,
        Observer *observer);

    // Whether a vreg.ld (or vreg.st) may issue (rule 26).
    bool accepts(bool store) const {
        return store ? stores_waiting_ < store_queue_
                     : loads_ - static_cast<int64_t>(writeback_.written(source_)) < load_queue_;
    }

    // A vreg.ld (or vreg.st) of a row issues now. `destination` is the vector that a load gives.
    void issue(bool write, uint32_t row, RegisterId destination, int32_t packet, uint64_t order, Cycle now);

    // Accepts requests, then starts the oldest read and the oldest write. Throws PacketRefusal (rule 51). Returns whether
    // something happened that the issue of the next cycle may wait for.
    bool step(Cycle now);

    // Reads and writes started.
    uint64_t started(bool write) const { return started_[write]; }
    // The latest landing of a write (rule 41).
    Cycle last_landing() const { return last_landing_; }

private:
    // Small, so that they stay in the host's cache: few requests wait at a time.
    struct Requests : Queue<PadRequest> {
        Requests() : Queue(8) {}
    };

    bool full() const { return waiting_[0].size() >= queue_ || waiting_[1].size() >= queue_; }
    [[gnu::noinline]] bool step_queues(Cycle now, bool row_presented);
    void accept(Cycle now, bool row_presented);
    PadRequest row_from_dma(Cycle now);
    bool pass_access(Cycle now, Cycle next_row);
    bool pass_row(Cycle now);
    bool may_start(bool write, Cycle now) const { return !waiting_[write].empty() && now >= next_start_[write]; }
    void check_order(const PadRequest &starting, Cycle now) const {
        if (pending_[!starting.write][starting.row % filter_size] != 0) {
            find_overtaken(starting, now);
        }
    }
    [[gnu::noinline]] void find_overtaken(const PadRequest &starting, Cycle now) const;
    void start(const PadRequest &started, Cycle now);
    void update_wake(Cycle now);

    const uint32_t number_;
    const Source source_;
    const size_t queue_;
    const int accept_per_cycle_;
    const int64_t load_queue_, store_queue_;
    const Cycle present_delay_, load_offer_, write_land_;
    const std::array<Cycle, 2> start_interval_;  // [read, write]
    Dma &dma_;
    Writeback &writeback_;
    const Hazards &hazards_;
    Cycle &wake_;
    Observer *const observer_;

    Requests vlsu_;
    std::array<Requests, 2> waiting_;  // accepted and not started: [reads, writes]
    std::array<Cycle, 2> next_start_ = {long_ago, long_ago};
    std::array<uint64_t, 2> started_{};
    int64_t loads_ = 0;           // vreg.ld issued
    int64_t stores_waiting_ = 0;  // vreg.st issued and not started
    // How many requests wait for rows with the same low bits, so that a start rarely has to look for one of its row.
    static constexpr size_t filter_size = 64;
    std::array<std::array<uint16_t, filter_size>, 2> pending_{};
    Cycle last_landing_ = long_ago;
};

}  // namespace atalla::timing
