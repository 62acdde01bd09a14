// One Atalla A40 instruction, its operands, and the table that every tool derives from.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace atalla {

// The value of an enumerator is the 7-bit opcode of the encoding (A40, isa reference section 3).
// clang-format off
enum class Opcode : uint8_t {
    add_s = 0x01, sub_s, mul_s, div_s, mod_s, or_s, and_s, xor_s, sll_s, srl_s, sra_s, slt_s, sltu_s,
    bfts_s = 0x0E, add_bf, sub_bf, mul_bf, rcp_bf, slt_bf, sqrt_bf, stbf_s,
    addi_s = 0x16, subi_s, muli_s, divi_s, modi_s, ori_s, andi_s, xori_s, slli_s, srli_s, srai_s, slti_s, sltui_s,
    beq_s = 0x23, bne_s, blt_s, bge_s, bgt_s, ble_s,
    lw_s = 0x29, sw_s, lhw_s, shw_s,
    jal = 0x2D, jalr, li_s, lui_s, nop_s, halt_s,
    add_vv = 0x33, sub_vv, mul_vv, gemm_vv, expi_vi, lw_vi, rsum_vi, rmin_vi, rmax_vi,
    mgt_mvv = 0x3C, mlt_mvv, meq_mvv, mneq_mvv, mgt_mvs, mlt_mvs, meq_mvs, mneq_mvs,
    vreg_ld = 0x44, vreg_st, scpad_ld, scpad_st, vmov_vts, mv_mts, mv_stm,
    add_vs = 0x4B, sub_vs, mul_vs,
    tpop_vi = 0x4E, tpus_vi,
};
// clang-format on

// Field layouts of a slot (isa reference section 2.2).
enum class Format : uint8_t { R, I, M, MI, BR, VV, VS, VI, VMV, VMS, VM, SDMA, VTS, MTS, STM, None };

// The unit that executes an operation (microarchitecture reference sections 4 to 10, 17.10).
enum class Unit : uint8_t { None, Ex1, Ex2, Ex3, Ex4, Ex5, Alu, Mul, Exp, Reduce, Array, MoveToScalar, Vlsu, Sdma, Undefined };

enum class RegisterClass : uint8_t { Scalar, Vector, Mask };

struct Register {
    RegisterClass cls = RegisterClass::Scalar;
    uint8_t number = 0;
    bool operator==(const Register &) const = default;
    auto operator<=>(const Register &) const = default;
};

// A decoded slot. Which fields mean something depends on the format:
//
//   field  R    I,M        MI   BR        VV   VS   VI   VMV  VMS  VM          SDMA       VTS  MTS  STM
//   d      rd   rd/stored  rd   -         vd   vd   vd   vmd  vmd  vd/stored   rs1 (pad)  rd   rd   vmd
//   a      rs1  rs1        -    rs1       vs1  vs1  vs1  vs1  vs1  rs1         rs2 (mem)  vs1  vms  rs1
//   b      rs2  -          -    rs2       vs2  rs1  -    vs2  rs1  rs2         rs3 (ctl)  -    -    -
//   mask   -    -          -    -         m    m    m    m    m    -           -          -    -    -
//   imm    -    signed 12  s25  offset*   -    -    u8   -    -    columns-1   -          lane -    -
//   aux    -    -          -    incr7     -    -    -    -    -    sid         -          -    -    -
//
// * a branch's imm is its byte offset, a multiple of 4 in -2048..2044.
struct Instruction {
    Opcode op = Opcode::nop_s;
    uint8_t d = 0, a = 0, b = 0;
    uint8_t mask = 0;
    uint8_t aux = 0;
    int32_t imm = 0;

    bool operator==(const Instruction &) const = default;
    bool is_nop() const { return op == Opcode::nop_s; }
};

// Where the operands of an instruction differ from what its format says.
enum class Variant : uint8_t {
    Usual,
    Store,       // field d is read, nothing is written
    OneSource,   // field b is not read
    MatrixRow,   // gemm.vv: the mask is not read, b only where the machine has a partial-sum input
    WeightLoad,  // lw.vi: field d is not written
};

// A row of the instruction table.
struct InstructionInfo {
    Opcode op;
    std::string_view mnemonic;  // "add.s"
    Format format;
    Unit unit;
    std::string_view effect;  // one line for the documentation
    Variant variant = Variant::Usual;
};

// All defined instructions, ascending by opcode (tpop/tpus are listed with Unit::Undefined: encodable, not executable).
std::span<const InstructionInfo> instruction_table();
// nullptr for an undefined opcode.
const InstructionInfo *find_instruction(Opcode op);
const InstructionInfo *find_instruction(std::string_view mnemonic);
// Precondition: op is in the table.
const InstructionInfo &info(Opcode op);

// The registers an instruction names, in the order the instruction names them. `sources` follow microarchitecture rule 8:
// the old destination of a masked operation is not a source; gemm.vv reads vs2 only where the machine has a
// partial-sum input. Destinations follow rule 9: branches write rs1, scpad.* write (reserve) rs1.
struct Operands {
    std::array<Register, 4> source{};
    uint8_t sources = 0;
    std::array<Register, 1> destination{};
    uint8_t destinations = 0;

    // Views of this object, so not of a temporary.
    std::span<const Register> reads() const & { return {source.data(), sources}; }
    std::span<const Register> writes() const & { return {destination.data(), destinations}; }
    std::span<const Register> reads() const && = delete;
    std::span<const Register> writes() const && = delete;
};
Operands operands(const Instruction &instruction, bool psum_in);

bool is_branch(Opcode op);   // the six conditional branches
bool is_control(Opcode op);  // branches, jal, jalr
bool is_lane_operation(Opcode op);

// "x5", "v5" or "m5".
std::string register_name(Register r);
// True for the registers that are constants: x0, v0 (zero) and m0 (all ones).
inline bool is_constant(Register r) { return r.number == 0; }

// A40 slot word, 40 bits. encode() throws Error if a field is out of range, or not zero though the format does not have
// it, naming the field.
uint64_t encode(const Instruction &instruction);
// Throws Error for an undefined opcode.
Instruction decode(uint64_t slot);

}  // namespace atalla
