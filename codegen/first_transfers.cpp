#include "codegen/first_transfers.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "codegen/result_transfer.h"

namespace atalla::codegen {

Body fuse_starts(Body body) {
    Body straight, loops;
    for (Node &node : body) {
        if (!node.loop) {
            straight.push_back(std::move(node));
            continue;
        }
        const auto same =
            std::find_if(loops.begin(), loops.end(), [&](const Node &n) { return n.loop->extent == node.loop->extent; });
        if (same == loops.end()) {
            loops.push_back(std::move(node));
        } else {
            for (Node &n : node.loop->body) same->loop->body.push_back(std::move(n));
        }
    }
    for (Node &node : loops) straight.push_back(std::move(node));
    return straight;
}

void fuse_starts(Body &body, size_t from) {
    Body starts(std::make_move_iterator(body.begin() + static_cast<std::ptrdiff_t>(from)), std::make_move_iterator(body.end()));
    body.resize(from);
    for (Node &node : fuse_starts(std::move(starts))) body.push_back(std::move(node));
}

Body begin_at_once(Kernel &kernel, Body body) {
    const auto first = std::find_if(body.begin(), body.end(), [](const Node &node) { return node.loop != nullptr; });
    if (first == body.end() || first->loop->fill || first->loop->extent < 2) return body;
    std::set<int> pads;
    for (const Node &node : first->loop->body)
        if (!node.op || (node.op->pad >= 0 && !pads.insert(node.op->pad).second))
            return body;  // transfers that would wait for each other
    if (kernel.takes(Choice::FirstInLoop)) return body;
    constexpr int64_t most_groups = 4;
    const int64_t groups = std::min(most_groups, first->loop->extent - 1);
    Body begun(std::make_move_iterator(body.begin()), std::make_move_iterator(first));
    for (int64_t g = 0; g < groups; g++) append_ops(first->loop->body, begun);
    first->loop->extent -= groups;
    kernel.loops[static_cast<size_t>(first->loop->id)].extent = first->loop->extent;
    begun.insert(begun.end(), std::make_move_iterator(first), std::make_move_iterator(body.end()));
    return begun;
}

}  // namespace atalla::codegen
