#include "isa/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace atalla {

uint64_t checksum_around(std::span<const uint8_t> bytes, size_t at) {
    const std::span<const uint8_t> before = bytes.first(at), behind = bytes.subspan(at + sizeof(uint64_t));
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, before.data(), before.size());
    XXH3_64bits_update(&state, behind.data(), behind.size());
    return XXH3_64bits_digest(&state);
}

uint64_t checksum(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

}  // namespace atalla
