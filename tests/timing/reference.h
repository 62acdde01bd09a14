// The rules of section 17 once more, as literally as they can be written down: every cycle is visited, every queue is a list
// that is searched, nothing is remembered that a rule does not mention. Slow, and shares nothing with the engine but the values
// that packets compute.
#pragma once

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "isa/packet_checker.h"
#include "simulator/semantics.h"
#include "simulator/simulator.h"

namespace atalla {

class Reference {
public:
    Reference(const Machine &machine, const Program &program, MachineState &state)
        : m(machine), program(program), state(state), dcache(static_cast<size_t>(m.dcache.bytes / (m.dcache.line * m.dcache.ways))) {
        for (auto &set : dcache) {
            set.ways.resize(static_cast<size_t>(m.dcache.ways));
            set.bits.assign(static_cast<size_t>(m.dcache.ways), false);
        }
        for (int bank = 0; bank < m.dram.banks; bank++) {
            banks.emplace_back();
        }
    }

    // Cycles, stalls and packets; `rule` is set if a packet was refused.
    struct Outcome {
        int64_t cycles = 0;
        uint64_t packets = 0;
        std::array<uint64_t, stall_causes> stalls{};
        std::string rule;
    };

    Outcome run(uint64_t step_limit) {
        try {
            for (now = 0; !halted || !quiet(); now++) {
                arrivals();
                write_back();
                if (!halted) {
                    step_issue(step_limit);
                }
                for (int pad = 0; pad < 4; pad++) {
                    step_pad(pad);
                }
                step_bus();
                step_dram();
            }
            out.stalls[static_cast<size_t>(Stall::Drain)] = static_cast<uint64_t>(last - halt_cycle);
        } catch (const Refusal &refusal) {
            out.rule = refusal.rule;
        }
        out.cycles = static_cast<int64_t>(out.packets);
        for (const uint64_t stall : out.stalls) {
            out.cycles += static_cast<int64_t>(stall);
        }
        return out;
    }

private:
    using Cycle = int64_t;
    static constexpr Cycle unknown = INT64_MAX, past = -1000000;

    struct Result { Cycle offer; Register reg; };
    struct Beat { uint32_t address; bool write; int master; int row; };
    struct Request { bool write; uint32_t row; bool dma; uint64_t order; Cycle present; Register destination; };
    struct Engine {
        bool busy = false;
        bool load = false;
        DmaTile tile{};
        Register base{};
        uint64_t order = 0;
        Cycle issued = 0, end = unknown;
        std::deque<Beat> to_launch;
        std::vector<int> beats_of_row, launched_of_row, arrived_of_row;
        std::vector<Cycle> complete;  // all beats of the row arrived in this cycle
        std::vector<Cycle> held;      // store: the row may be sent from here
        int launched = 0, arrived = 0, accepted = 0, started = 0;
        Cycle last_accept = past;
    };
    struct PadState {
        std::deque<Request> vlsu, reads, writes;
        Cycle last_read = past, last_write = past;
        int loads_not_written_back = 0, stores_not_started = 0;
    };
    struct Line { int64_t number = -1; std::vector<Cycle> usable; };
    struct DataLine { int64_t number = -1; bool dirty = false; };
    struct Set { std::vector<DataLine> ways; std::vector<bool> bits; };
    struct Bank { std::optional<int64_t> open; Cycle ready = past; int64_t served = 0; };
    struct Queued { Beat beat; uint64_t age; };
    struct Bus { std::deque<std::pair<Cycle, Beat>> requests; };
    struct Btb { int64_t pc = -1, target = 0; };

    const Machine &m;
    const Program &program;
    MachineState &state;
    Outcome out;

    Cycle now = 0, last = past, halt_cycle = 0;
    bool halted = false;

