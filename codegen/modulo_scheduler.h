// The search of modulo.h: `run()` in modulo.cpp, `run_evenly()` in modulo_evenly.cpp, evictions in modulo_evict.cpp, starts of
// transfers in modulo_starts.cpp, lifetimes of values in modulo_lifetimes.cpp, weights that the loop makes in
// modulo_weights.cpp.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "codegen/chains.h"
#include "codegen/modulo.h"
#include "codegen/resources.h"

namespace atalla::codegen {

class ModuloScheduler {
public:
    ModuloScheduler(const Kernel &kernel, const std::set<Reg> &shared_masks, OverlapIterations overlap);
    std::optional<ModuloSchedule> run(ScheduleGraph &graph, const LoopInfo &loop, const RunsLater &runs_later);
    std::optional<ModuloSchedule> run_evenly(Kernel &kernel, ScheduleGraph &graph, const LoopInfo &loop, RowLoads loads);

private:
    // The shortest interval found, with the graph's cycles for it; 0 if none fits. `window`: stages that an operation may be
    // in.
    int least_interval(ScheduleGraph &graph, const std::vector<int> &window, int least, int most, bool overlapping);
    ModuloSchedule deferring_schedule(ScheduleGraph &graph, int interval);
    // A loop that defers sums leaves the adder without work while the array makes the first rows of the next turn of the nest.
    // With the boundary between its iterations turned to where the sums of one begin, its last rows and all their sums run
    // then.
    bool can_turn(const ScheduleGraph &graph, const LoopInfo &loop) const;
    // By how many cycles the boundary moves: to just before the first sum, a little earlier where that leaves the branch room.
    int turn_of(const ScheduleGraph &graph, int interval) const;
    // `turned` has the cycles of the other loop, and gets those of the turned one.
    std::optional<ModuloSchedule> turned_schedule(ScheduleGraph &turned, const std::vector<int> &window, int interval);
    // Stages that each operation may be in; empty if the loop must not overlap its iterations: its index would not be that of
    // all of them, rows must move in plain steps, and values of several iterations must not fill the registers.
    int stages_with_sides(const std::vector<const Op *> &ops, const LoopInfo &loop) const;
    std::vector<int> stages_allowed(const ScheduleGraph &graph, const LoopInfo &loop) const;
    // Rows that an access moves by in an iteration of the loop.
    int64_t rows_per_iteration(const PadAccess &access) const;
    // Do the rows of an access go on at different steps from iteration to iteration?
    bool steps_differ(const PadAccess &access) const;
    ModuloSchedule overlapping_schedule(ScheduleGraph &graph, int interval);
    // `spread`: with transfers at even distances.
    bool fits(ScheduleGraph &graph, const std::vector<int> &window, int interval, int packed, bool spread);
    // Cycles of their intervals that lane units keep to. Those of the first operations that come (none given) may be one for
    // two units, whose operations then read and write the register banks together; distinct ones leave room for others beside
    // them.
    using Phases = std::vector<std::pair<Unit, int>>;
    std::vector<Phases> phases_to_try(const ScheduleGraph &graph, int interval) const;
    ResourceTable empty_table(const ScheduleGraph &graph, int interval, int packed);
    bool registers_suffice(const ScheduleGraph &graph, int interval) const;
    // How many values of a class are under way at a time?
    int64_t most_live(const ScheduleGraph &graph, int interval, RegisterClass cls) const;
    // A pad has one transfer at a time, and who starts the next one waits: starts out of line are spread over the iteration, or
    // over as much of its end as a branch to the code behind the loop reaches: one to code before it would be predicted taken.
    std::vector<int> spread_sides(const ScheduleGraph &graph, int interval) const;
    // Does every iteration start several?
    static bool starts_transfers(const ScheduleGraph &graph);
    // DRAM serves transfers that start together in turns, and each of them lasts as long as all: those of several pads start at
    // even distances, and are over when the next iteration comes to their engines.
    void spread_transfers(const ScheduleGraph &graph, int interval);
    // How long after the start of its chain an operation waits. What waits for nothing starts when the longest way to the end
    // asks for it: until then its value would fill a register.
    int waits_for_end(const ScheduleGraph &graph, int i) const;
    // When a load has to start to be there with a row of the array that the same operation reads, as a sum does; nothing if
    // there is none that is placed.
    std::optional<int> row_is_there(const ScheduleGraph &graph, int i) const;
    // Such a load comes then, or as little earlier as there is room.
    bool place_with_row(ScheduleGraph &graph, ResourceTable &table, int i, int window, int interval, int start) const;
    // Gives every operation of a chain a cycle, from the first start that leaves room for all of them on.
    bool place_somewhere(ScheduleGraph &graph, ResourceTable &table, const std::vector<int> &chain,
                         const std::vector<int> &window, int interval) const;
    // Do the dependences alone leave every operation of a chain that starts no earlier a cycle? Asked only of a chain that is
    // not placed.
    bool may_start(const ScheduleGraph &graph, const std::vector<int> &chain, const std::vector<int> &window, int interval,
                   int start) const;
    // The first and the last cycle that an operation may have beside those that have theirs.
    std::pair<int, int> room(const ScheduleGraph &graph, int i, int window, int interval, int start) const;
    // Gives every operation of a chain a cycle, none before `start`, or leaves all of them without.
    struct Placed {
        bool all = false;
        // Any start up to this one leads to the same: each operation took the first cycle with room for it, and one that found
        // none in the whole interval, or up to a limit that others set, finds none later.
        int same_until = 0;
    };
    Placed place(ScheduleGraph &graph, ResourceTable &table, const std::vector<int> &chain, const std::vector<int> &window,
                 int interval, int start) const;
    bool place(ScheduleGraph &graph, ResourceTable &table, int i, int window, int interval, int start) const;
    // Of a lane unit without a cycle to spare, the last operations may find none of those that are left, where packets read
    // their banks: another one of the unit takes such a cycle and leaves its own.
    bool place_by_exchange(ScheduleGraph &graph, ResourceTable &table, const std::vector<int> &chain, size_t c,
                           const std::vector<int> &window, int interval, int start) const;
    // In these cycles, the wanted one if that is free.
    bool place_between(ScheduleGraph &graph, ResourceTable &table, int i, int first, int last) const;
    // The order of placing: one after the other, highest first. Where iterations overlap, the rows of an unrolled loop are
    // placed one after the other, each at its own pace.
    void order_operations(const ScheduleGraph &graph, bool overlapping);
    // Weights that lanes make in the iteration itself, or that a single row meets beside more work of the lanes: loaded as soon
    // as each is made they would be in the array for as long as lanes take for all of them, and for the distance between a row
    // and the next weights. They have their places behind all that leads to them, one right after the other.
    std::vector<int> find_made_weights(const ScheduleGraph &graph) const;
    void part_made_weights(const ScheduleGraph &graph);
    // The first cycle of one behind which the others need not wait for their vectors.
    int back_to_back(const ScheduleGraph &graph, int i) const;
    // The lane units that the loop keeps busy in every cycle; the first of them, if there is one.
    std::vector<Unit> full_units(const ScheduleGraph &graph, int interval) const;
    Unit full_unit(const ScheduleGraph &graph, int interval) const;
    // Where a lane unit sets the pace, the packets between two of its operations can be one: the hardware waits for the unit
    // anyway, and the instruction cache holds a longer loop.
    void merge_packets(ScheduleGraph &graph, int interval);
    // Can these operations issue together? None may touch a register that another one writes.
    bool one_packet(const ScheduleGraph &graph, const std::vector<int> &ops) const;
    // Cycles without an operation are dropped, so what must keep its distance is planned a little further apart; and a load may
    // find its pad busy with a row of a transfer.
    int spaced(const ScheduleGraph &graph, const Edge &edge) const;
    // From the last operation to the first, each that makes a value moves as late as its readers allow: values wait in
    // fewer registers.
    void shorten_lifetimes(ScheduleGraph &graph, ResourceTable &table, const std::vector<int> &order,
                           const std::vector<int> &window, int interval);
    // Moves an operation as late as its readers allow, and so many cycles less, where there is room.
    void move_late(ScheduleGraph &graph, ResourceTable &table, int i, int window, int interval, int margin);

