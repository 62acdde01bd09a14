// What a timed run tells whoever watches it, as it happens.
#pragma once

#include <cstdint>

#include "isa/instruction.h"
#include "simulator/simulator.h"
#include "simulator/timing/cycle.h"
#include "simulator/timing/source.h"

namespace atalla::timing {

// An operation that issues. `address` is the byte of a scalar access, the row of a vector access, the first pad row of a
// transfer; `memory` the first byte of a transfer in data memory.
struct Issued {
    int32_t packet = -1;  // index in Program::packets
    int slot = 0;         // place among the packet's operations, nops left out
    const Instruction *instruction = nullptr;
    Cycle cycle = 0;
    Cycle busy = 0;  // how long the unit accepts nothing else; 0 where a later call tells (EX5, transfers) or nothing is busy
    uint32_t address = 0, memory = 0;
    uint32_t pad = 0;  // of a vector access or transfer
};

// All cycles of the calls ascend, but those of access() and halted(), which may name cycles to come.
class Observer {
public:
    virtual ~Observer() = default;
    // A packet waits in the cycles from .. to-1.
    virtual void waits(int32_t packet, Stall cause, Cycle from, Cycle to) = 0;
    // A packet issues; `state` is what it leaves behind. Its operations follow in slot order.
    virtual void issues(int32_t packet, Cycle at, const MachineState &state) = 0;
    virtual void operation(const Issued &issued) = 0;
    // The oldest operation of `source` that has not been told of yet writes its result back.
    virtual void result(Source source, Cycle at) = 0;
    // The scalar access that issued last is under way from `issued` and ends in `end`.
    virtual void access(Cycle issued, Cycle end, bool store, bool missed) = 0;
    // A pad starts a read or a write and is busy in that direction for `busy` cycles; a write lands in `lands`.
    virtual void pad_starts(uint32_t pad, bool write, bool of_transfer, uint32_t row, int32_t packet, Cycle at, Cycle busy,
                            Cycle lands) = 0;
    // The transfer of a pad ends; `issued` is when it began.
    virtual void transfer_ends(uint32_t pad, int32_t packet, Cycle issued, Cycle end) = 0;
    // A bank prepares a row in the cycles at .. ready-1, or serves a beat of master `master` in `at`.
    virtual void opens_row(uint32_t bank, int64_t row, Cycle at, Cycle ready) = 0;
    virtual void serves_beat(uint32_t bank, uint32_t address, bool write, int master, Cycle at, Cycle busy) = 0;
    // The last cycle of the run (rule 41).
    virtual void halted(Cycle halt, Cycle last) = 0;
};

}  // namespace atalla::timing
