// Scalar and lane units: when each accepts its next operation (rules 10, 12, 13).
#pragma once

#include <array>

#include "simulator/timing/writeback.h"

namespace atalla::timing {

class Units {
public:
    explicit Units(const Writeback &writeback) : writeback_(writeback) { ready_at_.fill(0); }

    // The unit accepts nothing before this cycle; `never` while nobody knows.
    void set_ready(Source unit, Cycle from) { ready_at_[static_cast<size_t>(unit)] = from; }

    bool accepts(Source unit, Cycle now) const {
        return ready_at_[static_cast<size_t>(unit)] <= now && (writeback_.losers(now) >> static_cast<int>(unit) & 1) == 0;
    }
    // 0 if the unit accepts an operation now, else the earliest cycle in which that may change.
    Cycle blocked_until(Source unit, Cycle now) const {
        return accepts(unit, now) ? 0 : std::max(ready_at_[static_cast<size_t>(unit)], now + 1);
    }

private:
    const Writeback &writeback_;
    std::array<Cycle, source_count> ready_at_;
};

}  // namespace atalla::timing
