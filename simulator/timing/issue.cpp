// The packet that waits: its gates (rules 4 to 7), what issues, and where fetch goes on.
#include <algorithm>

#include <fmt/format.h>

#include "isa/packet_checker.h"
#include "simulator/timing/engine.h"

namespace atalla::timing {

// Passes as many gates as are open; the first that is not names the stall of this cycle (rule 42). Returns whether the packet
// issued.
bool Engine::issue_step() {
    const TimedPacket &packet = packets_.packets[static_cast<size_t>(waiting_)];
    switch (gate_) {
        case Gate::LookUp:
            if (now_ < look_up_at_) {
                return hold(Stall::Branch, look_up_at_);
            }
            if (packet.violation >= 0) [[unlikely]] {
                refuse("50", packets_.violations[static_cast<size_t>(packet.violation)]);
            }
            instruction_cache_.look_up(packet.first_sector, packet.last_sector, now_);
            gate_ = Gate::Fetch;
            [[fallthrough]];
        case Gate::Fetch:
            if (const Cycle usable = instruction_cache_.usable_from(packet.first_sector, packet.last_sector); usable > now_) {
                return hold(Stall::Fetch, usable);
            }
            gate_ = Gate::Registers;
            [[fallthrough]];
        case Gate::Registers:
            if (!registers_free()) {
                return false;
            }
            read_transfers();
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
            if (!structure_accepts()) {
                return false;
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

// Rule 5. The cause is `data` while a register is busy with a result, `dma` while only transfers hold registers.
bool Engine::registers_free() {
    const TimedPacket &packet = packets_.packets[static_cast<size_t>(waiting_)];
    Cycle next_free = never;
    bool busy = false, busy_with_result = false;
    for (int index = 0; index < packet.register_count; index++) {
        const RegisterId reg = packet.registers[static_cast<size_t>(index)];
        const Cycle free_at = scoreboard_.free_at(reg);
        if (free_at > now_) {
            busy = true;
            busy_with_result |= !scoreboard_.held_by_transfer(reg);
            next_free = std::min(next_free, free_at);
        }
    }
    return !busy || hold(busy_with_result ? Stall::Data : Stall::Dma, next_free);
}

// The registers of the waiting packet do not change any more: what its transfers are is known.
void Engine::read_transfers() {
    const TimedPacket &packet = packets_.packets[static_cast<size_t>(waiting_)];
    transfer_count_ = 0;
    if (packet.transfers == 0) {
        return;
    }
    for (int slot = 0; slot < packet.operation_count; slot++) {
        const TimedOperation &operation = packet.operations[static_cast<size_t>(slot)];
        if (operation.kind == OperationKind::Transfer) {
            const DmaTile tile = dma_tile<MachineModel::Hardware>(state_, operation.instruction);
            if (tile.rows > machine_.sdma.max_rows || tile.columns > machine_.sdma.max_cols) [[unlikely]] {
                refuse("50", fmt::format("{} moves {} x {} elements, but a tile has at most {} x {}",
                                         info(operation.instruction.op).mnemonic, tile.rows, tile.columns,
                                         machine_.sdma.max_rows, machine_.sdma.max_cols));
            }
            transfers_[transfer_count_++] = {tile, operation.is_load, operation.destination, waiting_, issued_};
        }
    }
    if (transfer_count_ > 1) {
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

// Rule 7, in the order of the causes of rule 42.
bool Engine::structure_accepts() {
    const TimedPacket &packet = packets_.packets[static_cast<size_t>(waiting_)];
    Cycle unit = 0, array = 0, vlsu = 0, sdma = 0;
    size_t transfer = 0;
    for (int slot = 0; slot < packet.operation_count; slot++) {
        const TimedOperation &operation = packet.operations[static_cast<size_t>(slot)];
        switch (operation.kind) {
            case OperationKind::Unit:
            case OperationKind::ScalarAccess:
                unit = std::max(unit, units_.blocked_until(operation.unit, now_));
                break;
            case OperationKind::Row:
                array = array_.row_blocked_until(now_);
                break;
            case OperationKind::VectorAccess: {
                const Pad &pad = pads_[operation.instruction.aux];
                vlsu = std::max(vlsu, (operation.is_write ? pad.accepts_store() : pad.accepts_load()) ? 0 : never);
                break;
            }
            case OperationKind::Transfer:
                sdma = std::max(sdma, dma_.blocked_until(transfers_[transfer++].tile.pad, now_));
                break;
            case OperationKind::WeightLoad:
            case OperationKind::Halt:
                break;
        }
    }
    if (unit > 0) {
        return hold(Stall::Unit, unit);
    }
    if (array > 0) {
        return hold(Stall::Array, array);
    }
    if (vlsu > 0) {
        return hold(Stall::Vlsu, vlsu);
    }
    return sdma == 0 || hold(Stall::Sdma, sdma);
}

// All slots issue; values are computed here and now, which rules 51 to 53 make right.
void Engine::issue() {
    TimedPacket &packet = packets_.packets[static_cast<size_t>(waiting_)];
    // Addresses are those before the packet: a branch or a scalar operation of its own may change a base register.
    std::array<uint32_t, 4> addresses;
    for (int slot = 0; slot < packet.operation_count; slot++) {
        addresses[static_cast<size_t>(slot)] = check_operation(packet.operations[static_cast<size_t>(slot)]);
    }
    for (size_t transfer = 0; transfer < transfer_count_; transfer++) {
        hazards_.check_transfer({transfers_.data(), transfer_count_}, transfer, now_);
    }
    const PacketOutcome outcome = execute_packet<MachineModel::Hardware>(state_, packet.values);
    if (observer_ != nullptr) [[unlikely]] {
        tell_issue(packet, addresses);
    }
    const Transfer *transfer = transfers_.data();
    for (int slot = 0; slot < packet.operation_count; slot++) {
        issue_operation(packet.operations[static_cast<size_t>(slot)], addresses[static_cast<size_t>(slot)], transfer);
    }
    packet_issues_[static_cast<size_t>(waiting_)]++;
    issued_++;
    go_on(outcome);
}

void Engine::tell_issue(const TimedPacket &packet, const std::array<uint32_t, 4> &addresses) {
    observer_->issues(waiting_, now_, state_);
    const Transfer *transfer = transfers_.data();
    for (int slot = 0; slot < packet.operation_count; slot++) {
        const TimedOperation &operation = packet.operations[static_cast<size_t>(slot)];
        Issued issued{waiting_, slot, &operation.instruction, now_, 0, addresses[static_cast<size_t>(slot)], 0, 0};
        switch (operation.kind) {
            case OperationKind::Unit:
                issued.busy = operation.interval;
                break;
            case OperationKind::Row:
            case OperationKind::WeightLoad:
                issued.busy = 1;
                break;
            case OperationKind::VectorAccess:
                issued.pad = operation.instruction.aux;
                break;
            case OperationKind::Transfer:
                issued.pad = transfer->tile.pad;
                issued.address = transfer->tile.pad_row;
                issued.memory = transfer->tile.address;
                transfer++;
                break;
            case OperationKind::ScalarAccess:
            case OperationKind::Halt:
                break;
        }
        observer_->operation(issued);
    }
}

// Rules 52 and 53. Returns the byte of a scalar access, or the row of a vector access.
uint32_t Engine::check_operation(const TimedOperation &operation) const {
    const std::span<const Transfer> own(transfers_.data(), transfer_count_);
    const Instruction &instruction = operation.instruction;
    uint32_t address = 0;
    switch (operation.kind) {
        case OperationKind::WeightLoad:
            array_.check_weight_load(now_);
            break;
        case OperationKind::ScalarAccess:
            address = state_.x[instruction.a] + static_cast<uint32_t>(instruction.imm);
            hazards_.check_scalar_access(instruction, address, own, now_);
            break;
        case OperationKind::VectorAccess:
            address = vreg_row(state_, instruction);
            hazards_.check_vector_access(instruction, address, own, now_);
            break;
        default:
            break;
    }
    return address;
}

// `address` is the byte of a scalar access or the row of a vector access; `transfer` advances over those of the packet.
void Engine::issue_operation(const TimedOperation &operation, uint32_t address, const Transfer *&transfer) {
    switch (operation.kind) {
        case OperationKind::Unit:
            scoreboard_.reserve(operation.destination);
            writeback_.push(operation.unit, now_ + 1 + operation.latency, operation.destination);
            units_.set_ready(operation.unit, now_ + operation.interval);
            break;
        case OperationKind::ScalarAccess:
            if (!operation.is_write) {
                scoreboard_.reserve(operation.destination);
            }
            data_cache_.issue(address, operation.is_write, operation.destination, now_);
            break;
        case OperationKind::Row:
            scoreboard_.reserve(operation.destination);
            array_.issue_row(now_, operation.destination);
            break;
        case OperationKind::VectorAccess:
            if (!operation.is_write) {
                scoreboard_.reserve(operation.destination);
            }
            pads_[operation.instruction.aux].issue(operation.is_write, address, operation.destination, waiting_, issued_, now_);
            break;
        case OperationKind::Transfer:
            dma_.start(*transfer++, now_);
            break;
        case OperationKind::WeightLoad:
        case OperationKind::Halt:
            break;
    }
}

// Where fetch goes on, and when (rules 2, 40, 41).
void Engine::go_on(const PacketOutcome &outcome) {
    if (outcome.halted) {
        halted_ = true;
        halt_cycle_ = now_;
        return;
    }
    const TimedPacket &packet = packets_.packets[static_cast<size_t>(waiting_)];
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
    waiting_ = packet_at(outcome.next_pc);
    gate_ = Gate::LookUp;
    if (issued_ == options_.step_limit) [[unlikely]] {
        refuse_step_limit(options_.step_limit);
    }
}

// The index of the packet at an address, which becomes the program counter.
int32_t Engine::packet_at(int64_t address) {
    state_.pc = address;
    const auto next = static_cast<size_t>(waiting_) + 1;
    if (next < packets_.packets.size() && packets_.packets[next].values.address == address) {
        return static_cast<int32_t>(next);
    }
    TimedPacket *from = packets_.packets.empty() ? nullptr : &packets_.packets[static_cast<size_t>(waiting_)];
    if (from != nullptr && from->jump_target == address) {
        return from->jump_index;
    }
    const int32_t found = packets_.find(address);
    if (found < 0) [[unlikely]] {
        refuse_missing_packet(address);
    }
    from->jump_target = address;
    from->jump_index = found;
    return found;
}

}  // namespace atalla::timing
