#include "simulator/profile/profile_text.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "isa/disassembler.h"
#include "simulator/profile/labels.h"
#include "simulator/report.h"

namespace atalla {

namespace {

double share_of(uint64_t part, uint64_t whole) {
    return 100.0 * static_cast<double>(part) / static_cast<double>(std::max<uint64_t>(whole, 1));
}

// Names longer than the column lose their middle, never their ends.
std::string fitted(const std::string &name, size_t width) {
    if (name.size() <= width) {
        return name;
    }
    const size_t head = (width - 2) / 2;
    return name.substr(0, head) + ".." + name.substr(name.size() - (width - 2 - head));
}

// Only the causes that cost anything get a column.
std::vector<int> causes_of(const Counters &counters) {
    std::vector<int> causes;
    for (int cause = 0; cause < stall_causes; cause++) {
        if (counters.stalls[static_cast<size_t>(cause)] > 0) {
            causes.push_back(cause);
        }
    }
    return causes;
}

constexpr size_t name_width = 34;

std::string share_row(const std::string &name, const Share &share, const std::vector<int> &causes, uint64_t total) {
    std::string text = fmt::format("  {:<{}}{:>14}{:>7.1f} %{:>12}", fitted(name, name_width - 1), name_width,
                                   grouped(share.cycles()), share_of(share.cycles(), total), grouped(share.packets));
    for (const int cause : causes) {
        const uint64_t cycles = share.stalls[static_cast<size_t>(cause)];
        text += fmt::format("{:>11}", cycles == 0 ? "." : grouped(cycles));
    }
    return text + '\n';
}

std::string share_table(const std::string &title, const std::vector<SourceShare> &rows, const Counters &counters) {
    const std::vector<int> causes = causes_of(counters);
    std::string text = fmt::format("  {:<{}}{:>14}{:>9}{:>12}", title, name_width, "cycles", "share", "issue");
    for (const int cause : causes) {
        text += fmt::format("{:>11}", stall_name(static_cast<Stall>(cause)));
    }
    text += '\n';
    for (const SourceShare &row : rows) {
        text += share_row(row.name.empty() ? "(unknown)" : row.name, row.share, causes, counters.cycles);
    }
    if (rows.size() != 1) {
        text += share_row("in all", {counters.packets, counters.stalls}, causes, counters.cycles);
    }
    return text;
}

std::string stalls_text(const StallCycles &stalls) {
    std::vector<int> order;
    for (int cause = 0; cause < stall_causes; cause++) {
        if (stalls[static_cast<size_t>(cause)] > 0) {
            order.push_back(cause);
        }
    }
    std::ranges::stable_sort(order, std::greater(), [&](int cause) { return stalls[static_cast<size_t>(cause)]; });
    std::string text;
    for (const int cause : order) {
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", stall_name(static_cast<Stall>(cause)),
                            grouped(stalls[static_cast<size_t>(cause)]));
    }
    return text.empty() ? "no stall" : text;
}

std::string hottest_text(const Profile &profile, const Program &program) {
    std::string text = fmt::format("hottest packets\n  {:<12}{:>12}{:>8}{:>12}  {}\n", "address", "cycles", "share", "issued",
                                   "stalls, then assembly");
    for (const HotPacket &hot : profile.hottest) {
        const PlacedPacket &packet = program.packets[static_cast<size_t>(hot.packet)];
        const std::string origin = origin_of(hot.packet, program), assembly = assembly_text(packet.packet);
        text += fmt::format("  0x{:08X}  {:>12}{:>6.1f} %{:>12}  {}\n      {}{}\n", packet.address, grouped(hot.share.cycles()),
                            share_of(hot.share.cycles(), profile.counters.cycles), grouped(hot.share.packets),
                            stalls_text(hot.share.stalls), assembly.empty() ? "nop.s" : assembly,
                            origin.empty() ? "" : fmt::format("    # {}", origin));
    }
    return text;
}

nlohmann::ordered_json share_json(const Share &share) {
    nlohmann::ordered_json json{{"cycles", share.cycles()}, {"packets", share.packets}};
    nlohmann::ordered_json &stalls = json["stalls"] = nlohmann::ordered_json::object();
    for (int cause = 0; cause < stall_causes; cause++) {
        if (share.stalls[static_cast<size_t>(cause)] > 0) {
            stalls[stall_name(static_cast<Stall>(cause))] = share.stalls[static_cast<size_t>(cause)];
        }
    }
    return json;
}

nlohmann::ordered_json shares_json(const std::vector<SourceShare> &shares) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const SourceShare &share : shares) {
        nlohmann::ordered_json row{{"name", share.name}};
        row.update(share_json(share.share));
        list.push_back(std::move(row));
    }
    return list;
}

}  // namespace

