#include "simulator/batch.h"

#include <omp.h>

#include "isa/error.h"

namespace atalla {

namespace {

RunResult run_one(const BatchJob &job, const RunOptions &options) {
    try {
        Simulator simulator(*job.machine);
        simulator.load(*job.program);
        return simulator.run(options);
    } catch (const std::exception &error) {
        RunResult result;
        result.error = error.what();
        return result;
    }
}

}  // namespace

std::vector<RunResult> run_batch(std::span<const BatchJob> jobs, const RunOptions &options, int threads) {
    if (options.observer != nullptr) {
        throw Error("programs that run side by side cannot share an observer");
    }
    std::vector<RunResult> results(jobs.size());
#pragma omp parallel for schedule(dynamic) num_threads(threads > 0 ? threads : omp_get_max_threads())
    for (size_t at = 0; at < jobs.size(); at++) {
        results[at] = run_one(jobs[at], options);
    }
    return results;
}

}  // namespace atalla
