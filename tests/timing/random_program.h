// Random programs for the timing model: legal packets in counted loops with forward branches, transfers and scalar memory.
#pragma once

#include <algorithm>
#include <random>

#include "isa/machine.h"
#include "isa/packet_checker.h"
#include "isa/program.h"

namespace atalla {

class RandomProgram {
public:
    // `care` from 0 to 100: how often an access keeps to an area of its own, so that nothing overtakes anything.
    RandomProgram(uint32_t seed, const Machine &machine, int care) : random_(seed), machine_(machine), care_(care) {}

    Program make() {
        set_up();
        const int loops = pick(1, 3);
        for (int loop = 0; loop < loops; loop++) {
            make_loop(number(60 + loop));
        }
        append({operation(Opcode::halt_s)});
        return program_;
    }

private:
    // Scalar registers 1 to 15 hold data, from 20 on the addresses that set_up() makes. Vectors and masks are all data.
    static constexpr int zero_row = 20, pad_base = 24, memory_base = 32, control = 40, scalar_base = 48, jump_register = 55;

    int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
    bool chance(int percent) { return pick(1, 100) <= percent; }
    static uint8_t number(int value) { return static_cast<uint8_t>(value); }
    uint8_t scalar() { return number(pick(0, 15)); }
    uint8_t vector() { return number(chance(70) ? pick(0, 15) : pick(0, 255)); }
    uint8_t mask() { return number(chance(70) ? 0 : pick(0, 15)); }

    static Instruction operation(Opcode op, uint8_t d = 0, uint8_t a = 0, uint8_t b = 0, int32_t imm = 0) {
        Instruction instruction;
        instruction.op = op;
        instruction.d = d;
        instruction.a = a;
        instruction.b = b;
        instruction.imm = imm;
        return instruction;
    }
    void append(std::initializer_list<Instruction> slots) {
        Packet packet{};
        std::copy(slots.begin(), slots.end(), packet.begin());
        program_.append(packet);
    }
    void load_constant(uint8_t reg, uint32_t value) {
        append({operation(Opcode::lui_s, reg, 0, 0, static_cast<int32_t>(value >> 7))});
        append({operation(Opcode::ori_s, reg, reg, 0, static_cast<int32_t>(value & 127))});
    }

    // Pad rows: loads read 0..63, stores write 128.., transfers fill 256.. and read 512.. . Memory: transfers load from
    // 0x100000, store to 0x200000, scalar accesses stay at 0x40000; every pad has its own 64 KB.
    void set_up() {
        for (int pad = 0; pad < 4; pad++) {
            load_constant(number(pad_base + pad), 256 * 64);
            load_constant(number(pad_base + 4 + pad), 512 * 64);
            load_constant(number(memory_base + pad), static_cast<uint32_t>(0x100000 + pad * 0x10000 + pick(0, 40) * 2048));
            load_constant(number(memory_base + 4 + pad), static_cast<uint32_t>(0x200000 + pad * 0x10000 + pick(0, 40) * 2048));
        }
        for (int pad = 0; pad < 8; pad++) {
            const uint32_t rows = static_cast<uint32_t>(pick(1, 32)), columns = static_cast<uint32_t>(pick(1, 32));
            const uint32_t pitch = columns + static_cast<uint32_t>(pick(0, 1) * pick(0, 300));
            load_constant(number(control + pad),
                          static_cast<uint32_t>(pad % 4) << 30 | (rows - 1) << 25 | (columns - 1) << 20 | (pitch - 1));
        }
        load_constant(scalar_base, 0x40000);
        for (int row = 0; row < 4; row++) {
            load_constant(number(zero_row + row), static_cast<uint32_t>(pick(0, 63)));
            load_constant(number(scalar_base + 1 + row), static_cast<uint32_t>(128 + pick(0, 63)));
        }
        for (int count = pick(0, 32); count > 0; count--) {
            append({operation(Opcode::lw_vi, 0, vector())});
        }
    }

    void make_loop(uint8_t counter) {
        append({operation(Opcode::addi_s, counter, 0, 0, 0)});
        append({operation(Opcode::addi_s, number(counter + 10), 0, 0, pick(0, 9))});
        const auto first = static_cast<int>(program_.packets.size());
        const int last = first + pick(5, 60);
        std::vector<int> skips;
        for (int place = first; place < last; place++) {
            // A packet ahead and in the loop: a taken branch does not leave it.
            if (chance(2) && place + 3 < last) {
                // Through a register: the two packets that load it and the jump.
                load_constant(jump_register, static_cast<uint32_t>(place + 3) * static_cast<uint32_t>(packet_bytes));
                append({operation(Opcode::jalr, scalar(), jump_register, 0, 0)});
                place += 2;
                continue;
            }
            append_random(chance(8) ? (std::min(last, place + pick(1, 6)) - place) * static_cast<int>(packet_bytes) : 0);
        }
        Instruction back =
            operation(Opcode::blt_s, 0, counter, number(counter + 10), (first - last) * static_cast<int>(packet_bytes));
        back.aux = 1;
        append({back});
    }

    // A packet of as many random operations as fit; the first jumps over packets if `skip` is not 0.
    void append_random(int skip) {
        Packet packet{};
        size_t filled = 0;
        if (skip != 0) {
            packet[filled] =
                chance(20)
                    ? operation(Opcode::jal, scalar(), 0, 0, skip)
                    : operation(static_cast<Opcode>(pick(static_cast<int>(Opcode::beq_s), static_cast<int>(Opcode::ble_s))), 0,
                                scalar(), scalar(), skip);
            if (packet[filled].op != Opcode::jal) {
                packet[filled].aux = number(pick(0, 3));
            }
            filled++;
        }
        const int wanted = pick(0, 4);
        for (int tries = 0; tries < 12 && filled < static_cast<size_t>(wanted); tries++) {
            packet[filled] = random_operation();
            if (check_packet(packet, machine_, pads_of(packet))) {
                packet[filled] = Instruction{};
            } else {
                filled++;
            }
        }
        program_.append(packet);
    }

