// Scalar and lane units: when each accepts its next operation (rules 10, 12, 13).
#pragma once

#include <array>
#include <bit>

#include "simulator/timing/writeback.h"

namespace atalla::timing {

class Units {
public:
    explicit Units(const Writeback &writeback) : writeback_(writeback) { ready_at_.fill(0); }

    // The unit accepts nothing before this cycle; `never` while nobody knows.
    void set_ready(Source unit, Cycle from) {
        ready_at_[static_cast<size_t>(unit)] = from;
        busy_ |= bit(unit);
    }

    // Which of these units, one bit each, accept no operation now.
    uint32_t blocked(uint32_t units, Cycle now) {
        uint32_t blocked = writeback_.losers(now) & units;
        for (uint32_t left = busy_ & units; left != 0; left &= left - 1) {
            const uint32_t unit = left & -left;
            if (ready_at_[static_cast<size_t>(std::countr_zero(left))] > now) {
                blocked |= unit;
            } else {
                busy_ &= ~unit;
            }
        }
        return blocked;
    }
    // The earliest cycle in which that may change for all of them.
    Cycle blocked_until(uint32_t blocked, Cycle now) const {
        Cycle until = now + 1;
        for (uint32_t left = blocked; left != 0; left &= left - 1) {
            until = std::max(until, ready_at_[static_cast<size_t>(std::countr_zero(left))]);
        }
        return until;
    }
    static constexpr uint32_t bit(Source unit) { return 1u << static_cast<int>(unit); }

private:
    const Writeback &writeback_;
    std::array<Cycle, source_count> ready_at_;
    uint32_t busy_ = 0;  // units that were not ready when somebody looked last, one bit each
};

}  // namespace atalla::timing
