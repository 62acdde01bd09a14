// Trials of one key in the cache format of Kernel Tuner (schema 1.0.0), so that its tools read our sweeps and we theirs of
// ours.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "db/database.h"

namespace atalla {

// A recorded sweep: the trials of one key with the values that their parameters take.
struct TuningCache {
    struct Parameter {
        std::string name;
        std::vector<int64_t> values;  // each once; ascending unless a space says otherwise
        bool choice = false;          // without an order
    };
    struct Row {
        Trial trial;           // without counters
        double predicted = 0;  // cycles, by the draft model; 0: not recorded
        int64_t when = 0;      // milliseconds since 1970, UTC
    };

    TrialKey key;
    std::string machine_name;
    int64_t bound_cycles = 0;  // 0: unknown
    std::vector<Parameter> parameters;
    std::vector<Row> rows;
};

// The stored trials of a key, by the text of their points. Points with other parameters than most (such as the unoptimized
// program) are left out. Error if there is no trial.
TuningCache tuning_cache(const Database &database, const TrialKey &key);

// Kernel Tuner's "time" is the number of cycles; a trial that is not ok has its name for what went wrong. What the format
// has no place for (status, prediction, key) is in additional members, which it allows.
void write_tuning_cache(const TuningCache &cache, std::ostream &out);

// Inverse of write_tuning_cache. Error naming `name` and what is wrong, also for a cache of another program, which has no
// fingerprints.
TuningCache parse_tuning_cache(std::string_view text, const std::string &name);

// Takes over the trials. Predictions are not kept.
MergeReport import_tuning_cache(Database &database, const TuningCache &cache);

}  // namespace atalla
