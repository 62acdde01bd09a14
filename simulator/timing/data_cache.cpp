#include "simulator/timing/data_cache.h"

#include <algorithm>

namespace atalla::timing {

DataCache::DataCache(const Machine &machine, Bus &bus, Units &units, Writeback &writeback, Observer *observer)
    : cache_(machine.dcache), timing_(machine.ex5), bus_(bus), units_(units), writeback_(writeback), observer_(observer) {
    Set set;
    set.ways.resize(static_cast<size_t>(cache_.ways));
    sets_.assign(static_cast<size_t>(cache_.bytes / (cache_.line * cache_.ways)), set);
}

void DataCache::issue(uint32_t address, bool is_store, RegisterId destination, Cycle now) {
    const int64_t line = address / cache_.line;
    Set &set = sets_[static_cast<size_t>(line) % sets_.size()];
    const Cycle hit_latency = is_store ? timing_.store_hit : timing_.load_hit;
    int way = find(set, line);
    if (way >= 0) {
        finish(now, hit_latency, is_store, destination, false, now + 1);
    } else {
        way = victim(set);
        Way &replaced = set.ways[static_cast<size_t>(way)];
        if (replaced.dirty) {
            request_line(replaced.line, true, now + 1);
        }
        request_line(line, false, now + 1);
        miss_ = {now, replaced.dirty ? cache_.miss_dirty : cache_.miss_clean, is_store, destination, cache_.line / cache_.beat};
        units_.set_ready(Source::Ex5, never);
        misses_++;
        replaced = {line, false};
    }
    set.ways[static_cast<size_t>(way)].dirty |= is_store;
    touch(set, way);
}

void DataCache::request_line(int64_t line, bool write, Cycle from) {
    for (int64_t offset = 0; offset < cache_.line; offset += cache_.beat) {
        const auto address = static_cast<uint32_t>(line * cache_.line + offset);
        if (requests_.empty()) {
            bus_.set_next_launch(data_master, from);
        }
        requests_.push(from, Beat(address, 0, data_master, write));
    }
}

Beat DataCache::launch(Cycle now) {
    const Beat beat = requests_.front().beat;
    requests_.pop();
    bus_.set_next_launch(data_master, requests_.empty() ? never : std::max(requests_.front().from, now + 1));
    return beat;
}

void DataCache::arrive(bool write, Cycle now) {
    if (write || --miss_.reads_left > 0) {
        return;
    }
    const Cycle hit_latency = miss_.is_store ? timing_.store_hit : timing_.load_hit;
    finish(miss_.issued, hit_latency + std::max(miss_.least, now - (miss_.issued + 1)), miss_.is_store, miss_.destination, true,
           now);
}

// The latency of the access is known.
void DataCache::finish(Cycle issued, Cycle latency, bool is_store, RegisterId destination, bool missed, Cycle next_write_back) {
    units_.set_ready(Source::Ex5, issued + latency + timing_.ii_after_L);
    if (is_store) {
        last_store_ = std::max(last_store_, issued + 1 + latency);
    } else {
        writeback_.push(Source::Ex5, issued + 1 + latency, destination, next_write_back - 1);
    }
    if (observer_ != nullptr) [[unlikely]] {
        observer_->access(issued, issued + 1 + latency, is_store, missed);
    }
}

int DataCache::find(const Set &set, int64_t line) const {
    for (size_t way = 0; way < set.ways.size(); way++) {
        if (set.ways[way].line == line) {
            return static_cast<int>(way);
        }
    }
    return -1;
}

// The lowest invalid way first, then where the tree points.
int DataCache::victim(const Set &set) const {
    const int invalid = find(set, -1);
    if (invalid >= 0) {
        return invalid;
    }
    const auto ways = static_cast<uint32_t>(set.ways.size());
    uint32_t node = 1;
    while (node < ways) {
        node = 2 * node + (set.toward_right >> node & 1);
    }
    return static_cast<int>(node - ways);
}

// Turns the nodes on the path to `way` away from it.
void DataCache::touch(Set &set, int way) const {
    const auto ways = static_cast<uint32_t>(set.ways.size());
    for (uint32_t node = ways + static_cast<uint32_t>(way); node > 1; node /= 2) {
        const bool came_from_right = node % 2 == 1;
        const uint32_t bit = 1u << node / 2;
        set.toward_right = came_from_right ? set.toward_right & ~bit : set.toward_right | bit;
    }
}

}  // namespace atalla::timing
