// Random instructions over the whole range of every field, for round trips.
#pragma once

#include <random>

#include "isa/fields.h"

namespace atalla {

inline Instruction random_instruction(const InstructionInfo &row, std::mt19937_64 &random) {
    Instruction instruction{.op = row.op};
    for (const Field &field : fields(row.format)) {
        const int64_t unit = int64_t{1} << field.scale;
        std::uniform_int_distribution<int64_t> value(field.minimum() / unit, field.maximum() / unit);
        set(instruction, field.member, value(random) * unit);
    }
    return instruction;
}

}  // namespace atalla
