// DRAM: one channel, open rows, first ready first served with a cap, all-bank refresh (rules 35 to 38).
#pragma once

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
    void launch(Cycle now, const Beat &beat);
    // One row command per bank and one column command.
    void step(Cycle now);
    // Takes a beat that completes in this cycle (write done, or read data arrived); false if there is none.
    bool take_completed(Cycle now, Beat &beat);

    uint64_t beats() const { return beats_; }
    // Cycles, up to the last column command, in which a beat was launched and not completed.
    uint64_t busy_cycles() const { return busy_cycles_; }

private:
    struct Queued {
        Beat beat;
        int64_t row;
        uint64_t age;
        int previous, next;  // in the queue of the bank, -1: none
    };
    struct Bank {
        int64_t open_row = -1;  // -1: closed
        Cycle ready_at = 0;     // in preparation before
        int64_t served = 0;     // column commands since the row opened
        int oldest = -1, youngest = -1;
        int hits[2] = {0, 0};  // queued reads and writes of the open row
        int oldest_hit[2] = {-1, -1};
        int group = 0;
        bool has_hits() const { return hits[0] + hits[1] > 0; }
    };
    struct Served {
        Cycle completes;
        Beat beat;
    };

    bool refreshing(Cycle now);
    void close_all_banks();
    void row_commands(Cycle now);
    void open_row(Bank &bank, Cycle now);
    void column_command(Cycle now);
    void serve(int bank, int kind, Cycle now);
    void find_oldest_hit(Bank &bank, int kind, int from);

    const Machine::Dram parameters_;
    Observer *const observer_;
    Cycle &wake_, &completion_;  // when there is something to do, when the oldest served beat completes
    const int row_shift_, bank_mask_, group_mask_, address_bits_;
    std::vector<Queued> queued_;
    std::vector<int> unused_;
    std::vector<Bank> banks_;
    std::vector<Cycle> group_ready_at_;
    // Banks that may need a row command, and banks with queued beats of their open row, one bit each.
    uint64_t check_rows_ = 0, with_hits_ = 0;
    int queued_count_ = 0;
    uint64_t next_age_ = 0;
    Cycle column_ready_at_ = 0, read_ready_at_ = 0;
    Cycle refresh_at_;
    Queue<Served> served_;
    uint64_t beats_ = 0, busy_cycles_ = 0;
    Cycle busy_since_ = 0, last_column_ = long_ago;
};

}  // namespace atalla::timing
