#include "simulator/timing/writeback.h"

namespace atalla::timing {

Writeback::Writeback(const Machine &machine, Scoreboard &scoreboard, Wakes &wakes, Observer *observer)
    : scoreboard_(scoreboard),
      observer_(observer),
      offer_to_use_(machine.wb.offer_to_use),
      writes_per_bank_(static_cast<uint64_t>(machine.wb.writes_per_bank)),
      wake_(wakes.writeback) {
    // Each file has at most four banks: the nibbles of a 64-bit word hold all of them.
    const auto set_banks = [this](int first, int count, int64_t banks, int first_bank) {
        for (int number = 0; number < count; number++) {
            bank_shift_[first + number] = static_cast<uint8_t>(4 * (first_bank + number % banks));
        }
    };
    set_banks(0, vector_base, machine.regs.scalar_banks, 0);
    set_banks(vector_base, mask_base - vector_base, machine.regs.vector_banks, 4);
    set_banks(mask_base, no_register - mask_base, machine.regs.mask_banks, 8);
    bank_shift_[no_register] = no_bank;
}

void Writeback::step(Cycle now) {
    const size_t here = place(now);
    uint32_t due = due_[here];
    due_[here] = 0;
    entries_ &= ~(uint64_t{1} << here);
    uint64_t used = 0;
    // Bits ascend in the order of priority (rule 14).
    for (; due != 0; due &= due - 1) {
        const auto source = static_cast<size_t>(std::countr_zero(due));
        if (const Cycle next = write_back(source, now, used); next != never) {
            enter(source, next, now + 1);
        }
    }
    const uint64_t ahead = std::rotr(entries_, static_cast<int>(place(now + 1)));
    wake_ = ahead != 0 ? now + 1 + std::countr_zero(ahead) : never;
}

inline Cycle Writeback::write_back(size_t source, Cycle now, uint64_t &used) {
    Queue<Result> &waiting = results_[source];
    const Result &result = waiting.front();
    if (result.offer > now) [[unlikely]] {
        return result.offer;
    }
    const RegisterId reg = result.reg;
    // Rule 15: a result for a constant needs no bank.
    if (const uint8_t shift = bank_shift_[reg]; shift != no_bank) {
        if ((used >> shift & 15) == writes_per_bank_) {
            losers_ = (lost_at_ == now ? losers_ : 0) | uint32_t{1} << source;
            lost_at_ = now;
            return now + 1;
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
    return waiting.empty() ? never : waiting.front().offer;
}

}  // namespace atalla::timing
