#include "codegen/late_rows.h"

#include <algorithm>
#include <map>

#include "codegen/dependence.h"

namespace atalla::codegen {

namespace {

struct Row {
    int op = 0;
    int inputs = 0;  // the cycle in which all but its register is ready,
    int target = 0;  // and its register
};

Row row_of(const ScheduleGraph &graph, int i) {
    Row row{i};
    const Reg target = graph.ops[i].dst;
    for (int e : graph.in[i]) {
        const Edge &edge = graph.edges[e];
        const Op &from = graph.ops[edge.from];
        const bool of_target = from.dst == target || reads(from, target);
        int &ready = of_target ? row.target : row.inputs;
        ready = std::max(ready, graph.cycle[edge.from] + edge.latency);
    }
    return row;
}

}  // namespace

std::optional<std::vector<Op>> rename_late_rows(Kernel &kernel, const ScheduleGraph &graph) {
    // Rows between two loads of the weights. One takes a cycle, so some may wait a while and the array is busy nevertheless.
    std::vector<std::vector<Row>> visits(1);
    for (size_t i = 0; i < graph.ops.size(); i++) {
        if (graph.ops[i].opcode == Opcode::lw_vi && !visits.back().empty()) visits.emplace_back();
        if (graph.ops[i].opcode == Opcode::gemm_vv) visits.back().push_back(row_of(graph, static_cast<int>(i)));
    }
    constexpr int slack = 4;
    std::map<int, Reg> late;
    for (std::vector<Row> &visit : visits) {
        if (visit.empty()) continue;
        int start = visit[0].inputs;
        for (const Row &row : visit) start = std::min(start, row.inputs);
        std::stable_sort(visit.begin(), visit.end(), [](const Row &a, const Row &b) { return a.target < b.target; });
        for (size_t r = 0; r < visit.size(); r++)
            if (visit[r].target > start + static_cast<int>(r) + slack) late[visit[r].op] = Reg{};
    }
    if (late.empty()) return std::nullopt;
    std::vector<Op> ops;
    for (size_t i = 0; i < graph.ops.size(); i++) {
        ops.push_back(graph.ops[i]);
        const auto it = late.find(static_cast<int>(i));
        if (it == late.end()) continue;
        // In the target's bank: another one than the weights', which are read beside the move.
        const Reg target = ops.back().dst, other = kernel.register_like(target);
        ops.back().dst = other;
        Op move;
        move.opcode = Opcode::mul_vs;
        move.dst = target;
        move.src = {other, kernel.constant(0x3F800000)};
        move.source = ops.back().source;
        ops.push_back(move);
    }
    return ops;
}

}  // namespace atalla::codegen
