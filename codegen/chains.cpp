#include "codegen/chains.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "codegen/resources.h"

namespace atalla::codegen {

namespace {

// Does an edge only say that a mask register is free for another mask?
bool takes_over_mask(const Kernel &kernel, const ScheduleGraph &graph, const Edge &edge) {
    const Op &from = graph.ops[edge.from], &to = graph.ops[edge.to];
    if (!to.dst.defined() || kernel.cls(to.dst) != RegisterClass::Mask) return false;
    return !from.dst.defined() || !reads(to, from.dst);
}

// A scalar that steps, a branch out of line, a fence, a transfer.
bool connects(const Kernel &kernel, const Op &op) {
    const bool counts = op.dst.defined() && kernel.cls(op.dst) == RegisterClass::Scalar && reads(op, op.dst);
    return counts || op.side || is_marker(op) || info(op.opcode).unit == Unit::Sdma;
}

bool same_operations(const ScheduleGraph &graph, const std::vector<int> &a, const std::vector<int> &b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](int i, int j) {
        const Op &one = graph.ops[i], &other = graph.ops[j];
        return one.opcode == other.opcode && one.keeps_dst == other.keeps_dst && one.mask.defined() == other.mask.defined();
    });
}

}  // namespace

Chains find_chains(const Kernel &kernel, const ScheduleGraph &graph, bool apart) {
    const size_t n = graph.ops.size();
    std::vector<int> chain_of(n);
    std::iota(chain_of.begin(), chain_of.end(), 0);
    const int rest = static_cast<int>(n);  // the chain of what connects others
    for (size_t i = 0; i < n; i++)
        if (!apart || connects(kernel, graph.ops[i])) chain_of[i] = rest;
    // Operations before others of their chain: one pass over the edges, which go forward, and back until nothing changes.
    for (bool changed = true; changed;) {
        changed = false;
        for (const Edge &edge : graph.edges) {
            int &from = chain_of[edge.from], &to = chain_of[edge.to];
            if (edge.distance > 0 || from == rest || to == rest || from == to || takes_over_mask(kernel, graph, edge)) continue;
            from = to = std::min(from, to);
            changed = true;
        }
    }
    std::map<int, std::vector<int>> by_first;
    for (size_t i = 0; i < n; i++) by_first[chain_of[i]].push_back(static_cast<int>(i));
    Chains chains;
    for (const auto &[first, chain] : by_first)
        if (first != rest) chains.alike.push_back(chain);
    // What loads weights is a visit of the array with all its rows, not one row.
    const bool visit = std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op &op) { return op.opcode == Opcode::lw_vi; });
    const bool alike = chains.alike.size() > (visit ? 1 : 0) &&
                       std::all_of(chains.alike.begin(), chains.alike.end(),
                                   [&](const auto &chain) { return same_operations(graph, chains.alike[0], chain); });
    if (!alike) chains.alike.clear();
    for (auto &[first, chain] : by_first) {
        std::stable_sort(chain.begin(), chain.end(), [&](int a, int b) { return graph.height[a] > graph.height[b]; });
        chains.in_turn.push_back(std::move(chain));
    }
    return chains;
}

