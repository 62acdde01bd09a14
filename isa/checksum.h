// The checksum of the files that hold compiled programs, and of texts that are too long to be keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace atalla {

// XXH3 (64 bits, no seed) over all bytes but the eight from `at` on, which hold it.
uint64_t checksum_around(std::span<const uint8_t> bytes, size_t at);
// XXH3 over all of a text.
uint64_t checksum(std::string_view text);

}  // namespace atalla
