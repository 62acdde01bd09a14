// The functional engine: upstream's functional simulator, where a packet is a cycle.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/semantics.h"
#include "simulator/simulator.h"

namespace atalla {

// A program ready to run on the functional machine. Refers to `program`, which must outlive it.
class FunctionalProgram {
public:
    explicit FunctionalProgram(const Program &program);

    // Runs from address 0 until halt. A refusal ends in a result that is not ok; state.pc is then the packet's address.
    RunResult run(MachineState &state, const RunOptions &options) const;

private:
    // Position in packets_, -1 if there is no packet at this address.
    int64_t find(int64_t pc) const;
    void count(const std::vector<uint64_t> &issues, RunResult &result) const;

    const Program &program_;
    std::vector<DecodedPacket> packets_;
    std::vector<int32_t> by_address_;  // by address / 4; empty where addresses are too sparse for it
};

// The registers that upstream's command line sets before a run: stack pointers above the data, whose highest key is given
// (isa reference 7.2).
void preset_registers(MachineState &state, uint32_t highest_key);

}  // namespace atalla
