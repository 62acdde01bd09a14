#include "simulator/functional.h"

#include <algorithm>

namespace atalla {

namespace {

// A table with an entry for every fourth byte is used while it stays this small for each packet.
constexpr uint64_t table_bytes_per_packet = 64;

}  // namespace

FunctionalProgram::FunctionalProgram(const Program &program) : program_(program) {
    packets_.reserve(program.packets.size());
    for (const PlacedPacket &packet : program.packets) {
        packets_.push_back(decode_packet(packet));
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
    int64_t at = -1;
    state.pc = 0;
    try {
        uint64_t steps = 0;
        const uint64_t limit = std::min(options.step_limit, options.cycle_limit);   // a packet is a cycle
        for (PacketOutcome out; !out.halted; state.pc = out.next_pc) {
            // Mostly the next packet in memory; otherwise looked up.
            at++;
            if (at >= static_cast<int64_t>(packets_.size()) || packets_[at].address != state.pc) {
                at = find(state.pc);
            }
            if (at < 0) {
                refuse_missing_packet(state.pc);
            }
            if (steps++ == limit) {
                if (limit == options.step_limit) {
                    refuse_step_limit(limit);
                }
                refuse_cycle_limit(limit);
            }
            out = functional_code.execute(state, packets_[at]);
            issues[at]++;
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
