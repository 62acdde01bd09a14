// The architectural state of a machine: registers, masks, pads, weights and data memory (isa reference section 1).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "isa/machine.h"
#include "isa/vectors.h"
#include "simulator/memory.h"

namespace atalla {

// Zero, or so far from both ends of the range that the product of two such bf16 values is exact in float32: it has 16
// significant bits, the last of them no less than 2^-148, and is less than 2^128.
constexpr uint32_t least_moderate = 0x1E000000, most_moderate = 0x5F7F0000;  // 2^-67, the last one below 2^64
constexpr bool is_moderate(uint32_t bits) {
    const uint32_t magnitude = bits & 0x7FFFFFFF;
    return (magnitude == 0) | (magnitude - least_moderate <= most_moderate - least_moderate);
}

// The weight buffer of the array. Column j holds the vector that output lane j is the dot product with. Columns live in a
// ring, so shifting all of them right costs one column; the layout is [depth][column], so that a row against the
// buffer is 32 independent sums.
struct WeightBuffer {
    alignas(64) float depth[lanes][lanes] = {};
    uint32_t first = 0;    // ring position of column 0
    uint32_t loaded = 0;   // vectors loaded, at most 32: upstream's functional simulator fills before it shifts
    uint32_t extreme = 0;  // ring positions, one bit each, of columns that hold other than moderate values

    void set_column(uint32_t position, const float *values) {
        uint32_t others = 0;
        for (int k = 0; k < lanes; k++) {
            others |= is_moderate(float_bits(values[k])) ? 0u : 1u;
        }
        extreme = (extreme & ~(1u << position)) | others << position;
        for (int k = 0; k < lanes; k++) {
            depth[k][position] = values[k];
        }
    }
    // All columns move right by one, `values` becomes column 0.
    void shift_in(const float *values) {
        first = (first + lanes - 1) % lanes;
        set_column(first, values);
    }
};

// Rows that the array was given and whose results nobody has asked for: computed side by side they take half the time. All are
// for the weights as they are now.
struct WaitingRows {
    static constexpr int capacity = 8;
    alignas(64) float row[capacity][lanes];
    alignas(64) float addend[capacity][lanes];  // where the array adds partial sums
    std::array<uint8_t, capacity> destination;  // which is out of date
    int count = 0;
};

// Sums of rows that the functional machine has computed ahead of their gemm.vv, with weights and rows that do not change until
// then: side by side they take less time.
struct RowsAhead {
    static constexpr int capacity = 4;
    alignas(64) float sums[capacity][lanes];
    int count = 0, taken = 0;
};

// Bytes moved so far, by pad (isa reference: DMA payload; lanes of vreg.*). Counted where the values move.
struct Traffic {
    std::array<uint64_t, 4> pad_load_bytes{}, pad_store_bytes{};
    std::array<uint64_t, 4> dma_load_bytes{}, dma_store_bytes{};
};

// Where transfers would have written to memory in a run that skips lanes: from the first byte to behind the last one.
struct SkippedBytes {
    uint64_t begin = UINT64_MAX, end = 0;
    void add(uint64_t address, uint64_t bytes) {
        begin = std::min(begin, address);
        end = std::max(end, address + bytes);
    }
    bool overlap(uint64_t address, uint64_t bytes) const { return address < end && address + bytes > begin; }
};

// Lanes are float32 patterns. On a hardware machine, where lanes are 16 bits wide, the low half is always zero.
struct Registers {
    alignas(64) float v[256][lanes] = {};
    uint32_t x[256] = {};
    uint32_t m[16] = {0xFFFFFFFF};  // m0 starts as all ones, the others as zero
};

class MachineState : public Registers {
public:
    explicit MachineState(const Machine &machine);

    // Registers, pads and weights as at reset; data memory stays.
    void reset();
    // Every element of the pads, the weights and the vector registers gets this bf16 pattern, scalar registers and masks two of
    // it, but for v0, x0 and m0.
    void leave(uint16_t pattern);

    // Byte address of the packet that executes; outside 32 bits only on the functional machine.
    int64_t pc = 0;
    WeightBuffer weights;
    WaitingRows rows;
    RowsAhead ahead;
    Traffic traffic;
    SkippedBytes skipped;

    bool psum_in = false;  // gemm.vv adds vs2 (Machine::sa.psum_in)

    // Data memory: `bytes` on hardware machines, `words` on the functional machine.
    ByteMemory bytes;
    WordMemory words;

    int64_t pad_count = 0, pad_rows = 0;
    // A pad row of 32 elements. Hardware machines hold bf16 patterns, the functional machine float32 values.
    const uint16_t *pad_halves(int64_t pad, int64_t row) const { return cells<uint16_t>(pad, row); }
    const float *pad_floats(int64_t pad, int64_t row) const { return cells<float>(pad, row); }
    // The same to be written.
    uint16_t *write_pad_halves(int64_t pad, int64_t row) { return const_cast<uint16_t *>(pad_halves(used(pad, row), row)); }
    float *write_pad_floats(int64_t pad, int64_t row) { return const_cast<float *>(pad_floats(used(pad, row), row)); }
    // All pads as bytes.
    std::span<const uint8_t> pad_bytes() const {
        return {static_cast<const uint8_t *>(pads_), static_cast<size_t>(pad_count * pad_rows) * lanes * cell_bytes_};
    }

private:
    template <class Cell>
    const Cell *cells(int64_t pad, int64_t row) const {
        return static_cast<const Cell *>(pads_) + (pad * pad_rows + row) * lanes;
    }
    int64_t used(int64_t pad, int64_t row) {
        int64_t &rows = used_rows_[static_cast<size_t>(pad)];
        rows = std::max(rows, row + 1);
        return pad;
    }

    struct Free {
        void operator()(void *p) const { std::free(p); }
    };
    std::unique_ptr<void, Free> allocated_;  // zero pages cost nothing until they are used
    void *pads_ = nullptr;                   // in it
    size_t cell_bytes_ = 2;
    std::array<int64_t, 4> used_rows_{};  // by pad: the rows from here on are zero
};

}  // namespace atalla
