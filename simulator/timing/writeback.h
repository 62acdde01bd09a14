// Results on their way to the register files: who may write a bank in a cycle (rules 11 to 15, 21).
#pragma once

#include <algorithm>
#include <array>

#include "isa/machine.h"
#include "simulator/timing/cycle.h"
#include "simulator/timing/observer.h"
#include "simulator/timing/scoreboard.h"
#include "simulator/timing/source.h"

namespace atalla::timing {

class Writeback {
public:
    Writeback(const Machine &machine, Scoreboard &scoreboard, Wakes &wakes, Observer *observer);

    // A result for `reg` that `source` offers from cycle `offer` on, behind those it was given before. `never` if the cycle is
    // not known yet; offer_youngest() tells it later.
    void push(Source source, Cycle offer, RegisterId reg, Cycle now) {
        Queue<Result> &waiting = results_[index(source)];
        waiting.push({offer, reg});
        if (waiting.size() == 1) {
            expect(index(source), offer, now + 1);
        }
    }
    // `next_step`: the cycle that the next call of step() is for, or an earlier one.
    void offer_youngest(Source source, Cycle offer, Cycle next_step) {
        Queue<Result> &waiting = results_[index(source)];
        waiting.back().offer = offer;
        if (waiting.size() == 1) {
            expect(index(source), offer, next_step);
        }
    }

    void step(Cycle now);

    // The sources whose oldest result lost arbitration in this cycle, one bit each: their units accept nothing (rule 12).
    uint32_t losers(Cycle now) const { return lost_at_ == now ? losers_ : 0; }
    // Results of `source` written back so far.
    uint64_t written(Source source) const { return written_[index(source)]; }
    // The cycle of the latest write-back of all.
    Cycle last_write() const { return last_write_; }

private:
    struct Result {
        Cycle offer;
        RegisterId reg;
    };
    static constexpr size_t index(Source source) { return static_cast<size_t>(source); }

    // The oldest result of a source, one bit each, in the entry of the cycle in which it is due: a ring. Those of later
    // cycles wait in its last entry and are moved on from there.
    static constexpr Cycle horizon = 64;
    static size_t place(Cycle cycle) { return static_cast<size_t>(cycle) % static_cast<size_t>(horizon); }
    void expect(size_t source, Cycle at, Cycle next_step) {
        if (at != never) {
            wake_ = std::min(wake_, enter(source, at, next_step));
        }
    }
    // The cycle of the entry.
    Cycle enter(size_t source, Cycle at, Cycle next_step) {
        const Cycle entry = std::min(std::max(at, next_step), next_step + horizon - 2);
        due_[place(entry)] |= uint32_t{1} << source;
        entries_ |= uint64_t{1} << place(entry);
        return entry;
    }
    // When the source has a result to write back next, `never` if nobody knows.
    Cycle write_back(size_t source, Cycle now, uint64_t &used);

    // The writes of a cycle are counted in four bits per bank.
    static constexpr uint8_t no_bank = 255;

    Scoreboard &scoreboard_;
    Observer *const observer_;
    const Cycle offer_to_use_;
    const uint64_t writes_per_bank_;
    Cycle &wake_;
    std::array<uint32_t, horizon> due_{};
    uint64_t entries_ = 0;  // which are not empty
    std::array<uint8_t, register_ids> bank_shift_{};
    std::array<Queue<Result>, source_count> results_;
    std::array<uint64_t, source_count> written_{};
    uint32_t losers_ = 0;
    Cycle lost_at_ = long_ago;
    Cycle last_write_ = long_ago;
};

}  // namespace atalla::timing
