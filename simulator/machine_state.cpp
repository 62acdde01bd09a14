#include "simulator/machine_state.h"

#include <new>

namespace atalla {

MachineState::MachineState(const Machine &machine)
    : psum_in(machine.sa.psum_in),
      bytes(static_cast<uint64_t>(machine.memory.bytes)),
      words(static_cast<uint64_t>(machine.memory.bytes)),
      pad_count(machine.pad.count),
      pad_rows(machine.pad_rows()),
      cell_bytes_(machine.model == MachineModel::Functional ? sizeof(float) : sizeof(uint16_t)) {
    pads_.reset(std::calloc(static_cast<size_t>(pad_count * pad_rows) * lanes, cell_bytes_));
    if (!pads_) {
        throw std::bad_alloc();
    }
}

void MachineState::reset() {
    static_cast<Registers &>(*this) = {};
    pc = 0;
    weights = {};
    traffic = {};
    // Only what was written: memory that nobody touched costs nothing.
    for (size_t pad = 0; pad < used_rows_.size(); pad++) {
        if (used_rows_[pad] > 0) {
            const size_t row_bytes = lanes * cell_bytes_;
            uint8_t *first = static_cast<uint8_t *>(pads_.get()) + pad * static_cast<size_t>(pad_rows) * row_bytes;
            std::fill_n(first, static_cast<size_t>(used_rows_[pad]) * row_bytes, uint8_t{0});
            used_rows_[pad] = 0;
        }
    }
}

}  // namespace atalla