    std::map<Register, Cycle> free_from;       // busy registers
    std::set<Register> held_by_transfer;
    // Units that offer results, by name in the order of rule 14.
    enum { EX5, EX1, EX4, EX3, EX2, MTS, VLSU0, ARRAY = VLSU0 + 4, REDUCE, ALU, MUL, EXP, UNITS };
    std::deque<Result> results[UNITS];
    Cycle accepts_from[UNITS] = {};
    Cycle lost_in[UNITS] = {past, past, past, past, past, past, past, past, past, past, past, past, past, past, past};
    std::vector<Cycle> rows_issued;
    int rows_not_written_back = 0;

    PadState pads[4];
    Engine engines[4];
    std::map<int64_t, Line> icache;  // by index
    std::vector<Set> dcache;
    std::vector<Btb> btb = std::vector<Btb>(1);
    bool access_pending = false;  // EX5 misses
    bool access_is_store = false;
    Cycle access_issued = 0, access_least = 0;
    int access_reads_left = 0;

    Bus instruction_bus, data_bus;
    int last_launched = 5;
    std::vector<Bank> banks;
    std::list<Queued> dram;
    std::multimap<Cycle, Beat> completing;
    uint64_t next_age = 0;
    Cycle last_column = past, last_write_column = past;
    std::map<int, Cycle> last_in_group;

    size_t at = 0;
    Cycle look_up_at = 0;
    bool looked_up = false, registers_open = false;
    Cycle banks_open_at = 0;

    bool quiet() const {
        for (const auto &queue : results) if (!queue.empty()) return false;
        for (int pad = 0; pad < 4; pad++) {
            if (!pads[pad].vlsu.empty() || !pads[pad].reads.empty() || !pads[pad].writes.empty()) return false;
            if (engines[pad].busy && engines[pad].end > now) return false;
        }
        return !access_pending;
    }

    // DRAM data arrive.
    void arrivals() {
        const auto [first, end] = completing.equal_range(now);
        for (auto entry = first; entry != end; entry++) {
            const Beat &beat = entry->second;
            if (beat.master == 0) {
                const int64_t number = beat.address / m.icache.line;
                Line &line = icache[number % (m.icache.bytes / m.icache.line)];
                if (line.number == number) {
                    Cycle &usable = line.usable[static_cast<size_t>(beat.address % m.icache.line / m.icache.sector)];
                    usable = std::min(usable, now + 1);
                }
            } else if (beat.master == 1) {
                if (!beat.write && --access_reads_left == 0) {
                    const Cycle hit = access_is_store ? m.ex5.store_hit : m.ex5.load_hit;
                    finish_access(access_issued, hit + std::max(access_least, now - (access_issued + 1)), access_is_store);
                    access_pending = false;
                }
            } else {
                Engine &engine = engines[beat.master - 2];
                const auto row = static_cast<size_t>(beat.row);
                engine.arrived++;
                if (++engine.arrived_of_row[row] == engine.beats_of_row[row]) engine.complete[row] = now;
                if (!engine.load && engine.to_launch.empty() && engine.arrived == engine.launched) end_transfer(engine, now);
            }
        }
        completing.erase(first, end);
    }

    void end_transfer(Engine &engine, Cycle e) {
        engine.end = e;
        if (!is_constant(engine.base)) free_from[engine.base] = e + 1;
        last = std::max(last, e);
    }

    // Rules 11 to 15.
    void write_back() {
        std::map<std::pair<RegisterClass, int64_t>, int64_t> writes;
        for (int unit = 0; unit < UNITS; unit++) {
            if (results[unit].empty() || results[unit].front().offer > now) continue;
            const Register reg = results[unit].front().reg;
            if (!is_constant(reg)) {
                const int64_t count = reg.cls == RegisterClass::Scalar   ? m.regs.scalar_banks
                                      : reg.cls == RegisterClass::Vector ? m.regs.vector_banks
                                                                         : m.regs.mask_banks;
                int64_t &used = writes[{reg.cls, reg.number % count}];
                if (used == m.wb.writes_per_bank) {
                    lost_in[unit] = now;
                    continue;
                }
                used++;
                free_from[reg] = now + m.wb.offer_to_use;
            }
            results[unit].pop_front();
            last = std::max(last, now + 1);
            if (unit == ARRAY) rows_not_written_back--;
            if (unit >= VLSU0 && unit < ARRAY) pads[unit - VLSU0].loads_not_written_back--;
        }
    }

