#include "codegen/masks.h"

#include <algorithm>
#include <utility>

#include "codegen/dependence.h"

namespace atalla::codegen {

bool make_masks_again(Kernel &kernel, Blocks &blocks) {
    const size_t most_kept = static_cast<size_t>(kernel.machine->regs.mask) / 2;
    bool again = false;
    for (Block &block : blocks) {
        std::map<int32_t, Op> makers;  // of constant lanes
        std::vector<int32_t> kept;     // the least recently used first
        Renaming names;
        std::vector<Op> ops;
        const auto keep = [&](int32_t id) {
            std::erase(kept, id);
            kept.push_back(id);
            if (kept.size() > most_kept) kept.erase(kept.begin());
        };
        for (Op &op : block.ops) {
            for (Reg r : reads_of(op)) {
                if (!kernel.is_mask(r)) continue;
                const auto maker = makers.find(r.id);
                if (maker != makers.end() && std::find(kept.begin(), kept.end(), r.id) == kept.end()) {
                    ops.push_back(maker->second);
                    ops.back().dst = names[r.id] = kernel.register_like(r);
                    again = true;
                }
                keep(r.id);
            }
            if (kernel.is_mask(op.dst)) {
                names.erase(op.dst.id);
                makers.erase(op.dst.id);
                if (op.opcode == Opcode::mv_stm && kernel.registers[op.src[0].id].constant) makers[op.dst.id] = op;
                keep(op.dst.id);
            }
            rename(op, names);
            ops.push_back(std::move(op));
        }
        block.ops = std::move(ops);
    }
    return again;
}

std::set<Reg> shared_masks(const Kernel &kernel, const Blocks &blocks, size_t b) {
    if (!kernel.has_any(RegisterClass::Mask)) return {};
    std::map<Reg, std::pair<size_t, size_t>> spans;  // first and last block
    for (size_t i = 0; i < blocks.size(); i++) {
        const auto touch = [&](Reg r) {
            if (kernel.is_mask(r)) spans.try_emplace(r, i, i).first->second.second = i;
        };
        for (const Op &op : blocks[i].ops) {
            touch(op.dst);
            for_each_read(op, touch);
        }
    }
    std::set<Reg> shared;
    for (auto [reg, span] : spans) {
        if (span.first == span.second) continue;
        for (size_t i = span.second + 1; i < blocks.size(); i++) {
            const Terminator &end = blocks[i].end;
            if (end.kind != Terminator::Loop) continue;
            const auto target = static_cast<size_t>(end.target);
            if (span.first < target && target <= span.second) span.second = i;
        }
        if (span.first <= b && b <= span.second) shared.insert(reg);
    }
    return shared;
}

MaskBudget::MaskBudget(const Kernel &kernel, const ScheduleGraph &graph, const std::set<Reg> &shared)
    : kernel_(kernel),
      graph_(graph),
      shared_(shared),
      free_(static_cast<int>(kernel.machine->regs.mask) - 1 - static_cast<int>(shared.size())) {
    limits_ = std::any_of(graph.ops.begin(), graph.ops.end(), [&](const Op &op) { return counts(op.dst); });
    if (!limits_) return;
    for (const Op &op : graph.ops)
        for (Reg r : reads_of(op))
            if (counts(r)) readers_[r]++;
    // The registers of masks that are read for the last time in a packet are free in the next.
    constexpr int lane_units = 2;
    free_ -= lane_units;
}

bool MaskBudget::fits(int i) const {
    if (!limits_) return true;
    const Op &op = graph_.ops[i];
    const int live = static_cast<int>(live_.size());
    return !counts(op.dst) || live_.count(op.dst) || live < free_ / 2 || (live < free_ && readers_wait_for(i));
}

void MaskBudget::take(int i) {
    if (!limits_) return;
    const Op &op = graph_.ops[i];
    if (counts(op.dst) && readers_.count(op.dst)) live_.insert(op.dst);
    for (Reg r : reads_of(op))
        if (const auto found = readers_.find(r); found != readers_.end() && --found->second == 0) live_.erase(r);
}

// Has all else that the readers of operation i need been scheduled?
bool MaskBudget::readers_wait_for(int i) const {
    for (int out : graph_.out[i])
        for (int in : graph_.in[graph_.edges[out].to])
            if (graph_.edges[in].from != i && graph_.edges[in].distance == 0 && graph_.cycle[graph_.edges[in].from] < 0)
                return false;
    return true;
}

}  // namespace atalla::codegen
