// The passes between matching and emission, in the order in which compile.cpp runs them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/blocks.h"
#include "codegen/compile.h"
#include "codegen/kernel_ir.h"
#include "isa/error.h"

namespace atalla::codegen {

// Removes copies between vector registers: a value that changes in place needs none. Divides those that stay between the adder
// and the multiplier.
void coalesce(Kernel &kernel);

// In innermost loops, loads rows again for what reads them late, or would copy them.
void reload(Kernel &kernel);

// Gives the iterations of an innermost loop rows of their own for what each of them stores and loads again.
void expand(Kernel &kernel);

// Where the end of a loop's body stores accumulators that its start clears, clears them there, beside the stores, and in front
// of the loop.
void clear_behind(Kernel &kernel);

// Gives every allocation its pads and rows (whole rows round several pads where every access allows it) and cuts copies into
// DMA tiles. `wanted` may fix the layout of an allocation by its name. Error if the pads are too small.
void place(Kernel &kernel, const std::map<std::string, PadLayout> &wanted);

// Turns copies into transfers and waits. With `ahead`, transfers of ring-buffered allocations are issued while the
// iteration before computes, and results leave while the iteration after does.
void overlap(Kernel &kernel, bool ahead);

// Turns symbolic accesses and addresses into registers: pointers that advance with their loops, constant row offsets.
void lower_addresses(Kernel &kernel, bool optimize);

// Flattens the tree into basic blocks and adds the loop control. `in_order`: packing keeps the order of the operations, so that
// what stands where it is needed takes a register for no longer. `constants`: made once, at the start, unless they are many, or
// by each block that uses them.
enum class MakeConstants { AtStart, InBlocks };
Blocks make_blocks(Kernel &kernel, bool in_order, MakeConstants constants = MakeConstants::AtStart);

// Gives registers the banks that they should be read from, so that packing can avoid conflicts.
void assign_banks(Kernel &kernel, const Blocks &blocks);

// What packing may spend registers and code on: loops around the array that turn (modulo.h), and iterations that overlap: of
// those that make fewer values than half of the vector registers the ones that make no masks, or all, and longer ones, two of
// them at a time or more.
enum class OverlapIterations { WithoutMasks, Short, LongInPairs, Long };
struct PackOptions {
    bool turn = true;
    bool join = true;  // the ends of nests may be one block (nest_ends.h)
    bool idle = true;  // stages of pipelined loops may run idle (idle_stages.h)
    OverlapIterations overlap = OverlapIterations::Long;
    std::set<size_t> idle_loops;  // blocks that are loops whose stages do so where they can, as it takes the least code
    std::map<size_t, OverlapIterations> overlap_of_loop;  // of blocks that are loops, at the most
    bool in_order = false;  // straight code keeps about the order that it has, which needs the fewest registers
};

// Puts the operations of each block into packets.
struct Packed {
    int64_t overlapped = 0;        // iterations of a loop that overlap, at the most; 0: none do
    bool long_overlapped = false;  // some that make many values do
    bool turned = false;           // a loop was,
    bool idle = false;             // stages of a loop run idle,
    bool joined = false;           // the ends of a nest are one block,
    bool turned_fit = true;        // nests around those that were turned are in the instruction cache all the time
    std::set<size_t> unfit;        // loops because of whose overlap a nest left it
};
struct LoopPlans;
// `plans`: those of the same blocks with other options, for this and the next time.
Packed pack(Kernel &kernel, Blocks &blocks, bool optimize, const PackOptions &options, LoopPlans &plans);

// A class of registers has fewer than are live at once.
class TooFewRegisters : public Error {
public:
    using Error::Error;
};
// Assigns physical registers. TooFewRegisters if a class has too few.
void allocate(Kernel &kernel, Blocks &blocks);

// Program with symbols and source map.
Program emit(const Kernel &kernel, const Blocks &blocks);

}  // namespace atalla::codegen
