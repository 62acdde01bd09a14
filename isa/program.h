// A program: packets at addresses, initial data words, symbols, and where each packet came from.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "isa/instruction.h"

namespace atalla {

using Packet = std::array<Instruction, 4>;

constexpr int64_t packet_bytes = 20;  // A40: four 40-bit slots

// Where an operation came from: the Halide Func and the loop of its schedule, and (in a stitched program) the ATen node.
struct SourceLocation {
    std::string func;
    std::string loop;
    std::string node;
    bool operator==(const SourceLocation &) const = default;
    auto operator<=>(const SourceLocation &) const = default;
};

struct PlacedPacket {
    uint32_t address = 0;
    Packet packet{};
    int32_t source = -1;  // index into Program::sources, -1: unknown
    int32_t line = 0;     // line of the file it was read from, 0: generated
    bool operator==(const PlacedPacket &) const = default;
};

struct Program {
    // Ascending by address. Execution starts at address 0.
    std::vector<PlacedPacket> packets;
    // Initial data memory: byte address -> 32-bit little-endian word, exactly the lines of a `.in` file's data section.
    // Tensors are not kept here but written to the simulator's memory by whoever runs the program.
    std::map<uint32_t, uint32_t> data;
    std::map<std::string, uint32_t> symbols;  // label -> byte address
    std::vector<SourceLocation> sources;

    // Appends after the last packet (address 0 for the first) and returns its address.
    uint32_t append(const Packet &packet, int32_t source = -1);
};

}  // namespace atalla
