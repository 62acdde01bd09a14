// Several runs as if they were one: what is told of each comes after all that came before it.
#pragma once

#include "simulator/timing/observer.h"

namespace atalla {

class InSequence : public timing::Observer {
public:
    // `observer` must outlive it.
    explicit InSequence(timing::Observer &observer) : to_(observer) {}

    // The run so far took this many cycles; what is told from now on is of the next one.
    void next_run(uint64_t cycles) { start_ += static_cast<int64_t>(cycles); }

    void waits(int32_t packet, Stall cause, int64_t from, int64_t until) override {
        to_.waits(packet, cause, start_ + from, start_ + until);
    }
    void issues(int32_t packet, int64_t at, const MachineState &state) override { to_.issues(packet, start_ + at, state); }
    void operation(const timing::Issued &issued) override {
        timing::Issued later = issued;
        later.cycle += start_;
        to_.operation(later);
    }
    void result(timing::Source source, int64_t at) override { to_.result(source, start_ + at); }
    void access(int64_t issued, int64_t end, bool store, bool missed) override {
        to_.access(start_ + issued, start_ + end, store, missed);
    }
    void pad_starts(uint32_t pad, bool write, bool of_transfer, uint32_t row, int32_t packet, int64_t at, int64_t busy,
                    int64_t lands) override {
        to_.pad_starts(pad, write, of_transfer, row, packet, start_ + at, busy, start_ + lands);
    }
    void transfer_ends(uint32_t pad, int32_t packet, int64_t issued, int64_t end) override {
        to_.transfer_ends(pad, packet, start_ + issued, start_ + end);
    }
    void opens_row(uint32_t bank, int64_t row, int64_t at, int64_t ready) override {
        to_.opens_row(bank, row, start_ + at, start_ + ready);
    }
    void serves_beat(uint32_t bank, uint32_t address, bool write, int master, int64_t at, int64_t busy) override {
        to_.serves_beat(bank, address, write, master, start_ + at, busy);
    }
    void halted(int64_t halt, int64_t last) override { to_.halted(start_ + halt, start_ + last); }

private:
    timing::Observer &to_;
    int64_t start_ = 0;
};

}  // namespace atalla