std::string profile_text(const Profile &profile, const Machine &machine, const Program &program) {
    const Counters &counters = profile.counters;
    const char *unit = machine.timed() ? "cycles" : "packets";
    std::string text =
        fmt::format("{} {}, {} packets, {:.1f} % of slots filled\n", grouped(counters.cycles), unit, grouped(counters.packets),
                    share_of(counters.operations, counters.packets * static_cast<uint64_t>(machine.issue.slots)));
    if (machine.timed()) {
        const Roofline &roofline = profile.roofline;
        text += fmt::format("bound by {}, {:.1f} % of the cycles\n", profile.bound_by, 100 * profile.bound_share);
        text += fmt::format(
            "roofline: {:.1f} FLOP/cycle of the {} at {:.1f} FLOP/byte; the ceiling there is {:.0f} ({}: peak {:.0f} "
            "FLOP/cycle, {:.1f} byte/cycle)\n\n",
            roofline.flops_per_cycle, roofline.of, roofline.flops_per_byte, roofline.ceiling(),
            roofline.ceiling() < roofline.peak_flops ? "DRAM" : roofline.of, roofline.peak_flops, roofline.peak_bytes);
        text += fmt::format("  {:<{}}{:>14}{:>9}\n", "unit", name_width, "busy", "share");
        for (const ResourceUse &use : profile.resources) {
            text += fmt::format("  {:<{}}{:>14}{:>7.1f} %   {}\n", use.name, name_width, grouped(use.busy),
                                share_of(use.busy, counters.cycles), use.words);
        }
    }
    text += "\nwhere the cycles went\n";
    if (!profile.by_node.empty()) {
        text += share_table("ATen node", profile.by_node, counters) + '\n';
    }
    text += share_table("Func / loop", profile.by_func, counters) + '\n';
    return text + hottest_text(profile, program);
}

nlohmann::ordered_json profile_json(const Profile &profile, const Machine &machine, const Program &program) {
    nlohmann::ordered_json json{{"machine", machine.name}, {"fingerprint", machine.fingerprint()}};
    json["counters"] = counters_json(profile.counters);
    if (machine.timed()) {
        const Roofline &roofline = profile.roofline;
        json["bound_by"] = profile.bound_by;
        json["bound_share"] = profile.bound_share;
        json["roofline"] = {{"of", roofline.of},
                            {"flops", roofline.flops},
                            {"dram_bytes", roofline.dram_bytes},
                            {"flops_per_cycle", roofline.flops_per_cycle},
                            {"flops_per_byte", roofline.flops_per_byte},
                            {"ceiling", roofline.ceiling()},
                            {"peak_flops_per_cycle", roofline.peak_flops},
                            {"peak_bytes_per_cycle", roofline.peak_bytes}};
        nlohmann::ordered_json &units = json["units"] = nlohmann::ordered_json::array();
        for (const ResourceUse &use : profile.resources) {
            units.push_back({{"name", use.name}, {"busy", use.busy}, {"counted", use.words}});
        }
    }
    json["by_func"] = shares_json(profile.by_func);
    json["by_node"] = shares_json(profile.by_node);
    nlohmann::ordered_json &hottest = json["hottest"] = nlohmann::ordered_json::array();
    for (const HotPacket &hot : profile.hottest) {
        const PlacedPacket &packet = program.packets[static_cast<size_t>(hot.packet)];
        nlohmann::ordered_json row{{"address", packet.address},
                                   {"assembly", assembly_text(packet.packet)},
                                   {"source", origin_of(hot.packet, program)}};
        row.update(share_json(hot.share));
        hottest.push_back(std::move(row));
    }
    return json;
}

}  // namespace atalla