    static PacketPads pads_of(const Packet &packet) {
        PacketPads pads = unknown_pads;
        for (size_t slot = 0; slot < packet.size(); slot++) {
            if (info(packet[slot].op).unit == Unit::Sdma) {
                pads[slot] = static_cast<int8_t>((packet[slot].b - control) % 4);
            }
        }
        return pads;
    }

    Instruction random_operation() {
        if (dense_) {
            return chance(75) ? random_access() : operation(Opcode::gemm_vv, vector(), vector(), vector());
        }
        switch (pick(0, 11)) {
            case 0:
            case 1:
                return random_access();
            case 2:
            case 3:
                return random_transfer();
            case 4:
                return random_scalar_access();
            case 5:
                return operation(Opcode::gemm_vv, vector(), vector(), vector());
            case 6:
                return chance(2) ? operation(Opcode::lw_vi, 0, vector())
                                 : operation(Opcode::vmov_vts, scalar(), vector(), 0, pick(0, 31));
            case 7:
            case 8:
                return random_lane();
            default:
                return random_scalar();
        }
    }
    Instruction random_access() {
        const bool store = chance(40), careful = chance(care_);
        const int rows = store == careful ? scalar_base + 1 : zero_row;  // a careless store and load change areas
        Instruction access =
            operation(store ? Opcode::vreg_st : Opcode::vreg_ld, vector(), 0, number(rows + pick(0, 3)), pick(0, 31));
        access.aux = number(pick(0, static_cast<int>(machine_.pad.count) - 1));
        if (!careful && chance(30)) {
            access.a = number(pad_base + pick(0, 7));  // waits for the transfer that fills or reads these rows
        }
        return access;
    }
    Instruction random_transfer() {
        const bool store = chance(40);
        const int pad = pick(0, static_cast<int>(machine_.pad.count) - 1), kind = store ? 4 : 0;
        const int memory_kind = chance(care_) ? kind : 4 - kind;
        return operation(store ? Opcode::scpad_st : Opcode::scpad_ld, number(chance(1) ? 0 : pad_base + kind + pad),
                         number(memory_base + memory_kind + pad), number(control + kind + pad));
    }
    Instruction random_scalar_access() {
        const Opcode ops[] = {Opcode::lw_s, Opcode::sw_s, Opcode::lhw_s, Opcode::shw_s};
        return operation(ops[pick(0, 3)], scalar(), number(chance(95) ? scalar_base : memory_base + pick(0, 7)), 0,
                         pick(-2048, 2047));
    }
    // Any instruction of these units, with random fields by its format. What often has no defined result comes rarely.
    Instruction random_of(std::initializer_list<Unit> units) {
        for (;;) {
            const auto table = instruction_table();
            const InstructionInfo &row = table[static_cast<size_t>(pick(0, static_cast<int>(table.size()) - 1))];
            const bool wanted = std::find(units.begin(), units.end(), row.unit) != units.end() && !is_control(row.op);
            const bool delicate = row.op == Opcode::div_s || row.op == Opcode::mod_s || row.op == Opcode::bfts_s;
            if (wanted && (!delicate || chance(4))) {
                return with_random_fields(row);
            }
        }
    }
    Instruction with_random_fields(const InstructionInfo &row) {
        Instruction made;
        made.op = row.op;
        switch (row.format) {
            case Format::R:
                made = operation(row.op, scalar(), scalar(), row.variant == Variant::OneSource ? number(0) : scalar());
                break;
            case Format::I:
                made = operation(row.op, scalar(), scalar(), 0, immediate(row.op));
                break;
            case Format::MI:
                made = operation(row.op, scalar(), 0, 0, pick(-100000, 100000));
                break;
            case Format::VV:
                made = operation(row.op, vector(), vector(), vector());
                made.mask = mask();
                break;
            case Format::VS:
                made = operation(row.op, vector(), vector(), scalar());
                made.mask = mask();
                break;
            case Format::VI:
                made = operation(row.op, vector(), vector(), 0, chance(50) ? 64 : pick(0, 63));
                made.mask = mask();
                break;
            case Format::VMV:
                made = operation(row.op, mask(), vector(), vector());
                made.mask = mask();
                break;
            case Format::VMS:
                made = operation(row.op, mask(), vector(), scalar());
                made.mask = mask();
                break;
            case Format::VTS:
                made = operation(row.op, scalar(), vector(), 0, pick(0, 31));
                break;
            case Format::MTS:
                made = operation(row.op, scalar(), mask());
                break;
            case Format::STM:
                made = operation(row.op, mask(), scalar());
                break;
            default:
                break;
        }
        return made;
    }
    int32_t immediate(Opcode op) {
        if (op == Opcode::divi_s || op == Opcode::modi_s) {
            return pick(1, 2000);
        }
        return op == Opcode::slli_s || op == Opcode::srli_s || op == Opcode::srai_s ? pick(0, 31) : pick(-2048, 2047);
    }
    Instruction random_lane() { return random_of({Unit::Alu, Unit::Mul, Unit::Exp, Unit::Reduce}); }
    Instruction random_scalar() { return random_of({Unit::Ex1, Unit::Ex2, Unit::Ex3, Unit::Ex4, Unit::MoveToScalar}); }

    std::mt19937 random_;
    const Machine &machine_;
    const int care_;
    const bool dense_ = chance(30);  // little else than vector loads, stores and rows, so that queues fill
    Program program_;
};

}  // namespace atalla
