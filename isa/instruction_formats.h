// What the two encodings, A40 and A48, have in common: an opcode a row of a table, four slots a packet.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "isa/error.h"
#include "isa/in_grammar.h"

namespace atalla {

// The rows of a table of instructions by opcode; null where there is none.
template <typename Info, size_t rows>
constexpr std::array<const Info *, 256> index_by_opcode(const Info (&table)[rows]) {
    std::array<const Info *, 256> index{};
    for (const Info &row : table) index[static_cast<uint8_t>(row.op)] = &row;
    return index;
}

// The packet of a line whose slot words have `digits` digits. Throws Error "name:line:column: slot N: ..." where `decode`
// refuses one.
template <typename Instruction>
std::array<Instruction, 4> decode_packet(const InLine &line, size_t digits, Instruction (*decode)(uint64_t)) {
    std::array<uint64_t, 4> words{};
    line.split(words, digits);
    std::array<Instruction, 4> packet;
    for (size_t slot = 0; slot < words.size(); slot++) {
        try {
            packet[slot] = decode(words[slot]);
        } catch (const Error &error) {
            fail_at(line.name, line.number, line.word_column(slot, words.size(), digits),
                    fmt::format("slot {}: {}", slot, error.what()));
        }
    }
    return packet;
}

}  // namespace atalla
