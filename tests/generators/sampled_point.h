// What every schedule of an operator must fulfil, checked at one that is drawn at random.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "generators/evaluate.h"
#include "isa/error.h"
#include "schedules/random.h"

namespace atalla {

// From `low` to `high`.
inline int64_t between(Random &random, int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random.below(static_cast<uint64_t>(high - low + 1)));
}

// Draws a point of the workload's space and fails the current test unless its program runs, takes no fewer cycles than the
// bound and than its own, and gives the unoptimized program's bits. The point, unless the test failed before it could be
// verified.
inline std::optional<Point> check_sampled_point(const Workload &workload, const Machine &machine, const Evaluator &evaluator,
                                                Random &random) {
    const std::optional<Point> point = sample(workload.space(machine), random);
    if (!point) {
        ADD_FAILURE() << "the space is empty";
        return std::nullopt;
    }
    SCOPED_TRACE(point->assignments());
    // Halide's suffixes count what was built before: a program must not depend on that.
    try {
        for (const auto &[name, layout] : workload.build(machine, *point).layouts)
            EXPECT_EQ(name.find('$'), std::string::npos) << name;
    } catch (const Error &error) {
        ADD_FAILURE() << error.what();
        return std::nullopt;
    }
    const Evaluation evaluation = evaluator.evaluate(*point);
    if (evaluation.status != Evaluation::Ok) {
        ADD_FAILURE() << evaluation.reason;
        return std::nullopt;
    }
    EXPECT_GE(evaluation.cycles, workload.bound(machine).cycles);
    EXPECT_GE(evaluation.cycles, workload.least_cycles(machine, *point));
    EXPECT_EQ(evaluator.verify(*point), "");
    return point;
}

}  // namespace atalla
