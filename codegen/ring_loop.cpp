#include "codegen/ring_loop.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "codegen/loop_tree.h"
#include "codegen/result_transfer.h"
#include "codegen/spread.h"

namespace atalla::codegen {

namespace {

bool shares_pads(const std::vector<Tile> &tiles) {
    std::set<int> pads;
    return std::any_of(tiles.begin(), tiles.end(), [&](const Tile &tile) { return !pads.insert(tile.pad).second; });
}

// Is there only one iteration of a loop from inside which a result could leave?
bool is_over_soon(const Loop &hot) { return !has_loop(hot.body) && sure_iterations(hot) < 2; }

// The longest of these loops, if nothing moves beside it.
Loop *idle_loop(const Body &body) {
    Loop *const longest = longest_loop(body);
    const auto moves = [](const Node &node) { return !node.op || node.op->side; };
    return longest != nullptr && std::ranges::none_of(longest->body, moves) ? longest : nullptr;
}

// Groups that are spread over the hot loop: one tile a pad, so that none waits for another, where it has iterations enough.
// Runs of which some pads jump share a branch where the hot loop is all there is: in front of other code a longer run of a
// result would begin.
std::vector<Run> rounds_of(const Copy &copy, const Loop &hot, const Body &head) {
    constexpr int64_t share = 4;
    const std::vector<Run> rounds = split_rounds(copy.tiles), apart = one_tile_a_pad(rounds);
    int64_t groups = 0;
    for (const Run &run : apart) groups += run.count;
    const std::vector<Run> &spread = share * groups <= sure_iterations(hot) ? apart : rounds;
    return head.empty() ? join_runs(spread) : spread;
}

// Groups that may start one by one from inside the hot loop are of one tile a pad.
std::vector<Run> groups_for(const Copy &copy, const Loop *hot) {
    const std::vector<Run> runs = split_runs(copy.tiles);
    const bool fewer = hot != nullptr && !has_loop(hot->body) &&
                       std::all_of(runs.begin(), runs.end(), [&](const Run &run) { return run.count < hot->extent; });
    return fewer ? join_runs_of_some_pads(one_tile_a_pad(runs)) : runs;
}

bool is_load(const SpreadTransfer &transfer) { return transfer.channel.copy->load; }

class RingLoop {
public:
    RingLoop(const LoopTransfers &transfers, Loop &loop, RingLoopBody body, const NestRewriting &nest)
        : kernel_(transfers.kernel),
          rings_(transfers.rings),
          code_(transfers.code),
          loads_(transfers.loads),
          loop_(loop),
          copies_(std::move(body)),
          nest_(nest) {
        for (int id : transfers.chain) runs_ *= kernel_.loops[id].extent;
    }

    void run() {
        divide();
        decide_from_parts();
        make_channels_of_result();
        rotate_tail();
        start_residents();
        collect_transfers();
        decide_spread();
        start_loads();
        leave_from_hot_loop();
        leave_from_head();
        append(nest_.usual(std::move(parts_.head)), body_);
        start_result();
        if (plan_.spreads) spread(kernel_, spread_, first_tiles_, runs_, *hot_, code_, body_);
        append(nest_.usual(std::move(parts_.hot)), body_);
        end_iteration();
        loop_.body = std::move(body_);
        make_last_result();
    }

private:
    // Where the result of an iteration is made and leaves, and what else starts from where.
    struct Plan {
        bool early = false;         // the head makes some of it
        bool rotate = false;        // the tail, which makes it, runs at the start of the next iteration
        bool stands_alone = false;  // what the tail stores has nothing to do with the rest
        bool streams = false;       // the hot loop may have branches that start all transfers
        bool in_rounds = false;     // its transfers are rounds of the pads
        bool at_once = false;       // or each of its channels starts once
        bool straight = false;      // it leaves where straight code has made it
        bool in_nest = false;       // loads start one by one from a nest,
        bool spreads = false;       // or all transfers from the hot loop
        bool direct = false;        // it leaves as soon as it is made
        bool late = false;          // it leaves once the engines are through with loads,
        bool last = false;          // or behind the hot loop
        bool before_head = false;   // it begins to leave in front of the head
    };

