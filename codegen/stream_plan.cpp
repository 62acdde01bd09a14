#include "codegen/stream_plan.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "codegen/index.h"
#include "codegen/loop_tree.h"
#include "codegen/modulo.h"
#include "codegen/resources.h"
#include "codegen/spread.h"
#include "isa/vectors.h"

namespace atalla::codegen {

std::vector<int64_t> Starts::turns() const {
    std::vector<int64_t> turns;
    for (int64_t n = 0; n < count; n++)
        turns.push_back(std::max({first + (n * span + count - 1) / count, turns.empty() ? 0 : turns.back() + 1, int64_t{0}}));
    return turns;
}

namespace {

constexpr int64_t least_in_loop = 2;  // groups of one transfer, as start_from() has it

bool any_jumps(const std::vector<Stream> &streams) { return std::ranges::any_of(streams, &Stream::jumps); }

class StreamPlanner {
public:
    StreamPlanner(Kernel &kernel, const LoopNest &nest, size_t at) : kernel_(kernel), nest_(nest), at_(at) {}

    bool plan_tiles() {
        find_streams([this](Copy &copy) { return streams_of_tiles(nest_, copy); });
        if (plan_.stores.size() > 1) return false;
        while (!plan_.loads.empty() && !(plan_.stores.empty() ? plan_loads_alone() : plan_with_results())) {
            if (!nest_.is_several() || !plan_.stores.empty()) return false;
            leave_smallest_load();
        }
        return !plan_.loads.empty();
    }

    // Copies whose pads have several columns of the same rows, of which those of the first rows come first and leave first.
    bool plan_columns() {
        if (nest_.is_several()) return false;
        find_streams([this](Copy &copy) { return streams_of_columns(nest_, copy); });
        if (!any_jumps(plan_.loads) || !any_jumps(plan_.stores)) return false;
        begin_plan();
        plan_.columns = true;
        plan_.in_halves = transfers_bind();
        return plan_apart();
    }

    StreamPlan take() { return std::move(plan_); }

private:
    // The streams of all copies to and from rows that the loop touches, as `streams_of` has those of one.
    template <class StreamsOf>
    void find_streams(const StreamsOf &streams_of) {
        plan_ = {};
        for (size_t i = 0; i < kernel_.body.size(); i++) {
            Node &node = kernel_.body[i];
            if (!node.copy || node.copy->load != (i < at_) || !accesses(nest_.hot().body, node.copy->allocation)) continue;
            if (!stands_alone(*node.copy, i)) continue;
            std::vector<Stream> streamed = streams_of(*node.copy);
            std::ranges::move(streamed, std::back_inserter(node.copy->load ? plan_.loads : plan_.stores));
        }
    }

    bool stands_alone(const Copy &copy, size_t at) const {
        if (copy.first_of >= 0 || copy.pad_row != LinearForm{} || !copy.mem.is_constant()) return false;
        // What fills a buffer in front of its load is no matter. A later copy to the same tensor waits for the last tiles of
        // this one, which end behind all others.
        const auto meets = [&](size_t i) {
            const Node &node = kernel_.body[i];
            if (copy.load && i < at && node.loop && node.loop->fill) return false;
            return touches(node, copy.allocation) || (copies(node, copy.tensor, !copy.load) && (copy.load || i < at));
        };
        for (size_t i = 0; i < kernel_.body.size(); i++)
            if (i != at && i != at_ && meets(i)) return false;
        return true;
    }

    // The copy that brings least comes in front of the loop as a whole.
    void leave_smallest_load() {
        const auto smallest = std::ranges::min_element(
            plan_.loads, {}, [&](const Stream &s) { return beats_of(s.copy->tiles, *kernel_.machine); });
        std::erase_if(plan_.loads, [copy = smallest->copy](const Stream &s) { return s.copy == copy; });
        plan_.load_starts.clear();
        plan_.fronts.clear();
    }

    // The turns that a group's stores take: those of an iteration that overlaps others, and the way into the pads.
    int64_t turns_to_land() const {
        constexpr int64_t landing = 100;
        return plan_.stages + 1 + landing / std::max(1, resource_bound(kernel_, nest_.operations()));
    }

    // A group starts when the one before it in its pads has ended, so each start says that what the group before brings is
    // there. That of a load comes before the loop, which may have begun some iterations in front, touches those rows.
    bool in_time(const Stream &s, const Starts &starts, int64_t front) const {
        const std::vector<int64_t> turns = starts.turns();
        for (size_t n = 1; n < turns.size(); n++)
            if (turns[n] + plan_.half_distance() + plan_.stages > s.first_use[n + static_cast<size_t>(front) - 1]) return false;
        return true;
    }

    void begin_plan() {
        plan_.stages = most_stages_with_sides(nest_.hot());
        sure_ = nest_.is_several() ? nest_.turns() : sure_iterations(nest_.hot());
        plan_.apart = plan_.in_halves = true;
    }

