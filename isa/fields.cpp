#include "isa/fields.h"

namespace atalla {

namespace {

constexpr Field scalar(std::string_view name, Member member, Access access, uint8_t low) {
    return {name, member, FieldKind::Scalar, access, low, 8};
}
constexpr Field vector(std::string_view name, Member member, Access access, uint8_t low) {
    return {name, member, FieldKind::Vector, access, low, 8};
}
constexpr Field mask(std::string_view name, Member member, Access access, uint8_t low) {
    return {name, member, FieldKind::Mask, access, low, 4};
}
constexpr Field number(std::string_view name, Member member, uint8_t low, uint8_t width, bool is_signed) {
    return {name, member, FieldKind::Number, Access::None, low, width, is_signed};
}

using enum Access;

constexpr Field lane_mask = mask("mask", Member::Mask, Read, 31);

constexpr Field r_fields[] = {scalar("rd", Member::D, Write, 7), scalar("rs1", Member::A, Read, 15),
                              scalar("rs2", Member::B, Read, 23)};
constexpr Field i_fields[] = {scalar("rd", Member::D, Write, 7), scalar("rs1", Member::A, Read, 15),
                              number("imm12", Member::Imm, 23, 12, true)};
constexpr Field mi_fields[] = {scalar("rd", Member::D, Write, 7), number("imm25", Member::Imm, 15, 25, true)};
constexpr Field br_fields[] = {scalar("rs1", Member::A, ReadWrite, 15),
                               scalar("rs2", Member::B, Read, 23),
                               {"offset", Member::Imm, FieldKind::Number, None, 31, 9, true, 14, 2},
                               number("incr", Member::Aux, 7, 7, false)};
constexpr Field vv_fields[] = {vector("vd", Member::D, Write, 7), vector("vs1", Member::A, Read, 15),
                               vector("vs2", Member::B, Read, 23), lane_mask};
constexpr Field vs_fields[] = {vector("vd", Member::D, Write, 7), vector("vs1", Member::A, Read, 15),
                               scalar("rs1", Member::B, Read, 23), lane_mask};
constexpr Field vi_fields[] = {vector("vd", Member::D, Write, 7), vector("vs1", Member::A, Read, 15),
                               number("imm8", Member::Imm, 23, 8, false), lane_mask};
constexpr Field vmv_fields[] = {mask("vmd", Member::D, Write, 7), vector("vs1", Member::A, Read, 15),
                                vector("vs2", Member::B, Read, 23), lane_mask};
constexpr Field vms_fields[] = {mask("vmd", Member::D, Write, 7), vector("vs1", Member::A, Read, 15),
                                scalar("rs1", Member::B, Read, 23), lane_mask};
constexpr Field vm_fields[] = {vector("vd", Member::D, Write, 7), scalar("rs1", Member::A, Read, 15),
                               scalar("rs2", Member::B, Read, 23), number("num_cols", Member::Imm, 31, 5, false),
                               number("sid", Member::Aux, 36, 2, false)};
constexpr Field sdma_fields[] = {scalar("rs1", Member::D, ReadWrite, 7), scalar("rs2", Member::A, Read, 15),
                                 scalar("rs3", Member::B, Read, 23)};
constexpr Field vts_fields[] = {scalar("rd", Member::D, Write, 7), vector("vs1", Member::A, Read, 15),
                                number("lane", Member::Imm, 23, 8, false)};
constexpr Field mts_fields[] = {scalar("rd", Member::D, Write, 7), mask("vms", Member::A, Read, 15)};
constexpr Field stm_fields[] = {mask("vmd", Member::D, Write, 7), scalar("rs1", Member::A, Read, 15)};

}  // namespace

int64_t Field::minimum() const {
    const int bits = width + (top_bit >= 0);
    return is_signed ? -(int64_t{1} << (bits - 1 + scale)) : 0;
}

int64_t Field::maximum() const {
    const int bits = width + (top_bit >= 0);
    return ((int64_t{1} << (is_signed ? bits - 1 : bits)) - 1) << scale;
}

RegisterClass Field::register_class() const {
    switch (kind) {
        case FieldKind::Vector:
            return RegisterClass::Vector;
        case FieldKind::Mask:
            return RegisterClass::Mask;
        default:
            return RegisterClass::Scalar;
    }
}

std::span<const Field> fields(Format format) {
    switch (format) {
        case Format::R:
            return r_fields;
        case Format::I:
        case Format::M:
            return i_fields;
        case Format::MI:
            return mi_fields;
        case Format::BR:
            return br_fields;
        case Format::VV:
            return vv_fields;
        case Format::VS:
            return vs_fields;
        case Format::VI:
            return vi_fields;
        case Format::VMV:
            return vmv_fields;
        case Format::VMS:
            return vms_fields;
        case Format::VM:
            return vm_fields;
        case Format::SDMA:
            return sdma_fields;
        case Format::VTS:
            return vts_fields;
        case Format::MTS:
            return mts_fields;
        case Format::STM:
            return stm_fields;
        case Format::None:
            break;
    }
    return {};
}

std::string_view format_name(Format format) {
    constexpr std::string_view names[] = {"R",   "I",   "M",  "MI",   "BR",  "VV",  "VS",  "VI",
                                          "VMV", "VMS", "VM", "SDMA", "VTS", "MTS", "STM", "none"};
    return names[static_cast<size_t>(format)];
}

std::string_view unit_name(Unit unit) {
    constexpr std::string_view names[] = {"none", "EX1",  "EX2",      "EX3",       "EX4",   "EX5",
                                          "ALU",  "MUL",  "EXP",      "reduction", "array", "move-to-scalar",
                                          "VLSU", "SDMA", "undefined"};
    return names[static_cast<size_t>(unit)];
}

int64_t get(const Instruction &instruction, Member member) {
    switch (member) {
        case Member::D:
            return instruction.d;
        case Member::A:
            return instruction.a;
        case Member::B:
            return instruction.b;
        case Member::Mask:
            return instruction.mask;
        case Member::Aux:
            return instruction.aux;
        case Member::Imm:
            break;
    }
    return instruction.imm;
}

void set(Instruction &instruction, Member member, int64_t value) {
    switch (member) {
        case Member::D:
            instruction.d = static_cast<uint8_t>(value);
            break;
        case Member::A:
            instruction.a = static_cast<uint8_t>(value);
            break;
        case Member::B:
            instruction.b = static_cast<uint8_t>(value);
            break;
        case Member::Mask:
            instruction.mask = static_cast<uint8_t>(value);
            break;
        case Member::Aux:
            instruction.aux = static_cast<uint8_t>(value);
            break;
        case Member::Imm:
            instruction.imm = static_cast<int32_t>(value);
            break;
    }
}

Access access(const InstructionInfo &info, const Field &field, bool psum_in) {
    switch (info.variant) {
        case Variant::Usual:
            break;
        case Variant::Store:
            if (field.member == Member::D) {
                return Read;
            }
            break;
        case Variant::OneSource:
            if (field.member == Member::B) {
                return None;
            }
            break;
        case Variant::MatrixRow:
            if (field.member == Member::Mask || (field.member == Member::B && !psum_in)) {
                return None;
            }
            break;
        case Variant::WeightLoad:
            if (field.member == Member::D) {
                return None;
            }
            break;
    }
    return field.access;
}

bool writes_m0(const Instruction &instruction) {
    const Format format = info(instruction.op).format;
    return instruction.d == 0 && (format == Format::VMV || format == Format::VMS || format == Format::STM);
}

}  // namespace atalla
