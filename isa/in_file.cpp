#include "isa/in_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "isa/disassembler.h"
#include "isa/error.h"
#include "isa/in_grammar.h"
#include "isa/instruction_formats.h"
#include "isa/read_file.h"

namespace atalla {

namespace {

constexpr size_t slot_digits = 10;

std::string system_message() { return std::strerror(errno); }

}  // namespace

Program read_in(std::istream &input, const std::string &name) {
    std::map<uint32_t, PlacedPacket> packets;
    Program program;
    InHandlers handlers;
    handlers.packet = [&](const InLine &line) {
        packets.insert_or_assign(packets.end(), line.address,
                                 PlacedPacket{line.address, decode_packet(line, slot_digits, decode), -1, line.number});
        line.check_limit(packets.size(), in_packet_limit, "packets");
    };
    handlers.data = [&](const InLine &line) {
        program.data.insert_or_assign(program.data.end(), line.address, line.data_word());
        line.check_limit(program.data.size(), in_data_limit, "data words");
    };
    read_in_lines(input, name, handlers);
    program.packets.reserve(packets.size());
    for (const auto &[address, packet] : packets) {
        program.packets.push_back(packet);
    }
    return program;
}

Program read_in(const std::filesystem::path &file) {
    std::ifstream input = open_to_read(file);
    return read_in(input, file.string());
}

void write_in(const Program &program, std::ostream &output, InComments comments) {
    fmt::memory_buffer text;
    const auto append = std::back_inserter(text);
    for (const PlacedPacket &placed : program.packets) {
        fmt::format_to(append, "{:08X}:", placed.address);
        for (const Instruction &instruction : placed.packet) {
            fmt::format_to(append, " {:010X}", encode(instruction));
        }
        if (comments == InComments::Assembly) {
            fmt::format_to(append, " # {}", assembly_text(placed.packet));
        }
        fmt::format_to(append, "\n");
    }
    fmt::format_to(append, "\n.data\n\n");
    for (const auto &[address, word] : program.data) {
        fmt::format_to(append, "{:08X}: {:08X}\n", address, word);
    }
    output.write(text.data(), static_cast<std::streamsize>(text.size()));
    output.flush();
    if (!output) {
        throw Error("writing the .in text failed: " + system_message());
    }
}

void write_in(const Program &program, const std::filesystem::path &file, InComments comments) {
    std::ofstream output(file, std::ios::binary | std::ios::trunc);
    if (!output) {
        throw Error(fmt::format("{}: cannot be created: {}", file.string(), system_message()));
    }
    write_in(program, output, comments);
}

std::map<uint32_t, uint32_t> overlapping_words(const std::map<uint32_t, std::vector<uint8_t>> &image) {
    std::map<uint32_t, uint32_t> words;
    constexpr uint64_t address_end = uint64_t{1} << 32;
    uint64_t lowest = address_end;
    uint64_t previous_end = 0;
    for (const auto &[start, bytes] : image) {
        if (bytes.empty()) {
            continue;
        }
        const uint64_t end = start + uint64_t{bytes.size()};
        if (start < previous_end) {
            throw Error(fmt::format("the bytes at 0x{:X} overlap those before them, which end at 0x{:X}", start, previous_end));
        }
        if (end > address_end) {
            throw Error(fmt::format("the {} bytes at 0x{:X} reach past the 32-bit address space", bytes.size(), start));
        }
        previous_end = end;
        lowest = std::min<uint64_t>(lowest, start & ~uint32_t{1});
        // Every word that covers a byte of the run: the first starts up to three bytes before it.
        const uint64_t reach = start >= 3 ? (uint64_t{start} - 2) & ~uint64_t{1} : 0;
        for (uint64_t address = std::max(lowest, reach); address < end; address += 2) {
            for (uint64_t byte = 0; byte < 4; byte++) {
                const uint64_t position = address + byte;
                if (position >= start && position < end && bytes[position - start] != 0) {
                    words[static_cast<uint32_t>(address)] |= uint32_t{bytes[position - start]} << (8 * byte);
                }
            }
        }
    }
    return words;
}

}  // namespace atalla
