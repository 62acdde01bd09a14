// A program with its data, ready to run as often as one likes: from a file, or an operator's schedule.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "generators/evaluate.h"
#include "isa/program.h"
#include "simulator/profile/calls.h"
#include "simulator/simulator.h"

namespace atalla {

struct Subject {
    std::string title;  // "gemm 64x64x64", "loop.in"
    Machine machine;
    Program program;
    std::vector<CallRange> calls;   // of a compiled model
    std::optional<uint64_t> flops;  // of an operator: what its result takes
    // Runs from reset with the same data each time. Error if the program is refused.
    std::function<RunResult(const RunOptions &)> run;
};

// A `.in` program, or assembly if the name ends in `.s`.
Program read_program(const std::filesystem::path &file);

Subject subject_of(const std::filesystem::path &file, const Machine &machine);
// The program of a schedule, on the evaluator's data.
Subject subject_of(const Operator &op, std::shared_ptr<const Evaluator> evaluator, const Point &point);

// A compiled model (.atl), whose segments run one after the other with the host between them. `inputs` are as those of
// atalla-run; an input that is not given is zeros of the sizes of the first specialization.
Subject subject_of_model(const std::filesystem::path &file, const std::vector<std::string> &inputs);

}  // namespace atalla
