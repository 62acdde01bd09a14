// The timing model put together: one object per unit, and the clock.
#pragma once

#include <array>

#include "simulator/timing/array_unit.h"
#include "simulator/timing/bus.h"
#include "simulator/timing/data_cache.h"
#include "simulator/timing/dma.h"
#include "simulator/timing/dram.h"
#include "simulator/timing/fetch.h"
#include "simulator/timing/hazards.h"
#include "simulator/timing/observer.h"
#include "simulator/timing/packets.h"
#include "simulator/timing/pads.h"
#include "simulator/timing/scoreboard.h"
#include "simulator/timing/timing.h"
#include "simulator/timing/units.h"
#include "simulator/timing/writeback.h"

namespace atalla::timing {

class Engine {
public:
    Engine(const Machine &machine, const Program &program, TimedProgram &prepared, MachineState &state,
           const RunOptions &options);

    RunResult run(Advance advance);

private:
    // The gates that a waiting packet passes, in this order (rules 4 to 7).
    enum class Gate : uint8_t { LookUp, Fetch, Registers, Banks, Structure };

    // engine.cpp: the clock
    template <Advance advance>
    void run_to_end();
    template <Advance advance>
    void run_to_halt();
    template <Advance advance>
    void run_to_quiet();
    Cycle next_event() const;
    void count_stall(Cycle from, Cycle cycles);
    void complete_beat();
    template <Advance advance>
    void step_memory();
    template <Advance advance>
    Cycle next_cycle(Cycle next_event) const;
    Beat launch(int master);
    void count(RunResult &result) const;

    // issue.cpp: the packet that waits
    bool issue_step();
    bool hold(Stall cause, Cycle until);
    bool registers_free(const TimedPacket &packet);
    [[gnu::noinline]] bool wait_for_registers(const TimedPacket &packet);
    [[gnu::noinline]] void read_transfers(const TimedPacket &packet);
    bool structure_accepts(const TimedPacket &packet);
    [[gnu::noinline]] bool wait_for_structure(const TimedPacket &packet);
    void issue();
    void finish_rows();
    void keep_rows();
    [[gnu::noinline]] void tell_issue(const TimedPacket &packet, const std::array<uint32_t, 4> &addresses);
    void check_accesses(const TimedPacket &packet, std::array<uint32_t, 4> &addresses) const;
    void start_operations(const TimedPacket &packet, const std::array<uint32_t, 4> &addresses);
    void go_on(TimedPacket &packet, const PacketOutcome &outcome);
    int32_t jump(TimedPacket &from, int64_t address) const;
    int32_t packet_at(int64_t address) const;

    const Machine &machine_;
    const Program &program_;
    MachineState &state_;
    const RunOptions &options_;
    const PacketCode &code_;
    Observer *const observer_;

    TimedProgram &packets_;
    Wakes wakes_;
    Scoreboard scoreboard_;
    Writeback writeback_;
    Units units_;
    Bus bus_;
    Dram dram_;
    InstructionCache instruction_cache_;
    BranchTargetBuffer branch_targets_;
    DataCache data_cache_;
    ArrayUnit array_;
    Dma dma_;
    Hazards hazards_;
    std::array<Pad, 4> pads_;

    Cycle now_ = 0;
    // The packet that waits: its index, the gate it is at, and why it waits.
    int32_t waiting_ = 0;
    Gate gate_ = Gate::LookUp;
    Cycle look_up_at_ = 0, banks_open_at_ = 0;
    Stall stall_ = Stall::Fetch;
    Cycle issue_wake_ = 0;  // the earliest cycle in which the wait or its cause may change, as far as issue knows
    bool halted_ = false;
    Cycle halt_cycle_ = 0;
    // The transfers that the waiting packet starts.
    std::array<Transfer, 4> transfers_;

    // The earliest cycle in which a packet may name the result of a row that waits in state_.
    Cycle rows_due_ = never;

    uint64_t issued_ = 0, mispredicts_ = 0;
    uint64_t drain_ = 0;
    std::vector<uint64_t> packet_issues_;
    std::vector<StallCycles> packet_stalls_;
};

}  // namespace atalla::timing
