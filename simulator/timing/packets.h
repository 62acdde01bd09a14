// Packets as the issue stage wants them: registers, units and latencies looked up once.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "isa/machine.h"
#include "isa/program.h"
#include "simulator/semantics.h"
#include "simulator/timing/cycle.h"
#include "simulator/timing/scoreboard.h"
#include "simulator/timing/writeback.h"

namespace atalla::timing {

// In the order in which a packet holds them.
enum class OperationKind : uint8_t { Unit, Row, VectorAccess, ScalarAccess, Transfer, WeightLoad, Halt };

struct TimedOperation {
    OperationKind kind = OperationKind::Halt;
    Source unit = Source::Ex1;             // of Unit and ScalarAccess
    bool is_write = false;                 // of ScalarAccess and VectorAccess: a store; of Transfer: pad rows are written
    uint8_t slot = 0;                      // place among the packet's operations, nops left out
    uint8_t pad = 0;                       // of VectorAccess
    RegisterId destination = no_register;  // of Transfer: rs1
    int32_t latency = 0, interval = 0;     // of Unit
};

enum class Control : uint8_t { None, Branch, Jump };

// Its operations lie by kind, those of a kind in slot order: units, rows, vector accesses, the scalar access, transfers, the
// rest.
struct alignas(64) TimedPacket {
    DecodedPacket values;  // what semantics executes
    std::array<TimedOperation, 4> operations;
    std::array<RegisterId, 20> registers;  // sources and destinations, no constants
    uint8_t register_count = 0;
    uint8_t units = 0, rows = 0, accesses = 0, scalar_accesses = 0, transfers = 0;  // how many operations of each kind
    uint8_t bank_wait = 0;                                                          // rule 6: 0 or k
    uint16_t used_units = 0;  // of scalar and lane units, EX5 included, one bit each by Source
    bool loads_weights = false;
    Control control = Control::None;
    uint32_t first_sector = 0, last_sector = 0;
    int32_t violation = -1;  // index in TimedProgram::violations: breaks the packet contract
    // The state of the instruction cache in which all of the packet was there.
    uint64_t fetched_in = 0;
    // Where the packet last jumped, with its index: most jumps go there again.
    int64_t jump_target = -1;
    int32_t jump_index = -1;

    std::span<const TimedOperation> on_units() const { return {operations.data(), units}; }
    std::span<const TimedOperation> on_array() const { return {operations.data() + units, rows}; }
    std::span<const TimedOperation> on_pads() const { return {on_array().data() + rows, accesses}; }
    std::span<const TimedOperation> on_data_cache() const { return {on_pads().data() + accesses, scalar_accesses}; }
    std::span<const TimedOperation> on_dma() const { return {on_data_cache().data() + scalar_accesses, transfers}; }
    std::span<const TimedOperation> all() const { return {operations.data(), values.count}; }
    const Instruction &instruction(const TimedOperation &operation) const { return values.slot[operation.slot]; }
};

struct TimedProgram {
    std::vector<TimedPacket> packets;  // in the order of Program::packets
    std::vector<std::string> violations;

    TimedProgram(const Machine &machine, const Program &program);
    // The packet at an address, -1 if there is none.
    int32_t find(int64_t address) const;
};

}  // namespace atalla::timing
