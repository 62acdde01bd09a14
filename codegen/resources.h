// What a packet and the units can take in a cycle: the table that both schedulers fill.
#pragma once

#include <array>
#include <vector>

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// What an operation takes of a packet and of the units, whichever cycle it is in.
struct Claim {
    Unit unit = Unit::None;
    Opcode opcode = Opcode::nop_s;
    int pad = -1;
    bool lanes = false;                    // an operation on lanes
    int busy = 1, latency = 1;             // packets: of its unit, and until its result is written back
    int scalar = 0, vector = 0, mask = 0;  // read ports
    int written_bank = -1;                 // of a vector result, where that is known
    // Of sources that have one: bit b stands for bank b.
    uint8_t scalar_banks = 0, vector_banks = 0;
    auto operator<=>(const Claim &) const = default;
};

// Reservations by cycle; with an initiation interval, cycle c and c + interval are the same.
class ResourceTable {
public:
    // Rows can stand for packets that take several cycles each.
    ResourceTable(const Kernel &kernel, int interval, int packet_cycles = 1)
        : kernel_(kernel), machine_(*kernel.machine), interval_(interval), packet_cycles_(packet_cycles) {
        if (interval > 0) rows_.resize(interval);
        phase_.fill(-1);
        words_ = (rows_.size() + 63) / 64;
        closed_.assign(sets * words_, 0);
    }
    Claim claim(const Op &op) const;
    std::vector<Claim> claims(const std::vector<Op> &ops) const;
    // Those of another table, whose rows may stand for packets of other lengths.
    void adopt(std::vector<Claim> &claims) const;
    bool fits(const Claim &claim, int cycle) const;
    // Is this a cycle that its unit keeps to? In no other one there is room, whoever else gives up theirs.
    bool in_phase(const Claim &claim, int cycle) const {
        if (interval_ == 0) return true;
        const int phase = phase_[static_cast<size_t>(claim.unit)];
        return claim.busy <= interval_ && (phase < 0 || interval_ % claim.busy != 0 || cycle % claim.busy == phase);
    }
    // The first cycle from `first` on that fits; the one behind `last` if there is none up to that.
    int first_fit(const Claim &claim, int first, int last) const;
    // Has the packet of this cycle an operation in every slot?
    bool full(int cycle) const {
        const Row *now = row(cycle);
        return now != nullptr && now->slots >= machine_.issue.slots;
    }
    // Is there no room in this cycle for a reason that is seen at once? Otherwise fits() decides.
    bool refuses(const Claim &claim, int cycle) const {
        const Row *now = row(cycle);
        if (now == nullptr) return false;
        const int pads = claim.unit == Unit::Vlsu ? now->vlsu : claim.unit == Unit::Sdma ? now->sdma : 0;
        return ((now->blocked & unit_bit(claim.unit)) | (now->scalar_banks & claim.scalar_banks) |
                (now->vector_banks & claim.vector_banks)) != 0 ||
               (claim.pad >= 0 && (pads >> claim.pad & 1) != 0);
    }
    static constexpr uint16_t unit_bit(Unit unit) { return static_cast<uint16_t>(1 << static_cast<int>(unit)); }
    void take(const Claim &claim, int cycle);
    void release(const Claim &claim, int cycle) { change(claim, cycle, -1); }
    bool fits(const Op &op, int cycle) const { return fits(claim(op), cycle); }
    void take(const Op &op, int cycle) { take(claim(op), cycle); }
    void release(const Op &op, int cycle) { release(claim(op), cycle); }
    // Keeps the end of a loop free for its branch: nothing in the last cycle, no operation of the branch's unit before it.
    void reserve_loop_end();
    // Keeps room for an operation of a unit that the loop keeps busy all the time, in every cycle of its phase.
    void reserve_unit(Unit unit, int phase);
    // The unit's operations are in this phase, where the interval is a multiple of the unit's own.
    void keep_to_phase(Unit unit, int phase) { phase_[static_cast<size_t>(unit)] = phase; }
    // Scalar operations keep to no phase: one that adds to the one before waits longer for it than for its unit.
    void free_scalars() { scalars_in_phase_ = false; }
    // Keeps the last packet of every so many of that unit's intervals free: it would wait for the unit anyway.
    void close_last_of(Unit unit, int every);

private:
    int interval_of(Unit unit) const;
    // Sets are bits: by unit, by pad, by bank.
    struct Row {
        int8_t slots = 0, scalar_reads = 0, vector_reads = 0, mask_reads = 0, array = 0, lanes = 0, to_scalar = 0;
        uint8_t vlsu = 0, sdma = 0;  // pads that an operation of this packet accesses
        uint16_t issued = 0;         // units of this packet's operations
        uint16_t busy = 0;           // units that an earlier operation still keeps
        uint16_t blocked = 0;        // units whose operations have no room
        bool gemm = false;
        bool closed = false;
        Unit kept_for = Unit::None;                   // room for one operation of this unit is kept
        uint8_t scalar_banks = 0, vector_banks = 0;   // that are read
        uint8_t read_started = 0, write_started = 0;  // pads
        std::array<uint8_t, 4> vector_writes{};       // by bank: results that are written back
    };
    size_t index(int cycle) const {
        if (interval_ > 0 && (cycle < 0 || cycle >= interval_)) cycle = static_cast<int>(floor_mod(cycle, interval_));
        return static_cast<size_t>(cycle);
    }
    // The row of the next cycle.
    size_t after(size_t at) const { return at + 1 == static_cast<size_t>(interval_) ? 0 : at + 1; }
    const Row *row(int cycle) const {
        const size_t at = index(cycle);
        return at < rows_.size() ? &rows_[at] : nullptr;
    }
    Row &at(int cycle) {
        const size_t at = index(cycle);
        if (at >= rows_.size()) rows_.resize(at + 64);
        return rows_[at];
    }
    void settle(Row &now);
    // How far behind this row the first is that no set of the claim has; at least the interval if there is none.
    int until_open(const Claim &claim, size_t at) const;
    void close(size_t set, size_t at, bool closed);
    // Which rows are too near to one in which the pad starts a row in the direction of the claim, now that it does so in this
    // cycle, or no longer.
    void close_pad(const Claim &claim, int cycle, bool starts);
    bool fits_packet(const Claim &claim, const Row &now) const;
    // Cycles between the rows that a pad starts in the direction of the claim.
    int starts_apart(const Claim &claim) const;
    bool starts_near(const Claim &claim, int cycle) const;
    void change(const Claim &claim, int cycle, int sign);
    int busy_cycles(Opcode opcode) const;
    void take_time(Claim &claim) const;
    bool credits(int cycle) const;

    const Kernel &kernel_;
    const Machine &machine_;
    int packets(int64_t cycles) const { return static_cast<int>((cycles + packet_cycles_ - 1) / packet_cycles_); }

    int interval_, packet_cycles_;
    std::vector<Row> rows_;
    // With an interval, sets of rows, `words_` words each, a bit a row: those in which a unit is blocked, a pad cannot start a
    // load or a store, or a bank of scalars or vectors is read.
    static constexpr size_t most_pads = 8, most_banks = 8;
    static constexpr size_t load_sets = 16, store_sets = load_sets + most_pads, scalar_sets = store_sets + most_pads,
                            vector_sets = scalar_sets + most_banks, sets = vector_sets + most_banks;
    size_t words_ = 0;
    std::vector<uint64_t> closed_;
    // In a loop whose interval is a multiple of a unit's own, operations keep to one phase, so that a full unit has no gaps.
    std::array<int, 16> phase_;
    bool scalars_in_phase_ = true;
    bool paced_ = false;  // by a lane unit that is busy all the time
};

// Cycles that a block cannot take less than, from its busiest resource.
int resource_bound(const Kernel &kernel, const std::vector<Op> &ops);

}  // namespace atalla::codegen
