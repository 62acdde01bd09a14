#include "isa/disassembler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include "isa/error.h"
#include "isa/fields.h"

namespace atalla {

namespace {

constexpr size_t address_column = 64;

using Labels = std::unordered_map<uint32_t, std::string>;

bool is_plain_name(std::string_view name) {
    const auto is_rest = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$'; };
    return !name.empty() && (std::isalpha(static_cast<unsigned char>(name[0])) || name[0] == '_') &&
           std::all_of(name.begin(), name.end(), is_rest);
}

std::string quoted_if_needed(const std::string &name) {
    if (is_plain_name(name)) {
        return name;
    }
    if (name.empty() || name.find_first_of("\"\n") != std::string::npos) {
        throw Error(
            fmt::format("symbol \"{}\" cannot be written in assembly text: it is empty or holds a quote or a new line", name));
    }
    return fmt::format("\"{}\"", name);
}

bool is_local(const std::string &name) { return name.starts_with(".L"); }

bool has_target(const InstructionInfo &row) { return row.format == Format::BR || row.op == Opcode::jal; }

std::string operand_text(const Instruction &instruction, const Field &field) {
    const int64_t value = get(instruction, field.member);
    if (!field.is_register()) {
        return std::to_string(value);
    }
    return register_name({field.register_class(), static_cast<uint8_t>(value)});
}

// `target` replaces the offset of a branch or jump if it is not empty.
std::string instruction_text(const Instruction &instruction, const std::string &target) {
    const InstructionInfo *row = find_instruction(instruction.op);
    if (!row) {
        throw Error(
            fmt::format("opcode 0x{:02X} is not defined, so it has no assembly text", static_cast<int>(instruction.op)));
    }
    const bool is_memory = row->format == Format::M;
    std::string text(row->mnemonic);
    std::string_view separator = " ";
    for (const Field &field : fields(row->format)) {
        if ((is_memory && field.member == Member::A) ||
            (row->variant == Variant::OneSource && field.member == Member::B && instruction.b == 0) ||
            (!target.empty() && field.member == Member::Aux && instruction.aux == 0)) {
            continue;
        }
        text += separator;
        text += !target.empty() && field.member == Member::Imm ? target : operand_text(instruction, field);
        separator = ", ";
    }
    if (is_memory) {
        text += fmt::format("(x{})", instruction.a);
    }
    return text;
}

// `target_of` gives the label for a branch or jump, or an empty string.
template <typename TargetOf>
std::string packet_text(const Packet &packet, TargetOf &&target_of) {
    size_t used = packet.size();
    while (used > 1 && packet[used - 1] == Instruction{}) {
        used--;
    }
    std::string text = instruction_text(packet[0], target_of(packet[0]));
    for (size_t slot = 1; slot < used; slot++) {
        text += " ; " + instruction_text(packet[slot], target_of(packet[slot]));
    }
    return text;
}

bool program_writes_m0(const Program &program) {
    return std::any_of(program.packets.begin(), program.packets.end(), [](const PlacedPacket &placed) {
        return std::any_of(placed.packet.begin(), placed.packet.end(),
                           [](const Instruction &instruction) { return writes_m0(instruction); });
    });
}

class Disassembler {
public:
    explicit Disassembler(const Program &program) : program_(program) {
        check_opcodes();
        for (const auto &[name, address] : program.symbols) {
            if (!is_local(name)) {
                symbols_at_[address].push_back(quoted_if_needed(name));
            }
        }
        find_targets();
    }

    std::string run() {
        write_header();
        uint64_t here = 0;
        int32_t source = -1;
        for (const PlacedPacket &placed : program_.packets) {
            if (placed.address != here) {
                append("        .org 0x{:X}\n", placed.address);
            }
            write_source(placed.source, source);
            write_labels(placed.address);
            write_packet(placed);
            here = placed.address + uint64_t{packet_bytes};
        }
        write_remaining_symbols();
        write_data();
        return fmt::to_string(text_);
    }

private:
    template <typename... Arguments>
    void append(fmt::format_string<Arguments...> format, Arguments &&...arguments) {
        fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
    }

    void check_opcodes() const {
        for (const PlacedPacket &placed : program_.packets) {
            for (const Instruction &instruction : placed.packet) {
                if (!find_instruction(instruction.op)) {
                    throw Error(
                        fmt::format("the packet at 0x{:X} holds the undefined opcode 0x{:02X}, which has no assembly text",
                                    placed.address, static_cast<int>(instruction.op)));
                }
            }
        }
    }

