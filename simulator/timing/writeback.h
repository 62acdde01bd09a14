// Results on their way to the register files: who may write a bank in a cycle (rules 11 to 15, 21).
#pragma once

#include <algorithm>
#include <array>
#include <memory>

#include "isa/machine.h"
#include "simulator/timing/cycle.h"
#include "simulator/timing/observer.h"
#include "simulator/timing/scoreboard.h"
#include "simulator/timing/source.h"

namespace atalla::timing {

// A source offers its results in the order in which it was given them, one a cycle. So each result has a cycle of its own
// among those of its source as soon as its offer is known: the ring holds them by cycle, and a result that loses moves on by
// one together with those that follow close behind it.
class Writeback {
public:
    Writeback(const Machine &machine, Scoreboard &scoreboard, Observer *observer);

    // A result for `reg` that `source` offers from cycle `offer` on, behind those it was given before.
    void push(Source source, Cycle offer, RegisterId reg, Cycle now) {
        const size_t from = index(source);
        const Cycle at = std::max(std::max(offer, now + 1), last_[from] + 1);
        last_[from] = at;
        enter(from, at, reg, now);
    }

    // Whether a result is due in this cycle.
    bool due(Cycle now) const { return slot(now).due != 0; }
    void step(Cycle now);
    // The next cycle in which a result is due, `never` if there is none.
    Cycle next_due(Cycle now) const;

    // The sources whose oldest result lost arbitration in this cycle, one bit each: their units accept nothing (rule 12).
    uint32_t losers(Cycle now) const { return lost_at_ == now ? losers_ : 0; }
    // Results of `source` written back so far.
    uint64_t written(Source source) const { return written_[index(source)]; }
    // The cycle of the latest write-back of all.
    Cycle last_write() const { return last_write_; }

private:
    // The results that are due in a cycle.
    struct Slot {
        std::array<RegisterId, source_count> result;
        uint16_t due = 0;  // sources that have one, one bit each
    };

    static constexpr size_t index(Source source) { return static_cast<size_t>(source); }
    Slot &slot(Cycle cycle) { return ring_[static_cast<size_t>(cycle) & mask_]; }
    const Slot &slot(Cycle cycle) const { return ring_[static_cast<size_t>(cycle) & mask_]; }
    void enter(size_t source, Cycle at, RegisterId reg, Cycle now) {
        Slot &entered = slot(at);
        entered.due |= static_cast<uint16_t>(1u << source);
        entered.result[source] = reg;
        if (at < now + near) [[likely]] {
            near_ |= uint64_t{1} << (at % near);
        } else {
            far_ = std::max(far_, at);
        }
    }
    [[gnu::noinline]] void postpone(size_t source, RegisterId reg, Cycle now);

    static constexpr Cycle near = 64;

    // The writes of a cycle are counted in five bits for each bank, from a start that sets the highest of them when the bank
    // is full.
    static constexpr int count_bits = 5;
    static constexpr uint64_t full = 1u << (count_bits - 1);

    Scoreboard &scoreboard_;
    Observer *const observer_;
    const Cycle offer_to_use_;
    uint64_t none_written_ = 0;                      // the counts at the start of a cycle
    std::array<uint64_t, register_ids> write_of_{};  // one write of a register's bank; 0: needs none (rule 15)
    size_t mask_ = 0;                                // cycles of the ring, less one: no result is further away
    std::unique_ptr<Slot[]> ring_;                   // by cycle
    std::array<Cycle, source_count> last_;           // the cycle of the youngest result
    std::array<uint64_t, source_count> written_{};
    // Where results are due: one bit each for the near cycles, and the last cycle that was too far away for one.
    uint64_t near_ = 0;
    Cycle far_ = long_ago;
    uint32_t losers_ = 0;
    Cycle lost_at_ = long_ago;
    Cycle last_write_ = long_ago;
};

}  // namespace atalla::timing
