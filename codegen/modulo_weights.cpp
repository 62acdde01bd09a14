// Weights of the array that lanes make in the iteration that loads them, or that are beside other work of the lanes.
#include <algorithm>
#include <climits>
#include <map>
#include <numeric>
#include <set>

#include "codegen/modulo_scheduler.h"
#include "isa/vectors.h"

namespace atalla::codegen {

std::vector<int> ModuloScheduler::find_made_weights(const ScheduleGraph &graph) const {
    std::vector<int> weights;
    bool made = false;
    int64_t rows = 0, lane_operations = 0;
    for (size_t i = 0; i < graph.ops.size(); i++) {
        const Unit unit = info(graph.ops[i].opcode).unit;
        rows += graph.ops[i].opcode == Opcode::gemm_vv;
        lane_operations += unit == Unit::Alu || unit == Unit::Mul;
        if (graph.ops[i].opcode != Opcode::lw_vi) continue;
        weights.push_back(static_cast<int>(i));
        for (int e : graph.in[i])
            made = made || (graph.edges[e].distance == 0 && is_lane_operation(graph.ops[graph.edges[e].from].opcode));
    }
    // A row for each tile leaves the array time where two lane units have more to do.
    constexpr int64_t lane_units = 2;
    const auto loads = static_cast<int64_t>(weights.size()), tiles = loads / lanes;
    const int64_t array = loads + rows + tiles * machine_.sa.switch_spacing;
    made = made || (rows == tiles && lane_operations * static_cast<int64_t>(machine_.vec.ii) > lane_units * array);
    return made ? weights : std::vector<int>{};
}

void ModuloScheduler::part_made_weights(const ScheduleGraph &graph) {
    if (made_weights_.empty()) return;
    const auto visit = std::ranges::find_if(chains_.in_turn, [&](const std::vector<int> &chain) {
        return std::ranges::find(chain, made_weights_[0]) != chain.end();
    });
    const std::set<int> all(visit->begin(), visit->end());
    // Weights and what follows from them; what leads to each of them is a row of its own.
    std::vector<bool> behind(graph.ops.size(), false);
    for (int i : made_weights_) behind[i] = true;
    std::vector<int> row_of(graph.ops.size());
    std::iota(row_of.begin(), row_of.end(), 0);
    for (bool changed = true; changed;) {
        changed = false;
        for (const Edge &edge : graph.edges) {
            if (edge.distance > 0 || all.count(edge.from) == 0 || all.count(edge.to) == 0 ||
                (behind[edge.to] && !behind[edge.from]))
                continue;
            changed = changed || behind[edge.from] != behind[edge.to] || row_of[edge.from] != row_of[edge.to];
            behind[edge.to] = behind[edge.from];
            row_of[edge.from] = row_of[edge.to] = std::min(row_of[edge.from], row_of[edge.to]);
        }
    }
    std::map<int, std::vector<int>> rows;
    for (int i : *visit) rows[behind[i] ? INT_MAX : row_of[i]].push_back(i);
    std::vector<std::vector<int>> in_turn(chains_.in_turn.begin(), visit);
    for (auto &[first, row] : rows) in_turn.push_back(std::move(row));
    in_turn.insert(in_turn.end(), visit + 1, chains_.in_turn.end());
    chains_.in_turn = std::move(in_turn);
}

int ModuloScheduler::back_to_back(const ScheduleGraph &graph, int i) const {
    const auto place = std::find(made_weights_.begin(), made_weights_.end(), i);
    int first = 0;
    for (auto other = place; other != made_weights_.end(); ++other)
        for (int e : graph.in[*other]) {
            const Edge &edge = graph.edges[e];
            if (edge.distance == 0 && graph.cycle[edge.from] >= 0 && graph.ops[edge.from].opcode != Opcode::lw_vi)
                first = std::max(first, graph.cycle[edge.from] + spaced(graph, edge) - static_cast<int>(other - place));
        }
    return first;
}

}  // namespace atalla::codegen
