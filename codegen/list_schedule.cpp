#include "codegen/list_schedule.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <vector>

#include "codegen/masks.h"

namespace atalla::codegen {

namespace {

// Operations that wait for no other one, in the order in which they are tried: a bit for each place in that order, by kind, so
// that a kind without room in a cycle is passed over as a whole.
class Ready {
public:
    Ready(const StraightCode::Ordered &order, bool in_order)
        : order_(order),
          in_order_(in_order),
          words_((order.rank.size() + 63) / 64),
          all_(words_),
          of_kind_(order.kinds * words_) {}

    // To be tried from cycle `earliest` on. What may run in this cycle already is tried behind all others, which kept it
    // waiting.
    void add(int i, int earliest) {
        if (in_order_ || earliest <= cycle_)
            added_.push_back(i);
        else
            later_.emplace(earliest, i);
    }
    void start_cycle(int cycle) {
        cycle_ = cycle;
        for (const int i : added_)
            if (i != none) set(i, true);
        added_.clear();
        for (; !later_.empty() && later_.top().first <= cycle; later_.pop()) set(later_.top().second, true);
        closed_.clear();
        start_again();
    }
    void start_again() {
        next_added_ = 0;
        enter(0);
    }
    // The next operation to try in this cycle; none behind the last.
    int next() {
        while (open_ == 0 && word_ < words_) enter(word_ + 1);
        if (open_ != 0) {
            const auto bit = static_cast<size_t>(std::countr_zero(open_));
            open_ &= open_ - 1;
            return order_.by_rank[word_ * 64 + bit];
        }
        while (next_added_ < added_.size())
            if (const int i = added_[next_added_++]; i != none) return i;
        return none;
    }
    // Of the operation that next() gave: it has its cycle.
    void remove(int i) {
        if (next_added_ > 0)
            added_[next_added_ - 1] = none;
        else
            set(i, false);
    }
    // There is no room for the kind of this operation in this cycle any more.
    void close(int i) {
        closed_.push_back(order_.kind[static_cast<size_t>(i)]);
        if (word_ < words_) open_ &= ~of_kind_[closed_.back() * words_ + word_];
    }
    static constexpr int none = -1;

private:
    using Waiting = std::pair<int, int>;  // the first cycle, the operation

    void enter(size_t word) {
        word_ = word;
        open_ = word < words_ ? all_[word] : 0;
        if (open_ == 0) return;
        for (const size_t kind : closed_) open_ &= ~of_kind_[kind * words_ + word];
    }
    void set(int i, bool waits) {
        const size_t kind = order_.kind[static_cast<size_t>(i)], rank = order_.rank[static_cast<size_t>(i)];
        const uint64_t bit = uint64_t{1} << (rank % 64);
        for (uint64_t *word : {&all_[rank / 64], &of_kind_[kind * words_ + rank / 64]})
            *word = waits ? *word | bit : *word & ~bit;
    }

