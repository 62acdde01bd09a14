// The routines of a model: for each workload the best schedule that is known, compiled once.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autotune/draft.h"
#include "autotune/tuner.h"
#include "db/database.h"
#include "generators/evaluate.h"
#include "model/placement.h"
#include "model/schedule_cache.h"
#include "stitch/stitch.h"

namespace atalla {

struct KernelOptions {
    Database *database = nullptr;  // null: no winners
    bool tune = false;             // what has no winner, and keep it
    TuneOptions how;               // with `tune`
    // Without a winner: how many of the schedules that the draft likes best are run to choose one. 1: its best, not run.
    uint64_t measured = 8;
    bool verify = true;              // what has no winner, before a model uses it
    ScheduleCache *cache = nullptr;  // of what was chosen without a winner; null: chosen anew each time
};

// How many schedules of a kernel without a winner say what it takes: two, which decide where alternatives are far apart, or
// `measured`. With a winner, or with `tune`, or once the full price was asked for, that is the same.
enum class Effort { Quick, Full };

struct ChosenKernel {
    Routine routine;
    Point point;
    std::string from;  // "winner", "tuned", "draft", "naive"
    int64_t bound_cycles = 0;
    int64_t cycles = 0;     // of KernelSet::cycles; 0 if nobody asked
    bool verified = false;  // its results are what they should be: the tuner says so, or KernelSet::verify()
};

class KernelSet {
public:
    struct Asked {
        const Operator *op;
        std::shared_ptr<const Workload> workload;
    };

    KernelSet(const Machine &machine, KernelOptions options) : machine_(machine), options_(std::move(options)) {}

    // The index of the workload's kernel; it is made when it is first asked for. Error if no schedule of it compiles.
    size_t add(const Operator &op, const std::shared_ptr<const Workload> &workload);
    // What a run of the workload's kernel alone takes, from its start to its end: the winner's cycles, or measured on memory of
    // zeros; packets on a machine without timing. Error as from add(), which it need not call for a winner.
    int64_t cycles(const Operator &op, const std::shared_ptr<const Workload> &workload, Effort effort = Effort::Full);
    // The schedule that add() gives its kernel, which need not be compiled for it if it is known. Error as from add().
    Point schedule(const Operator &op, const std::shared_ptr<const Workload> &workload);
    struct Call {
        Asked kernel;
        std::vector<uint32_t> addresses;  // of its tensors, behind the parameter words
    };
    // What one program of the kernels takes, called in this order, on memory of zeros: cycles, or packets on a machine without
    // timing. Error as from add(). What the cache knows is not compiled.
    int64_t cycles_in_a_row(const std::vector<Call> &calls);
    const Machine &machine() const { return machine_; }
    // Searches those of the kernels side by side that nothing is known of; add() and cycles() find them done.
    void search_ahead(const std::vector<PlacedNode> &kernels, Effort effort);
    // What the draft makes of its winner, or of the best of a few points; nothing if the space has none. What was measured or
    // kept does not matter.
    std::optional<double> drafted(const Operator &op, const std::shared_ptr<const Workload> &workload) const;
    const std::vector<ChosenKernel> &kernels() const { return kernels_; }

    // Runs those of the kernels that are not verified (negative indices: none) on random and special values and compares the
    // results with those of the unoptimized program, or the host's, bit for bit. False if one differs: add() then gives its
    // workload the next best schedule, which notes() say.
    bool verify(const std::vector<int> &kernels);
    const std::vector<std::string> &notes() const { return notes_; }

private:
    std::optional<StoredTrial> winner(const Operator &op, const Workload &workload) const;
    // The schedules that the draft likes best, of which the first ones have been run.
    struct Search {
        std::vector<PricedPoint> points;
        size_t next = 0;        // of points
        uint64_t compiled = 0;  // of those before
        ChosenKernel best{};    // without `from` if none compiled
        std::string failure = "its schedule space has no point";
    };
    uint64_t schedules(Effort effort) const;
    int64_t measured(const Operator &op, const std::shared_ptr<const Workload> &workload);
    int64_t measured_quickly(const Operator &op, const std::shared_ptr<const Workload> &workload);
    ChosenKernel choose(const Operator &op, const std::shared_ptr<const Workload> &workload);
    ChosenKernel choose_by_draft(const Operator &op, const std::shared_ptr<const Workload> &workload);
    // Goes on until as many have compiled.
    void search(Search &search, const Operator &op, const Workload &workload, uint64_t enough) const;
    std::vector<PricedPoint> draft(const Operator &op, const std::shared_ptr<const Workload> &workload) const;
    Search &search_of(const Operator &op, const std::shared_ptr<const Workload> &workload);
    const KeptSchedule *kept(const Operator &op, const Workload &workload, Effort effort) const;
    void keep(const Operator &op, const Workload &workload, Effort effort, const KeptSchedule &schedule) const;
    bool is_refused(const std::string &key, const Point &point) const;

    Machine machine_;
    KernelOptions options_;
    std::map<std::string, size_t> known_;        // by operator and workload text
    std::map<std::string, std::string> failed_;  // why there is none, likewise
    std::map<std::string, Search> searches_;     // that have not ended, likewise
    // Cycles that were asked for: what another model left in the cache decides nothing.
    std::map<std::string, int64_t> quick_, full_;
    std::map<std::string, int64_t> rows_;  // by kernels and schedules
    std::vector<ChosenKernel> kernels_;
    std::vector<Asked> asked_;  // of kernels_, by index
    // Schedules that gave wrong results, with what differed, likewise.
    std::map<std::string, std::vector<std::pair<Point, std::string>>> refused_;
    std::vector<std::string> notes_;
};

}  // namespace atalla
