#include "isa/assembly_operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "isa/error.h"
#include "isa/fields.h"
#include "isa/in_grammar.h"

namespace atalla {

namespace {

// The scratch registers that upstream's assembler uses for the same expansions.
constexpr uint8_t row_scratch = 253;
constexpr uint8_t control_scratch = 254;

constexpr int lui_shift = 7;

const InstructionInfo *find_spelling(std::string_view word) {
    if (const InstructionInfo *row = find_instruction(word)) {
        return row;
    }
    std::string spelling(word);
    std::replace(spelling.begin(), spelling.end(), '_', '.');
    if (const InstructionInfo *row = find_instruction(spelling)) {
        return row;
    }
    return find_instruction(spelling + ".s");
}

int64_t sign_extend_25(int64_t value) { return value >= (1 << 24) ? value - (1 << 25) : value; }

// lui.s, and addi.s unless its part is 0, that leave the 32 bits of `value` in register `rd`.
std::vector<Instruction> load_constant(uint8_t rd, uint32_t value) {
    int32_t low = static_cast<int32_t>(value & 0x7F);
    if (low >= 64) {
        low -= 128;
    }
    const uint32_t high = (value - static_cast<uint32_t>(low)) >> lui_shift;
    std::vector<Instruction> result;
    result.push_back({.op = Opcode::lui_s, .d = rd, .imm = static_cast<int32_t>(sign_extend_25(high))});
    if (low != 0) {
        result.push_back({.op = Opcode::addi_s, .d = rd, .a = rd, .imm = low});
    }
    return result;
}

class Expander {
public:
    Expander(const AssemblyOperation &operation, const std::string &name)
        : mnemonic_(operation.mnemonic), operands_(operation.operands), name_(name), row_(find_spelling(mnemonic_.text)) {
        if (!row_) {
            fail_unknown();
        }
    }

    Expansion run() {
        if (row_->unit == Unit::Sdma && operands_.size() == 5) {
            return tile_transfer();
        }
        if (row_->unit == Unit::Vlsu && operands_.size() == 7) {
            return tile_row_access();
        }
        if (row_->op == Opcode::li_s && operands_.size() == 2) {
            return load_immediate();
        }
        return usual();
    }

private:
    [[noreturn]] void fail(const Token &token, const std::string &message) const {
        fail_at(name_, token.line, token.column, message);
    }

    [[noreturn]] void fail_unknown() const {
        std::vector<std::string> mnemonics;
        for (const InstructionInfo &row : instruction_table()) {
            mnemonics.emplace_back(row.mnemonic);
        }
        const std::string nearest = nearest_name(mnemonic_.text, mnemonics);
        fail(mnemonic_, fmt::format("unknown instruction {}{}", mnemonic_.describe(),
                                    nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)));
    }

    std::string usage() const {
        std::string text(row_->mnemonic);
        std::string_view separator = " ";
        for (const Field &field : fields(row_->format)) {
            text += fmt::format("{}{}", separator, field.name);
            separator = ", ";
        }
        return text;
    }

    // Registers: x5, v5, m5 of the class; $5 and $x5 of any class; a plain number for a mask.
    uint8_t parse_register(const Token &token, FieldKind kind) const {
        const char prefix = kind == FieldKind::Scalar ? 'x' : kind == FieldKind::Vector ? 'v' : 'm';
        const int64_t last = kind == FieldKind::Mask ? 15 : 255;
        std::string_view digits = token.text;
        bool named = kind == FieldKind::Mask;
        if (digits.starts_with('$')) {
            digits.remove_prefix(1);
            named = true;
            if (digits.starts_with('x')) {
                digits.remove_prefix(1);
            }
        }
        if (digits.starts_with(prefix)) {
            digits.remove_prefix(1);
            named = true;
        }
        int64_t number = 0;
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
        if (token.kind != Token::Kind::Word || !named || error != std::errc{} || end != digits.data() + digits.size() ||
            number < 0 || number > last) {
            fail(token, fmt::format("expected a register {}0..{}{}, got {}", prefix, prefix, last, token.describe()));
        }
        return static_cast<uint8_t>(number);
    }

    int64_t parse_number(const Token &token, std::string_view what, int64_t minimum, int64_t maximum) const {
        const std::optional<int64_t> value = token.kind == Token::Kind::Word ? parse_integer(token.text) : std::nullopt;
        if (!value) {
            fail(token, fmt::format("expected a number for {} of {}, got {}", what, row_->mnemonic, token.describe()));
        }
        if (*value < minimum || *value > maximum) {
            fail(token, fmt::format("{} of {} is {}, outside {}..{}", what, row_->mnemonic, *value, minimum, maximum));
        }
        return *value;
    }

    bool is_target(const Field &field) const {
        return field.member == Member::Imm && (row_->format == Format::BR || row_->op == Opcode::jal);
    }

    // "rd, imm(rs1)" is written for "rd, rs1, imm".
    std::vector<Token> flatten() const {
        const bool takes_base = row_->format == Format::M || row_->op == Opcode::jalr;
        std::vector<Token> words;
        for (const AssemblyOperand &operand : operands_) {
            if (operand.base) {
                if (!takes_base || operands_.size() != 2 || &operand != &operands_[1]) {
                    fail(*operand.base, fmt::format("{} takes no base in parentheses here; write {}", row_->mnemonic, usage()));
                }
                words.push_back(*operand.base);
            }
            words.push_back(operand.word);
        }
        return words;
    }

