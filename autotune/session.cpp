#include "autotune/session.h"

#include <fmt/format.h>
#include <omp.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <iterator>
#include <mutex>
#include <optional>

#include "autotune/choices_search.h"
#include "autotune/draft.h"
#include "autotune/interrupt.h"
#include "autotune/known_points.h"
#include "autotune/proposals.h"
#include "db/database.h"
#include "isa/error.h"

namespace atalla {

namespace {

// So many points that are left are visited whatever the strategy thinks of them.
constexpr size_t few_points = 32;
// A budget of trials that ends before any point ran is exceeded by so many at most.
constexpr int64_t most_until_one_runs = 32;
// Trials of a list that is fixed at the start: between them it is only decided how far slower ones run.
constexpr int listed_batch = 8;
// So many values of a space are tried between two looks at the clock and at signals, and drafting this long, in seconds, is
// shown.
constexpr uint64_t pulse_every = 256;
constexpr double shown_after = 1;

struct Interrupted {};

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

}  // namespace

struct TuningSession::Impl {
    Impl(const TuningTask &task, Database *database, const TuneOptions &options)
        : task_(task), database_(database), options_(options), progress_(options.progress) {
        check_task(task_, options_);
        task_.space.pulse = [this] { pulse(); };
        if (options_.handle_signals) {
            guard_.emplace();
        }
        open_run();
    }

    ~Impl() {
        if (!ended_) {
            close_run_after_error();
        }
    }

    bool step(int64_t at_most) {
        if (!result_.stopped_because.empty()) {
            return false;
        }
        try {
            advance(at_most);
        } catch (const Interrupted &) {
            end_interrupted();
        }
        return result_.stopped_because.empty();
    }

    void advance(int64_t at_most) {
        if (!proposer_) {
            proposer_ = make_proposer(task_, options_);
            evaluate(starting_points(), cycle_limit(factor()));
        }
        const size_t n = at_most > 0 ? std::min(batch_size(), static_cast<size_t>(at_most)) : batch_size();
        if (n > 0) {
            if (!finish_space(n, few_points)) {
                const std::vector<Point> batch = next_batch(n);
                if (!batch.empty()) {
                    evaluate(batch, cycle_limit(factor()));
                } else if (!finish_space(n, SIZE_MAX)) {
                    result_.stopped_because = proposer_->ended();
                }
            }
        }
        result_.drafted = proposer_->drafted();
        const std::optional<Point> preferred = proposer_->best_of_model();
        result_.model_optimum_tried = preferred && outcomes_.tried(*preferred);
    }

    void try_choices(double most_seconds) {
        if (most_seconds > 0) {
            most_seconds_ = elapsed() + most_seconds;
        }
        const Trial *best = outcomes_.best();
        if (!tries_choices() || !best) {
            return;
        }
        ChoiceTrials trials;
        trials.open = task_.open_choices;
        trials.evaluate = [this](const std::vector<Point> &points, int64_t limit) {
            return evaluate_beyond_budget(points, limit);
        };
        with_best_choices({best->point, best->cycles}, trials);
    }

    std::vector<std::optional<int64_t>> evaluate_beyond_budget(const std::vector<Point> &points, int64_t limit) {
        std::vector<Point> batch;
        std::copy_if(points.begin(), points.end(), std::back_inserter(batch),
                     [this](const Point &point) { return !outcomes_.tried(point); });
        result_.with_choices += static_cast<int64_t>(batch.size());
        evaluate(batch, limit);
        std::vector<std::optional<int64_t>> cycles;
        for (const Point &point : points) {
            const auto trial = std::ranges::find(outcomes_.trials(), point, &Trial::point);
            const bool ran = trial != outcomes_.trials().end() && trial->status == Trial::Ok;
            cycles.push_back(ran ? std::optional(trial->cycles) : std::nullopt);
        }
        return cycles;
    }

    TuneResult finish() {
        choose();
        result_.seconds = elapsed();
        if (database_) {
            if (result_.verified) {
                database_->record_certificate(
                    {task_.key(), task_.bound_cycles, task_.bound_by, result_.optimal_in_space ? result_.cycles : 0});
            }
            database_->end_run(run_, result_.interrupted ? "interrupted" : "finished");
        }
        ended_ = true;
        progress_.finish(state());
        return result_;
    }

    using Clock = std::chrono::steady_clock;

