// Packets: list scheduling of straight-line blocks, modulo scheduling of innermost loops.
#include <algorithm>
#include <numeric>

#include "codegen/dependence.h"
#include "codegen/passes.h"
#include "codegen/resources.h"
#include "isa/error.h"

namespace atalla::codegen {

namespace {

bool is_marker(const Op &op) { return op.opcode == Opcode::nop_s; }

// A block's operations with their edges and, once scheduled, their cycles.
struct Graph {
    std::vector<Op> ops;
    std::vector<Edge> edges;
    std::vector<std::vector<int>> in, out;    // edges by operation
    std::vector<int> height, cycle;

    Graph(const Kernel &kernel, std::vector<Op> operations, int loop) : ops(std::move(operations)), edges(dependences(kernel, ops, loop)) {
        in.resize(ops.size());
        out.resize(ops.size());
        for (size_t e = 0; e < edges.size(); e++) {
            in[edges[e].to].push_back(static_cast<int>(e));
            out[edges[e].from].push_back(static_cast<int>(e));
        }
        // The longest way to the end of the block: through dependences, or through what its lane unit still has to do.
        height.assign(ops.size(), 0);
        const int lane_interval = kernel.machine->timed() ? static_cast<int>(kernel.machine->vec.ii) : 1;
        std::map<Unit, int> behind;
        for (size_t i = ops.size(); i-- > 0;) {
            for (int e : out[i])
                if (edges[e].distance == 0 && !is_marker(ops[edges[e].to])) height[i] = std::max(height[i], height[edges[e].to] + edges[e].latency);
            if (loop < 0 && is_lane_operation(ops[i].opcode)) height[i] = std::max(height[i], lane_interval * behind[info(ops[i].opcode).unit]++);
        }
        cycle.assign(ops.size(), -1);
    }
};

// Result: operations of each cycle that issues something.
std::vector<OpGroup> gather(const Graph &graph, std::vector<int> *packet_of = nullptr) {
    std::vector<int> order(graph.ops.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return graph.cycle[a] < graph.cycle[b]; });
    std::vector<OpGroup> packets;
    if (packet_of != nullptr) packet_of->assign(graph.ops.size(), 0);
    int current = -1;
    for (int i : order) {
        if (is_marker(graph.ops[i])) {
            if (packet_of != nullptr) (*packet_of)[i] = static_cast<int>(packets.size());
            continue;
        }
        if (graph.cycle[i] != current) {
            packets.emplace_back();
            current = graph.cycle[i];
        }
        packets.back().push_back(graph.ops[i]);
        if (packet_of != nullptr) (*packet_of)[i] = static_cast<int>(packets.size()) - 1;
    }
    return packets;
}

class Packer {
public:
    Packer(Kernel &kernel, Blocks &blocks, bool optimize) : kernel_(kernel), machine_(*kernel.machine), blocks_(blocks), optimize_(optimize) {}

    void run() {
        // Loops first: what they defer becomes part of the blocks around them.
        if (optimize_)
            for (size_t b = 0; b < blocks_.size(); b++)
                if (loop_of(b) >= 0) pipeline(b);
        for (size_t b = 0; b < blocks_.size(); b++)
            if (blocks_[b].packets.empty()) straight(b);
        keep_weights_apart();
        take_out_of_line();
        for (size_t b = 0; b < blocks_.size(); b++) add_terminator(b);
    }

private:
    // The loop of which a block is the whole body, or -1.
    int loop_of(size_t b) const {
        const Terminator &end = blocks_[b].end;
        if (end.kind != Terminator::Loop || end.target != static_cast<int>(b)) return -1;
        for (size_t l = 0; l < kernel_.loops.size(); l++)
            if (kernel_.loops[l].index == end.index) return static_cast<int>(l);
        return -1;
    }

    // ---- straight-line code

    void straight(size_t b) {
        Block &block = blocks_[b];
        if (!optimize_) {
            one_by_one(block);
            return;
        }
        Graph graph(kernel_, block.ops, -1);
        list_schedule(graph);
        block.packets = with_delays(graph);
    }