    const PlacedPacket &packet() const { return program.packets[at]; }

    void stall(Stall cause) { out.stalls[static_cast<size_t>(cause)]++; }

    // Gates 4 to 7.
    void step_issue(uint64_t step_limit) {
        if (now < look_up_at) return stall(Stall::Branch);
        if (!looked_up) look_up();
        if (!bytes_there()) return stall(Stall::Fetch);
        if (!registers_open) {
            bool data = false, dma = false;
            for (const Instruction &slot : packet().packet) {
                const Operands named = operands(slot, m.sa.psum_in);
                for (const auto &list : {named.reads(), named.writes()}) {
                    for (const Register reg : list) {
                        if (is_constant(reg) || !free_from.contains(reg) || free_from[reg] <= now) continue;
                        (held_by_transfer.contains(reg) ? dma : data) = true;
                    }
                }
            }
            if (data) return stall(Stall::Data);
            if (dma) return stall(Stall::Dma);
            registers_open = true;
            banks_open_at = now + bank_wait();
            PacketPads pads_of = unknown_pads;
            for (size_t slot = 0; slot < 4; slot++) {
                const Instruction &i = packet().packet[slot];
                if (info(i.op).unit == Unit::Sdma) pads_of[slot] = static_cast<int8_t>(dma_tile<MachineModel::Hardware>(state, i).pad);
            }
            if (check_packet(packet().packet, m, pads_of)) refuse("50", "");
        }
        if (now < banks_open_at) return stall(Stall::Bank);
        bool unit = false, array = false, vlsu = false, sdma = false;
        for (const Instruction &slot : packet().packet) {
            const int u = unit_of(slot);
            if (u >= 0 && u != ARRAY && (now < accepts_from[u] || lost_in[u] == now)) unit = true;
            if (slot.op == Opcode::gemm_vv) {
                int credits = 0;
                for (const Cycle row : rows_issued) credits += now < row + m.sa.L;
                array |= credits >= m.sa.credits || rows_not_written_back >= m.sa.dst_queue;
            }
            if (slot.op == Opcode::vreg_ld) vlsu |= pads[slot.aux].loads_not_written_back >= m.vlsu.load_queue;
            if (slot.op == Opcode::vreg_st) vlsu |= pads[slot.aux].stores_not_started >= m.vlsu.store_queue;
            if (info(slot.op).unit == Unit::Sdma) {
                const Engine &engine = engines[dma_tile<MachineModel::Hardware>(state, slot).pad];
                sdma |= engine.busy && now <= engine.end;
            }
        }
        if (unit) return stall(Stall::Unit);
        if (array) return stall(Stall::Array);
        if (vlsu) return stall(Stall::Vlsu);
        if (sdma) return stall(Stall::Sdma);
        issue(step_limit);
    }