    // The rest of the body is head | hot loop | tail, where the tail makes the result.
    struct Parts {
        Body head, hot, tail;
        bool stored_behind = false;  // the result leaves behind the hot loop
    };

    const Copy *store() const { return copies_.store; }
    // Does the result wait in its slot, to leave in the next iteration?
    bool waits() const { return result_ && !plan_.direct; }

    void divide() {
        rings_.use_slots(copies_.rest);
        // Transfers are counted out for loops that always run as often.
        if (!has_varying_loop(kernel_, copies_.rest)) hot_ = longest_loop(copies_.rest);
        Body *part = &parts_.head;
        for (size_t i = 0; i < copies_.rest.size(); i++) {
            Node &node = copies_.rest[i];
            if (hot_ != nullptr && node.loop.get() == hot_) {
                parts_.stored_behind = copies_.store_at > i;
                parts_.hot.push_back(std::move(node));
                part = &parts_.tail;
            } else {
                part->push_back(std::move(node));
            }
        }
    }

    void decide_from_parts() {
        // A result that is made in parts must be in one slot.
        plan_.early = store() != nullptr && accesses(parts_.head, store()->allocation);
        plan_.rotate = hot_ != nullptr && store() != nullptr && !plan_.early && !accesses(parts_.hot, store()->allocation) &&
                       parts_.stored_behind && !parts_.tail.empty() && can_rotate();
        // Results without a second slot leave from the tail, and it is the next one that waits for them.
        plan_.stands_alone = std::none_of(parts_.tail.begin(), parts_.tail.end(), [&](const Node &node) {
            const auto apart = [&](const Node &other) {
                return !touches(other, node.copy->allocation) && !copies(other, node.copy->tensor, true);
            };
            return node.copy && !(std::ranges::all_of(parts_.head, apart) && std::ranges::all_of(parts_.hot, apart));
        });
        plan_.streams = hot_ != nullptr && !plan_.rotate && !plan_.early && copies_.residents.empty() && !has_loop(hot_->body);
    }

    // Operations can run at the start of the next iteration if nothing before them there changes what they use: no array, whose
    // weights may be other ones by then, and only rows of slots that change with this loop.
    bool can_rotate() const {
        return std::all_of(parts_.tail.begin(), parts_.tail.end(), [&](const Node &n) {
            if (!n.op || info(n.op->opcode).unit == Unit::Array) return false;
            if (!n.op->access) return true;
            const Ring *ring = rings_.of(n.op->access->allocation);
            return n.op->access->row.is_constant() && ring != nullptr && ring->loop == loop_.id;
        });
    }

    void make_channels_of_result() {
        // Transfers of a pad that are not alike wait for each other where they start: they are rounds, which start one by one.
        plan_.in_rounds = plan_.streams && store() != nullptr && shares_pads(store()->tiles);
        if (store() != nullptr)
            result_.emplace(kernel_, rings_, code_, *store(),
                            plan_.in_rounds ? rounds_of(*store(), *hot_, parts_.head) : split_runs(store()->tiles));
        plan_.at_once =
            !plan_.in_rounds && std::ranges::all_of(channels_of_result(), [](const Channel &c) { return c.run.count == 1; });
        // Of straight code, or where loops vary, it leaves as soon as it is made, and has the time of the next iteration.
        plan_.straight = plan_.early && hot_ == nullptr && plan_.at_once;
    }
    std::vector<Channel> channels_of_result() const { return result_ ? result_->channels() : std::vector<Channel>(); }

    void rotate_tail() {
        if (plan_.rotate)
            result_->wait(before_stores_);
        else if (plan_.early && !plan_.straight)
            result_->wait(body_);
        stores_at_ = static_cast<ptrdiff_t>(body_.size());
        if (plan_.rotate) append_ops(parts_.tail, body_);
    }