namespace {

bool steps_pointer(const Kernel &kernel, const ScheduleGraph &graph, const Op &op) {
    const bool steps = op.opcode == Opcode::addi_s || (op.opcode == Opcode::add_s && kernel.registers[op.src[1].id].constant);
    return steps && op.src[0] == op.dst &&
           std::count_if(graph.ops.begin(), graph.ops.end(), [&](const Op &other) { return other.dst == op.dst; }) == 1;
}

// Of a row of the pads that several chains read, such as a weight, each gets a load of its own.
std::vector<Op> with_own_loads(Kernel &kernel, const std::vector<Op> &ops, int loop) {
    const ScheduleGraph graph(kernel, ops, loop);
    const auto shared = [&](const Edge &edge) {
        return ops[edge.from].opcode == Opcode::vreg_ld && reads(ops[edge.to], ops[edge.from].dst);
    };
    std::vector<int> chain_of(ops.size());
    std::iota(chain_of.begin(), chain_of.end(), 0);
    for (bool changed = true; changed;) {
        changed = false;
        for (const Edge &edge : graph.edges) {
            int &from = chain_of[edge.from], &to = chain_of[edge.to];
            if (edge.distance > 0 || from == to || connects(kernel, ops[edge.from]) || connects(kernel, ops[edge.to]) ||
                takes_over_mask(kernel, graph, edge) || shared(edge))
                continue;
            from = to = std::min(from, to);
            changed = true;
        }
    }
    const auto writes = [&](Reg r) { return std::count_if(ops.begin(), ops.end(), [&](const Op &op) { return op.dst == r; }); };
    // May it stand anywhere in the loop?
    const auto fixed = [&](const Op &load) {
        const bool changes = std::any_of(ops.begin(), ops.end(), [&](const Op &op) {
            return op.orders == load.access->allocation ||
                   (op.opcode != Opcode::vreg_ld && op.access && op.access->allocation == load.access->allocation);
        });
        const std::vector<Reg> sources = reads_of(load);
        return !changes && writes(load.dst) == 1 &&
               std::all_of(sources.begin(), sources.end(), [&](Reg r) { return writes(r) == 0; });
    };
    std::map<int32_t, const Op *> load_of;
    for (const Op &op : ops) {
        if (op.opcode != Opcode::vreg_ld || !op.access || op.mask.defined() || !fixed(op)) continue;
        std::set<int> readers;
        for (size_t i = 0; i < ops.size(); i++)
            if (reads(ops[i], op.dst)) readers.insert(chain_of[i]);
        if (readers.size() > 1) load_of[op.dst.id] = &op;
    }
    // In front of the first reader of each chain; one of them keeps the register.
    std::vector<Op> result;
    std::map<int, Renaming> own;
    std::set<int32_t> kept;
    for (size_t i = 0; i < ops.size(); i++) {
        if (ops[i].opcode == Opcode::vreg_ld && load_of.count(ops[i].dst.id)) continue;
        Op op = ops[i];
        Renaming &names = own[chain_of[i]];
        for (Reg r : reads_of(ops[i])) {
            const auto load = load_of.find(r.id);
            if (load == load_of.end() || names.count(r.id)) continue;
            Op again = *load->second;
            if (!kept.insert(r.id).second) again.dst = kernel.register_like(r);
            names[r.id] = again.dst;
            result.push_back(std::move(again));
        }
        rename(op, names);
        result.push_back(std::move(op));
    }
    return result;
}

// Vectors of rows that are alike get their banks once their places are known, scalars those of the first row.
void share_banks(Kernel &kernel, const ScheduleGraph &graph, const Chains &chains) {
    for (const std::vector<int> &chain : chains.alike)
        for (size_t i = 0; i < chain.size(); i++) {
            const Reg first = graph.ops[chains.alike[0][i]].dst, here = graph.ops[chain[i]].dst;
            if (!here.defined() || here.id <= all_lanes.id) continue;
            kernel.registers[here.id].bank =
                kernel.cls(here) == RegisterClass::Vector ? int8_t{-1} : kernel.registers[first.id].bank;
        }
}

}  // namespace

