#include "codegen/code_cost.h"

#include <algorithm>
#include <array>

namespace atalla::codegen {

double fetch_cycles(const Machine &machine) {
    if (!machine.timed()) return 0;
    // A line is two sectors of the same row: the first access mostly opens it or finds it busy with other transfers.
    const int64_t request_and_use = 3;
    const int64_t line = machine.dram.open_closed + machine.dram.complete + request_and_use;
    return static_cast<double>(line * machine.issue.packet_bytes) / static_cast<double>(machine.icache.line);
}

int64_t executions(const Kernel &kernel, const Blocks &blocks, size_t block) {
    if (blocks[block].from_block >= 0) block = static_cast<size_t>(blocks[block].from_block);
    if (blocks[block].rare) return 1;
    int64_t count = 1;
    for (size_t end = block; end < blocks.size(); end++) {
        const Terminator &terminator = blocks[end].end;
        if (terminator.kind != Terminator::Loop || terminator.target > static_cast<int>(block)) continue;
        const auto varying = std::find_if(kernel.loops.begin(), kernel.loops.end(), [&](const LoopInfo &loop) {
            return loop.varies() && loop.index == terminator.index;
        });
        count *= varying != kernel.loops.end() ? (varying->least + varying->extent) / 2
                                               : 1 + kernel.registers[terminator.limit.id].constant.value_or(0);
    }
    return count;
}

int64_t issue_cycles(const Machine &machine, const ScheduleGraph &graph, int64_t pace) {
    const std::vector<int> order = in_order_of_cycles(graph.cycle);
    std::vector<int64_t> issued(graph.ops.size(), 0);
    std::array<int64_t, 16> free_at{};
    const auto lane = [](Unit unit) {
        return unit == Unit::Alu || unit == Unit::Mul || unit == Unit::Exp || unit == Unit::Reduce;
    };
    int64_t now = -pace;
    for (size_t first = 0; first < order.size();) {
        size_t last = first;
        int64_t start = now;
        for (; last < order.size() && graph.cycle[order[last]] == graph.cycle[order[first]]; last++) {
            const size_t i = static_cast<size_t>(order[last]);
            if (is_marker(graph.ops[i])) continue;
            start = std::max(start, now + pace);
            if (const Unit unit = info(graph.ops[i].opcode).unit; lane(unit))
                start = std::max(start, free_at[static_cast<size_t>(unit)]);
            if (i >= graph.in.size()) continue;  // a packet that only takes time
            for (int e : graph.in[i])
                if (graph.edges[e].distance == 0) start = std::max(start, issued[graph.edges[e].from] + graph.edges[e].latency);
        }
        for (size_t p = first; p < last; p++) {
            const size_t i = static_cast<size_t>(order[p]);
            issued[i] = start;
            if (const Unit unit = info(graph.ops[i].opcode).unit; lane(unit))
                free_at[static_cast<size_t>(unit)] = start + (unit == Unit::Reduce ? machine.vec.reduce_ii : machine.vec.ii);
        }
        now = start;
        first = last;
    }
    return now + pace;
}

}  // namespace atalla::codegen
