// What must stay in which order inside a block, and by how many cycles.
#pragma once

#include <vector>

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

struct Edge {
    int from = 0, to = 0;
    int latency = 0;    // cycles between the issues
    int distance = 0;   // iterations of the loop between them
    bool hard = false;  // nothing in the hardware makes the second one wait
};

// Cycles from the issue of an operation to the issue of one that reads its result.
int result_latency(const Machine &machine, Opcode op);

// Dependences among the operations of a block; `loop` is the loop that the block is the whole body of (then
// also those into the next iteration), or -1. With `masks_in_turn` a mask is made once the one that many before it has its
// readers behind it: any order that keeps the dependences then has few of them alive.
std::vector<Edge> dependences(const Kernel &kernel, const std::vector<Op> &ops, int loop, bool masks_in_turn);

// May two accesses be of the same row?
bool may_alias(const Kernel &kernel, const PadAccess &a, const PadAccess &b);

// Every register an operation reads (the old destination of a masked operation included).
template <class Visit>
void for_each_read(const Op &op, const Visit &visit) {
    for (Reg r : op.src)
        if (r.defined()) visit(r);
    if (op.mask.defined()) visit(op.mask);
    if (op.keeps_dst) visit(op.dst);
    if (op.side)
        for (const Op &inner : *op.side) for_each_read(inner, visit);
}
std::vector<Reg> reads_of(const Op &op);
// A whole vector that a lane unit makes of constants alone.
bool makes_constant(const Kernel &kernel, const Op &op);
// Does a row of the array add to a sum that keeps its register?
inline bool adds_to_sum(const Op &op) { return op.opcode == Opcode::gemm_vv && op.src[1] == op.dst; }
// A constant for some lanes of a register that keeps the others.
bool clears_under_mask(const Kernel &kernel, const Op &op);
// Is a register one of them?
bool reads(const Op &op, Reg r);

}  // namespace atalla::codegen
