// Array expansion: rows of the pads that an iteration of an innermost loop stores and loads again are rows of its own, so that
// the next iterations need not wait until they are free. Registers have no names to spare; the pads have rows.
#include <algorithm>
#include <map>
#include <set>

#include "codegen/dependence.h"
#include "codegen/idle_stages.h"
#include "codegen/passes.h"
#include "isa/vectors.h"

namespace atalla::codegen {

namespace {

class Expander {
public:
    explicit Expander(Kernel &kernel) : kernel_(kernel) {}

    void run() {
        count(kernel_.body);
        for (const Allocation &allocation : kernel_.allocations) rows_ += allocation.rows;
        expand_in(kernel_.body);
    }

private:
    // Of all rows in the pads, those that expansion leaves to guard rows and to what does not divide.
    static constexpr int64_t share_kept = 4;

    void count(const Body &body) {
        for (const Node &node : body) {
            if (node.op)
                for (const std::set<Reg> read = {node.op->src[0], node.op->src[1], node.op->src[2], node.op->mask};
                     Reg r : read)
                    readers_[r]++;
            if (node.op && node.op->access) accesses_[node.op->access->allocation]++;
            if (node.copy) copied_.insert(node.copy->allocation);
            if (node.loop) count(node.loop->body);
            if (node.branch) count(node.branch->body);
        }
    }

    void expand_in(Body &body) {
        for (Node &node : body) {
            if (node.branch) expand_in(node.branch->body);
            if (!node.loop) continue;
            expand_in(node.loop->body);
            if (may_idle(kernel_, *node.loop) && !kernel_.loops[static_cast<size_t>(node.loop->id)].varies())
                expand_rows_of(*node.loop);
        }
    }

    void expand_rows_of(Loop &loop) {
        constexpr int64_t slots_of_ring = 2;  // a loop that runs as often may be the number of a slot
        if (loop.extent <= slots_of_ring) return;
        std::map<int, int64_t> here;
        std::set<int> seen;
        for (const Node &node : loop.body)
            if (node.op->access && ++here[node.op->access->allocation] == 1) seen.insert(node.op->access->allocation);
        for (int index : seen) {
            Allocation &allocation = kernel_.allocations[static_cast<size_t>(index)];
            const int64_t pads = kernel_.machine->pad.count, step = ceil_div(allocation.rows, pads) * pads,
                          more = step * loop.extent - allocation.rows;
            if (here[index] != accesses_[index] || copied_.count(index) > 0 || !stays_in_iteration(loop, index)) continue;
            if (rows_ + more > pads * kernel_.machine->pad_rows() / share_kept * (share_kept - 1)) continue;
            rows_ += more;
            allocation.rows += more;
            const int atom = variable_of(loop);
            for (Node &node : loop.body)
                if (node.op->access && node.op->access->allocation == index) node.op->access->row.terms[atom] = step;
            forward(loop.body, index);
        }
    }

    // What reads a row about when it is stored takes the register that is stored: the row is for those that read it late.
    void forward(Body &body, int index) {
        std::vector<bool> forwarded(body.size(), false);
        const std::vector<int> issue = earliest_issue(body);
        for (size_t load = 0; load < body.size(); load++) {
            const Op &op = *body[load].op;
            if (op.opcode != Opcode::vreg_ld || op.access->allocation != index) continue;
            size_t store = load;
            while (store-- > 0 && !(body[store].op->opcode == Opcode::vreg_st && body[store].op->access == op.access)) {
            }
            const Reg value = body[store].op->src[2], loaded = op.dst;
            bool all = made_once(body, loaded) && readers_[loaded] == count_readers(body, load + 1, loaded);
            for (size_t reader = load + 1; reader < body.size(); reader++) {
                Op &other = *body[reader].op;
                if (!reads(other, loaded)) continue;
                const bool early =
                    all && made_once(body, value) && waits_for(body, issue, reader, loaded) <= issue[store] + most_waiting;
                for (Reg &source : other.src)
                    if (early && source == loaded) source = value;
                all = all && early;
            }
            forwarded[load] = all;
        }
        Body rest;
        for (size_t i = 0; i < body.size(); i++)
            if (!forwarded[i]) rest.push_back(std::move(body[i]));
        body = std::move(rest);
    }

