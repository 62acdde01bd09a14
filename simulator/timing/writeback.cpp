#include "simulator/timing/writeback.h"

namespace atalla::timing {

Writeback::Writeback(const Machine &machine, Scoreboard &scoreboard, Observer *observer)
    : scoreboard_(scoreboard),
      observer_(observer),
      offer_to_use_(machine.wb.offer_to_use),
      writes_per_bank_(static_cast<uint64_t>(machine.wb.writes_per_bank)) {
    // Each file has at most four banks: the nibbles of a 64-bit word hold all of them.
    const auto set_banks = [this](int first, int count, int64_t banks, int first_bank) {
        for (int number = 0; number < count; number++) {
            bank_shift_[first + number] = static_cast<uint8_t>(4 * (first_bank + number % banks));
        }
    };
    head_offer_.fill(never);
    lost_.fill(long_ago);
    set_banks(0, vector_base, machine.regs.scalar_banks, 0);
    set_banks(vector_base, mask_base - vector_base, machine.regs.vector_banks, 4);
    set_banks(mask_base, no_register - mask_base, machine.regs.mask_banks, 8);
    bank_shift_[no_register] = no_bank;
}

void Writeback::step(Cycle now) {
    uint64_t used = 0;
    for (size_t source = 0; source < source_count; source++) {
        if (head_offer_[source] > now) {
            continue;
        }
        Queue<Result> &waiting = results_[source];
        const RegisterId reg = waiting.front().reg;
        const uint8_t shift = bank_shift_[reg];
        // Rule 15: a result for a constant needs no bank.
        if (shift != no_bank) {
            if ((used >> shift & 15) == writes_per_bank_) {
                lost_[source] = now;
                head_offer_[source] = now + 1;
                continue;
            }
            used += uint64_t{1} << shift;
        }
        scoreboard_.release(reg, now + offer_to_use_);
        written_[source]++;
        last_write_ = now;
        waiting.pop();
        if (observer_ != nullptr) [[unlikely]] {
            observer_->result(static_cast<Source>(source), now);
        }
        // Rule 11: the next result of this unit leaves in a later cycle.
        head_offer_[source] = waiting.empty() ? never : std::max(waiting.front().offer, now + 1);
    }
    wake_ = *std::ranges::min_element(head_offer_);
}

}  // namespace atalla::timing
