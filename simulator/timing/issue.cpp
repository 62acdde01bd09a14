// The packet that waits: its gates (rules 4 to 7), what issues, and where fetch goes on.
#include <algorithm>

#include <fmt/format.h>

#include "isa/packet_checker.h"
#include "simulator/timing/engine.h"

namespace atalla::timing {

// Passes as many gates as are open; the first that is not names the stall of this cycle (rule 42). Returns whether the packet
// issued.
bool Engine::issue_step() {
    TimedPacket &packet = packets_.packets[static_cast<size_t>(waiting_)];
    switch (gate_) {
        case Gate::LookUp:
            if (now_ < look_up_at_) {
                return hold(Stall::Branch, look_up_at_);
            }
            if (packet.fetched_in != instruction_cache_.state()) {
                if (packet.violation >= 0) [[unlikely]] {
                    refuse("50", packets_.violations[static_cast<size_t>(packet.violation)]);
                }
                instruction_cache_.look_up(packet.first_sector, packet.last_sector, now_);
            }
            gate_ = Gate::Fetch;
            [[fallthrough]];
        case Gate::Fetch:
            if (packet.fetched_in != instruction_cache_.state()) {
                if (const Cycle usable = instruction_cache_.usable_from(packet.first_sector, packet.last_sector);
                    usable > now_) {
                    return hold(Stall::Fetch, usable);
                }
                packet.fetched_in = instruction_cache_.state();
            }
            gate_ = Gate::Registers;
            [[fallthrough]];
        case Gate::Registers:
            if (!registers_free(packet)) {
                return wait_for_registers(packet);
            }
            if (packet.transfers > 0) {
                read_transfers(packet);
            }
            banks_open_at_ = now_ + packet.bank_wait;
            gate_ = Gate::Banks;
            [[fallthrough]];
        case Gate::Banks:
            if (now_ < banks_open_at_) {
                return hold(Stall::Bank, banks_open_at_);
            }
            gate_ = Gate::Structure;
            [[fallthrough]];
        case Gate::Structure:
            if (!structure_accepts(packet)) {
                return wait_for_structure(packet);
            }
    }
    issue();
    return true;
}

bool Engine::hold(Stall cause, Cycle until) {
    stall_ = cause;
    issue_wake_ = until;
    return false;
}

// Rule 5.
bool Engine::registers_free(const TimedPacket &packet) {
    Cycle latest = 0;
    const auto look_at = [&](size_t first, size_t end) {
        for (size_t index = first; index < end; index++) {
            latest = std::max(latest, scoreboard_.free_at(packet.registers[index]));
        }
    };
    // As many for every packet, so that the host need not guess how many there are.
    look_at(0, TimedPacket::few);
    if (packet.register_count > TimedPacket::few) [[unlikely]] {
        look_at(TimedPacket::few, packet.register_count);
    }
    return latest <= now_;
}

// The cause is `data` while a register is busy with a result, `dma` while only transfers hold registers.
bool Engine::wait_for_registers(const TimedPacket &packet) {
    Cycle next_free = never;
    bool busy_with_result = false;
    for (int index = 0; index < packet.register_count; index++) {
        const RegisterId reg = packet.registers[static_cast<size_t>(index)];
        if (const Cycle free_at = scoreboard_.free_at(reg); free_at > now_) {
            busy_with_result |= !dma_.holds(reg, now_);
            next_free = std::min(next_free, free_at);
        }
    }
    return hold(busy_with_result ? Stall::Data : Stall::Dma, next_free);
}

// The registers of the waiting packet do not change any more: what its transfers are is known.
void Engine::read_transfers(const TimedPacket &packet) {
    size_t count = 0;
    for (const TimedOperation &operation : packet.on_dma()) {
        const Instruction &instruction = packet.instruction(operation);
        const DmaTile tile = dma_tile<MachineModel::Hardware>(state_, instruction);
        if (tile.rows > machine_.sdma.max_rows || tile.columns > machine_.sdma.max_cols) [[unlikely]] {
            refuse("50", fmt::format("{} moves {} x {} elements, but a tile has at most {} x {}", info(instruction.op).mnemonic,
                                     tile.rows, tile.columns, machine_.sdma.max_rows, machine_.sdma.max_cols));
        }
        transfers_[count++] = {tile, operation.is_write != 0, operation.destination, waiting_, issued_};
    }
    if (count > 1) {
        // The pads of transfers are values: this part of the packet contract waits until here (rule 50).
        const Packet &slots = program_.packets[static_cast<size_t>(waiting_)].packet;
        PacketPads pads = unknown_pads;
        size_t transfer = 0;
        for (size_t slot = 0; slot < slots.size(); slot++) {
            if (info(slots[slot].op).unit == Unit::Sdma) {
                pads[slot] = static_cast<int8_t>(transfers_[transfer++].tile.pad);
            }
        }
        if (const auto violation = check_packet(slots, machine_, pads)) [[unlikely]] {
            refuse("50", *violation);
        }
    }
}

// Rule 7.
bool Engine::structure_accepts(const TimedPacket &packet) {
    bool accepts = units_.blocked(packet.used_units, now_) == 0;
    if (packet.rows > 0) {
        accepts &= array_.row_blocked_until(now_) == 0;
    }
    for (const TimedOperation &operation : packet.on_pads()) {
        accepts &= pads_[operation.pad].accepts(operation.is_write);
    }
    for (size_t transfer = 0; transfer < packet.transfers; transfer++) {
        accepts &= dma_.blocked_until(transfers_[transfer].tile.pad, now_) == 0;
    }
    return accepts;
}

// In the order of the causes of rule 42.
bool Engine::wait_for_structure(const TimedPacket &packet) {
    if (const uint32_t blocked = units_.blocked(packet.used_units, now_); blocked != 0) {
        return hold(Stall::Unit, units_.blocked_until(blocked, now_));
    }
    if (packet.rows > 0 && array_.row_blocked_until(now_) > 0) {
        return hold(Stall::Array, array_.row_blocked_until(now_));
    }
    for (const TimedOperation &operation : packet.on_pads()) {
        if (!pads_[operation.pad].accepts(operation.is_write)) {
            return hold(Stall::Vlsu, never);
        }
    }
    Cycle sdma = 0;
    for (size_t transfer = 0; transfer < packet.transfers; transfer++) {
        sdma = std::max(sdma, dma_.blocked_until(transfers_[transfer].tile.pad, now_));
    }
    return hold(Stall::Sdma, sdma);
}

// All slots issue; values are computed here and now, which rules 51 to 53 make right.
void Engine::issue() {
    TimedPacket &packet = packets_.packets[static_cast<size_t>(waiting_)];
    // Addresses are those before the packet: a branch or a scalar operation of its own may change a base register.
    std::array<uint32_t, 4> addresses;
    check_accesses(packet, addresses);
    if (now_ >= rows_due_ || packet.loads_weights) {
        finish_rows();
    }
    const PacketOutcome outcome = code_.execute(state_, packet.values);
    if (packet.rows > 0) {
        keep_rows();
    }
    if (observer_ != nullptr) [[unlikely]] {
        finish_rows();
        tell_issue(packet, addresses);
    }
    start_operations(packet, addresses);
    packet_issues_[static_cast<size_t>(waiting_)]++;
    issued_++;
    go_on(packet, outcome);
}

void Engine::finish_rows() {
    code_.finish_rows(state_);
    rows_due_ = never;
}

// The rows that wait are those of the array which no packet can have the result of yet.
void Engine::keep_rows() {
    if (state_.rows.count == WaitingRows::capacity) {
        finish_rows();
    } else if (rows_due_ == never) {
        rows_due_ = array_.result_of_row(now_);
    }
}

// Operations in slot order.
void Engine::tell_issue(const TimedPacket &packet, const std::array<uint32_t, 4> &addresses) {
    observer_->issues(waiting_, now_, state_);
    std::array<Issued, 4> told;
    const Transfer *transfer = transfers_.data();
    for (const TimedOperation &operation : packet.all()) {
        Issued &issued = told[operation.slot];
        issued = {waiting_, operation.slot, &packet.instruction(operation), now_, 0, 0, 0, 0};
        switch (operation.kind) {
            case OperationKind::Unit:
                issued.busy = operation.interval;
                break;
            case OperationKind::Row:
            case OperationKind::WeightLoad:
                issued.busy = 1;
                break;
            case OperationKind::ScalarAccess:
                issued.address = addresses[operation.slot];
                break;
            case OperationKind::VectorAccess:
                issued.address = addresses[operation.slot];
                issued.pad = operation.pad;
                break;
            case OperationKind::Transfer:
                issued.pad = transfer->tile.pad;
                issued.address = transfer->tile.pad_row;
                issued.memory = transfer->tile.address;
                transfer++;
                break;
            case OperationKind::Halt:
                break;
        }
    }
    for (size_t slot = 0; slot < packet.values.count; slot++) {
        observer_->operation(told[slot]);
    }
}

// Rules 52 and 53. Gives the byte of a scalar access and the row of a vector access, by slot.
void Engine::check_accesses(const TimedPacket &packet, std::array<uint32_t, 4> &addresses) const {
    const std::span<const Transfer> own(transfers_.data(), packet.transfers);
    if (packet.loads_weights) {
        array_.check_weight_load(now_);
    }
    for (const TimedOperation &operation : packet.on_pads()) {
        const Instruction &instruction = packet.instruction(operation);
        addresses[operation.slot] = vreg_row(state_, instruction);
        hazards_.check_vector_access(instruction, addresses[operation.slot], own, now_);
    }
    for (const TimedOperation &operation : packet.on_data_cache()) {
        const Instruction &instruction = packet.instruction(operation);
        addresses[operation.slot] = state_.x[instruction.a] + static_cast<uint32_t>(instruction.imm);
        hazards_.check_scalar_access(instruction, addresses[operation.slot], own, now_);
    }
    for (size_t transfer = 0; transfer < packet.transfers; transfer++) {
        hazards_.check_transfer(own, transfer, now_);
    }
}

void Engine::start_operations(const TimedPacket &packet, const std::array<uint32_t, 4> &addresses) {
    const TimedOperation *operation = packet.operations.data();
    for (int left = packet.units; left > 0; left--, operation++) {
        scoreboard_.reserve(operation->destination);
        writeback_.push(operation->unit, now_ + 1 + operation->latency, operation->destination, now_);
        if (operation->interval > 1) {
            units_.set_ready(operation->unit, now_ + operation->interval);
        }
    }
    for (int left = packet.rows; left > 0; left--, operation++) {
        scoreboard_.reserve(operation->destination);
        array_.issue_row(now_, operation->destination);
    }
    for (int left = packet.vector_accesses; left > 0; left--, operation++) {
        if (!operation->is_write) {
            scoreboard_.reserve(operation->destination);
        }
        pads_[operation->pad].issue(operation->is_write, addresses[operation->slot], operation->destination, waiting_, issued_,
                                    now_);
    }
    for (int left = packet.scalar_accesses; left > 0; left--, operation++) {
        if (!operation->is_write) {
            scoreboard_.reserve(operation->destination);
        }
        data_cache_.issue(addresses[operation->slot], operation->is_write, operation->destination, now_);
    }
    for (size_t transfer = 0; transfer < packet.transfers; transfer++) {
        dma_.start(transfers_[transfer], now_);
    }
}

// Where fetch goes on, and when (rules 2, 40, 41).
void Engine::go_on(TimedPacket &packet, const PacketOutcome &outcome) {
    if (outcome.halted) {
        halted_ = true;
        halt_cycle_ = now_;
        return;
    }
    look_up_at_ = now_ + 1;
    if (packet.control != Control::None) {
        const uint32_t pc = packet.values.address;
        if (branch_targets_.predict(pc, packet.control == Control::Jump, int64_t{pc} + packet_bytes) != outcome.next_pc) {
            look_up_at_ += machine_.branch.penalty;
            mispredicts_++;
        }
        if (outcome.taken) {
            branch_targets_.taken(pc, outcome.next_pc);
        }
    }
    state_.pc = outcome.next_pc;
    const bool steps = packet.followed && outcome.next_pc == int64_t{packet.values.address} + packet_bytes;
    waiting_ = steps ? waiting_ + 1 : jump(packet, outcome.next_pc);
    gate_ = Gate::LookUp;
    issue_wake_ = now_ + 1;
    if (issued_ == options_.step_limit) [[unlikely]] {
        refuse_step_limit(options_.step_limit);
    }
}

int32_t Engine::jump(TimedPacket &from, int64_t address) const {
    if (from.jump_index < 0 || packets_.packets[static_cast<size_t>(from.jump_index)].values.address != address) {
        from.jump_index = packet_at(address);
    }
    return from.jump_index;
}

// The index of the packet at an address.
int32_t Engine::packet_at(int64_t address) const {
    const int32_t found = packets_.find(address);
    if (found < 0) [[unlikely]] {
        refuse_missing_packet(address);
    }
    return found;
}

}  // namespace atalla::timing
