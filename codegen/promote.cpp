#include "codegen/promote.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "codegen/loop_tree.h"

namespace atalla::codegen {

namespace {

class Promoter {
public:
    Promoter(Kernel &kernel, Loop &loop) : kernel_(kernel), loop_(loop) {}

    // The code in front of the loop and behind it; none where the loop stays as it is.
    struct Ends {
        Body front, behind;
    };
    Ends run() {
        Ends ends;
        if (!weighs()) return ends;
        for (const int allocation : stored())
            if (find_rows(allocation)) promote(ends);
        return ends;
    }

private:
    struct Row {
        size_t load = 0, store = 0;  // where in the body
    };

    bool weighs() const {
        return std::any_of(loop_.body.begin(), loop_.body.end(),
                           [](const Node &node) { return node.op && node.op->opcode == Opcode::gemm_vv; });
    }

    std::set<int> stored() const {
        std::set<int> allocations;
        for (const Node &node : loop_.body)
            if (node.op && node.op->access && node.op->opcode == Opcode::vreg_st)
                allocations.insert(node.op->access->allocation);
        return allocations;
    }

    // The rows of the allocation that the loop touches, if each is loaded once and stored once, later, in all iterations.
    bool find_rows(int allocation) {
        std::map<LinearForm, std::pair<std::vector<size_t>, std::vector<size_t>>> touched;
        for (size_t at = 0; at < loop_.body.size(); at++) {
            const Node &node = loop_.body[at];
            if (!node.op) return false;
            if (!node.op->access || node.op->access->allocation != allocation) continue;
            if (node.op->mask.defined() || varies(node.op->access->row)) return false;
            auto &[loads, stores] = touched[node.op->access->row];
            (node.op->opcode == Opcode::vreg_ld ? loads : stores).push_back(at);
        }
        rows_.clear();
        std::optional<LinearForm> first;
        std::set<int32_t> sums;
        for (const auto &[row, places] : touched) {
            const auto &[loads, stores] = places;
            if (loads.size() != 1 || stores.size() != 1 || loads[0] > stores[0]) return false;
            // Rows are told apart by their numbers alone.
            if (first && first->terms != row.terms) return false;
            if (!sums.insert(loop_.body[loads[0]].op->dst.id).second) return false;
            first = row;
            rows_.push_back({loads[0], stores[0]});
        }
        std::sort(rows_.begin(), rows_.end(), [](const Row &a, const Row &b) { return a.load < b.load; });
        return static_cast<int64_t>(rows_.size()) <= kernel_.machine->regs.vector - 1 - registers_in_flight;
    }

    bool varies(const LinearForm &row) const {
        return std::any_of(row.terms.begin(), row.terms.end(),
                           [&](const auto &term) { return kernel_.atoms[term.first].loop == loop_.id; });
    }

    void promote(Ends &ends) {
        std::vector<bool> gone(loop_.body.size(), false);
        for (const Row &row : rows_) {
            Op load = *loop_.body[row.load].op, store = *loop_.body[row.store].op;
            const Reg sum = load.dst, value = store.src[2];
            gone[row.load] = true;
            Op &copy = *loop_.body[row.store].op;
            copy = Op{};
            copy.opcode = Opcode::sub_vv;
            copy.dst = sum;
            copy.src = {value, zero_vector, {}};
            copy.source = store.source;
            store.src[2] = sum;
            ends.front.emplace_back(std::move(load));
            ends.behind.emplace_back(std::move(store));
        }
        Body left;
        for (size_t at = 0; at < loop_.body.size(); at++)
            if (!gone[at]) left.push_back(std::move(loop_.body[at]));
        loop_.body = std::move(left);
    }

    static constexpr int64_t registers_in_flight = 40;  // for weights, rows and results on their way
    Kernel &kernel_;
    Loop &loop_;
    std::vector<Row> rows_;
};

void promote(Kernel &kernel, Body &body) {
    for (size_t at = 0; at < body.size(); at++) {
        if (body[at].branch) promote(kernel, body[at].branch->body);
        if (!body[at].loop) continue;
        Loop &loop = *body[at].loop;
        if (has_loop(loop.body)) {
            promote(kernel, loop.body);
            continue;
        }
        Promoter::Ends ends = Promoter(kernel, loop).run();
        const auto insert = [&](size_t where, Body &ops) {
            body.insert(body.begin() + static_cast<std::ptrdiff_t>(where), std::make_move_iterator(ops.begin()),
                        std::make_move_iterator(ops.end()));
        };
        insert(at + 1, ends.behind);
        const size_t front = ends.front.size();
        insert(at, ends.front);
        at += front;
    }
}

}  // namespace

void promote_sums(Kernel &kernel) { promote(kernel, kernel.body); }

}  // namespace atalla::codegen