    double elapsed() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }
    bool out_of_time(double share = 1) const { return most_seconds_ > 0 && elapsed() >= share * most_seconds_; }
    // A part of the time is left for the choices of the code generator.
    bool schedules_out_of_time() const { return out_of_time(tries_choices() ? 1 - time_for_choices : 1); }
    // A budget of one trial asks for what the draft likes best, and no more.
    bool tries_choices() const { return options_.choices && task_.open_choices && options_.max_trials != 1; }
    bool interrupted() const { return options_.handle_signals && interrupt_requested(); }

    void end_interrupted() {
        result_.interrupted = true;
        result_.stopped_because = "interrupted; the same command goes on from here";
    }

    // While the space is walked: a search that a signal ends need not come to its next batch first.
    void pulse() {
        if (++pulses_ % pulse_every != 0) {
            return;
        }
        if (result_.stopped_because.empty() && interrupted()) {
            throw Interrupted();
        }
        if (!proposer_ && elapsed() > shown_after) {
            progress_.update(state());
        }
    }

    // For so many times the best cycles a candidate may run; 0: without limit.
    double factor() const { return options_.prove ? 1 : options_.strategy == Strategy::Exhaustive ? 0 : options_.cut_off; }

    // How far a candidate may run before it is given up; 0: to its end. Decided between batches, so that it does not depend
    // on which trial of a batch ends first.
    int64_t cycle_limit(double factor) const {
        return outcomes_.best() ? static_cast<int64_t>(std::ceil(factor * static_cast<double>(outcomes_.best()->cycles))) : 0;
    }

    // What the strategy wants to see next. To prove an optimum takes only points that may be faster.
    std::vector<Point> next_batch(size_t n) {
        for (;;) {
            std::vector<Point> batch = proposer_->propose(n, outcomes_);
            const bool ended = batch.empty();
            if (options_.prove && outcomes_.best()) {
                passed_over_ += static_cast<int64_t>(std::erase_if(
                    batch, [&](const Point &point) { return known_.ruled_out(point, outcomes_.best()->cycles); }));
            }
            if (ended || !batch.empty()) {
                return batch;
            }
        }
    }

    // Where at most so many points are left that may be faster than the best, and the budget covers them: evaluates `n` of
    // them, by the draft the best, or ends the search after the last, which is a proof. False where more are left.
    bool finish_space(size_t n, size_t few) {
        std::optional<std::vector<Point>> left = all_that_is_left(few);
        if (!left) {
            return false;
        }
        if (left->empty()) {
            result_.stopped_because = "no point that is left can be faster";
            return true;
        }
        std::vector<PricedPoint> priced = price(task_, *left, options_.seed, options_.threads);
        std::sort(priced.begin(), priced.end());
        left->clear();
        for (size_t i = 0; i < std::min(n, priced.size()); i++) {
            left->push_back(std::move(priced[i].point));
        }
        evaluate(*left, cycle_limit(1));
        return true;
    }

    // The points that were not tried and may be faster than the best, if they are at most so many and the budget covers them.
    // (Samples and sweeps are as they were asked for.)
    std::optional<std::vector<Point>> all_that_is_left(size_t few) const {
        const bool as_asked = options_.strategy == Strategy::Exhaustive || options_.strategy == Strategy::Random;
        if (as_asked || outcomes_.size() >= static_cast<size_t>(options_.max_trials) || !outcomes_.best()) {
            return std::nullopt;
        }
        return known_.may_be_faster(std::min(few, static_cast<size_t>(options_.max_trials) - outcomes_.size()));
    }

    void open_run() {
        if (!database_) {
            return;
        }
        for (StoredTrial &stored : database_->trials_of(task_.key())) {
            known_.remember(std::move(stored));
        }
        for (const std::string &damaged : database_->take_unreadable()) {
            result_.notes.push_back(damaged + "; the row is left out, `atalla db stats` lists all damage");
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
            end_interrupted();
        } else if (schedules_out_of_time()) {
            result_.stopped_because = fmt::format("budget of {} seconds used", options_.max_seconds);
        } else if (options_.max_trials > 0 && proposed >= options_.max_trials + (best ? 0 : most_until_one_runs)) {
            result_.stopped_because = fmt::format("budget of {} trials used", options_.max_trials);
        } else if (best && options_.stop_at_bound_share > 0 && task_.bound_cycles > 0 &&
                   task_.bound_cycles >= options_.stop_at_bound_share * best->cycles) {
            result_.stopped_because =
                fmt::format("the best point is at {:.1f} % of the bound, the aim was {:.1f} %",
                            100.0 * task_.bound_cycles / best->cycles, 100 * options_.stop_at_bound_share);
        } else {
            const bool learns = options_.strategy != Strategy::Random && options_.strategy != Strategy::Exhaustive;
            const int64_t batch = learns ? options_.batch : std::max(options_.batch, listed_batch),
                          left = options_.max_trials > proposed ? options_.max_trials - proposed : batch;
            return static_cast<size_t>(std::min(left, batch));
        }
        return 0;
    }

