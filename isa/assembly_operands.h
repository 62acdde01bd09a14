// Turns the operands of one line of assembly text into instructions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "isa/assembly_lexer.h"
#include "isa/instruction.h"

namespace atalla {

// "word" or "word(base)".
struct AssemblyOperand {
    Token word;
    std::optional<Token> base;
};

// One operation as written: a mnemonic and its operands.
struct AssemblyOperation {
    Token mnemonic;
    std::vector<AssemblyOperand> operands;
};

// What an operation stands for: one instruction, or several that belong in packets of their own, one after the other.
struct Expansion {
    std::vector<Instruction> instructions;
    std::optional<Token> target;  // a label whose distance is the imm of the only instruction
};

// Checks mnemonic, operand count, register classes and ranges. Throws Error with the position in text `name`.
Expansion expand(const AssemblyOperation &operation, const std::string &name);

// A decimal, 0x or 0b number with an optional sign; nothing if `text` is not one or does not fit.
std::optional<int64_t> parse_integer(std::string_view text);

}  // namespace atalla
