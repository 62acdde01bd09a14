// Time and queues of the timing model.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <utility>

namespace atalla::timing {

// A cycle number; cycles count from 0 (rule 1).
using Cycle = int64_t;
constexpr Cycle never = std::numeric_limits<Cycle>::max();
// Before every cycle, and far enough from the limit to add latencies to.
constexpr Cycle long_ago = std::numeric_limits<Cycle>::min() / 4;

// First in, first out. Storage is a power of two and grows when it is full, so a queue allocates only until it has once been
// at its longest.
template <class T>
class Queue {
public:
    explicit Queue(size_t capacity = 16) : mask_(std::bit_ceil(capacity) - 1), storage_(std::make_unique<T[]>(mask_ + 1)) {}

    bool empty() const { return size_ == 0; }
    size_t size() const { return size_; }
    T &front() { return storage_[head_]; }
    const T &front() const { return storage_[head_]; }
    T &back() { return storage_[(head_ + size_ - 1) & mask_]; }
    // The element `offset` places behind the front.
    const T &operator[](size_t offset) const { return storage_[(head_ + offset) & mask_]; }

    // What pop() took last, until the next push().
    const T &popped() const { return storage_[(head_ - 1) & mask_]; }

    // Made in place from its members: a copy would read in one piece what the host has just written in several, and wait.
    template <class... Members>
    void push(const Members &...members) {
        if (size_ > mask_) [[unlikely]] {
            grow();
        }
        new (&storage_[(head_ + size_) & mask_]) T{members...};
        size_++;
    }
    void pop() {
        head_ = (head_ + 1) & mask_;
        size_--;
    }

private:
    [[gnu::noinline]] void grow() {
        auto larger = std::make_unique<T[]>(2 * size_);
        for (size_t offset = 0; offset < size_; offset++) {
            larger[offset] = (*this)[offset];
        }
        storage_ = std::move(larger);
        mask_ = 2 * size_ - 1;
        head_ = 0;
    }

    size_t mask_;
    std::unique_ptr<T[]> storage_;
    size_t head_ = 0, size_ = 0;
};

// The earliest cycle in which each part of the memory has something to do, `never` while it has nothing; too early does no
// harm. The clock looks only here. Each part keeps its own entry; the DMA engines lower those of the pads they bring rows to.
struct Wakes {
    std::array<Cycle, 4> pad = {never, never, never, never};
    Cycle bus = never, dram = never, completion = never;

    Cycle next() const {
        const Cycle pads = std::min(std::min(pad[0], pad[1]), std::min(pad[2], pad[3]));
        return std::min(std::min(pads, bus), std::min(dram, completion));
    }
};

}  // namespace atalla::timing
