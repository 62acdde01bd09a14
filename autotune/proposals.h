// The search strategies: which points to try next, given what came out of the ones before.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autotune/outcomes.h"
#include "autotune/task.h"
#include "autotune/tuner.h"

namespace atalla {

class Proposer {
public:
    virtual ~Proposer() = default;
    // Up to `n` valid points that were not tried, each once; none at the end of the search. A pure function of the task,
    // the options and the outcomes so far.
    virtual std::vector<Point> propose(size_t n, const Outcomes &outcomes) = 0;
    // Why propose gave nothing, as a clause: "every point of the space was evaluated".
    virtual std::string ended() const = 0;
    // Points priced by the draft so far.
    virtual int64_t drafted() const { return 0; }
    // The point that the draft prefers to every other of the space; nothing if it did not price them all.
    virtual std::optional<Point> best_of_model() const { return std::nullopt; }
};

// Error if the space has no valid point, or a draft fails.
std::unique_ptr<Proposer> make_proposer(const TuningTask &task, const TuneOptions &options);

}  // namespace atalla
