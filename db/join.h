// What two rows about the same thing become when databases are merged: one, whatever the order of the merges.
#pragma once

#include "db/database.h"

namespace atalla {

// The join of two trials of the same key and point: commutative, associative and idempotent.
//  - An Ok outcome wins over a refusal, that over a failure, that over a timeout: the latter two may be the host's fault.
//  - Of two Ok outcomes the slower wins (they differ only if a fingerprint fails to tell two programs apart); of equal
//    ones the earlier, with its counters, host times and run.
//  - A verification is about the program, not about the measurement, and is joined by itself: one that found a difference
//    wins over one that found none, that over none at all.
StoredTrial join(const StoredTrial &one, const StoredTrial &other);

// The join of two rows of the same run: the later end, and the outcome that came with it.
Certificate join(const Certificate &one, const Certificate &other);
TuningRun join(const TuningRun &one, const TuningRun &other);

// Whether both are Ok with different cycles.
bool in_conflict(const StoredTrial &one, const StoredTrial &other);

}  // namespace atalla
