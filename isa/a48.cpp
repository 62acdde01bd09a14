#include "isa/a48.h"

#include <fmt/format.h>

#include <fstream>

#include "isa/error.h"
#include "isa/in_file.h"
#include "isa/in_grammar.h"
#include "isa/instruction_formats.h"
#include "isa/read_file.h"

namespace atalla::a48 {

namespace {

constexpr InstructionInfo table[] = {
    {Opcode::add_s, "add.s", Format::R},
    {Opcode::sub_s, "sub.s", Format::R},
    {Opcode::mul_s, "mul.s", Format::R},
    {Opcode::mod_s, "mod.s", Format::R},
    {Opcode::or_s, "or.s", Format::R},
    {Opcode::and_s, "and.s", Format::R},
    {Opcode::xor_s, "xor.s", Format::R},
    {Opcode::sll_s, "sll.s", Format::R},
    {Opcode::srl_s, "srl.s", Format::R},
    {Opcode::sra_s, "sra.s", Format::R},
    {Opcode::slt_s, "slt.s", Format::R},
    {Opcode::sltu_s, "sltu.s", Format::R},
    {Opcode::add_bf, "add.bf", Format::R},
    {Opcode::sub_bf, "sub.bf", Format::R},
    {Opcode::mul_bf, "mul.bf", Format::R},
    {Opcode::rcp_bf, "rcp.bf", Format::R},
    {Opcode::slt_bf, "slt.bf", Format::R},
    {Opcode::sqrt_bf, "sqrt.bf", Format::R},
    {Opcode::stbf_s, "stbf.s", Format::R},
    {Opcode::bfts_s, "bfts.s", Format::R},
    {Opcode::addi_s, "addi.s", Format::I},
    {Opcode::subi_s, "subi.s", Format::I},
    {Opcode::muli_s, "muli.s", Format::I},
    {Opcode::divi_s, "divi.s", Format::I},
    {Opcode::modi_s, "modi.s", Format::I},
    {Opcode::ori_s, "ori.s", Format::I},
    {Opcode::andi_s, "andi.s", Format::I},
    {Opcode::xori_s, "xori.s", Format::I},
    {Opcode::slli_s, "slli.s", Format::I},
    {Opcode::srli_s, "srli.s", Format::I},
    {Opcode::srai_s, "srai.s", Format::I},
    {Opcode::slti_s, "slti.s", Format::I},
    {Opcode::sltui_s, "sltui.s", Format::I},
    {Opcode::beq_s, "beq.s", Format::BR},
    {Opcode::bne_s, "bne.s", Format::BR},
    {Opcode::blt_s, "blt.s", Format::BR},
    {Opcode::bge_s, "bge.s", Format::BR},
    {Opcode::bgt_s, "bgt.s", Format::BR},
    {Opcode::ble_s, "ble.s", Format::BR},
    {Opcode::lw_s, "lw.s", Format::M},
    {Opcode::sw_s, "sw.s", Format::M},
    {Opcode::jal, "jal", Format::MI},
    {Opcode::jalr, "jalr", Format::I},
    {Opcode::li_s, "li.s", Format::MI},
    {Opcode::lui_s, "lui.s", Format::MI},
    {Opcode::nop_s, "nop.s", Format::None},
    {Opcode::halt_s, "halt.s", Format::None},
    {Opcode::barrier_s, "barrier.s", Format::None},
    {Opcode::add_vv, "add.vv", Format::VV},
    {Opcode::sub_vv, "sub.vv", Format::VV},
    {Opcode::mul_vv, "mul.vv", Format::VV},
    {Opcode::div_vv, "div.vv", Format::VV},
    {Opcode::and_vv, "and.vv", Format::VV},
    {Opcode::or_vv, "or.vv", Format::VV},
    {Opcode::xor_vv, "xor.vv", Format::VV},
    {Opcode::gemm_vv, "gemm.vv", Format::VV},
    {Opcode::mgt_mvv, "mgt.mvv", Format::VMV},
    {Opcode::mlt_mvv, "mlt.mvv", Format::VMV},
    {Opcode::meq_mvv, "meq.mvv", Format::VMV},
    {Opcode::mneq_mvv, "mneq.mvv", Format::VMV},
    {Opcode::addi_vi, "addi.vi", Format::VI},
    {Opcode::subi_vi, "subi.vi", Format::VI},
    {Opcode::muli_vi, "muli.vi", Format::VI},
    {Opcode::expi_vi, "expi.vi", Format::VI},
    {Opcode::sqrti_vi, "sqrti.vi", Format::VI},
    {Opcode::not_vi, "not.vi", Format::VI},
    {Opcode::shift_vi, "shift.vi", Format::VI},
    {Opcode::lw_vi, "lw.vi", Format::VI},
    {Opcode::rsum_vi, "rsum.vi", Format::VI},
    {Opcode::rmin_vi, "rmin.vi", Format::VI},
    {Opcode::rmax_vi, "rmax.vi", Format::VI},
    {Opcode::mv_mts, "mv.mts", Format::MTS},
    {Opcode::mv_stm, "mv.stm", Format::STM},
    {Opcode::vreg_ld, "vreg.ld", Format::VM},
    {Opcode::vreg_st, "vreg.st", Format::VM},
    {Opcode::vmov_vts, "vmov.vts", Format::VTS},
    {Opcode::add_vs, "add.vs", Format::VS},
    {Opcode::sub_vs, "sub.vs", Format::VS},
    {Opcode::mul_vs, "mul.vs", Format::VS},
    {Opcode::div_vs, "div.vs", Format::VS},
    {Opcode::mgt_mvs, "mgt.mvs", Format::VMS},
    {Opcode::mlt_mvs, "mlt.mvs", Format::VMS},
    {Opcode::meq_mvs, "meq.mvs", Format::VMS},
    {Opcode::mneq_mvs, "mneq.mvs", Format::VMS},
    {Opcode::scpad_ld, "scpad.ld", Format::SDMA},
    {Opcode::scpad_st, "scpad.st", Format::SDMA},
    {Opcode::lhw_s, "lhw.s", Format::M},
    {Opcode::shw_s, "shw.s", Format::M},
};

constexpr size_t slot_digits = 12;
constexpr int slot_bits = 48;

constexpr auto by_opcode = index_by_opcode(table);

// Bits [high:low] of a slot.
uint64_t bits(uint64_t slot, int high, int low) { return (slot >> low) & ((uint64_t{1} << (high - low + 1)) - 1); }
uint8_t byte(uint64_t slot, int high, int low) { return static_cast<uint8_t>(bits(slot, high, low)); }
int32_t sign_extend(uint64_t value, int width) {
    return static_cast<int32_t>(static_cast<int64_t>(value) - (value >> (width - 1) ? int64_t{1} << width : 0));
}

void decode_tile_shape(uint64_t slot, Instruction &instruction) {
    instruction.cols = byte(slot, 27, 23);
    instruction.rows = byte(slot, 32, 28);
    instruction.sid = byte(slot, 33, 33);
}

// Field positions: isa reference sections 2.2 and 2.3.
void decode_fields(uint64_t slot, Format format, Instruction &instruction) {
    instruction.d = byte(slot, 14, 7);
    instruction.a = byte(slot, 22, 15);
    switch (format) {
        case Format::R:
            instruction.b = byte(slot, 30, 23);
            break;
        case Format::I:
        case Format::M:
            instruction.imm = sign_extend(bits(slot, 34, 23), 12);
            break;
        case Format::MI:
            instruction.a = 0;
            instruction.imm = sign_extend(bits(slot, 39, 15), 25);
            break;
        case Format::BR:
            instruction.d = 0;
            instruction.b = byte(slot, 30, 23);
            instruction.aux = byte(slot, 13, 7);
            instruction.imm = sign_extend(bits(slot, 14, 14) << 9 | bits(slot, 39, 31), 10) * 4;
            break;
        case Format::VV:
        case Format::VS:
            instruction.b = byte(slot, 30, 23);
            instruction.mask = byte(slot, 34, 31);
            break;
        case Format::VI:
            instruction.imm = static_cast<int32_t>(bits(slot, 42, 35) << 8 | bits(slot, 30, 23));
            instruction.mask = byte(slot, 34, 31);
            break;
        case Format::VMV:
        case Format::VMS:
            instruction.d = byte(slot, 10, 7);
            instruction.a = byte(slot, 18, 11);
            instruction.b = byte(slot, 26, 19);
            instruction.mask = byte(slot, 30, 27);
            break;
        case Format::VM:
            decode_tile_shape(slot, instruction);
            instruction.rc = byte(slot, 34, 34);
            instruction.rc_id = byte(slot, 39, 35);
            instruction.register_form = bits(slot, 40, 40);
            break;
        case Format::SDMA:
            instruction.register_form = bits(slot, 34, 34);
            if (instruction.register_form) {
                instruction.b = byte(slot, 30, 23);
            } else {
                decode_tile_shape(slot, instruction);
            }
            break;
        case Format::VTS:
            instruction.imm = static_cast<int32_t>(bits(slot, 30, 23));
            break;
        case Format::MTS:
        case Format::STM:
            break;
        case Format::None:
            instruction.d = instruction.a = 0;
            break;
    }
}

}  // namespace

const InstructionInfo *find_instruction(Opcode op) { return by_opcode[static_cast<uint8_t>(op)]; }

const InstructionInfo &info(Opcode op) { return *find_instruction(op); }

Instruction decode(uint64_t slot) {
    if (slot >> slot_bits) {
        throw Error(fmt::format("slot word 0x{:X} is wider than {} bits", slot, slot_bits));
    }
    const auto op = static_cast<Opcode>(slot & 0x7F);
    const InstructionInfo *row = find_instruction(op);
    if (!row) {
        throw Error(fmt::format("slot word 0x{:012X} has the A48-undefined opcode 0x{:02X}", slot, static_cast<int>(op)));
    }
    Instruction instruction;
    instruction.op = op;
    decode_fields(slot, row->format, instruction);
    return instruction;
}

Program read_in(std::istream &input, const std::string &name) {
    std::map<uint32_t, PlacedPacket> packets;
    Program program;
    InHandlers handlers;
    handlers.packet = [&](const InLine &line) {
        packets.insert_or_assign(line.address,
                                 PlacedPacket{line.address, decode_packet(line, slot_digits, decode), line.number});
        line.check_limit(packets.size(), in_packet_limit, "packets");
    };
    handlers.data = [&](const InLine &line) {
        program.data.insert_or_assign(program.data.end(), line.address, line.data_word());
        line.check_limit(program.data.size(), in_data_limit, "data words");
    };
    read_in_lines(input, name, handlers);
    for (const auto &[address, packet] : packets) {
        program.packets.push_back(packet);
    }
    return program;
}

Program read_in(const std::filesystem::path &file) {
    std::ifstream input = open_to_read(file);
    return read_in(input, file.string());
}

}  // namespace atalla::a48
