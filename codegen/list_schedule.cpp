#include "codegen/list_schedule.h"

#include <algorithm>
#include <vector>

#include "codegen/masks.h"

namespace atalla::codegen {

namespace {

// Gives every operation of the graph its cycle. With `shared_masks` it counts the masks that are alive, and returns nothing where
// that leads nowhere.
std::optional<ResourceTable> list_schedule(const Kernel &kernel, ScheduleGraph &graph, const std::set<Reg> *shared_masks, int packet_cycles, bool in_order = false) {
    // A schedule that waits this long for a mask register never gets one.
    constexpr int most_idle = 256;
    const size_t n = graph.ops.size();
    ResourceTable table(kernel, 0, packet_cycles);
    std::vector<Claim> claims;
    for (const Op &op : graph.ops) claims.push_back(table.claim(op));
    std::vector<int> missing(n, 0), earliest(n, 0);
    for (const Edge &e : graph.edges) missing[e.to]++;
    std::vector<int> ready;
    for (size_t i = 0; i < n; i++)
        if (missing[i] == 0) ready.push_back(static_cast<int>(i));
    size_t done = 0;
    std::optional<MaskBudget> masks;
    if (shared_masks != nullptr) masks.emplace(kernel, graph, *shared_masks);
    int idle = 0;   // cycles in which nothing was scheduled
    // In order, operations that wait for nothing would still run far ahead of the others.
    constexpr int most_ahead = 96;
    int first_open = 0;
    for (int cycle = 0; done < n;) {
        const size_t before = done;
        std::sort(ready.begin(), ready.end(), [&](int a, int b) { return !in_order && graph.height[a] != graph.height[b] ? graph.height[a] > graph.height[b] : a < b; });
        bool again = true;
        while (again) {
            again = false;
            for (size_t r = 0; r < ready.size(); r++) {
                const int i = ready[r];
                if (in_order && i > first_open + most_ahead) break;
                if (earliest[i] > cycle || (masks && !masks->fits(i))) continue;
                if (!is_marker(graph.ops[i])) {
                    if (!table.fits(claims[i], cycle)) continue;
                    table.take(claims[i], cycle);
                }
                graph.cycle[i] = cycle;
                if (masks) masks->take(i);
                while (first_open < static_cast<int>(n) && graph.cycle[static_cast<size_t>(first_open)] >= 0) first_open++;
                done++;
                ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(r));
                for (int e : graph.out[i]) {
                    const Edge &edge = graph.edges[e];
                    const int apart = edge.hard ? edge.latency : (edge.latency + packet_cycles - 1) / packet_cycles;
                    earliest[edge.to] = std::max(earliest[edge.to], cycle + apart);
                    if (--missing[edge.to] == 0) ready.push_back(edge.to);
                }
                again = true;
                break;
            }
        }
        cycle++;
        idle = done == before ? idle + 1 : 0;
        if (masks && idle > most_idle) return std::nullopt;
    }
    return table;
}

}  // namespace

ScheduleGraph StraightCode::graph_of(std::vector<Op> ops, bool masks_in_turn) const {
    ScheduleGraph graph(kernel_, std::move(ops), -1, masks_in_turn);
    if (kernel_.machine->timed()) {
        if (entry_) graph.start_transfers_first();
        graph.wait_last();
    }
    return graph;
}

Scheduled StraightCode::schedule(int packet_cycles) {
    ScheduleGraph graph = graph_;
    if (in_order_) {
        const std::optional<ResourceTable> table = list_schedule(kernel_, graph, nullptr, packet_cycles, true);
        return {std::move(graph), *table};
    }
    if (std::optional<ResourceTable> table = list_schedule(kernel_, graph, &shared_masks_, packet_cycles)) return {std::move(graph), *table};
    if (!masks_in_turn_) masks_in_turn_.emplace(graph_of(graph_.ops, true));
    graph = *masks_in_turn_;
    const std::optional<ResourceTable> table = list_schedule(kernel_, graph, nullptr, packet_cycles);
    return {std::move(graph), *table};
}

}  // namespace atalla::codegen
