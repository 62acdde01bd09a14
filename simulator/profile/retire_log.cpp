#include "simulator/profile/retire_log.h"

#include <ostream>

#include <fmt/format.h>

#include "isa/disassembler.h"
#include "simulator/machine_state.h"

namespace atalla {

using timing::Source;

namespace {

// Where results of a unit come from.
Source source_of(Unit unit, uint32_t pad) {
    switch (unit) {
        case Unit::Ex2:
            return Source::Ex2;
        case Unit::Ex3:
            return Source::Ex3;
        case Unit::Ex4:
            return Source::Ex4;
        case Unit::Ex5:
            return Source::Ex5;
        case Unit::Alu:
            return Source::Alu;
        case Unit::Mul:
            return Source::Mul;
        case Unit::Exp:
            return Source::Exp;
        case Unit::Reduce:
            return Source::Reduce;
        case Unit::Array:
            return Source::Array;
        case Unit::MoveToScalar:
            return Source::MoveToScalar;
        case Unit::Vlsu:
            return timing::vlsu_source(static_cast<int>(pad));
        default:
            return Source::Ex1;
    }
}

std::string lanes_text(const float *values, int count) {
    std::string text;
    for (int lane = 0; lane < count; lane++) {
        text += fmt::format("{:04x}", bf16_truncate(values[lane]));
    }
    return text;
}

std::string register_text(const MachineState &state, Register reg) {
    switch (reg.cls) {
        case RegisterClass::Scalar:
            return fmt::format("{:08x}", state.x[reg.number]);
        case RegisterClass::Mask:
            return fmt::format("{:08x}", state.m[reg.number]);
        case RegisterClass::Vector:
            return lanes_text(state.v[reg.number], lanes);
    }
    return {};
}

// The slot of the packet that holds the operation in the given place, nops left out.
int encoded_slot(const Packet &packet, int place) {
    for (int slot = 0; slot < static_cast<int>(packet.size()); slot++) {
        if (!packet[static_cast<size_t>(slot)].is_nop() && place-- == 0) {
            return slot;
        }
    }
    return 0;
}

}  // namespace

RetireLog::RetireLog(const Program &program, std::ostream &out) : program_(program), out_(out) {
    out_ << "# atalla retire log 1: packet slot issue done pc target value operation\n";
}

void RetireLog::finish() {
    for (const Line &line : lines_) {
        write(line);
    }
    lines_.clear();
}

void RetireLog::issues(int32_t, int64_t, const MachineState &state) {
    state_ = &state;
    packets_++;
}

void RetireLog::operation(const timing::Issued &issued) {
    const Instruction &instruction = *issued.instruction;
    const Packet &packet = program_.packets[static_cast<size_t>(issued.packet)].packet;
    Line line{packets_ - 1, issued.cycle, under_way, issued.packet, encoded_slot(packet, issued.slot), "-", "-"};
    const uint64_t number = first_ + lines_.size();
    const Unit unit = info(instruction.op).unit;
    switch (instruction.op) {
        case Opcode::lw_vi:
        case Opcode::halt_s:
            line.done = issued.cycle;
            break;
        case Opcode::sw_s:
        case Opcode::shw_s:
            line.target = fmt::format("mem[{:08x}]", issued.address);
            line.value = instruction.op == Opcode::sw_s ? fmt::format("{:08x}", state_->x[instruction.d])
                                                        : fmt::format("{:04x}", state_->x[instruction.d] >> 16);
            scalar_stores_.push_back(number);
            break;
        case Opcode::vreg_st:
            line.target = fmt::format("pad{}[{}]", issued.pad, issued.address);
            line.value = lanes_text(state_->v[instruction.d], instruction.imm + 1);
            stores_[issued.pad].push_back(number);
            break;
        case Opcode::scpad_ld:
            line.target = fmt::format("pad{}[{}]", issued.pad, issued.address);
            transfers_[issued.pad].push_back(number);
            break;
        case Opcode::scpad_st:
            line.target = fmt::format("mem[{:08x}]", issued.memory);
            transfers_[issued.pad].push_back(number);
            break;
        default: {
            const Operands named = operands(instruction, state_->psum_in);
            line.target = register_name(named.destination[0]);
            line.value = register_text(*state_, named.destination[0]);
            results_[static_cast<size_t>(source_of(unit, issued.pad))].push_back(number);
        }
    }
    lines_.push_back(std::move(line));
    write_done();
}

void RetireLog::result(Source source, int64_t at) { set_done(results_[static_cast<size_t>(source)], at); }

void RetireLog::access(int64_t, int64_t end, bool store, bool) {
    if (store) {
        set_done(scalar_stores_, end);
    }
}

void RetireLog::pad_starts(uint32_t pad, bool write, bool of_transfer, uint32_t, int32_t, int64_t, int64_t, int64_t lands) {
    if (write && !of_transfer) {
        set_done(stores_[pad], lands);
    }
}

void RetireLog::transfer_ends(uint32_t pad, int32_t, int64_t, int64_t end) { set_done(transfers_[pad], end); }

void RetireLog::set_done(Waiting &queue, int64_t done) {
    lines_[queue.front() - first_].done = done;
    queue.pop_front();
    write_done();
}

void RetireLog::write_done() {
    while (!lines_.empty() && lines_.front().done != under_way) {
        write(lines_.front());
        lines_.pop_front();
        first_++;
    }
}

void RetireLog::write(const Line &line) {
    const PlacedPacket &packet = program_.packets[static_cast<size_t>(line.packet)];
    out_ << fmt::format("{} {} {} {} {:08x} {} {} {}\n", line.order, line.slot, line.issue,
                        line.done == under_way ? "-" : std::to_string(line.done), packet.address, line.target, line.value,
                        assembly_text(packet.packet[static_cast<size_t>(line.slot)]));
}

}  // namespace atalla
