#include "simulator/timing/writeback.h"

#include <bit>

namespace atalla::timing {

namespace {

// More cycles than any result is away from being written: the longest way from issue to offer, and as many results of its
// source before it as there can be.
size_t longest_wait(const Machine &machine) {
    const auto &vec = machine.vec;
    const Cycle latency = std::max(
        {machine.ex1.L, machine.ex2.rcp_sqrt_L, machine.ex2.divmod_L, machine.ex2.conv_L, machine.ex3.L, machine.ex4.L,
         machine.ex5.load_hit + std::max(machine.dcache.miss_clean, machine.dcache.miss_dirty), vec.add_L, vec.mul_L, vec.cmp_L,
         vec.exp_L, vec.reduce_L, vec.mov_to_scalar_L, machine.sa.L, machine.pad.read_L + machine.vlsu.load_extra});
    return static_cast<size_t>(latency + std::max({latency, machine.vlsu.load_queue, machine.sa.dst_queue}) + 8);
}

}  // namespace

Writeback::Writeback(const Machine &machine, Scoreboard &scoreboard, Observer *observer)
    : scoreboard_(scoreboard),
      observer_(observer),
      offer_to_use_(machine.wb.offer_to_use),
      mask_(std::bit_ceil(longest_wait(machine)) - 1),
      ring_(std::make_unique<Slot[]>(mask_ + 1)) {
    last_.fill(long_ago);
    // Each file has at most four banks: 64 bits hold the counts of all of them.
    const auto set_banks = [&](int first, int end, int64_t banks, int first_bank) {
        for (int64_t bank = 0; bank < banks; bank++) {
            none_written_ += (full - static_cast<uint64_t>(machine.wb.writes_per_bank)) << (count_bits * (first_bank + bank));
        }
        for (int reg = first; reg < end; reg++) {
            write_of_[static_cast<size_t>(reg)] = uint64_t{1} << (count_bits * (first_bank + (reg - first) % banks));
        }
    };
    set_banks(0, vector_base, machine.regs.scalar_banks, 0);
    set_banks(vector_base, mask_base, machine.regs.vector_banks, 4);
    set_banks(mask_base, no_register, machine.regs.mask_banks, 8);
}

inline Cycle Writeback::next_due(Cycle now) const {
    if (now >= far_) [[likely]] {
        const uint64_t ahead = std::rotr(near_, static_cast<int>((now + 1) % near));
        return ahead != 0 ? now + 1 + std::countr_zero(ahead) : never;
    }
    for (Cycle at = now + 1; at <= far_; at++) {
        if (due(at)) {
            return at;
        }
    }
    return never;
}

void Writeback::step(Cycle now) {
    Slot &offered = slot(now);
    uint64_t counts = none_written_;
    uint32_t lost = 0;
    // Bits ascend in the order of priority (rule 14).
    const uint32_t due = offered.due;
    offered.due = 0;
    near_ &= ~(uint64_t{1} << (now % near));
    for (uint32_t left = due; left != 0; left &= left - 1) {
        const auto source = static_cast<size_t>(std::countr_zero(left));
        const RegisterId reg = offered.result[source];
        const uint64_t write = write_of_[reg];
        if ((counts & write * full) != 0) [[unlikely]] {
            lost |= left & -left;
            continue;
        }
        counts += write;
        scoreboard_.release(reg, now + offer_to_use_);
        written_[source]++;
    }
    if (due != lost) {
        last_write_ = now;
    }
    if (observer_ != nullptr) [[unlikely]] {
        for (uint32_t left = due & ~lost; left != 0; left &= left - 1) {
            observer_->result(static_cast<Source>(std::countr_zero(left)), now);
        }
    }
    if (lost != 0) {
        losers_ = lost;
        lost_at_ = now;
        for (; lost != 0; lost &= lost - 1) {
            const auto source = static_cast<size_t>(std::countr_zero(lost));
            postpone(source, offered.result[source], now);
        }
    }
}

// Rule 11: the results of a unit leave in their order, one a cycle.
void Writeback::postpone(size_t source, RegisterId reg, Cycle now) {
    Cycle to = now + 1;
    while ((slot(to).due >> source & 1) != 0) {
        std::swap(reg, slot(to).result[source]);
        to++;
    }
    last_[source] = std::max(last_[source], to);
    enter(source, to, reg, now);
}

}  // namespace atalla::timing
