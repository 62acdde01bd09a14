// A48, the older 48-bit dialect: decoded instructions and a reader for its `.in` files. Import only, nothing is emitted.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <istream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace atalla::a48 {

constexpr int64_t packet_bytes = 24;  // four 48-bit slots

// The value of an enumerator is the 7-bit opcode (isa reference section 3, column op48).
// clang-format off
enum class Opcode : uint8_t {
    add_s = 0x01, sub_s, mul_s,
    mod_s = 0x05, or_s, and_s, xor_s, sll_s, srl_s, sra_s, slt_s, sltu_s,
    add_bf = 0x0E, sub_bf, mul_bf, rcp_bf, slt_bf, sqrt_bf, stbf_s, bfts_s,
    addi_s = 0x16, subi_s, muli_s, divi_s, modi_s, ori_s, andi_s, xori_s, slli_s, srli_s, srai_s, slti_s, sltui_s,
    beq_s = 0x23, bne_s, blt_s, bge_s, bgt_s, ble_s,
    lw_s = 0x29, sw_s, jal, jalr, li_s, lui_s, nop_s, halt_s, barrier_s,
    add_vv = 0x32, sub_vv, mul_vv, div_vv, and_vv, or_vv, xor_vv, gemm_vv,
    mgt_mvv = 0x3A, mlt_mvv, meq_mvv, mneq_mvv,
    addi_vi = 0x3E, subi_vi, muli_vi,
    expi_vi = 0x42, sqrti_vi, not_vi, shift_vi, lw_vi, rsum_vi, rmin_vi, rmax_vi,
    mv_mts = 0x4B, mv_stm, vreg_ld, vreg_st, vmov_vts,
    add_vs = 0x50, sub_vs, mul_vs, div_vs,
    mgt_mvs = 0x54, mlt_mvs, meq_mvs, mneq_mvs,
    scpad_ld = 0x58, scpad_st, lhw_s, shw_s,
};
// clang-format on

enum class Format : uint8_t { R, I, M, MI, BR, VV, VS, VI, VMV, VMS, VM, SDMA, VTS, MTS, STM, None };

// A decoded slot. d, a, b, mask, imm and aux mean the same as in atalla::Instruction, with these differences:
//   VI    imm is the raw 16-bit immediate, 0..65535
//   VM    d = vd or stored vs, a = rs1, and the members below; b is unused
//   SDMA  d = rs1 (pad), a = rs2 (memory); with register_form b = rs3 (control word), otherwise rows, cols and sid
//   MTS   a = vms and STM d = vmd are 8-bit fields, 0..255
struct Instruction {
    Opcode op = Opcode::nop_s;
    uint8_t d = 0, a = 0, b = 0;
    uint8_t mask = 0;
    uint8_t aux = 0;  // branch increment, 0..127
    int32_t imm = 0;
    uint8_t rows = 0, cols = 0;  // rows-1 and columns-1 of a tile, 0..31
    uint8_t sid = 0;             // 0 or 1
    uint8_t rc = 0;              // vreg.*: 1 a tile row, 0 a tile column
    uint8_t rc_id = 0;           // vreg.*: number of the row or column, or of a scalar register, 0..31
    bool register_form = false;  // vreg.*: rc_id names a scalar register; scpad.*: the shape is in register b

    bool operator==(const Instruction &) const = default;
    bool is_nop() const { return op == Opcode::nop_s; }
};

struct InstructionInfo {
    Opcode op;
    std::string_view mnemonic;
    Format format;
};

// nullptr for an undefined opcode.
const InstructionInfo *find_instruction(Opcode op);
// Precondition: op is defined.
const InstructionInfo &info(Opcode op);

// Decodes a 48-bit slot word. Throws Error for an undefined opcode or a wider word.
Instruction decode(uint64_t slot);

struct PlacedPacket {
    uint32_t address = 0;
    std::array<Instruction, 4> packet{};
    int32_t line = 0;  // line of the file
};

struct Program {
    std::vector<PlacedPacket> packets;  // ascending by address
    std::map<uint32_t, uint32_t> data;  // byte address -> 32-bit word
};

// Reads an A48 `.in` file. Throws Error naming file, line and column of malformed input.
Program read_in(std::istream &input, const std::string &name);
Program read_in(const std::filesystem::path &file);

}  // namespace atalla::a48
