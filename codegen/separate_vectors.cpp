#include "codegen/separate_vectors.h"

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

std::map<int32_t, Uses> uses_of_vectors(const Kernel &kernel, const Blocks &blocks) {
    const auto is_vector = [&](Reg r) { return r.defined() && r.id > all_lanes.id && kernel.cls(r) == RegisterClass::Vector; };
    std::map<int32_t, Uses> uses;
    for (size_t b = 0; b < blocks.size(); b++) {
        std::set<int32_t> made;
        for (const Op &op : blocks[b].ops) {
            for (Reg r : reads_of(op)) {
                if (!is_vector(r)) continue;
                uses[r.id].blocks.insert(b);
                if (!made.count(r.id)) uses[r.id].crosses = true;
            }
            if (is_vector(op.dst)) {
                uses[op.dst.id].blocks.insert(b);
                made.insert(op.dst.id);
            }
            if (!op.side) continue;
            for (const Op &inner : *op.side) {
                for (Reg r : reads_of(inner))
                    if (is_vector(r)) uses[r.id].crosses = true;
                if (is_vector(inner.dst)) uses[inner.dst.id].crosses = true;
            }
        }
    }
    return uses;
}

}  // namespace

void separate_vectors(Kernel &kernel, Blocks &blocks) {
    std::map<size_t, Renaming> names;   // by block
    for (const auto &[id, uses] : uses_of_vectors(kernel, blocks)) {
        if (uses.crosses || uses.blocks.size() < 2) continue;
        for (auto b = std::next(uses.blocks.begin()); b != uses.blocks.end(); ++b) names[*b][id] = kernel.register_like(Reg{id});
    }
    for (const auto &[b, own] : names)
        for (Op &op : blocks[b].ops) rename(op, own);
}

}  // namespace atalla::codegen