    // The cycle in which each operation can issue, had the machine room for all.
    std::vector<int> earliest_issue(const Body &body) const {
        std::map<Reg, int> ready;
        std::map<std::pair<int, LinearForm>, int> stored;
        std::vector<int> issue;
        for (const Node &node : body) {
            const Op &op = *node.op;
            int cycle = 0;
            for (Reg r : reads_of(op))
                if (const auto found = ready.find(r); found != ready.end()) cycle = std::max(cycle, found->second);
            if (op.access) {
                int &row = stored[{op.access->allocation, op.access->row}];
                if (op.opcode == Opcode::vreg_st)
                    row = cycle + result_latency(*kernel_.machine, op.opcode);
                else
                    cycle = std::max(cycle, row);
            }
            issue.push_back(cycle);
            if (op.dst.defined()) ready[op.dst] = cycle + result_latency(*kernel_.machine, op.opcode);
        }
        return issue;
    }

    // When what an operation reads beside one register has been made.
    int waits_for(const Body &body, const std::vector<int> &issue, size_t reader, Reg beside) const {
        int cycle = 0;
        for (Reg r : reads_of(*body[reader].op))
            for (size_t i = 0; i < reader; i++)
                if (r != beside && body[i].op->dst == r)
                    cycle = std::max(cycle, issue[i] + result_latency(*kernel_.machine, body[i].op->opcode));
        return cycle;
    }

    static bool made_once(const Body &body, Reg value) {
        return std::count_if(body.begin(), body.end(), [&](const Node &node) { return node.op->dst == value; }) == 1;
    }
    static int64_t count_readers(const Body &body, size_t first, Reg value) {
        return std::count_if(body.begin() + static_cast<std::ptrdiff_t>(first), body.end(),
                             [&](const Node &node) { return reads(*node.op, value); });
    }

    // Is each row that an iteration loads one that it stored before, at a place that does not depend on the iteration?
    bool stays_in_iteration(const Loop &loop, int index) const {
        std::set<LinearForm> stored;
        for (const Node &node : loop.body) {
            const Op &op = *node.op;
            if (!op.access || op.access->allocation != index) continue;
            for (const auto &[atom, rows] : op.access->row.terms)
                if (kernel_.atoms[static_cast<size_t>(atom)].loop == loop.id) return false;
            if (op.opcode == Opcode::vreg_st && op.imm == whole_row)
                stored.insert(op.access->row);
            else if (op.opcode != Opcode::vreg_ld || stored.count(op.access->row) == 0)
                return false;
        }
        return true;
    }

    int variable_of(const Loop &loop) {
        for (size_t a = 0; a < kernel_.atoms.size(); a++)
            if (kernel_.atoms[a].is_loop && kernel_.atoms[a].loop == loop.id) return static_cast<int>(a);
        const std::string &name = kernel_.loops[static_cast<size_t>(loop.id)].name;
        kernel_.atoms.push_back({Halide::Internal::Variable::make(Halide::Int(32), name), name, loop.id, true});
        return static_cast<int>(kernel_.atoms.size()) - 1;
    }

    static constexpr int32_t whole_row = 31;
    static constexpr int most_waiting = 16;  // cycles that a value may stay in its register for another operand

    Kernel &kernel_;
    std::map<int, int64_t> accesses_;  // by allocation
    std::set<int> copied_;
    std::map<Reg, int64_t> readers_;  // operations that read a register
    int64_t rows_ = 0;                // of all allocations
};

}  // namespace

void expand(Kernel &kernel) { Expander(kernel).run(); }

}  // namespace atalla::codegen
