// DRAM: one channel, open rows, first ready first served with a cap, all-bank refresh (rules 35 to 38).
#pragma once

#include <array>
#include <vector>

#include "isa/machine.h"
#include "simulator/timing/bus.h"
#include "simulator/timing/cycle.h"
#include "simulator/timing/observer.h"

namespace atalla::timing {

class Dram {
public:
    Dram(const Machine &machine, Wakes &wakes, Observer *observer);

    // Queues a beat that the bus launches in this cycle.
    void launch(Cycle now, Beat beat);
    // One row command per bank and one column command.
    void step(Cycle now);
    // Whether a beat completes in this cycle (write done, or read data arrived); which one. At most one does: they complete in
    // the order of their column commands, a fixed time later.
    bool completes(Cycle now) const { return !served_.empty() && served_.front().completes <= now; }
    Beat take_completed() {
        const Beat beat = served_.front().beat;
        served_.pop();
        completion_ = served_.empty() ? never : served_.front().completes;
        return beat;
    }

    uint64_t beats() const { return beats_; }
    // Cycles, up to the last column command, in which a beat was launched and not completed.
    uint64_t busy_cycles() const { return busy_cycles_; }

private:
    static constexpr size_t most_banks = 64, bank_bits = 6;
    struct Queued {
        Beat beat;
        uint64_t order;  // its age, bank and kind in one number, the least of which goes first
        int next;        // in its list, or of those that hold no beat; -1: none
    };
    // Beats from old to young.
    struct List {
        int oldest = -1, youngest = -1;
        bool empty() const { return oldest < 0; }
    };
    struct alignas(64) Bank {
        List hits[2];           // reads and writes of the open row
        List misses;            // beats of other rows
        int64_t open_row = -1;  // -1: closed
        Cycle ready_at = 0;     // in preparation before, then in preparing_
        int64_t served = 0;     // column commands since the row opened
        int group = 0;
    };
    struct Served {
        Cycle completes;
        Beat beat;
    };

    void append(List &list, int slot);
    int take_oldest(List &list);
    void add_hit(size_t bank, int slot);
    int64_t row_of(Beat beat) const { return static_cast<int64_t>(beat.address()) >> address_bits_; }
    [[gnu::noinline]] void close_row(size_t bank);
    [[gnu::noinline]] bool refreshing(Cycle now);
    [[gnu::noinline]] void row_commands(Cycle now);
    bool wants_other_row(const Bank &bank, Cycle now) const;
    [[gnu::noinline]] void open_row(size_t bank, Cycle now);
    void column_command(Cycle now);
    uint64_t open_banks(Cycle now);
    Cycle next_column_command(Cycle now) const;
    void serve(size_t bank, size_t kind, Cycle now);

    const Machine::Dram parameters_;
    Observer *const observer_;
    Cycle &wake_, &completion_;  // when there is something to do, when the oldest served beat completes
    const int row_shift_, bank_mask_, group_mask_, address_bits_;
    std::vector<Queued> queued_;
    int unused_ = -1;  // the first of those that hold no beat, -1: none
    std::vector<Bank> banks_;
    const size_t groups_;
    std::array<Cycle, most_banks> group_ready_at_{};
    std::array<uint64_t, most_banks> group_banks_{};
    // One bit a bank: those that may need a row command, that prepare a row, that have queued reads and writes of their open
    // row.
    uint64_t check_rows_ = 0, preparing_ = 0;
    std::array<uint64_t, 2> with_hits_{};
    // By kind and bank, of the oldest hit.
    std::array<std::array<uint64_t, most_banks>, 2> oldest_{};
    int queued_count_ = 0;
    uint64_t next_age_ = 0;
    Cycle column_ready_at_ = 0, read_ready_at_ = 0;
    Cycle refresh_at_;
    Queue<Served> served_;
    uint64_t beats_ = 0, busy_cycles_ = 0;
    Cycle busy_since_ = 0, last_column_ = long_ago;
};

}  // namespace atalla::timing
