#include "simulator/profile/profile.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "simulator/profile/labels.h"
#include "simulator/report.h"

namespace atalla {

namespace {

void add(Share &share, uint64_t issues, const StallCycles &stalls) {
    share.packets += issues;
    for (size_t cause = 0; cause < stalls.size(); cause++) {
        share.stalls[cause] += stalls[cause];
    }
}

std::vector<SourceShare> sorted(const std::map<std::string, Share> &shares) {
    std::vector<SourceShare> list;
    for (const auto &[name, share] : shares) {
        if (share.cycles() > 0) {
            list.push_back({name, share});
        }
    }
    std::ranges::stable_sort(list, std::greater(), [](const SourceShare &one) { return one.share.cycles(); });
    return list;
}

std::string node_of(const PlacedPacket &packet, const Program &program) {
    const bool known = packet.source >= 0 && static_cast<size_t>(packet.source) < program.sources.size();
    return known ? program.sources[static_cast<size_t>(packet.source)].node : std::string();
}

// How often each instruction ran.
std::map<Opcode, uint64_t> operation_counts(const Program &program, const RunResult &result) {
    std::map<Opcode, uint64_t> counts;
    for (size_t index = 0; index < program.packets.size(); index++) {
        for (const Instruction &slot : program.packets[index].packet) {
            if (!slot.is_nop()) {
                counts[slot.op] += result.packet_issues[index];
            }
        }
    }
    return counts;
}

class Resources {
public:
    Resources(const Machine &machine, const RunResult &result) : machine_(machine), counters_(result.counters) {}

    std::vector<ResourceUse> list(const std::map<Opcode, uint64_t> &counts) {
        add("issue", counters_.packets, 1, "packets");
        if (!machine_.timed()) {
            return std::move(list_);
        }
        unit("EX1", Unit::Ex1, machine_.ex1.ii);
        add_ex2(counts);
        unit("EX3", Unit::Ex3, machine_.ex3.ii);
        unit("EX4", Unit::Ex4, machine_.ex4.ii);
        unit("move to scalar", Unit::MoveToScalar, machine_.vec.mov_to_scalar_ii);
        unit("adder", Unit::Alu, machine_.vec.ii);
        unit("multiplier", Unit::Mul, machine_.vec.ii);
        unit("exponential", Unit::Exp, machine_.vec.ii);
        unit("reduction", Unit::Reduce, machine_.vec.reduce_ii);
        add_array();
        for (size_t pad = 0; pad < counters_.pad_reads.size(); pad++) {
            add(fmt::format("pad {} read", pad), counters_.pad_reads[pad], machine_.pad.read_ii, "rows");
            add(fmt::format("pad {} write", pad), counters_.pad_writes[pad], machine_.pad.write_ii, "rows");
        }
        add("DRAM", counters_.dram_beats, machine_.dram.cas, "beats");
        std::ranges::stable_sort(list_, std::greater(), &ResourceUse::busy);
        return std::move(list_);
    }

private:
    void add(const std::string &name, uint64_t count, int64_t each, const char *what) {
        if (count > 0) {
            const std::string pace = each == 1 ? "one a cycle" : fmt::format("{} cycles each", each);
            list_.push_back({name, fmt::format("{} {}, {}", grouped(count), what, pace), count * static_cast<uint64_t>(each)});
        }
    }
    void unit(const std::string &name, Unit unit, int64_t interval) {
        add(name, counters_.unit_operations[static_cast<size_t>(unit)], interval, "operations");
    }
    void add_ex2(const std::map<Opcode, uint64_t> &counts) {
        uint64_t operations = 0, busy = 0;
        for (const auto &[op, count] : counts) {
            if (info(op).unit != Unit::Ex2) {
                continue;
            }
            const bool root = op == Opcode::rcp_bf || op == Opcode::sqrt_bf;
            const bool convert = op == Opcode::bfts_s || op == Opcode::stbf_s || op == Opcode::mv_stm;
            const int64_t latency = root ? machine_.ex2.rcp_sqrt_L : convert ? machine_.ex2.conv_L : machine_.ex2.divmod_L;
            operations += count;
            busy += count * static_cast<uint64_t>(latency + machine_.ex2.ii_after_L);
        }
        if (operations > 0) {
            list_.push_back({"EX2", fmt::format("{} operations", grouped(operations)), busy});
        }
    }
    // Rows, weight loads, and what credits cost: sa.credits rows in sa.L + sa.credit_return cycles (rule 23).
    void add_array() {
        if (counters_.array_rows + counters_.weight_loads == 0) {
            return;
        }
        const uint64_t pause =
            counters_.array_rows / static_cast<uint64_t>(machine_.sa.credits) *
            static_cast<uint64_t>(std::max<int64_t>(machine_.sa.L + machine_.sa.credit_return - machine_.sa.credits, 0));
        list_.push_back({"array",
                         fmt::format("{} rows, {} weight loads, {} cycles without credit", grouped(counters_.array_rows),
                                     grouped(counters_.weight_loads), grouped(pause)),
                         counters_.array_rows + counters_.weight_loads + pause});
    }

