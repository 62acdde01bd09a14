#include "codegen/separate_registers.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "codegen/dependence.h"

namespace atalla::codegen {

namespace {

enum class Own { EachMaking, EachBlock };

// The registers that every block makes before it reads them, none of them in code out of line.
std::set<int32_t> made_anew(const Kernel &kernel, const Blocks &blocks, RegisterClass cls) {
    const auto is_one = [&](Reg r) { return r.defined() && r.id > all_lanes.id && kernel.cls(r) == cls; };
    std::set<int32_t> all, crossing;
    for (const Block &block : blocks) {
        std::set<int32_t> made;
        for (const Op &op : block.ops) {
            for (Reg r : reads_of(op))
                if (is_one(r) && !made.count(r.id)) crossing.insert(r.id);
            if (is_one(op.dst)) {
                all.insert(op.dst.id);
                made.insert(op.dst.id);
            }
            if (!op.side) continue;
            for (const Op &inner : *op.side) {
                for (Reg r : reads_of(inner))
                    if (is_one(r)) crossing.insert(r.id);
                if (is_one(inner.dst)) crossing.insert(inner.dst.id);
            }
        }
    }
    std::set<int32_t> anew;
    std::set_difference(all.begin(), all.end(), crossing.begin(), crossing.end(), std::inserter(anew, anew.end()));
    return anew;
}

void separate(Kernel &kernel, Blocks &blocks, RegisterClass cls, Own own) {
    if (!kernel.has_any(cls)) return;
    const std::set<int32_t> anew = made_anew(kernel, blocks, cls);
    std::set<int32_t> named;  // of them, those whose register has a first use
    for (Block &block : blocks) {
        Renaming names;
        std::set<int32_t> here;
        for (Op &op : block.ops) {
            const Reg made = op.dst;
            rename(op, names);
            if (!anew.count(made.id) || op.keeps_dst) continue;
            if (own == Own::EachBlock && !here.insert(made.id).second) continue;
            if (!named.insert(made.id).second) op.dst = names[made.id] = kernel.register_like(made);
        }
    }
}

}  // namespace

void separate_registers(Kernel &kernel, Blocks &blocks) {
    separate(kernel, blocks, RegisterClass::Mask, Own::EachMaking);
    separate(kernel, blocks, RegisterClass::Vector, Own::EachBlock);
}

}  // namespace atalla::codegen
