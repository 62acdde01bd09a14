// The clock, and what is counted.
#include "simulator/reference/reference.h"

#include <numeric>

#include <fmt/format.h>

#include "isa/error.h"

namespace atalla {

RunResult run_reference(const Machine &machine, const Program &program, MachineState &state, const RunOptions &options) {
    check_machine(machine);
    if (!machine.timed()) {
        throw Error(fmt::format("machine '{}' has no timing: its model is functional", machine.name));
    }
    return reference::Model(machine, program, state, options).run();
}

namespace reference {

Model::Model(const Machine &machine, const Program &program, MachineState &state, const RunOptions &options)
    : m(machine),
      program(program),
      state(state),
      options(options),
      issues(program.packets.size()),
      stalls(program.packets.size()),
      dcache(static_cast<size_t>(m.dcache.bytes / (m.dcache.line * m.dcache.ways))),
      banks(static_cast<size_t>(m.dram.banks)) {
    for (size_t index = 0; index < program.packets.size(); index++) index_of[program.packets[index].address] = index;
    for (Set &set : dcache) {
        set.ways.resize(static_cast<size_t>(m.dcache.ways));
        set.bits.assign(static_cast<size_t>(m.dcache.ways), false);
    }
}

RunResult Model::run() {
    try {
        go_to(0);
        run_to_the_end();
        out.ok = true;
    } catch (const PacketRefusal &other) {
        out.rule = other.refusal.rule;
        out.error = refusal_message(other.refusal, program.packets[other.packet].address, program);
    } catch (const Refusal &refusal) {
        out.rule = refusal.rule;
        out.error = refusal_message(refusal, state.pc, program);
    }
    count();
    return out;
}

void Model::run_to_the_end() {
    for (now = 0; !halted || !quiet(); now++) {
        arrivals();
        write_back();
        if (!halted) {
            step_issue();
        }
        for (int pad = 0; pad < 4; pad++) {
            step_pad(pad);
        }
        step_bus();
        step_dram();
    }
    out.counters.stalls[static_cast<size_t>(Stall::Drain)] = static_cast<uint64_t>(last - halt_cycle);
}

// Nothing is on its way that counts for the last cycle (rule 41).
bool Model::quiet() const {
    for (const auto &queue : results)
        if (!queue.empty()) return false;
    for (int pad = 0; pad < 4; pad++) {
        if (!pads[pad].vlsu.empty() || !pads[pad].reads.empty() || !pads[pad].writes.empty()) return false;
        if (engines[pad].busy && engines[pad].end > now) return false;
    }
    // A beat that nobody waits for still counts as served.
    return !access_pending && outstanding == 0 && instruction_bus.requests.empty() && data_bus.requests.empty();
}

void Model::count() {
    Counters &counters = out.counters;
    for (size_t index = 0; index < program.packets.size(); index++) {
        for (const Instruction &slot : program.packets[index].packet) {
            if (slot.is_nop()) continue;
            counters.operations += issues[index];
            counters.unit_operations[static_cast<size_t>(info(slot.op).unit)] += issues[index];
            if (slot.op == Opcode::lw_vi) counters.weight_loads += issues[index];
        }
        for (size_t cause = 0; cause < stall_causes; cause++) counters.stalls[cause] += stalls[index][cause];
    }
    counters.cycles = std::accumulate(counters.stalls.begin(), counters.stalls.end(), counters.packets);
    counters.pad_load_bytes = state.traffic.pad_load_bytes;
    counters.pad_store_bytes = state.traffic.pad_store_bytes;
    counters.dma_load_bytes = state.traffic.dma_load_bytes;
    counters.dma_store_bytes = state.traffic.dma_store_bytes;
    if (options.per_packet) {
        out.packet_issues = issues;
        out.packet_stalls = stalls;
    }
}

}  // namespace reference
}  // namespace atalla
