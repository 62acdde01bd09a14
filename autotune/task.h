// What the tuner needs to know about an operator instance: its space, a cheap prediction, the real evaluation, the check.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "db/trial.h"
#include "schedules/space.h"

namespace atalla {

// All functions but rest() are called from several threads at once.
struct TuningTask {
    std::string op;            // "aten::addmm"
    std::string workload;      // canonical JSON text: shapes, types, fused epilogue
    std::string title;         // the same for people; empty: there are no such words
    std::string machine_name;  // for people; the fingerprint is the key
    std::string machine_fingerprint;
    std::string compiler_fingerprint;
    Space space;
    // Predicted cycles by arithmetic, microseconds a call. May be empty: all points are then alike to the draft strategy.
    std::function<double(const Point &)> draft;
    // Cycles that no program of the point goes below: such points need not be evaluated to prove an optimum. May be empty.
    std::function<int64_t(const Point &)> least_cycles;
    // Lowers, generates and simulates for at most so many cycles (0: no limit). An exception becomes a Failed trial with
    // its text as the reason.
    std::function<Trial(const Point &, int64_t cycle_limit)> evaluate;
    // The choices of the code generator that change the program of a point, as choices_parameter has them. May be empty: none
    // do.
    std::function<int64_t(const Point &)> open_choices;
    // Compares the results of the point's program bit for bit with those of the unoptimized one: empty if they agree,
    // otherwise what differed. May be empty: nothing can then be stored as a winner.
    std::function<std::string(const Point &)> verify;
    // Frees what the other functions keep for their next call and can make again; not while one of them runs. May be empty.
    std::function<void()> rest;
    int64_t bound_cycles = 0;  // no schedule can be faster; 0: unknown
    std::string bound_by;      // the term of the bound that decides it

    // In messages.
    std::string name() const { return op + " " + (title.empty() ? workload : title); }
    TrialKey key() const { return {op, workload, machine_fingerprint, compiler_fingerprint}; }
};

}  // namespace atalla
