// A ring-buffered result that a loop makes: its transfer leaves while the next iteration computes.
#pragma once

#include <vector>

#include "codegen/transfer_code.h"

namespace atalla::codegen {

// Copies of operations, behind those that are there.
void append_ops(const Body &ops, Body &out);

class ResultTransfer {
public:
    ResultTransfer(Kernel &kernel, Rings &rings, TransferCode &code, const Copy &copy, const std::vector<Run> &runs);

    const std::vector<Channel> &channels() const { return channels_; }
    Reg pending() const { return pending_; }  // not 0: a result waits to leave; 1 if it leaves at once

    // Several transfers a pad start one by one, in iterations of the hot loop that follow each other, or one in each turn of
    // the innermost loop in it, where that has time for them and nothing in it waits for the result: of two kinds, one from
    // each of two loops of a turn. The little that remains beside tiles that are alike leaves in front of the loop. To be
    // called first of what follows, if at all.
    void leave_in_groups(Loop *hot);
    // Those of the hot loop in which it starts to leave.
    int64_t iterations() const { return by_turns_ ? 0 : groups_; }

    // Do all its transfers start together?
    bool is_lone() const { return groups_ == 1; }

    // Before the nest: nothing has been made yet. `direct`: results leave as soon as they are made, which needs the slot alone.
    void reset(bool direct, Body &before) const;
    // Behind it every store to the slots before has landed.
    void fence(Body &out) const;
    void wait(Body &out) const;
    // The result that an iteration has just stored is what leaves next, and the next one goes to the other slot. `armed`: only
    // if there was one, in a nest whose results are stored an iteration later.
    void note(bool armed, Body &out) const;
    // Starts the result at once.
    void start_direct(Body &out) const;
    // The same at the end of straight code, behind all that need not wait for the result before. `before`: in front of the
    // nest.
    void start_behind(Body &before, Body &out) const;
    // Points the channels one step before the result that leaves.
    void aim_before(Body &out) const;
    // The result that waits leaves from inside the hot loop where that is one block and the transfers are few.
    void issue_pending(Loop *hot, Body &out) const;
    // The same, after iterations in which the engines are busy with what has just started and as far from the one in which the
    // loop starts others; false if it cannot wait.
    bool issue_late(Loop *hot, int64_t others, Body &out) const;
    // The last result, once the nest is done; `armed` as above.
    void start_last(bool armed, Body &out) const;

private:
    Reg current() const { return rings_.slot(copy_.allocation); }
    void remember(Body &out) const;
    // Its transfers as rounds of one for each pad, whose second one would wait for its first, or as one where the hot loop has
    // few iterations; none where a transfer has several groups, or there are too many for code out of line.
    std::vector<Channel> in_rounds(const Loop &hot) const;
    // Each in an iteration of its own, from this one on.
    void start_rounds(const std::vector<Channel> &rounds, int64_t first, Loop &hot, Body &out) const;

    Kernel &kernel_;
    Rings &rings_;
    TransferCode &code_;
    const Copy &copy_;
    std::vector<Channel> channels_;
    int64_t groups_ = 1;           // that start one by one
    bool by_turns_ = false;        // one in each turn of the innermost loop,
    bool several_a_turn_ = false;  // or several where it has fewer turns,
    Loop *beside_ = nullptr;       // and one of a second kind from this loop of the turn
    Reg armed_;                    // this iteration made a result: so many groups; else 0
    Reg memory_;                   // its address
    Reg pending_;                  // so many groups of a result wait to leave,
    Reg leaving_, slot_;           // from here and to there
};

}  // namespace atalla::codegen
