// Reads and writes `.in` program files: hexadecimal packets, then initial data words (isa reference section 6).
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "isa/program.h"

namespace atalla {

// Reads A40 packets and data words, and sets PlacedPacket::line. `name` stands for the input in messages. Throws Error
// "name:line:column: what is wrong" for malformed text, undefined opcodes and files over the limits below.
Program read_in(std::istream &input, const std::string &name);
Program read_in(const std::filesystem::path &file);

enum class InComments { None, Assembly };

// Upstream's layout byte for byte; with InComments::Assembly every packet line ends in its assembly text. Throws Error
// if the output cannot be written.
void write_in(const Program &program, std::ostream &output, InComments comments = InComments::None);
void write_in(const Program &program, const std::filesystem::path &file, InComments comments = InComments::None);

// The data words that stand for a byte image, given as runs of bytes by start address: for every even address from the
// lowest to the highest byte the little-endian word that starts there, bytes outside the runs 0, words that are 0 left
// out. So a bf16 element is found as the low half of the word at its address, and through the aligned word. Throws
// Error if runs overlap or reach past 2^32.
std::map<uint32_t, uint32_t> overlapping_words(const std::map<uint32_t, std::vector<uint8_t>> &image);

// Limits of a file: the first is far above a line of any writer, the others above what the machines can hold.
constexpr size_t in_line_limit = 1 << 16;  // characters
constexpr size_t in_packet_limit = 1 << 22;
constexpr size_t in_data_limit = 1 << 24;  // words

}  // namespace atalla
