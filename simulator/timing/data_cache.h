// Scalar loads and stores: EX5 takes one access at a time (rule 13) and its cache holds tags only (rule 39).
#pragma once

#include <vector>

#include "isa/machine.h"
#include "simulator/timing/bus.h"
#include "simulator/timing/units.h"
#include "simulator/timing/writeback.h"

namespace atalla::timing {

class DataCache {
public:
    DataCache(const Machine &machine, Bus &bus, Units &units, Writeback &writeback, Observer *observer);

    // An access that issues now, at the address of its first byte. A load gives its result to `destination`.
    [[gnu::noinline]] void issue(uint32_t address, bool is_store, RegisterId destination, Cycle now);

    [[gnu::noinline]] Beat launch(Cycle now);
    // A beat of a miss completed.
    [[gnu::noinline]] void arrive(bool write, Cycle now);

    uint64_t misses() const { return misses_; }
    // The latest cycle in which a store is done: t+1+L (rule 41).
    Cycle last_store() const { return last_store_; }

private:
    struct Way {
        int64_t line = -1;
        bool dirty = false;
    };
    struct Set {
        std::vector<Way> ways;
        uint32_t toward_right = 0;  // the PLRU tree: bit n set, the victim is in the right half of node n (root 1)
    };
    struct Request {
        Cycle from;
        Beat beat;
    };
    // The access that misses; there is at most one.
    struct Miss {
        Cycle issued;
        Cycle least;  // what the miss adds at least
        bool is_store;
        RegisterId destination;
        int64_t reads_left;  // beats that have not arrived
    };

    int find(const Set &set, int64_t line) const;
    int victim(const Set &set) const;
    void touch(Set &set, int way) const;
    void request_line(int64_t line, bool write, Cycle from);
    void finish(Cycle issued, Cycle latency, bool is_store, RegisterId destination, bool missed, Cycle next_write_back);

    const Machine::Dcache cache_;
    const Machine::Ex5 timing_;
    Bus &bus_;
    Units &units_;
    Writeback &writeback_;
    Observer *const observer_;
    std::vector<Set> sets_;
    Queue<Request> requests_;
    Miss miss_{};
    uint64_t misses_ = 0;
    Cycle last_store_ = long_ago;
};

}  // namespace atalla::timing