    const StraightCode::Ordered &order_;
    bool in_order_;
    int cycle_ = -1;
    size_t words_;
    std::vector<uint64_t> all_, of_kind_;  // of all kinds; by kind, `words_` words each
    std::vector<size_t> closed_;           // kinds that have no room in this cycle
    size_t word_ = 0;                      // of the next one
    uint64_t open_ = 0;                    // in that word: what is still to be tried
    std::vector<int> added_;               // in this cycle
    size_t next_added_ = 0;
    std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> later_;
};

// Gives every operation of the graph its cycle. With `shared_masks` it counts the masks that are alive, and returns nothing
// where that leads nowhere.
std::optional<ResourceTable> list_schedule(const Kernel &kernel, StraightCode::Ordered &code, const std::set<Reg> *shared_masks,
                                           int packet_cycles, bool in_order = false) {
    // A schedule that waits this long for a mask register never gets one.
    constexpr int most_idle = 256;
    ScheduleGraph &graph = code.graph;
    std::vector<Claim> &claims = code.claims;
    const size_t n = graph.ops.size();
    ResourceTable table(kernel, 0, packet_cycles);
    table.adopt(claims);
    std::vector<int> missing(n, 0), earliest(n, 0);
    for (const Edge &e : graph.edges) missing[e.to]++;
    for (size_t i = 0; i < n; i++) earliest[i] = graph.wanted[i] / packet_cycles;
    Ready ready(code, in_order);
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
        for (int i = 0; (i = ready.next()) != Ready::none;) {
            if (full && markers == 0) break;
            if (in_order && i > first_open + most_ahead + idle) break;
            const bool marker = is_marker(graph.ops[i]);
            // What did not fit before fits still less now.
            if (!marker && (full || table.refuses(claims[i], cycle))) {
                ready.close(i);
                continue;
            }
            if (earliest[i] > cycle || (masks && !masks->fits(i))) continue;
            if (marker) {
                markers--;
            } else if (table.fits(claims[i], cycle)) {
                table.take(claims[i], cycle);
                full = table.full(cycle);
            } else {
                ready.close(i);
                continue;
            }
            graph.cycle[i] = cycle;
            if (masks) masks->take(i);
            while (first_open < static_cast<int>(n) && graph.cycle[static_cast<size_t>(first_open)] >= 0) first_open++;
            done++;
            ready.remove(i);
            for (int e : graph.out[i]) {
                const Edge &edge = graph.edges[e];
                const int apart = edge.hard ? edge.latency : (edge.latency + packet_cycles - 1) / packet_cycles;
                earliest[edge.to] = std::max(earliest[edge.to], cycle + apart);
                if (--missing[edge.to] == 0) ready.add(edge.to, earliest[edge.to]);
            }
            // A mask may be free now.
            if (masks_may_become_free) ready.start_again();
        }
        idle = done == before ? idle + 1 : 0;
        if (masks && idle > most_idle) return std::nullopt;
    }
    return table;
}

}  // namespace

StraightCode::Ordered::Ordered(const Kernel &kernel, ScheduleGraph ordered, bool in_order)
    : graph(std::move(ordered)),
      claims(ResourceTable(kernel, 0).claims(graph.ops)),
      kind(graph.ops.size()),
      rank(graph.ops.size()),
      by_rank(graph.ops.size()) {
    std::map<Claim, size_t> known;
    for (size_t i = 0; i < kind.size(); i++)
        if (!is_marker(graph.ops[i])) kind[i] = known.try_emplace(claims[i], 1 + known.size()).first->second;
    kinds = 1 + known.size();
    std::iota(by_rank.begin(), by_rank.end(), 0);
    if (!in_order)
        std::stable_sort(by_rank.begin(), by_rank.end(), [&](int a, int b) { return graph.height[a] > graph.height[b]; });
    for (size_t r = 0; r < by_rank.size(); r++) rank[static_cast<size_t>(by_rank[r])] = r;
}

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

ScheduledAgain StraightCode::schedule(int packet_cycles) & {
    code_.graph.drop_added();
    if (in_order_) return {code_.graph, *list_schedule(kernel_, code_, nullptr, packet_cycles, true)};
    if (std::optional<ResourceTable> table = list_schedule(kernel_, code_, &shared_masks_, packet_cycles))
        return {code_.graph, std::move(*table)};
    if (!masks_in_turn_) masks_in_turn_.emplace(kernel_, graph_of(code_.graph.ops, true), false);
    masks_in_turn_->graph.drop_added();
    return {masks_in_turn_->graph, *list_schedule(kernel_, *masks_in_turn_, nullptr, packet_cycles)};
}

Scheduled StraightCode::schedule(int packet_cycles) && {
    ScheduledAgain scheduled = schedule(packet_cycles);
    return {std::move(scheduled.first), std::move(scheduled.second)};
}

}  // namespace atalla::codegen
