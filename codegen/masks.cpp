#include "codegen/masks.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "codegen/dependence.h"

namespace atalla::codegen {

namespace {

bool has_masks(const Kernel &kernel) {
    const auto beyond_all_lanes = kernel.registers.begin() + all_lanes.id + 1;
    return std::any_of(beyond_all_lanes, kernel.registers.end(), [](const RegInfo &info) { return info.cls == RegisterClass::Mask; });
}

struct Uses {
    std::set<size_t> blocks;
    bool crosses = false;   // a block reads what another one, or its own turn before, has made
};

std::map<int32_t, Uses> uses_of_masks(const Kernel &kernel, const Blocks &blocks) {
    std::map<int32_t, Uses> uses;
    for (size_t b = 0; b < blocks.size(); b++) {
        std::set<int32_t> made;
        for (const Op &op : blocks[b].ops) {
            for (Reg r : reads_of(op)) {
                if (!kernel.is_mask(r)) continue;
                uses[r.id].blocks.insert(b);
                if (!made.count(r.id)) uses[r.id].crosses = true;
            }
            if (kernel.is_mask(op.dst)) {
                uses[op.dst.id].blocks.insert(b);
                made.insert(op.dst.id);
            }
            if (!op.side) continue;
            for (const Op &inner : *op.side) {
                for (Reg r : reads_of(inner))
                    if (kernel.is_mask(r)) uses[r.id].crosses = true;
                if (kernel.is_mask(inner.dst)) uses[inner.dst.id].crosses = true;
            }
        }
    }
    return uses;
}

}  // namespace

void separate_masks(Kernel &kernel, Blocks &blocks) {
    if (!has_masks(kernel)) return;
    std::map<size_t, Renaming> names;   // by block
    for (const auto &[id, uses] : uses_of_masks(kernel, blocks)) {
        if (uses.crosses || uses.blocks.size() < 2) continue;
        for (auto b = std::next(uses.blocks.begin()); b != uses.blocks.end(); ++b) names[*b][id] = kernel.register_like(Reg{id});
    }
    for (const auto &[b, own] : names)
        for (Op &op : blocks[b].ops) rename(op, own);
}

std::set<Reg> shared_masks(const Kernel &kernel, const Blocks &blocks, size_t b) {
    if (!has_masks(kernel)) return {};
    std::map<Reg, std::pair<size_t, size_t>> spans;   // first and last block
    for (size_t i = 0; i < blocks.size(); i++) {
        const auto touch = [&](Reg r) {
            if (kernel.is_mask(r)) spans.try_emplace(r, i, i).first->second.second = i;
        };
        for (const Op &op : blocks[i].ops) {
            touch(op.dst);
            for (Reg r : reads_of(op)) touch(r);
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
    : kernel_(kernel), graph_(graph), shared_(shared), free_(static_cast<int>(kernel.machine->regs.mask) - 1 - static_cast<int>(shared.size())) {
    for (const Op &op : graph.ops)
        for (Reg r : reads_of(op))
            if (counts(r)) readers_[r]++;
    // The registers of masks that are read for the last time in a packet are free in the next.
    constexpr int lane_units = 2;
    free_ -= lane_units;
}

bool MaskBudget::fits(int i) const {
    const Op &op = graph_.ops[i];
    const int live = static_cast<int>(live_.size());
    return !counts(op.dst) || live_.count(op.dst) || live < free_ / 2 || (live < free_ && readers_wait_for(i));
}

void MaskBudget::take(int i) {
    const Op &op = graph_.ops[i];
    if (counts(op.dst) && readers_.count(op.dst)) live_.insert(op.dst);
    for (Reg r : reads_of(op))
        if (const auto found = readers_.find(r); found != readers_.end() && --found->second == 0) live_.erase(r);
}

// Has all else that the readers of operation i need been scheduled?
bool MaskBudget::readers_wait_for(int i) const {
    for (int out : graph_.out[i])
        for (int in : graph_.in[graph_.edges[out].to])
            if (graph_.edges[in].from != i && graph_.edges[in].distance == 0 && graph_.cycle[graph_.edges[in].from] < 0) return false;
    return true;
}

}  // namespace atalla::codegen
