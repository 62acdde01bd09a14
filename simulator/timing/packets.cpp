#include "simulator/timing/packets.h"

#include <algorithm>

#include "isa/packet_checker.h"
#include "simulator/timing/units.h"

namespace atalla::timing {

namespace {

// Rule 10: where an operation of a scalar or lane unit goes and how long it takes.
void set_unit(TimedOperation &operation, Source unit, Cycle latency, Cycle interval) {
    operation.kind = OperationKind::Unit;
    operation.unit = unit;
    operation.latency = static_cast<uint16_t>(latency);
    operation.interval = static_cast<uint16_t>(interval);
}

Cycle ex2_latency(const Machine &machine, Opcode op) {
    switch (op) {
        case Opcode::rcp_bf:
        case Opcode::sqrt_bf:
            return machine.ex2.rcp_sqrt_L;
        case Opcode::bfts_s:
        case Opcode::stbf_s:
        case Opcode::mv_stm:
            return machine.ex2.conv_L;
        default:
            return machine.ex2.divmod_L;
    }
}

Cycle alu_latency(const Machine &machine, Opcode op) {
    const bool is_compare = op >= Opcode::mgt_mvv && op <= Opcode::mneq_mvs;
    return is_compare ? machine.vec.cmp_L : machine.vec.add_L;
}

TimedOperation make_operation(const Machine &machine, const Instruction &instruction, int slot) {
    TimedOperation operation;
    operation.slot = static_cast<uint8_t>(slot) & 3;
    const Operands named = operands(instruction, machine.sa.psum_in);
    if (named.destinations > 0) {
        operation.destination = register_id(named.destination[0]);
    }
    switch (info(instruction.op).unit) {
        case Unit::Ex1:
            set_unit(operation, Source::Ex1, machine.ex1.L, machine.ex1.ii);
            break;
        case Unit::Ex2: {
            const Cycle latency = ex2_latency(machine, instruction.op);
            set_unit(operation, Source::Ex2, latency, latency + machine.ex2.ii_after_L);
            break;
        }
        case Unit::Ex3:
            set_unit(operation, Source::Ex3, machine.ex3.L, machine.ex3.ii);
            break;
        case Unit::Ex4:
            set_unit(operation, Source::Ex4, machine.ex4.L, machine.ex4.ii);
            break;
        case Unit::Ex5:
            operation.kind = OperationKind::ScalarAccess;
            operation.unit = Source::Ex5;
            operation.is_write = instruction.op == Opcode::sw_s || instruction.op == Opcode::shw_s;
            break;
        case Unit::Alu:
            set_unit(operation, Source::Alu, alu_latency(machine, instruction.op), machine.vec.ii);
            break;
        case Unit::Mul:
            set_unit(operation, Source::Mul, machine.vec.mul_L, machine.vec.ii);
            break;
        case Unit::Exp:
            set_unit(operation, Source::Exp, machine.vec.exp_L, machine.vec.ii);
            break;
        case Unit::Reduce:
            set_unit(operation, Source::Reduce, machine.vec.reduce_L, machine.vec.reduce_ii);
            break;
        case Unit::MoveToScalar:
            set_unit(operation, Source::MoveToScalar, machine.vec.mov_to_scalar_L, machine.vec.mov_to_scalar_ii);
            break;
        case Unit::Array:
            operation.kind = instruction.op == Opcode::gemm_vv ? OperationKind::Row : OperationKind::WeightLoad;
            break;
        case Unit::Vlsu:
            operation.kind = OperationKind::VectorAccess;
            operation.is_write = instruction.op == Opcode::vreg_st;
            operation.pad = instruction.aux;
            break;
        case Unit::Sdma:
            operation.kind = OperationKind::Transfer;
            operation.is_write = instruction.op == Opcode::scpad_ld;
            break;
        default:  // halt; nops are left out before, undefined operations refused
            operation.kind = OperationKind::Halt;
            break;
    }
    return operation;
}

// The operand reads of a packet on each bank of each file (rule 6).
class BankReads {
public:
    explicit BankReads(const Machine &machine)
        : banks_{machine.regs.scalar_banks, machine.regs.vector_banks, machine.regs.mask_banks},
          conflicts_{machine.regs.scalar_conflict, machine.regs.vector_conflict, machine.regs.mask_conflict} {}

