#include "codegen/delays.h"

#include <algorithm>
#include <array>
#include <set>

#include "codegen/resources.h"
#include "isa/error.h"

namespace atalla::codegen {

namespace {

// What takes time, longest first.
constexpr std::array<Opcode, 3> waits = {Opcode::rcp_bf, Opcode::mul_s, Opcode::add_s};

Op reads(Reg reg) {
    Op op;
    op.opcode = Opcode::or_s;
    op.dst = zero_scalar;
    op.src = {reg, zero_scalar};
    return op;
}

}  // namespace

Op Delays::starts(Opcode opcode) {
    Op op;
    op.opcode = opcode;
    op.dst = delay_;
    op.src = {zero_scalar, zero_scalar};
    if (opcode == Opcode::rcp_bf) op.src = {kernel_.constant(0x3F800000)};
    return op;
}

// The fewest cycles between two packets of so many, which `next` issues.
template <typename Next>
int Delays::least_cycles(int total, int from, int to, int distance, const Next &next) const {
    const int end = to + distance * total;
    LeastCycles pace(machine_, delay_);
    int cycle = 0;
    for (int p = from; p <= end; p++) {
        if (p == to && to == total && distance == 0) return p > from ? cycle + 1 : cycle;  // the end of the block itself
        cycle = next(pace, p % total);
    }
    return cycle;
}

int Delays::least_cycles(const std::vector<OpGroup> &packets, int from, int to, int distance) const {
    return least_cycles(static_cast<int>(packets.size()), from, to, distance,
                        [&](LeastCycles &pace, int p) { return pace.next(packets[static_cast<size_t>(p)]); });
}

std::vector<OpGroup> Delays::delay_packets(int cycles) {
    if (!delay_.defined()) delay_ = kernel_.scalar("delay");
    // An operation and the one that reads its result take its latency and a cycle.
    constexpr size_t nothing = waits.size();
    const auto taken = [&](size_t choice) { return choice == nothing ? 1 : result_latency(machine_, waits[choice]) + 1; };
    // A packet costs what it takes to fetch now and then, a cycle too many is lost every time.
    constexpr int packet_cost = 1, lost_cycle_cost = 4;
    std::vector<int> cost(cycles + 1, 0);
    std::vector<size_t> choices(cycles + 1, nothing);
    for (int left = 1; left <= cycles; left++)
        for (size_t choice = 0; choice <= nothing; choice++) {
            const int rest = std::max(0, left - taken(choice)), lost = std::max(0, taken(choice) - left);
            const int all = cost[rest] + lost * lost_cycle_cost + (choice == nothing ? 1 : 2) * packet_cost;
            if (choice > 0 && all >= cost[left]) continue;
            cost[left] = all;
            choices[left] = choice;
        }
    Op read = reads(zero_scalar);
    std::vector<OpGroup> packets;
    for (int left = cycles; left > 0; left -= taken(choices[left])) {
        if (choices[left] != nothing) {
            packets.push_back({starts(waits[choices[left]])});
            read = reads(delay_);
        } else {
            read = reads(zero_scalar);
        }
        packets.push_back({read});
    }
    return packets;
}

// Makes a packet up to `at` wait for a result that one behind `from` starts, in slots that are free. False if no such packets
// are there, or none is so far from the other that not a cycle is lost. Below 0, `from` is in the iteration before.
bool Delays::share_delay(ScheduleGraph &graph, const std::vector<OpGroup> &packets, const std::vector<int> &packet_of, int from,
                         int at, int missing) {
    const int total = static_cast<int>(packets.size());
    if (at >= total) return false;  // behind the last
    if (!delay_.defined()) delay_ = kernel_.scalar("delay");
    const auto packet_at = [&](int place) { return place < 0 ? place + total : place; };
    const auto fits = [&](int place, const Op &op) {
        const OpGroup &packet = packets[packet_at(place)];
        ResourceTable table(kernel_, 0);
        for (const Op &other : packet) table.take(other, 0);
        const auto parted = [&](const Op &other) {
            return other.side != nullptr || (other.dst.defined() && std::count(op.src.begin(), op.src.end(), other.dst) > 0);
        };
        return table.fits(op, 0) && std::none_of(packet.begin(), packet.end(), parted);
    };
    const auto in_use = [&](int first) {
        for (int place = first; place <= at; place++)
            if (std::ranges::any_of(packets[packet_at(place)], [&](const Op &op) { return touches(op); })) return true;
        return false;
    };
    const auto bank = [&]() -> int8_t & { return kernel_.registers[delay_.id].bank; };
    const int8_t bank_before = bank();
    for (const Opcode opcode : waits) {
        const Op start = starts(opcode);
        // In the iteration before as early as can be, and for a part of the time if need be: where the code stands still for
        // results behind the row, the time passes as well.
        const bool before = from < 0;
        const int latency = result_latency(machine_, opcode), apart = std::max(before ? 1 : 0, latency - missing);
        for (int tried = 0; apart > 0 && apart < latency && from + apart + tried <= at; tried++) {
            const int reader = before ? from + apart + tried : at - tried;
            // A packet does not read what it makes, of the iteration before either.
            if (packet_at(reader - apart) == packet_at(reader) || in_use(reader - apart)) continue;
            for (int8_t b = 0; b < static_cast<int8_t>(machine_.regs.scalar_banks); b++) {
                bank() = bank_before >= 0 ? bank_before : b;
                if (!fits(reader, reads(delay_)) || !fits(reader - apart, start)) continue;
                graph.cycle = packet_of;
                graph.ops.push_back(start);
                graph.cycle.push_back(packet_at(reader - apart));
                graph.ops.push_back(reads(delay_));
                graph.cycle.push_back(packet_at(reader));
                return true;
            }
        }
    }
    bank() = bank_before;
    return false;
}

// Puts packets that take the missing cycles before packet `at`.
void Delays::insert_delay(ScheduleGraph &graph, const std::vector<int> &packet_of, int at, int missing) {
    const std::vector<OpGroup> delays = delay_packets(missing);
    const int room = static_cast<int>(delays.size()) + 1;
    for (size_t i = 0; i < graph.cycle.size(); i++) graph.cycle[i] = packet_of[i] + (packet_of[i] < at ? 0 : room);
    for (size_t d = 0; d < delays.size(); d++) {
        graph.ops.push_back(delays[d].front());
        graph.cycle.push_back(at + static_cast<int>(d));
    }
}

PacketOrder Delays::keep_apart(ScheduleGraph &graph, bool overlapping) {
    // A round moves the first packet that is too early, and what is far enough stays so. A wait that runs beside others gains
    // less than it takes: a packet may need several.
    constexpr size_t most_rounds_each = 64;
    std::set<int> kept_apart;
    for (const Edge &e : graph.edges)
        if (e.hard) kept_apart.insert(e.to);
    for (size_t round = 0; round <= kept_apart.size() * most_rounds_each; round++) {
        PacketOrder order(graph);
        const std::vector<int> &packet_of = order.packet_of();
        const int total = static_cast<int>(order.size());
        const auto issue = [&](LeastCycles &pace, int p) {
            const std::span<const int> packet = order.packet(static_cast<size_t>(p));
            return pace.next(packet.size(), [&](size_t i) -> const Op & { return graph.ops[static_cast<size_t>(packet[i])]; });
        };
        int from = 0, at = -1, missing = 0;
        const auto began = [&](const Edge &e) {
            return e.distance == 0 ? packet_of[e.from] : e.distance == 1 ? packet_of[e.from] - total : -total;
        };
        for (const Edge &e : graph.edges) {
            // A packet takes a cycle at least.
            if (!e.hard || packet_of[e.to] - packet_of[e.from] + e.distance * total >= e.latency) continue;
            const int apart = least_cycles(total, packet_of[e.from], packet_of[e.to], e.distance, issue);
            if (apart < e.latency && (at < 0 || packet_of[e.to] < at)) {
                at = packet_of[e.to];
                from = began(e);
                missing = e.latency - apart;
            } else if (apart < e.latency && packet_of[e.to] == at) {
                from = std::max(from, began(e));
                missing = std::max(missing, e.latency - apart);
            }
        }
        if (at < 0) return order;
        const std::vector<OpGroup> packets = gather(graph.ops, {}, order);
        if (!share_delay(graph, packets, packet_of, std::max(from, 0), at, missing) &&
            (from >= 0 || !overlapping || !share_delay(graph, packets, packet_of, from, at, missing)))
            insert_delay(graph, packet_of, at, missing);
    }
    throw Error("cannot generate code: the distance that the array's weights need could not be kept");
}

void Delays::keep_weights_apart(Blocks &blocks, const std::function<bool(size_t)> &is_loop_body) {
    if (!machine_.timed() || machine_.sa.switch_spacing <= 1) return;
    const int spacing = static_cast<int>(machine_.sa.switch_spacing);
    // Shortest distance, in packets, from a row to the start of each block: relaxed until nothing changes.
    std::vector<int> distance(blocks.size(), spacing);
    auto leave = [&](size_t b) {
        const std::vector<OpGroup> &packets = blocks[b].packets;
        const int count = static_cast<int>(packets.size());
        int last_row = -1;
        bool weights = false;
        for (int p = 0; p < count; p++)
            for (const Op &op : packets[p]) {
                if (op.opcode == Opcode::gemm_vv) last_row = p;
                weights = weights || op.opcode == Opcode::lw_vi;
            }
        if (weights && last_row < 0) return spacing;  // its weights are so far from all rows before them
        int since = count == 0      ? distance[b]
                    : last_row >= 0 ? least_cycles(packets, last_row, count, 0)
                                    : distance[b] + least_cycles(packets, 0, count, 0);
        return std::min(since, spacing);
    };
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t b = 0; b < blocks.size(); b++) {
            const int out = leave(b);
            auto reach = [&](size_t to) {
                if (to < blocks.size() && out < distance[to]) {
                    distance[to] = out;
                    changed = true;
                }
            };
            if (!blocks[b].end.leaves()) reach(b + 1);
            if (blocks[b].end.kind == Terminator::Loop || blocks[b].end.kind == Terminator::Skip) reach(blocks[b].end.target);
        }
    }
    for (size_t b = 0; b < blocks.size(); b++) {
        int first = -1;
        bool rows_before = false;  // rows of this block have their own edges
        for (size_t p = 0; p < blocks[b].packets.size() && first < 0; p++)
            for (const Op &op : blocks[b].packets[p]) {
                if (op.opcode == Opcode::lw_vi) first = static_cast<int>(p);
                if (op.opcode == Opcode::gemm_vv && first < 0) rows_before = true;
            }
        if (first < 0 || rows_before) continue;
        const int since = distance[b] + least_cycles(blocks[b].packets, 0, first, 0);
        if (since >= spacing) continue;
        // A loop's own iterations are apart already: the delay goes in front of it.
        const bool in_front = is_loop_body(b) && b > 0;
        const std::vector<OpGroup> delays = delay_packets(spacing - since);
        for (const size_t at : in_front ? blocks_in_front(blocks, b) : std::vector<size_t>{b}) {
            std::vector<OpGroup> &packets = blocks[at].packets;
            packets.insert(in_front ? packets.end() : packets.begin() + first, delays.begin(), delays.end());
        }
    }
}

bool Delays::touches(const Op &op) const { return delay_.defined() && (op.dst == delay_ || reads(op, delay_)); }

}  // namespace atalla::codegen
