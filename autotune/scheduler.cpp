#include "autotune/scheduler.h"

#include <fmt/format.h>
#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>

#include "autotune/interrupt.h"
#include "autotune/session.h"
#include "db/database.h"
#include "isa/error.h"

namespace atalla {

namespace {

// Of the distance to the bound, what a first refining batch may save.
constexpr double hope = 0.1;

// A task with what is known of it so far.
struct Entry {
    const ScheduledTask *what;
    std::unique_ptr<TuningTask> task;
    std::unique_ptr<TuningSession> session;
    ScheduledResult outcome;
    int64_t cycles = 0, cycles_before = 0;  // of the best point, now and before the last batch; 0: none
    int64_t trials = 0, bound = 0;
    bool over = false;
    double seconds = 0;  // of its own batches

    // Of the program that all tasks make.
    double gain() const {
        const auto count = static_cast<double>(what->count);
        return cycles == 0 ? 0 : count * expected_gain(cycles, cycles_before, bound, outcome.batches);
    }
};

class Schedule {
public:
    Schedule(const std::vector<ScheduledTask> &tasks, Database *database, const ScheduleOptions &options,
             const std::function<void(size_t, const ScheduledResult &)> &done)
        : database_(database), options_(options), done_(done), progress_(options.progress) {
        for (const ScheduledTask &task : tasks) {
            entries_.push_back({&task, nullptr, nullptr, {}, 0, 0, 0, 0, false, 0});
        }
        options_.each.progress = ProgressMode::Quiet;
        options_.each.max_seconds = 0;
    }

    ScheduleResult run() {
        std::optional<InterruptGuard> guard;
        if (options_.each.handle_signals) {
            guard.emplace();
        }
        for (Entry *entry : most_expensive_first()) {
            if (exhausted()) {
                break;
            }
            advance(*entry);
        }
        while (!exhausted()) {
            Entry *best = most_promising();
            if (!best) {
                break;
            }
            advance(*best);
        }
        return finish();
    }

private:
    using Clock = std::chrono::steady_clock;
    double elapsed() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }

    bool exhausted() const {
        return (options_.each.handle_signals && interrupt_requested()) ||
               (options_.max_trials > 0 && trials() >= options_.max_trials) ||
               (options_.max_seconds > 0 && elapsed() >= seconds_for_schedules());
    }
    double seconds_for_schedules() const { return options_.max_seconds * (options_.each.choices ? 1 - time_for_choices : 1); }

    int64_t trials() const {
        return std::accumulate(entries_.begin(), entries_.end(), int64_t{0},
                               [](int64_t sum, const Entry &entry) { return sum + entry.trials; });
    }

    std::vector<Entry *> most_expensive_first() {
        std::vector<Entry *> order;
        for (Entry &entry : entries_) {
            order.push_back(&entry);
        }
        std::stable_sort(order.begin(), order.end(), [](const Entry *one, const Entry *other) {
            return one->what->count * one->what->least_cycles > other->what->count * other->what->least_cycles;
        });
        return order;
    }

    Entry *most_promising() {
        Entry *best = nullptr;
        for (Entry &entry : entries_) {
            if (entry.session && !entry.over && (!best || entry.gain() > best->gain())) {
                best = &entry;
            }
        }
        return best;
    }

    // Points of the next batch at most: every task gets its part of a small budget before any gets more.
    int64_t share(const Entry &entry) const {
        if (options_.max_trials == 0) {
            return 0;
        }
        const int64_t fair = std::max<int64_t>(options_.max_trials / static_cast<int64_t>(entries_.size()), 1);
        const int64_t left = options_.max_trials - trials();
        return entry.outcome.batches == 0 ? std::min(fair, left) : left;
    }

