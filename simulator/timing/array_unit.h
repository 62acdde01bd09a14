// The systolic array: credits, destination tags and the distance between rows and weights (rules 20 to 24).
#pragma once

#include <vector>

#include "isa/machine.h"
#include "simulator/refusal.h"
#include "simulator/timing/writeback.h"

namespace atalla::timing {

class ArrayUnit {
public:
    ArrayUnit(const Machine &machine, Writeback &writeback)
        : latency_(machine.sa.L),
          credit_return_(machine.sa.credit_return),
          tags_(static_cast<uint64_t>(machine.sa.dst_queue)),
          // A second copy of the weights loads while the first is in use.
          spacing_(machine.sa.weight_buffers > 1 ? 0 : machine.sa.switch_spacing),
          writeback_(writeback),
          credit_free_at_(static_cast<size_t>(machine.sa.credits), 0) {}

    // 0 if a row may issue now, else the earliest cycle in which that may change.
    Cycle row_blocked_until(Cycle now) const {
        // Rule 22.
        if (rows_ - writeback_.written(Source::Array) >= tags_) {
            return never;
        }
        // Rule 23. Credits return in the order of the rows.
        const Cycle free_at = credit_free_at_[next_credit_];
        return free_at > now ? free_at : 0;
    }

    // When a row that issues now is written back at the earliest.
    Cycle result_of_row(Cycle now) const { return now + 1 + latency_; }

    void issue_row(Cycle now, RegisterId destination) {
        writeback_.push(Source::Array, result_of_row(now), destination, now);
        credit_free_at_[next_credit_] = now + latency_ + credit_return_;
        next_credit_ = next_credit_ + 1 == credit_free_at_.size() ? 0 : next_credit_ + 1;
        last_row_ = now;
        rows_++;
    }

    // Refuses a weight load that would reach a row still on its way (rules 24, 52).
    void check_weight_load(Cycle now) const {
        if (now - last_row_ < spacing_) [[unlikely]] {
            refuse("52", "lw.vi issues " + std::to_string(now - last_row_) + " cycles after a gemm.vv, less than " +
                             std::to_string(spacing_));
        }
    }

    uint64_t rows() const { return rows_; }

private:
    const Cycle latency_, credit_return_;
    const uint64_t tags_;
    const Cycle spacing_;
    Writeback &writeback_;
    std::vector<Cycle> credit_free_at_;
    size_t next_credit_ = 0;
    Cycle last_row_ = long_ago;
    uint64_t rows_ = 0;
};

}  // namespace atalla::timing
