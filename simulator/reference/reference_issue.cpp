// Issue and write-back (rules 1 to 24, 40 to 53).
#include "simulator/reference/reference.h"

#include <fmt/format.h>

namespace atalla::reference {

// Rules 11 to 15.
void Model::write_back() {
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

// Gates 4 to 7.
void Model::step_issue() {
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
            if (info(i.op).unit == Unit::Sdma)
                pads_of[slot] = static_cast<int8_t>(dma_tile<MachineModel::Hardware>(state, i).pad);
        }
        if (const auto violation = check_packet(packet().packet, m, pads_of)) refuse("50", *violation);
        for (const Instruction &i : packet().packet) {
            if (info(i.op).unit != Unit::Sdma) continue;
            const DmaTile tile = dma_tile<MachineModel::Hardware>(state, i);
            if (tile.rows > m.sdma.max_rows || tile.columns > m.sdma.max_cols)
                refuse("50", "a transfer moves more than sdma.max_rows x sdma.max_cols elements");
        }
    }
    if (now < banks_open_at) return stall(Stall::Bank);
    bool unit = false, array = false, vlsu = false, sdma = false;
    for (const Instruction &slot : packet().packet) {
        const int u = unit_of(slot);
        if (u >= 0 && u != ARRAY && (now < accepts_from[u] || (lost_in.contains(u) && lost_in[u] == now))) unit = true;
        if (slot.op == Opcode::gemm_vv) {
            int credits = 0;
            for (const Cycle row : rows_issued) credits += now < row + m.sa.L + m.sa.credit_return;
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
    issue();
}

void Model::look_up() {
    if (const auto violation = check_packet(packet().packet, m)) refuse("50", *violation);
    looked_up = true;
    const int64_t first = packet().address / m.icache.line, end = (packet().address + packet_bytes - 1) / m.icache.line;
    for (int64_t number = first; number <= end; number++) {
        Line &line = icache[number % (m.icache.bytes / m.icache.line)];
        if (line.number == number) continue;
        line.number = number;
        out.counters.icache_misses++;
        line.usable.assign(static_cast<size_t>(m.icache.line / m.icache.sector), unknown);
        for (int64_t offset = 0; offset < m.icache.line; offset += m.icache.sector) {
            instruction_bus.requests.push_back(
                {now + 1, {static_cast<uint32_t>(number * m.icache.line + offset), false, 0, 0}});
        }
    }
}

bool Model::bytes_there() {
    for (int64_t byte = packet().address; byte < packet().address + packet_bytes; byte++) {
        const Line &line = icache[byte / m.icache.line % (m.icache.bytes / m.icache.line)];
        if (line.usable[static_cast<size_t>(byte % m.icache.line / m.icache.sector)] > now) return false;
    }
    return true;
}

Model::Cycle Model::bank_wait() const {
    std::map<std::pair<RegisterClass, int64_t>, Cycle> reads;
    for (const Instruction &slot : packet().packet) {
        const Operands named = operands(slot, m.sa.psum_in);
        for (const Register reg : named.reads()) {
            if (is_constant(reg)) continue;
            if (reg.cls == RegisterClass::Scalar && m.regs.scalar_conflict)
                reads[{reg.cls, reg.number % m.regs.scalar_banks}]++;
            if (reg.cls == RegisterClass::Vector && m.regs.vector_conflict)
                reads[{reg.cls, reg.number % m.regs.vector_banks}]++;
            if (reg.cls == RegisterClass::Mask && m.regs.mask_conflict) reads[{reg.cls, reg.number % m.regs.mask_banks}]++;
        }
    }
    Cycle most = 0;
    for (const auto &[bank, count] : reads) most = std::max(most, count);
    return most >= 2 ? most : 0;
}

int Model::unit_of(const Instruction &slot) {
    switch (info(slot.op).unit) {
        case Unit::Ex1:
            return EX1;
        case Unit::Ex2:
            return EX2;
        case Unit::Ex3:
            return EX3;
        case Unit::Ex4:
            return EX4;
        case Unit::Ex5:
            return EX5;
        case Unit::Alu:
            return ALU;
        case Unit::Mul:
            return MUL;
        case Unit::Exp:
            return EXP;
        case Unit::Reduce:
            return REDUCE;
        case Unit::MoveToScalar:
            return MTS;
        case Unit::Array:
            return ARRAY;
        default:
            return -1;
    }
}

// Latency and initiation interval (rule 10).
std::pair<Model::Cycle, Model::Cycle> Model::timing_of(const Instruction &slot) const {
    switch (info(slot.op).unit) {
        case Unit::Ex1:
            return {m.ex1.L, m.ex1.ii};
        case Unit::Ex2: {
            const bool root = slot.op == Opcode::rcp_bf || slot.op == Opcode::sqrt_bf;
            const bool convert = slot.op == Opcode::bfts_s || slot.op == Opcode::stbf_s || slot.op == Opcode::mv_stm;
            const Cycle latency = root ? m.ex2.rcp_sqrt_L : convert ? m.ex2.conv_L : m.ex2.divmod_L;
            return {latency, latency + m.ex2.ii_after_L};
        }
        case Unit::Ex3:
            return {m.ex3.L, m.ex3.ii};
        case Unit::Ex4:
            return {m.ex4.L, m.ex4.ii};
        case Unit::Alu: {
            const bool compare = info(slot.op).format == Format::VMV || info(slot.op).format == Format::VMS;
            return {compare ? m.vec.cmp_L : m.vec.add_L, m.vec.ii};
        }
        case Unit::Mul:
            return {m.vec.mul_L, m.vec.ii};
        case Unit::Exp:
            return {m.vec.exp_L, m.vec.ii};
        case Unit::Reduce:
            return {m.vec.reduce_L, m.vec.reduce_ii};
        default:
            return {m.vec.mov_to_scalar_L, m.vec.mov_to_scalar_ii};
    }
}

// Bytes of a transfer, one by one.
std::set<uint64_t> Model::bytes_of(const DmaTile &tile) {
    std::set<uint64_t> bytes;
    for (uint64_t row = 0; row < tile.rows; row++) {
        for (uint64_t byte = 0; byte < 2 * tile.columns; byte++) bytes.insert(tile.address + 2 * row * tile.pitch + byte);
    }
    return bytes;
}

// Rules 52 and 53.
void Model::check_hazards() {
    std::vector<InFlight> in_flight;
    for (const Engine &engine : engines) {
        if (engine.busy && now <= engine.end) in_flight.push_back({engine.tile, engine.load});
    }
    const size_t others = in_flight.size();
    for (const Instruction &slot : packet().packet) {
        if (info(slot.op).unit == Unit::Sdma)
            in_flight.push_back({dma_tile<MachineModel::Hardware>(state, slot), slot.op == Opcode::scpad_ld});
    }
    for (const Instruction &slot : packet().packet) {
        if (slot.op == Opcode::lw_vi && m.sa.weight_buffers == 1) {
            for (const Cycle row : rows_issued)
                if (now - row < m.sa.switch_spacing)
                    refuse("52",
                           fmt::format("lw.vi issues {} cycles after a gemm.vv, less than {}", now - row, m.sa.switch_spacing));
        }
        if (info(slot.op).unit == Unit::Vlsu) {
            const uint32_t row = vreg_row(state, slot);
            for (const InFlight &transfer : in_flight) {
                const bool same = transfer.tile.pad == slot.aux && row >= transfer.tile.pad_row &&
                                  row < transfer.tile.pad_row + transfer.tile.rows;
                if (same && (slot.op == Opcode::vreg_st || transfer.load))
                    refuse("53", fmt::format("{} names row {} of pad {}, which belongs to a transfer", info(slot.op).mnemonic,
                                             row, slot.aux));
            }
        }
        if (info(slot.op).unit == Unit::Ex5) {
            const bool store = slot.op == Opcode::sw_s || slot.op == Opcode::shw_s;
            const uint32_t bytes = slot.op == Opcode::lw_s || slot.op == Opcode::sw_s ? 4 : 2;
            for (const InFlight &transfer : in_flight) {
                if (!store && transfer.load) continue;
                const std::set<uint64_t> used = bytes_of(transfer.tile);
                for (uint32_t byte = 0; byte < bytes; byte++) {
                    if (used.contains(scalar_address(slot) + byte))
                        refuse("53", fmt::format("{} touches memory at 0x{:08X}, which belongs to a transfer",
                                                 info(slot.op).mnemonic, scalar_address(slot)));
                }
            }
        }
    }
    for (size_t one = others; one < in_flight.size(); one++) {
        const std::set<uint64_t> used = bytes_of(in_flight[one].tile);
        for (size_t other = 0; other < in_flight.size(); other++) {
            if (one == other || (in_flight[one].load && in_flight[other].load)) continue;
            for (const uint64_t byte : bytes_of(in_flight[other].tile))
                if (used.contains(byte)) refuse("53", fmt::format("two transfers touch memory at 0x{:08X}", byte));
        }
    }
}

void Model::issue() {
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
    issues[at]++;
    out.counters.packets++;
    if (outcome.halted) {
        halted = true;
        halt_cycle = now;
        last = std::max(last, now);
        return;
    }
    go_on(outcome);
    if (out.counters.packets == options.step_limit) refuse_step_limit(options.step_limit);
}

void Model::issue_slot(const Instruction &slot, uint32_t address, const DmaTile &tile) {
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
        const Cycle longest = std::max(m.sa.L + m.sa.credit_return, m.sa.switch_spacing);
        while (!rows_issued.empty() && now - rows_issued.front() >= longest) rows_issued.pop_front();
        out.counters.array_rows++;
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
        pads[slot.aux].vlsu.push_back(
            {write, address, false, out.counters.packets, now + m.vlsu.present, write ? Register{} : named.destination[0], at});
    } else if (info(slot.op).unit == Unit::Sdma) {
        start_transfer(slot, tile);
    }
}

// Rules 2 and 40.
void Model::go_on(const PacketOutcome &outcome) {
    const int64_t pc = packet().address, next = pc + packet_bytes;
    look_up_at = now + 1;
    btb.resize(static_cast<size_t>(m.branch.btb));
    for (const Instruction &slot : packet().packet) {
        if (!is_control(slot.op)) continue;
        Btb &entry = btb[static_cast<size_t>(pc / 4 % m.branch.btb)];
        const bool use = entry.pc == pc && (!is_branch(slot.op) || entry.target <= pc);
        if ((use ? entry.target : next) != outcome.next_pc) {
            look_up_at = now + 1 + m.branch.penalty;
            out.counters.branch_mispredicts++;
        }
        if (outcome.taken) entry = {pc, outcome.next_pc};
    }
    looked_up = registers_open = false;
    go_to(outcome.next_pc);
}

void Model::go_to(int64_t address) {
    state.pc = address;
    if (!index_of.contains(address)) refuse_missing_packet(address);
    at = index_of[address];
}

}  // namespace atalla::reference
