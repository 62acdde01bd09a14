// Runs many programs side by side on the cores of the host.
#pragma once

#include <span>
#include <vector>

#include "isa/machine.h"
#include "isa/program.h"
#include "simulator/simulator.h"

namespace atalla {

struct BatchJob {
    const Machine *machine = nullptr;
    const Program *program = nullptr;
};

// The results in the order of the jobs; they do not depend on the number of threads (0: what OpenMP offers). A program
// that the machine cannot hold is a result that is not ok. `options` must have no observer.
std::vector<RunResult> run_batch(std::span<const BatchJob> jobs, const RunOptions &options = {}, int threads = 0);

}  // namespace atalla
