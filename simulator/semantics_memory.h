// The instructions that move data: scalar loads and stores, vreg.*, scpad.* (isa reference 4.5, 4.10, 4.11).
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>

#include "simulator/lanes.h"
#include "simulator/semantics_scalar.h"

namespace atalla::semantics {

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_scalar_address(const S &s, uint32_t address, uint32_t bytes) {
    refuse("memory",
           fmt::format("{} bytes at address 0x{:08X} are outside the data memory of {} bytes", bytes, address, s.bytes.size()));
}

// Bytes on hardware: addresses wrap at 32 bits and must lie in the memory that the machine has.
inline uint32_t scalar_address(const S &s, const I &i, uint32_t bytes) {
    const uint32_t address = rs1(s, i) + imm(i);
    if (!s.bytes.contains(address, bytes)) [[unlikely]] {
        refuse_scalar_address(s, address, bytes);
    }
    return address;
}
// The key of an entry on the functional machine: not wrapped (quirk 19).
inline int64_t scalar_key(const S &s, const I &i) { return int64_t{rs1(s, i)} + i.imm; }

template <MachineModel model>
void lw_s(S &s, const I &i) {
    if constexpr (model == Hardware) {
        set_rd(s, i, s.bytes.read32(scalar_address(s, i, 4)));
    } else {
        set_rd(s, i, s.words.read(scalar_key(s, i)));
    }
}
template <MachineModel model>
void sw_s(S &s, const I &i) {
    if constexpr (model == Hardware) {
        s.bytes.write32(scalar_address(s, i, 4), s.x[i.d]);
    } else {
        s.words.write(scalar_key(s, i), s.x[i.d]);
    }
}
// Half words are bf16 elements: they live in the upper half of a register (quirk 20).
template <MachineModel model>
void lhw_s(S &s, const I &i) {
    if constexpr (model == Hardware) {
        set_rd(s, i, uint32_t{s.bytes.read16(scalar_address(s, i, 2))} << 16);
    } else {
        set_rd(s, i, s.words.read(scalar_key(s, i)) << 16);
    }
}
template <MachineModel model>
void shw_s(S &s, const I &i) {
    if constexpr (model == Hardware) {
        s.bytes.write16(scalar_address(s, i, 2), static_cast<uint16_t>(s.x[i.d] >> 16));
    } else {
        s.words.write(scalar_key(s, i), s.x[i.d] >> 16);
    }
}

// Upstream quiets a signalling NaN wherever memory becomes a lane or a lane memory.
inline uint16_t quiet_half(uint16_t half) { return static_cast<uint16_t>((half & 0x7FFF) > 0x7F80 ? half | 0x40 : half); }
inline uint16_t truncated_half(float value) { return static_cast<uint16_t>(quiet_bits(float_bits(value)) >> 16); }

// vreg.*

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_pad(const S &s, const char *what, uint32_t pad) {
    refuse("pad", fmt::format("{} names pad {}, the machine has pads 0 to {}", what, pad, s.pad_count - 1));
}

// Upstream's functional simulator sends high addresses, and those around the scratchpad frame pointer x33, to memory.
constexpr uint32_t linear_base = 0x1000, frame_register = 33, frame_bytes = 768;
inline bool is_linear(const S &s, uint32_t address) {
    const uint32_t frame = s.x[frame_register];
    return address >= linear_base || (frame >= linear_base && address <= frame && address >= frame - frame_bytes);
}

// What a vreg.* moves, or would move, between a pad and a register.
inline uint64_t checked_columns(const S &s, const I &i, const char *what) {
    if (i.aux >= s.pad_count) [[unlikely]] {
        refuse_pad(s, what, i.aux);
    }
    return static_cast<uint64_t>(i.imm) + 1;
}
inline void count_vreg_ld(S &s, const I &i) { s.traffic.pad_load_bytes[i.aux] += 2 * checked_columns(s, i, "vreg.ld"); }
inline void count_vreg_st(S &s, const I &i) { s.traffic.pad_store_bytes[i.aux] += 2 * checked_columns(s, i, "vreg.st"); }

// Lanes above imm (columns - 1) become zero. Whole rows, which are most, are copied without a look at the lane.
template <MachineModel model>
void vreg_ld(S &s, const I &i) {
    const int columns = i.imm + 1;
    if (model == Functional && is_linear(s, rs1(s, i))) {
        uint16_t halves[lanes] = {};
        s.words.read_halves(rs1(s, i), {halves, static_cast<size_t>(columns)});
        if (i.d != 0) {
            for (int lane = 0; lane < lanes; lane++) {
                s.v[i.d][lane] = bf16_float(quiet_half(halves[lane]));
            }
        }
        return;
    }
    count_vreg_ld(s, i);
    if (i.d == 0) {
        return;
    }
    float *to = s.v[i.d];
    const uint32_t row = vreg_row(s, i);
    if constexpr (model == Hardware) {
        const uint16_t *cells = s.pad_halves(i.aux, row);
        for (int lane = 0; lane < lanes; lane++) {
            to[lane] = bf16_float(cells[lane]);
        }
    } else {
        copy_lanes(s.pad_floats(i.aux, row), to);
    }
    if (columns < lanes) {
        std::fill(to + columns, to + lanes, 0.0f);
    }
}

// Cells and elements above imm (columns - 1) stay as they are.
template <MachineModel model>
void vreg_st(S &s, const I &i) {
    const int columns = i.imm + 1;
    const float *values = s.v[i.d];
    if (model == Functional && is_linear(s, rs1(s, i))) {
        uint16_t halves[lanes];
        for (int lane = 0; lane < lanes; lane++) {
            halves[lane] = truncated_half(values[lane]);
        }
        s.words.write_halves(rs1(s, i), {halves, static_cast<size_t>(columns)});
        return;
    }
    count_vreg_st(s, i);
    const uint32_t row = vreg_row(s, i);
    if constexpr (model == Hardware) {
        uint16_t halves[lanes];
        for (int lane = 0; lane < lanes; lane++) {
            halves[lane] = bf16_truncate(values[lane]);
        }
        std::memcpy(s.write_pad_halves(i.aux, row), halves, 2 * static_cast<size_t>(columns));
    } else {
        std::copy_n(values, columns, s.write_pad_floats(i.aux, row));
    }
}

// scpad.*

template <MachineModel model>
[[noreturn, gnu::cold, gnu::noinline]] void refuse_tile(const S &s, const DmaTile &tile, const char *what) {
    if (tile.pitch < tile.columns) {
        refuse(model == Hardware ? "50" : "isa 4.10",
               fmt::format("{} has a row pitch of {} elements, less than its {} columns", what, tile.pitch, tile.columns));
    }
    if (tile.pad >= s.pad_count) {
        refuse_pad(s, what, tile.pad);
    }
    if (uint64_t{tile.pad_row} + tile.rows > static_cast<uint64_t>(s.pad_rows)) {
        refuse("pad", fmt::format("{} uses rows {} to {} of pad {}, which has {} rows", what, tile.pad_row,
                                  tile.pad_row + tile.rows - 1, tile.pad, s.pad_rows));
    }
    refuse("memory", fmt::format("{} moves a tile of {} bytes at address 0x{:08X}, outside the data memory of {} bytes", what,
                                 tile.spread(), tile.address, s.bytes.size()));
}

template <MachineModel model>
DmaTile checked_tile(const S &s, const I &i, const char *what) {
    const DmaTile tile = dma_tile<model>(s, i);
    bool fits = tile.pitch >= tile.columns;
    if constexpr (model == Hardware) {
        fits = fits && tile.pad < s.pad_count && uint64_t{tile.pad_row} + tile.rows <= static_cast<uint64_t>(s.pad_rows) &&
               s.bytes.contains(tile.address, tile.spread());
    }
    if (!fits) [[unlikely]] {
        refuse_tile<model>(s, tile, what);
    }
    return tile;
}

// The rows of a tile: f(memory address of row, pad row). On the functional machine both wrap.
template <class F>
void for_each_row(const S &s, const DmaTile &tile, F f) {
    const uint32_t rows = static_cast<uint32_t>(s.pad_rows);
    for (uint32_t row = 0; row < tile.rows; row++) {
        f(tile.address + 2 * row * tile.pitch, (tile.pad_row + row) % rows);
    }
}

inline uint64_t tile_bytes(const DmaTile &tile) { return 2 * uint64_t{tile.rows} * tile.columns; }

// Elements of memory into a pad row of the functional machine. `columns` may be a constant, which most rows are as wide as.
template <class Columns>
void load_floats(const S &s, uint32_t address, float *cells, Columns columns) {
    uint16_t halves[lanes];
    s.words.read_halves(address, {halves, columns});
    for (uint32_t column = 0; column < columns; column++) {
        cells[column] = bf16_float(quiet_half(halves[column]));
    }
}

template <MachineModel model>
void scpad_ld(S &s, const I &i) {
    const DmaTile tile = checked_tile<model>(s, i, "scpad.ld");
    if (tile.pad >= s.pad_count) {
        return;  // functional machine: nothing happens (quirk 16)
    }
    s.traffic.dma_load_bytes[tile.pad] += tile_bytes(tile);
    for_each_row(s, tile, [&](uint32_t address, uint32_t pad_row) {
        if constexpr (model == Hardware) {
            s.bytes.read(address, {reinterpret_cast<uint8_t *>(s.write_pad_halves(tile.pad, pad_row)), 2 * tile.columns});
        } else if (tile.columns == lanes) {
            load_floats(s, address, s.write_pad_floats(tile.pad, pad_row), std::integral_constant<uint32_t, lanes>());
        } else {
            load_floats(s, address, s.write_pad_floats(tile.pad, pad_row), tile.columns);
        }
    });
}

// What is left of a scpad.* of a hardware machine where lanes are skipped.
inline void skip_scpad_ld(S &s, const I &i) {
    const DmaTile tile = checked_tile<Hardware>(s, i, "scpad.ld");
    s.traffic.dma_load_bytes[tile.pad] += tile_bytes(tile);
}
inline void skip_scpad_st(S &s, const I &i) {
    const DmaTile tile = checked_tile<Hardware>(s, i, "scpad.st");
    s.traffic.dma_store_bytes[tile.pad] += tile_bytes(tile);
    s.skipped.add(tile.address, tile.spread());
}
// A scalar load where lanes are skipped.
inline void check_not_skipped(const S &s, const I &i, uint32_t bytes) {
    if (const uint32_t address = rs1(s, i) + imm(i); s.skipped.overlap(address, bytes)) {
        refuse("lanes", fmt::format("a scalar is loaded from address 0x{:08X}, which transfers have written to", address));
    }
}

template <MachineModel model>
void scpad_st(S &s, const I &i) {
    const DmaTile tile = checked_tile<model>(s, i, "scpad.st");
    if (tile.pad >= s.pad_count) {
        return;  // functional machine: nothing happens (quirk 16)
    }
    s.traffic.dma_store_bytes[tile.pad] += tile_bytes(tile);
    for_each_row(s, tile, [&](uint32_t address, uint32_t pad_row) {
        if constexpr (model == Hardware) {
            s.bytes.write(address, {reinterpret_cast<const uint8_t *>(s.pad_halves(tile.pad, pad_row)), 2 * tile.columns});
        } else {
            uint16_t halves[lanes];
            const float *cells = s.pad_floats(tile.pad, pad_row);
            for (int column = 0; column < lanes; column++) {
                halves[column] = truncated_half(cells[column]);
            }
            s.words.write_halves(address, {halves, tile.columns});
        }
    });
}

}  // namespace atalla::semantics
