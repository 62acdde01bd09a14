// A loop with rings: operands come ahead of the iteration that needs them, and its result leaves behind the one that makes it.
#pragma once

#include <functional>
#include <vector>

#include "codegen/loads_ahead.h"
#include "codegen/rings.h"
#include "codegen/transfer_code.h"

namespace atalla::codegen {

// What the transfers of all loops share.
struct LoopTransfers {
    Kernel &kernel;
    Rings &rings;
    TransferCode &code;
    LoadsAhead &loads;
    const std::vector<int> &chain;  // the loop and those around it, outermost first
};

// The body of a loop: copies that start ahead of its iterations or behind them, and the rest.
struct RingLoopBody {
    std::vector<const Copy *> loads;      // of rings
    std::vector<const Copy *> residents;  // loads of tiles that stay
    const Copy *store = nullptr;          // of the ring-buffered result, if it makes one,
    size_t store_at = 0;                  // behind so many nodes of the rest
    Body rest;

    bool has_copies() const { return !loads.empty() || !residents.empty() || store != nullptr; }
};

// How parts of the body are rewritten, `leaving` where the next iteration waits for the transfers of their results; and what
// runs before and after the outermost loop of the nest.
struct NestRewriting {
    std::function<Body(Body)> usual, leaving;
    Body &before, &after;
};

// Makes the loop's new body.
void overlap_ring_loop(const LoopTransfers &transfers, Loop &loop, RingLoopBody body, const NestRewriting &nest);

}  // namespace atalla::codegen
