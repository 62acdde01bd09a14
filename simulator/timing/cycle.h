// Time and queues of the timing model.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

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
    explicit Queue(size_t capacity = 16) : storage_(std::bit_ceil(capacity)) {}

    bool empty() const { return size_ == 0; }
    size_t size() const { return size_; }
    T &front() { return storage_[head_]; }
    const T &front() const { return storage_[head_]; }
    // The element `offset` places behind the front.
    const T &operator[](size_t offset) const { return storage_[(head_ + offset) & (storage_.size() - 1)]; }

    void push(const T &value) {
        if (size_ == storage_.size()) [[unlikely]] {
            grow();
        }
        storage_[(head_ + size_) & (storage_.size() - 1)] = value;
        size_++;
    }
    void pop() {
        head_ = (head_ + 1) & (storage_.size() - 1);
        size_--;
    }

private:
    void grow() {
        std::vector<T> larger(storage_.size() * 2);
        for (size_t offset = 0; offset < size_; offset++) {
            larger[offset] = (*this)[offset];
        }
        storage_ = std::move(larger);
        head_ = 0;
    }

    std::vector<T> storage_;
    size_t head_ = 0, size_ = 0;
};

}  // namespace atalla::timing
