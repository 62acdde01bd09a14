#include "autotune/tuner.h"

#include <fmt/format.h>
#include <omp.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <optional>

#include "autotune/interrupt.h"
#include "autotune/outcomes.h"
#include "autotune/proposals.h"
#include "db/database.h"
#include "isa/error.h"

namespace atalla {

namespace {

constexpr std::array<const char *, 3> strategy_names = {"draft", "random", "exhaustive"};

void check_task(const TuningTask &task, const TuneOptions &options) {
    const auto demand = [&](bool holds, const char *what) {
        if (!holds) {
            throw Error(fmt::format("cannot tune {} {}: {}", task.op, task.workload, what));
        }
    };
    demand(!task.op.empty() && !task.workload.empty(), "the task has no operator or no workload");
    demand(!task.machine_fingerprint.empty() && !task.compiler_fingerprint.empty(),
           "the task has no machine or compiler fingerprint, so its trials could be mistaken for others");
    demand(static_cast<bool>(task.evaluate), "the task has no evaluation");
    demand(options.batch > 0, "the batch must be at least 1");
    demand(options.max_trials >= 0 && options.max_seconds >= 0, "a budget is negative");
    check_space(task.space);
}

// One call of tune().
class Session {
public:
    Session(const TuningTask &task, Database *database, const TuneOptions &options)
        : task_(task), database_(database), options_(options), progress_(options.progress) {}

    TuneResult run() {
        check_task(task_, options_);
        std::optional<InterruptGuard> guard;
        if (options_.handle_signals) {
            guard.emplace();
        }
        open_run();
        try {
            search();
            choose();
        } catch (...) {
            close_run_after_error();
            throw;
        }
        result_.seconds = elapsed();
        if (database_) {
            database_->end_run(run_, result_.interrupted ? "interrupted" : "finished");
        }
        progress_.finish(state());
        return result_;
    }

private:
    using Clock = std::chrono::steady_clock;

    double elapsed() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }
    bool out_of_time() const { return options_.max_seconds > 0 && elapsed() >= options_.max_seconds; }
    bool interrupted() const { return options_.handle_signals && interrupt_requested(); }

    void open_run() {
        if (!database_) {
            return;
        }
        for (StoredTrial &stored : database_->trials_of(task_.key())) {
            stored_.emplace(stored.trial.point, std::move(stored));
        }
        database_->name_machine(task_.machine_fingerprint, task_.machine_name);
        TuningRun run;
        run.key = task_.key();
        run.strategy = strategy_name(options_.strategy);
        run.seed = options_.seed;
        run.bound_cycles = task_.bound_cycles;
        run_ = database_->begin_run(run);
    }

    void close_run_after_error() {
        try {
            if (database_) {
                database_->end_run(run_, "error");
            }
        } catch (const Error &) {
            // The first error, which says why, is on its way; a database that cannot be written is most likely it.
        }
    }

    void search() {
        const std::unique_ptr<Proposer> proposer = make_proposer(task_, options_);
        evaluate(starting_points());
        while (result_.stopped_because.empty()) {
            const size_t n = batch_size();
            if (n == 0) {
                break;
            }
            const std::vector<Point> batch = proposer->propose(n, outcomes_);
            if (batch.empty()) {
                result_.stopped_because = proposer->ended();
            }
            evaluate(batch);
        }
        result_.drafted = proposer->drafted();
    }

    std::vector<Point> starting_points() {
        std::vector<Point> points;
        for (const Point &point : options_.start) {
            const std::string wrong = violation(task_.space, point);
            if (!wrong.empty()) {
                result_.notes.push_back(fmt::format("the starting point {} is skipped: {}", point.assignments(), wrong));
            } else if (std::find(points.begin(), points.end(), point) == points.end()) {
                points.push_back(point);
            }
        }
        if (options_.max_trials > 0 && points.size() > static_cast<size_t>(options_.max_trials)) {
            points.resize(options_.max_trials);
        }
        return points;
    }

    // How many to propose next; 0 with the reason set if the run is over.
    size_t batch_size() {
        const Trial *best = outcomes_.best();
        const auto proposed = static_cast<int64_t>(outcomes_.size());
        if (interrupted()) {
            result_.interrupted = true;
            result_.stopped_because = "interrupted; the same command goes on from here";
        } else if (out_of_time()) {
            result_.stopped_because = fmt::format("budget of {} seconds used", options_.max_seconds);
        } else if (options_.max_trials > 0 && proposed >= options_.max_trials) {
            result_.stopped_because = fmt::format("budget of {} trials used", options_.max_trials);
        } else if (best && options_.stop_at_bound_share > 0 && task_.bound_cycles > 0 &&
                   task_.bound_cycles >= options_.stop_at_bound_share * best->cycles) {
            result_.stopped_because =
                fmt::format("the best point is at {:.1f} % of the bound, the aim was {:.1f} %",
                            100.0 * task_.bound_cycles / best->cycles, 100 * options_.stop_at_bound_share);
        } else {
            const int64_t left = options_.max_trials > 0 ? options_.max_trials - proposed : options_.batch;
            return static_cast<size_t>(std::min<int64_t>(left, options_.batch));
        }
        return 0;
    }

