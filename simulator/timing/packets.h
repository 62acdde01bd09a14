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
    uint16_t latency = 0, interval = 0;    // of Unit
};

enum class Control : uint8_t { None, Branch, Jump };

// Its operations lie by kind, those of a kind in slot order: units, rows, vector accesses, the scalar access, transfers, the
// rest.
// Kept small: kernels that are unrolled have more of them than the host's first cache holds.
struct alignas(64) TimedPacket {
    DecodedPacket values;  // what semantics executes
    std::array<TimedOperation, 4> operations;
    // Sources and destinations, no constants; always_free behind the last. Most packets name no more than `few`.
    static constexpr size_t few = 8;
    std::array<RegisterId, 20> registers;
    uint8_t register_count = 0;
    uint8_t rows = 0, transfers = 0;  // how many operations of these kinds
    // Where the operations of a kind end and those of the next kind begin.
    uint8_t units_end = 0, rows_end = 0, accesses_end = 0, scalar_accesses_end = 0, transfers_end = 0;
    uint8_t bank_wait = 0;    // rule 6: 0 or k
    uint16_t used_units = 0;  // of scalar and lane units, EX5 included, one bit each by Source
    bool loads_weights = false;
    Control control = Control::None;
    uint32_t first_sector = 0, last_sector = 0;
    uint64_t fetched_in = 0;  // the state of the instruction cache in which all of the packet was there
    int32_t violation = -1;   // index in TimedProgram::violations: breaks the packet contract
    int32_t jump_index = -1;  // the packet that it last jumped to: most jumps go there again

    std::span<const TimedOperation> on_units() const { return between(0, units_end); }
    std::span<const TimedOperation> on_array() const { return between(units_end, rows_end); }
    std::span<const TimedOperation> on_pads() const { return between(rows_end, accesses_end); }
    std::span<const TimedOperation> on_data_cache() const { return between(accesses_end, scalar_accesses_end); }
    std::span<const TimedOperation> on_dma() const { return between(scalar_accesses_end, transfers_end); }
    std::span<const TimedOperation> all() const { return between(0, values.count); }
    const Instruction &instruction(const TimedOperation &operation) const { return values.slot[operation.slot]; }

private:
    std::span<const TimedOperation> between(size_t begin, size_t end) const {
        return {operations.data() + begin, operations.data() + end};
    }
};

struct TimedProgram {
    std::vector<TimedPacket> packets;  // in the order of Program::packets
    std::vector<std::string> violations;

    TimedProgram(const Machine &machine, const Program &program);
    // The packet at an address, -1 if there is none.
    int32_t find(int64_t address) const;
};

}  // namespace atalla::timing
