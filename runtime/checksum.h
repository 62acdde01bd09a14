// The checksum of a loadable: XXH3 (64 bits, no seed) over all bytes of the file but the eight that hold it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/loadable_generated.h"

namespace atalla {

// The finished bytes of the tables, with their checksum.
std::vector<uint8_t> loadable_bytes(const loadable::ModelT &tables);

// Error if the bytes, which are the model's verified ones, are not those that the checksum was written for. Files older
// than 1.3 have none.
void check_checksum(std::span<const uint8_t> bytes, const loadable::Model &model);

}  // namespace atalla