    // Evaluates a batch in parallel. The outcomes are added in the order of the proposals, whatever ends first; points
    // that did not start before a signal or the end of the time are left out.
    void evaluate(const std::vector<Point> &batch) {
        std::vector<std::optional<Trial>> trials(batch.size());
        std::exception_ptr failure;
        const auto size = static_cast<int64_t>(batch.size());
#pragma omp parallel for schedule(dynamic, 1) num_threads(options_.threads > 0 ? options_.threads : omp_get_max_threads())
        for (int64_t i = 0; i < size; i++) {
            try {
                const bool known = stored_.contains(batch[i]);
                bool failed;
                {
                    const std::scoped_lock lock(mutex_);
                    failed = failure != nullptr;
                }
                if (!failed && (known || !(interrupted() || out_of_time()))) {
                    trials[i] = known ? stored_.at(batch[i]).trial : evaluate_now(batch[i]);
                    account(*trials[i], known);
                }
            } catch (...) {
                const std::scoped_lock lock(mutex_);
                failure = std::current_exception();
            }
        }
        if (failure) {
            std::rethrow_exception(failure);
        }
        for (std::optional<Trial> &trial : trials) {
            if (trial) {
                outcomes_.add(std::move(*trial));
            }
        }
    }

    // Errors of the evaluation become part of the trial; those of the database are the caller's.
    Trial evaluate_now(const Point &point) {
        Trial trial;
        try {
            trial = task_.evaluate(point);
            if (trial.status == Trial::Ok && trial.cycles <= 0) {
                trial.reason = fmt::format("the evaluation reported success with {} cycles", trial.cycles);
                trial.status = Trial::Failed;
            }
        } catch (const std::exception &error) {
            trial.status = Trial::Failed;
            trial.reason = error.what();
        }
        trial.point = point;
        if (database_) {
            database_->record_trial(task_.key(), trial, run_);
        }
        return trial;
    }

    void account(const Trial &trial, bool known) {
        const std::scoped_lock lock(mutex_);
        done_++;
        result_.failed += trial.status != Trial::Ok;
        if (known) {
            result_.from_cache++;
        } else {
            result_.lowered++;
            result_.simulated += trial.status != Trial::Failed || trial.seconds_simulate > 0;
        }
        if (trial.status == Trial::Ok && (best_shown_ == 0 || trial.cycles < best_shown_)) {
            best_shown_ = trial.cycles;
        }
        if (interrupted() && !said_interrupted_) {
            said_interrupted_ = true;
            progress_.message("Ending after the trials under way; once more to kill.");
        }
        progress_.update(state());
    }

    ProgressState state() const {
        ProgressState state;
        state.what = task_.op;
        state.done = done_;
        state.total = options_.max_trials;
        state.failed = result_.failed;
        state.best_cycles = best_shown_;
        state.bound_cycles = task_.bound_cycles;
        state.seconds = elapsed();
        state.done_before = result_.from_cache;
        return state;
    }

    // The fastest point of this run and of the stored trials that verification does not refuse.
    void choose() {
        const std::vector<Trial> candidates = fastest_first();
        int attempts = 0;
        for (const Trial &candidate : candidates) {
            const Verification verification = verify(candidate.point, attempts);
            if (verification == Verification::Differs) {
                continue;
            }
            result_.found = true;
            result_.best = candidate.point;
            result_.cycles = candidate.cycles;
            result_.verified = verification == Verification::Verified;
            break;
        }
        describe(candidates.size());
    }

    std::vector<Trial> fastest_first() const {
        std::map<std::pair<int64_t, Point>, Trial> order;
        const auto add = [&](const Trial &trial) {
            if (trial.status == Trial::Ok) {
                order.emplace(std::pair(trial.cycles, trial.point), trial);
            }
        };
        for (const Trial &trial : outcomes_.trials()) {
            add(trial);
        }
        for (const auto &[point, stored] : stored_) {
            // A run over a part of the space must not answer with a point outside it.
            if (violation(task_.space, point).empty()) {
                add(stored.trial);
            }
        }
        std::vector<Trial> trials;
        for (auto &[key, trial] : order) {
            trials.push_back(std::move(trial));
        }
        return trials;
    }

