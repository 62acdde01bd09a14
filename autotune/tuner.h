// The tuning loop: propose points, evaluate them in parallel, keep every trial in the database, verify the winner.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autotune/progress.h"
#include "autotune/task.h"

namespace atalla {

class Database;

enum class Strategy {
    Model,       // learn from each batch how the analytic draft is wrong, and try what then promises most
    Draft,       // rank by the analytic draft, evaluate best-first and what Model proposes, refine around the best measured
    Random,      // a random sample without repetition
    Exhaustive,  // every point, best draft first
    Climb,       // hill climbing from random points
    Evolve,      // crossing and mutating the best points
};
const char *strategy_name(Strategy strategy);
Strategy parse_strategy(std::string_view name);

// As they are here, the commands tune if nothing is said.
struct TuneOptions {
    Strategy strategy = Strategy::Draft;  // within their spread the best of them in bench/search_bench.cpp
    int64_t max_trials = 32;  // trials proposed, those found in the database included, and more until one runs; 0: no limit
    double max_seconds = 0;   // no trial starts after this; 0: no limit. A run it ends depends on the host's speed
    uint64_t seed = 1;
    int threads = 0;  // 0: what OpenMP offers. Never changes the result
    // Trials between two decisions of a strategy that learns; changes the course of the search. Of large ones the later trials
    // know less.
    int batch = 2;
    double stop_at_bound_share = 0;  // stop when bound / cycles reaches this share, e.g. 0.98; 0: never
    // A candidate is given up when it has run for this many times the best cycles known before its batch; 0: never. A
    // TimedOut trial keeps how far it came. Exhaustive runs everything to its end, unless `prove` is set.
    double cut_off = 1.5;
    // With Exhaustive, branch and bound: to prove that nothing in the space is faster each point need only run as long as the
    // best, and not at all if it cannot be faster by TuningTask::least_cycles.
    bool prove = false;
    // Stop when the predictions, corrected by what was measured, rule out all that is left.
    bool trust_draft = true;
    bool choices = true;  // try the code generator's choices for the best schedule, beyond max_trials, unless that is 1
    uint64_t draft_limit = 200'000;  // a space with more points is drafted on a random sample of this size
    std::vector<Point> start;        // known-good points, tried first; those not in the space are skipped and noted
    int verify_attempts = 8;         // candidates verified at most, fastest first
    bool handle_signals = true;      // SIGINT and SIGTERM end the run after the trials under way; a second one kills
    ProgressMode progress = ProgressMode::Automatic;
};

// Effort levels for command lines, by trials: "draft" 1, "quick" 16, "normal" 64, "thorough" 512 without trusting the
// draft, "exhaustive" all. Error naming the nearest for another word.
TuneOptions options_for_effort(std::string_view effort);

struct TuneResult {
    bool found = false;  // a point that ran; false: see failures and notes
    Point best;
    int64_t cycles = 0;
    double bound_share = 0;  // bound / cycles, 0 if the bound is unknown
    bool verified = false;   // best equals the unoptimized program bit for bit, and is stored as winner
    // Every point of the space ran to its end, ran for at least `cycles`, cannot run or cannot be faster by its own bound: none
    // is.
    bool optimal_in_space = false;
    int64_t ruled_out = 0;  // with optimal_in_space: points that were not run, by their bounds
    // The draft priced every point of the space, and the one that it prefers to all others was evaluated.
    bool model_optimum_tried = false;
    bool interrupted = false;     // by a signal; the same command goes on where this one stopped
    std::string stopped_because;  // "budget of 64 trials used", "every point evaluated", ...

    int64_t drafted = 0;     // points priced by the draft
    int64_t lowered = 0;     // evaluations started here
    int64_t simulated = 0;   // of those, the ones that reached the simulator
    int64_t from_cache = 0;  // proposals answered by the database
    // Proposals beyond a budget of trials: the best schedule with choices of the code generator. Counted above, too.
    int64_t with_choices = 0;
    int64_t given_up = 0;  // trials of this run that were stopped because others are faster
    int64_t failed = 0;    // trials of this run that are not Ok for another reason
    double seconds = 0;
    std::vector<std::pair<Point, std::string>> rejected;  // failed verification, with what differed
    std::vector<std::string> notes;                       // anything a user should be told
};

// Tunes one task. With a database, stored trials are not evaluated again, every new trial is a row the moment it ends,
// and the winner is marked after verification; without one (nullptr) nothing is kept. The result depends on the task,
// the options and the stored trials of the same key, not on timing or the number of threads (but for max_seconds and
// signals). Error if the task is incomplete, the space has no point, or the database cannot be written.
TuneResult tune(const TuningTask &task, Database *database, const TuneOptions &options = {});

// Points for TuneOptions::start: the verified winners of the same operator and workload under other machines or compilers
// that are valid in the task's space, fastest first. Only points worth trying; their cycles mean nothing here.
std::vector<Point> known_good_points(const Database &database, const TuningTask &task);

}  // namespace atalla
