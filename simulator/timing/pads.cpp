#include "simulator/timing/pads.h"

#include <algorithm>

namespace atalla::timing {

Pad::Pad(uint32_t number, const Machine &machine, Dma &dma, Writeback &writeback, const Hazards &hazards, Wakes &wakes,
         Observer *observer)
    : number_(number),
      source_(vlsu_source(static_cast<int>(number))),
      queue_(static_cast<size_t>(machine.pad.queue)),
      accept_per_cycle_(static_cast<int>(machine.pad.accept_per_cycle)),
      load_queue_(machine.vlsu.load_queue),
      store_queue_(machine.vlsu.store_queue),
      present_delay_(machine.vlsu.present),
      load_offer_(machine.pad.read_L + machine.vlsu.load_extra),
      write_land_(machine.pad.write_land),
      start_interval_{machine.pad.read_ii, machine.pad.write_ii},
      dma_(dma),
      writeback_(writeback),
      hazards_(hazards),
      wake_(wakes.pad[number]),
      observer_(observer) {}

void Pad::issue(bool write, uint32_t row, RegisterId destination, int32_t packet, uint64_t order, Cycle now) {
    (write ? stores_waiting_ : loads_)++;
    pending_[write][row % filter_size]++;
    vlsu_.push(order, now + present_delay_, packet, row, destination, write, false);
    wake_ = std::min(wake_, now + present_delay_);
}

bool Pad::step(Cycle now) {
    const Cycle next_row = dma_.next_present(number_);
    if (waiting_[0].empty() && waiting_[1].empty()) {
        if (next_row > now ? pass_access(now, next_row) : pass_row(now)) {
            return true;
        }
    }
    return step_queues(now, next_row <= now);
}

bool Pad::step_queues(Cycle now, bool row_presented) {
    if (!full()) {
        accept(now, row_presented);
    }
    const bool read = may_start(false, now), write = may_start(true, now);
    // Both are checked before either has started: one that starts in the same cycle has not started in an earlier one.
    for (const bool direction : {false, true}) {
        if (direction ? write : read) {
            check_order(waiting_[direction].front(), now);
        }
    }
    for (const bool direction : {false, true}) {
        if (direction ? write : read) {
            start(waiting_[direction].front(), now);
            waiting_[direction].pop();
        }
    }
    update_wake(now);
    return write;
}

// What mostly happens: nothing waits, and the only access presented is accepted and starts at once.
bool Pad::pass_access(Cycle now, Cycle next_row) {
    if (vlsu_.empty() || vlsu_.front().present_at > now || next_start_[vlsu_.front().write] > now) {
        return false;
    }
    const PadRequest &access = vlsu_.front();
    check_order(access, now);
    start(access, now);
    vlsu_.pop();
    const Cycle next_access = vlsu_.empty() ? never : std::max(now + 1, vlsu_.front().present_at);
    wake_ = std::min(next_access, next_row);
    return true;
}

// The same with the row that the DMA engine presents.
bool Pad::pass_row(Cycle now) {
    const bool write = dma_.transfer(number_).is_load;
    const Cycle next_access = vlsu_.empty() ? never : vlsu_.front().present_at;
    if (next_start_[write] > now || (next_access <= now && accept_per_cycle_ > 1)) {
        return false;
    }
    const PadRequest row = row_from_dma(now);
    check_order(row, now);
    pending_[write][row.row % filter_size]++;
    start(row, now);
    wake_ = std::max(now + 1, std::min(next_access, dma_.next_present(number_)));
    return true;
}

// Rule 27: the DMA engine goes before the VLSU.
void Pad::accept(Cycle now, bool row_presented) {
    int accepted = 0;
    if (row_presented) {
        const PadRequest row = row_from_dma(now);
        pending_[row.write][row.row % filter_size]++;
        waiting_[row.write].push(row);
        accepted++;
    }
    if (accepted < accept_per_cycle_ && !vlsu_.empty() && vlsu_.front().present_at <= now) {
        waiting_[vlsu_.front().write].push(vlsu_.front());
        vlsu_.pop();
    }
}

// Accepts the row that the DMA engine presents.
PadRequest Pad::row_from_dma(Cycle now) {
    const auto tile_row = static_cast<uint32_t>(dma_.accept_row(number_, now));
    const Transfer &transfer = dma_.transfer(number_);
    return {transfer.order, now, transfer.packet, transfer.tile.pad_row + tile_row, no_register, transfer.is_load, true};
}

// Rule 51: no older request of the other direction for the same row may be waiting, in the VLSU or in the pad.
void Pad::find_overtaken(const PadRequest &starting, Cycle now) const {
    for (const Requests *queue : {&waiting_[!starting.write], &vlsu_}) {
        for (size_t offset = 0; offset < queue->size(); offset++) {
            const PadRequest &waiting = (*queue)[offset];
            if (waiting.write != starting.write && waiting.row == starting.row && waiting.order < starting.order) {
                hazards_.refuse_overtaking(number_, starting, waiting, now);
            }
        }
    }
}

void Pad::start(const PadRequest &started, Cycle now) {
    const bool write = started.write;
    next_start_[write] = now + start_interval_[write];
    started_[write]++;
    pending_[write][started.row % filter_size]--;
    if (write) {
        last_landing_ = now + write_land_;
    }
    if (observer_ != nullptr) [[unlikely]] {
        observer_->pad_starts(number_, write, started.of_transfer, started.row, started.packet, now, start_interval_[write],
                              now + write_land_);
    }
    if (started.of_transfer) {
        dma_.row_started(number_, now);
    } else if (write) {
        stores_waiting_--;
    } else {
        writeback_.push(source_, now + load_offer_, started.destination, now);
    }
}

void Pad::update_wake(Cycle now) {
    Cycle next = never;
    for (const bool write : {false, true}) {
        if (!waiting_[write].empty()) {
            next = std::min(next, std::max(now + 1, next_start_[write]));
        }
    }
    if (!full()) {
        const Cycle next_access = vlsu_.empty() ? never : vlsu_.front().present_at;
        next = std::min(next, std::max(now + 1, std::min(next_access, dma_.next_present(number_))));
    }
    wake_ = next;
}

}  // namespace atalla::timing
