// What the values of a machine must satisfy together.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "isa/error.h"
#include "isa/machine_parameters.h"

namespace atalla {

namespace {

void require(const Machine &machine, bool holds, std::string_view sentence) {
    if (!holds) {
        throw Error(fmt::format("machine {}: {}", machine.name, sentence));
    }
}

bool power_of_two(int64_t value) { return std::has_single_bit(static_cast<uint64_t>(value)); }

}  // namespace

void check_machine(const Machine &machine) {
    for (const ParameterEntry &entry : parameter_table()) {
        const int64_t value = entry.get(machine);
        require(machine, value >= entry.low && value <= entry.high,
                fmt::format("{} is {}, but it must be {}", entry.key, value, range_text(entry)));
    }
    const auto &[dcache, icache, pad, sdma, dram] =
        std::tie(machine.dcache, machine.icache, machine.pad, machine.sdma, machine.dram);
    require(machine, pad.bytes % pad.row_bytes == 0, "pad.bytes must be a multiple of pad.row_bytes");

    // Addresses are cut into lines, sectors, beats and rows by their bits, and rows of a pad go round it.
    for (const std::string_view key :
         {"dcache.bytes", "dcache.ways", "dcache.line", "dcache.beat", "icache.bytes", "icache.line", "icache.sector",
          "pad.bytes", "sdma.beat", "dram.row_bytes", "dram.banks", "dram.groups"}) {
        const int64_t value = find_parameter(key)->get(machine);
        require(machine, power_of_two(value), fmt::format("{} is {}, but it must be a power of two", key, value));
    }
    require(machine, dcache.line % dcache.beat == 0, "dcache.line must be a multiple of dcache.beat");
    require(machine, dcache.bytes % (dcache.line * dcache.ways) == 0,
            "dcache.bytes must be a multiple of dcache.line times dcache.ways");
    require(machine, icache.line % icache.sector == 0, "icache.line must be a multiple of icache.sector");
    require(machine, icache.bytes >= 2 * icache.line, "icache.bytes must hold two lines, because a packet may lie in two");
    require(machine, dram.banks % dram.groups == 0, "dram.banks must be a multiple of dram.groups");
    for (const auto &[key, beat] : {std::pair{"icache.sector", icache.sector}, std::pair{"dcache.beat", dcache.beat},
                                    std::pair{"sdma.beat", sdma.beat}}) {
        require(machine, dram.row_bytes % beat == 0, fmt::format("dram.row_bytes must be a multiple of {}", key));
    }
    const int64_t access =
        std::max(dram.open_closed, dram.open_conflict) + std::max(dram.cas, dram.cas_same_group) + dram.write_turnaround;
    require(machine, dram.refresh_interval - dram.refresh > access,
            fmt::format("dram.refresh_interval must leave more than {} cycles after dram.refresh, or no beat is ever served",
                        access));
    require(machine, sdma.max_cols * 2 <= pad.row_bytes, "a row of sdma.max_cols elements must fit pad.row_bytes");
}

}  // namespace atalla
