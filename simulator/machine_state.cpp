#include "simulator/machine_state.h"

#include <algorithm>
#include <memory>
#include <new>

#include "simulator/numerics.h"

namespace atalla {

namespace {
constexpr size_t row_alignment = 64;
}

MachineState::MachineState(const Machine &machine)
    : psum_in(machine.sa.psum_in),
      bytes(static_cast<uint64_t>(machine.memory.bytes)),
      words(static_cast<uint64_t>(machine.memory.bytes)),
      pad_count(machine.pad.count),
      pad_rows(machine.pad_rows()),
      cell_bytes_(machine.model == MachineModel::Functional ? sizeof(float) : sizeof(uint16_t)) {
    // Rows are aligned, so that the host need not put one together from two lines of its cache.
    const size_t bytes = static_cast<size_t>(pad_count * pad_rows) * lanes * cell_bytes_;
    size_t space = bytes + row_alignment;
    allocated_.reset(std::calloc(space, 1));
    if (!allocated_) {
        throw std::bad_alloc();
    }
    pads_ = allocated_.get();
    std::align(row_alignment, bytes, pads_, space);
}

void MachineState::reset() {
    static_cast<Registers &>(*this) = {};
    pc = 0;
    weights = {};
    rows.count = 0;
    ahead.count = ahead.taken = 0;
    traffic = {};
    skipped = {};
    // Only what was written: memory that nobody touched costs nothing.
    for (size_t pad = 0; pad < used_rows_.size(); pad++) {
        if (used_rows_[pad] > 0) {
            const size_t row_bytes = lanes * cell_bytes_;
            uint8_t *first = static_cast<uint8_t *>(pads_) + pad * static_cast<size_t>(pad_rows) * row_bytes;
            std::fill_n(first, static_cast<size_t>(used_rows_[pad]) * row_bytes, uint8_t{0});
            used_rows_[pad] = 0;
        }
    }
}

void MachineState::leave(uint16_t pattern) {
    const uint32_t twice = uint32_t{pattern} << 16 | pattern;
    for (size_t reg = 1; reg < std::size(v); reg++) std::fill_n(v[reg], lanes, bf16_float(pattern));
    std::fill(std::begin(x) + 1, std::end(x), twice);
    std::fill(std::begin(m) + 1, std::end(m), twice);
    for (uint32_t column = 0; column < lanes; column++) weights.set_column(column, v[1]);
    const size_t elements = static_cast<size_t>(pad_count * pad_rows) * lanes;
    if (cell_bytes_ == sizeof(float))
        std::fill_n(static_cast<float *>(pads_), elements, bf16_float(pattern));
    else
        std::fill_n(static_cast<uint16_t *>(pads_), elements, pattern);
    std::fill_n(used_rows_.begin(), pad_count, pad_rows);
}

}  // namespace atalla
