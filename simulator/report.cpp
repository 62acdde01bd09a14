#include "simulator/report.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "isa/fields.h"

namespace atalla {

namespace {

std::string percent(uint64_t part, uint64_t whole) {
    return whole == 0 ? "-" : fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

class Text {
public:
    // A row: a name, a number and what it means beside another.
    void row(const std::string &name, uint64_t value, const std::string &note = "") {
        text_ += fmt::format("{:<20}{:>16}", name, grouped(value)) + (note.empty() ? "\n" : "   " + note + "\n");
    }
    void part(const std::string &name, uint64_t value, const std::string &note = "") {
        if (value != 0) {
            row("  " + name, value, note);
        }
    }
    void line(const std::string &line) { text_ += line + '\n'; }
    std::string take() { return std::move(text_); }

private:
    std::string text_;
};

void add_pads(Text &text, const Counters &counters) {
    const auto busy = [&](size_t pad) {
        return (counters.pad_load_bytes[pad] | counters.pad_store_bytes[pad] | counters.dma_load_bytes[pad] |
                counters.dma_store_bytes[pad]) != 0;
    };
    constexpr const char *format = "{:<20}{:>16}{:>16}{:>16}{:>16}";
    bool first = true;
    for (size_t pad = 0; pad < counters.pad_load_bytes.size(); pad++) {
        if (!busy(pad)) {
            continue;
        }
        if (first) {
            text.line(fmt::format(fmt::runtime(format), "bytes", "vreg.ld", "vreg.st", "scpad.ld", "scpad.st"));
        }
        first = false;
        text.line(fmt::format(fmt::runtime(format), fmt::format("  pad {}", pad), grouped(counters.pad_load_bytes[pad]),
                              grouped(counters.pad_store_bytes[pad]), grouped(counters.dma_load_bytes[pad]),
                              grouped(counters.dma_store_bytes[pad])));
    }
}

}  // namespace

std::string grouped(uint64_t number) {
    const std::string digits = std::to_string(number);
    std::string text;
    for (size_t at = 0; at < digits.size(); at++) {
        if (at != 0 && (digits.size() - at) % 3 == 0) {
            text += ',';
        }
        text += digits[at];
    }
    return text;
}

std::string counters_text(const Counters &counters, const Machine &machine) {
    Text text;
    const auto of_cycles = [&](uint64_t part) { return percent(part, counters.cycles) + " of cycles"; };
    text.row("cycles", counters.cycles);
    text.row("packets", counters.packets, of_cycles(counters.packets));
    text.row("operations", counters.operations,
             percent(counters.operations, counters.packets * static_cast<uint64_t>(machine.issue.slots)) + " of slots filled");

    const uint64_t stalls = counters.cycles - counters.packets;
    if (stalls != 0) {
        text.row("stalls", stalls, of_cycles(stalls));
    }
    for (int cause = 0; cause < stall_causes; cause++) {
        text.part(stall_name(static_cast<Stall>(cause)), counters.stalls[cause], of_cycles(counters.stalls[cause]));
    }

    if (std::ranges::any_of(counters.unit_operations, [](uint64_t count) { return count != 0; })) {
        text.line("operations by unit");
    }
    for (size_t unit = static_cast<size_t>(Unit::Ex1); unit < static_cast<size_t>(Unit::Undefined); unit++) {
        text.part(std::string(unit_name(static_cast<Unit>(unit))), counters.unit_operations[unit]);
    }
    if (counters.array_rows + counters.weight_loads != 0) {
        text.row("array rows", counters.array_rows, of_cycles(counters.array_rows));
        text.row("weight loads", counters.weight_loads);
    }
    add_pads(text, counters);
    if (counters.dram_beats != 0) {
        const uint64_t bytes = counters.dram_beats * static_cast<uint64_t>(machine.sdma.beat);
        text.row("dram bytes", bytes,
                 fmt::format("{:.1f} a cycle while busy ({})",
                             static_cast<double>(bytes) / static_cast<double>(std::max<uint64_t>(counters.dram_busy, 1)),
                             of_cycles(counters.dram_busy)));
    }
    if (machine.timed()) {
        text.row("icache lines missed", counters.icache_misses);
        text.row("dcache lines missed", counters.dcache_misses);
        text.row("mispredictions", counters.branch_mispredicts);
    }
    return text.take();
}

nlohmann::ordered_json counters_json(const Counters &counters) {
    nlohmann::ordered_json json{
        {"cycles", counters.cycles}, {"packets", counters.packets}, {"operations", counters.operations}};
    nlohmann::ordered_json &stalls = json["stalls"];
    for (int cause = 0; cause < stall_causes; cause++) {
        stalls[stall_name(static_cast<Stall>(cause))] = counters.stalls[cause];
    }
    nlohmann::ordered_json &units = json["unit_operations"];
    for (size_t unit = 0; unit < static_cast<size_t>(Unit::Undefined); unit++) {
        units[std::string(unit_name(static_cast<Unit>(unit)))] = counters.unit_operations[unit];
    }
    json["pad_load_bytes"] = counters.pad_load_bytes;
    json["pad_store_bytes"] = counters.pad_store_bytes;
    json["dma_load_bytes"] = counters.dma_load_bytes;
    json["dma_store_bytes"] = counters.dma_store_bytes;
    json["pad_reads"] = counters.pad_reads;
    json["pad_writes"] = counters.pad_writes;
    json["dram_beats"] = counters.dram_beats;
    json["dram_busy"] = counters.dram_busy;
    json["array_rows"] = counters.array_rows;
    json["weight_loads"] = counters.weight_loads;
    json["icache_misses"] = counters.icache_misses;
    json["dcache_misses"] = counters.dcache_misses;
    json["branch_mispredicts"] = counters.branch_mispredicts;
    return json;
}

}  // namespace atalla
