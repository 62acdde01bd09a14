// Waits for transfers that have started, as late as the code that needs them allows.
#pragma once

#include <vector>

#include "codegen/rings.h"
#include "codegen/transfer_code.h"

namespace atalla::codegen {

class Waits {
public:
    // With `ahead` off each transfer is waited for where it starts.
    Waits(Kernel &kernel, bool ahead, const Rings &rings, const TransferCode &code)
        : kernel_(kernel), ahead_(ahead), rings_(rings), code_(code) {}

    // For the transfers that this node must not run beside: of rows that it touches, and of a tensor that either writes.
    // `for_loads`: where waits for loops of loads go.
    void before(Node &node, std::vector<Channel> &started, Body &out, Body &for_loads);

private:
    // A result's transfers stay behind those of others that store some of the same elements, as blocks do of which the last
    // begins earlier.
    void hold_results(const Node &node, const std::vector<Channel> &started, Body &out);
    // Takes transfers whose rows a loop does not touch at once. They need not have ended when it begins: they are waited for in
    // front of the last loop inside it before which nothing touches the rows. Later iterations find that they have ended.
    void inside(Loop &loop, std::vector<Channel> &needed) const;
    // The loops of a node run while rows of the allocation come.
    void note_arriving(const Node &node, int allocation) const;
    // Is it a copy that the loop starts ahead or behind, or one that stays?
    bool moves_ahead(const Node &node, const Loop &loop) const;

    Kernel &kernel_;
    const bool ahead_;
    const Rings &rings_;
    const TransferCode &code_;
    std::vector<Channel> results_;  // that have started in straight code
};

}  // namespace atalla::codegen
