// Transfers of one iteration of a loop that start from inside its hot loop, a group at a time and at even distances, so that
// each finds the engines free and the code waits for none.
#pragma once

#include <vector>

#include "codegen/transfer_code.h"

namespace atalla::codegen {

// Code that stands out of line is no longer.
constexpr size_t most_side_operations = 40;

struct SpreadTransfer {
    Channel channel;     // points one step before its first group
    Reg go;              // 1 if there is anything to move, 0 if not; none: always
    int64_t groups = 0;  // of the channel's groups, how many start while the hot loop runs once; 0: all
    Reg left;            // counts the groups that have not started, where the hot loop runs several times for them
};

// Are there iterations enough for all groups, and is the code of a group short enough to stand out of line?
bool can_spread(const std::vector<SpreadTransfer> &transfers, const std::vector<Tile> &first_tiles, const Loop &hot,
                const TransferCode &code);

// Do they take two thirds of its time at most, so that they have ended when it has?
bool transfers_end_early(const Kernel &kernel, const std::vector<SpreadTransfer> &transfers,
                         const std::vector<Tile> &first_tiles, const Loop &hot);
// Do the transfers of an iteration clearly take longer than its hot loop? One that loads weights waits for the array besides.
bool transfers_bind(const Kernel &kernel, const std::vector<SpreadTransfer> &transfers, const std::vector<Tile> &first_tiles,
                    const Loop &hot);

// Puts a branch for each transfer into `hot` and what they count into `body`, which runs before it. In the order given, after
// the time that the engines take for `first_tiles`, which start in front of `body`. `runs`: how often the hot loop runs. A
// transfer of one group starts later where the loop, which stands still until its engines are free, would end behind the
// transfers. Where these take clearly longer than the loop, groups of a tile for each pad start as two halves, half a distance
// apart.
void spread(Kernel &kernel, const std::vector<SpreadTransfer> &transfers, const std::vector<Tile> &first_tiles, int64_t runs,
            Loop &hot, const TransferCode &code, Body &body);

// The same at one distance for all, from the second iteration or later: a result may leave in the first. All start earlier
// where the last group would end behind the loop, but not in the first iterations, `of_result`, in which groups of a result
// leave. Where DRAM is busy for most of a loop that loads weights, few transfers of many groups start as halves, too. Returns
// the first of them.
bool can_start_evenly(const std::vector<SpreadTransfer> &transfers, const Loop &hot, const TransferCode &code);
int64_t start_evenly(Kernel &kernel, const std::vector<SpreadTransfer> &transfers, int64_t of_result, Loop &hot,
                     const TransferCode &code, Body &body);

// The same for transfers whose hot loop runs so many times for them. False where groups would start in iterations that follow
// each other, or do not fit.
bool can_start_evenly_in_nest(const std::vector<SpreadTransfer> &transfers, int64_t turns, const Loop &hot,
                              const TransferCode &code);
bool start_evenly_in_nest(Kernel &kernel, const std::vector<SpreadTransfer> &transfers, int64_t turns, Loop &hot,
                          const TransferCode &code, Body &body);

// One group that starts in iteration `first`, which is sure to run.
void start_late(Kernel &kernel, const SpreadTransfer &transfer, int64_t first, Loop &hot, const TransferCode &code, Body &body);

// All groups of a transfer, two or more, at one distance, over so many iterations from `first` on: where that is below 0 it
// starts at once, and the others when they would have. What is returned is two less than the groups that have not started.
// `every`: iterations that begin in front of the loop count, too.
Reg start_from(Kernel &kernel, const SpreadTransfer &transfer, int64_t first, int64_t span, Loop &hot, bool every,
               const TransferCode &code, Body &body);

// The iterations that a hot loop with branches out of line runs at least: others run in front of it or behind it.
int64_t sure_iterations(const Loop &hot);

}  // namespace atalla::codegen