    void look_up() {
        if (check_packet(packet().packet, m)) refuse("50", "");
        looked_up = true;
        const int64_t first = packet().address / m.icache.line, end = (packet().address + packet_bytes - 1) / m.icache.line;
        for (int64_t number = first; number <= end; number++) {
            Line &line = icache[number % (m.icache.bytes / m.icache.line)];
            if (line.number == number) continue;
            line.number = number;
            line.usable.assign(static_cast<size_t>(m.icache.line / m.icache.sector), unknown);
            for (int64_t offset = 0; offset < m.icache.line; offset += m.icache.sector) {
                instruction_bus.requests.push_back({now + 1, {static_cast<uint32_t>(number * m.icache.line + offset), false, 0, 0}});
            }
        }
    }
    bool bytes_there() {
        for (int64_t byte = packet().address; byte < packet().address + packet_bytes; byte++) {
            const Line &line = icache[byte / m.icache.line % (m.icache.bytes / m.icache.line)];
            if (line.usable[static_cast<size_t>(byte % m.icache.line / m.icache.sector)] > now) return false;
        }
        return true;
    }
    Cycle bank_wait() const {
        std::map<std::pair<RegisterClass, int64_t>, Cycle> reads;
        for (const Instruction &slot : packet().packet) {
            const Operands named = operands(slot, m.sa.psum_in);
            for (const Register reg : named.reads()) {
                if (is_constant(reg)) continue;
                if (reg.cls == RegisterClass::Scalar && m.regs.scalar_conflict) reads[{reg.cls, reg.number % m.regs.scalar_banks}]++;
                if (reg.cls == RegisterClass::Vector && m.regs.vector_conflict) reads[{reg.cls, reg.number % m.regs.vector_banks}]++;
                if (reg.cls == RegisterClass::Mask && m.regs.mask_conflict) reads[{reg.cls, reg.number % m.regs.mask_banks}]++;
            }
        }
        Cycle most = 0;
        for (const auto &[bank, count] : reads) most = std::max(most, count);
        return most >= 2 ? most : 0;
    }

    static int unit_of(const Instruction &slot) {
        switch (info(slot.op).unit) {
            case Unit::Ex1: return EX1;
            case Unit::Ex2: return EX2;
            case Unit::Ex3: return EX3;
            case Unit::Ex4: return EX4;
            case Unit::Ex5: return EX5;
            case Unit::Alu: return ALU;
            case Unit::Mul: return MUL;
            case Unit::Exp: return EXP;
            case Unit::Reduce: return REDUCE;
            case Unit::MoveToScalar: return MTS;
            case Unit::Array: return ARRAY;
            default: return -1;
        }
    }
    // Latency and initiation interval (rule 10).
    std::pair<Cycle, Cycle> timing_of(const Instruction &slot) const {
        switch (info(slot.op).unit) {
            case Unit::Ex1: return {m.ex1.L, m.ex1.ii};
            case Unit::Ex2: {
                const bool root = slot.op == Opcode::rcp_bf || slot.op == Opcode::sqrt_bf;
                const bool convert = slot.op == Opcode::bfts_s || slot.op == Opcode::stbf_s || slot.op == Opcode::mv_stm;
                const Cycle latency = root ? m.ex2.rcp_sqrt_L : convert ? m.ex2.conv_L : m.ex2.divmod_L;
                return {latency, latency + m.ex2.ii_after_L};
            }
            case Unit::Ex3: return {m.ex3.L, m.ex3.ii};
            case Unit::Ex4: return {m.ex4.L, m.ex4.ii};
            case Unit::Alu: {
                const bool compare = info(slot.op).format == Format::VMV || info(slot.op).format == Format::VMS;
                return {compare ? m.vec.cmp_L : m.vec.add_L, m.vec.ii};
            }
            case Unit::Mul: return {m.vec.mul_L, m.vec.ii};
            case Unit::Exp: return {m.vec.exp_L, m.vec.ii};
            case Unit::Reduce: return {m.vec.reduce_L, m.vec.reduce_ii};
            default: return {m.vec.mov_to_scalar_L, m.vec.mov_to_scalar_ii};
        }
    }

    // Bytes of a transfer, one by one.
    static std::set<uint64_t> bytes_of(const DmaTile &tile) {
        std::set<uint64_t> bytes;
        for (uint64_t row = 0; row < tile.rows; row++) {
            for (uint64_t byte = 0; byte < 2 * tile.columns; byte++) bytes.insert(tile.address + 2 * row * tile.pitch + byte);
        }
        return bytes;
    }
    struct InFlight { DmaTile tile; bool load; };

