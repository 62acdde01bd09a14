// Accumulators that every turn of a loop clears, sums in an inner loop and stores: code that clears beside the stores needs no
// packets of its own.
#include <algorithm>
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
        visit(kernel_.body);
    }

private:
    // Inner loops first: what now stands in front of one may itself be a clear that the loop around need not repeat.
    void visit(Body &body) {
        for (size_t at = 0; at < body.size(); at++) {
            if (body[at].branch) visit(body[at].branch->body);
            if (!body[at].loop) continue;
            Loop &loop = *body[at].loop;
            visit(loop.body);
            const std::vector<Op> clears = take_clears(loop.body, loop.extent > 1);
            for (const Op &clear : clears) {
                if (!behind_.insert(clear.dst.id).second) continue;   // a loop inside does it
                loop.body.push_back(clear);
                count(Node(clear), all_);   // twice from now on
            }
            body.insert(body.begin() + static_cast<std::ptrdiff_t>(at), clears.begin(), clears.end());
            at += clears.size();
        }
    }

    // Takes out what clears registers that live nowhere else: in front of the first loop inside, if this repeats, those that are stored behind
    // it, and those that a loop inside clears itself, since the stores of its last turn may run in its next first one.
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
    std::set<int32_t> behind_;   // what loops clear at their end
};

}  // namespace

void clear_behind(Kernel &kernel) { ClearBehind(kernel).run(); }

}  // namespace atalla::codegen