    void start_residents() {
        events_ = loads_.take_planned(loop_.id);
        for (const Copy *copy : copies_.residents) loads_.start_resident(*copy, loop_, nest_.before, body_, hot_, events_);
    }

    // The transfers of the iteration go from inside the hot loop if that has time for them: a result first, unless it is
    // one transfer a pad, which starts as soon as the result is made.
    void collect_transfers() {
        for (const Node &node : parts_.tail)
            if (node.copy && !node.copy->load && plan_.stands_alone)
                first_tiles_.insert(first_tiles_.end(), node.copy->tiles.begin(), node.copy->tiles.end());
        for (const Channel &c : channels_of_result()) {
            if (plan_.at_once)
                first_tiles_.insert(first_tiles_.end(), c.run.group.begin(), c.run.group.end());
            else
                spread_.push_back({c, result_->pending(), 0, {}});
        }
        plan_.in_nest = hot_ != nullptr && has_loop(hot_->body) && loads_.start_in_nest(copies_.loads, *hot_);
        for (const Copy *copy : copies_.loads) {
            channels_of_loads_.push_back(code_.channels(*copy, plan_.streams   ? rounds_of(*copy, *hot_, parts_.head)
                                                               : plan_.in_nest ? split_rounds(copy->tiles)
                                                                               : groups_for(*copy, hot_)));
            for (const Channel &c : channels_of_loads_.back()) spread_.push_back({c, {}, 0, {}});
        }
        // What is short comes first: behind the last one the loop goes on for some iterations, in which the engines should have
        // much to move.
        if (plan_.streams)
            std::stable_sort(first_load(), spread_.end(), [](const SpreadTransfer &a, const SpreadTransfer &b) {
                return a.channel.copy->tiles.size() < b.channel.copy->tiles.size();
            });
    }
    std::vector<SpreadTransfer>::iterator first_load() { return std::ranges::find_if(spread_, is_load); }

    void decide_spread() {
        plan_.spreads = plan_.streams && can_spread(spread_, first_tiles_, *hot_, code_);
        plan_.direct = result_ && ((plan_.spreads && plan_.at_once) || plan_.straight);
    }

    void start_loads() {
        if (result_) result_->reset(plan_.direct, nest_.before);
        next_.wait_late =
            plan_.spreads && !transfers_end_early(kernel_, spread_, first_tiles_, *hot_) && !kernel_.takes(Choice::WaitEarly);
        for (size_t i = 0; i < copies_.loads.size(); i++) {
            const Reg more = loads_.start(*copies_.loads[i], channels_of_loads_[i], loop_, next_, nest_.before, body_, hot_,
                                          plan_.spreads || plan_.in_nest, result_.has_value(), events_);
            for (SpreadTransfer &t : spread_)
                if (t.channel.copy == copies_.loads[i]) t.go = more;
        }
        if (!plan_.in_nest) return;
        std::vector<SpreadTransfer> of_loads;
        std::copy_if(spread_.begin(), spread_.end(), std::back_inserter(of_loads), is_load);
        const auto [inner, turns] = loads_.loop_in_nest(of_loads, *hot_, result_.has_value());
        start_evenly_in_nest(kernel_, of_loads, turns, *inner, code_, body_);
    }

    // The slot just written and its address leave while the hot loop runs.
    void leave_from_hot_loop() {
        if (waits() && !plan_.spreads) result_->leave_in_groups(hot_);
        if (!events_.empty())
            first_event_ = start_evenly(kernel_, events_, result_ ? result_->iterations() : 0, *hot_, code_, body_);
        // Loads of a loop around may start here, too.
        const bool others_at_once = std::any_of(parts_.head.begin(), parts_.head.end(), [](const Node &node) {
            return node.op && info(node.op->opcode).unit == Unit::Sdma;
        });
        plan_.late = next_.at_once || (others_at_once && first_event_ > 1);
        // Or behind a hot loop that is over before what has started in front of it, where the one before has long left.
        // Otherwise that has the time up to the next stores.
        plan_.last =
            plan_.rotate && !plan_.direct && !plan_.spreads && next_.at_once && result_->is_lone() && is_over_soon(*hot_);
        if (!plan_.last)
            body_.insert(body_.begin() + stores_at_, std::make_move_iterator(before_stores_.begin()),
                         std::make_move_iterator(before_stores_.end()));
    }

