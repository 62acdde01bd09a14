// Packets as the issue stage wants them: registers, units and latencies looked up once.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "isa/machine.h"
#include "isa/program.h"
#include "simulator/semantics.h"
#include "simulator/timing/cycle.h"
#include "simulator/timing/scoreboard.h"
#include "simulator/timing/writeback.h"

namespace atalla::timing {

enum class OperationKind : uint8_t { Unit, ScalarAccess, Row, WeightLoad, VectorAccess, Transfer, Halt };

struct TimedOperation {
    OperationKind kind = OperationKind::Unit;
    Source unit = Source::Ex1;  // of Unit and ScalarAccess
    bool is_write = false;      // of ScalarAccess and VectorAccess: a store
    bool is_load = false;       // of Transfer
    Unit counted_as = Unit::None;
    RegisterId destination = no_register;  // of Transfer: rs1
    int32_t latency = 0, interval = 0;     // of Unit
    Instruction instruction;
};

enum class Control : uint8_t { None, Branch, Jump };

struct TimedPacket {
    DecodedPacket values;  // what semantics executes
    std::array<TimedOperation, 4> operations;
    std::array<RegisterId, 20> registers;  // sources and destinations, no constants
    uint8_t operation_count = 0, register_count = 0;
    uint8_t bank_wait = 0;  // rule 6: 0 or k
    uint8_t transfers = 0;
    bool halts = false;
    Control control = Control::None;
    uint32_t first_sector = 0, last_sector = 0;
    int32_t violation = -1;  // index in TimedProgram::violations: breaks the packet contract
    // Where the packet last jumped, with its index: most jumps go there again.
    int64_t jump_target = -1;
    int32_t jump_index = -1;
};

struct TimedProgram {
    std::vector<TimedPacket> packets;  // in the order of Program::packets
    std::vector<std::string> violations;

    TimedProgram(const Machine &machine, const Program &program);
    // The packet at an address, -1 if there is none.
    int32_t find(int64_t address) const;
};

}  // namespace atalla::timing
