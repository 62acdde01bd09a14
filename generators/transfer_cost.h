// What the transfers of a tile take by an analytic model, for drafts: pads, engines, beats and pages of the DRAM.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "isa/machine.h"

namespace atalla {

// The pads' transfers run beside each other, those of one pad one after the other. Neighbouring rows of a pad at equal steps,
// of whole vectors or of equal parts of one, are a transfer. Beats of one page, or of pages of one bank group, have half of the
// bus.
class TransferCost {
public:
    // `inside_beats`: rows of other tiles may begin inside a beat where those of this one do not.
    TransferCost(const Machine &machine, int64_t pads, bool inside_beats);

    // The next row of a pad: so many elements from this one on of a tensor.
    void add(int64_t pad, int64_t begin, int64_t columns);
    int64_t transfers() const { return transfers_; }
    double cycles() const;

private:
    struct Transfer {
        double cycles = 0;  // alone
        int64_t rows = 0, step = 0, columns = 0, last = 0;
        int64_t pages = 0;                      // that it opens
        std::array<int64_t, 2> beats = {0, 0};  // of each bank group
    };

    int64_t beat_, page_, start_;  // in elements; where tensors start in a page
    int64_t most_rows_;
    bool inside_beats_;
    int64_t transfers_ = 0;
    std::vector<std::vector<Transfer>> pads_;
};

}  // namespace atalla
