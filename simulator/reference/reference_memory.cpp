// Scalar memory, pads, transfers, bus and DRAM (rules 25 to 39, 51).
#include "simulator/reference/reference.h"

#include <fmt/format.h>

namespace atalla::reference {

// DRAM data arrive.
void Model::arrivals() {
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
    outstanding -= static_cast<uint64_t>(std::distance(first, end));
    if (outstanding == 0) busy_since_column = 0;
    completing.erase(first, end);
}

void Model::end_transfer(Engine &engine, Cycle e) {
    engine.end = e;
    if (!is_constant(engine.base)) free_from[engine.base] = e + 1;
    last = std::max(last, e);
}

void Model::start_transfer(const Instruction &slot, const DmaTile &tile) {
    Engine &engine = engines[tile.pad];
    engine = Engine{};
    engine.busy = true;
    engine.load = slot.op == Opcode::scpad_ld;
    engine.tile = tile;
    engine.base = {RegisterClass::Scalar, slot.d};
    engine.order = out.counters.packets;
    engine.packet = at;
    engine.issued = now;
    if (slot.d != 0) held_by_transfer.insert(engine.base);
    for (uint32_t row = 0; row < tile.rows; row++) {
        std::set<int64_t> blocks;  // rule 29
        for (uint32_t byte = 0; byte < 2 * tile.columns; byte++) {
            blocks.insert((int64_t{tile.address} + 2 * row * tile.pitch + byte) / m.sdma.beat);
        }
        for (const int64_t block : blocks) {
            engine.to_launch.push_back({static_cast<uint32_t>(block * m.sdma.beat), !engine.load,
                                        static_cast<int>(tile.pad) + 2, static_cast<int>(row)});
        }
        engine.beats_of_row.push_back(static_cast<int>(blocks.size()));
    }
    engine.launched_of_row.assign(tile.rows, 0);
    engine.arrived_of_row.assign(tile.rows, 0);
    engine.complete.assign(tile.rows, unknown);
    engine.held.assign(tile.rows, unknown);
}

// Rules 13 and 39.
void Model::access(const Instruction &slot, uint32_t address, const Operands &named) {
    const bool store = slot.op == Opcode::sw_s || slot.op == Opcode::shw_s;
    if (!store) results[EX5].push_back({unknown, named.destination[0]});
    const int64_t number = address / m.dcache.line;
    Set &set = dcache[static_cast<size_t>(number) % dcache.size()];
    const Cycle hit = store ? m.ex5.store_hit : m.ex5.load_hit;
    int way = -1;
    for (size_t w = 0; w < set.ways.size(); w++)
        if (set.ways[w].number == number) way = static_cast<int>(w);
    if (way >= 0) {
        finish_access(now, hit, store);
    } else {
        for (size_t w = set.ways.size(); w-- > 0;)
            if (set.ways[w].number == -1) way = static_cast<int>(w);
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
        out.counters.dcache_misses++;
        line = {number, false};
    }
    set.ways[static_cast<size_t>(way)].dirty |= store;
    turn_away(set, 0, static_cast<int>(set.ways.size()), 0, way);
}

// Tree PLRU over ways low .. low+count-1; bit `node` false points left.
int Model::follow(const Set &set, int low, int count, size_t node) const {
    if (count == 1) return low;
    return set.bits[node] ? follow(set, low + count / 2, count / 2, 2 * node + 2) : follow(set, low, count / 2, 2 * node + 1);
}

void Model::turn_away(Set &set, int low, int count, size_t node, int way) {
    if (count == 1) return;
    const bool in_left = way < low + count / 2;
    set.bits[node] = in_left;
    if (in_left)
        turn_away(set, low, count / 2, 2 * node + 1, way);
    else
        turn_away(set, low + count / 2, count / 2, 2 * node + 2, way);
}

void Model::request_line(int64_t number, bool write) {
    for (int64_t offset = 0; offset < m.dcache.line; offset += m.dcache.beat) {
        data_bus.requests.push_back({now + 1, {static_cast<uint32_t>(number * m.dcache.line + offset), write, 1, 0}});
    }
}

void Model::finish_access(Cycle issued, Cycle latency, bool store) {
    accepts_from[EX5] = issued + latency + m.ex5.ii_after_L;
    if (store)
        last = std::max(last, issued + 1 + latency);
    else
        results[EX5].front().offer = issued + 1 + latency;
}

// Rules 27, 28, 51.
void Model::step_pad(int number) {
    PadState &pad = pads[number];
    Engine &engine = engines[number];
    const auto queue = static_cast<size_t>(m.pad.queue);
    if (pad.reads.size() < queue && pad.writes.size() < queue) {
        int64_t accepted = 0;
        if (engine_presents(engine)) {
            const uint32_t row = engine.tile.pad_row + static_cast<uint32_t>(engine.accepted);
            (engine.load ? pad.writes : pad.reads).push_back({engine.load, row, true, engine.order, now, {}, engine.packet});
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
    if (read) check_order(number, pad.reads.front());
    if (write) check_order(number, pad.writes.front());
    if (read) {
        const Request request = pad.reads.front();
        pad.reads.pop_front();
        pad.last_read = now;
        out.counters.pad_reads[static_cast<size_t>(number)]++;
        if (request.dma)
            engine.held[static_cast<size_t>(engine.started++)] = now + m.pad.read_L + m.sdma.load_extra;
        else
            results[VLSU0 + number].push_back({now + m.pad.read_L + m.vlsu.load_extra, request.destination});
    }
    if (write) {
        const Request request = pad.writes.front();
        pad.writes.pop_front();
        pad.last_write = now;
        out.counters.pad_writes[static_cast<size_t>(number)]++;
        last = std::max(last, now + m.pad.write_land);
        if (!request.dma)
            pad.stores_not_started--;
        else if (++engine.started == static_cast<int>(engine.tile.rows))
            end_transfer(engine, now + m.pad.write_land);
    }
}

void Model::check_order(int number, const Request &starting) const {
    const PadState &pad = pads[number];
    for (const auto *queue : {&pad.vlsu, &pad.reads, &pad.writes}) {
        for (const Request &other : *queue) {
            if (other.write != starting.write && other.row == starting.row && other.order < starting.order)
                throw PacketRefusal{starting.packet,
                                    {"51", fmt::format("its {} of row {} of pad {} starts in cycle {}, while an older {} waits",
                                                       starting.write ? "write" : "read", starting.row, number, now,
                                                       other.write ? "write" : "read")}};
        }
    }
}

bool Model::engine_presents(const Engine &engine) const {
    if (!engine.busy || engine.accepted == static_cast<int>(engine.tile.rows) || now - engine.last_accept < m.sdma.row_ii)
        return false;
    if (engine.load) return engine.complete[static_cast<size_t>(engine.accepted)] < now;
    int not_fully_launched = 0;
    for (size_t row = 0; row < static_cast<size_t>(engine.accepted); row++)
        not_fully_launched += engine.launched_of_row[row] < engine.beats_of_row[row];
    return now >= engine.issued + m.sdma.setup && not_fully_launched < m.sdma.store_rows_ahead;
}

// Rule 34.
void Model::step_bus() {
    std::set<int> served;
    for (int64_t launches = 0; launches < m.bus.launches; launches++) {
        for (int offset = 1; offset <= 6; offset++) {
            const int master = (last_launched + offset) % 6;
            if (served.contains(master) || !may_launch(master)) continue;
            dram.push_back({take(master), next_age++});
            outstanding++;
            served.insert(last_launched = master);
            break;
        }
    }
}

bool Model::may_launch(int master) const {
    if (master < 2) {
        const Bus &bus = master == 0 ? instruction_bus : data_bus;
        return !bus.requests.empty() && bus.requests.front().first <= now;
    }
    const Engine &engine = engines[master - 2];
    if (!engine.busy || engine.to_launch.empty() || engine.launched - engine.arrived >= m.sdma.outstanding) return false;
    if (engine.load) return now >= engine.issued + m.sdma.setup;
    return engine.held[static_cast<size_t>(engine.to_launch.front().row)] <= now;
}

Model::Beat Model::take(int master) {
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

void Model::step_dram() {
    if (outstanding > 0) busy_since_column++;
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
        out.counters.dram_beats++;
        out.counters.dram_busy += busy_since_column;
        busy_since_column = 0;
        bank.served++;
        last_column = last_in_group[group] = now;
        if (queued->beat.write) last_write_column = now;
        dram.erase(queued);
        return;
    }
}

}  // namespace atalla::reference