    // One more batch.
    void advance(Entry &entry) {
        const double begun = elapsed();
        try {
            if (!entry.task) {
                entry.task = entry.what->make();
                entry.bound = entry.task->bound_cycles;
                TuneOptions options = options_.each;
                if (database_) {
                    options.start = known_good_points(*database_, *entry.task);
                }
                entry.session = std::make_unique<TuningSession>(*entry.task, database_, options);
            }
        } catch (const Error &error) {
            entry.outcome.problem = error.what();
            entry.over = true;
            return;
        }
        entry.over = !entry.session->step(share(entry));
        // Tensors of all tasks at once may be larger than the memory.
        if (entry.task->rest) {
            entry.task->rest();
        }
        const Outcomes &outcomes = entry.session->outcomes();
        entry.outcome.batches++;
        entry.trials = static_cast<int64_t>(outcomes.size());
        entry.cycles_before = entry.cycles;
        if (outcomes.best()) {
            entry.cycles = outcomes.best()->cycles;
            if (entry.outcome.first_cycles == 0) {
                const auto first = std::find_if(outcomes.trials().begin(), outcomes.trials().end(),
                                                [](const Trial &trial) { return trial.status == Trial::Ok; });
                entry.outcome.first_cycles = first->cycles;
            }
        }
        entry.seconds += elapsed() - begun;
        progress_.update(state(entry));
    }

    ProgressState state(const Entry &entry) const {
        ProgressState state;
        int64_t begun = 0, over = 0, saved = 0;
        for (const Entry &one : entries_) {
            begun += one.session && !one.over;
            over += one.over;
            saved += one.what->count * (one.outcome.first_cycles - one.cycles);
            state.best_cycles += one.what->count * one.cycles;
            state.bound_cycles += one.cycles > 0 ? one.what->count * one.bound : 0;
            state.failed += !one.outcome.problem.empty();
        }
        state.what = fmt::format("{} done, {} running, {} left; {} cycles saved; {}", over, begun,
                                 static_cast<int64_t>(entries_.size()) - over - begun, saved, entry.what->name);
        state.done = trials();
        state.total = options_.max_trials;
        state.seconds = elapsed();
        state.most_seconds = options_.max_seconds;
        return state;
    }

    void try_choices() {
        for (Entry *entry : most_expensive_first()) {
            const double left = options_.max_seconds > 0 ? options_.max_seconds - elapsed() : 0;
            if (entry->session && (left > 0 || options_.max_seconds == 0)) {
                entry->session->try_choices(left);
                if (entry->task->open_choices && entry->task->rest) {
                    entry->task->rest();
                }
            }
        }
    }

    ScheduleResult finish() {
        try_choices();
        ScheduleResult result;
        result.interrupted = options_.each.handle_signals && interrupt_requested();
        for (size_t index = 0; index < entries_.size(); index++) {
            Entry &entry = entries_[index];
            result.trials += entry.trials;
            if (entry.session) {
                entry.over = true;
                entry.outcome.result = entry.session->finish();
                entry.outcome.result.interrupted = result.interrupted;
                entry.outcome.result.seconds = entry.seconds;
                if (entry.outcome.result.stopped_because.empty()) {
                    entry.outcome.result.stopped_because =
                        result.interrupted ? "interrupted" : "the budget of the list was used";
                }
                // The tensors of a task are large.
                entry.session.reset();
                entry.task.reset();
                if (entry.outcome.result.found) {
                    result.first_cycles += entry.what->count * entry.outcome.first_cycles;
                    result.cycles += entry.what->count * entry.outcome.result.cycles;
                }
            }
            if (done_) {
                done_(index, entry.outcome);
            }
            result.tasks.push_back(entry.outcome);
        }
        result.seconds = elapsed();
        if (!entries_.empty()) {
            ProgressState last = state(entries_.back());
            last.most_seconds = 0;
            progress_.finish(last);
        }
        return result;
    }

    Database *database_;
    ScheduleOptions options_;
    const std::function<void(size_t, const ScheduledResult &)> &done_;
    const Clock::time_point started_ = Clock::now();
    std::vector<Entry> entries_;
    Progress progress_;
};

}  // namespace

double expected_gain(int64_t cycles, int64_t cycles_before, int64_t bound, int64_t batches) {
    const auto saved = static_cast<double>(std::max<int64_t>(cycles_before - cycles, 0));
    const auto distance = static_cast<double>(std::max<int64_t>(cycles - bound, 0));
    return saved / 2 + hope * distance / static_cast<double>((batches + 1) * (batches + 1));
}

ScheduleResult tune_all(const std::vector<ScheduledTask> &tasks, Database *database, const ScheduleOptions &options,
                        const std::function<void(size_t, const ScheduledResult &)> &done) {
    return Schedule(tasks, database, options, done).run();
}

}  // namespace atalla
