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
        height.assign(ops.size(), 0);
        for (size_t i = ops.size(); i-- > 0;)
            for (int e : out[i])
                if (edges[e].distance == 0) height[i] = std::max(height[i], height[edges[e].to] + edges[e].latency);
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
        block.packets = with_delays(graph, 0);
    }

    void one_by_one(Block &block) {
        Graph graph(kernel_, block.ops, -1);
        for (size_t i = 0; i < graph.ops.size(); i++) graph.cycle[i] = static_cast<int>(i);
        block.packets = with_delays(graph, 0);
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
    std::vector<OpGroup> with_delays(Graph &graph, int interval) {
        for (int attempt = 0; attempt < 64; attempt++) {
            std::vector<int> packet_of;
            std::vector<OpGroup> packets = gather(graph, &packet_of);
            int at = -1, missing = 0;
            for (const Edge &e : graph.edges) {
                if (!e.hard) continue;
                const int apart = packet_of[e.to] - packet_of[e.from] + e.distance * static_cast<int>(packets.size()) + delay_between(packets, packet_of[e.from], packet_of[e.to], e.distance);
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
        (void)interval;
        throw Error("cannot generate code: the distance that the array's weights need could not be kept");
    }

    // Cycles beyond their packets that delays between two packets take.
    int delay_between(const std::vector<OpGroup> &packets, int from, int to, int distance) const {
        int cycles = 0;
        const int total = static_cast<int>(packets.size()), end = to + distance * total;
        for (int p = from + 1; p <= end; p++)
            for (const Op &op : packets[p % std::max(total, 1)])
                if (op.opcode == Opcode::rcp_bf && op.dst == delay_) cycles += delay_cycles() - 1;
        return cycles;
    }

    int delay_cycles() const { return result_latency(machine_, Opcode::rcp_bf); }

    // A reciprocal and a reader of its result, each in a packet of its own, before packet `at`.
    void insert_delay(Graph &graph, const std::vector<int> &packet_of, int at, int missing) {
        if (!delay_.defined()) delay_ = kernel_.scalar("delay");
        Op start, read;
        start.opcode = Opcode::rcp_bf;
        start.dst = delay_;
        start.src = {kernel_.constant(0x3F800000)};
        read.opcode = Opcode::or_s;
        read.dst = zero_scalar;
        read.src = {delay_, zero_scalar};
        const int links = std::max(1, (missing + delay_cycles()) / (delay_cycles() + 1));
        for (size_t i = 0; i < graph.cycle.size(); i++) graph.cycle[i] = packet_of[i] < at ? 2 * packet_of[i] : 2 * (packet_of[i] + 4 * links + 8);
        // Markers sit at the packet that follows them.
        for (int l = 0; l < links; l++) {
            graph.ops.push_back(start);
            graph.cycle.push_back(2 * (at + 2 * l) + 1);
            graph.ops.push_back(read);
            graph.cycle.push_back(2 * (at + 2 * l + 1) + 1);
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
            defer(b, graph, deferrable, interval);
            block.packets = with_delays(graph, interval);
            return;
        }
        // Left to list scheduling.
    }

    bool modulo_schedule(Graph &graph, const std::vector<Deferral> &deferrable, int interval) {
        const size_t n = graph.ops.size();
        std::fill(graph.cycle.begin(), graph.cycle.end(), -1);
        ResourceTable table(kernel_, interval);
        std::vector<int> order(n);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return graph.height[a] > graph.height[b]; });
        for (int i : order) {
            const bool may_defer = deferrable[i].possible;
            int first = 0, last = (may_defer ? 2 * interval : interval) - 1;
            for (int e : graph.in[i]) {
                const Edge &edge = graph.edges[e];
                if (edge.from != i && graph.cycle[edge.from] >= 0) first = std::max(first, graph.cycle[edge.from] + edge.latency - edge.distance * interval);
                if (edge.from == i && edge.latency > edge.distance * interval) return false;
            }
            for (int e : graph.out[i]) {
                const Edge &edge = graph.edges[e];
                if (edge.to != i && graph.cycle[edge.to] >= 0) last = std::min(last, graph.cycle[edge.to] - edge.latency + edge.distance * interval);
            }
            last = std::min(last, first + interval - 1);
            int cycle = first;
            if (!is_marker(graph.ops[i])) {
                while (cycle <= last && !table.fits(graph.ops[i], cycle)) cycle++;
                if (cycle > last) return false;
                table.take(graph.ops[i], cycle);
            } else if (cycle > last) {
                return false;
            }
            graph.cycle[i] = cycle;
        }
        return true;
    }

    void defer(size_t b, Graph &graph, const std::vector<Deferral> &deferrable, int interval) {
        std::vector<std::pair<int, Op>> late;
        std::vector<Op> neutral;
        for (size_t i = 0; i < graph.ops.size(); i++) {
            if (graph.cycle[i] < interval) continue;
            late.push_back({graph.cycle[i], graph.ops[i]});
            Op reset;
            reset.opcode = Opcode::mul_vs;   // 0 * -1 = -0, which changes no sum
            reset.dst = deferrable[i].operand;
            reset.src = {zero_vector, kernel_.constant(static_cast<int32_t>(0xBF800000))};
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
            int since = distance[b];
            for (const OpGroup &packet : blocks_[b].packets) {
                since = std::min(since + 1, spacing);
                for (const Op &op : packet)
                    if (op.opcode == Opcode::gemm_vv) since = 0;
            }
            return std::min(since + (blocks_[b].end.kind == Terminator::Next ? 0 : 1), spacing);
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
            int since = distance[b], first = -1;
            for (size_t p = 0; p < blocks_[b].packets.size() && first < 0; p++) {
                since++;
                for (const Op &op : blocks_[b].packets[p]) {
                    if (op.opcode == Opcode::lw_vi) first = static_cast<int>(p);
                    if (op.opcode == Opcode::gemm_vv) since = spacing;   // rows of this block have their own edges
                    if (op.opcode == Opcode::rcp_bf && op.dst == delay_) since += delay_cycles() - 1;
                }
            }
            if (first < 0 || since >= spacing) continue;
            if (!delay_.defined()) delay_ = kernel_.scalar("delay");
            std::vector<OpGroup> delays;
            for (int missing = spacing - since; missing > 0; missing -= delay_cycles() + 1) {
                Op start, read;
                start.opcode = Opcode::rcp_bf;
                start.dst = delay_;
                start.src = {kernel_.constant(0x3F800000)};
                read.opcode = Opcode::or_s;
                read.dst = zero_scalar;
                read.src = {delay_, zero_scalar};
                delays.push_back({start});
                delays.push_back({read});
            }
            auto &packets = blocks_[b].packets;
            packets.insert(packets.begin() + first, delays.begin(), delays.end());
        }
    }

    // ---- ends of blocks

    void add_terminator(size_t b) {
        Block &block = blocks_[b];
        const Terminator &end = block.end;
        Op op;
        if (end.kind == Terminator::Next) return;
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
