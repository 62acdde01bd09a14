#include "codegen/schedule_graph.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace atalla::codegen {

ScheduleGraph::ScheduleGraph(const Kernel &kernel, std::vector<Op> operations, int loop)
    : ops(std::move(operations)), edges(dependences(kernel, ops, loop)) {
    in.resize(ops.size());
    out.resize(ops.size());
    for (size_t e = 0; e < edges.size(); e++) {
        in[edges[e].to].push_back(static_cast<int>(e));
        out[edges[e].from].push_back(static_cast<int>(e));
    }
    // The longest way to the end of the block: through dependences, or through what its lane unit still has to do.
    height.assign(ops.size(), 0);
    const int lane_interval = kernel.machine->timed() ? static_cast<int>(kernel.machine->vec.ii) : 1;
    std::map<Unit, int> behind;
    for (size_t i = ops.size(); i-- > 0;) {
        for (int e : out[i])
            if (edges[e].distance == 0 && !is_marker(ops[edges[e].to])) height[i] = std::max(height[i], height[edges[e].to] + edges[e].latency);
        if (loop < 0 && is_lane_operation(ops[i].opcode)) height[i] = std::max(height[i], lane_interval * behind[info(ops[i].opcode).unit]++);
    }
    cycle.assign(ops.size(), -1);
}

std::vector<OpGroup> gather(const ScheduleGraph &graph, std::vector<int> *packet_of) {
    std::vector<int> order(graph.ops.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return graph.cycle[a] < graph.cycle[b]; });
    std::vector<OpGroup> packets;
    if (packet_of != nullptr) packet_of->assign(graph.ops.size(), 0);
    int current = -1;
    for (int i : order) {
        if (is_marker(graph.ops[i])) {
            if (packet_of != nullptr) (*packet_of)[i] = static_cast<int>(packets.size());
            continue;
        }
        if (graph.cycle[i] != current) {
            packets.emplace_back();
            current = graph.cycle[i];
        }
        packets.back().push_back(graph.ops[i]);
        if (packet_of != nullptr) (*packet_of)[i] = static_cast<int>(packets.size()) - 1;
    }
    return packets;
}

}  // namespace atalla::codegen