    void add(Register reg) {
        const auto file = static_cast<size_t>(reg.cls);
        if (!is_constant(reg) && conflicts_[file]) {
            reads_[file][reg.number % static_cast<size_t>(banks_[file])]++;
        }
    }
    uint8_t wait() const {
        uint8_t most = 0;
        for (const auto &file : reads_) {
            most = std::max(most, *std::ranges::max_element(file));
        }
        return most >= 2 ? most : 0;
    }

private:
    std::array<int64_t, 3> banks_;
    std::array<bool, 3> conflicts_;
    std::array<std::array<uint8_t, 4>, 3> reads_{};
};

void add_register(TimedPacket &packet, RegisterId reg) {
    const auto end = packet.registers.begin() + packet.register_count;
    if (reg != no_register && std::find(packet.registers.begin(), end, reg) == end) {
        packet.registers[packet.register_count++] = reg;
    }
}

TimedPacket make_packet(const Machine &machine, const PlacedPacket &placed) {
    TimedPacket packet;
    packet.values = decode_packet(placed);
    const auto sector = static_cast<uint32_t>(machine.icache.sector);
    packet.first_sector = placed.address / sector;
    packet.last_sector = (placed.address + static_cast<uint32_t>(machine.issue.packet_bytes) - 1) / sector;
    packet.registers.fill(always_free);
    BankReads bank_reads(machine);
    for (int slot = 0; slot < packet.values.count; slot++) {
        const Instruction &instruction = packet.values.slot[static_cast<size_t>(slot)];
        packet.operations[static_cast<size_t>(slot)] = make_operation(machine, instruction, slot);
        const Operands named = operands(instruction, machine.sa.psum_in);
        for (const Register reg : named.reads()) {
            bank_reads.add(reg);
            add_register(packet, register_id(reg));
        }
        for (const Register reg : named.writes()) {
            add_register(packet, register_id(reg));
        }
        if (is_branch(instruction.op)) {
            packet.control = Control::Branch;
        } else if (is_control(instruction.op)) {
            packet.control = Control::Jump;
        }
    }
    packet.bank_wait = bank_reads.wait();
    const auto operations = std::span(packet.operations).first(packet.values.count);
    const auto kind_of = [](const TimedOperation &operation) { return operation.kind; };
    std::ranges::stable_sort(operations, {}, kind_of);
    const auto count = [&](OperationKind kind) { return static_cast<uint8_t>(std::ranges::count(operations, kind, kind_of)); };
    for (const TimedOperation &operation : operations) {
        if (operation.kind == OperationKind::Unit || operation.kind == OperationKind::ScalarAccess) {
            packet.used_units |= static_cast<uint16_t>(Units::bit(operation.unit));
        }
    }
    packet.units = count(OperationKind::Unit);
    packet.rows = count(OperationKind::Row);
    packet.vector_accesses = count(OperationKind::VectorAccess);
    packet.scalar_accesses = count(OperationKind::ScalarAccess);
    packet.transfers = count(OperationKind::Transfer);
    packet.loads_weights = count(OperationKind::WeightLoad) > 0;
    return packet;
}

}  // namespace

TimedProgram::TimedProgram(const Machine &machine, const Program &program) {
    packets.reserve(program.packets.size());
    for (const PlacedPacket &placed : program.packets) {
        if (const std::optional<std::string> violation = check_packet(placed.packet, machine)) {
            TimedPacket packet;
            packet.values.address = placed.address;
            packet.violation = static_cast<int32_t>(violations.size());
            violations.push_back(*violation);
            packets.push_back(packet);
        } else {
            packets.push_back(make_packet(machine, placed));
        }
    }
    for (size_t index = 1; index < packets.size(); index++) {
        packets[index - 1].followed = packets[index].values.address == packets[index - 1].values.address + packet_bytes;
    }
}

int32_t TimedProgram::find(int64_t address) const {
    const auto found = std::ranges::lower_bound(packets, address, {},
                                                [](const TimedPacket &packet) { return int64_t{packet.values.address}; });
    if (found == packets.end() || found->values.address != address) {
        return -1;
    }
    return static_cast<int32_t>(found - packets.begin());
}

}  // namespace atalla::timing