    void one_by_one(Block &block) {
        Graph graph(kernel_, block.ops, -1);
        for (size_t i = 0; i < graph.ops.size(); i++) graph.cycle[i] = static_cast<int>(i);
        block.packets = with_delays(graph);
    }

    void list_schedule(Graph &graph) {
        const size_t n = graph.ops.size();
        ResourceTable table(kernel_, 0);
        std::vector<int> missing(n, 0), earliest(n, 0);
        for (const Edge &e : graph.edges) missing[e.to]++;
        std::vector<int> ready;
        for (size_t i = 0; i < n; i++)
            if (missing[i] == 0) ready.push_back(static_cast<int>(i));
        size_t done = 0;
        for (int cycle = 0; done < n;) {
            std::sort(ready.begin(), ready.end(), [&](int a, int b) { return graph.height[a] != graph.height[b] ? graph.height[a] > graph.height[b] : a < b; });
            bool again = true;
            while (again) {
                again = false;
                for (size_t r = 0; r < ready.size(); r++) {
                    const int i = ready[r];
                    if (earliest[i] > cycle) continue;
                    if (!is_marker(graph.ops[i])) {
                        if (!table.fits(graph.ops[i], cycle)) continue;
                        table.take(graph.ops[i], cycle);
                    }
                    graph.cycle[i] = cycle;
                    done++;
                    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(r));
                    for (int e : graph.out[i]) {
                        const Edge &edge = graph.edges[e];
                        earliest[edge.to] = std::max(earliest[edge.to], cycle + edge.latency);
                        if (--missing[edge.to] == 0) ready.push_back(edge.to);
                    }
                    again = true;
                    break;
                }
            }
            cycle++;
        }
    }

    // Cycles without an operation are not emitted: the hardware waits by itself, except across hard edges, where operations
    // that take a known time are put in between.
    std::vector<OpGroup> with_delays(Graph &graph) {
        for (int attempt = 0; attempt < 64; attempt++) {
            std::vector<int> packet_of;
            std::vector<OpGroup> packets = gather(graph, &packet_of);
            int at = -1, missing = 0;
            for (const Edge &e : graph.edges) {
                if (!e.hard) continue;
                const int apart = least_cycles(packets, packet_of[e.from], packet_of[e.to], e.distance);
                if (apart < e.latency && (at < 0 || packet_of[e.to] < at)) {
                    at = packet_of[e.to];
                    missing = e.latency - apart;
                } else if (apart < e.latency && packet_of[e.to] == at) {
                    missing = std::max(missing, e.latency - apart);
                }
            }
            if (at < 0) return packets;
            insert_delay(graph, packet_of, at, missing);
        }
        throw Error("cannot generate code: the distance that the array's weights need could not be kept");
    }

    // The fewest cycles between two packets: one each, the initiation intervals of the lane units, and known delays.
    int least_cycles(const std::vector<OpGroup> &packets, int from, int to, int distance) const {
        const int total = static_cast<int>(packets.size()), end = to + distance * total;
        const auto lane = [](Unit unit) { return unit == Unit::Alu || unit == Unit::Mul || unit == Unit::Exp; };
        std::array<int, 16> free_at{};
        int delayed = -1, cycle = 0;
        for (int p = from; p <= end; p++) {
            if (p > from) cycle++;
            if (p == to && to == total && distance == 0) break;   // the end of the block itself
            const OpGroup &packet = packets[p % total];
            for (const Op &op : packet) {
                const Unit unit = info(op.opcode).unit;
                if (lane(unit)) cycle = std::max(cycle, free_at[static_cast<int>(unit)]);
                if (delayed >= 0 && delay_.defined() && std::count(op.src.begin(), op.src.end(), delay_) > 0) cycle = std::max(cycle, delayed);
            }
            for (const Op &op : packet) {
                const Unit unit = info(op.opcode).unit;
                if (lane(unit)) free_at[static_cast<int>(unit)] = cycle + static_cast<int>(machine_.vec.ii);
                if (op.opcode == Opcode::rcp_bf && op.dst == delay_) delayed = cycle + delay_cycles();
            }
        }
        return cycle;
    }