    // Rules 52 and 53.
    void check_hazards() {
        std::vector<InFlight> in_flight;
        for (const Engine &engine : engines) {
            if (engine.busy && now <= engine.end) in_flight.push_back({engine.tile, engine.load});
        }
        const size_t others = in_flight.size();
        for (const Instruction &slot : packet().packet) {
            if (info(slot.op).unit == Unit::Sdma) in_flight.push_back({dma_tile<MachineModel::Hardware>(state, slot), slot.op == Opcode::scpad_ld});
        }
        for (const Instruction &slot : packet().packet) {
            if (slot.op == Opcode::lw_vi && m.sa.weight_buffers == 1) {
                for (const Cycle row : rows_issued) if (now - row < m.sa.switch_spacing) refuse("52", "");
            }
            if (info(slot.op).unit == Unit::Vlsu) {
                const uint32_t row = vreg_row(state, slot);
                for (const InFlight &transfer : in_flight) {
                    const bool same = transfer.tile.pad == slot.aux && row >= transfer.tile.pad_row && row < transfer.tile.pad_row + transfer.tile.rows;
                    if (same && (slot.op == Opcode::vreg_st || transfer.load)) refuse("53", "");
                }
            }
            if (info(slot.op).unit == Unit::Ex5) {
                const bool store = slot.op == Opcode::sw_s || slot.op == Opcode::shw_s;
                const uint32_t bytes = slot.op == Opcode::lw_s || slot.op == Opcode::sw_s ? 4 : 2;
                for (const InFlight &transfer : in_flight) {
                    if (!store && transfer.load) continue;
                    const std::set<uint64_t> used = bytes_of(transfer.tile);
                    for (uint32_t byte = 0; byte < bytes; byte++) {
                        if (used.contains(scalar_address(slot) + byte)) refuse("53", "");
                    }
                }
            }
        }
        for (size_t one = others; one < in_flight.size(); one++) {
            const std::set<uint64_t> used = bytes_of(in_flight[one].tile);
            for (size_t other = 0; other < in_flight.size(); other++) {
                if (one == other || (in_flight[one].load && in_flight[other].load)) continue;
                for (const uint64_t byte : bytes_of(in_flight[other].tile)) if (used.contains(byte)) refuse("53", "");
            }
        }
    }
    uint32_t scalar_address(const Instruction &slot) const { return state.x[slot.a] + static_cast<uint32_t>(slot.imm); }

    void issue(uint64_t step_limit) {
        check_hazards();
        std::array<uint32_t, 4> addresses{};
        std::array<DmaTile, 4> tiles{};
        for (size_t slot = 0; slot < 4; slot++) {
            const Instruction &i = packet().packet[slot];
            if (info(i.op).unit == Unit::Ex5) addresses[slot] = scalar_address(i);
            if (info(i.op).unit == Unit::Vlsu) addresses[slot] = vreg_row(state, i);
            if (info(i.op).unit == Unit::Sdma) tiles[slot] = dma_tile<MachineModel::Hardware>(state, i);
        }
        const PacketOutcome outcome = execute_packet<MachineModel::Hardware>(state, decode_packet(packet()));
        for (size_t slot = 0; slot < 4; slot++) issue_slot(packet().packet[slot], addresses[slot], tiles[slot]);
        out.packets++;
        if (outcome.halted) {
            halted = true;
            halt_cycle = now;
            last = std::max(last, now);
            return;
        }
        go_on(outcome);
        if (out.packets == step_limit) refuse("step limit", "");
    }

    void issue_slot(const Instruction &slot, uint32_t address, const DmaTile &tile) {
        const Operands named = operands(slot, m.sa.psum_in);
        for (const Register reg : named.writes()) {
            if (!is_constant(reg)) {
                free_from[reg] = unknown;
                held_by_transfer.erase(reg);
            }
        }
        const int unit = unit_of(slot);
        if (slot.op == Opcode::gemm_vv) {
            rows_issued.push_back(now);
            rows_not_written_back++;
            results[ARRAY].push_back({now + 1 + m.sa.L, named.destination[0]});
        } else if (unit == EX5) {
            access(slot, address, named);
        } else if (unit >= 0 && unit != ARRAY) {
            const auto [latency, interval] = timing_of(slot);
            results[unit].push_back({now + 1 + latency, named.destination[0]});
            accepts_from[unit] = now + interval;
        } else if (info(slot.op).unit == Unit::Vlsu) {
            const bool write = slot.op == Opcode::vreg_st;
            (write ? pads[slot.aux].stores_not_started : pads[slot.aux].loads_not_written_back)++;
            pads[slot.aux].vlsu.push_back({write, address, false, out.packets, now + m.vlsu.present, write ? Register{} : named.destination[0]});
        } else if (info(slot.op).unit == Unit::Sdma) {
            start_transfer(slot, tile);
        }
    }