    bool plan_with_results() {
        begin_plan();
        if (transfers_bind() && plan_apart()) return true;
        if (nest_.is_several() || any_jumps(plan_.loads) || any_jumps(plan_.stores)) return false;
        plan_.apart = plan_.in_halves = false;
        const Stream &result = plan_.stores.front();
        const int64_t distance = std::max<int64_t>(1, nest_.hot().extent / result.groups);
        // Results as soon as they are there, or so little later that one starts behind the last group of each load.
        const int64_t land = turns_to_land(), late = result.most_ahead;
        int64_t made = 0;
        for (int64_t h = 0; h + late < result.groups; h++)
            made =
                std::max(made, result.last_use[static_cast<size_t>(h + late)] + land - h * nest_.hot().extent / result.groups);
        for (int64_t first = made; first < made + distance; first++)
            if (plan_beside(first, distance)) return true;
        return false;
    }

    // Loads between results, of which the first leaves in turn `first`.
    bool plan_beside(int64_t first, int64_t distance) {
        const Stream &result = plan_.stores.front();
        const int64_t late = result.most_ahead;
        plan_.load_starts.clear();
        plan_.fronts.clear();
        plan_.unsure = 0;
        if (!plan_loads(first, distance, static_cast<int64_t>(plan_.loads.size()) + 1)) return false;
        // As many as start while the loop runs. Where it has code in front of it and behind it, the last of them may not have.
        const auto start_in_loop = [&](int64_t count) {
            return Starts{first, (nest_.hot().extent * count + result.groups - 1) / result.groups, count};
        };
        int64_t count = result.groups - late;
        while (count > 0 && start_in_loop(count).turns().back() >= nest_.hot().extent) count--;
        if (count < least_in_loop) return false;
        plan_.result_starts = {start_in_loop(count)};
        for (const int64_t turn : plan_.result_starts.front().turns()) plan_.unsure += turn >= sure_ ? 1 : 0;
        return last_loads_end();
    }

    int64_t beats_of_all(const Stream &s) const {
        int64_t beats = beats_of(s.apart, *kernel_.machine);
        for (const auto &[pad, tiles] : s.tiles) beats += beats_of(tiles, *kernel_.machine);
        return beats;
    }

    // Do transfers take longer than what computes, with so many cycles for each group's engines to begin?
    bool transfers_bind(int64_t to_begin = 0) const {
        int64_t beats = 0;
        for (const Stream &s : plan_.stores) beats += beats_of_all(s);
        for (const Stream &s : plan_.loads) beats += beats_of_all(s) + to_begin * s.groups;
        return beats > resource_bound(kernel_, nest_.operations()) * nest_.turns();
    }

    // All loads, then all results: where transfers take longer than what computes DRAM turns once from reading to writing, and
    // has something to move from the start to the end. Each group comes as two halves with tiles in both bank groups, a turn
    // apart: one is served while the engines of the other begin. Pads of which some are ahead would have one more group to
    // begin with and to end with.
    bool plan_apart() {
        constexpr int64_t least_in_front = 2;
        const auto is_staggered = [](const Stream &s) { return s.most_ahead > 0; };
        if (std::ranges::any_of(plan_.stores, is_staggered) || std::ranges::any_of(plan_.loads, is_staggered)) return false;
        int64_t of_loads = 0, of_results = 0;
        for (const Stream &s : plan_.loads) of_loads += s.groups - least_in_front;
        for (const Stream &s : plan_.stores) of_results += s.groups;
        const int64_t events = of_loads + of_results, land = turns_to_land();
        // The last results that leave while the loop runs do so as soon as they are there, those in front of them so much
        // earlier.
        int64_t first_result = nest_.turns();
        for (const Stream &result : plan_.stores) {
            int64_t count = result.groups;
            Starts results;
            do {
                results = {0, nest_.turns() * count * of_results / result.groups / events, count};
                for (int64_t h = 0; h < count; h++)
                    results.first = std::max(
                        results.first, result.last_use[static_cast<size_t>(h)] + land - ceil_div(h * results.span, count));
            } while (results.turns().back() + plan_.half_distance() >= sure_ && --count >= least_in_loop);
            if (count < least_in_loop) return false;
            first_result = std::min(first_result, results.first);
            plan_.result_starts.push_back(results);
        }
        for (size_t i = 0; i < plan_.loads.size(); i++) {
            const Stream &s = plan_.loads[i];
            // Where the first turns may touch many groups, of nests and of steps of several lengths, as many as are needed.
            int64_t front = least_in_front;
            Starts starts;
            const auto comes_in_time = [&] {
                starts = {first_result * static_cast<int64_t>(i) / of_loads, first_result, s.groups - front};
                // The last group in front of the loop has ended when the first one beside it starts.
                const int64_t used = s.first_use[static_cast<size_t>(front) - 1];
                return !s.jumps_to(front) && starts.turns().front() + plan_.half_distance() + plan_.stages <= used &&
                       in_time(s, starts, front);
            };
            while (s.groups - front >= least_in_loop && !comes_in_time() && (nest_.is_several() || s.jumps())) front++;
            if (s.groups - front < least_in_loop || !comes_in_time()) return false;
            plan_.load_starts.push_back(starts);
            plan_.fronts.push_back(front);
        }
        return last_loads_end();
    }

