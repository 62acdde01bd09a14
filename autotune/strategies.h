// The search strategies that decide from what was measured, one a file; proposals.h chooses between them.
#pragma once

#include <cstddef>
#include <memory>

#include "autotune/draft.h"
#include "autotune/proposals.h"

namespace atalla {

// Measurements before predictions may rule out what is left of a space.
constexpr size_t trusted_after = 16;

// Best predictions first, beside structures that were not tried; then hill climbing from the best measured point. Half of all
// is what make_model's process proposes, once a point has run.
std::unique_ptr<Proposer> make_draft(const TuningTask &task, const TuneOptions &options,
                                     std::shared_ptr<const DraftRanking> ranking);
// Least lower confidence of a Gaussian process that learns how the draft is wrong.
std::unique_ptr<Proposer> make_model(const TuningTask &task, const TuneOptions &options,
                                     std::shared_ptr<const DraftRanking> ranking);
// Hill climbing from random points.
std::unique_ptr<Proposer> make_climb(const TuningTask &task, const TuneOptions &options);
// Crossing and mutation of the best points.
std::unique_ptr<Proposer> make_evolve(const TuningTask &task, const TuneOptions &options);

}  // namespace atalla
