#include "model/order.h"

#include <algorithm>
#include <utility>

namespace atalla {

namespace {

// A view of a result of the accelerator costs nothing there; any other is the host's.
std::vector<bool> device_side(const Graph &graph, const std::vector<PlacedNode> &placed) {
    std::vector<bool> device(graph.nodes.size(), false);
    for (size_t n = 0; n < graph.nodes.size(); n++) {
        if (placed[n].place == PlacedNode::Device) device[n] = true;
        if (placed[n].place != PlacedNode::View) continue;
        const int32_t producer = graph.value(placed[n].inputs[0]).producer;
        device[n] = producer >= 0 && device[static_cast<size_t>(producer)];
    }
    return device;
}

}  // namespace

std::vector<NodeRun> order_nodes(const Graph &graph, const std::vector<PlacedNode> &placed, const std::vector<int> &kernel_of) {
    const std::vector<bool> device = device_side(graph, placed);
    std::vector<int> waiting(graph.nodes.size(), 0);
    std::vector<std::vector<int32_t>> followers(graph.nodes.size());
    std::vector<int32_t> ready[2];
    size_t left = 0;
    for (size_t n = 0; n < graph.nodes.size(); n++) {
        if (placed[n].place == PlacedNode::Dropped) continue;
        left++;
        std::vector<int32_t> producers;
        const auto note = [&](ValueId id) {
            const int32_t producer = graph.value(id).producer;
            if (producer >= 0 && placed[static_cast<size_t>(producer)].place != PlacedNode::Dropped)
                producers.push_back(producer);
        };
        if (placed[n].place == PlacedNode::Device)
            std::for_each(placed[n].inputs.begin(), placed[n].inputs.end(), note);
        else
            for_each_value(graph.nodes[n], note);
        std::sort(producers.begin(), producers.end());
        producers.erase(std::unique(producers.begin(), producers.end()), producers.end());
        waiting[n] = static_cast<int>(producers.size());
        for (int32_t producer : producers) followers[static_cast<size_t>(producer)].push_back(static_cast<int32_t>(n));
        if (waiting[n] == 0) ready[device[n]].push_back(static_cast<int32_t>(n));
    }
    std::vector<NodeRun> runs;
    int last = -1;      // the kernel of the call before
    bool side = false;  // host first: what it makes of the inputs lets more of the accelerator's nodes be ready at once
    while (left > 0) {
        if (ready[side].empty()) side = !side;
        NodeRun run{side, {}};
        while (!ready[side].empty()) {
            // In the graph's order, so that what is made is used soon.
            const auto first = std::min_element(ready[side].begin(), ready[side].end(), [&](int32_t a, int32_t b) {
                const auto rank = [&](int32_t n) {
                    return std::pair(last < 0 || kernel_of[static_cast<size_t>(n)] != last, n);
                };
                return rank(a) < rank(b);
            });
            const int32_t node = *first;
            if (kernel_of[static_cast<size_t>(node)] >= 0) last = kernel_of[static_cast<size_t>(node)];
            ready[side].erase(first);
            run.nodes.push_back(node);
            left--;
            for (int32_t follower : followers[static_cast<size_t>(node)])
                if (--waiting[static_cast<size_t>(follower)] == 0)
                    ready[device[static_cast<size_t>(follower)]].push_back(follower);
        }
        runs.push_back(std::move(run));
        side = !side;
    }
    return runs;
}

std::vector<NodeRun> one_kernel_each(const std::vector<NodeRun> &runs, const std::vector<PlacedNode> &placed) {
    std::vector<NodeRun> result;
    for (const NodeRun &run : runs) {
        bool has_kernel = false;
        result.push_back({run.device, {}});
        for (int32_t node : run.nodes) {
            const bool kernel = placed[static_cast<size_t>(node)].place == PlacedNode::Device;
            if (kernel && has_kernel) result.push_back({true, {}});
            has_kernel = has_kernel || kernel;
            result.back().nodes.push_back(node);
        }
    }
    return result;
}

}  // namespace atalla
