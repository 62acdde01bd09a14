// Basic blocks of kernel operations, before and after they are packed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// How a block ends. Loop: back to the start of `target` while the index is below the last; Skip: to `target` if the
// condition is zero; Next: falls through; Halt; Return: from a routine to the next.
struct Terminator {
    enum Kind { Next, Loop, Skip, Halt, Return } kind = Next;
    Reg index, limit;  // Loop: index < limit goes back, and the index grows by one; Skip: index is the condition
    int target = -1;   // block
    bool leaves() const { return kind == Halt || kind == Return; }
};

using OpGroup = std::vector<Op>;  // one packet, at most four operations

struct Block {
    std::string label;
    std::vector<Op> ops;
    Terminator end;
    std::vector<OpGroup> packets;  // once packed
    // An out-of-line block: it ends with a jump to the packet after the one that branched to it, and stands in front of
    // block `before`.
    int from_block = -1, from_packet = -1, before = -1;
    // Runs seldom, and stands behind all loops around it.
    bool rare = false;
    bool island = false;  // out of line, a single jump: a branch does not reach the block that it jumps to
    // And branches inside: from packet to packet, where these are in another order than they run (cold_order.h).
    std::map<int, int> jumps;
};

using Blocks = std::vector<Block>;

// Blocks in the order of the program, with `jump_over` where code out of line stands in the way, and the byte each starts at.
struct ProgramLayout {
    static constexpr int jump_over = -1;
    std::vector<int> order;
    std::vector<int64_t> start;
};
ProgramLayout lay_out(const Blocks &blocks);
// Does a block stand elsewhere than behind the block in front of it and in front of the one behind?
bool stands_apart(const Blocks &blocks, size_t block);

// The blocks that run right before this one without a branch over others: the one in front of it, and ends of other loops that
// go back to it.
std::vector<size_t> blocks_in_front(const Blocks &blocks, size_t block);

// The loop that goes back at the end of a block, or -1; and that of which block b is the whole body.
int loop_of(const Kernel &kernel, const Terminator &end);
int innermost_loop(const Kernel &kernel, const Blocks &blocks, size_t b);

// Makes the constants that a block makes in front of their first reader in it, instead of at its start. False if all are there.
bool make_constants_before_use(const Kernel &kernel, Blocks &blocks);

// The byte offsets that a branch can have.
constexpr int64_t furthest_back = -2048, furthest_ahead = 2044;

std::string to_string(const Kernel &kernel, const Blocks &blocks);

}  // namespace atalla::codegen
