// The fields of each slot format: where they lie in the 40 bits, what they name, and how they are accessed.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "isa/instruction.h"

namespace atalla {

// The member of Instruction that holds a field.
enum class Member : uint8_t { D, A, B, Mask, Aux, Imm };

enum class FieldKind : uint8_t { Scalar, Vector, Mask, Number };

enum class Access : uint8_t { None, Read, Write, ReadWrite };

// Value bits [width-1:0] lie at slot bits [low+width-1:low]. A branch offset has its top bit apart, at `top_bit`, and
// counts units of 1 << scale bytes.
struct Field {
    std::string_view name;
    Member member;
    FieldKind kind;
    Access access;
    uint8_t low;
    uint8_t width;
    bool is_signed = false;
    int8_t top_bit = -1;
    uint8_t scale = 0;

    int64_t minimum() const;
    int64_t maximum() const;
    bool is_register() const { return kind != FieldKind::Number; }
    // Precondition: is_register().
    RegisterClass register_class() const;
};

// The fields of a format in the order in which assembly text names them.
std::span<const Field> fields(Format format);
std::string_view format_name(Format format);
std::string_view unit_name(Unit unit);

int64_t get(const Instruction &instruction, Member member);
// Precondition: `value` lies in the range of the field.
void set(Instruction &instruction, Member member, int64_t value);

// How the instruction accesses one of its register fields: the format's rule with the exceptions of
// InstructionInfo::variant.
Access access(const InstructionInfo &info, const Field &field, bool psum_in);

// The mask m0 is a constant, but has an encoding as a destination.
bool writes_m0(const Instruction &instruction);

}  // namespace atalla
