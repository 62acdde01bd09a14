#include "simulator/timing/engine.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "isa/error.h"

namespace atalla {

RunResult run_timed(const Machine &machine, const Program &program, MachineState &state, const RunOptions &options,
                    Advance advance) {
    check_machine(machine);
    timing::TimedProgram prepared(machine, program);
    return run_timed(machine, program, prepared, state, options, advance);
}

RunResult run_timed(const Machine &machine, const Program &program, timing::TimedProgram &prepared, MachineState &state,
                    const RunOptions &options, Advance advance) {
    if (!machine.timed()) {
        throw Error(fmt::format("machine '{}' has no timing: its model is functional", machine.name));
    }
    return timing::Engine(machine, program, prepared, state, options).run(advance);
}

namespace timing {

Engine::Engine(const Machine &machine, const Program &program, TimedProgram &prepared, MachineState &state,
               const RunOptions &options)
    : machine_(machine),
      program_(program),
      state_(state),
      options_(options),
      code_(options.lanes == LaneValues::Computed ? hardware_code : scalar_code),
      observer_(options.observer),
      packets_(prepared),
      writeback_(machine, scoreboard_, observer_),
      units_(writeback_),
      bus_(machine, wakes_),
      dram_(machine, wakes_, observer_),
      instruction_cache_(machine, bus_),
      branch_targets_(machine),
      data_cache_(machine, bus_, units_, writeback_, observer_),
      array_(machine, writeback_),
      dma_(machine, bus_, scoreboard_, wakes_, observer_),
      hazards_(program, dma_),
      pads_{Pad(0, machine, dma_, writeback_, hazards_, wakes_, observer_),
            Pad(1, machine, dma_, writeback_, hazards_, wakes_, observer_),
            Pad(2, machine, dma_, writeback_, hazards_, wakes_, observer_),
            Pad(3, machine, dma_, writeback_, hazards_, wakes_, observer_)},
      packet_issues_(program.packets.size()),
      packet_stalls_(program.packets.size()) {
    for (TimedPacket &packet : packets_.packets) {
        packet.fetched_in = 0;
    }
}

RunResult Engine::run(Advance advance) {
    RunResult result;
    const auto refused = [&](const Refusal &refusal, int64_t pc) {
        result.rule = refusal.rule;
        result.error = refusal_message(refusal, pc, program_);
    };
    try {
        state_.pc = 0;
        waiting_ = packet_at(0);
        advance == Advance::Skip ? run_to_end<Advance::Skip>() : run_to_end<Advance::EveryCycle>();
        result.ok = true;
    } catch (const Refusal &refusal) {
        refused(refusal, state_.pc);
    } catch (const PacketRefusal &other) {
        refused(other.refusal, program_.packets[static_cast<size_t>(other.packet)].address);
    }
    finish_rows();
    count(result);
    return result;
}

template <Advance advance>
void Engine::run_to_end() {
    run_to_halt<advance>();
    run_to_quiet<advance>();
}

// The order of a cycle: DRAM data arrive, results are written back, a packet issues, pads, bus, DRAM. Flattened: the units
// are called in every cycle, and most calls do little. What is marked noinline happens rarely: without it the loop fits what
// the host keeps of decoded instructions.
template <Advance advance>
[[gnu::flatten]] void Engine::run_to_halt() {
    for (;;) {
        if (wakes_.completion <= now_) {
            complete_beat();
        }
        if (advance == Advance::EveryCycle || writeback_.due(now_)) {
            writeback_.step(now_);
            issue_wake_ = now_;
        }
        // While nothing has changed that the packet waits for, it waits for the same reason.
        const bool issued = (advance == Advance::EveryCycle || issue_wake_ <= now_) && issue_step();
        if (!issued) {
            count_stall(now_, 1);
        }
        step_memory<advance>();
        if (halted_) {
            return;
        }
        if (issued) {
            now_++;
        } else {
            const Cycle next = next_cycle<advance>(next_event());
            count_stall(now_ + 1, next - now_ - 1);
            now_ = next;
        }
        if (static_cast<uint64_t>(now_) >= options_.cycle_limit) {
            refuse_cycle_limit(options_.cycle_limit);
        }
    }
}

// The earliest cycle in which something happens while a packet waits.
Cycle Engine::next_event() const {
    const Cycle event = std::min(std::min(issue_wake_, wakes_.next()), writeback_.next_due(now_));
    if (event == never) [[unlikely]] {
        throw Error(
            fmt::format("the simulator is stuck in cycle {}: the packet at 0x{:08X} waits for nothing", now_, state_.pc));
    }
    return event;
}

void Engine::count_stall(Cycle from, Cycle cycles) {
    if (observer_ != nullptr && cycles > 0) [[unlikely]] {
        observer_->waits(waiting_, stall_, from, from + cycles);
    }
    packet_stalls_[static_cast<size_t>(waiting_)][static_cast<size_t>(stall_)] += static_cast<uint64_t>(cycles);
}

// What was issued comes to its end (rule 41).
template <Advance advance>
void Engine::run_to_quiet() {
    const auto next = [this] { return std::min(wakes_.next(), writeback_.next_due(now_)); };
    for (Cycle event = next(); event != never; event = next()) {
        now_ = next_cycle<advance>(event);
        complete_beat();
        writeback_.step(now_);
        step_memory<advance>();
    }
    Cycle last = std::max({halt_cycle_, writeback_.last_write() + 1, dma_.last_end(), data_cache_.last_store()});
    for (const Pad &pad : pads_) {
        last = std::max(last, pad.last_landing());
    }
    drain_ = static_cast<uint64_t>(last - halt_cycle_);
    if (observer_ != nullptr) [[unlikely]] {
        observer_->halted(halt_cycle_, last);
    }
}

void Engine::complete_beat() {
    if (!dram_.completes(now_)) {
        return;
    }
    const Beat beat = dram_.take_completed();
    if (beat.master() >= first_pad_master) {
        if (dma_.arrive(static_cast<uint32_t>(beat.master() - first_pad_master), beat.row(), now_)) {
            issue_wake_ = now_;
        }
        return;
    }
    issue_wake_ = now_;
    if (beat.master() == instruction_master) {
        instruction_cache_.arrive(beat.address(), now_);
    } else {
        data_cache_.arrive(beat.write(), now_);
    }
}

template <Advance advance>
void Engine::step_memory() {
    constexpr bool always = advance == Advance::EveryCycle;
    // Each pad by itself, so that the host learns when each of them has something to do.
    for (size_t pad = 0; pad < pads_.size(); pad++) {
        if ((always || wakes_.pad[pad] <= now_) && pads_[pad].step(now_)) {
            issue_wake_ = std::min(issue_wake_, now_ + 1);
        }
    }
    if (always || wakes_.bus <= now_) {
        bus_.step(now_, [this](int master) { dram_.launch(now_, launch(master)); });
    }
    if (always || wakes_.dram <= now_) {
        dram_.step(now_);
    }
}

Beat Engine::launch(int master) {
    if (master >= first_pad_master) {
        return dma_.launch(static_cast<uint32_t>(master - first_pad_master), now_);
    }
    return master == instruction_master ? instruction_cache_.launch(now_) : data_cache_.launch(now_);
}

template <Advance advance>
Cycle Engine::next_cycle(Cycle next_event) const {
    return advance == Advance::EveryCycle ? now_ + 1 : std::max(next_event, now_ + 1);
}

void Engine::count(RunResult &result) const {
    Counters &counters = result.counters;
    counters.packets = issued_;
    for (const StallCycles &stalls : packet_stalls_) {
        for (size_t cause = 0; cause < stalls.size(); cause++) {
            counters.stalls[cause] += stalls[cause];
        }
    }
    counters.stalls[static_cast<size_t>(Stall::Drain)] = drain_;
    counters.cycles = std::accumulate(counters.stalls.begin(), counters.stalls.end(), issued_);
    for (size_t index = 0; index < packet_issues_.size(); index++) {
        const TimedPacket &packet = packets_.packets[index];
        counters.operations += packet_issues_[index] * packet.values.count;
        for (const TimedOperation &operation : packet.all()) {
            counters.unit_operations[static_cast<size_t>(info(packet.instruction(operation).op).unit)] += packet_issues_[index];
            counters.weight_loads += operation.kind == OperationKind::WeightLoad ? packet_issues_[index] : 0;
        }
    }
    counters.array_rows = array_.rows();
    counters.pad_load_bytes = state_.traffic.pad_load_bytes;
    counters.pad_store_bytes = state_.traffic.pad_store_bytes;
    counters.dma_load_bytes = state_.traffic.dma_load_bytes;
    counters.dma_store_bytes = state_.traffic.dma_store_bytes;
    for (size_t pad = 0; pad < pads_.size(); pad++) {
        counters.pad_reads[pad] = pads_[pad].started(false);
        counters.pad_writes[pad] = pads_[pad].started(true);
    }
    counters.dram_beats = dram_.beats();
    counters.dram_busy = dram_.busy_cycles();
    counters.icache_misses = instruction_cache_.misses();
    counters.dcache_misses = data_cache_.misses();
    counters.branch_mispredicts = mispredicts_;
    if (options_.per_packet) {
        result.packet_issues = packet_issues_;
        result.packet_stalls = packet_stalls_;
    }
}

}  // namespace timing
}  // namespace atalla
