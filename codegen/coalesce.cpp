// Copies between vector registers that need not be, and the unit that makes those that remain.
#include <algorithm>
#include <functional>
#include <map>

#include "codegen/dependence.h"
#include "codegen/passes.h"

namespace atalla::codegen {

namespace {

// x - 0 = x for every x, -0 included; with a mask, a merge.
bool is_move(const Op &op) { return op.opcode == Opcode::sub_vv && op.src[1] == zero_vector; }
bool is_copy(const Op &op) { return is_move(op) && !op.mask.defined() && !op.keeps_dst; }
bool is_merge(const Op &op) { return is_move(op) && op.mask.defined() && op.keeps_dst; }

// A lane operation that a mask may keep to some lanes.
bool takes_mask(const Op &op) {
    const Unit unit = info(op.opcode).unit;
    return (unit == Unit::Alu || unit == Unit::Mul || unit == Unit::Exp) && !op.mask.defined() && !op.keeps_dst;
}

class Coalescer {
public:
    explicit Coalescer(Kernel &kernel) : kernel_(kernel) {}

    void run() {
        collect(kernel_.body);
        for (size_t at = 0; at < sites_.size(); at++)
            if (!sites_[at].gone && is_copy(op(at)) && !take_over(at)) move_up(at);
        for (size_t at = 0; at < sites_.size(); at++)
            if (!sites_[at].gone && is_merge(op(at))) make_under_mask(at);
        for (Site &site : sites_)
            if (site.gone) *site.op = Op{};
        erase_nothing(kernel_.body);
    }

private:
    struct Site {
        Op *op = nullptr;
        const Body *body = nullptr;
        bool gone = false;
    };

    Op &op(size_t at) { return *sites_[at].op; }

    void collect(Body &body) {
        for (Node &node : body) {
            if (node.op) {
                for (Reg r : reads_of(*node.op)) mention(r);
                if (node.op->dst.defined()) mention(node.op->dst);
                sites_.push_back({&*node.op, &body, false});
            }
            if (node.branch) {
                mention(node.branch->condition);
                collect(node.branch->body);
            }
            if (node.loop) collect(node.loop->body);
        }
    }
    void mention(Reg r) {
        std::vector<size_t> &sites = mentions_[r.id];
        if (sites.empty() || sites.back() != sites_.size()) sites.push_back(sites_.size());
    }

    static void erase_nothing(Body &body) {
        std::erase_if(body, [](const Node &node) { return node.op && node.op->opcode == Opcode::nop_s; });
        for (Node &node : body) {
            if (node.loop) erase_nothing(node.loop->body);
            if (node.branch) erase_nothing(node.branch->body);
        }
    }

    // Is the register made anew, whole, in the body of the copy, before anything else names it?
    bool begins_in(Reg r, const Body *body) {
        const size_t first = mentions_[r.id].front();
        const Op &made = op(first);
        return sites_[first].body == body && made.dst == r && !made.keeps_dst && !reads(made, r);
    }

    // The copy's source is not named after it: the source stands for the copy.
    bool take_over(size_t at) {
        const Reg from = op(at).src[0], to = op(at).dst;
        if (from.id <= all_lanes.id || mentions_[from.id].back() != at || mentions_[to.id].front() != at ||
            !begins_in(from, sites_[at].body))
            return false;
        sites_[at].gone = true;
        rename(to, from);
        return true;
    }

    // The copy's target is not named from where the source is made: the source is made in it.
    void move_up(size_t at) {
        const Reg from = op(at).src[0], to = op(at).dst;
        if (from.id <= all_lanes.id || mentions_[from.id].back() != at || !begins_in(from, sites_[at].body)) return;
        const size_t made = mentions_[from.id].front();
        for (size_t site : mentions_[to.id])
            if (site > made && site < at) return;
        sites_[at].gone = true;
        rename(from, to);
        if (is_copy(op(made)) && op(made).src[0] == to) sites_[made].gone = true;
    }

    // What nothing but a merge reads is made where the merge is, in its lanes alone.
    void make_under_mask(size_t at) {
        Op &merge = op(at);
        const Reg from = merge.src[0];
        const std::vector<size_t> &named = mentions_[from.id];
        if (from.id <= all_lanes.id || named.size() != 2 || named.back() != at || !begins_in(from, sites_[at].body)) return;
        const size_t made = named.front();
        Op now = op(made);
        if (!takes_mask(now)) return;
        for (size_t between = made + 1; between < at; between++)
            if (!sites_[between].gone && op(between).dst.defined() && reads(now, op(between).dst)) return;
        now.dst = merge.dst;
        now.mask = merge.mask;
        now.keeps_dst = true;
        merge = std::move(now);
        sites_[made].gone = true;
    }

    void rename(Reg old, Reg now) {
        std::vector<size_t> sites = std::move(mentions_[old.id]), &all = mentions_[now.id];
        mentions_.erase(old.id);
        for (size_t at : sites) {
            if (sites_[at].gone) continue;
            Op &o = op(at);
            for (Reg &r : o.src)
                if (r == old) r = now;
            if (o.dst == old) o.dst = now;
        }
        sites.insert(sites.end(), all.begin(), all.end());
        std::sort(sites.begin(), sites.end());
        sites.erase(std::unique(sites.begin(), sites.end()), sites.end());
        std::erase_if(sites, [&](size_t at) { return sites_[at].gone; });
        all = std::move(sites);
    }

    Kernel &kernel_;
    std::vector<Site> sites_;  // in the order of the program
    std::map<int32_t, std::vector<size_t>> mentions_;
};

// x * 1 = x too: moves go to the multiplier where the adder has more to do. All of them do where that is hardly more than its
// half of the work: rows stay alike then, which may follow each other at one distance.
void balance(Kernel &kernel, Body &body) {
    constexpr int64_t hardly = 16;  // one operation of so many
    int64_t adder = 0, multiplier = 0, moves = 0;
    for (const Node &node : body) {
        if (node.op && info(node.op->opcode).unit == Unit::Alu) adder++;
        if (node.op && info(node.op->opcode).unit == Unit::Mul) multiplier++;
        if (node.op && is_move(*node.op)) moves++;
    }
    const int64_t half = (adder + multiplier + 1) / 2;
    const bool all = multiplier < adder && multiplier + moves <= half + half / hardly;
    constexpr int32_t one = 0x3F800000;
    for (Node &node : body) {
        if (node.loop) balance(kernel, node.loop->body);
        if (node.branch) balance(kernel, node.branch->body);
        if (!node.op || !is_move(*node.op) || (!all && adder <= multiplier + 1)) continue;
        // A zero is 0 * 0: that reads no scalar register, whose ports are scarce where results are stored.
        const bool clear = node.op->src[0] == zero_vector && !node.op->mask.defined();
        node.op->opcode = clear ? Opcode::mul_vv : Opcode::mul_vs;
        node.op->src[1] = clear ? zero_vector : kernel.constant(one);
        adder--;
        multiplier++;
    }
}

}  // namespace

void coalesce(Kernel &kernel) {
    Coalescer(kernel).run();
    reload(kernel);
    balance(kernel, kernel.body);
}

}  // namespace atalla::codegen
