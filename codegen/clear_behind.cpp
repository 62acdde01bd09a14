// Accumulators that every turn of a loop clears, sums in an inner loop and stores: code that clears beside the stores needs no
// packets of its own.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "codegen/dependence.h"
#include "codegen/passes.h"

namespace atalla::codegen {

namespace {

using Mentions = std::map<int32_t, int64_t>;

void count(const Body &body, Mentions &mentions);

void count(const Node &node, Mentions &mentions) {
    if (node.op) {
        for (Reg r : reads_of(*node.op)) mentions[r.id]++;
        if (node.op->dst.defined()) mentions[node.op->dst.id]++;
    }
    if (node.branch) {
        mentions[node.branch->condition.id]++;
        count(node.branch->body, mentions);
    }
    if (node.loop) count(node.loop->body, mentions);
}
void count(const Body &body, Mentions &mentions) {
    for (const Node &node : body) count(node, mentions);
}

class ClearBehind {
public:
    explicit ClearBehind(Kernel &kernel) : kernel_(kernel) {}

    void run() {
        count(kernel_.body, all_);
        visit(kernel_.body, false);
        store_zeros();
    }

private:
    // Inner loops first: what now stands in front of one may itself be a clear that the loop around need not repeat.
    void visit(Body &body, bool in_loop) {
        for (size_t at = 0; at < body.size(); at++) {
            if (body[at].branch) visit(body[at].branch->body, in_loop);
            if (!body[at].loop) continue;
            Loop &loop = *body[at].loop;
            visit(loop.body, true);
            std::vector<Op> clears = take_clears(loop.body, loop.extent > 1);
            // The few turns of a lone loop lose as often as they gain.
            const bool turns_often = in_loop && kernel_.machine->timed();
            if (turns_often) clear_inside(loop.body, clears);
            const size_t behind = loop.body.size();
            for (const Op &clear : clears) {
                if (!behind_.insert(clear.dst.id).second) continue;  // a loop inside does it
                loop.body.push_back(clear);
                count(Node(clear), all_);  // twice from now on
            }
            if (turns_often) load_some(loop.body, behind);
            body.insert(body.begin() + static_cast<std::ptrdiff_t>(at), clears.begin(), clears.end());
            at += clears.size();
        }
    }

    static size_t array_rows(const Body &body) {
        size_t rows = 0;
        for (const Node &node : body)
            rows += node.loop ? array_rows(node.loop->body) : node.op && node.op->opcode == Opcode::gemm_vv;
        return rows;
    }

    static size_t depth(const Body &body) {
        size_t deepest = 0;
        for (const Node &node : body)
            if (node.loop) deepest = std::max(deepest, 1 + depth(node.loop->body));
        return deepest;
    }

    static size_t stores(const Body &body) {
        return static_cast<size_t>(
            std::ranges::count_if(body, [](const Node &node) { return node.op && node.op->opcode == Opcode::vreg_st; }));
    }
    // Would a turn leave the instruction cache that has so many clears beside its stores and behind them?
    bool is_long(const Body &body, size_t clears) const {
        // Packets: of a load of weights, and of the pointers of this loop and of each inside.
        constexpr size_t weights = 44, ends = 20;
        const Machine &machine = *kernel_.machine;
        const size_t beside = stores(body) / 2,
                     packets = array_rows(body) + beside + (clears - beside) / 2 + weights + ends * (1 + depth(body));
        return static_cast<int64_t>(packets) * machine.issue.packet_bytes > machine.icache.bytes;
    }

    // Beside the rows of the array there is room for the lanes. Where a turn would leave the instruction cache the sums for
    // which there is no store to be cleared beside are cleared in the inner loop instead, in its first iteration alone: under a
    // mask that has all lanes then, and none later. They are at even distances, which leaves others to full banks.
    void clear_inside(Body &body, std::vector<Op> &clears) {
        constexpr size_t least = 16;
        const size_t beside = stores(body) / 2;
        const auto visit = std::ranges::find_if(body, [](const Node &node) { return node.loop != nullptr; });
        if (visit == body.end() || clears.size() < beside + least || !is_long(body, clears.size())) return;
        Body &inside = visit->loop->body;
        Mentions mentioned;
        size_t rows = 0;
        std::set<int32_t> sums;
        for (const Node &node : inside) {
            if (!node.op) return;
            count(node, mentioned);
            rows += node.op->opcode == Opcode::gemm_vv;
            if (adds_to_sum(*node.op)) sums.insert(node.op->dst.id);
        }
        std::erase_if(sums, [&](int32_t id) {
            return mentioned[id] != 2 || std::ranges::none_of(clears, [&](const Op &clear) { return clear.dst.id == id; });
        });
        const size_t wanted = std::min({clears.size() - beside, rows / 2, sums.size()});
        if (wanted == 0) return;
        const Reg first = kernel_.new_register(RegisterClass::Mask, "first");
        const auto lanes = [&](int32_t bits) {
            Op set;
            set.opcode = Opcode::mv_stm;
            set.dst = first;
            set.src = {kernel_.constant(bits)};
            return set;
        };
        std::vector<Op> cleared;
        for (size_t i = 0; const int32_t id : sums) {
            const bool chosen = (i + 1) * wanted / sums.size() != i * wanted / sums.size();
            i++;
            if (!chosen) continue;
            const auto clear = std::ranges::find_if(clears, [&](const Op &op) { return op.dst.id == id; });
            cleared.push_back(*clear);
            cleared.back().mask = first;
            cleared.back().keeps_dst = true;
            clears.erase(clear);
        }
        constexpr int32_t all = -1;
        inside.insert(inside.begin(), cleared.begin(), cleared.end());
        inside.push_back(lanes(0));
        body.insert(visit, lanes(all));
    }

