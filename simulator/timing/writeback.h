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
    Writeback(const Machine &machine, Scoreboard &scoreboard, Observer *observer);

    // A result for `reg` that `source` offers from cycle `offer` on, behind those it was given before. `never` if the cycle is
    // not known yet; offer_oldest() tells it later.
    void push(Source source, Cycle offer, RegisterId reg) {
        Queue<Result> &waiting = results_[index(source)];
        if (waiting.empty()) {
            offer_oldest(source, offer);
        }
        waiting.push({offer, reg});
    }
    void offer_oldest(Source source, Cycle offer) {
        head_offer_[index(source)] = offer;
        wake_ = std::min(wake_, offer);
    }

    void step(Cycle now);
    // The earliest cycle in which step() has something to do.
    Cycle wake() const { return wake_; }

    // Whether the oldest result of `source` lost arbitration in this cycle, so that its unit accepts nothing (rule 12).
    bool lost_in(Source source, Cycle now) const { return lost_[index(source)] == now; }
    // Results of `source` written back so far.
    uint64_t written(Source source) const { return written_[index(source)]; }
    // The cycle of the latest write-back of all.
    Cycle last_write() const { return last_write_; }

private:
    struct Result {
        Cycle offer;
        RegisterId reg;
    };
    static size_t index(Source source) { return static_cast<size_t>(source); }

    // The writes of a cycle are counted in four bits per bank.
    static constexpr uint8_t no_bank = 255;

    Scoreboard &scoreboard_;
    Observer *const observer_;
    const Cycle offer_to_use_;
    const uint64_t writes_per_bank_;
    std::array<uint8_t, register_ids> bank_shift_{};
    std::array<Queue<Result>, source_count> results_;
    std::array<Cycle, source_count> head_offer_;  // of the oldest result, never if there is none
    std::array<Cycle, source_count> lost_;
    std::array<uint64_t, source_count> written_{};
    Cycle wake_ = never;
    Cycle last_write_ = long_ago;
};

}  // namespace atalla::timing
