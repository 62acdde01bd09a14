#include "isa/assembler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "isa/assembly_lexer.h"
#include "isa/assembly_operands.h"
#include "isa/error.h"
#include "isa/fields.h"
#include "isa/in_file.h"
#include "isa/in_grammar.h"
#include "isa/read_file.h"

namespace atalla {

namespace {

constexpr uint64_t address_end = uint64_t{1} << 32;
constexpr size_t slot_count = std::tuple_size_v<Packet>;

class Assembler {
public:
    Assembler(std::string_view text, const std::string &name) : name_(name), lexer_(text, name) { advance(); }

    Program run() {
        while (token_.kind != Token::Kind::End && !data_reached_) {
            parse_line();
        }
        resolve_targets();
        export_symbols();
        sort_packets();
        return std::move(program_);
    }

private:
    struct Definition {
        uint32_t address;
        int line;
    };
    struct PendingTarget {
        size_t packet;
        size_t slot;
        Token label;
    };

    [[noreturn]] void fail(const Token &token, const std::string &message) const {
        fail_at(name_, token.line, token.column, message);
    }

    Token advance() {
        const Token taken = token_;
        token_ = lexer_.next();
        return taken;
    }

    void expect(char punctuation, std::string_view where) {
        if (!token_.is(punctuation)) {
            fail(token_, fmt::format("expected '{}' {}, got {}", punctuation, where, token_.describe()));
        }
        advance();
    }

    // Labels, then at most one statement.
    void parse_line() {
        while (token_.is_name() && lexer_.followed_by(':')) {
            const Token label = advance();
            advance();
            define(label, here_);
        }
        if (token_.is('{')) {
            parse_packet();
        } else if (token_.kind == Token::Kind::Word && token_.text.starts_with('.')) {
            parse_directive();
        } else if (token_.kind == Token::Kind::Word) {
            parse_lone_operation();
        }
        if (data_reached_) {
            return;
        }
        if (!token_.ends_line()) {
            fail(token_, fmt::format("expected the end of the line, got {}", token_.describe()));
        }
        if (token_.kind == Token::Kind::NewLine) {
            advance();
        }
    }

    void define(const Token &label, uint64_t address) {
        if (label.text.empty()) {
            fail(label, "a label needs a name");
        }
        const auto [place, is_new] =
            labels_.try_emplace(std::string(label.text), Definition{static_cast<uint32_t>(address), label.line});
        if (!is_new) {
            fail(label, fmt::format("label {} is already defined in line {}", label.describe(), place->second.line));
        }
        if (address >= address_end) {
            fail(label, "the label lies past the 32-bit address space");
        }
    }

    void parse_directive() {
        if (token_.text == ".data") {
            read_data();
        } else if (token_.text == ".org") {
            advance();
            here_ = parse_address();
        } else if (token_.text == ".equ") {
            advance();
            if (!token_.is_name()) {
                fail(token_, fmt::format("expected a name after .equ, got {}", token_.describe()));
            }
            const Token label = advance();
            expect(',', "after the name");
            define(label, parse_address());
        } else if (token_.text == ".writable_m0") {
            advance();
            m0_is_writable_ = true;
        } else {
            // Other directives are for other tools and mean nothing here.
            lexer_.skip_line();
            advance();
        }
    }

    uint32_t parse_address() {
        const std::optional<int64_t> value = token_.kind == Token::Kind::Word ? parse_integer(token_.text) : std::nullopt;
        if (!value || *value < 0 || *value >= static_cast<int64_t>(address_end)) {
            fail(token_, fmt::format("expected an address of at most 32 bits, got {}", token_.describe()));
        }
        advance();
        return static_cast<uint32_t>(*value);
    }

    void read_data() {
        int first_line = 0;
        std::istringstream rest{std::string(lexer_.rest(first_line))};
        InHandlers handlers;
        handlers.data = [&](const InLine &line) {
            program_.data.insert_or_assign(program_.data.end(), line.address, line.data_word());
            line.check_limit(program_.data.size(), in_data_limit, "data words");
        };
        read_in_lines(rest, name_, handlers, true, first_line);
        data_reached_ = true;
    }

    AssemblyOperation parse_operation() {
        AssemblyOperation operation;
        if (token_.kind != Token::Kind::Word) {
            fail(token_, fmt::format("expected an instruction, got {}", token_.describe()));
        }
        operation.mnemonic = advance();
        while (!token_.ends_line() && !token_.is(';') && !token_.is('}')) {
            if (!operation.operands.empty()) {
                expect(',', "between operands");
            }
            if (!token_.is_name()) {
                fail(token_, fmt::format("expected an operand, got {}", token_.describe()));
            }
            AssemblyOperand operand;
            operand.word = advance();
            if (token_.is('(')) {
                advance();
                if (token_.kind != Token::Kind::Word) {
                    fail(token_, fmt::format("expected a register in parentheses, got {}", token_.describe()));
                }
                operand.base = advance();
                expect(')', "after the base register");
            }
            operation.operands.push_back(operand);
        }
        return operation;
    }

    Expansion expand_operation(const AssemblyOperation &operation) const {
        Expansion expansion = expand(operation, name_);
        for (const Instruction &instruction : expansion.instructions) {
            if (writes_m0(instruction) && !m0_is_writable_) {
                fail(operation.mnemonic,
                     fmt::format("{} writes m0, which is constant; choose m1..m15 (the directive .writable_m0 lifts this)",
                                 info(instruction.op).mnemonic));
            }
        }
        return expansion;
    }

