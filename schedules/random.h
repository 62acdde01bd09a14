// A random number generator whose sequence is the same with every compiler and library, so that a seed reproduces a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace atalla {

// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).
class Random {
public:
    explicit Random(uint64_t seed) : state_(seed) {}

    uint64_t next() {
        uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }

    // Uniform in [0, n), n > 0. Draws again for the few values that would favour small results.
    uint64_t below(uint64_t n) {
        const uint64_t unfair = (0 - n) % n;
        uint64_t draw = next();
        while (draw < unfair) {
            draw = next();
        }
        return draw % n;
    }

    template <typename T>
    void shuffle(std::vector<T> &items) {
        for (size_t remaining = items.size(); remaining > 1; remaining--) {
            std::swap(items[remaining - 1], items[below(remaining)]);
        }
    }

private:
    uint64_t state_;
};

}  // namespace atalla