    const Machine &machine_;
    const Counters &counters_;
    std::vector<ResourceUse> list_;
};

Roofline make_roofline(const Machine &machine, const Counters &counters, std::optional<uint64_t> flops) {
    const auto lanes = static_cast<uint64_t>(machine.vec.vl);
    const auto count = [&](Unit unit) { return counters.unit_operations[static_cast<size_t>(unit)]; };
    Roofline roofline;
    if (counters.array_rows > 0) {
        roofline.flops = counters.array_rows * 2 * static_cast<uint64_t>(machine.sa.rows * machine.sa.cols);
        roofline.peak_flops = 2.0 * static_cast<double>(machine.sa.rows * machine.sa.cols);
    } else {
        roofline.of = "lanes";
        roofline.flops = (count(Unit::Alu) + count(Unit::Mul) + count(Unit::Exp) + count(Unit::Reduce)) * lanes;
        // Adder, multiplier and exponential side by side, but for what a packet can hold.
        roofline.peak_flops = static_cast<double>(lanes) * std::min<double>(static_cast<double>(machine.issue.lane_ops),
                                                                            3.0 / static_cast<double>(machine.vec.ii));
    }
    roofline.flops = flops.value_or(roofline.flops);
    roofline.dram_bytes = counters.dram_beats * static_cast<uint64_t>(machine.sdma.beat);
    roofline.peak_bytes = static_cast<double>(machine.sdma.beat) / static_cast<double>(machine.dram.cas);
    roofline.flops_per_cycle =
        static_cast<double>(roofline.flops) / static_cast<double>(std::max<uint64_t>(counters.cycles, 1));
    roofline.flops_per_byte =
        static_cast<double>(roofline.flops) / static_cast<double>(std::max<uint64_t>(roofline.dram_bytes, 1));
    return roofline;
}

void name_bound(Profile &profile) {
    const auto cycles = static_cast<double>(std::max<uint64_t>(profile.counters.cycles, 1));
    constexpr double half = 0.5;
    if (!profile.resources.empty() && static_cast<double>(profile.resources.front().busy) >= half * cycles) {
        profile.bound_by = profile.resources.front().name;
        profile.bound_share = static_cast<double>(profile.resources.front().busy) / cycles;
        return;
    }
    const auto largest = std::ranges::max_element(profile.counters.stalls);
    const auto cause = static_cast<Stall>(largest - profile.counters.stalls.begin());
    profile.bound_by = fmt::format("latency ({})", stall_name(cause));
    profile.bound_share = static_cast<double>(*largest) / cycles;
}

}  // namespace

uint64_t Share::cycles() const { return std::accumulate(stalls.begin(), stalls.end(), packets); }

double Roofline::ceiling() const { return std::min(peak_flops, flops_per_byte * peak_bytes); }

Profile make_profile(const Machine &machine, const Program &program, const RunResult &result, size_t hottest,
                     std::optional<uint64_t> flops) {
    Profile profile;
    profile.counters = result.counters;
    std::map<std::string, Share> by_func, by_node;
    for (size_t index = 0; index < program.packets.size(); index++) {
        const uint64_t issues = result.packet_issues[index];
        const StallCycles &stalls = result.packet_stalls[index];
        HotPacket packet{static_cast<int32_t>(index), {}};
        add(packet.share, issues, stalls);
        if (packet.share.cycles() == 0) {
            continue;
        }
        const PlacedPacket &placed = program.packets[index];
        add(by_func[part_of(packet.packet, program)], issues, stalls);
        add(by_node[node_of(placed, program)], issues, stalls);
        profile.hottest.push_back(packet);
    }
    StallCycles drain{};
    drain[static_cast<size_t>(Stall::Drain)] = result.counters.stalls[static_cast<size_t>(Stall::Drain)];
    add(by_func["(after halt)"], 0, drain);
    add(by_node["(after halt)"], 0, drain);
    profile.by_func = sorted(by_func);
    if (std::ranges::any_of(program.sources, [](const SourceLocation &source) { return !source.node.empty(); })) {
        profile.by_node = sorted(by_node);
    }
    std::ranges::stable_sort(profile.hottest, std::greater(), [](const HotPacket &one) { return one.share.cycles(); });
    profile.hottest.resize(std::min(hottest, profile.hottest.size()));
    profile.resources = Resources(machine, result).list(operation_counts(program, result));
    profile.roofline = make_roofline(machine, result.counters, flops);
    name_bound(profile);
    return profile;
}

}  // namespace atalla