    // Two stores leave a packet ports for one operation of the lanes: as many clears as there are pairs of stores need no
    // packets of their own. Where what is around the others would leave the instruction cache, half of these are loads of
    // zeros, which have room beside clears where no ports go to stores: those of what is stored last.
    void load_some(Body &body, size_t first_clear) {
        constexpr size_t least = 16;
        std::map<int32_t, size_t> stored;  // the place among the stores
        for (const Node &node : body)
            if (node.op && node.op->opcode == Opcode::vreg_st) stored.emplace(node.op->src[2].id, stored.size());
        const size_t clears = body.size() - first_clear, beside = stores(body) / 2;
        if (clears < beside + least || !is_long(body, clears)) return;
        std::vector<size_t> last;
        for (size_t i = first_clear; i < body.size(); i++)
            if (const Op &op = *body[i].op; op.src[0] == zero_vector && op.src[1] == zero_vector && stored.contains(op.dst.id))
                last.push_back(i);
        std::ranges::stable_sort(last, std::greater(), [&](size_t i) { return stored.at(body[i].op->dst.id); });
        last.resize(std::min(last.size(), (clears - beside) / 2));
        for (size_t i : last) body[i] = load_of_zeros(*body[i].op);
    }

    Op load_of_zeros(const Op &clear) {
        if (zeros_ < 0) {
            zeros_ = static_cast<int>(kernel_.allocations.size());
            Allocation allocation;
            allocation.name = "(zeros)";  // no Func is called so
            allocation.zeros = true;
            allocation.rows = kernel_.machine->pad.count;
            kernel_.allocations.push_back(allocation);
        }
        Op load;
        load.opcode = Opcode::vreg_ld;
        load.dst = clear.dst;
        load.imm = 31;
        load.access = PadAccess{zeros_, {loads_++ % kernel_.machine->pad.count, {}}, {}};
        load.source = clear.source;
        return load;
    }

    void store_zeros() {
        for (int64_t row = 0; zeros_ >= 0 && row < kernel_.machine->pad.count; row++) {
            Op op;
            op.opcode = Opcode::vreg_st;
            op.access = PadAccess{zeros_, {row, {}}, {}};
            op.src = {Reg{}, Reg{}, zero_vector};
            op.imm = 31;
            kernel_.body.insert(kernel_.body.begin(), op);
        }
    }

    // Takes out what clears registers that live nowhere else: in front of the first loop inside, if this repeats, those that
    // are stored behind it, and those that a loop inside clears itself, since the stores of its last turn may run in its next
    // first one.
    std::vector<Op> take_clears(Body &body, bool repeats) {
        const auto first_loop = std::find_if(body.begin(), body.end(), [](const Node &node) { return node.loop != nullptr; });
        Mentions inside;
        count(body, inside);
        std::set<int32_t> stored;
        for (auto node = first_loop; node != body.end(); ++node)
            if (node->op && node->op->opcode == Opcode::vreg_st)
                for (Reg r : reads_of(*node->op)) stored.insert(r.id);
        Mentions before;
        std::vector<Op> clears;
        Body rest;
        for (auto node = body.begin(); node != body.end(); ++node) {
            if (node->op && makes_constant(kernel_, *node->op)) {
                const int32_t id = node->op->dst.id;
                const bool once = (repeats && node < first_loop && stored.contains(id)) || behind_.contains(id);
                if (once && before[id] == 0 && inside[id] == all_[id]) {
                    before[id]++;
                    clears.push_back(std::move(*node->op));
                    continue;
                }
            }
            count(*node, before);
            rest.push_back(std::move(*node));
        }
        body = std::move(rest);
        return clears;
    }

    Kernel &kernel_;
    Mentions all_;
    std::set<int32_t> behind_;  // what loops clear at their end
    int zeros_ = -1;            // the rows that hold zeros, where some are loaded
    int64_t loads_ = 0;
};

}  // namespace

void clear_behind(Kernel &kernel) { ClearBehind(kernel).run(); }

}  // namespace atalla::codegen