    void start_transfer(const Instruction &slot, const DmaTile &tile) {
        Engine &engine = engines[tile.pad];
        engine = Engine{};
        engine.busy = true;
        engine.load = slot.op == Opcode::scpad_ld;
        engine.tile = tile;
        engine.base = {RegisterClass::Scalar, slot.d};
        engine.order = out.packets;
        engine.issued = now;
        if (slot.d != 0) held_by_transfer.insert(engine.base);
        for (uint32_t row = 0; row < tile.rows; row++) {
            std::set<int64_t> blocks;  // rule 29
            for (uint32_t byte = 0; byte < 2 * tile.columns; byte++) {
                blocks.insert((int64_t{tile.address} + 2 * row * tile.pitch + byte) / m.sdma.beat);
            }
            for (const int64_t block : blocks) {
                engine.to_launch.push_back({static_cast<uint32_t>(block * m.sdma.beat), !engine.load, static_cast<int>(tile.pad) + 2, static_cast<int>(row)});
            }
            engine.beats_of_row.push_back(static_cast<int>(blocks.size()));
        }
        engine.launched_of_row.assign(tile.rows, 0);
        engine.arrived_of_row.assign(tile.rows, 0);
        engine.complete.assign(tile.rows, unknown);
        engine.held.assign(tile.rows, unknown);
    }

    // Rules 13 and 39.
    void access(const Instruction &slot, uint32_t address, const Operands &named) {
        const bool store = slot.op == Opcode::sw_s || slot.op == Opcode::shw_s;
        if (!store) results[EX5].push_back({unknown, named.destination[0]});
        const int64_t number = address / m.dcache.line;
        Set &set = dcache[static_cast<size_t>(number) % dcache.size()];
        const Cycle hit = store ? m.ex5.store_hit : m.ex5.load_hit;
        int way = -1;
        for (size_t w = 0; w < set.ways.size(); w++) if (set.ways[w].number == number) way = static_cast<int>(w);
        if (way >= 0) {
            finish_access(now, hit, store);
        } else {
            for (size_t w = set.ways.size(); w-- > 0;) if (set.ways[w].number == -1) way = static_cast<int>(w);
            if (way < 0) way = follow(set, 0, static_cast<int>(set.ways.size()), 0);
            DataLine &line = set.ways[static_cast<size_t>(way)];
            if (line.dirty) request_line(line.number, true);
            request_line(number, false);
            access_pending = true;
            access_is_store = store;
            access_issued = now;
            access_least = line.dirty ? m.dcache.miss_dirty : m.dcache.miss_clean;
            access_reads_left = static_cast<int>(m.dcache.line / m.dcache.beat);
            accepts_from[EX5] = unknown;
            line = {number, false};
        }
        set.ways[static_cast<size_t>(way)].dirty |= store;
        turn_away(set, 0, static_cast<int>(set.ways.size()), 0, way);
    }
    // Tree PLRU over ways low .. low+count-1; bit `node` false points left.
    int follow(const Set &set, int low, int count, size_t node) const {
        if (count == 1) return low;
        return set.bits[node] ? follow(set, low + count / 2, count / 2, 2 * node + 2) : follow(set, low, count / 2, 2 * node + 1);
    }
    void turn_away(Set &set, int low, int count, size_t node, int way) {
        if (count == 1) return;
        const bool in_left = way < low + count / 2;
        set.bits[node] = in_left;
        if (in_left) turn_away(set, low, count / 2, 2 * node + 1, way);
        else turn_away(set, low + count / 2, count / 2, 2 * node + 2, way);
    }
    void request_line(int64_t number, bool write) {
        for (int64_t offset = 0; offset < m.dcache.line; offset += m.dcache.beat) {
            data_bus.requests.push_back({now + 1, {static_cast<uint32_t>(number * m.dcache.line + offset), write, 1, 0}});
        }
    }
    void finish_access(Cycle issued, Cycle latency, bool store) {
        accepts_from[EX5] = issued + latency + m.ex5.ii_after_L;
        if (store) last = std::max(last, issued + 1 + latency);
        else results[EX5].front().offer = issued + 1 + latency;
    }