    int delay_cycles() const { return result_latency(machine_, Opcode::rcp_bf); }

    // Puts packets that take the missing cycles before packet `at`.
    void insert_delay(Graph &graph, const std::vector<int> &packet_of, int at, int missing) {
        const std::vector<OpGroup> delays = delay_packets(missing);
        const int room = static_cast<int>(delays.size()) + 1;
        for (size_t i = 0; i < graph.cycle.size(); i++) graph.cycle[i] = packet_of[i] + (packet_of[i] < at ? 0 : room);
        for (size_t d = 0; d < delays.size(); d++) {
            graph.ops.push_back(delays[d].front());
            graph.cycle.push_back(at + static_cast<int>(d));
        }
    }

    // ---- innermost loops

    struct Deferral {
        bool possible = false;
        Reg accumulator, operand;
    };

    // x = x + y, where x is used for nothing else in the loop and y only here: it may run an iteration late, with y = -0
    // standing in for the iteration before the first.
    std::vector<Deferral> find_deferrable(const std::vector<Op> &ops) const {
        std::map<int, int> mentions;
        for (const Op &op : ops) {
            for (Reg r : reads_of(op)) mentions[r.id]++;
            if (op.dst.defined()) mentions[op.dst.id]++;
        }
        std::vector<Deferral> result(ops.size());
        for (size_t i = 0; i < ops.size(); i++) {
            const Op &op = ops[i];
            if (op.opcode != Opcode::add_vv || op.mask.defined()) continue;
            const int side = op.src[0] == op.dst ? 0 : op.src[1] == op.dst ? 1 : -1;
            if (side < 0 || op.src[1 - side] == op.dst) continue;
            const Reg operand = op.src[1 - side];
            if (mentions[op.dst.id] == 2 && mentions[operand.id] == 2) result[i] = {true, op.dst, operand};
        }
        return result;
    }

    void pipeline(size_t b) {
        Block &block = blocks_[b];
        Graph graph(kernel_, block.ops, loop_of(b));
        const std::vector<Deferral> deferrable = find_deferrable(graph.ops);
        const int least = std::max(resource_bound(kernel_, block.ops), 1);
        const int most = least + std::max(64, least);
        for (int interval = least; interval <= most; interval += 1 + (interval - least) / 8) {
            if (!modulo_schedule(graph, deferrable, interval)) continue;
            if (getenv("ATDBG")) fprintf(stderr, "block %zu least %d interval %d\n", b, least, interval);
            defer(b, graph, deferrable, interval);
            if (full_unit(graph, interval) != Unit::None) merge_packets(graph, interval);
            block.packets = with_delays(graph);
            return;
        }
        // Left to list scheduling.
    }