    // Gives a local label to every packet that a branch or jump names and no symbol does.
    void find_targets() {
        std::unordered_set<uint32_t> addresses;
        for (const PlacedPacket &placed : program_.packets) {
            addresses.insert(placed.address);
        }
        for (const PlacedPacket &placed : program_.packets) {
            for (const Instruction &instruction : placed.packet) {
                const int64_t target = int64_t{placed.address} + instruction.imm;
                if (!has_target(info(instruction.op)) || target < 0 || target > UINT32_MAX) {
                    continue;
                }
                const auto address = static_cast<uint32_t>(target);
                if (const auto symbol = symbols_at_.find(address); symbol != symbols_at_.end()) {
                    labels_.emplace(address, symbol->second.front());
                } else if (addresses.contains(address)) {
                    labels_.emplace(address, fmt::format(".L_{:08X}", address));
                }
            }
        }
    }

    void write_header() {
        size_t operations = 0;
        for (const PlacedPacket &placed : program_.packets) {
            operations += static_cast<size_t>(
                std::count_if(placed.packet.begin(), placed.packet.end(), [](const Instruction &i) { return !i.is_nop(); }));
        }
        append("# packets: {}, operations: {}, data words: {}\n", program_.packets.size(), operations, program_.data.size());
        if (program_writes_m0(program_)) {
            append("        .writable_m0\n");
        }
    }

    void write_source(int32_t source, int32_t &previous) {
        if (source == previous) {
            return;
        }
        previous = source;
        if (source < 0 || static_cast<size_t>(source) >= program_.sources.size()) {
            append("# ---- source unknown\n");
            return;
        }
        const SourceLocation &location = program_.sources[static_cast<size_t>(source)];
        append("# ----");
        for (const auto &[what, value] : {std::pair{"func", location.func}, {"loop", location.loop}, {"node", location.node}}) {
            if (!value.empty()) {
                std::string line = value;
                std::replace(line.begin(), line.end(), '\n', ' ');
                append(" {} {}", what, line);
            }
        }
        append("\n");
    }

    void write_labels(uint32_t address) {
        if (const auto symbols = symbols_at_.find(address); symbols != symbols_at_.end()) {
            for (const std::string &name : symbols->second) {
                append("{}:\n", name);
            }
            symbols_at_.erase(symbols);
        } else if (const auto label = labels_.find(address); label != labels_.end()) {
            append("{}:\n", label->second);
        }
    }

    void write_packet(const PlacedPacket &placed) {
        const std::string operations = packet_text(placed.packet, [&](const Instruction &instruction) {
            const int64_t target = int64_t{placed.address} + instruction.imm;
            const auto label = has_target(info(instruction.op)) && target >= 0 && target <= UINT32_MAX
                                   ? labels_.find(static_cast<uint32_t>(target))
                                   : labels_.end();
            return label == labels_.end() ? std::string() : label->second;
        });
        const bool several = operations.find(" ; ") != std::string::npos;
        const std::string statement = several ? "{ " + operations + " }" : operations;
        append("        {:<{}}  # {:08X}\n", statement, address_column - 8, placed.address);
    }

    void write_remaining_symbols() {
        for (const auto &[name, address] : program_.symbols) {
            if (symbols_at_.contains(address) && !is_local(name)) {
                append("        .equ {}, 0x{:X}\n", quoted_if_needed(name), address);
            }
        }
    }

    void write_data() {
        if (program_.data.empty()) {
            return;
        }
        append("\n.data\n\n");
        for (const auto &[address, word] : program_.data) {
            append("{:08X}: {:08X}\n", address, word);
        }
    }

    const Program &program_;
    std::unordered_map<uint32_t, std::vector<std::string>> symbols_at_;
    Labels labels_;
    fmt::memory_buffer text_;
};

}  // namespace

std::string assembly_text(const Instruction &instruction) { return instruction_text(instruction, {}); }

std::string assembly_text(const Packet &packet) {
    return packet_text(packet, [](const Instruction &) { return std::string(); });
}

std::string disassemble(const Program &program) { return Disassembler(program).run(); }

}  // namespace atalla
