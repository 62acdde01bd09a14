#include "codegen/list_schedule.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <vector>

#include "codegen/masks.h"

namespace atalla::codegen {

namespace {

// Operations that wait for no other one, in the order in which they are tried.
class Ready {
public:
    // In order: by their place in the block; otherwise those on the longest way to the end first.
    Ready(const ScheduleGraph &graph, bool in_order) : in_order_(in_order), rank_(graph.ops.size()) {
        std::vector<int> by_rank(graph.ops.size());
        std::iota(by_rank.begin(), by_rank.end(), 0);
        if (!in_order)
            std::stable_sort(by_rank.begin(), by_rank.end(), [&](int a, int b) { return graph.height[a] > graph.height[b]; });
        for (size_t r = 0; r < by_rank.size(); r++) rank_[by_rank[r]] = static_cast<int>(r);
    }

    // To be tried from cycle `earliest` on. What may run in this cycle already is tried behind all others, which kept it
    // waiting.
    void add(int i, int earliest) {
        if (in_order_ || earliest <= cycle_)
            now_.push_back(i);
        else
            later_.emplace(earliest, i);
    }
    void start_cycle(int cycle) {
        cycle_ = cycle;
        const auto before = [&](int a, int b) { return rank_[a] < rank_[b]; };
        now_.erase(std::remove(now_.begin(), now_.end(), gone), now_.end());
        for (; !later_.empty() && later_.top().first <= cycle; later_.pop()) now_.push_back(later_.top().second);
        const auto added = std::is_sorted_until(now_.begin(), now_.end(), before);
        std::sort(added, now_.end(), before);
        std::inplace_merge(now_.begin(), added, now_.end(), before);
    }
    size_t size() const { return now_.size(); }
    int at(size_t place) const { return now_[place]; }
    void remove(size_t place) { now_[place] = gone; }
    static constexpr int gone = -1;

private:
    using Waiting = std::pair<int, int>;  // the first cycle, the operation
    bool in_order_;
    int cycle_ = -1;
    std::vector<int> rank_, now_;
    std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> later_;
};

// Gives every operation of the graph its cycle. With `shared_masks` it counts the masks that are alive, and returns nothing
// where that leads nowhere.
std::optional<ResourceTable> list_schedule(const Kernel &kernel, ScheduleGraph &graph, const std::set<Reg> *shared_masks,
                                           int packet_cycles, bool in_order = false) {
    // A schedule that waits this long for a mask register never gets one.
    constexpr int most_idle = 256;
    const size_t n = graph.ops.size();
    ResourceTable table(kernel, 0, packet_cycles);
    const std::vector<Claim> claims = table.claims(graph.ops);
    std::vector<int> missing(n, 0), earliest(n, 0);
    for (const Edge &e : graph.edges) missing[e.to]++;
    for (size_t i = 0; i < n; i++) earliest[i] = graph.wanted[i] / packet_cycles;
    Ready ready(graph, in_order);
    for (size_t i = 0; i < n; i++)
        if (missing[i] == 0) ready.add(static_cast<int>(i), earliest[i]);
    size_t done = 0;
    std::optional<MaskBudget> masks;
    if (shared_masks != nullptr) masks.emplace(kernel, graph, *shared_masks);
    const bool masks_may_become_free = masks && masks->limits();
    auto markers = std::count_if(graph.ops.begin(), graph.ops.end(), is_marker);
    int idle = 0;  // cycles in which nothing was scheduled
    // In order, operations that wait for nothing would still run far ahead of the others. Where these wait for one of them,
    // such as a constant at the end of the block, the window grows until it is in reach.
    constexpr int most_ahead = 96;
    int first_open = 0;
    for (int cycle = 0; done < n; cycle++) {
        const size_t before = done;
        ready.start_cycle(cycle);
        bool full = false;
        for (size_t r = 0; r < ready.size(); r++) {
            const int i = ready.at(r);
            if (full && markers == 0) break;
            if (i == Ready::gone) continue;
            if (in_order && i > first_open + most_ahead + idle) break;
            const bool marker = is_marker(graph.ops[i]);
            if ((!marker && (full || table.refuses(claims[i], cycle))) || earliest[i] > cycle || (masks && !masks->fits(i)))
                continue;
            if (marker) {
                markers--;
            } else {
                if (!table.fits(claims[i], cycle)) continue;
                table.take(claims[i], cycle);
                full = table.full(cycle);
            }
            graph.cycle[i] = cycle;
            if (masks) masks->take(i);
            while (first_open < static_cast<int>(n) && graph.cycle[static_cast<size_t>(first_open)] >= 0) first_open++;
            done++;
            ready.remove(r);
            for (int e : graph.out[i]) {
                const Edge &edge = graph.edges[e];
                const int apart = edge.hard ? edge.latency : (edge.latency + packet_cycles - 1) / packet_cycles;
                earliest[edge.to] = std::max(earliest[edge.to], cycle + apart);
                if (--missing[edge.to] == 0) ready.add(edge.to, earliest[edge.to]);
            }
            // What did not fit before fits still less now, but for masks.
            if (masks_may_become_free) r = static_cast<size_t>(-1);
        }
        idle = done == before ? idle + 1 : 0;
        if (masks && idle > most_idle) return std::nullopt;
    }
    return table;
}

}  // namespace

ScheduleGraph StraightCode::graph_of(std::vector<Op> ops, bool masks_in_turn) const {
    ScheduleGraph graph(kernel_, std::move(ops), -1, masks_in_turn);
    if (kernel_.machine->timed()) {
        if (entry_) graph.start_transfers_first();
        if (transfers_)
            graph.start_pads_in_turn();
        else if (!entry_ && !in_order_ && !graph.ops.empty())
            graph.spread_transfers(kernel_);
        graph.wait_last();
    }
    return graph;
}

Scheduled StraightCode::schedule(int packet_cycles) {
    ScheduleGraph graph = graph_;
    if (in_order_) {
        const std::optional<ResourceTable> table = list_schedule(kernel_, graph, nullptr, packet_cycles, true);
        return {std::move(graph), *table};
    }
    if (std::optional<ResourceTable> table = list_schedule(kernel_, graph, &shared_masks_, packet_cycles))
        return {std::move(graph), *table};
    if (!masks_in_turn_) masks_in_turn_.emplace(graph_of(graph_.ops, true));
    graph = *masks_in_turn_;
    const std::optional<ResourceTable> table = list_schedule(kernel_, graph, nullptr, packet_cycles);
    return {std::move(graph), *table};
}

}  // namespace atalla::codegen
