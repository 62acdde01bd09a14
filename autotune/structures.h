// Points of a space by their structure: what they have chosen where values have no order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "autotune/draft.h"
#include "autotune/outcomes.h"

namespace atalla {

// Points with equal choices have a structure in common. A draft that errs mostly errs alike for all of them: measurements of a
// structure correct the predictions of what else it has, and only measurements tell of the others.
class Structures {
public:
    // Keeps the ranking, whose points are told by their ranks.
    Structures(const Space &space, const DraftRanking &ranking);

    // The best predictions of up to `n` structures that are neither tried nor `proposed`, of those that promise something:
    // again and again the one most of whose choices are unlike those of all the others.
    std::vector<size_t> unlike(const Outcomes &outcomes, const std::vector<Point> &proposed, size_t n) const;

    // All ranks, the best first: predictions times what measured cycles of their structure are of theirs, or those of all
    // structures if none of it was measured; medians.
    std::vector<size_t> corrected(const TuningTask &task, const Outcomes &outcomes) const;

private:
    using Choices = std::vector<int64_t>;

    Choices choices_of(const Point &point) const;
    static size_t differences(const Choices &one, const Choices &other);

    const DraftRanking &ranking_;
    std::vector<std::string> names_;     // of the choices
    std::map<Choices, size_t> numbers_;  // of the structures in the ranking
    std::vector<size_t> first_;          // the best rank of each
    std::vector<size_t> of_rank_;        // the structure of each rank
};

}  // namespace atalla
