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
      group_ready_at_(static_cast<size_t>(parameters_.groups), 0),
      refresh_at_(parameters_.refresh > 0 ? parameters_.refresh_interval : never),
      served_(static_cast<size_t>(parameters_.complete) + 1) {
    for (size_t index = 0; index < banks_.size(); index++) {
        banks_[index].group = static_cast<int>(index) & group_mask_;
    }
}

void Dram::launch(Cycle now, const Beat &beat) {
    if (queued_count_ == 0 && served_.empty()) {
        busy_since_ = now;
    }
    int slot;
    if (unused_.empty()) {
        slot = static_cast<int>(queued_.size());
        queued_.emplace_back();
        unused_.reserve(queued_.capacity());
    } else {
        slot = unused_.back();
        unused_.pop_back();
    }
    const int bank_index = static_cast<int>(beat.address >> row_shift_) & bank_mask_;
    Bank &bank = banks_[bank_index];
    const int64_t row = static_cast<int64_t>(beat.address) >> address_bits_;
    queued_[slot] = {beat, row, next_age_++, bank.youngest, -1};
    (bank.youngest < 0 ? bank.oldest : queued_[bank.youngest].next) = slot;
    bank.youngest = slot;
    if (row == bank.open_row) {
        if (bank.hits[beat.write]++ == 0) {
            bank.oldest_hit[beat.write] = slot;
        }
        with_hits_ |= uint64_t{1} << bank_index;
    }
    check_rows_ |= uint64_t{1} << bank_index;
    queued_count_++;
    wake_ = std::min(wake_, now);
}

bool Dram::take_completed(Cycle now, Beat &beat) {
    if (served_.empty() || served_.front().completes > now) {
        return false;
    }
    beat = served_.front().beat;
    served_.pop();
    completion_ = served_.empty() ? never : served_.front().completes;
    return true;
}

void Dram::step(Cycle now) {
    wake_ = never;
    if (refreshing(now)) {
        wake_ = queued_count_ > 0 ? refresh_at_ + parameters_.refresh : never;
        return;
    }
    if (queued_count_ == 0) {
        return;
    }
    row_commands(now);
    column_command(now);
    if (queued_count_ > 0) {
        wake_ = std::min(wake_, refresh_at_);
    }
}

// Rule 38. A refresh may have passed while nobody looked.
bool Dram::refreshing(Cycle now) {
    while (now >= refresh_at_) {
        close_all_banks();
        if (now < refresh_at_ + parameters_.refresh) {
            return true;
        }
        refresh_at_ += parameters_.refresh_interval;
    }
    return false;
}

void Dram::close_all_banks() {
    for (size_t index = 0; index < banks_.size(); index++) {
        Bank &bank = banks_[index];
        bank.open_row = -1;
        bank.ready_at = 0;
        bank.served = 0;
        bank.hits[0] = bank.hits[1] = 0;
        bank.oldest_hit[0] = bank.oldest_hit[1] = -1;
        if (bank.oldest >= 0) {
            check_rows_ |= uint64_t{1} << index;
        }
    }
    with_hits_ = 0;
}

// Rule 37. A row opens if the oldest beat of a bank misses and either nothing hits or the cap is reached, so the oldest beat
// that misses is always the oldest of all. Whether that holds can change only when a beat comes or is served.
void Dram::row_commands(Cycle now) {
    for (uint64_t left = check_rows_; left != 0; left &= left - 1) {
        const int index = std::countr_zero(left);
        Bank &bank = banks_[index];
        if (bank.ready_at > now || bank.oldest < 0 || queued_[bank.oldest].row == bank.open_row) {
            continue;
        }
        if (!bank.has_hits() || bank.served >= parameters_.row_hit_cap) {
            open_row(bank, now);
            if (observer_ != nullptr) [[unlikely]] {
                observer_->opens_row(static_cast<uint32_t>(index), bank.open_row, now, bank.ready_at);
            }
            with_hits_ |= uint64_t{1} << index;
        }
    }
    check_rows_ = 0;
}

