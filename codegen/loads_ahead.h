// Loads of what a loop's next iteration needs, which start while this one computes, and of tiles that stay.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "codegen/kernel_ir.h"
#include "codegen/rings.h"
#include "codegen/spread.h"
#include "codegen/transfer_code.h"

namespace atalla::codegen {

class LoadsAhead {
public:
    // `chain`: the loops around what is rewritten, outermost first.
    LoadsAhead(Kernel &kernel, bool ahead, Rings &rings, TransferCode &code, const std::vector<int> &chain)
        : kernel_(kernel), ahead_(ahead), rings_(rings), code_(code), chain_(chain) {}

    // The iteration that loads of a loop bring operands for: its indices, and 1 if there is one, 0 if not.
    struct NextIteration {
        std::map<int, Reg> at;
        Reg more;
        bool wait_late = false;  // for what this one needs
        bool at_once = false;    // some loads start in front of the hot loop
    };
    // What runs before the nest goes to `before`. With `spreads` the transfers are only aimed; `leaves`: a result leaves from
    // the hot loop; `events` start evenly from inside it. What is returned is 1 if another iteration follows, 0 if not. The
    // first load makes what all share of it.
    Reg start(const Copy &copy, const std::vector<Channel> &channels, const Loop &loop, NextIteration &iteration, Body &before,
              Body &body, Loop *hot, bool spreads, bool leaves, std::vector<SpreadTransfer> &events);
    // Transfers of loops around a loop that are to start from its hot loop.
    std::vector<SpreadTransfer> take_planned(int loop) { return std::move(planned_[loop]); }

    // Do loads of which one has several rounds of the pads start one by one from inside a nest? All but the first would start
    // at once.
    bool start_in_nest(const std::vector<const Copy *> &loads, const Loop &hot);
    // The loop that they start from, and how many turns of it there are. Where a result leaves from the last one of a turn,
    // which is short, it is another one: the engines would still be busy in the same loop.
    std::pair<Loop *, int64_t> loop_in_nest(const std::vector<SpreadTransfer> &loads, Loop &hot, bool leaves);

    // A load that runs in the first iteration of the outer loop only, each part in another place: what it brings stays.
    bool stays(const Copy &copy, int loop) const;
    void start_resident(const Copy &copy, const Loop &loop, Body &before, Body &body, Loop *hot,
                        std::vector<SpreadTransfer> &events);

private:
    bool adds_event(const SpreadTransfer &transfer, const Loop &hot, std::vector<SpreadTransfer> &events) const;
    bool moves_rings(const Loop &loop) const;
    bool streams(const Loop &loop) const;
    Reg groups_left(const Channel &c, const Loop &loop, Body &body);
    bool plan_beside(const Channel &c, Reg left, const Loop &hot);
    bool fits_beside(const Channel &c, const Loop &hot) const;
    static int64_t groups_an_iteration(const Channel &c, const Loop &hot);
    bool goes_beside(const Channel &c, const std::map<int, Reg> &at, Reg next, const Loop &loop, const Loop &hot, Body &body);
    void issue_between(const Channel &c, const std::map<int, Reg> &at, Reg next, Reg more, const Loop &loop, Loop &hot,
                       bool leaves, Body &body);
    Reg advance(const std::map<int, Reg> &at, Body &out);

    Kernel &kernel_;
    const bool ahead_;
    Rings &rings_;
    TransferCode &code_;
    const std::vector<int> &chain_;
    std::map<int, std::vector<SpreadTransfer>> planned_;  // by loop
};

}  // namespace atalla::codegen