    // Evaluates a batch in parallel. The outcomes are added in the order of the proposals, whatever ends first; points
    // that did not start before a signal or the end of the time are left out.
    void evaluate(const std::vector<Point> &batch, int64_t limit) {
        std::vector<std::optional<Trial>> trials(batch.size());
        std::exception_ptr failure;
        const auto size = static_cast<int64_t>(batch.size());
#pragma omp parallel for schedule(dynamic, 1) num_threads(options_.threads > 0 ? options_.threads : omp_get_max_threads())
        for (int64_t i = 0; i < size; i++) {
            try {
                const Trial *known = known_.answer(batch[i], limit);
                bool failed;
                {
                    const std::scoped_lock lock(mutex_);
                    failed = failure != nullptr;
                }
                if (!failed && (known || !(interrupted() || out_of_time()))) {
                    trials[i] = known ? *known : evaluate_now(batch[i], limit);
                    account(*trials[i], known != nullptr);
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
    Trial evaluate_now(const Point &point, int64_t limit) {
        Trial trial;
        try {
            trial = task_.evaluate(point, limit);
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
        const bool given_up = trial.status == Trial::TimedOut && trial.cycles > 0;
        result_.given_up += given_up;
        result_.failed += trial.status != Trial::Ok && !given_up;
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
        state.drafting = !proposer_;
        state.done = done_;
        state.total = options_.max_trials > 0 ? options_.max_trials + result_.with_choices : 0;
        if (state.total == 0 && options_.strategy == Strategy::Exhaustive && proposer_) {
            state.total = proposer_->drafted() - passed_over_;
        }
        state.failed = result_.failed;
        state.best_cycles = best_shown_;
        state.bound_cycles = task_.bound_cycles;
        state.seconds = elapsed();
        state.most_seconds = ended_ ? 0 : options_.max_seconds;
        state.done_before = result_.from_cache;
        return state;
    }

    // The fastest point of this run and of the stored trials that verification does not refuse.
    void choose() {
        const std::vector<Trial> candidates = known_.fastest_first();
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

    Verification verify(const Point &point, int &attempts) {
        const StoredTrial *known = known_.stored(point);
        if (known && known->verification != Verification::Unverified) {
            if (known->verification == Verification::Differs) {
                result_.rejected.emplace_back(point, known->differs);
            }
            return known->verification;
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
        const std::optional<int64_t> by_bound = known_.nothing_is_faster(result_.cycles, result_.rejected);
        result_.optimal_in_space = by_bound.has_value();
        result_.ruled_out = by_bound.value_or(0);
        if (!result_.verified) {
            result_.notes.push_back(task_.verify ? fmt::format("the {} fastest points gave wrong results, and the next was "
                                                               "not verified",
                                                               result_.rejected.size())
                                                 : "the best point is not verified and not stored as a winner");
        }
    }

    TuningTask task_;
    Database *database_;
    const TuneOptions options_;
    double most_seconds_ = options_.max_seconds;  // in all, 0: no limit
    const Clock::time_point started_ = Clock::now();
    std::string run_;
    std::optional<InterruptGuard> guard_;
    std::unique_ptr<Proposer> proposer_;
    Outcomes outcomes_;
    KnownPoints known_{task_, outcomes_};
    bool ended_ = false;
    uint64_t pulses_ = 0;
    int64_t passed_over_ = 0;  // points that a proof need not run

    std::mutex mutex_;  // guards what follows while a batch runs
    Progress progress_;
    TuneResult result_;
    int64_t done_ = 0;
    int64_t best_shown_ = 0;
    bool said_interrupted_ = false;
};

TuningSession::TuningSession(const TuningTask &task, Database *database, const TuneOptions &options)
    : impl_(std::make_unique<Impl>(task, database, options)) {}
TuningSession::~TuningSession() = default;

bool TuningSession::step(int64_t at_most) { return impl_->step(at_most); }
void TuningSession::try_choices(double most_seconds) { impl_->try_choices(most_seconds); }
const Outcomes &TuningSession::outcomes() const { return impl_->outcomes_; }
TuneResult TuningSession::finish() { return impl_->finish(); }

}  // namespace atalla
