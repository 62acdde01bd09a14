#include "codegen/early_loads.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "codegen/dependence.h"

namespace atalla::codegen {

namespace {

// Of a pad, both ends included.
struct Rows {
    int64_t first = 0, last = 0;
};

class EarlyLoads {
public:
    explicit EarlyLoads(Kernel &kernel) : kernel_(kernel), body_(kernel.body) {}

    void run() {
        size_t fills = 0;  // nodes up to the last one that fills
        for (size_t at = 0; at < body_.size() && may_precede(body_[at]); at++)
            if (add_filled(body_[at])) fills = at + 1;
        if (fills == 0 || unknown_) return;
        first_ = end_ = fills;
        while (end_ < body_.size() && body_[end_].op && starts_loads(*body_[end_].op)) end_++;
        for (size_t at = first_; at < end_; at++)
            if (op(at).opcode == Opcode::scpad_ld) consider(at);
        if (early_.empty() || kernel_.takes(Choice::FillsFirst)) return;
        Body before;
        for (const size_t at : early_) before.push_back(std::move(body_[at]));
        for (auto at = early_.rbegin(); at != early_.rend(); at++)
            body_.erase(body_.begin() + static_cast<std::ptrdiff_t>(*at));
        body_.insert(body_.begin(), std::make_move_iterator(before.begin()), std::make_move_iterator(before.end()));
    }

private:
    const Op &op(size_t at) const { return *body_[at].op; }

    // Fills, and operations that make what they store.
    static bool may_precede(const Node &node) {
        if (node.loop) return node.loop->fill;
        return node.op && !node.op->side && !node.op->fence && info(node.op->opcode).unit != Unit::Sdma;
    }
    // Transfers to the pads, their waits, and what aims them.
    static bool starts_loads(const Op &op) {
        return !op.side && !op.fence && (op.opcode == Opcode::scpad_ld || (!op.access && info(op.opcode).unit == Unit::Ex1));
    }

    // Does it store rows? Those are remembered.
    bool add_filled(const Node &node) {
        if (node.op) return node.op->opcode == Opcode::vreg_st && add_stored(*node.op);
        bool any = false;
        for (const Node &inner : node.loop->body) any = add_filled(inner) || any;
        return any;
    }
    bool add_stored(const Op &store) {
        const PadAccess &access = *store.access;
        const Allocation &allocation = kernel_.allocations[static_cast<size_t>(access.allocation)];
        int64_t low = access.row.constant, high = low;
        for (const auto &[atom, step] : access.row.terms) {
            const Atom &variable = kernel_.atoms[static_cast<size_t>(atom)];
            unknown_ = unknown_ || !variable.is_loop;
            (step < 0 ? low : high) += step * (kernel_.loops[static_cast<size_t>(variable.loop)].extent - 1);
        }
        unknown_ = unknown_ || store.pad < 0 || access.slot.defined();
        filled_[store.pad].push_back(
            {allocation.base_row + allocation.row_in_pad(low), allocation.base_row + allocation.row_in_pad(high)});
        return true;
    }

    std::vector<Reg> all_reads(size_t at) const {
        std::vector<Reg> reads = reads_of(op(at));
        for (const auto &[loop, reg] : op(at).loop_values) reads.push_back(reg);
        return reads;
    }
    // The operation that makes what another one reads.
    std::optional<size_t> maker(Reg r, size_t before) const {
        for (size_t at = before; at-- > first_;)
            if (op(at).dst == r) return at;
        return std::nullopt;
    }
    // What a register holds then, where that is known.
    std::optional<int64_t> value_of(Reg r, size_t before) const {
        if (r == zero_scalar) return 0;
        const std::optional<size_t> made = maker(r, before);
        if (!made) return kernel_.registers[static_cast<size_t>(r.id)].constant;
        if (!op(*made).value || !op(*made).value->is_constant()) return std::nullopt;
        int64_t sum = op(*made).value->constant;
        for (Reg source : op(*made).src) {
            if (!source.defined()) continue;
            const std::optional<int64_t> addend = value_of(source, *made);
            if (!addend) return std::nullopt;
            sum += *addend;
        }
        return sum;
    }

    bool brings_filled_rows(size_t at) const {
        const std::optional<int64_t> byte = value_of(op(at).src[0], at), control = value_of(op(at).src[2], at);
        if (!byte || !control) return true;
        const int64_t first = *byte / kernel_.machine->pad.row_bytes, last = first + (*control >> 25 & 31);
        const auto filled = filled_.find(op(at).pad);
        return filled != filled_.end() &&
               std::ranges::any_of(filled->second, [&](const Rows &rows) { return rows.first <= last && first <= rows.last; });
    }

    void consider(size_t at) {
        // Who waits for the last transfer of a copy that a pad has waits for all of them.
        const std::pair own(op(at).orders, op(at).pad);
        std::set<size_t> moved = early_;
        add_with_makers(at, moved);
        if (!late_.count(own) && !brings_filled_rows(at) && may_move(moved))
            early_ = std::move(moved);
        else
            late_.insert(own);
    }
    void add_with_makers(size_t at, std::set<size_t> &moved) const {
        if (!moved.insert(at).second) return;
        for (Reg r : all_reads(at))
            if (const std::optional<size_t> made = maker(r, at)) add_with_makers(*made, moved);
    }
    // Do these operations and those that they pass touch different registers?
    bool may_move(const std::set<size_t> &moved) const {
        for (const size_t m : moved) {
            const std::vector<Reg> reads = all_reads(m);
            for (size_t at = first_; at < m; at++) {
                if (moved.count(at)) continue;
                const std::vector<Reg> others = all_reads(at);
                const bool written = op(at).dst.defined() && op(at).dst.id > all_lanes.id &&
                                     (op(at).dst == op(m).dst || std::ranges::count(reads, op(at).dst) > 0);
                if (written || std::ranges::count(others, op(m).dst) > 0) return false;
            }
            for (size_t at = 0; at < first_; at++)
                if (writes_any(body_[at], reads)) return false;
        }
        return true;
    }
    static bool writes_any(const Node &node, const std::vector<Reg> &regs) {
        if (node.op)
            return node.op->dst.defined() && node.op->dst.id > all_lanes.id && std::ranges::count(regs, node.op->dst) > 0;
        return std::ranges::any_of(node.loop->body, [&](const Node &inner) { return writes_any(inner, regs); });
    }

    Kernel &kernel_;
    Body &body_;
    size_t first_ = 0, end_ = 0;               // nodes behind the fills
    std::map<int, std::vector<Rows>> filled_;  // by pad
    bool unknown_ = false;                     // are some of them?
    std::set<size_t> early_;                   // nodes that go in front
    std::set<std::pair<int, int>> late_;       // buffers and pads with loads that do not
};

}  // namespace

void start_loads_before_fills(Kernel &kernel) {
    if (kernel.machine->timed()) EarlyLoads(kernel).run();
}

}  // namespace atalla::codegen
