#include "isa/machine_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "isa/error.h"

namespace atalla {

namespace {

// Bounds of the simulator rather than of any machine: queues and latencies are held in arrays of this order.
constexpr int64_t most_cycles = 4096;
constexpr int64_t most_entries = 4096;

// One row of the table; the key is the member's name as it is written in struct Machine.
// clang-format off
#define ATALLA_PARAMETER(name, unit, low, high)                                                     \
    ParameterEntry {                                                                                \
        #name, unit, low, high, std::is_same_v<decltype(Machine{}.name), bool>,                     \
        [](const Machine &machine) -> int64_t { return machine.name; },                             \
        [](Machine &machine, int64_t value) { machine.name = static_cast<decltype(machine.name)>(value); } \
    }
#define ATALLA_FLAG(name) ATALLA_PARAMETER(name, "true or false", 0, 1)
// clang-format on

const std::array table = {
    ATALLA_PARAMETER(core.clock, "MHz", 1, 10000),
    ATALLA_PARAMETER(memory.bytes, "bytes", 4096, int64_t{1} << 32),

    ATALLA_PARAMETER(issue.slots, "operations", 1, 4),
    ATALLA_PARAMETER(issue.packet_bytes, "bytes", 20, 20),
    ATALLA_PARAMETER(issue.scalar_reads, "reads", 3, 16),
    ATALLA_PARAMETER(issue.vector_reads, "reads", 2, 16),
    ATALLA_PARAMETER(issue.mask_reads, "reads", 1, 16),
    ATALLA_PARAMETER(issue.array_ops, "operations", 1, 1),
    ATALLA_PARAMETER(issue.mts_ops, "operations", 1, 1),
    ATALLA_PARAMETER(issue.lane_ops, "operations", 1, 4),
    ATALLA_PARAMETER(issue.vlsu_per_pad, "operations", 1, 1),
    ATALLA_PARAMETER(issue.sdma_per_pad, "operations", 1, 1),

    ATALLA_PARAMETER(regs.scalar, "registers", 256, 256),
    ATALLA_PARAMETER(regs.vector, "registers", 256, 256),
    ATALLA_PARAMETER(regs.mask, "registers", 16, 16),
    ATALLA_PARAMETER(regs.scalar_banks, "banks", 1, 4),
    ATALLA_PARAMETER(regs.vector_banks, "banks", 1, 4),
    ATALLA_PARAMETER(regs.mask_banks, "banks", 1, 4),
    ATALLA_FLAG(regs.scalar_conflict),
    ATALLA_FLAG(regs.vector_conflict),
    ATALLA_FLAG(regs.mask_conflict),

    ATALLA_PARAMETER(wb.writes_per_bank, "writes per cycle", 1, 15),
    ATALLA_PARAMETER(wb.offer_to_use, "cycles", 1, most_cycles),

    ATALLA_PARAMETER(ex1.L, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(ex1.ii, "cycles", 1, most_cycles),
    ATALLA_PARAMETER(ex2.rcp_sqrt_L, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(ex2.divmod_L, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(ex2.conv_L, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(ex2.ii_after_L, "cycles", 1, most_cycles),
    ATALLA_PARAMETER(ex3.L, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(ex3.ii, "cycles", 1, most_cycles),
    ATALLA_PARAMETER(ex4.L, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(ex4.ii, "cycles", 1, most_cycles),
    ATALLA_PARAMETER(ex5.load_hit, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(ex5.store_hit, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(ex5.ii_after_L, "cycles", 1, most_cycles),

    ATALLA_PARAMETER(dcache.bytes, "bytes", 64, 1 << 24),
    ATALLA_PARAMETER(dcache.ways, "ways", 1, 32),
    ATALLA_PARAMETER(dcache.line, "bytes", 8, 4096),
    ATALLA_PARAMETER(dcache.beat, "bytes", 8, 4096),
    ATALLA_PARAMETER(dcache.mshr, "misses", 1, 1),
    ATALLA_PARAMETER(dcache.miss_clean, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(dcache.miss_dirty, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(icache.bytes, "bytes", 128, 1 << 24),
    ATALLA_PARAMETER(icache.line, "bytes", 32, 4096),
    ATALLA_PARAMETER(icache.sector, "bytes", 8, 4096),
    ATALLA_PARAMETER(icache.ways, "ways", 1, 1),
    ATALLA_PARAMETER(branch.penalty, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(branch.btb, "entries", 1, 1 << 20),

    ATALLA_PARAMETER(vec.vl, "elements", 32, 32),
    ATALLA_PARAMETER(vec.ii, "cycles", 1, most_cycles),
    ATALLA_PARAMETER(vec.add_L, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(vec.mul_L, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(vec.cmp_L, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(vec.exp_L, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(vec.reduce_L, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(vec.reduce_ii, "cycles", 1, most_cycles),
    ATALLA_PARAMETER(vec.mov_to_scalar_L, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(vec.mov_to_scalar_ii, "cycles", 1, most_cycles),

    ATALLA_PARAMETER(pad.count, "pads", 1, 4),
    ATALLA_PARAMETER(pad.bytes, "bytes", 64, 1 << 26),
    ATALLA_PARAMETER(pad.row_bytes, "bytes", 64, 64),
    ATALLA_PARAMETER(pad.accept_per_cycle, "requests per cycle", 1, 2),
    ATALLA_PARAMETER(pad.read_L, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(pad.read_ii, "cycles", 1, most_cycles),
    ATALLA_PARAMETER(pad.write_land, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(pad.write_ii, "cycles", 1, most_cycles),
    ATALLA_PARAMETER(pad.queue, "requests each way", 1, most_entries),
    ATALLA_PARAMETER(vlsu.present, "cycles", 1, most_cycles),
    ATALLA_PARAMETER(vlsu.load_extra, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(vlsu.load_queue, "loads", 1, most_entries),
    ATALLA_PARAMETER(vlsu.store_queue, "stores", 1, most_entries),

    ATALLA_PARAMETER(sdma.max_rows, "rows", 1, 32),
    ATALLA_PARAMETER(sdma.max_cols, "elements", 1, 32),
    ATALLA_PARAMETER(sdma.setup, "cycles", 1, most_cycles),
    ATALLA_PARAMETER(sdma.beat, "bytes", 2, 64),
    ATALLA_PARAMETER(sdma.outstanding, "beats per pad", 1, most_entries),
    ATALLA_PARAMETER(sdma.row_ii, "cycles", 1, most_cycles),
    ATALLA_PARAMETER(sdma.load_extra, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(sdma.store_rows_ahead, "rows", 1, 32),
    ATALLA_PARAMETER(bus.launches, "beats per cycle", 1, 6),

    ATALLA_PARAMETER(dram.cas, "cycles", 1, most_cycles),
    ATALLA_PARAMETER(dram.cas_same_group, "cycles", 1, most_cycles),
    ATALLA_PARAMETER(dram.complete, "cycles", 1, most_cycles),
    ATALLA_PARAMETER(dram.open_closed, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(dram.open_conflict, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(dram.row_bytes, "bytes", 64, 1 << 24),
    ATALLA_PARAMETER(dram.banks, "banks", 1, 64),
    ATALLA_PARAMETER(dram.groups, "bank groups", 1, 64),
    ATALLA_PARAMETER(dram.row_hit_cap, "beats", 1, 1 << 30),
    ATALLA_PARAMETER(dram.refresh_interval, "cycles", 1, int64_t{1} << 40),
    ATALLA_PARAMETER(dram.refresh, "cycles", 0, int64_t{1} << 40),
    ATALLA_PARAMETER(dram.write_turnaround, "cycles", 0, most_cycles),

    ATALLA_PARAMETER(sa.rows, "elements", 32, 32),
    ATALLA_PARAMETER(sa.cols, "elements", 32, 32),
    ATALLA_PARAMETER(sa.L, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(sa.credits, "rows", 1, most_entries),
    ATALLA_PARAMETER(sa.credit_return, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(sa.weight_buffers, "copies", 1, 2),
    ATALLA_PARAMETER(sa.switch_spacing, "cycles", 0, most_cycles),
    ATALLA_PARAMETER(sa.dst_queue, "rows", 1, most_entries),
    ATALLA_FLAG(sa.psum_in),
};

#undef ATALLA_FLAG
#undef ATALLA_PARAMETER

}  // namespace

std::span<const ParameterEntry> parameter_table() { return table; }

const ParameterEntry *find_parameter(std::string_view key) {
    const auto found = std::ranges::find(table, key, &ParameterEntry::key);
    return found == table.end() ? nullptr : &*found;
}

std::string parameter_hint(std::string_view key) {
    std::vector<std::string> keys;
    for (const ParameterEntry &entry : table) {
        keys.emplace_back(entry.key);
    }
    const std::string nearest = nearest_name(key, keys);
    return nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
}

std::string range_text(const ParameterEntry &entry) {
    if (entry.flag) return "true or false";
    if (entry.low == entry.high) return fmt::format("{} {}", entry.low, entry.unit);
    return fmt::format("{}..{} {}", entry.low, entry.high, entry.unit);
}

void set_parameter(Machine &machine, std::string_view key, int64_t value) {
    const ParameterEntry *entry = find_parameter(key);
    if (entry == nullptr) {
        throw Error(fmt::format("{} is not a machine parameter{}", key, parameter_hint(key)));
    }
    if (value < entry->low || value > entry->high) {
        throw Error(fmt::format("{} cannot be {}: it must be {}", key, value, range_text(*entry)));
    }
    entry->set(machine, value);
}

std::string Machine::fingerprint() const {
    // FNV-1a, 64 bits, over "key=value\n".
    uint64_t hash = 0xCBF29CE484222325;
    const auto add = [&hash](std::string_view text) {
        for (const char c : text) {
            hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3;
        }
    };
    add(fmt::format("model={}\n", model == MachineModel::Hardware ? "hardware" : "functional"));
    for (const ParameterEntry &entry : table) {
        add(fmt::format("{}={}\n", entry.key, entry.get(*this)));
    }
    return fmt::format("{:016x}", hash);
}

}  // namespace atalla
