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
    reset();
}

void MachineState::reset() {
    static_cast<Registers &>(*this) = {};
    pc = 0;
    weights = {};
    traffic = {};
    pads_.reset(std::calloc(static_cast<size_t>(pad_count * pad_rows) * lanes, cell_bytes_));
    if (!pads_) {
        throw std::bad_alloc();
    }
}

}  // namespace atalla
