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
    OperationKind kind : 4 = OperationKind::Halt;
    uint8_t slot : 2 = 0;      // place among the packet's operations, nops left out
    uint8_t is_write : 1 = 0;  // of ScalarAccess and VectorAccess: a store; of Transfer: pad rows are written
    union {
        Source unit = Source::Ex1;  // of Unit and ScalarAccess
        uint8_t pad;                // of VectorAccess
    };
    RegisterId destination = no_register;  // of Transfer: rs1
    uint16_t latency = 0, interval = 0;    // of Unit
};
static_assert(sizeof(TimedOperation) == 8);

enum class Control : uint8_t { None, Branch, Jump };

// Its operations lie by kind, those of a kind in slot order: units, rows, vector accesses, the scalar access, transfers, the
// rest.
// Kept small, and what every issue looks at in two lines of the host's cache: kernels that are unrolled have more packets than
// its first level holds.
struct alignas(64) TimedPacket {
    DecodedPacket values;  // what semantics executes
    Control control = Control::None;
    bool loads_weights = false;
    bool followed = false;  // the next packet of the program lies right behind
    uint8_t register_count = 0;
    int32_t jump_index = -1;  // the packet that it last jumped to: most jumps go there again

    std::array<TimedOperation, 4> operations;
    // How many operations of a kind.
    uint8_t units = 0, rows = 0, vector_accesses = 0, scalar_accesses = 0, transfers = 0;
    uint8_t bank_wait = 0;    // rule 6: 0 or k
    uint16_t used_units = 0;  // of scalar and lane units, EX5 included, one bit each by Source
    uint64_t fetched_in = 0;  // the state of the instruction cache in which all of the packet was there
    // Sources and destinations, no constants; always_free behind the last. Most packets name no more than `few`.
    static constexpr size_t few = 8;
    std::array<RegisterId, 20> registers;

    uint32_t first_sector = 0, last_sector = 0;
    int32_t violation = -1;  // index in TimedProgram::violations: breaks the packet contract

    std::span<const TimedOperation> all() const { return std::span(operations).first(values.count); }
    std::span<const TimedOperation> on_pads() const { return {operations.data() + units + rows, vector_accesses}; }
    std::span<const TimedOperation> on_data_cache() const {
        return {operations.data() + units + rows + vector_accesses, scalar_accesses};
    }
    std::span<const TimedOperation> on_dma() const {
        return {operations.data() + units + rows + vector_accesses + scalar_accesses, transfers};
    }
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
