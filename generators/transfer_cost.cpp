#include "generators/transfer_cost.h"

#include <algorithm>

#include "isa/vectors.h"

namespace atalla {

namespace {

// Cycles for each beat of one bank group.
constexpr double of_group = 2;

constexpr int64_t element_bytes = 2;

}  // namespace

TransferCost::TransferCost(const Machine &machine, int64_t pads, bool inside_beats)
    : beat_(machine.timed() ? machine.sdma.beat / element_bytes : lanes),
      page_(machine.timed() ? machine.dram.row_bytes / element_bytes : lanes),
      start_(page_ / 2),
      most_rows_(machine.sdma.max_rows),
      inside_beats_(inside_beats),
      pads_(static_cast<size_t>(pads)) {}

void TransferCost::add(int64_t pad, int64_t begin, int64_t columns) {
    constexpr double of_transfer = 40, of_page = 7;
    begin += start_;
    std::vector<Transfer> &all = pads_[static_cast<size_t>(pad)];
    const int64_t step = all.empty() ? 0 : begin - all.back().last;
    const bool opens = all.empty() || begin / page_ != all.back().last / page_;
    if (all.empty() || columns != all.back().columns || all.back().rows == most_rows_ || step == 0 ||
        (all.back().rows > 1 && step != all.back().step)) {
        all.push_back({of_transfer, 0, 0, columns, 0, 0, {0, 0}});
        transfers_++;
    }
    Transfer &now = all.back();
    if (now.rows++ == 1) now.step = step;
    now.last = begin;
    const int64_t beats =
        std::max(ceil_div(begin % beat_ + columns, beat_), ceil_div(columns, beat_) + (inside_beats_ ? 1 : 0));
    now.beats[static_cast<size_t>(begin / page_ % 2)] += beats;
    now.pages += opens ? 1 : 0;
    now.cycles += std::max(of_group * static_cast<double>(beats), opens ? of_page : 0);
}

double TransferCost::cycles() const {
    constexpr double of_turn = 16, of_page_beside_others = 3;
    size_t most = 0;
    for (const std::vector<Transfer> &pad : pads_) most = std::max(most, pad.size());
    double sum = 0;
    for (size_t at = 0; at < most; at++) {
        double longest = 0, pages = 0;
        std::array<double, 2> beats = {0, 0};
        for (const std::vector<Transfer> &pad : pads_) {
            if (at >= pad.size()) continue;
            longest = std::max(longest, pad[at].cycles);
            pages += static_cast<double>(pad[at].pages);
            for (size_t group = 0; group < beats.size(); group++) beats[group] += static_cast<double>(pad[at].beats[group]);
        }
        const double bus = std::max(beats[0] + beats[1], of_group * std::max(beats[0], beats[1]));
        sum += std::max(longest, of_turn + bus + of_page_beside_others * pages);
    }
    return sum;
}

}  // namespace atalla
