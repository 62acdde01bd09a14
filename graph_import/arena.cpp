#include "graph_import/arena.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace atalla {

Arena plan_arena(std::vector<Buffer> &buffers, int64_t alignment, const ArenaStart &start) {
    const auto start_from = [&](int64_t offset, int64_t bytes) { return start ? start(offset, bytes) : offset; };
    const auto rounded = [&](int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
    Arena arena;
    std::map<int32_t, int64_t> changes;  // of the bytes alive
    for (const Buffer &buffer : buffers) {
        changes[buffer.first] += rounded(buffer.bytes);
        changes[buffer.last + 1] -= rounded(buffer.bytes);
    }
    int64_t alive = 0;
    for (const auto &[time, change] : changes) arena.bound = std::max(arena.bound, alive += change);

    std::vector<size_t> order(buffers.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
    std::vector<size_t> placed;  // by offset
    for (const size_t at : order) {
        Buffer &buffer = buffers[at];
        int64_t offset = start_from(0, buffer.bytes);
        for (const size_t other : placed) {
            const Buffer &o = buffers[other];
            if (o.first > buffer.last || o.last < buffer.first) continue;
            if (o.offset >= offset + rounded(buffer.bytes)) break;
            if (o.offset + rounded(o.bytes) > offset) offset = start_from(o.offset + rounded(o.bytes), buffer.bytes);
        }
        buffer.offset = offset;
        arena.bytes = std::max(arena.bytes, offset + rounded(buffer.bytes));
        placed.insert(
            std::upper_bound(placed.begin(), placed.end(), offset, [&](int64_t o, size_t p) { return o < buffers[p].offset; }),
            at);
    }
    return arena;
}

}  // namespace atalla