    // Rules 2 and 40.
    void go_on(const PacketOutcome &outcome) {
        const int64_t pc = packet().address, next = pc + packet_bytes;
        look_up_at = now + 1;
        btb.resize(static_cast<size_t>(m.branch.btb));
        for (const Instruction &slot : packet().packet) {
            if (!is_control(slot.op)) continue;
            Btb &entry = btb[static_cast<size_t>(pc / 4 % m.branch.btb)];
            const bool use = entry.pc == pc && (!is_branch(slot.op) || entry.target <= pc);
            if ((use ? entry.target : next) != outcome.next_pc) look_up_at = now + 1 + m.branch.penalty;
            if (outcome.taken) entry = {pc, outcome.next_pc};
        }
        looked_up = registers_open = false;
        for (at = 0; at < program.packets.size(); at++) if (program.packets[at].address == outcome.next_pc) return;
        refuse("50", "");
    }

    // Rules 27, 28, 51.
    void step_pad(int number) {
        PadState &pad = pads[number];
        Engine &engine = engines[number];
        const auto queue = static_cast<size_t>(m.pad.queue);
        if (pad.reads.size() < queue && pad.writes.size() < queue) {
            int64_t accepted = 0;
            if (engine_presents(engine)) {
                const uint32_t row = engine.tile.pad_row + static_cast<uint32_t>(engine.accepted);
                (engine.load ? pad.writes : pad.reads).push_back({engine.load, row, true, engine.order, now, {}});
                engine.accepted++;
                engine.last_accept = now;
                accepted++;
            }
            if (accepted < m.pad.accept_per_cycle && !pad.vlsu.empty() && pad.vlsu.front().present <= now) {
                (pad.vlsu.front().write ? pad.writes : pad.reads).push_back(pad.vlsu.front());
                pad.vlsu.pop_front();
            }
        }
        const bool read = !pad.reads.empty() && now - pad.last_read >= m.pad.read_ii;
        const bool write = !pad.writes.empty() && now - pad.last_write >= m.pad.write_ii;
        if (read) check_order(pad, pad.reads.front());
        if (write) check_order(pad, pad.writes.front());
        if (read) {
            const Request request = pad.reads.front();
            pad.reads.pop_front();
            pad.last_read = now;
            if (request.dma) engine.held[static_cast<size_t>(engine.started++)] = now + m.pad.read_L + m.sdma.load_extra;
            else results[VLSU0 + number].push_back({now + m.pad.read_L + m.vlsu.load_extra, request.destination});
        }
        if (write) {
            const Request request = pad.writes.front();
            pad.writes.pop_front();
            pad.last_write = now;
            last = std::max(last, now + m.pad.write_land);
            if (!request.dma) pad.stores_not_started--;
            else if (++engine.started == static_cast<int>(engine.tile.rows)) end_transfer(engine, now + m.pad.write_land);
        }
    }
    void check_order(const PadState &pad, const Request &starting) const {
        for (const auto *queue : {&pad.vlsu, &pad.reads, &pad.writes}) {
            for (const Request &other : *queue) {
                if (other.write != starting.write && other.row == starting.row && other.order < starting.order) refuse("51", "");
            }
        }
    }
    bool engine_presents(const Engine &engine) const {
        if (!engine.busy || engine.accepted == static_cast<int>(engine.tile.rows) || now - engine.last_accept < m.sdma.row_ii) return false;
        if (engine.load) return engine.complete[static_cast<size_t>(engine.accepted)] < now;
        int not_fully_launched = 0;
        for (size_t row = 0; row < static_cast<size_t>(engine.accepted); row++) not_fully_launched += engine.launched_of_row[row] < engine.beats_of_row[row];
        return now >= engine.issued + m.sdma.setup && not_fully_launched < m.sdma.store_rows_ahead;
    }