    // Iterative modulo scheduling, of loops without rows of the array: the shortest interval found below another, 0 if there is
    // none.
    bool can_evict(const ScheduleGraph &graph) const;
    int interval_with_evictions(ScheduleGraph &graph, const std::vector<int> &window, int least, int below);
    bool place_with_evictions(ScheduleGraph &graph, const std::vector<int> &window, int interval, const Phases &phases);
    // Masks are few: each is made just before it is read.
    void make_masks_late(ScheduleGraph &graph, ResourceTable &table, const std::vector<int> &order,
                         const std::vector<int> &window, int interval);
    class PlacedOps;
    // Gives an operation a cycle whatever is there, another one than it was `forced` to before; the operations that lose
    // theirs, or nothing if no cycle can be its own. Those late in `turn` lose theirs first.
    std::optional<std::vector<int>> place_evicting(ScheduleGraph &graph, ResourceTable &table, const PlacedOps &placed, int i,
                                                   std::pair<int, int> limits, int interval, int &forced,
                                                   const std::vector<int> &turn) const;
    // The first and the last cycle that dependences leave each operation, whatever cycles the others have; nothing if one has
    // none.
    std::optional<std::vector<std::pair<int, int>>> limits(const ScheduleGraph &graph, const std::vector<int> &window,
                                                           int interval) const;
    // Takes their cycle from the operations that keep this one from its; false, and nothing changed, if it has no room without
    // them either.
    bool make_room(ScheduleGraph &graph, ResourceTable &table, const PlacedOps &placed, int i, int cycle, int interval,
                   const std::vector<int> &turn, std::vector<int> &evicted) const;
    bool keeps_dependences(const ScheduleGraph &graph, int interval) const;

