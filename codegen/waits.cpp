#include "codegen/waits.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "codegen/loop_tree.h"

namespace atalla::codegen {

static bool copies_inside(const Loop &loop, const Copy &copy) {
    return std::any_of(loop.body.begin(), loop.body.end(),
                       [&](const Node &node) { return copies(node, copy.tensor, false) || moves(node, copy.allocation); });
}

namespace {

// The elements that a copy at a constant place moves, as neighbours from one to behind another.
std::vector<std::pair<int64_t, int64_t>> elements_of(const Copy &copy) {
    std::vector<std::pair<int64_t, int64_t>> parts;
    for (const Tile &tile : copy.tiles)
        for (int64_t row = 0; row < tile.rows; row++) {
            const int64_t first = copy.mem.constant + tile.mem + row * tile.pitch;
            parts.emplace_back(first, first + tile.cols);
        }
    std::sort(parts.begin(), parts.end());
    return parts;
}

bool share_elements(const Copy &a, const Copy &b) {
    const auto one = elements_of(a), other = elements_of(b);
    for (size_t i = 0, j = 0; i < one.size() && j < other.size();) {
        if (one[i].first < other[j].second && other[j].first < one[i].second) return true;
        if (one[i].second < other[j].second)
            i++;
        else
            j++;
    }
    return false;
}

}  // namespace

void Waits::hold_results(const Node &node, const std::vector<Channel> &started, Body &out) {
    const auto is_result = [](const Copy &copy) { return !copy.load && copy.mem.is_constant(); };
    for (const Channel &channel : started)
        if (is_result(*channel.copy) && std::ranges::none_of(results_, [&](const Channel &known) {
                return known.copy == channel.copy && known.pad == channel.pad;
            }))
            results_.push_back(channel);
    if (!node.copy || !is_result(*node.copy)) return;
    for (const Channel &result : results_)
        if (result.copy->tensor == node.copy->tensor && result.copy->allocation != node.copy->allocation &&
            share_elements(*result.copy, *node.copy))
            code_.hold(node.copy->allocation, {result}, out);
}

void Waits::before(Node &node, std::vector<Channel> &started, Body &out, Body &for_loads) {
    if (ahead_ && kernel_.machine->timed()) hold_results(node, started, out);
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
