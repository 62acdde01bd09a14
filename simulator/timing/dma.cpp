#include "simulator/timing/dma.h"

#include <algorithm>

namespace atalla::timing {

namespace {

// Rule 29: the first byte of a row's first and of its last beat.
struct RowBeats {
    uint32_t first, last;
};
RowBeats row_beats(const DmaTile &tile, uint32_t row, uint32_t beat) {
    const uint32_t begin = tile.address + 2 * tile.pitch * row;
    const uint32_t last_byte = begin + 2 * tile.columns - 1;
    return {begin & ~(beat - 1), last_byte & ~(beat - 1)};
}

}  // namespace

Dma::Dma(const Machine &machine, Bus &bus, Scoreboard &scoreboard, Wakes &wakes, Observer *observer)
    : timing_(machine.sdma),
      write_land_(machine.pad.write_land),
      row_held_(machine.pad.read_L + machine.sdma.load_extra),
      bus_(bus),
      scoreboard_(scoreboard),
      wakes_(wakes),
      observer_(observer) {}

void Dma::start(const Transfer &transfer, Cycle now) {
    Engine &engine = engines_[transfer.tile.pad];
    engine = Engine{};
    engine.transfer = transfer;
    engine.issued = now;
    free_at_[transfer.tile.pad] = never;
    scoreboard_.reserve(transfer.base);
    if (transfer.is_load) {
        const auto beat = static_cast<uint32_t>(timing_.beat);
        for (uint32_t row = 0; row < transfer.tile.rows; row++) {
            const RowBeats beats = row_beats(transfer.tile, row, beat);
            engine.beats_left[row] = static_cast<int>((beats.last - beats.first) / beat + 1);
        }
    }
    begin_row(engine);
    update_launch(transfer.tile.pad, now + timing_.setup);
    update_present(engine, now + timing_.setup);
}

// Sets the launch cursor to the first beat of `launch_row`.
void Dma::begin_row(Engine &engine) const {
    const RowBeats beats =
        row_beats(engine.transfer.tile, static_cast<uint32_t>(engine.launch_row), static_cast<uint32_t>(timing_.beat));
    engine.launch_address = beats.first;
    engine.launch_last = beats.last;
}

// The next beat may be launched from `from` on, if anything may.
void Dma::update_launch(uint32_t pad, Cycle from) {
    const Engine &engine = engines_[pad];
    const bool row_missing = !engine.transfer.is_load && engine.launch_row >= engine.rows_started;
    if (engine.launch_row == engine.rows() || engine.outstanding == timing_.outstanding || row_missing) {
        from = never;
    } else if (!engine.transfer.is_load) {
        from = std::max(from, engine.row_ready_at[static_cast<size_t>(engine.launch_row)]);
    }
    bus_.set_next_launch(first_pad_master + static_cast<int>(pad), from);
}

// The next row may be presented from `from` on, if any may.
void Dma::update_present(Engine &engine, Cycle from) {
    Cycle &present_at = present_at_[engine.transfer.tile.pad];
    present_at = never;
    if (engine.next_present == engine.rows()) {
        return;
    }
    const auto row = static_cast<size_t>(engine.next_present);
    from = std::max(from, engine.accepted + timing_.row_ii);
    if (engine.transfer.is_load) {
        if (engine.beats_left[row] == 0) {
            present_at = std::max(from, engine.row_ready_at[row]);
        }
    } else if (engine.next_present - engine.launch_row < timing_.store_rows_ahead) {
        present_at = from;
    }
    Cycle &wake = wakes_.pad[engine.transfer.tile.pad];
    wake = std::min(wake, present_at);
}

int Dma::accept_row(uint32_t pad, Cycle now) {
    Engine &engine = engines_[pad];
    engine.accepted = now;
    const int row = engine.next_present++;
    update_present(engine, now + 1);
    return row;
}

void Dma::row_started(uint32_t pad, Cycle now) {
    Engine &engine = engines_[pad];
    const int row = engine.rows_started++;
    if (engine.transfer.is_load) {
        if (engine.rows_started == engine.rows()) {
            end(engine, now + write_land_);
        }
        return;
    }
    engine.row_ready_at[static_cast<size_t>(row)] = now + row_held_;
    if (row == engine.launch_row) {
        update_launch(pad, now + row_held_);
    }
}

Beat Dma::launch(uint32_t pad, Cycle now) {
    Engine &engine = engines_[pad];
    const Beat beat(engine.launch_address, static_cast<uint32_t>(engine.launch_row), first_pad_master + pad,
                    !engine.transfer.is_load);
    engine.outstanding++;
    if (engine.launch_address != engine.launch_last) {
        engine.launch_address += static_cast<uint32_t>(timing_.beat);
    } else {
        engine.launch_row++;
        if (engine.launch_row < engine.rows()) {
            begin_row(engine);
        }
        // A store may have waited for this row to leave.
        if (!engine.transfer.is_load && present_at_[pad] == never) {
            update_present(engine, now + 1);
        }
    }
    update_launch(pad, now + 1);
    return beat;
}

bool Dma::arrive(uint32_t pad, uint32_t row, Cycle now) {
    Engine &engine = engines_[pad];
    // A launch that waited for this beat may follow in the same cycle.
    if (engine.outstanding-- == timing_.outstanding) {
        update_launch(pad, now);
    }
    if (!engine.transfer.is_load) {
        if (engine.launch_row == engine.rows() && engine.outstanding == 0) {
            end(engine, now);
            return true;
        }
    } else if (--engine.beats_left[row] == 0) {
        engine.row_ready_at[row] = now + 1;
        if (static_cast<int>(row) == engine.next_present) {
            update_present(engine, now + 1);
        }
    }
    return false;
}

// Rule 31: engine and rs1 are free from the cycle after the end.
void Dma::end(Engine &engine, Cycle last) {
    free_at_[engine.transfer.tile.pad] = last + 1;
    scoreboard_.release(engine.transfer.base, last + 1);
    last_end_ = std::max(last_end_, last);
    if (observer_ != nullptr) [[unlikely]] {
        observer_->transfer_ends(engine.transfer.tile.pad, engine.transfer.packet, engine.issued, last);
    }
}

}  // namespace atalla::timing