    void check_count(size_t count) const {
        const size_t full = fields(row_->format).size();
        const bool last_optional = row_->format == Format::BR || row_->variant == Variant::OneSource;
        if (count == full || (last_optional && count + 1 == full)) {
            return;
        }
        fail(mnemonic_, fmt::format("{} has {} operand{}; write {}", row_->mnemonic, count, count == 1 ? "" : "s", usage()));
    }

    Expansion usual() const {
        const std::vector<Token> words = flatten();
        check_count(words.size());
        Expansion result;
        Instruction instruction{.op = row_->op};
        for (size_t index = 0; index < words.size(); index++) {
            const Field &field = fields(row_->format)[index];
            const Token &word = words[index];
            if (field.is_register()) {
                set(instruction, field.member, parse_register(word, field.kind));
            } else if (is_target(field) && !(word.kind == Token::Kind::Word && parse_integer(word.text))) {
                result.target = word;
            } else {
                set(instruction, field.member, immediate(field, word, words.size()));
            }
        }
        result.instructions.push_back(instruction);
        return result;
    }

    int64_t immediate(const Field &field, const Token &word, size_t operand_count) const {
        if (row_->format == Format::BR && is_target(field) && operand_count == 3) {
            // Upstream packs a lone number into offset and increment at once: whoever writes one means something else.
            fail(word, fmt::format("a numeric branch target needs the increment after it; write {}, or use a label", usage()));
        }
        // The upper half of the unsigned range is the same 25 bits, and a bit pattern is easier to write that way.
        const int64_t maximum = row_->op == Opcode::lui_s ? (1 << 25) - 1 : field.maximum();
        const int64_t value = parse_number(word, field.name, field.minimum(), maximum);
        if (value % (1 << field.scale) != 0) {
            fail(word,
                 fmt::format("{} of {} is {}, not a multiple of {}", field.name, row_->mnemonic, value, 1 << field.scale));
        }
        return row_->op == Opcode::lui_s ? sign_extend_25(value) : value;
    }

    // li.s rd, imm: within 25 bits the instruction itself, beyond it lui.s and addi.s.
    Expansion load_immediate() const {
        const int64_t value = parse_number(operands_[1].word, "imm25", INT32_MIN, UINT32_MAX);
        const Field &field = fields(row_->format)[1];
        if (value >= field.minimum() && value <= field.maximum()) {
            return usual();
        }
        const uint8_t rd = parse_register(operands_[0].word, FieldKind::Scalar);
        return {load_constant(rd, static_cast<uint32_t>(value)), {}};
    }

    int64_t sugar_number(size_t index, std::string_view what, int64_t maximum) const {
        if (operands_[index].base) {
            fail(*operands_[index].base, fmt::format("{} takes no base in parentheses here", row_->mnemonic));
        }
        return parse_number(operands_[index].word, what, 0, maximum);
    }

    // scpad.* rs1, rs2, cols-1, rows-1, sid: a contiguous tile, its control word in a scratch register.
    Expansion tile_transfer() const {
        const uint8_t pad = parse_register(operands_[0].word, FieldKind::Scalar);
        const uint8_t memory = parse_register(operands_[1].word, FieldKind::Scalar);
        const auto columns = static_cast<uint32_t>(sugar_number(2, "cols-1", 31));
        const auto rows = static_cast<uint32_t>(sugar_number(3, "rows-1", 31));
        const auto sid = static_cast<uint32_t>(sugar_number(4, "sid", 3));
        Expansion result{load_constant(control_scratch, sid << 30 | rows << 25 | columns << 20 | columns), {}};
        result.instructions.push_back({.op = row_->op, .d = pad, .a = memory, .b = control_scratch});
        return result;
    }

    // vreg.* vd, rs1, cols-1, rows-1, sid, rc, row: rows-1 and rc belong to the older dialect and say nothing here.
    Expansion tile_row_access() const {
        const uint8_t vd = parse_register(operands_[0].word, FieldKind::Vector);
        const uint8_t base = parse_register(operands_[1].word, FieldKind::Scalar);
        const int64_t columns = sugar_number(2, "cols-1", 31);
        sugar_number(3, "rows-1", 31);
        const int64_t sid = sugar_number(4, "sid", 3);
        sugar_number(5, "rc", 1);
        Expansion result;
        uint8_t row = row_scratch;
        if (parse_integer(operands_[6].word.text)) {
            const int64_t number = sugar_number(6, "row", 127);
            result.instructions.push_back({.op = Opcode::addi_s, .d = row_scratch, .imm = static_cast<int32_t>(number)});
        } else {
            row = parse_register(operands_[6].word, FieldKind::Scalar);
        }
        result.instructions.push_back({.op = row_->op,
                                       .d = vd,
                                       .a = base,
                                       .b = row,
                                       .aux = static_cast<uint8_t>(sid),
                                       .imm = static_cast<int32_t>(columns)});
        return result;
    }

    const Token &mnemonic_;
    const std::vector<AssemblyOperand> &operands_;
    const std::string &name_;
    const InstructionInfo *row_;
};

}  // namespace

Expansion expand(const AssemblyOperation &operation, const std::string &name) { return Expander(operation, name).run(); }

std::optional<int64_t> parse_integer(std::string_view text) {
    const bool negative = text.starts_with('-');
    if (negative || text.starts_with('+')) {
        text.remove_prefix(1);
    }
    int base = 10;
    if (text.starts_with("0x") || text.starts_with("0X")) {
        base = 16;
    } else if (text.starts_with("0b") || text.starts_with("0B")) {
        base = 2;
    }
    if (base != 10) {
        text.remove_prefix(2);
    }
    uint64_t magnitude = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), magnitude, base);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size() || magnitude > INT64_MAX) {
        return std::nullopt;
    }
    return negative ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
}

}  // namespace atalla
