#include "model/arrangement.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace atalla {

namespace {

HostTensor arranged_tensor(const HostTensor &data, const Arrangement &arrangement) {
    std::vector<int64_t> sizes = arrangement.workload->inputs().at(arrangement.input).extents;
    std::reverse(sizes.begin(), sizes.end());
    const HostTensor dense = dense_copy(data);
    HostTensor result = make_tensor(data.dtype, sizes);
    const auto bytes = static_cast<size_t>(element_bytes(data.dtype));
    std::byte *to = mutable_data(result);
    for (const int64_t element : arrangement.elements) {
        if (element >= 0) std::memcpy(to, dense.begin() + static_cast<size_t>(element) * bytes, bytes);
        to += bytes;
    }
    return result;
}

}  // namespace

void arrange_constants(Graph &graph, std::vector<PlacedNode> &placed, const Machine &machine, const TakeArrangement &take) {
    for (PlacedNode &node : placed) {
        if (node.place != PlacedNode::Device) continue;
        std::optional<Arrangement> chosen;
        for (Arrangement &arrangement : node.workload->arrangements(machine))
            if (graph.constant_data(node.inputs.at(arrangement.input)) != nullptr && take(node, arrangement))
                chosen = std::move(arrangement);
        if (!chosen) continue;
        ValueId &input = node.inputs[chosen->input];
        const std::string name = fmt::format("{}_arranged", graph.value(input).name);
        input = graph.add_constant(name, arranged_tensor(*graph.constant_data(input), *chosen));
        node.workload = chosen->workload;
    }
}

}  // namespace atalla
