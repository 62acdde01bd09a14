#include "codegen/pointer_keys.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "codegen/index.h"
#include "isa/error.h"

namespace atalla::codegen {

PointerKeys::PointerKeys(Kernel &kernel, bool spread) : kernel_(kernel) {
    if (!spread) return;
    choose_copies(kernel.body, -1);
    choose_windows();
}

void PointerKeys::choose_copies(Body &body, int loop) {
    for (Node &node : body) {
        if (node.op && node.op->access) {
            copy_of_[&*node.op] = static_cast<int>(next_copy_++ % 2);
            const auto &terms = node.op->access->row.terms;
            const bool moves =
                std::any_of(terms.begin(), terms.end(), [&](const auto &term) { return depends_on(term.first, loop); });
            if (moves && node.op->opcode == Opcode::vreg_st) moving_stores_.insert(&*node.op);
        }
        if (node.loop) choose_copies(node.loop->body, node.loop->id);
        if (node.branch) choose_copies(node.branch->body, loop);
    }
}

// A pointer that moves serves accesses at constant distances, each of which is a constant in a register. Where these are
// many, as those of places in several rows of an image, so many that they leave no register for others, a pointer for each
// range of them needs the same few distances in all.
void PointerKeys::choose_windows() {
    constexpr size_t many = 32, fewest_saved = 2;
    std::map<PointerKey, std::set<int64_t>> rows;
    collect_rows(kernel_.body, rows);
    for (const auto &[key, used] : rows) {
        if (used.size() <= many) continue;
        std::vector<int64_t> best;
        size_t fewest = used.size() / fewest_saved;
        for (int64_t reach = 1; reach < *used.rbegin() - *used.begin(); reach *= 2) {
            std::vector<int64_t> starts;
            std::set<int64_t> distances;
            for (int64_t row : used) {
                if (starts.empty() || row - starts.back() > reach) starts.push_back(row);
                distances.insert(row - starts.back());
            }
            if (starts.size() + distances.size() > fewest) continue;
            fewest = starts.size() + distances.size();
            best = starts;
        }
        if (!best.empty()) windows_[key] = best;
    }
}

void PointerKeys::collect_rows(const Body &body, std::map<PointerKey, std::set<int64_t>> &rows) const {
    for (const Node &node : body) {
        if (node.op && node.op->access && !node.op->access->row.terms.empty()) {
            PointerKey key = of(*node.op);
            key.copy = 0;
            rows[key].insert(constant_row(*node.op));
        }
        if (node.loop) collect_rows(node.loop->body, rows);
        if (node.branch) collect_rows(node.branch->body, rows);
    }
}

int64_t PointerKeys::window_of(PointerKey key, int64_t row) const {
    key.copy = 0;
    const auto it = windows_.find(key);
    return it == windows_.end() ? 0 : std::upper_bound(it->second.begin(), it->second.end(), row) - it->second.begin();
}

PointerKey PointerKeys::of(const Op &op) const {
    const PadAccess &access = *op.access;
    const Allocation &allocation = kernel_.allocations[access.allocation];
    const auto copy = copy_of_.find(&op);
    PointerKey key{
        access.allocation, {}, access.slot, copy == copy_of_.end() ? 0 : copy->second, moving_stores_.count(&op) > 0};
    for (auto [atom, rows] : access.row.terms) {
        const std::optional<int64_t> step = allocation.step_in_pad(rows);
        if (!step)
            throw Error("cannot generate code: an access to '" + allocation.name +
                        "' changes pads from iteration to iteration");
        key.terms[atom] = *step * kernel_.machine->pad.row_bytes;
    }
    key.terms = joined(kernel_, {0, std::move(key.terms)}).terms;
    key.wraps = may_be_below_zero(key);
    key.window = window_of(key, constant_row(op));
    return key;
}

// Rows of a pad wrap, so the sum with a constant row may come back into it. The functional machine looks at the pointer
// alone, and takes one outside of a pad for an address of memory.
bool PointerKeys::may_be_below_zero(const PointerKey &key) const {
    if (kernel_.machine->timed()) return false;
    const int64_t base = key.slot.defined() ? 0 : kernel_.allocations[key.allocation].base_row * kernel_.machine->pad.row_bytes;
    const std::optional<Limits> limits = IndexScope(kernel_).range({base, key.terms});
    return !limits || limits->low < 0;
}

int64_t PointerKeys::constant_row(const Op &op) const {
    return kernel_.allocations[op.access->allocation].row_in_pad(op.access->row.constant);
}

void PointerKeys::collect(const Body &body, std::map<PointerKey, int64_t> &keys) const {
    for (const Node &node : body) {
        if (node.op && node.op->access) {
            const int64_t row = constant_row(*node.op);
            const auto [it, inserted] = keys.try_emplace(of(*node.op), row);
            if (!inserted) it->second = std::min(it->second, row);
        }
        if (node.loop) collect(node.loop->body, keys);
        if (node.branch) collect(node.branch->body, keys);
    }
}

PointerKey PointerKeys::without(PointerKey key, int loop) const {
    key.stores = false;
    key.window = 0;
    if (std::erase_if(key.terms, [&](const auto &term) { return inside(term.first, loop) || depends_on(term.first, loop); }) >
        0)
        key.wraps = false;
    return key;
}

bool PointerKeys::inside(int atom, int loop) const {
    for (int l = kernel_.loops[kernel_.atoms[atom].loop].parent; l >= 0; l = kernel_.loops[l].parent)
        if (l == loop) return true;
    return false;
}

}  // namespace atalla::codegen