    void place(const Packet &packet, const Token &at) {
        if (here_ + packet_bytes > address_end) {
            fail(at, "the packet reaches past the 32-bit address space");
        }
        program_.packets.push_back({static_cast<uint32_t>(here_), packet, -1, at.line});
        here_ += packet_bytes;
    }

    // Every instruction of the operation is a packet of its own.
    void parse_lone_operation() {
        if (token_.text == "data" && lexer_.followed_by('m')) {
            const Token data = advance();
            if (token_.text != "mem") {
                fail(data, "unknown instruction 'data'");
            }
            read_data();
            return;
        }
        const AssemblyOperation operation = parse_operation();
        const Expansion expansion = expand_operation(operation);
        if (expansion.target) {
            pending_.push_back({program_.packets.size(), 0, *expansion.target});
        }
        for (const Instruction &instruction : expansion.instructions) {
            place({instruction}, operation.mnemonic);
        }
    }

    // { operation ; operation ; ... }, over as many lines as it likes.
    void parse_packet() {
        const Token brace = advance();
        Packet packet;
        size_t slot = 0;
        while (true) {
            while (token_.kind == Token::Kind::NewLine || token_.is(';')) {
                advance();
            }
            if (token_.is('}')) {
                break;
            }
            if (token_.kind == Token::Kind::End) {
                fail(brace, "the packet that opens here is not closed with '}'");
            }
            if (slot == slot_count) {
                fail(token_, fmt::format("a packet holds at most {} operations", slot_count));
            }
            const AssemblyOperation operation = parse_operation();
            const Expansion expansion = expand_operation(operation);
            if (expansion.instructions.size() != 1) {
                fail(operation.mnemonic, fmt::format("{} expands to {} packets here, so it cannot share one",
                                                     operation.mnemonic.describe(), expansion.instructions.size()));
            }
            if (expansion.target) {
                pending_.push_back({program_.packets.size(), slot, *expansion.target});
            }
            packet[slot++] = expansion.instructions[0];
        }
        advance();
        place(packet, brace);
    }

    void resolve_targets() {
        for (const PendingTarget &pending : pending_) {
            PlacedPacket &placed = program_.packets[pending.packet];
            Instruction &instruction = placed.packet[pending.slot];
            const auto found = labels_.find(std::string(pending.label.text));
            if (found == labels_.end()) {
                fail_undefined(pending.label);
            }
            const InstructionInfo &row = info(instruction.op);
            const Field &field = *std::find_if(fields(row.format).begin(), fields(row.format).end(),
                                               [](const Field &candidate) { return candidate.member == Member::Imm; });
            const int64_t distance = int64_t{found->second.address} - int64_t{placed.address};
            if (distance < field.minimum() || distance > field.maximum() || distance % (1 << field.scale) != 0) {
                fail(pending.label, fmt::format("label {} is {} bytes away, but {} reaches multiples of {} in {}..{}",
                                                pending.label.describe(), distance, row.mnemonic, 1 << field.scale,
                                                field.minimum(), field.maximum()));
            }
            instruction.imm = static_cast<int32_t>(distance);
        }
    }

    [[noreturn]] void fail_undefined(const Token &label) const {
        std::vector<std::string> names;
        for (const auto &[known, definition] : labels_) {
            names.push_back(known);
        }
        const std::string nearest = nearest_name(label.text, names);
        fail(label, fmt::format("label {} is not defined{}", label.describe(),
                                nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)));
    }

    void export_symbols() {
        for (const auto &[label, definition] : labels_) {
            if (!label.starts_with(".L")) {
                program_.symbols.emplace(label, definition.address);
            }
        }
    }

    void sort_packets() {
        std::stable_sort(program_.packets.begin(), program_.packets.end(),
                         [](const PlacedPacket &a, const PlacedPacket &b) { return a.address < b.address; });
        for (size_t index = 1; index < program_.packets.size(); index++) {
            const PlacedPacket &earlier = program_.packets[index - 1];
            const PlacedPacket &later = program_.packets[index];
            if (earlier.address == later.address) {
                fail_at(
                    name_, later.line, 1,
                    fmt::format("address 0x{:X} already holds the packet of line {}; check .org", later.address, earlier.line));
            }
        }
    }

    const std::string &name_;
    AssemblyLexer lexer_;
    Token token_;
    Program program_;
    std::map<std::string, Definition> labels_;
    std::vector<PendingTarget> pending_;
    uint64_t here_ = 0;
    bool m0_is_writable_ = false;
    bool data_reached_ = false;
};

}  // namespace

Program assemble(std::string_view text, const std::string &name) { return Assembler(text, name).run(); }

Program assemble_file(const std::filesystem::path &file) {
    std::ifstream input = open_to_read(file);
    std::string text;
    std::array<char, 1 << 16> block;
    constexpr size_t most_bytes = size_t{1} << 28;  // a device may have no end
    while (input.read(block.data(), block.size()) || input.gcount() > 0) {
        text.append(block.data(), static_cast<size_t>(input.gcount()));
        if (text.size() > most_bytes) {
            throw Error(fmt::format("{}: the text is longer than {} bytes", file.string(), most_bytes));
        }
    }
    if (!input.eof() || input.bad()) {
        throw Error(unreadable(file, errno));
    }
    return assemble(text, file.string());
}

}  // namespace atalla