void Dram::open_row(Bank &bank, Cycle now) {
    bank.ready_at = now + (bank.open_row < 0 ? parameters_.open_closed : parameters_.open_conflict);
    bank.open_row = queued_[bank.oldest].row;
    bank.served = 0;
    bank.hits[0] = bank.hits[1] = 0;
    bank.oldest_hit[0] = bank.oldest_hit[1] = -1;
    for (int slot = bank.oldest; slot >= 0; slot = queued_[slot].next) {
        if (queued_[slot].row == bank.open_row) {
            const bool write = queued_[slot].beat.write;
            if (bank.hits[write]++ == 0) {
                bank.oldest_hit[write] = slot;
            }
        }
    }
}

// Rule 36.
void Dram::column_command(Cycle now) {
    uint64_t oldest_age = UINT64_MAX;
    int chosen_bank = -1, chosen_kind = 0;
    Cycle next = never;
    for (uint64_t left = with_hits_; left != 0; left &= left - 1) {
        const int index = std::countr_zero(left);
        const Bank &bank = banks_[index];
        const Cycle bank_at = std::max({bank.ready_at, group_ready_at_[bank.group], column_ready_at_});
        for (int kind = 0; kind < 2; kind++) {
            if (bank.hits[kind] == 0) {
                continue;
            }
            const Cycle at = kind == 0 ? std::max(bank_at, read_ready_at_) : bank_at;
            const uint64_t age = queued_[bank.oldest_hit[kind]].age;
            if (at > now) {
                next = std::min(next, at);
            } else if (age < oldest_age) {
                oldest_age = age;
                chosen_bank = index;
                chosen_kind = kind;
            }
        }
    }
    if (chosen_bank < 0) {
        wake_ = next;
        return;
    }
    serve(chosen_bank, chosen_kind, now);
    wake_ = queued_count_ > 0 ? now + 1 : never;
}

void Dram::serve(int index, int kind, Cycle now) {
    Bank &bank = banks_[index];
    const int slot = bank.oldest_hit[kind];
    const Queued taken = queued_[slot];
    served_.push({now + parameters_.complete, taken.beat});
    completion_ = served_.front().completes;
    if (observer_ != nullptr) [[unlikely]] {
        observer_->serves_beat(static_cast<uint32_t>(index), taken.beat.address, taken.beat.write, taken.beat.master, now,
                               parameters_.cas);
    }

    bank.hits[kind]--;
    find_oldest_hit(bank, kind, taken.next);
    (taken.previous < 0 ? bank.oldest : queued_[taken.previous].next) = taken.next;
    (taken.next < 0 ? bank.youngest : queued_[taken.next].previous) = taken.previous;
    unused_.push_back(slot);
    queued_count_--;
    bank.served++;
    if (!bank.has_hits()) {
        with_hits_ &= ~(uint64_t{1} << index);
    }
    if (bank.oldest >= 0) {
        check_rows_ |= uint64_t{1} << index;
    }

    column_ready_at_ = now + parameters_.cas;
    group_ready_at_[bank.group] = now + parameters_.cas_same_group;
    if (taken.beat.write) {
        read_ready_at_ = now + parameters_.write_turnaround;
    }
    beats_++;
    busy_cycles_ += static_cast<uint64_t>(now - std::max(last_column_, busy_since_ - 1));
    last_column_ = now;
}

void Dram::find_oldest_hit(Bank &bank, int kind, int from) {
    bank.oldest_hit[kind] = -1;
    if (bank.hits[kind] == 0) {
        return;
    }
    while (queued_[from].row != bank.open_row || queued_[from].beat.write != static_cast<bool>(kind)) {
        from = queued_[from].next;
    }
    bank.oldest_hit[kind] = from;
}

}  // namespace atalla::timing
