// Runs a program on a machine: values and, for the hardware machines, exact cycles.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "isa/machine.h"
#include "isa/program.h"
#include "simulator/memory.h"

namespace atalla {

// Why a cycle before halt issued nothing (microarchitecture rule 42), plus the cycles after halt.
enum class Stall : uint8_t { Fetch, Branch, Data, Dma, Bank, Unit, Array, Vlsu, Sdma, Drain };
constexpr int stall_causes = 10;
const char *stall_name(Stall cause);

struct Counters {
    uint64_t cycles = 0;                                          // packets + all stalls
    uint64_t packets = 0;                                         // issued, the one with halt included
    uint64_t operations = 0;                                      // non-nop slots issued
    std::array<uint64_t, stall_causes> stalls{};                  // by Stall
    std::array<uint64_t, 16> unit_operations{};                   // by Unit
    std::array<uint64_t, 4> pad_load_bytes{}, pad_store_bytes{};  // vreg.ld / vreg.st, by pad
    std::array<uint64_t, 4> dma_load_bytes{}, dma_store_bytes{};  // scpad.ld / scpad.st payload, by pad
    std::array<uint64_t, 4> pad_reads{}, pad_writes{};            // rows that a pad read or wrote, for vreg.* and transfers
    uint64_t dram_beats = 0;                                      // 32-byte beats served, all masters
    uint64_t dram_busy = 0;      // cycles between the first and the last DRAM command in which a beat was outstanding
    uint64_t array_rows = 0;     // gemm.vv issued
    uint64_t weight_loads = 0;   // lw.vi issued
    uint64_t icache_misses = 0;  // lines replaced
    uint64_t dcache_misses = 0;
    uint64_t branch_mispredicts = 0;
    bool operator==(const Counters &) const = default;
};

namespace timing {
class Observer;
}

// Stall cycles by cause.
using StallCycles = std::array<uint64_t, stall_causes>;

// The model that counts the cycles of a hardware machine. Both give the same result; the reference is written for reading
// (simulator/reference) and some hundred times slower.
enum class TimingModel : uint8_t { Fast, Reference };

// What vectors, pads and memory hold while a program runs. Skipped: what they held before, since nobody asks for results.
// Cycles and counters are the same, in less time. Refused (rule "lanes") where a scalar would depend on it: where a lane or
// mask, but of v0 and m0, moves to a scalar register, or a scalar is loaded from where a transfer wrote.
enum class LaneValues : uint8_t { Computed, Skipped };
// Does no instruction move such a lane or mask to a scalar register? Then a run may skip lanes, as far as can be told before.
bool may_skip_lanes(const Program &program);

struct RunOptions {
    TimingModel model = TimingModel::Fast;
    uint64_t step_limit = 2'000'000'000;  // packets; a run that reaches it is refused as a wild loop
    // Cycles; a run that has not halted by then is refused: whoever asks no longer cares how long it takes.
    uint64_t cycle_limit = UINT64_MAX;
    LaneValues lanes = LaneValues::Computed;  // Skipped: hardware machines, fast model
    // If set, per-packet issue counts and stall cycles are recorded (index = packet in Program::packets).
    bool per_packet = false;
    // What pads and registers hold at first, a bf16 pattern in every element (MachineState::leave): after other programs they
    // hold anything.
    uint16_t left_behind = 0;
    // Told of everything that happens, as it happens (simulator/timing/observer.h). Hardware machines, fast model.
    timing::Observer *observer = nullptr;
};

struct RunResult {
    bool ok = false;
    std::string error;  // if not ok: packet address, source line and the rule that refused it
    std::string rule;   // short rule name, "51", "step limit" or "cycle limit"
    Counters counters;
    // With RunOptions::per_packet, by packet. The drain is no packet's.
    std::vector<uint64_t> packet_issues;
    std::vector<StallCycles> packet_stalls;
};

// Architectural state that survives a run: registers, pads, weights and memory.
class MachineState;

// A machine ready to run one program: create, write the tensors to memory, run, read the results.
class Simulator {
public:
    explicit Simulator(const Machine &machine);
    ~Simulator();
    Simulator(Simulator &&) noexcept;
    Simulator &operator=(Simulator &&) noexcept;

    // Pre-decodes the program and writes its data words to memory. Throws Error for a program the machine cannot hold.
    void load(const Program &program);
    // Data memory as it was at first: zeros, or no words.
    void clear_memory();
    // Data memory as bytes. On the functional machine these write and read aligned words of its map.
    void write_memory(uint64_t address, std::span<const uint8_t> bytes);
    void read_memory(uint64_t address, std::span<uint8_t> bytes) const;

    RunResult run(const RunOptions &options = {});

    // The state after a run in the `.expect` format of the conformance vectors.
    std::string dump_state(const RunResult &result) const;

    const MachineState &state() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace atalla
