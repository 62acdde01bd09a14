#include "simulator/batch.h"

#include <omp.h>

#include <map>

#include "isa/error.h"

namespace atalla {

namespace {

// The machines of one thread: made once, so that no run waits for memory of the system.
class Machines {
public:
    RunResult run(const BatchJob &job, const RunOptions &options) {
        try {
            Simulator &simulator = simulators_.try_emplace(job.machine, *job.machine).first->second;
            simulator.clear_memory();
            simulator.load(*job.program);
            return simulator.run(options);
        } catch (const std::exception &error) {
            RunResult result;
            result.error = error.what();
            return result;
        }
    }

private:
    std::map<const Machine *, Simulator> simulators_;
};

}  // namespace

std::vector<RunResult> run_batch(std::span<const BatchJob> jobs, const RunOptions &options, int threads) {
    if (options.observer != nullptr) {
        throw Error("programs that run side by side cannot share an observer");
    }
    std::vector<RunResult> results(jobs.size());
#pragma omp parallel num_threads(threads > 0 ? threads : omp_get_max_threads())
    {
        Machines machines;
#pragma omp for schedule(dynamic)
        for (size_t at = 0; at < jobs.size(); at++) {
            // A result is made here and moved at once: neighbours in the vector are other threads'.
            RunResult result = machines.run(jobs[at], options);
            results[at] = std::move(result);
        }
    }
    return results;
}

}  // namespace atalla
