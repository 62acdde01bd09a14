// The end of a turn of a nest and the start of the next one as one block. Loops that are pipelined drain into the code behind
// them and fill in that in front of them: where the nest goes round, the two stand one behind the other, and each waits for
// itself alone.
#pragma once

#include <cstddef>
#include <vector>

#include "codegen/blocks.h"

namespace atalla::codegen {

// Can the start of the next turn, the block at which a nest begins, run with the end of a turn, at which it ends? It runs once
// more than before, behind the last turn: what it does then must matter to nobody.
bool can_join_ends(const Kernel &kernel, const Blocks &blocks, size_t first, size_t last);

// The operations of both, the end's first, and the registers in which code behind the nest finds what the last turn has left.
struct JoinedEnds {
    std::vector<Op> ops;
    Renaming behind;
};
// `late`: what the start makes for ends and starts of later turns alone, such as a reciprocal of a sum, comes at the end of its
// own turn, first of all: at the start it would wait for what the turn before has just begun.
JoinedEnds joined_ends(Kernel &kernel, const Blocks &blocks, size_t first, size_t last, bool late);

// The nest begins with what stands behind its first block, which runs once, in front of it.
void join_ends(Blocks &blocks, size_t first, size_t last, JoinedEnds joined);

}  // namespace atalla::codegen
