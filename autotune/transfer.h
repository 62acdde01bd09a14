// A schedule without a trial: the analytic draft, corrected by what was measured for similar workloads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autotune/task.h"

namespace atalla {

// What is known of another workload of the same operator, machine and compiler.
struct TransferSource {
    struct Measured {
        Point point;
        int64_t cycles = 0;
        double predicted = 0;  // by the draft of that workload
    };
    std::string workload;  // canonical JSON
    std::vector<Measured> measured;
};

struct TransferOptions {
    size_t neighbours = 6;      // sources that are learned from
    size_t measured_each = 40;  // of each, the fastest
    size_t candidates = 3000;   // best drafts that are looked at
    uint64_t draft_limit = 200'000;
    uint64_t seed = 1;
    int threads = 0;
};

struct Transfer {
    Point point;
    double expected_cycles = 0;
    double uncertainty = 0;  // of the expectation, as a share of it
    Point drafted;           // what the draft alone would take
    double drafted_cycles = 0;
    struct From {
        std::string workload;
        double distance;  // 0: the same; 1: about one size doubled eightfold
        size_t measured;
    };
    std::vector<From> from;  // the nearest first; empty: the draft alone decided
};

// How far two workloads are apart: by the logarithms of their numbers. Infinite if anything else differs in a way that makes
// them other computations, such as a type.
double workload_distance(const std::string &one, const std::string &other);

// Error if the space is empty.
Transfer transfer_schedule(const TuningTask &task, const std::vector<TransferSource> &sources,
                           const TransferOptions &options = {});

}  // namespace atalla