    bool modulo_schedule(Graph &graph, const std::vector<Deferral> &deferrable, int interval) {
        const size_t n = graph.ops.size();
        std::fill(graph.cycle.begin(), graph.cycle.end(), -1);
        ResourceTable table(kernel_, interval);
        table.reserve_loop_end();
        // A unit that has no cycle to spare gets its cycles first.
        if (const Unit unit = full_unit(graph, interval); unit != Unit::None) table.reserve_unit(unit, 0);
        std::vector<int> order(n);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return graph.height[a] > graph.height[b]; });
        for (int i : order) {
            const bool may_defer = deferrable[i].possible;
            int first = 0, last = (may_defer ? 2 * interval : interval) - 1;
            for (int e : graph.in[i]) {
                const Edge &edge = graph.edges[e];
                if (edge.from != i && graph.cycle[edge.from] >= 0) first = std::max(first, graph.cycle[edge.from] + spaced(edge) - edge.distance * interval);
                if (edge.from == i && edge.latency > edge.distance * interval) return false;
            }
            for (int e : graph.out[i]) {
                const Edge &edge = graph.edges[e];
                if (edge.to != i && graph.cycle[edge.to] >= 0) last = std::min(last, graph.cycle[edge.to] - spaced(edge) + edge.distance * interval);
            }
            last = std::min(last, first + interval - 1);
            int cycle = first;
            if (!is_marker(graph.ops[i])) {
                while (cycle <= last && !table.fits(graph.ops[i], cycle)) cycle++;
                if (cycle > last && getenv("ATDBG")) fprintf(stderr, "II %d: %s first %d last %d\n", interval, to_string(kernel_, graph.ops[i]).c_str(), first, last);
                if (cycle > last) return false;
                table.take(graph.ops[i], cycle);
            } else if (cycle > last) {
                return false;
            }
            graph.cycle[i] = cycle;
        }
        shorten_lifetimes(graph, table, order, interval);
        return true;
    }

    // The lane unit that the loop keeps busy in every cycle, if one does.
    Unit full_unit(const Graph &graph, int interval) const {
        if (!machine_.timed()) return Unit::None;
        std::map<Unit, int> lanes;
        for (const Op &op : graph.ops)
            if (is_lane_operation(op.opcode)) lanes[info(op.opcode).unit]++;
        for (auto [unit, count] : lanes)
            if (unit != Unit::Reduce && count * static_cast<int>(machine_.vec.ii) == interval) return unit;
        return Unit::None;
    }

    // Where a lane unit sets the pace, the packets between two of its operations can be one: the hardware waits for the unit
    // anyway, and the instruction cache holds a longer loop.
    void merge_packets(Graph &graph, int interval) {
        const int window = static_cast<int>(machine_.vec.ii);
        std::vector<std::vector<int>> rows(interval);
        for (size_t i = 0; i < graph.ops.size(); i++)
            if (!is_marker(graph.ops[i])) rows[graph.cycle[i]].push_back(static_cast<int>(i));
        for (int first = 0; first < interval; first += window) {
            int into = first;
            for (int row = first + 1; row < std::min(first + window, interval); row++) {
                if (rows[row].empty()) continue;
                std::vector<int> both = rows[into];
                both.insert(both.end(), rows[row].begin(), rows[row].end());
                if (rows[into].empty() || !one_packet(graph, both)) {
                    into = row;
                    continue;
                }
                for (int i : rows[into]) graph.cycle[i] = row;
                rows[into].clear();
                rows[row] = std::move(both);
                into = row;
            }
        }
    }

    // Can these operations issue together? None may touch a register that another one writes.
    bool one_packet(const Graph &graph, const std::vector<int> &ops) const {
        ResourceTable packet(kernel_, 0);
        for (int i : ops) {
            if (graph.ops[i].side || !packet.fits(graph.ops[i], 0)) return false;
            packet.take(graph.ops[i], 0);
        }
        for (int i : ops)
            for (int j : ops) {
                const Reg made = graph.ops[i].dst;
                if (i == j || !made.defined() || made.id <= all_lanes.id) continue;
                const std::vector<Reg> reads = reads_of(graph.ops[j]);
                if (graph.ops[j].dst == made || std::find(reads.begin(), reads.end(), made) != reads.end()) return false;
            }
        return true;
    }

    // Cycles without an operation are dropped, so what must keep its distance is planned a little further apart.
    static int spaced(const Edge &edge) {
        constexpr int margin = 8;
        return edge.latency + (edge.hard ? margin : 0);
    }

    // From the last operation to the first, each that makes a value moves as late as its readers allow: values wait in
    // fewer registers.
    void shorten_lifetimes(Graph &graph, ResourceTable &table, const std::vector<int> &order, int interval) {
        constexpr int load_margin = 4;   // a load may find its pad busy
        for (size_t o = order.size(); o-- > 0;) {
            const int i = order[o];
            const Op &op = graph.ops[i];
            // Scalar steps too: one that touches a transfer's register would wait for the transfer.
            const Unit unit = info(op.opcode).unit;
            if (op.opcode != Opcode::gemm_vv && op.opcode != Opcode::vreg_ld && (unit != Unit::Ex1 || op.side)) continue;
            int last = interval - 1;
            for (int e : graph.out[i]) {
                const Edge &edge = graph.edges[e];
                if (edge.to != i) last = std::min(last, graph.cycle[edge.to] - spaced(edge) + edge.distance * interval - (op.opcode == Opcode::vreg_ld ? load_margin : 0));
            }
            const int now = graph.cycle[i];
            if (last <= now) continue;
            table.release(op, now);
            int cycle = last;
            while (cycle > now && !table.fits(op, cycle)) cycle--;
            table.take(op, cycle);
            graph.cycle[i] = cycle;
        }
    }

    void defer(size_t b, Graph &graph, const std::vector<Deferral> &deferrable, int interval) {
        std::vector<std::pair<int, Op>> late;
        std::vector<Op> neutral;
        for (size_t i = 0; i < graph.ops.size(); i++) {
            if (graph.cycle[i] < interval) continue;
            late.push_back({graph.cycle[i], graph.ops[i]});
            // -0, which changes no sum: 0 * -1 on the multiplier and, from the first of them, -0 - 0 on the adder.
            Op reset;
            reset.opcode = Opcode::mul_vs;
            reset.dst = deferrable[i].operand;
            reset.src = {zero_vector, kernel_.constant(static_cast<int32_t>(0xBF800000))};
            if (neutral.size() % 2 == 1) {
                reset.opcode = Opcode::sub_vv;
                reset.src = {neutral[0].dst, zero_vector};
            }
            reset.source = graph.ops[i].source;
            neutral.push_back(reset);
            graph.cycle[i] -= interval;
        }
        if (late.empty()) return;
        std::stable_sort(late.begin(), late.end(), [](const auto &x, const auto &y) { return x.first < y.first; });
        Block &before = blocks_[b - 1];
        before.ops.insert(before.ops.end(), neutral.begin(), neutral.end());
        std::vector<Op> ops;
        for (const auto &[cycle, op] : late) ops.push_back(op);
        place_after(b + 1, ops);
    }

    // Deferred operations go to the start of the first blocks after the loop that use what they make: blocks that do not can
    // be passed, round the back of outer loops and out of them.
    void place_after(size_t b, const std::vector<Op> &ops) {
        std::vector<int32_t> touched;
        for (const Op &op : ops)
            for (Reg r : {op.dst, op.src[0], op.src[1]}) touched.push_back(r.id);
        std::sort(touched.begin(), touched.end());
        const auto uses = [&](const Block &block) {
            return std::any_of(block.ops.begin(), block.ops.end(), [&](const Op &op) {
                const std::vector<Reg> reads = reads_of(op);
                return std::any_of(reads.begin(), reads.end(), [&](Reg r) { return std::binary_search(touched.begin(), touched.end(), r.id); }) ||
                       (op.dst.defined() && std::binary_search(touched.begin(), touched.end(), op.dst.id));
            });
        };
        bool placed_in_loop = false;
        for (; b < blocks_.size(); b++) {
            if (uses(blocks_[b]) || blocks_[b].end.kind == Terminator::Halt || blocks_[b].end.kind == Terminator::Skip) break;
            if (blocks_[b].end.kind == Terminator::Loop && !placed_in_loop) {
                size_t head = static_cast<size_t>(blocks_[b].end.target);
                while (head < b && !uses(blocks_[head]) && blocks_[head].end.kind == Terminator::Next) head++;
                if (head >= b || !uses(blocks_[head])) break;
                blocks_[head].ops.insert(blocks_[head].ops.begin(), ops.begin(), ops.end());
                placed_in_loop = true;
            }
        }
        blocks_[b].ops.insert(blocks_[b].ops.begin(), ops.begin(), ops.end());
    }

    // ---- across blocks

    // A weight load soon after the rows of another block: blocks that load weights start with a delay unless enough packets
    // of theirs come first.
    void keep_weights_apart() {
        if (!machine_.timed() || machine_.sa.switch_spacing <= 1) return;
        const int spacing = static_cast<int>(machine_.sa.switch_spacing);
        // Shortest distance, in packets, from a row to the start of each block: relaxed until nothing changes.
        std::vector<int> distance(blocks_.size(), spacing);
        auto leave = [&](size_t b) {
            const std::vector<OpGroup> &packets = blocks_[b].packets;
            const int count = static_cast<int>(packets.size());
            int last_row = -1;
            for (int p = 0; p < count; p++)
                for (const Op &op : packets[p])
                    if (op.opcode == Opcode::gemm_vv) last_row = p;
            int since = count == 0 ? distance[b] : last_row >= 0 ? least_cycles(packets, last_row, count, 0) : distance[b] + least_cycles(packets, 0, count, 0);
            if (blocks_[b].end.kind != Terminator::Next) since++;
            return std::min(since, spacing);
        };
        for (bool changed = true; changed;) {
            changed = false;
            for (size_t b = 0; b < blocks_.size(); b++) {
                const int out = leave(b);
                auto reach = [&](size_t to) {
                    if (to < blocks_.size() && out < distance[to]) {
                        distance[to] = out;
                        changed = true;
                    }
                };
                if (blocks_[b].end.kind != Terminator::Halt) reach(b + 1);
                if (blocks_[b].end.kind == Terminator::Loop || blocks_[b].end.kind == Terminator::Skip) reach(blocks_[b].end.target);
            }
        }
        for (size_t b = 0; b < blocks_.size(); b++) {
            int first = -1;
            bool rows_before = false;   // rows of this block have their own edges
            for (size_t p = 0; p < blocks_[b].packets.size() && first < 0; p++)
                for (const Op &op : blocks_[b].packets[p]) {
                    if (op.opcode == Opcode::lw_vi) first = static_cast<int>(p);
                    if (op.opcode == Opcode::gemm_vv && first < 0) rows_before = true;
                }
            if (first < 0 || rows_before) continue;
            const int since = distance[b] + least_cycles(blocks_[b].packets, 0, first, 0);
            if (since >= spacing) continue;
            // A loop's own iterations are apart already: the delay goes in front of it.
            const bool in_front = loop_of(b) >= 0 && b > 0;
            auto &packets = blocks_[in_front ? b - 1 : b].packets;
            const std::vector<OpGroup> delays = delay_packets(spacing - since);
            packets.insert(in_front ? packets.end() : packets.begin() + first, delays.begin(), delays.end());
        }
    }

    // Packets that take at least so many cycles: a few cycles as packets that do nothing of use, more as reciprocals whose
    // results are waited for.
    std::vector<OpGroup> delay_packets(int cycles) {
        if (!delay_.defined()) delay_ = kernel_.scalar("delay");
        Op start, read;
        start.opcode = Opcode::rcp_bf;
        start.dst = delay_;
        start.src = {kernel_.constant(0x3F800000)};
        read.opcode = Opcode::or_s;
        read.dst = zero_scalar;
        constexpr int most_fillers = 6;
        std::vector<OpGroup> packets;
        for (; cycles > most_fillers; cycles -= delay_cycles() + 1) {
            read.src = {delay_, zero_scalar};
            packets.push_back({start});
            packets.push_back({read});
        }
        read.src = {zero_scalar, zero_scalar};
        for (; cycles > 0; cycles--) packets.push_back({read});
        return packets;
    }

    // ---- out of line

    // Bodies of side branches become blocks of their own.
    void take_out_of_line() {
        const size_t inline_blocks = blocks_.size();
        // Results leave in every iteration of the loops around, loads in fewer: the code of results is closest to the loop.
        const auto stores = [](const Op &op) {
            return std::any_of(op.side->begin(), op.side->end(), [](const Op &inner) { return inner.opcode == Opcode::scpad_st; });
        };
        for (const bool results : {true, false})
        for (size_t b = 0; b < inline_blocks; b++)
            for (size_t p = 0; p < blocks_[b].packets.size(); p++)
                for (size_t i = 0; i < blocks_[b].packets[p].size(); i++) {
                    if (!blocks_[b].packets[p][i].side || stores(blocks_[b].packets[p][i]) != results) continue;
                    Block block;
                    block.label = "side of " + blocks_[b].label;
                    block.ops = *blocks_[b].packets[p][i].side;
                    block.from_block = static_cast<int>(b);
                    block.from_packet = static_cast<int>(p);
                    // Behind the outermost loop around it: a forward branch is predicted not taken.
                    block.before = static_cast<int>(b) + 1;
                    for (size_t later = b; later < inline_blocks; later++)
                        if (blocks_[later].end.kind == Terminator::Loop && blocks_[later].end.target <= static_cast<int>(b)) block.before = static_cast<int>(later) + 1;
                    blocks_[b].packets[p][i].imm = static_cast<int32_t>(blocks_.size());
                    blocks_.push_back(std::move(block));
                    straight(blocks_.size() - 1);
                    Op back;
                    back.opcode = Opcode::jal;
                    back.dst = zero_scalar;
                    blocks_.back().packets.push_back({back});
                }
    }

    // ---- ends of blocks

    void add_terminator(size_t b) {
        Block &block = blocks_[b];
        const Terminator &end = block.end;
        Op op;
        if (end.kind == Terminator::Next || block.from_block >= 0) return;
        if (end.kind == Terminator::Halt) {
            op.opcode = Opcode::halt_s;
            block.packets.push_back({op});
            return;
        }
        op.imm = end.target;
        op.src = {end.index, end.kind == Terminator::Loop ? end.limit : zero_scalar};
        if (end.kind == Terminator::Skip) {
            op.opcode = Opcode::beq_s;
            op.dst = end.index;
            append_branch(block, op);
            return;
        }
        op.dst = end.index;
        op.aux = 1;
        // A branch reaches about a hundred packets; further back it takes a jump, with the branch stepping over it.
        constexpr size_t reach = 100;
        size_t length = 1;
        for (size_t t = static_cast<size_t>(end.target); t <= b; t++) length += blocks_[t].packets.size();
        if (length <= reach) {
            op.opcode = Opcode::blt_s;
            append_branch(block, op);
            return;
        }
        op.opcode = Opcode::bge_s;
        op.imm = static_cast<int32_t>(b) + 1;
        append_branch(block, op);
        Op jump;
        jump.opcode = Opcode::jal;
        jump.dst = zero_scalar;
        jump.imm = end.target;
        block.packets.push_back({jump});
    }

    // Into the last packet where it fits, otherwise into one of its own.
    void append_branch(Block &block, const Op &branch) {
        if (optimize_ && !block.packets.empty()) {
            OpGroup &last = block.packets.back();
            bool fits = true;
            for (const Op &op : last) {
                if (op.dst == branch.src[0] || op.dst == branch.src[1] || op.dst == delay_) fits = false;
                for (Reg r : reads_of(op)) fits = fits && (!delay_.defined() || r != delay_);
            }
            if (fits && machine_.issue.slots > static_cast<int64_t>(last.size())) {
                ResourceTable packet(kernel_, 0);
                for (const Op &op : last) packet.take(op, 0);
                if (packet.fits(branch, 0)) {
                    last.push_back(branch);
                    return;
                }
            }
        }
        block.packets.push_back({branch});
    }

    Kernel &kernel_;
    const Machine &machine_;
    Blocks &blocks_;
    bool optimize_;
    Reg delay_;
};

}  // namespace

void pack(Kernel &kernel, Blocks &blocks, bool optimize) { Packer(kernel, blocks, optimize).run(); }

}  // namespace atalla::codegen
