// The checksum of the files that hold compiled programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace atalla {

// XXH3 (64 bits, no seed) over all bytes but the eight from `at` on, which hold it.
uint64_t checksum_around(std::span<const uint8_t> bytes, size_t at);

}  // namespace atalla
