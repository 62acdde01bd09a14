#include "isa/instruction.h"

#include <fmt/format.h>

#include <unordered_map>

#include "isa/error.h"
#include "isa/fields.h"
#include "isa/instruction_formats.h"

namespace atalla {

namespace {

// One row an instruction: encoder, decoder, operands, assembler, disassembler, packet checker and docs/isa.md all come
// from this table and the field table. Opcodes and formats: isa reference section 3; units: section 5.1 and
// microarchitecture rule 10.
constexpr InstructionInfo table[] = {
    {Opcode::add_s, "add.s", Format::R, Unit::Ex1, "rd = rs1 + rs2"},
    {Opcode::sub_s, "sub.s", Format::R, Unit::Ex1, "rd = rs1 - rs2"},
    {Opcode::mul_s, "mul.s", Format::R, Unit::Ex4, "rd = low 32 bits of rs1 * rs2"},
    {Opcode::div_s, "div.s", Format::R, Unit::Ex2, "rd = rs1 / rs2, signed, toward zero"},
    {Opcode::mod_s, "mod.s", Format::R, Unit::Ex2, "rd = rs1 modulo rs2, with the sign of rs2"},
    {Opcode::or_s, "or.s", Format::R, Unit::Ex1, "rd = rs1 or rs2, bitwise"},
    {Opcode::and_s, "and.s", Format::R, Unit::Ex1, "rd = rs1 and rs2, bitwise"},
    {Opcode::xor_s, "xor.s", Format::R, Unit::Ex1, "rd = rs1 xor rs2, bitwise"},
    {Opcode::sll_s, "sll.s", Format::R, Unit::Ex1, "rd = rs1 shifted left by rs2"},
    {Opcode::srl_s, "srl.s", Format::R, Unit::Ex1, "rd = rs1 shifted right by rs2, zeros in"},
    {Opcode::sra_s, "sra.s", Format::R, Unit::Ex1, "rd = rs1 shifted right by rs2, signs in"},
    {Opcode::slt_s, "slt.s", Format::R, Unit::Ex1, "rd = 1 if rs1 < rs2 signed, else 0"},
    {Opcode::sltu_s, "sltu.s", Format::R, Unit::Ex1, "rd = 1 if rs1 < rs2 unsigned, else 0"},
    {Opcode::bfts_s, "bfts.s", Format::R, Unit::Ex2, "rd = float rs1 as an integer, toward zero", Variant::OneSource},
    {Opcode::add_bf, "add.bf", Format::R, Unit::Ex3, "rd = rs1 + rs2, float"},
    {Opcode::sub_bf, "sub.bf", Format::R, Unit::Ex3, "rd = rs1 - rs2, float"},
    {Opcode::mul_bf, "mul.bf", Format::R, Unit::Ex3, "rd = rs1 * rs2, float"},
    {Opcode::rcp_bf, "rcp.bf", Format::R, Unit::Ex2, "rd = 1 / rs1, float", Variant::OneSource},
    {Opcode::slt_bf, "slt.bf", Format::R, Unit::Ex3, "rd = integer 1 if rs1 < rs2 as floats, else 0"},
    {Opcode::sqrt_bf, "sqrt.bf", Format::R, Unit::Ex2, "rd = square root of rs1, float", Variant::OneSource},
    {Opcode::stbf_s, "stbf.s", Format::R, Unit::Ex2, "rd = unsigned integer rs1 as a float", Variant::OneSource},
    {Opcode::addi_s, "addi.s", Format::I, Unit::Ex1, "rd = rs1 + imm12"},
    {Opcode::subi_s, "subi.s", Format::I, Unit::Ex1, "rd = rs1 - imm12"},
    {Opcode::muli_s, "muli.s", Format::I, Unit::Ex4, "rd = low 32 bits of rs1 * imm12"},
    {Opcode::divi_s, "divi.s", Format::I, Unit::Ex2, "rd = rs1 / imm12, signed, toward zero"},
    {Opcode::modi_s, "modi.s", Format::I, Unit::Ex2, "rd = rs1 modulo imm12, with the sign of imm12"},
    {Opcode::ori_s, "ori.s", Format::I, Unit::Ex1, "rd = rs1 or imm12, sign-extended"},
    {Opcode::andi_s, "andi.s", Format::I, Unit::Ex1, "rd = rs1 and imm12, sign-extended"},
    {Opcode::xori_s, "xori.s", Format::I, Unit::Ex1, "rd = rs1 xor imm12, sign-extended"},
    {Opcode::slli_s, "slli.s", Format::I, Unit::Ex1, "rd = rs1 shifted left by imm12 (portable: 0..31)"},
    {Opcode::srli_s, "srli.s", Format::I, Unit::Ex1, "rd = rs1 shifted right by imm12, zeros in (portable: 0..31)"},
    {Opcode::srai_s, "srai.s", Format::I, Unit::Ex1, "rd = rs1 shifted right by imm12, signs in (portable: 0..31)"},
    {Opcode::slti_s, "slti.s", Format::I, Unit::Ex1, "rd = 1 if rs1 < imm12 signed, else 0"},
    {Opcode::sltui_s, "sltui.s", Format::I, Unit::Ex1, "rd = 1 if rs1 < sign-extended imm12 unsigned, else 0"},
    {Opcode::beq_s, "beq.s", Format::BR, Unit::Ex1, "branch if rs1 = rs2; then rs1 += incr in any case"},
    {Opcode::bne_s, "bne.s", Format::BR, Unit::Ex1, "branch if rs1 differs from rs2; then rs1 += incr in any case"},
    {Opcode::blt_s, "blt.s", Format::BR, Unit::Ex1, "branch if rs1 < rs2; then rs1 += incr in any case"},
    {Opcode::bge_s, "bge.s", Format::BR, Unit::Ex1, "branch if rs1 >= rs2; then rs1 += incr in any case"},
    {Opcode::bgt_s, "bgt.s", Format::BR, Unit::Ex1, "branch if rs1 > rs2; then rs1 += incr in any case"},
    {Opcode::ble_s, "ble.s", Format::BR, Unit::Ex1, "branch if rs1 <= rs2; then rs1 += incr in any case"},
    {Opcode::lw_s, "lw.s", Format::M, Unit::Ex5, "rd = word at rs1 + imm12"},
    {Opcode::sw_s, "sw.s", Format::M, Unit::Ex5, "word at rs1 + imm12 = rd", Variant::Store},
    {Opcode::lhw_s, "lhw.s", Format::M, Unit::Ex5, "rd = word at rs1 + imm12, shifted left by 16"},
    {Opcode::shw_s, "shw.s", Format::M, Unit::Ex5, "word at rs1 + imm12 = rd shifted right by 16", Variant::Store},
    {Opcode::jal, "jal", Format::MI, Unit::Ex1, "rd = address of the next packet; jump by imm25 bytes"},
    {Opcode::jalr, "jalr", Format::I, Unit::Ex1, "rd = address of the next packet; jump to rs1 + imm12"},
    {Opcode::li_s, "li.s", Format::MI, Unit::Ex1, "rd = imm25 (not decoded by hardware: use addi.s, or lui.s and addi.s)"},
    {Opcode::lui_s, "lui.s", Format::MI, Unit::Ex1, "rd = imm25 shifted left by 7"},
    {Opcode::nop_s, "nop.s", Format::None, Unit::None, "nothing; fills an unused slot"},
    {Opcode::halt_s, "halt.s", Format::None, Unit::None, "stop after this packet"},
    {Opcode::add_vv, "add.vv", Format::VV, Unit::Alu, "vd = vs1 + vs2 in the lanes of mask"},
    {Opcode::sub_vv, "sub.vv", Format::VV, Unit::Alu, "vd = vs1 - vs2 in the lanes of mask"},
    {Opcode::mul_vv, "mul.vv", Format::VV, Unit::Mul, "vd = vs1 * vs2 in the lanes of mask"},
    {Opcode::gemm_vv, "gemm.vv", Format::VV, Unit::Array,
     "vd[j] = dot product of vs1 and weight column j (+ vs2[j] with a partial-sum input); mask ignored", Variant::MatrixRow},
    {Opcode::expi_vi, "expi.vi", Format::VI, Unit::Exp, "vd = exp(vs1) in the lanes of mask; imm8 ignored"},
    {Opcode::lw_vi, "lw.vi", Format::VI, Unit::Array, "shift vs1 into the weights at column 0; vd, imm8 and mask ignored",
     Variant::WeightLoad},
    {Opcode::rsum_vi, "rsum.vi", Format::VI, Unit::Reduce, "sum of the lanes of mask, to where imm8 says"},
    {Opcode::rmin_vi, "rmin.vi", Format::VI, Unit::Reduce, "smallest of the lanes of mask, to where imm8 says"},
    {Opcode::rmax_vi, "rmax.vi", Format::VI, Unit::Reduce, "largest of the lanes of mask, to where imm8 says"},
    {Opcode::mgt_mvv, "mgt.mvv", Format::VMV, Unit::Alu, "vmd = vs1 > vs2 in the lanes of mask"},
    {Opcode::mlt_mvv, "mlt.mvv", Format::VMV, Unit::Alu, "vmd = vs1 < vs2 in the lanes of mask"},
    {Opcode::meq_mvv, "meq.mvv", Format::VMV, Unit::Alu, "vmd = vs1 equals vs2 in the lanes of mask"},
    {Opcode::mneq_mvv, "mneq.mvv", Format::VMV, Unit::Alu, "vmd = vs1 differs from vs2 in the lanes of mask"},
    {Opcode::mgt_mvs, "mgt.mvs", Format::VMS, Unit::Alu, "vmd = vs1 > rs1 in the lanes of mask"},
    {Opcode::mlt_mvs, "mlt.mvs", Format::VMS, Unit::Alu, "vmd = vs1 < rs1 in the lanes of mask"},
    {Opcode::meq_mvs, "meq.mvs", Format::VMS, Unit::Alu, "vmd = vs1 equals rs1 in the lanes of mask"},
    {Opcode::mneq_mvs, "mneq.mvs", Format::VMS, Unit::Alu, "vmd = vs1 differs from rs1 in the lanes of mask"},
    {Opcode::vreg_ld, "vreg.ld", Format::VM, Unit::Vlsu, "vd = num_cols+1 elements of row rs1/64 + rs2 of pad sid, then zeros"},
    {Opcode::vreg_st, "vreg.st", Format::VM, Unit::Vlsu, "num_cols+1 elements of row rs1/64 + rs2 of pad sid = vd",
     Variant::Store},
    {Opcode::scpad_ld, "scpad.ld", Format::SDMA, Unit::Sdma,
     "pad at rs1 = tile of memory at rs2, shape in rs3; rs1 busy to the end"},
    {Opcode::scpad_st, "scpad.st", Format::SDMA, Unit::Sdma,
     "tile of memory at rs2 = pad at rs1, shape in rs3; rs1 busy to the end"},
    {Opcode::vmov_vts, "vmov.vts", Format::VTS, Unit::MoveToScalar, "rd = lane of vs1 as a float"},
    {Opcode::mv_mts, "mv.mts", Format::MTS, Unit::MoveToScalar, "rd = vms"},
    {Opcode::mv_stm, "mv.stm", Format::STM, Unit::Ex2, "vmd = rs1"},
    {Opcode::add_vs, "add.vs", Format::VS, Unit::Alu, "vd = vs1 + rs1 in the lanes of mask"},
    {Opcode::sub_vs, "sub.vs", Format::VS, Unit::Alu, "vd = vs1 - rs1 in the lanes of mask"},
    {Opcode::mul_vs, "mul.vs", Format::VS, Unit::Mul, "vd = vs1 * rs1 in the lanes of mask"},
    {Opcode::tpop_vi, "tpop.vi", Format::VI, Unit::Undefined, "pop from the transpose unit; no machine executes it"},
    {Opcode::tpus_vi, "tpus.vi", Format::VI, Unit::Undefined, "push to the transpose unit; no machine executes it"},
};

constexpr int opcode_bits = 7;
constexpr int slot_bits = 40;

constexpr auto by_opcode = index_by_opcode(table);

constexpr std::pair<Member, std::string_view> members[] = {{Member::D, "d"},       {Member::A, "a"},     {Member::B, "b"},
                                                           {Member::Mask, "mask"}, {Member::Aux, "aux"}, {Member::Imm, "imm"}};

bool has_member(Format format, Member member) {
    for (const Field &field : fields(format)) {
        if (field.member == member) {
            return true;
        }
    }
    return false;
}

void check_absent_fields(const InstructionInfo &row, const Instruction &instruction) {
    for (const auto &[member, name] : members) {
        if (get(instruction, member) != 0 && !has_member(row.format, member)) {
            throw Error(
                fmt::format("{} has no field {}, but it is {}; leave it 0", row.mnemonic, name, get(instruction, member)));
        }
    }
}

uint64_t encode_field(const InstructionInfo &row, const Field &field, int64_t value) {
    if (value < field.minimum() || value > field.maximum()) {
        throw Error(
            fmt::format("{} of {} is {}, outside {}..{}", field.name, row.mnemonic, value, field.minimum(), field.maximum()));
    }
    if (value & ((1 << field.scale) - 1)) {
        throw Error(fmt::format("{} of {} is {}, not a multiple of {}", field.name, row.mnemonic, value, 1 << field.scale));
    }
    const uint64_t bits = static_cast<uint64_t>(value >> field.scale);
    uint64_t slot = (bits & ((uint64_t{1} << field.width) - 1)) << field.low;
    if (field.top_bit >= 0) {
        slot |= ((bits >> field.width) & 1) << field.top_bit;
    }
    return slot;
}

int64_t decode_field(const Field &field, uint64_t slot) {
    uint64_t bits = (slot >> field.low) & ((uint64_t{1} << field.width) - 1);
    int width = field.width;
    if (field.top_bit >= 0) {
        bits |= ((slot >> field.top_bit) & 1) << width;
        width++;
    }
    int64_t value = static_cast<int64_t>(bits);
    if (field.is_signed && ((bits >> (width - 1)) & 1)) {
        value -= int64_t{1} << width;
    }
    return value * (1 << field.scale);
}

}  // namespace

std::span<const InstructionInfo> instruction_table() { return table; }

const InstructionInfo *find_instruction(Opcode op) { return by_opcode[static_cast<uint8_t>(op)]; }

const InstructionInfo *find_instruction(std::string_view mnemonic) {
    static const auto by_mnemonic = [] {
        std::unordered_map<std::string_view, const InstructionInfo *> index;
        for (const InstructionInfo &row : table) {
            index.emplace(row.mnemonic, &row);
        }
        return index;
    }();
    const auto found = by_mnemonic.find(mnemonic);
    return found == by_mnemonic.end() ? nullptr : found->second;
}

const InstructionInfo &info(Opcode op) { return *find_instruction(op); }

Operands operands(const Instruction &instruction, bool psum_in) {
    Operands result;
    const InstructionInfo &row = info(instruction.op);
    for (const Field &field : fields(row.format)) {
        if (!field.is_register()) {
            continue;
        }
        const Register reg{field.register_class(), static_cast<uint8_t>(get(instruction, field.member))};
        const Access how = access(row, field, psum_in);
        if (how == Access::Read || how == Access::ReadWrite) {
            result.source[result.sources++] = reg;
        }
        if (how == Access::Write || how == Access::ReadWrite) {
            result.destination[result.destinations++] = reg;
        }
    }
    return result;
}

bool is_branch(Opcode op) { return op >= Opcode::beq_s && op <= Opcode::ble_s; }

bool is_control(Opcode op) { return is_branch(op) || op == Opcode::jal || op == Opcode::jalr; }

bool is_lane_operation(Opcode op) {
    const Unit unit = info(op).unit;
    return unit == Unit::Alu || unit == Unit::Mul || unit == Unit::Exp || unit == Unit::Reduce;
}

std::string register_name(Register r) {
    constexpr char prefix[] = {'x', 'v', 'm'};
    return fmt::format("{}{}", prefix[static_cast<size_t>(r.cls)], r.number);
}

uint64_t encode(const Instruction &instruction) {
    const InstructionInfo *row = find_instruction(instruction.op);
    if (!row) {
        throw Error(fmt::format("opcode 0x{:02X} is not defined, so the instruction cannot be encoded",
                                static_cast<int>(instruction.op)));
    }
    check_absent_fields(*row, instruction);
    uint64_t slot = static_cast<uint64_t>(instruction.op);
    for (const Field &field : fields(row->format)) {
        slot |= encode_field(*row, field, get(instruction, field.member));
    }
    return slot;
}

Instruction decode(uint64_t slot) {
    if (slot >> slot_bits) {
        throw Error(fmt::format("slot word 0x{:X} is wider than {} bits", slot, slot_bits));
    }
    const auto op = static_cast<Opcode>(slot & ((1u << opcode_bits) - 1));
    const InstructionInfo *row = find_instruction(op);
    if (!row) {
        throw Error(fmt::format("slot word 0x{:010X} has the undefined opcode 0x{:02X}", slot, static_cast<int>(op)));
    }
    Instruction instruction;
    instruction.op = op;
    for (const Field &field : fields(row->format)) {
        set(instruction, field.member, decode_field(field, slot));
    }
    return instruction;
}

}  // namespace atalla
