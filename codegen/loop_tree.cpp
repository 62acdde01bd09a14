#include "codegen/loop_tree.h"

#include <algorithm>

namespace atalla::codegen {

bool touches(const Node &node, int allocation) {
    const auto any = [&](const Body &body) {
        return std::any_of(body.begin(), body.end(), [&](const Node &n) { return touches(n, allocation); });
    };
    return (node.op && node.op->access && node.op->access->allocation == allocation) ||
           (node.copy && node.copy->allocation == allocation) || (node.loop && any(node.loop->body)) ||
           (node.branch && any(node.branch->body));
}

RowSet::RowSet(const Allocation &allocation, const Tile &tile) {
    for (int64_t row = 0; row < allocation.rows; row++)
        if (const int64_t in_pad = allocation.row_in_pad(row);
            allocation.pad_of(row) == tile.pad && in_pad >= tile.row && in_pad < tile.row + tile.rows)
            rows_.push_back(row);
}
bool RowSet::any_between(int64_t low, int64_t high) const {
    const auto first = std::lower_bound(rows_.begin(), rows_.end(), low);
    return first != rows_.end() && *first <= high;
}

bool touches(const Kernel &kernel, const Node &node, int allocation, const RowSet &rows) {
    const auto any = [&](const Body &body) {
        return std::any_of(body.begin(), body.end(), [&](const Node &n) { return touches(kernel, n, allocation, rows); });
    };
    if (node.loop) return any(node.loop->body);
    if (node.branch) return any(node.branch->body);
    if (!node.op || !node.op->access || node.op->access->allocation != allocation) return false;
    const PadAccess &access = *node.op->access;
    if (access.slot.defined() || access.earlier) return true;
    int64_t low = access.row.constant, high = low;
    for (const auto &[id, coefficient] : access.row.terms) {
        const Atom &atom = kernel.atoms[static_cast<size_t>(id)];
        if (!atom.is_loop) return true;
        (coefficient < 0 ? low : high) += coefficient * (kernel.loops[static_cast<size_t>(atom.loop)].extent - 1);
    }
    return rows.any_between(low, high);
}
bool moves(const Node &node, int allocation) {
    const auto any = [&](const Body &body) {
        return std::any_of(body.begin(), body.end(), [&](const Node &n) { return moves(n, allocation); });
    };
    return (node.copy && node.copy->allocation == allocation) || (node.loop && any(node.loop->body)) ||
           (node.branch && any(node.branch->body));
}

bool copies(const Node &node, int tensor, bool loads) {
    const auto any = [&](const Body &body) {
        return std::any_of(body.begin(), body.end(), [&](const Node &n) { return copies(n, tensor, loads); });
    };
    return (node.copy && node.copy->tensor == tensor && (loads || !node.copy->load)) || (node.loop && any(node.loop->body)) ||
           (node.branch && any(node.branch->body));
}

bool accesses(const Body &body, int allocation) {
    return std::any_of(body.begin(), body.end(), [&](const Node &n) {
        return (n.op && n.op->access && n.op->access->allocation == allocation) ||
               (n.loop && accesses(n.loop->body, allocation)) || (n.branch && accesses(n.branch->body, allocation));
    });
}
bool has_loop(const Body &body) {
    return std::any_of(body.begin(), body.end(), [](const Node &n) { return n.loop != nullptr; });
}

bool has_varying_loop(const Kernel &kernel, const Body &body) {
    return std::any_of(body.begin(), body.end(), [&](const Node &n) {
        return (n.loop && (kernel.loops[static_cast<size_t>(n.loop->id)].varies() || has_varying_loop(kernel, n.loop->body))) ||
               (n.branch && has_varying_loop(kernel, n.branch->body));
    });
}

int64_t operations(const Loop &loop) {
    int64_t count = 0;
    for (const Node &node : loop.body) count += node.op ? 1 : node.loop ? operations(*node.loop) : 0;
    return count * loop.extent;
}

Loop *longest_loop(const Body &body) {
    Loop *longest = nullptr;
    for (const Node &node : body)
        if (node.loop && (longest == nullptr || operations(*node.loop) >= operations(*longest))) longest = node.loop.get();
    return longest;
}

Loop *loop_beside(const Body &body, const Loop &one) {
    Loop *longest = nullptr;
    for (const Node &node : body)
        if (node.loop && node.loop.get() != &one && !has_loop(node.loop->body) &&
            (longest == nullptr || operations(*node.loop) > operations(*longest)))
            longest = node.loop.get();
    return longest;
}

Loop *innermost_of(const Loop &loop) {
    Loop *last = nullptr;
    for (const Node &node : loop.body)
        if (node.loop) last = node.loop.get();
    return last != nullptr && !has_loop(last->body) ? last : nullptr;
}

// The one loop inside of a loop; nothing where there are several.
static Loop *only_loop_of(const Loop &loop) {
    Loop *only = nullptr;
    for (const Node &node : loop.body) {
        if (!node.loop) continue;
        if (only != nullptr) return nullptr;
        only = node.loop.get();
    }
    return only;
}

Loop *loop_around_innermost(Loop &loop) {
    if (innermost_of(loop) != nullptr) return &loop;
    Loop *only = only_loop_of(loop);
    return only != nullptr ? loop_around_innermost(*only) : nullptr;
}

std::pair<Loop *, int64_t> innermost_of_nest(const Loop &loop) {
    if (Loop *inner = innermost_of(loop)) return {inner, loop.extent};
    const Loop *only = only_loop_of(loop);
    if (only == nullptr) return {nullptr, 0};
    const auto [inner, turns] = innermost_of_nest(*only);
    return {inner, loop.extent * turns};
}

std::optional<size_t> first_use_in_next(const Body &body, size_t at) {
    if (!body[at].copy || body[at].copy->load) return std::nullopt;
    const Copy &copy = *body[at].copy;
    const auto conflicts = [&](const Node &node) {
        return touches(node, copy.allocation) || (&node != &body[at] && copies(node, copy.tensor, true));
    };
    for (size_t later = at + 1; later < body.size(); later++)
        if (conflicts(body[later])) return std::nullopt;
    for (size_t first = 0; first < at; first++)
        if (conflicts(body[first])) return first;
    return std::nullopt;
}

}  // namespace atalla::codegen
