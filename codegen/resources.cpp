#include "codegen/resources.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "codegen/dependence.h"

namespace atalla::codegen {

namespace {

struct Ports {
    int scalar = 0, vector = 0, mask = 0;
};

// Register read ports that an operation takes; constants count for ports as everything else does.
Ports ports_of(const Kernel &kernel, const Op &op) {
    Ports ports;
    for (Reg r : op.src) {
        if (!r.defined()) continue;
        const RegisterClass cls = kernel.cls(r);
        (cls == RegisterClass::Scalar ? ports.scalar : cls == RegisterClass::Vector ? ports.vector : ports.mask)++;
    }
    const Format format = info(op.opcode).format;
    if (format == Format::VV || format == Format::VS || format == Format::VI || format == Format::VMV || format == Format::VMS)
        ports.mask += op.opcode == Opcode::gemm_vv ? 0 : 1;
    if (op.opcode == Opcode::gemm_vv && !kernel.machine->sa.psum_in) ports.vector = 1;
    return ports;
}

constexpr int unit_index(Unit unit) { return static_cast<int>(unit); }
constexpr int bit_of(int pad) { return 1 << pad; }
constexpr int bit_of(Unit unit) { return ResourceTable::unit_bit(unit); }

}  // namespace

int ResourceTable::busy_cycles(Opcode opcode) const {
    if (!machine_.timed()) return 1;
    switch (info(opcode).unit) {
        case Unit::Ex2:
            return packets(result_latency(machine_, opcode) - 1 - machine_.wb.offer_to_use + machine_.ex2.ii_after_L);
        case Unit::Ex3:
            return packets(machine_.ex3.ii);
        case Unit::Ex4:
            return packets(machine_.ex4.ii);
        case Unit::Ex5:
            return packets(machine_.ex5.load_hit + machine_.ex5.ii_after_L);
        case Unit::Alu:
        case Unit::Mul:
        case Unit::Exp:
            return packets(machine_.vec.ii);
        case Unit::Reduce:
            return packets(machine_.vec.reduce_ii);
        default:
            return 1;
    }
}

void ResourceTable::take_time(Claim &claim) const {
    claim.busy = busy_cycles(claim.opcode);
    claim.latency = packets(result_latency(machine_, claim.opcode));
}

Claim ResourceTable::claim(const Op &op) const {
    Claim claim;
    claim.unit = info(op.opcode).unit;
    claim.opcode = op.opcode;
    claim.pad = op.pad;
    claim.lanes = is_lane_operation(op.opcode);
    take_time(claim);
    const Ports ports = ports_of(kernel_, op);
    claim.scalar = ports.scalar;
    claim.vector = ports.vector;
    claim.mask = ports.mask;
    if (!machine_.timed()) return claim;
    if (op.dst.defined() && op.dst.id > all_lanes.id && kernel_.cls(op.dst) == RegisterClass::Vector)
        claim.written_bank = kernel_.registers[op.dst.id].bank;
    for (Reg r : op.src) {
        if (!r.defined() || r.id <= all_lanes.id || kernel_.registers[r.id].bank < 0) continue;
        const auto bit = static_cast<uint8_t>(1 << kernel_.registers[r.id].bank);
        if (kernel_.cls(r) == RegisterClass::Scalar) claim.scalar_banks |= bit;
        if (kernel_.cls(r) == RegisterClass::Vector) claim.vector_banks |= bit;
    }
    return claim;
}

std::vector<Claim> ResourceTable::claims(const std::vector<Op> &ops) const {
    std::vector<Claim> claims;
    claims.reserve(ops.size());
    for (const Op &op : ops) claims.push_back(claim(op));
    return claims;
}

void ResourceTable::adopt(std::vector<Claim> &claims) const {
    for (Claim &claim : claims) take_time(claim);
}

bool ResourceTable::fits(const Claim &claim, int cycle) const {
    const int busy = claim.busy;
    if (!in_phase(claim, cycle)) return false;
    const size_t now = index(cycle);
    if (now < rows_.size() && !fits_packet(claim, rows_[now])) return false;
    const int unit = bit_of(claim.unit);
    size_t later = now;
    for (int i = 1; i < busy; i++) {
        later = after(later);
        if (later < rows_.size() && ((rows_[later].issued | rows_[later].busy) & unit) != 0) return false;
    }
    if (claim.written_bank >= 0)
        if (const Row *back = row(cycle + claim.latency);
            back != nullptr && back->vector_writes[static_cast<size_t>(claim.written_bank)] >= machine_.wb.writes_per_bank)
            return false;
    if (now >= rows_.size() || !machine_.timed()) return true;
    if (claim.unit == Unit::Vlsu) return !starts_near(claim, cycle);
    return claim.opcode != Opcode::gemm_vv || credits(cycle);
}

// Is there room beside the other operations of the packet?
bool ResourceTable::fits_packet(const Claim &claim, const Row &now) const {
    if ((now.blocked & bit_of(claim.unit)) != 0) return false;
    const auto &issue = machine_.issue;
    const bool keeps = now.kept_for != Unit::None && now.kept_for != claim.unit;
    constexpr int kept_vector_reads = 2;
    if (now.scalar_reads + claim.scalar > issue.scalar_reads ||
        now.vector_reads + claim.vector + (keeps ? kept_vector_reads : 0) > issue.vector_reads ||
        now.mask_reads + claim.mask + keeps > issue.mask_reads)
        return false;
    if ((now.scalar_banks & claim.scalar_banks) != 0 || (now.vector_banks & claim.vector_banks) != 0) return false;
    if (claim.unit == Unit::Vlsu) return (now.vlsu & bit_of(claim.pad)) == 0;
    return claim.unit != Unit::Sdma || (now.sdma & bit_of(claim.pad)) == 0;
}

// Finds out which units' operations have no room in a packet whatever else they ask for.
void ResourceTable::settle(Row &now) {
    constexpr uint16_t every_unit = 0xFFFF;
    constexpr int lane_units = bit_of(Unit::Alu) | bit_of(Unit::Mul) | bit_of(Unit::Exp) | bit_of(Unit::Reduce);
    const auto &issue = machine_.issue;
    int blocked = now.issued | now.busy;
    if (now.lanes >= issue.lane_ops) blocked |= lane_units;
    if (now.array >= issue.array_ops) blocked |= bit_of(Unit::Array);
    if (now.to_scalar >= issue.mts_ops) blocked |= bit_of(Unit::MoveToScalar);
    if (now.kept_for != Unit::None && now.slots + 1 >= issue.slots) blocked |= every_unit & ~bit_of(now.kept_for);
    if (now.closed || now.slots >= issue.slots) blocked = every_unit;
    const auto settled = static_cast<uint16_t>(blocked);
    if (words_ > 0)
        for (unsigned changed = settled ^ now.blocked; changed != 0; changed &= changed - 1) {
            const auto unit = static_cast<size_t>(std::countr_zero(changed));
            close(unit, static_cast<size_t>(&now - rows_.data()), (settled >> unit & 1) != 0);
        }
    now.blocked = settled;
}

void ResourceTable::close(size_t set, size_t at, bool closed) {
    uint64_t &word = closed_[set * words_ + at / 64];
    const uint64_t bit = uint64_t{1} << (at % 64);
    word = closed ? word | bit : word & ~bit;
}

void ResourceTable::close_pad(const Claim &claim, int cycle, bool starts) {
    const bool load = claim.opcode == Opcode::vreg_ld;
    const size_t set = (load ? load_sets : store_sets) + static_cast<size_t>(claim.pad);
    const int near = std::min(starts_apart(claim), interval_) - 1;
    size_t row = index(cycle - near);
    if (starts) {
        for (int c = -near; c <= near; c++, row = after(row)) close(set, row, true);
        return;
    }
    // Where the pad does so no longer, what starts as near to these rows may still be too near.
    const int pad = bit_of(claim.pad);
    size_t seen = index(cycle - 2 * near);
    int last = -4 * near - 1;  // start that has been seen
    for (int c = -2 * near; c <= 2 * near; c++, seen = after(seen)) {
        if (((load ? rows_[seen].read_started : rows_[seen].write_started) & pad) != 0) last = c;
        if (c < 0) continue;
        close(set, row, c - last <= 2 * near);
        row = after(row);
    }
}

int ResourceTable::until_open(const Claim &claim, size_t at) const {
    std::array<const uint64_t *, 1 + 1 + 2 * most_banks> those;
    size_t count = 0;
    const auto add = [&](size_t set) { those[count++] = &closed_[set * words_]; };
    add(static_cast<size_t>(unit_index(claim.unit)));
    if (claim.unit == Unit::Vlsu && machine_.timed())
        add((claim.opcode == Opcode::vreg_ld ? load_sets : store_sets) + static_cast<size_t>(claim.pad));
    for (unsigned banks = claim.scalar_banks; banks != 0; banks &= banks - 1)
        add(scalar_sets + static_cast<size_t>(std::countr_zero(banks)));
    for (unsigned banks = claim.vector_banks; banks != 0; banks &= banks - 1)
        add(vector_sets + static_cast<size_t>(std::countr_zero(banks)));
    const size_t rows = rows_.size();
    for (size_t passed = 0; passed < rows;) {
        const size_t here = std::min<size_t>(64 - at % 64, rows - at);  // rows of this word from `at` on
        uint64_t closed = 0;
        for (size_t i = 0; i < count; i++) closed |= those[i][at / 64];
        const auto first = static_cast<size_t>(std::countr_one(closed >> (at % 64)));
        if (first < here) return static_cast<int>(passed + first);
        passed += here;
        at = at + here == rows ? 0 : at + here;
    }
    return static_cast<int>(rows);
}

int ResourceTable::first_fit(const Claim &claim, int first, int last) const {
    for (int cycle = first; cycle <= last; cycle++) {
        if (words_ > 0) cycle += until_open(claim, index(cycle));
        if (cycle > last) break;
        if (fits(claim, cycle)) return cycle;
    }
    return std::max(first, last + 1);
}

// The pad starts a row every few cycles in each direction; its queue takes the rest, but not for ever, and what waits
// there can be overtaken. Where packets take longer the queue may grow a little while the code is in the cache.
int ResourceTable::starts_apart(const Claim &claim) const {
    const auto period = static_cast<int>(claim.opcode == Opcode::vreg_ld ? machine_.pad.read_ii : machine_.pad.write_ii);
    return packet_cycles_ > 1 ? std::max(1, period - 1) : period;
}

bool ResourceTable::starts_near(const Claim &claim, int cycle) const {
    const bool load = claim.opcode == Opcode::vreg_ld;
    const int ii = starts_apart(claim);
    const int pad = bit_of(claim.pad), first = interval_ > 0 ? cycle - ii + 1 : std::max(0, cycle - ii + 1);
    size_t at = index(first);
    for (int c = first; c < cycle + ii && at < rows_.size(); c++, at = after(at))
        if (((load ? rows_[at].read_started : rows_[at].write_started) & pad) != 0) return true;
    return false;
}

// Has the array a credit for one more row in this cycle? Each row holds one for the array's latency. Where the array itself
// sets the pace it waits for credits sooner or later; where a lane unit does, each cycle that it waits is lost.
bool ResourceTable::credits(int cycle) const {
    if (!paced_) return true;
    const int latency = static_cast<int>(machine_.sa.L), limit = static_cast<int>(machine_.sa.credits);
    if (limit >= latency) return true;
    size_t oldest = index(cycle - latency + 1), newest = oldest;
    int held = 1;  // by rows of the `latency` cycles up to `newest`
    for (int c = 1; c < latency; c++, newest = after(newest)) held += rows_[newest].gemm;
    for (int ahead = 1;; ahead++) {
        if (held > limit) return false;
        if (ahead == latency) return true;
        newest = after(newest);
        held += rows_[newest].gemm - rows_[oldest].gemm;
        oldest = after(oldest);
    }
}

void ResourceTable::change(const Claim &claim, int cycle, int sign) {
    const Unit kind = claim.unit;
    const bool on = sign > 0;
    const auto add = [](auto &count, int n) { count = static_cast<std::remove_reference_t<decltype(count)>>(count + n); };
    const auto mark = [&](auto &set, int bits) {
        set = static_cast<std::remove_reference_t<decltype(set)>>(on ? set | bits : set & ~bits);
    };
    at(cycle + std::max(claim.busy, claim.latency));  // grow first: references stay valid
    if (claim.written_bank >= 0) add(at(cycle + claim.latency).vector_writes[static_cast<size_t>(claim.written_bank)], sign);
    Row &now = at(cycle);
    now.gemm = claim.opcode == Opcode::gemm_vv ? on : now.gemm;
    add(now.slots, sign);
    if (now.kept_for == kind && on) now.kept_for = Unit::None;
    add(now.scalar_reads, sign * claim.scalar);
    add(now.vector_reads, sign * claim.vector);
    add(now.mask_reads, sign * claim.mask);
    add(now.array, sign * (kind == Unit::Array));
    add(now.to_scalar, sign * (kind == Unit::MoveToScalar));
    add(now.lanes, sign * claim.lanes);
    if (kind == Unit::Vlsu) {
        mark(now.vlsu, bit_of(claim.pad));
        mark(claim.opcode == Opcode::vreg_ld ? now.read_started : now.write_started, bit_of(claim.pad));
        if (words_ > 0) close_pad(claim, cycle, on);
    } else if (kind == Unit::Sdma) {
        mark(now.sdma, bit_of(claim.pad));
    } else if (kind != Unit::None && kind != Unit::Array && kind != Unit::MoveToScalar) {
        mark(now.issued, bit_of(kind));
        for (int c = cycle + 1; c < cycle + claim.busy; c++) {
            Row &later = at(c);
            mark(later.busy, bit_of(kind));
            settle(later);
        }
    }
    // No other operation of the packet reads these banks.
    mark(now.scalar_banks, claim.scalar_banks);
    mark(now.vector_banks, claim.vector_banks);
    if (words_ > 0) {
        for (unsigned banks = claim.scalar_banks; banks != 0; banks &= banks - 1)
            close(scalar_sets + static_cast<size_t>(std::countr_zero(banks)), index(cycle), on);
        for (unsigned banks = claim.vector_banks; banks != 0; banks &= banks - 1)
            close(vector_sets + static_cast<size_t>(std::countr_zero(banks)), index(cycle), on);
    }
    settle(now);
}

void ResourceTable::take(const Claim &claim, int cycle) {
    if (interval_ > 0 && interval_ % claim.busy == 0 && claim.busy > 1 && (scalars_in_phase_ || claim.lanes))
        phase_[unit_index(claim.unit)] = cycle % claim.busy;
    change(claim, cycle, 1);
}

void ResourceTable::reserve_loop_end() {
    if (interval_ < 2) return;
    rows_[interval_ - 1].closed = true;
    settle(rows_[interval_ - 1]);
    rows_[interval_ - 2].issued |= static_cast<uint16_t>(bit_of(Unit::Ex1));
    settle(rows_[interval_ - 2]);
}

int ResourceTable::interval_of(Unit unit) const {
    return busy_cycles(unit == Unit::Mul ? Opcode::mul_vv : unit == Unit::Exp ? Opcode::expi_vi : Opcode::add_vv);
}

void ResourceTable::reserve_unit(Unit unit, int phase) {
    paced_ = true;
    phase_[unit_index(unit)] = phase;
    for (int cycle = phase; cycle < interval_; cycle += interval_of(unit)) {
        rows_[cycle].kept_for = unit;
        settle(rows_[cycle]);
    }
}

void ResourceTable::close_last_of(Unit unit, int every) {
    const int busy = interval_of(unit), phase = phase_[unit_index(unit)];
    for (int cycle = phase + busy - 1; cycle < interval_; cycle += every * busy) {
        rows_[cycle].closed = true;
        settle(rows_[cycle]);
    }
}

int resource_bound(const Kernel &kernel, const std::vector<Op> &ops) {
    const Machine &machine = *kernel.machine;
    const auto ii = [&](int64_t cycles) { return machine.timed() ? static_cast<int>(cycles) : 1; };
    const ResourceTable table(kernel, 0);
    std::array<int, 16> unit{};
    std::array<int, 4> loads{}, stores{};
    int slots = 0, scalar = 0, vector = 0, mask = 0, lanes = 0, weights = 0, rows = 0;
    for (const Op &op : ops) {
        if (op.opcode == Opcode::nop_s) continue;
        const Ports ports = ports_of(kernel, op);
        slots++;
        scalar += ports.scalar;
        vector += ports.vector;
        mask += ports.mask;
        lanes += is_lane_operation(op.opcode);
        weights += op.opcode == Opcode::lw_vi;
        rows += op.opcode == Opcode::gemm_vv;
        const Unit kind = info(op.opcode).unit;
        if (kind == Unit::Vlsu) (op.opcode == Opcode::vreg_ld ? loads : stores)[op.pad]++;
        unit[unit_index(kind)] += table.claim(op).busy;
    }
    const auto per = [](int count, int64_t width) { return static_cast<int>((count + width - 1) / width); };
    int bound = std::max({per(slots, machine.issue.slots), per(scalar, machine.issue.scalar_reads),
                          per(vector, machine.issue.vector_reads), per(mask, machine.issue.mask_reads),
                          per(lanes, machine.issue.lane_ops)});
    for (Unit kind :
         {Unit::Ex1, Unit::Ex2, Unit::Ex3, Unit::Ex4, Unit::Ex5, Unit::Alu, Unit::Mul, Unit::Exp, Unit::Reduce, Unit::Array})
        bound = std::max(bound, unit[unit_index(kind)]);
    for (int pad = 0; pad < 4; pad++)
        bound = std::max({bound, loads[pad] * ii(machine.pad.read_ii), stores[pad] * ii(machine.pad.write_ii)});
    if (machine.timed() && weights > 0 && rows > 0)
        bound = std::max(bound, rows + weights + static_cast<int>(machine.sa.switch_spacing) - 1);
    return std::max(bound, 1);
}

}  // namespace atalla::codegen
