// Questions about the tree of a kernel's loops.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// Does anything inside read, write or copy rows of the allocation?
bool touches(const Node &node, int allocation);

// The rows of an allocation that a tile of a copy covers.
class RowSet {
public:
    RowSet(const Allocation &allocation, const Tile &tile);
    // Is one of them from `low` to `high`?
    bool any_between(int64_t low, int64_t high) const;

private:
    std::vector<int64_t> rows_;
};
// May it read or write one of these rows, whatever the loops around are at?
bool touches(const Kernel &kernel, const Node &node, int allocation, const RowSet &rows);
// Does a copy inside bring or take rows of the allocation?
bool moves(const Node &node, int allocation);
// Is there a copy of the tensor inside? With `loads`, or one that writes it.
bool copies(const Node &node, int tensor, bool loads);
// Does an operation inside read or write rows of the allocation?
bool accesses(const Body &body, int allocation);
bool has_loop(const Body &body);
// Is there a loop inside that does not always run as often?
bool has_varying_loop(const Kernel &kernel, const Body &body);
// How many operations all iterations of a loop run.
int64_t operations(const Loop &loop);
// The loop of a body that has most to do; null if there is none.
Loop *longest_loop(const Body &body);
// The loop of a body that has most to do beside `one` of those there, and no loops of its own; null if there is none.
Loop *loop_beside(const Body &body, const Loop &one);
// The last loop inside a loop; null if there is none, or if it has loops of its own.
Loop *innermost_of(const Loop &loop);
// The same where it may be inside of loops that are the only ones where they stand, and how many turns of all these there are.
std::pair<Loop *, int64_t> innermost_of_nest(const Loop &loop);
// The loop right around that one.
Loop *loop_around_innermost(Loop &loop);

// Where the next iteration must have waited for the result that leaves at `at`, if nothing behind it in this one must.
std::optional<size_t> first_use_in_next(const Body &body, size_t at);

}  // namespace atalla::codegen
