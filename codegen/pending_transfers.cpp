#include "codegen/pending_transfers.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace atalla::codegen {

namespace {

// The branches around an operation, outermost first. Loops run at least once.
using Path = std::vector<const void *>;

struct Transfer {
    Path path;
    int pad = -1;
};

class Pending {
public:
    void walk(const Body &body) {
        for (const Node &node : body) {
            if (node.op) visit(*node.op);
            if (node.loop) walk(node.loop->body);
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
            // A pad has one transfer at a time.
            for (auto entry = pending_.begin(); entry != pending_.end();)
                entry = ended(entry->second, [&](const Transfer &t) { return t.pad == op.pad; }) ? pending_.erase(entry)
                                                                                                 : std::next(entry);
            if (op.dst.defined()) pending_[op.dst].push_back({path_, op.pad});
        } else if (!op.value) {
            for (Reg r : op.src) {
                const auto found = pending_.find(r);
                if (found != pending_.end() && ended(found->second, [](const Transfer &) { return true; }))
                    pending_.erase(found);
            }
        }
    }

    // Takes out those that have ended when what is visited runs: of `which`, if everything around it is around the transfer as
    // well.
    template <typename Which>
    bool ended(std::vector<Transfer> &transfers, Which &&which) const {
        std::erase_if(transfers, [&](const Transfer &t) {
            return which(t) && t.path.size() >= path_.size() && std::equal(path_.begin(), path_.end(), t.path.begin());
        });
        return transfers.empty();
    }

    Path path_;
    std::map<Reg, std::vector<Transfer>> pending_;
};

}  // namespace

std::vector<Reg> transfers_at_end(const Body &body) {
    Pending pending;
    pending.walk(body);
    return pending.registers();
}

}  // namespace atalla::codegen