    // Rule 34.
    void step_bus() {
        std::set<int> served;
        for (int64_t launches = 0; launches < m.bus.launches; launches++) {
            for (int offset = 1; offset <= 6; offset++) {
                const int master = (last_launched + offset) % 6;
                if (served.contains(master) || !may_launch(master)) continue;
                dram.push_back({take(master), next_age++});
                served.insert(last_launched = master);
                break;
            }
        }
    }
    bool may_launch(int master) const {
        if (master < 2) {
            const Bus &bus = master == 0 ? instruction_bus : data_bus;
            return !bus.requests.empty() && bus.requests.front().first <= now;
        }
        const Engine &engine = engines[master - 2];
        if (!engine.busy || engine.to_launch.empty() || engine.launched - engine.arrived >= m.sdma.outstanding) return false;
        if (engine.load) return now >= engine.issued + m.sdma.setup;
        return engine.held[static_cast<size_t>(engine.to_launch.front().row)] <= now;
    }
    Beat take(int master) {
        if (master < 2) {
            Bus &bus = master == 0 ? instruction_bus : data_bus;
            const Beat beat = bus.requests.front().second;
            bus.requests.pop_front();
            return beat;
        }
        Engine &engine = engines[master - 2];
        const Beat beat = engine.to_launch.front();
        engine.to_launch.pop_front();
        engine.launched++;
        engine.launched_of_row[static_cast<size_t>(beat.row)]++;
        return beat;
    }

    // Rules 35 to 38.
    int bank_of(const Beat &beat) const { return static_cast<int>(beat.address / m.dram.row_bytes % m.dram.banks); }
    int64_t row_of(const Beat &beat) const { return beat.address / m.dram.row_bytes / m.dram.banks; }
    void step_dram() {
        if (now >= m.dram.refresh_interval && now % m.dram.refresh_interval < m.dram.refresh) {
            for (Bank &bank : banks) bank = Bank{};
            return;
        }
        for (int index = 0; index < m.dram.banks; index++) {
            Bank &bank = banks[static_cast<size_t>(index)];
            const Queued *first_hit = nullptr, *first_miss = nullptr;
            for (const Queued &queued : dram) {
                if (bank_of(queued.beat) != index) continue;
                const Queued *&first = bank.open == row_of(queued.beat) ? first_hit : first_miss;
                if (first == nullptr) first = &queued;
            }
            if (now < bank.ready || first_miss == nullptr) continue;
            if (first_hit == nullptr || (bank.served >= m.dram.row_hit_cap && first_miss->age < first_hit->age)) {
                bank.ready = now + (bank.open ? m.dram.open_conflict : m.dram.open_closed);
                bank.open = row_of(first_miss->beat);
                bank.served = 0;
            }
        }
        if (now - last_column < m.dram.cas) return;
        for (auto queued = dram.begin(); queued != dram.end(); queued++) {
            Bank &bank = banks[static_cast<size_t>(bank_of(queued->beat))];
            const int group = bank_of(queued->beat) % static_cast<int>(m.dram.groups);
            if (bank.open != row_of(queued->beat) || now < bank.ready) continue;
            if (last_in_group.contains(group) && now - last_in_group[group] < m.dram.cas_same_group) continue;
            if (!queued->beat.write && now - last_write_column < m.dram.write_turnaround) continue;
            completing.insert({now + m.dram.complete, queued->beat});
            bank.served++;
            last_column = last_in_group[group] = now;
            if (queued->beat.write) last_write_column = now;
            dram.erase(queued);
            return;
        }
    }
};

}  // namespace atalla