std::optional<AlikeRows> alike_rows(Kernel &kernel, const std::vector<Op> &shared, int loop, RowLoads loads) {
    const std::vector<Op> ops = loads == RowLoads::Own ? with_own_loads(kernel, shared, loop) : shared;
    const ScheduleGraph graph(kernel, ops, loop);
    const Chains chains = find_chains(kernel, graph, true);
    if (chains.alike.empty()) return std::nullopt;
    share_banks(kernel, graph, chains);
    AlikeRows rows{ops, {}};
    const int longest = *std::max_element(graph.height.begin(), graph.height.end());
    const int distance = resource_bound(kernel, ops) / static_cast<int>(chains.alike.size());
    // Uses of one pointer are that close: loads that are placed last move further from each other.
    const int most = std::max(1, distance / (loads == RowLoads::Own ? 4 : 2));
    for (const Op &step : ops) {
        if (!steps_pointer(kernel, graph, step)) continue;
        // Another register steps behind all uses: what reads the value that comes next would read the one before.
        const auto behind = ops.begin() + (&step - ops.data()) + 1;
        if (std::any_of(behind, ops.end(), [&](const Op &op) { return reads(op, step.dst); })) continue;
        std::multimap<int, size_t> uses;             // positions, by when the first row would be there at the earliest
        const auto used_at = [&](size_t position) {  // by some row: those of other pads may have other pointers there
            return std::ranges::any_of(chains.alike, [&](const auto &chain) { return reads(ops[chain[position]], step.dst); });
        };
        for (size_t i = 0; i < chains.alike[0].size(); i++)
            if (used_at(i)) uses.emplace(longest - graph.height[chains.alike[0][i]], i);
        Reg pointer = step.dst;
        int first = uses.empty() ? 0 : uses.begin()->first;
        for (const auto &[cycle, position] : uses) {
            if (cycle - first >= most) {
                first = cycle;
                pointer = kernel.register_like(step.dst);
                Op same;
                same.opcode = Opcode::addi_s;
                same.dst = pointer;
                same.src = {step.dst};
                rows.in_front.push_back(same);
                rows.loop.push_back(step);
                rename(rows.loop.back(), {{step.dst.id, pointer}});
            }
            if (pointer != step.dst)
                for (const std::vector<int> &chain : chains.alike) rename(rows.loop[chain[position]], {{step.dst.id, pointer}});
        }
    }
    return rows;
}

void assign_row_banks(Kernel &kernel, const ScheduleGraph &graph, const Chains &chains, int distance) {
    const int banks = static_cast<int>(kernel.machine->regs.vector_banks);
    // Vectors that the first row makes, with when they are read and when they are written back, in cycles of the distance.
    struct Value {
        std::multiset<int> reads, writes;
        int first = 0, last = 0;
    };
    std::map<Reg, Value> values;
    const auto is_vector = [&](Reg r) { return r.defined() && r.id > all_lanes.id && kernel.cls(r) == RegisterClass::Vector; };
    for (int i : chains.alike[0])
        if (const Reg made = graph.ops[i].dst; is_vector(made)) {
            Value &value = values.try_emplace(made, Value{{}, {}, graph.cycle[i], graph.cycle[i]}).first->second;
            value.first = std::min(value.first, graph.cycle[i]);
            value.writes.insert((graph.cycle[i] + result_latency(*kernel.machine, graph.ops[i].opcode)) % distance);
        }
    for (int i : chains.alike[0])
        for (Reg r : graph.ops[i].src)
            if (const auto value = values.find(r); value != values.end()) {
                value->second.reads.insert(graph.cycle[i] % distance);
                value->second.last = std::max(value->second.last, graph.cycle[i]);
            }
    // Those first that meet most others.
    constexpr double read_cost = 100, write_cost = 1;
    const auto cost = [&](const Value &a, const Value &b) {
        double sum = 0;
        for (int cycle : a.reads) sum += read_cost * static_cast<double>(b.reads.count(cycle));
        for (int cycle : a.writes) sum += write_cost * static_cast<double>(b.writes.count(cycle));
        return sum;
    };
    std::vector<std::pair<double, Reg>> order;
    for (const auto &[r, value] : values) {
        double meets = 0;
        for (const auto &[other, that] : values)
            if (other != r) meets += cost(value, that);
        order.emplace_back(-meets, r);
    }
    std::sort(order.begin(), order.end());
    std::map<Reg, int> bank_of;
    std::vector<double> filled(banks, 0);
    for (const auto &[meets, r] : order) {
        std::vector<double> costs(banks, 0);
        for (const auto &[other, bank] : bank_of) costs[bank] += cost(values.at(r), values.at(other));
        int best = 0;
        for (int bank = 1; bank < banks; bank++)
            if (std::pair(costs[bank], filled[bank]) < std::pair(costs[best], filled[best])) best = bank;
        bank_of[r] = best;
        filled[best] += 1 + values.at(r).last - values.at(r).first;
    }
    for (const std::vector<int> &chain : chains.alike)
        for (size_t i = 0; i < chain.size(); i++)
            if (const auto bank = bank_of.find(graph.ops[chains.alike[0][i]].dst); bank != bank_of.end())
                kernel.registers[graph.ops[chain[i]].dst.id].bank = static_cast<int8_t>(bank->second);
}

}  // namespace atalla::codegen
