// Mask registers, of which there are few: which of them blocks share, and how many are alive while a block is scheduled.
#pragma once

#include <map>
#include <set>

#include "codegen/blocks.h"
#include "codegen/kernel_ir.h"
#include "codegen/schedule_graph.h"

namespace atalla::codegen {

// Makes masks of constant lanes again where, since their last use, a block has used more others than there are registers. False
// if there are none.
bool make_masks_again(Kernel &kernel, Blocks &blocks);

// Masks whose values blocks share, while block `b` runs: made in one and read in another, with b among those from the first to
// the last that has them, loops around those included.
std::set<Reg> shared_masks(const Kernel &kernel, const Blocks &blocks, size_t b);

// The masks that are alive while the operations of a graph are scheduled one by one: a compare waits until a register is free.
// Half of them are for those whose readers wait for nothing else, so that there is always one that can go on.
class MaskBudget {
public:
    // `shared`: the masks that live in other blocks too.
    MaskBudget(const Kernel &kernel, const ScheduleGraph &graph, const std::set<Reg> &shared);
    // Is there a register for what operation `i` of the graph makes?
    bool fits(int i) const;
    void take(int i);
    // Does any operation make a mask that counts?
    bool limits() const { return limits_; }

private:
    bool readers_wait_for(int i) const;
    bool counts(Reg r) const { return kernel_.is_mask(r) && !shared_.count(r); }

    const Kernel &kernel_;
    const ScheduleGraph &graph_;
    const std::set<Reg> &shared_;
    int free_;
    bool limits_ = false;
    std::map<Reg, int> readers_;  // still to come, of masks made here
    std::set<Reg> live_;
};

}  // namespace atalla::codegen
