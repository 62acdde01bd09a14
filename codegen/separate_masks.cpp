#include "codegen/separate_masks.h"

#include <iterator>
#include <map>
#include <set>

#include "codegen/dependence.h"

namespace atalla::codegen {

namespace {

struct Uses {
    std::set<size_t> blocks;
    bool crosses = false;   // a block reads what another one, or its own turn before, has made
};

bool is_mask(const Kernel &kernel, Reg r) { return r.defined() && r.id > all_lanes.id && kernel.cls(r) == RegisterClass::Mask; }

std::map<int32_t, Uses> uses_of_masks(const Kernel &kernel, const Blocks &blocks) {
    std::map<int32_t, Uses> uses;
    for (size_t b = 0; b < blocks.size(); b++) {
        std::set<int32_t> made;
        for (const Op &op : blocks[b].ops) {
            for (Reg r : reads_of(op)) {
                if (!is_mask(kernel, r)) continue;
                uses[r.id].blocks.insert(b);
                if (!made.count(r.id)) uses[r.id].crosses = true;
            }
            if (is_mask(kernel, op.dst)) {
                uses[op.dst.id].blocks.insert(b);
                made.insert(op.dst.id);
            }
            if (!op.side) continue;
            for (const Op &inner : *op.side) {
                for (Reg r : reads_of(inner))
                    if (is_mask(kernel, r)) uses[r.id].crosses = true;
                if (is_mask(kernel, inner.dst)) uses[inner.dst.id].crosses = true;
            }
        }
    }
    return uses;
}

}  // namespace

void separate_masks(Kernel &kernel, Blocks &blocks) {
    std::map<size_t, std::map<int32_t, Reg>> names;   // by block
    for (const auto &[id, uses] : uses_of_masks(kernel, blocks)) {
        if (uses.crosses || uses.blocks.size() < 2) continue;
        for (auto b = std::next(uses.blocks.begin()); b != uses.blocks.end(); ++b) {
            const RegInfo info = kernel.registers[id];
            const Reg own = kernel.new_register(info.cls, info.name);
            kernel.registers[own.id].bank = info.bank;
            names[*b][id] = own;
        }
    }
    for (const auto &[b, own] : names) {
        const auto rename = [&](Reg &r) {
            if (const auto found = own.find(r.id); found != own.end()) r = found->second;
        };
        for (Op &op : blocks[b].ops) {
            rename(op.dst);
            rename(op.mask);
            for (Reg &r : op.src) rename(r);
        }
    }
}

}  // namespace atalla::codegen
