#include "codegen/waits.h"

#include <algorithm>
#include <functional>
#include <map>

#include "codegen/loop_tree.h"

namespace atalla::codegen {

static bool copies_inside(const Loop &loop, const Copy &copy) {
    return std::any_of(loop.body.begin(), loop.body.end(),
                       [&](const Node &node) { return copies(node, copy.tensor, false) || moves(node, copy.allocation); });
}

void Waits::before(Node &node, std::vector<Channel> &started, Body &out, Body &for_loads) const {
    const auto apart = [&](const Channel &channel) {
        const Copy &copy = *channel.copy;
        return ahead_ && !touches(node, copy.allocation) && !(copies(node, copy.tensor, !copy.load));
    };
    const auto first = std::stable_partition(started.begin(), started.end(), apart);
    std::vector<Channel> needed(first, started.end());
    started.erase(first, started.end());
    if (ahead_ && node.loop) inside(*node.loop, needed);
    const auto loads = std::stable_partition(
        needed.begin(), needed.end(), [](const Channel &channel) { return !channel.copy->load || channel.run.count == 1; });
    code_.wait({loads, needed.end()}, for_loads);
    needed.erase(loads, needed.end());
    code_.wait(needed, out);
}

void Waits::inside(Loop &loop, std::vector<Channel> &needed) const {
    if (std::any_of(loop.body.begin(), loop.body.end(), [&](const Node &node) { return moves_ahead(node, loop); })) return;
    std::map<size_t, Body, std::greater<>> waits;  // by the node that they stand in front of
    for (Channel &channel : needed) {
        const Copy &copy = *channel.copy;
        const bool once = copy.load && copy.pad_row == LinearForm{} && channel.run.count == 1;
        if (!once || copies_inside(loop, copy)) continue;
        std::map<size_t, Channel> parts;
        for (size_t i = 0; i < channel.run.group.size(); i++) {
            const RowSet rows(kernel_.allocations[copy.allocation], channel.run.group[i]);
            const auto user = std::find_if(loop.body.begin(), loop.body.end(),
                                           [&](const Node &node) { return touches(kernel_, node, copy.allocation, rows); });
            size_t at = user == loop.body.end() ? 0 : static_cast<size_t>(user - loop.body.begin());
            while (at > 0 && !loop.body[at].loop) at--;
            Channel &part = parts.try_emplace(at, Channel{&copy, {}, {}, {}, {}}).first->second;
            part.run.group.push_back(channel.run.group[i]);
            part.pad.push_back(channel.pad[i]);
            part.mem.push_back(channel.mem[i]);
            part.control.push_back(channel.control[i]);
        }
        channel = Channel{&copy, {}, {}, {}, {}};
        for (auto &[at, part] : parts) {
            if (at == 0) {
                channel = std::move(part);
                continue;
            }
            code_.wait({part}, waits[at]);
            for (size_t i = 0; i < at; i++) note_arriving(loop.body[i], copy.allocation);
        }
    }
    for (auto &[at, body] : waits)
        loop.body.insert(loop.body.begin() + static_cast<std::ptrdiff_t>(at), std::make_move_iterator(body.begin()),
                         std::make_move_iterator(body.end()));
}

void Waits::note_arriving(const Node &node, int allocation) const {
    if (node.loop) kernel_.loops[static_cast<size_t>(node.loop->id)].arriving.insert(allocation);
    if (!node.loop && !node.branch) return;
    for (const Node &inner : node.loop ? node.loop->body : node.branch->body) note_arriving(inner, allocation);
}

bool Waits::moves_ahead(const Node &node, const Loop &loop) const {
    const Ring *ring = node.copy ? rings_.of(node.copy->allocation) : nullptr;
    return node.copy && (node.copy->first_of >= 0 || (ring != nullptr && ring->loop == loop.id));
}

}  // namespace atalla::codegen
