#include "simulator/timing/dram.h"

#include <algorithm>
#include <bit>

namespace atalla::timing {

namespace {
int bits_of(int64_t power_of_two) { return std::countr_zero(static_cast<uint64_t>(power_of_two)); }
}  // namespace

// Rule 35: from the low bits up an address holds column, bank group, bank and row.
Dram::Dram(const Machine &machine, Wakes &wakes, Observer *observer)
    : parameters_(machine.dram),
      observer_(observer),
      wake_(wakes.dram),
      completion_(wakes.completion),
      row_shift_(bits_of(parameters_.row_bytes)),
      bank_mask_(static_cast<int>(parameters_.banks - 1)),
      group_mask_(static_cast<int>(parameters_.groups - 1)),
      address_bits_(row_shift_ + bits_of(parameters_.banks)),
      banks_(static_cast<size_t>(parameters_.banks)),
      groups_(static_cast<size_t>(parameters_.groups)),
      refresh_at_(parameters_.refresh > 0 ? parameters_.refresh_interval : never),
      served_(static_cast<size_t>(parameters_.complete) + 1) {
    for (size_t index = 0; index < banks_.size(); index++) {
        banks_[index].group = static_cast<int>(index) & group_mask_;
        group_banks_[static_cast<size_t>(banks_[index].group)] |= uint64_t{1} << index;
    }
}

void Dram::append(List &list, int slot) {
    queued_[static_cast<size_t>(slot)].next = -1;
    (list.empty() ? list.oldest : queued_[static_cast<size_t>(list.youngest)].next) = slot;
    list.youngest = slot;
}

int Dram::take_oldest(List &list) {
    const int slot = list.oldest;
    list.oldest = queued_[static_cast<size_t>(slot)].next;
    return slot;
}

void Dram::add_hit(size_t bank, int slot) {
    const Queued &queued = queued_[static_cast<size_t>(slot)];
    const size_t kind = queued.beat.write();
    List &hits = banks_[bank].hits[kind];
    if (hits.empty()) {
        with_hits_[kind] |= uint64_t{1} << bank;
        oldest_[kind][bank] = queued.order;
    }
    append(hits, slot);
}

void Dram::launch(Cycle now, Beat beat) {
    if (queued_count_ == 0 && served_.empty()) {
        busy_since_ = now;
    }
    if (unused_ < 0) [[unlikely]] {
        unused_ = static_cast<int>(queued_.size());
        queued_.emplace_back().next = -1;
    }
    const int slot = unused_;
    unused_ = queued_[static_cast<size_t>(slot)].next;
    const size_t index = static_cast<size_t>(static_cast<int>(beat.address() >> row_shift_) & bank_mask_);
    Bank &bank = banks_[index];
    Queued &queued = queued_[static_cast<size_t>(slot)];
    queued.beat = beat;
    queued.order = (next_age_++ << bank_bits | index) << 1 | uint64_t{beat.write()};
    if (row_of(beat) == bank.open_row) {
        add_hit(index, slot);
    } else {
        append(bank.misses, slot);
        check_rows_ |= uint64_t{1} << index;
    }
    queued_count_++;
    wake_ = std::min(wake_, now);
}

void Dram::step(Cycle now) {
    if (now >= refresh_at_ && refreshing(now)) [[unlikely]] {
        wake_ = queued_count_ > 0 ? refresh_at_ + parameters_.refresh : never;
        return;
    }
    wake_ = never;
    if (queued_count_ == 0) {
        return;
    }
    if (check_rows_ != 0) {
        row_commands(now);
    }
    column_command(now);
    if (queued_count_ > 0) {
        wake_ = std::min(wake_, refresh_at_);
    }
}

// Rule 38. A refresh may have passed while nobody looked.
bool Dram::refreshing(Cycle now) {
    while (now >= refresh_at_) {
        for (size_t bank = 0; bank < banks_.size(); bank++) {
            close_row(bank);
            banks_[bank].open_row = -1;
            banks_[bank].ready_at = 0;
        }
        if (now < refresh_at_ + parameters_.refresh) {
            return true;
        }
        refresh_at_ += parameters_.refresh_interval;
    }
    return false;
}

// What hit the row misses the next one: one list again, by age.
void Dram::close_row(size_t index) {
    Bank &bank = banks_[index];
    List all;
    for (;;) {
        List *oldest = nullptr;
        for (List *list : {&bank.hits[0], &bank.hits[1], &bank.misses}) {
            if (!list->empty() && (oldest == nullptr || queued_[static_cast<size_t>(list->oldest)].order <
                                                            queued_[static_cast<size_t>(oldest->oldest)].order)) {
                oldest = list;
            }
        }
        if (oldest == nullptr) {
            break;
        }
        append(all, take_oldest(*oldest));
    }
    bank.misses = all;
    bank.served = 0;
    for (uint64_t &with_hits : with_hits_) {
        with_hits &= ~(uint64_t{1} << index);
    }
    if (!all.empty()) {
        check_rows_ |= uint64_t{1} << index;
    }
}

// Rule 37. Whether a row opens can change only when a beat comes or is served.
void Dram::row_commands(Cycle now) {
    for (uint64_t left = check_rows_; left != 0; left &= left - 1) {
        const auto index = static_cast<size_t>(std::countr_zero(left));
        if (wants_other_row(banks_[index], now)) {
            open_row(index, now);
        }
    }
    check_rows_ = 0;
}

// The oldest beat of the bank misses, and either nothing hits or the cap is reached.
bool Dram::wants_other_row(const Bank &bank, Cycle now) const {
    if (bank.misses.empty() || bank.ready_at > now) {
        return false;
    }
    const uint64_t order = queued_[static_cast<size_t>(bank.misses.oldest)].order;
    for (const List &hits : bank.hits) {
        if (!hits.empty() &&
            (bank.served < parameters_.row_hit_cap || queued_[static_cast<size_t>(hits.oldest)].order < order)) {
            return false;
        }
    }
    return true;
}

void Dram::open_row(size_t index, Cycle now) {
    close_row(index);
    Bank &bank = banks_[index];
    bank.ready_at = now + (bank.open_row < 0 ? parameters_.open_closed : parameters_.open_conflict);
    preparing_ |= uint64_t{1} << index;
    bank.open_row = row_of(queued_[static_cast<size_t>(bank.misses.oldest)].beat);
    List all = bank.misses;
    bank.misses = {};
    while (!all.empty()) {
        const int slot = take_oldest(all);
        if (row_of(queued_[static_cast<size_t>(slot)].beat) == bank.open_row) {
            add_hit(index, slot);
        } else {
            append(bank.misses, slot);
        }
    }
    if (observer_ != nullptr) [[unlikely]] {
        observer_->opens_row(static_cast<uint32_t>(index), bank.open_row, now, bank.ready_at);
    }
}

// Rule 36: the oldest beat that may go.
void Dram::column_command(Cycle now) {
    const uint64_t open = column_ready_at_ <= now ? open_banks(now) : 0;
    uint64_t oldest = UINT64_MAX;
    for (size_t kind = read_ready_at_ <= now ? 0 : 1; kind < 2; kind++) {
        for (uint64_t left = with_hits_[kind] & open; left != 0; left &= left - 1) {
            oldest = std::min(oldest, oldest_[kind][static_cast<size_t>(std::countr_zero(left))]);
        }
    }
    if (oldest == UINT64_MAX) {
        wake_ = next_column_command(now);
        return;
    }
    serve(oldest >> 1 & (most_banks - 1), oldest & 1, now);
    wake_ = queued_count_ > 0 ? now + 1 : never;
}

// The banks, one bit each, that accept a column command as far as their rows and groups are concerned.
uint64_t Dram::open_banks(Cycle now) {
    for (uint64_t left = preparing_; left != 0; left &= left - 1) {
        if (banks_[static_cast<size_t>(std::countr_zero(left))].ready_at <= now) {
            preparing_ &= ~(left & -left);
        }
    }
    uint64_t busy = preparing_;
    for (size_t group = 0; group < groups_; group++) {
        busy |= group_banks_[group] & -uint64_t{group_ready_at_[group] > now};
    }
    return ~busy;
}

// The earliest cycle in which a beat may go if none may now.
Cycle Dram::next_column_command(Cycle now) const {
    Cycle next = never;
    for (size_t kind = 0; kind < 2; kind++) {
        const Cycle from = std::max({now + 1, column_ready_at_, kind == 0 ? read_ready_at_ : 0});
        for (uint64_t left = with_hits_[kind]; left != 0; left &= left - 1) {
            const Bank &bank = banks_[static_cast<size_t>(std::countr_zero(left))];
            next = std::min(next, std::max({from, bank.ready_at, group_ready_at_[static_cast<size_t>(bank.group)]}));
        }
    }
    return next;
}

void Dram::serve(size_t index, size_t kind, Cycle now) {
    Bank &bank = banks_[index];
    const int slot = take_oldest(bank.hits[kind]);
    const Beat beat = queued_[static_cast<size_t>(slot)].beat;
    queued_[static_cast<size_t>(slot)].next = unused_;
    unused_ = slot;
    queued_count_--;
    bank.served++;
    if (bank.hits[kind].empty()) {
        with_hits_[kind] &= ~(uint64_t{1} << index);
    } else {
        oldest_[kind][index] = queued_[static_cast<size_t>(bank.hits[kind].oldest)].order;
    }
    if (!bank.misses.empty()) {
        check_rows_ |= uint64_t{1} << index;
    }
    if (served_.empty()) {
        completion_ = now + parameters_.complete;
    }
    served_.push(now + parameters_.complete, beat);
    if (observer_ != nullptr) [[unlikely]] {
        observer_->serves_beat(static_cast<uint32_t>(index), beat.address(), beat.write(), beat.master(), now, parameters_.cas);
    }

    column_ready_at_ = now + parameters_.cas;
    group_ready_at_[static_cast<size_t>(bank.group)] = now + parameters_.cas_same_group;
    if (kind == 1) {
        read_ready_at_ = now + parameters_.write_turnaround;
    }
    beats_++;
    busy_cycles_ += static_cast<uint64_t>(now - std::max(last_column_, busy_since_ - 1));
    last_column_ = now;
}

}  // namespace atalla::timing