    // Rows that are alike and follow each other at one distance: each operation finds its place once for all of them.
    int evenly_spaced_interval(ScheduleGraph &graph, const std::vector<int> &window, int least, int most);
    // `more_time`: what is in the way is later by all that it must, and loads get more time.
    bool fits_evenly(ScheduleGraph &graph, const std::vector<int> &window, int distance, int start, bool more_time);
    // Once: all operations, or the position of one that should be later for another to find its place, by so many cycles at
    // least. Where it is a load that is the first of all, or reads what has been stored, all loads like it get more time.
    struct Even {
        bool all = false;
        std::optional<size_t> in_the_way;
        int later = 0;
        bool early_load = false, reload = false;
    };
    Even place_rows(ScheduleGraph &graph, const std::vector<int> &window, int distance, int start);
    // What connects rows: what nothing else orders, or all that has no place yet.
    bool place_connecting(ScheduleGraph &graph, ResourceTable &table, const std::vector<int> &window, int interval,
                          bool all) const;
    // The operations at one position of all rows.
    bool place_evenly(ScheduleGraph &graph, ResourceTable &table, size_t position, int window, int distance, int start);
    // The first cycle that those with a place leave an operation by way of others without one, such as a row that is stored and
    // loaded again.
    int behind_unplaced(const ScheduleGraph &graph, int i, int interval) const;
    // What stays the same whatever places are tried.
    void look_at_rows(const ScheduleGraph &graph);

    const Kernel &kernel_;
    const Machine &machine_;
    const std::set<Reg> &shared_masks_;
    const bool masks_may_overlap_;
    const int64_t most_values_;  // that the iterations of a loop that overlap may make
    const bool in_pairs_;        // no more than two iterations overlap
    Reg index_;                  // of the loop
    std::vector<Claim> claims_;  // of its operations
    Chains chains_;
    std::vector<int> made_weights_;  // in the order of loading
    bool loads_last_ = false;        // of rows that follow each other evenly: loads behind stores, and two full units in turn
    bool evenly_ = false;            // are rows placed at one distance?
    // Of rows that follow each other evenly: the first cycle that an operation of the first row may have.
    std::vector<int> not_before_;
    int loads_early_ = 0;  // cycles that its loads may be earlier than they must
    int busy_ports_ = 0;   // and those that a store or a load of a single row waits for its pad, or for the ports of a packet
    // Of rows that follow each other evenly: where in a row each operation is (-1: in none), and the vectors that each reads
    // which others read, too. In a packet with one of those it would meet another row's vector in the same bank.
    std::vector<int> position_;
    std::vector<std::vector<size_t>> shared_reads_;
    std::vector<std::vector<bool>> read_in_;  // by vector and cycle of the distance: has it a reader there?
    std::map<Unit, int> operations_of_;       // of the loop, by unit
    std::map<Unit, int> first_of_;   // of rows that follow each other evenly: the cycle of the first operation of a unit
    std::vector<int> wanted_;        // the earliest cycle that suits an operation
    bool spread_transfers_ = false;  // do transfers have their cycles at even distances?
    int turn_ = 0;                   // cycles by which the loop's boundary will move
    int packed_ = 0;                 // of so many packets of a lane unit's intervals one is kept free; 0: none
    bool evicting_ = false;          // was the shortest interval found by evictions?
    bool displacing_ = false;        // do operations take the cycles of others?
    bool overlapping_ = false;       // may an operation be in another stage than the first?
    bool with_rows_ = false;         // do loads come with the rows that are added to them?
    int longest_ = 0;                // greatest height
};

}  // namespace atalla::codegen