    Verification verify(const Point &point, int &attempts) {
        const auto known = stored_.find(point);
        if (known != stored_.end() && known->second.verification != Verification::Unverified) {
            if (known->second.verification == Verification::Differs) {
                result_.rejected.emplace_back(point, known->second.differs);
            }
            return known->second.verification;
        }
        if (!task_.verify || attempts >= options_.verify_attempts) {
            return Verification::Unverified;
        }
        attempts++;
        std::string differs;
        try {
            differs = task_.verify(point);
        } catch (const std::exception &error) {
            differs = fmt::format("the verification failed: {}", error.what());
        }
        if (differs.empty()) {
            if (database_) {
                database_->mark_verified(task_.key(), point);
            }
            return Verification::Verified;
        }
        if (database_) {
            database_->mark_differs(task_.key(), point, differs);
        }
        result_.rejected.emplace_back(point, differs);
        return Verification::Differs;
    }

    void describe(size_t candidates) {
        if (!result_.found) {
            const Trial *failed = outcomes_.trials().empty() ? nullptr : &outcomes_.trials().front();
            if (candidates > 0) {
                result_.notes.push_back(fmt::format("all {} points that ran gave wrong results", candidates));
            } else if (failed) {
                result_.notes.push_back(fmt::format("none of {} points ran; the first, {}, was {}: {}", outcomes_.size(),
                                                    failed->point.assignments(), status_name(failed->status), failed->reason));
            } else {
                result_.notes.push_back("no point was evaluated before the run ended");
            }
            return;
        }
        if (task_.bound_cycles > 0) {
            result_.bound_share = static_cast<double>(task_.bound_cycles) / result_.cycles;
            if (result_.cycles < task_.bound_cycles) {
                result_.notes.push_back(
                    fmt::format("{} cycles at {} are below the lower bound of {}: the bound or the "
                                "simulator is wrong",
                                result_.cycles, result_.best.assignments(), task_.bound_cycles));
            }
        }
        if (!result_.verified) {
            result_.notes.push_back(task_.verify ? fmt::format("the {} fastest points gave wrong results, and the next was "
                                                               "not verified",
                                                               result_.rejected.size())
                                                 : "the best point is not verified and not stored as a winner");
        }
    }

    const TuningTask &task_;
    Database *database_;
    const TuneOptions options_;
    const Clock::time_point started_ = Clock::now();
    std::map<Point, StoredTrial> stored_;  // what the database knew at the start
    std::string run_;
    Outcomes outcomes_;

    std::mutex mutex_;  // guards what follows while a batch runs
    Progress progress_;
    TuneResult result_;
    int64_t done_ = 0;
    int64_t best_shown_ = 0;
    bool said_interrupted_ = false;
};

}  // namespace

const char *strategy_name(Strategy strategy) { return strategy_names.at(static_cast<size_t>(strategy)); }

Strategy parse_strategy(std::string_view name) {
    for (size_t strategy = 0; strategy < strategy_names.size(); strategy++) {
        if (name == strategy_names[strategy]) {
            return static_cast<Strategy>(strategy);
        }
    }
    const std::string near = nearest_name(name, {strategy_names.begin(), strategy_names.end()});
    throw Error(fmt::format("'{}' is not a search strategy (draft, random, exhaustive){}", name,
                            near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
}

TuneOptions options_for_effort(std::string_view effort) {
    static const std::map<std::string, int64_t, std::less<>> trials = {
        {"draft", 1}, {"quick", 16}, {"normal", 64}, {"thorough", 512}, {"exhaustive", 0}};
    const auto found = trials.find(effort);
    if (found == trials.end()) {
        const std::string near = nearest_name(effort, {"draft", "quick", "normal", "thorough", "exhaustive"});
        throw Error(fmt::format("'{}' is not an effort (draft, quick, normal, thorough, exhaustive){}", effort,
                                near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
    }
    TuneOptions options;
    options.max_trials = found->second;
    options.strategy = effort == "exhaustive" ? Strategy::Exhaustive : Strategy::Draft;
    options.trust_draft = effort != "thorough";
    return options;
}

TuneResult tune(const TuningTask &task, Database *database, const TuneOptions &options) {
    return Session(task, database, options).run();
}

std::vector<Point> known_good_points(const Database &database, const TuningTask &task) {
    std::vector<Point> points;
    for (const StoredTrial &winner : database.related_winners(task.key())) {
        const Point &point = winner.trial.point;
        if (violation(task.space, point).empty() && std::find(points.begin(), points.end(), point) == points.end()) {
            points.push_back(point);
        }
    }
    return points;
}

}  // namespace atalla
