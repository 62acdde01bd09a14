#include "simulator/functional.h"

#include <algorithm>

namespace atalla {

namespace {

// A table with an entry for every fourth byte is used while it stays this small for each packet.
constexpr uint64_t table_bytes_per_packet = 64;

// A gemm.vv that has a result.
bool is_row(const Instruction &slot) { return slot.op == Opcode::gemm_vv && slot.d != 0; }

// Sets rows_ahead of the first packet: the rows of packets that are sure to follow, until such a row is written to or the
// weights are.
void look_ahead(std::span<DecodedPacket> packets) {
    constexpr size_t farthest = 16;  // packets
    auto &ahead = packets[0].rows_ahead;
    size_t rows = 0;  // that of the first packet included
    std::array<bool, 256> written{};
    written[0] = true;  // it stands for none
    for (size_t index = 0; index < std::min(packets.size(), farthest); index++) {
        const auto slots = std::span(packets[index].slot).first(packets[index].count);
        const bool follows = index == 0 || packets[index].address == packets[index - 1].address + packet_bytes;
        if (!follows || std::ranges::count_if(slots, is_row) > 1) {
            return;
        }
        for (const Instruction &slot : slots) {
            if (is_row(slot)) {
                if (rows > 0 && (written[slot.a] || rows > ahead.size())) {
                    return;
                }
                if (rows > 0) {
                    ahead[rows - 1] = slot.a;
                }
                rows++;
            }
            if (rows > 0 && slot.op == Opcode::lw_vi) {
                return;
            }
            const Operands named = operands(slot, true);
            for (const Register reg : named.writes()) {
                written[reg.number] |= rows > 0 && reg.cls == RegisterClass::Vector;
            }
        }
        const auto ends = [](const Instruction &slot) { return is_control(slot.op) || slot.op == Opcode::halt_s; };
        if (rows == 0 || std::ranges::any_of(slots, ends)) {
            return;
        }
    }
}

}  // namespace

FunctionalProgram::FunctionalProgram(const Program &program) : program_(program) {
    packets_.reserve(program.packets.size());
    for (const PlacedPacket &packet : program.packets) {
        packets_.push_back(decode_packet(packet));
    }
    for (size_t index = 0; index < packets_.size(); index++) {
        look_ahead(std::span(packets_).subspan(index));
    }

    const bool aligned = std::ranges::all_of(packets_, [](const DecodedPacket &packet) { return packet.address % 4 == 0; });
    if (packets_.empty() || !aligned || packets_.back().address > table_bytes_per_packet * packets_.size()) {
        return;
    }
    by_address_.assign(packets_.back().address / 4 + 1, -1);
    for (size_t index = 0; index < packets_.size(); index++) {
        by_address_[packets_[index].address / 4] = static_cast<int32_t>(index);
    }
}

int64_t FunctionalProgram::find(int64_t pc) const {
    if (!by_address_.empty()) {
        const bool inside = pc >= 0 && pc % 4 == 0 && pc / 4 < static_cast<int64_t>(by_address_.size());
        return inside ? by_address_[static_cast<size_t>(pc / 4)] : -1;
    }
    const auto found = std::ranges::lower_bound(packets_, pc, {}, [](const DecodedPacket &p) { return int64_t{p.address}; });
    return found != packets_.end() && found->address == pc ? found - packets_.begin() : -1;
}

RunResult FunctionalProgram::run(MachineState &state, const RunOptions &options) const {
    RunResult result;
    std::vector<uint64_t> issues(packets_.size());
    state.pc = 0;
    state.ahead.count = state.ahead.taken = 0;  // of a run that a limit or a refusal ended
    try {
        const uint64_t limit = std::min(options.step_limit, options.cycle_limit);  // a packet is a cycle
        uint64_t left = limit;
        for (PacketOutcome out; !out.halted; state.pc = out.next_pc) {
            const int64_t at = find(state.pc);
            if (at < 0) {
                refuse_missing_packet(state.pc);
            }
            if (left == 0) {
                if (limit == options.step_limit) {
                    refuse_step_limit(limit);
                }
                refuse_cycle_limit(limit);
            }
            const auto packets = std::span(packets_).subspan(static_cast<size_t>(at));
            out = functional_code.execute_straight(state, packets, &issues[static_cast<size_t>(at)], left);
        }
        result.ok = true;
    } catch (const Refusal &refusal) {
        result.rule = refusal.rule;
        result.error = refusal_message(refusal, state.pc, program_);
    }
    count(issues, result);
    result.counters.pad_load_bytes = state.traffic.pad_load_bytes;
    result.counters.pad_store_bytes = state.traffic.pad_store_bytes;
    result.counters.dma_load_bytes = state.traffic.dma_load_bytes;
    result.counters.dma_store_bytes = state.traffic.dma_store_bytes;
    if (options.per_packet) {
        result.packet_stalls.assign(issues.size(), {});
        result.packet_issues = std::move(issues);
    }
    return result;
}

// What a packet counts for is known before the run; only how often it ran is not.
void FunctionalProgram::count(const std::vector<uint64_t> &issues, RunResult &result) const {
    Counters &counters = result.counters;
    for (size_t index = 0; index < packets_.size(); index++) {
        const DecodedPacket &packet = packets_[index];
        counters.packets += issues[index];
        counters.operations += issues[index] * packet.count;
        for (int slot = 0; slot < packet.count; slot++) {
            const Opcode op = packet.slot[slot].op;
            counters.unit_operations[static_cast<size_t>(info(op).unit)] += issues[index];
            if (op == Opcode::gemm_vv) {
                counters.array_rows += issues[index];
            }
            if (op == Opcode::lw_vi) {
                counters.weight_loads += issues[index];
            }
        }
    }
    counters.cycles = counters.packets;
}

void preset_registers(MachineState &state, uint32_t highest_key) {
    constexpr int stack_pointer = 2, frame_pointer = 33;
    constexpr uint32_t page = 0x1000;
    const uint32_t stack = ((highest_key + page) & ~(page - 1)) + page;
    state.x[stack_pointer] = stack;
    state.x[frame_pointer] = stack + page;
}

}  // namespace atalla
