#include "codegen/pending_transfers.h"

#include <algorithm>
#include <map>

namespace atalla::codegen {

namespace {

// The loops and branches around an operation, outermost first.
using Path = std::vector<const void *>;

class Pending {
public:
    void walk(const Body &body) {
        for (const Node &node : body) {
            if (node.op) visit(*node.op);
            if (node.loop) inside(node.loop.get(), node.loop->body);
            if (node.branch) inside(node.branch.get(), node.branch->body);
        }
    }
    std::vector<Reg> registers() const {
        std::vector<Reg> result;
        for (const auto &[reg, paths] : pending_) result.push_back(reg);
        return result;
    }

private:
    void inside(const void *node, const Body &body) {
        path_.push_back(node);
        walk(body);
        path_.pop_back();
    }

    void visit(const Op &op) {
        if (op.side) {
            path_.push_back(&op);
            for (const Op &inner : *op.side) visit(inner);
            path_.pop_back();
        } else if (op.opcode == Opcode::scpad_ld || op.opcode == Opcode::scpad_st) {
            pending_[op.dst].push_back(path_);
        } else if (!op.value) {
            // It runs whenever the transfer has, if everything around it is around the transfer as well.
            for (Reg r : op.src) {
                const auto found = pending_.find(r);
                if (found == pending_.end()) continue;
                std::erase_if(found->second, [&](const Path &path) { return path.size() >= path_.size() && std::equal(path_.begin(), path_.end(), path.begin()); });
                if (found->second.empty()) pending_.erase(found);
            }
        }
    }

    Path path_;
    std::map<Reg, std::vector<Path>> pending_;
};

}  // namespace

std::vector<Reg> transfers_at_end(const Body &body) {
    Pending pending;
    pending.walk(body);
    return pending.registers();
}

}  // namespace atalla::codegen