    // Results of few transfers, or of one pad, leave behind the loop. In the turn before one that needs the last group of a
    // load nothing else starts in its pads: it is waited for there.
    bool plan_loads_alone() {
        constexpr int64_t engine_starts = 45;  // DRAM has nothing to do where all of a group's begin together
        // Of a nest the code in front of its loops must pay, too.
        if (nest_.is_several() ? transfers_bind() || leaves_much() : any_jumps(plan_.loads)) return false;
        plan_.stages = most_stages_with_sides(nest_.hot());
        plan_.in_halves = transfers_bind(engine_starts);
        // Groups of several loads, which share engines, take turns.
        const auto events = static_cast<int64_t>(plan_.loads.size());
        const int64_t distance = events > 1 ? std::max<int64_t>(1, nest_.turns() / plan_.loads.front().groups) : 1;
        return plan_loads(0, distance, events);
    }

    // Does DRAM have about as much to do behind the loop, for its results?
    bool leaves_much() const {
        int64_t come = 0, leave = 0;
        for (const Stream &s : plan_.loads) come += beats_of_all(s);
        for (size_t i = at_; i < kernel_.body.size(); i++)
            if (const Node &node = kernel_.body[i];
                node.copy && !node.copy->load && accesses(nest_.hot().body, node.copy->allocation))
                leave += beats_of(node.copy->tiles, *kernel_.machine);
        return 2 * leave > come;
    }

    // Loads between the results, of which the first leaves in turn `first_result`, at one distance from each other.
    bool plan_loads(int64_t first_result, int64_t distance, int64_t events) {
        constexpr int64_t most_in_front = 6;
        for (size_t i = 0; i < plan_.loads.size(); i++) {
            const Stream &s = plan_.loads[i];
            const int64_t wanted = first_result + (static_cast<int64_t>(i) + 1) * distance / events;
            std::optional<Starts> found;
            int64_t front = 0;
            while (!found && ++front < std::min(most_in_front, s.groups - s.most_ahead - 2)) {
                const int64_t count = s.groups - front - s.most_ahead;
                Starts starts{distance * front, nest_.turns() * count / s.groups, count};
                const auto comes_in_time = [&] {
                    return in_time(s, starts, front) &&
                           (!plan_.stores.empty() || starts.turns().back() < plan_.turn_of_wait(s));
                };
                while (starts.first > -distance && !comes_in_time()) starts.first--;
                if (!comes_in_time()) continue;
                found = starts;
                starts.first -= floor_mod(starts.first - wanted, distance);
                if (comes_in_time()) found = starts;
            }
            if (!found) return false;
            plan_.load_starts.push_back(*found);
            plan_.fronts.push_back(front);
        }
        return true;
    }

    // The last group that a load brings has ended when a result starts in its pads.
    bool last_loads_end() const {
        for (size_t i = 0; i < plan_.loads.size(); i++) {
            const int64_t last = plan_.load_starts[i].turns().back(),
                          needed =
                              plan_.loads[i].first_use[static_cast<size_t>(plan_.fronts[i] + plan_.load_starts[i].count) - 1] -
                              plan_.stages;
            bool ended = false;
            for (size_t r = 0; r < plan_.stores.size(); r++) {
                const auto takes = [&](const auto &of_pad) { return plan_.stores[r].tiles.contains(of_pad.first); };
                const std::vector<int64_t> turns = plan_.result_starts[r].turns();
                ended =
                    ended || (std::ranges::all_of(plan_.loads[i].tiles, takes) && std::ranges::any_of(turns, [&](int64_t turn) {
                                  return turn > last && turn + plan_.half_distance() <= needed;
                              }));
            }
            if (!ended) return false;
        }
        return true;
    }

    Kernel &kernel_;
    const LoopNest &nest_;
    size_t at_;
    StreamPlan plan_;
    int64_t sure_ = 0;  // turns that run in any case
};

}  // namespace

std::optional<StreamPlan> plan_streams(Kernel &kernel, const LoopNest &nest, size_t at) {
    StreamPlanner planner(kernel, nest, at);
    if (!planner.plan_columns() && !planner.plan_tiles()) return std::nullopt;
    return planner.take();
}

}  // namespace atalla::codegen