    // What runs in front of the hot loop would leave the engines without work: the first group of a result starts before
    // it.
    void leave_from_head() {
        plan_.before_head = plan_.spreads && waits() && !parts_.head.empty() && spread_.front().channel.run.count > 2;
        if (!plan_.before_head) return;
        const std::vector<SpreadTransfer> of_result(spread_.begin(), first_load());
        Loop *const idle = transfers_bind(kernel_, spread_, first_tiles_, *hot_) ? idle_loop(parts_.head) : nullptr;
        const bool beside_head = idle != nullptr && can_spread(of_result, {}, *idle, code_);
        result_->aim_before(body_);
        if (beside_head) {
            // All of it leaves beside a loop in front, and the loads have the hot loop for themselves.
            spread(kernel_, of_result, {}, runs_, *idle, code_, body_);
            spread_.erase(spread_.begin(), spread_.begin() + static_cast<std::ptrdiff_t>(of_result.size()));
            return;
        }
        SpreadTransfer &first = spread_.front();
        If leaves{first.go, {}};
        code_.issue_step(first.channel, leaves.body);
        body_.push_back(std::move(leaves));
        first.groups = first.channel.run.count - 1;
        first_tiles_ = first.channel.run.group;
    }

    void start_result() {
        if (!waits()) return;
        if (!plan_.rotate && !plan_.early && !plan_.before_head) result_->wait(body_);
        if (plan_.rotate) result_->note(true, body_);
        if (plan_.spreads && !plan_.before_head)
            result_->aim_before(body_);
        else if (!plan_.spreads && !plan_.last && (!plan_.late || !result_->issue_late(hot_, first_event_, body_)))
            result_->issue_pending(hot_, body_);
    }

    void end_iteration() {
        if (plan_.last) {
            result_->wait(body_);
            result_->issue_pending(nullptr, body_);
        }
        if (plan_.rotate) return;
        append((plan_.stands_alone ? nest_.leaving : nest_.usual)(std::move(parts_.tail)), body_);
        if (plan_.straight)
            result_->start_behind(nest_.before, body_);
        else if (plan_.direct)
            result_->start_direct(body_);
        else if (result_)
            result_->note(false, body_);
    }

    // Once the nest is done.
    void make_last_result() {
        if (!waits()) return;
        if (plan_.rotate) {
            if (!plan_.last) result_->wait(nest_.after);
            append_ops(parts_.tail, nest_.after);
            if (plan_.last) result_->wait(nest_.after);
        }
        result_->start_last(plan_.rotate, nest_.after);
    }

    Kernel &kernel_;
    Rings &rings_;
    TransferCode &code_;
    LoadsAhead &loads_;
    Loop &loop_;
    RingLoopBody copies_;
    const NestRewriting &nest_;
    int64_t runs_ = 1;  // of the hot loop

    Parts parts_;
    Loop *hot_ = nullptr;
    Plan plan_;
    Body body_;
    std::optional<ResultTransfer> result_;
    Body before_stores_;       // waits for the result of the iteration before, which go
    ptrdiff_t stores_at_ = 0;  // here, or to the end
    std::vector<std::vector<Channel>> channels_of_loads_;
    std::vector<SpreadTransfer> spread_;  // transfers of the iteration, the result's first
    std::vector<Tile> first_tiles_;       // those that start in front of them
    LoadsAhead::NextIteration next_;
    std::vector<SpreadTransfer> events_;                         // that start evenly from inside the hot loop,
    int64_t first_event_ = std::numeric_limits<int64_t>::max();  // from this iteration on
};

}  // namespace

void overlap_ring_loop(const LoopTransfers &transfers, Loop &loop, RingLoopBody body, const NestRewriting &nest) {
    RingLoop(transfers, loop, std::move(body), nest).run();
}

}  // namespace atalla::codegen
