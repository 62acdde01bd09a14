// Synthetic tuning tasks: a space with constraints, exact cycles by formula, and drafts of known quality.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>

#include "autotune/tuner.h"
#include "tests/db/fixtures.h"

namespace atalla::synthetic {

// 6 * 6 * 4 * 3 * 2 combinations, a good part of them over the capacity.
inline Space space() {
    Space space;
    space.parameter("tile_m", "rows of the tile, in elements", {1, 2, 4, 8, 16, 32})
        .parameter("tile_n", "columns of the tile, in elements", {1, 2, 4, 8, 16, 32})
        .parameter("unroll", "copies of the loop body", {1, 2, 4, 8})
        .parameter("buffers", "tiles in flight", {1, 2, 3})
        .choice("order", "the outer loop", {0, 1})
        .constraint("capacity", {"tile_m", "tile_n", "buffers"}, "All buffers fit the pad.",
                    [](const Point &p) { return p["tile_m"] * p["tile_n"] * p["buffers"] <= 256; });
    return space;
}

// Cycles with interactions between the parameters: loop overhead, transfers, and a body too large for the cache.
inline int64_t cycles(const Point &p) {
    const double tiles = 1024.0 / (p["tile_m"] * p["tile_n"]);
    const double overhead = tiles * 20.0 / p["unroll"] + (p["unroll"] == 8 ? 700 : 0);
    const double reuse = p["order"] == 0 ? p["tile_m"] : 0.8 * p["tile_n"];
    const double transfer = 9000.0 / (1 + reuse) / (p["buffers"] == 1 ? 1 : 1.7);
    return static_cast<int64_t>(1000 + overhead + transfer + 13 * p["buffers"]);
}

inline std::vector<std::pair<int64_t, Point>> sorted() {
    std::vector<std::pair<int64_t, Point>> all;
    for_each(space(), [&](const Point &point) {
        all.emplace_back(cycles(point), point);
        return true;
    });
    std::sort(all.begin(), all.end());
    return all;
}

// A number in [0, 1) that depends on the point alone.
inline double noise(const Point &point, uint64_t salt) {
    uint64_t hash = salt;
    for (const auto &[name, value] : point.values()) {
        hash = Random(hash ^ static_cast<uint64_t>(value)).next();
    }
    return static_cast<double>(hash >> 11) * 0x1p-53;
}

struct Calls {
    std::atomic<int> evaluated = 0, verified = 0;
};

// The draft is the truth times a factor between 1 - error and 1 + error.
inline TuningTask task(const std::shared_ptr<Calls> &calls = std::make_shared<Calls>(), double error = 0.3) {
    TuningTask task;
    task.op = "aten::mm";
    task.workload = R"({"m":64})";
    task.machine_name = "ax01";
    task.machine_fingerprint = "machine-1";
    task.compiler_fingerprint = "compiler-1";
    task.space = space();
    task.draft = [error](const Point &point) {
        return static_cast<double>(cycles(point)) * (1 + error * (2 * noise(point, 7) - 1));
    };
    task.evaluate = [calls](const Point &point, int64_t) {
        calls->evaluated++;
        Trial trial;
        trial.point = point;
        trial.status = Trial::Ok;
        trial.cycles = cycles(point);
        trial.counters = {{"cycles", trial.cycles}};
        return trial;
    };
    task.verify = [calls](const Point &) {
        calls->verified++;
        return std::string();
    };
    task.bound_cycles = 1000;
    return task;
}

// Without early stops, so that the numbers of trials are exact.
inline TuneOptions quiet(int64_t trials) {
    TuneOptions options;
    options.trust_draft = false;
    options.max_trials = trials;
    options.progress = ProgressMode::Quiet;
    return options;
}

}  // namespace atalla::synthetic
