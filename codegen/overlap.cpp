// Transfers ahead of and behind the computation. The hardware orders a transfer and the code that uses its data only through
// the base register that it keeps busy; everything here is about which register is waited for where.
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "codegen/early_loads.h"
#include "codegen/first_transfers.h"
#include "codegen/loads_ahead.h"
#include "codegen/loop_tree.h"
#include "codegen/modulo.h"
#include "codegen/passes.h"
#include "codegen/result_transfer.h"
#include "codegen/spread.h"
#include "codegen/stream.h"
#include "codegen/transfer_code.h"
#include "codegen/waits.h"
#include "isa/error.h"

namespace atalla::codegen {

namespace {

class Overlap {
public:
    Overlap(Kernel &kernel, bool ahead)
        : kernel_(kernel),
          ahead_(ahead),
          rings_(kernel, ahead),
          code_(kernel, rings_),
          waits_(kernel, ahead, rings_, code_),
          loads_(kernel, ahead, rings_, code_, chain_) {}

    void run() {
        if (ahead_) find_computed(kernel_.body);
        if (ahead_ && kernel_.machine->timed()) stream_copies(kernel_, code_);
        Body before, after;
        Body body = rewrite(std::move(kernel_.body), -1, before, after);
        kernel_.body = std::move(body);
    }

private:
    // ---- copies alone

    // Allocations that operations read or write. Others only pass data through: a transfer out of a pad waits for the one into
    // it because both need the pad's one engine, so nothing else has to wait.
    void find_computed(const Body &body) {
        for (const Node &node : body) {
            if (node.op && node.op->access) computed_.insert(node.op->access->allocation);
            if (node.loop) find_computed(node.loop->body);
            if (node.branch) find_computed(node.branch->body);
        }
    }
    bool passes_through(const Copy &copy) const { return ahead_ && !computed_.count(copy.allocation); }

    // What leaves must have left before others write to the same place.
    void wait_for_passed(Body &out) {
        code_.wait(passed_, out);
        passed_.clear();
    }

    // ---- the tree

    // `before` and `after` collect what runs before and after the outermost loop of the nest that is being rewritten.
    // `leaving`: the body is a whole iteration of a loop, and takes the transfers of results that the next one waits for, not
    // this.
    Body rewrite(Body body, int loop, Body &before, Body &after, std::vector<Channel> *leaving = nullptr) {
        Body out;
        std::vector<Channel> started;  // transfers that nothing has waited for yet
        std::vector<size_t> begins;    // of the nodes in `out`
        std::vector<Body> waits(body.size());
        std::vector<std::optional<size_t>> first_uses(body.size());
        for (size_t at = 0; leaving != nullptr && ahead_ && at < body.size(); at++)
            first_uses[at] = first_use_in_next(body, at);
        std::set<int> loaded;  // by loads that start together
        size_t loads_begin = 0, loads_end = std::numeric_limits<size_t>::max();
        for (size_t at = 0; at < body.size(); at++) {
            Node &node = body[at];
            begins.push_back(out.size());
            const std::optional<size_t> first_use = first_uses[at];
            Body waits_for_loads;  // behind what the nest starts itself
            waits_.before(node, started, out, loop < 0 && node.loop ? waits_for_loads : out);
            if (node.copy) {
                kept_.push_back(std::move(node.copy));
                const Copy &copy = *kept_.back();
                const auto brings_back = [&](const Channel &c) { return copy.load && c.copy->tensor == copy.tensor; };
                if (std::ranges::any_of(passed_, brings_back)) wait_for_passed(out);
                if (copy.first_of >= 0) {
                    const Reg first = kernel_.scalar("first");
                    out.push_back(binary(Opcode::sltu_s, first, kernel_.loops[copy.first_of].index, kernel_.constant(1)));
                    If once{first, {}};
                    code_.wait(code_.in_place(copy, once.body), once.body);
                    out.push_back(std::move(once));
                } else if (passes_through(copy)) {
                    const std::vector<Channel> channels = code_.pass_through(copy, out);
                    if (!copy.load) passed_.insert(passed_.end(), channels.begin(), channels.end());
                } else {
                    Body start;
                    const std::vector<Channel> channels = code_.in_place(copy, start);
                    // Loads that follow each other start together; those of one allocation may bring lanes of the same rows, in
                    // their order.
                    const bool follows =
                        ahead_ && copy.load && at > 0 && loads_end == out.size() && !loaded.contains(copy.allocation);
                    if (!follows) {
                        loads_begin = out.size();
                        loaded.clear();
                    }
                    loaded.insert(copy.allocation);
                    for (Node &n : start) out.push_back(std::move(n));
                    if (follows) fuse_starts(out, loads_begin);
                    if (copy.load) loads_end = out.size();
                    if (first_use) {
                        code_.wait(channels, waits[*first_use]);
                        leaving->insert(leaving->end(), channels.begin(), channels.end());
                    } else {
                        started.insert(started.end(), channels.begin(), channels.end());
                    }
                }
            } else if (node.loop) {
                Body outer_before, outer_after;
                Body &b = loop < 0 ? outer_before : before, &a = loop < 0 ? outer_after : after;
                rewrite_loop(*node.loop, b, a);
                if (loop < 0) {
                    Body starts = fuse_starts(std::move(outer_before));
                    // Behind another loop of transfers they find the constants made and the engines busy.
                    if (!std::any_of(out.begin(), out.end(), loops_over_transfers))
                        starts = begin_at_once(kernel_, std::move(starts));
                    for (Node &n : starts) out.push_back(std::move(n));
                    for (Node &n : waits_for_loads) out.push_back(std::move(n));
                }
                out.push_back(std::move(node));
                if (loop < 0) {
                    for (Node &n : outer_after) out.push_back(std::move(n));
                    wait_for_passed(out);
                }
            } else {
                out.push_back(std::move(node));
            }
        }
        code_.wait(started, out);
        for (size_t at = begins.size(); at-- > 0;)
            out.insert(out.begin() + static_cast<std::ptrdiff_t>(begins[at]), std::make_move_iterator(waits[at].begin()),
                       std::make_move_iterator(waits[at].end()));
        return out;
    }

    static bool loops_over_transfers(const Node &node) {
        return node.loop && std::any_of(node.loop->body.begin(), node.loop->body.end(), [](const Node &inner) {
                   return inner.op && info(inner.op->opcode).unit == Unit::Sdma;
               });
    }

    void rewrite_loop(Loop &loop, Body &before, Body &after) {
        chain_.push_back(loop.id);
        // Ring copies of this loop are taken out of its body; the rest is rewritten in place.
        std::vector<const Copy *> loads, stores, residents;
        Body rest;
        size_t longest_loop = 0, store_at = 0;
        int64_t most_operations = 0;
        for (Node &node : loop.body) {
            if (node.copy && loads_.stays(*node.copy, loop.id)) {
                kept_.push_back(std::move(node.copy));
                residents.push_back(kept_.back().get());
                continue;
            }
            const Ring *ring = node.copy ? rings_.of(node.copy->allocation) : nullptr;
            if (ring != nullptr && ring->loop == loop.id) {
                kept_.push_back(std::move(node.copy));
                if (kept_.back()->load) {
                    loads.push_back(kept_.back().get());
                } else {
                    stores.push_back(kept_.back().get());
                    store_at = rest.size();
                }
                continue;
            }
            if (node.loop && operations(*node.loop) >= most_operations) {
                longest_loop = rest.size();
                most_operations = operations(*node.loop);
            }
            rest.push_back(std::move(node));
        }
        if (loads.empty() && stores.empty() && residents.empty()) {
            loop.body = rewrite_leaving(std::move(rest), loop.id, before, after);
            chain_.pop_back();
            return;
        }
        const bool loops = has_loop(rest),
                   hot = loops &&
                         !has_varying_loop(kernel_, rest);  // transfers are counted out for loops that always run as often
        if (stores.size() > 1) throw Error("cannot generate code: one loop writes more than one ring-buffered result");
        rings_.use_slots(rest);

        // head | hot loop | tail, where the tail makes the result
        const size_t hot_at = hot ? longest_loop : rest.size();
        Body head, tail, hot_body;
        for (size_t i = 0; i < rest.size(); i++)
            (i < hot_at ? head : i == hot_at && hot ? hot_body : tail).push_back(std::move(rest[i]));
        // A result that is made in parts must be in one slot.
        const bool early = !stores.empty() && accesses(head, stores[0]->allocation);
        const bool rotate = hot && !stores.empty() && !early && !accesses(hot_body, stores[0]->allocation) &&
                            store_at > hot_at && !tail.empty() && can_rotate(tail, loop.id);
        // Results without a second slot leave from the tail, and it is the next one that waits for them.
        const bool stands_alone = std::none_of(tail.begin(), tail.end(), [&](const Node &node) {
            const auto apart = [&](const Node &other) {
                return !touches(other, node.copy->allocation) && !copies(other, node.copy->tensor, true);
            };
            return node.copy && !(std::ranges::all_of(head, apart) && std::ranges::all_of(hot_body, apart));
        });
        Loop *const hot_loop = hot ? hot_body.front().loop.get() : nullptr;
        const bool streams = hot && !rotate && !early && residents.empty() && !has_loop(hot_loop->body);

        Body body;
        std::optional<ResultTransfer> result;
        // Transfers of a pad that are not alike wait for each other where they start: they are rounds, which start one by one.
        const bool in_rounds = streams && !stores.empty() && shares_pads(stores[0]->tiles);
        if (!stores.empty())
            result.emplace(kernel_, rings_, code_, *stores[0],
                           in_rounds ? rounds_of(*stores[0], *hot_loop, head) : split_runs(stores[0]->tiles));
        const std::vector<Channel> results = result ? result->channels() : std::vector<Channel>();
        const bool at_once =
            !in_rounds && std::all_of(results.begin(), results.end(), [](const Channel &c) { return c.run.count == 1; });
        // Of straight code, or where loops vary, it leaves as soon as it is made, and has the time of the next iteration.
        const bool from_straight = early && !hot && at_once;
        Body before_stores;
        if (rotate || (early && !from_straight)) result->wait(rotate ? before_stores : body);
        const auto stores_at = static_cast<ptrdiff_t>(body.size());
        if (rotate) append_ops(tail, body);
        std::vector<SpreadTransfer> events = loads_.take_planned(loop.id);
        for (const Copy *copy : residents) loads_.start_resident(*copy, loop, before, body, hot_loop, events);
        // The transfers of the iteration go from inside the hot loop if that has time for them: a result first, unless it is
        // one transfer a pad, which starts as soon as the result is made.
        std::vector<SpreadTransfer> transfers;
        std::vector<Tile> first_tiles;
        for (const Node &node : tail)
            if (node.copy && !node.copy->load && stands_alone)
                first_tiles.insert(first_tiles.end(), node.copy->tiles.begin(), node.copy->tiles.end());
        for (const Channel &c : results) {
            if (at_once)
                first_tiles.insert(first_tiles.end(), c.run.group.begin(), c.run.group.end());
            else
                transfers.push_back({c, result->pending(), 0, {}});
        }
        std::vector<std::vector<Channel>> load_channels;
        const bool in_nest = hot && has_loop(hot_loop->body) && loads_.start_in_nest(loads, *hot_loop);
        for (const Copy *copy : loads) {
            load_channels.push_back(code_.channels(*copy, streams   ? rounds_of(*copy, *hot_loop, head)
                                                          : in_nest ? split_rounds(copy->tiles)
                                                                    : groups_for(*copy, hot_loop)));
            for (const Channel &c : load_channels.back()) transfers.push_back({c, {}, 0, {}});
        }
        // What is short comes first: behind the last one the loop goes on for some iterations, in which the engines should have
        // much to move.
        if (streams) {
            const auto first =
                std::find_if(transfers.begin(), transfers.end(), [](const SpreadTransfer &t) { return t.channel.copy->load; });
            std::stable_sort(first, transfers.end(), [](const SpreadTransfer &a, const SpreadTransfer &b) {
                return a.channel.copy->tiles.size() < b.channel.copy->tiles.size();
            });
        }
        const bool spreads = streams && can_spread(transfers, first_tiles, *hot_loop, code_);
        const bool direct = result && ((spreads && at_once) || from_straight);
        if (result) result->reset(direct, before);
        LoadsAhead::NextIteration next;
        next.wait_late = spreads && !transfers_end_early(kernel_, transfers, first_tiles, *hot_loop);
        for (size_t i = 0; i < loads.size(); i++) {
            const Reg more = loads_.start(*loads[i], load_channels[i], loop, next, before, body, hot_loop, spreads || in_nest,
                                          result.has_value(), events);
            for (SpreadTransfer &t : transfers)
                if (t.channel.copy == loads[i]) t.go = more;
        }
        if (in_nest) {
            std::vector<SpreadTransfer> of_loads;
            std::copy_if(transfers.begin(), transfers.end(), std::back_inserter(of_loads),
                         [](const SpreadTransfer &t) { return t.channel.copy->load; });
            const auto [inner, turns] = loads_.loop_in_nest(of_loads, *hot_loop, result.has_value());
            start_evenly_in_nest(kernel_, of_loads, turns, *inner, code_, body);
        }
        // The slot just written and its address leave while the hot loop runs.
        if (result && !direct && !spreads) result->leave_in_groups(hot_loop);
        const int64_t others = !events.empty()
                                   ? start_evenly(kernel_, events, result ? result->iterations() : 0, *hot_loop, code_, body)
                                   : std::numeric_limits<int64_t>::max();
        // Loads of a loop around may start here, too.
        const bool others_at_once = std::any_of(
            head.begin(), head.end(), [](const Node &node) { return node.op && info(node.op->opcode).unit == Unit::Sdma; });
        const bool leaves_late = next.at_once || (others_at_once && others > 1);
        // Or behind a hot loop that is over before what has started in front of it, where the one before has long left.
        // Otherwise that has the time up to the next stores.
        const bool leaves_last = rotate && !direct && !spreads && next.at_once && result->is_lone() && is_over_soon(*hot_loop);
        if (!leaves_last)
            body.insert(body.begin() + stores_at, std::make_move_iterator(before_stores.begin()),
                        std::make_move_iterator(before_stores.end()));
        // What runs in front of the hot loop would leave the engines without work: the first group of a result starts before
        // it.
        const bool before_head = spreads && result && !direct && !head.empty() && transfers.front().channel.run.count > 2;
        int64_t runs = 1;
        for (int id : chain_) runs *= kernel_.loops[id].extent;
        const std::vector<SpreadTransfer> of_result(
            transfers.begin(), std::ranges::find_if(transfers, [](const auto &t) { return t.channel.copy->load; }));
        Loop *const idle =
            before_head && transfers_bind(kernel_, transfers, first_tiles, *hot_loop) ? idle_loop(head) : nullptr;
        if (idle != nullptr && can_spread(of_result, {}, *idle, code_)) {
            // All of it leaves beside a loop in front, and the loads have the hot loop for themselves.
            result->aim_before(body);
            spread(kernel_, of_result, {}, runs, *idle, code_, body);
            transfers.erase(transfers.begin(), transfers.begin() + static_cast<std::ptrdiff_t>(of_result.size()));
        } else if (before_head) {
            result->aim_before(body);
            SpreadTransfer &first = transfers.front();
            If leaves{first.go, {}};
            code_.issue_step(first.channel, leaves.body);
            body.push_back(std::move(leaves));
            first.groups = first.channel.run.count - 1;
            first_tiles = first.channel.run.group;
        }
        for (Node &node : rewrite(std::move(head), loop.id, before, after)) body.push_back(std::move(node));
        if (result && !direct) {
            if (!rotate && !early && !before_head) result->wait(body);
            if (rotate) result->note(true, body);
            if (spreads && !before_head)
                result->aim_before(body);
            else if (!spreads && !leaves_last && (!leaves_late || !result->issue_late(hot_loop, others, body)))
                result->issue_pending(hot_loop, body);
        }
        if (spreads) spread(kernel_, transfers, first_tiles, runs, *hot_loop, code_, body);
        for (Node &node : rewrite(std::move(hot_body), loop.id, before, after)) body.push_back(std::move(node));
        if (leaves_last) {
            result->wait(body);
            result->issue_pending(nullptr, body);
        }
        if (!rotate) {
            Body behind = stands_alone ? rewrite_leaving(std::move(tail), loop.id, before, after)
                                       : rewrite(std::move(tail), loop.id, before, after);
            for (Node &node : behind) body.push_back(std::move(node));
            if (from_straight)
                result->start_behind(before, body);
            else if (direct)
                result->start_direct(body);
            else if (result)
                result->note(false, body);
        }
        loop.body = std::move(body);
        if (result && !direct) {
            // The last result, once the nest is done.
            if (rotate) {
                if (!leaves_last) result->wait(after);
                append_ops(tail, after);
                if (leaves_last) result->wait(after);
            }
            result->start_last(rotate, after);
        }
        chain_.pop_back();
    }

    // An iteration of a loop, or a part of it whose rows and tensors the rest does not touch: the next one waits for the
    // transfers of results.
    Body rewrite_leaving(Body body, int loop, Body &before, Body &after) {
        std::vector<Channel> leaving;
        Body out = rewrite(std::move(body), loop, before, after, &leaving);
        // None has started when the first iteration waits.
        for (const Channel &c : leaving)
            for (Reg r : c.pad)
                if (!kernel_.registers[r.id].constant) before.push_back(value_op(r, {0, {}}));
        code_.wait(leaving, after);
        return out;
    }

    static bool shares_pads(const std::vector<Tile> &tiles) {
        std::set<int> pads;
        return std::any_of(tiles.begin(), tiles.end(), [&](const Tile &tile) { return !pads.insert(tile.pad).second; });
    }
    // Operations can run at the start of the next iteration if nothing before them there changes what they use: no array, whose
    // weights may be other ones by then, and only rows of slots that change with this loop.
    bool can_rotate(const Body &tail, int loop) {
        return std::all_of(tail.begin(), tail.end(), [&](const Node &n) {
            if (!n.op || info(n.op->opcode).unit == Unit::Array) return false;
            if (!n.op->access) return true;
            const Ring *ring = rings_.of(n.op->access->allocation);
            return n.op->access->row.is_constant() && ring != nullptr && ring->loop == loop;
        });
    }
    // Is there only one iteration of a loop from inside which a result could leave?
    static bool is_over_soon(const Loop &hot) { return !has_loop(hot.body) && sure_iterations(hot) < 2; }
    // The longest of these loops, if nothing moves beside it.
    static Loop *idle_loop(const Body &body) {
        Loop *const longest = longest_loop(body);
        const auto moves = [](const Node &node) { return !node.op || node.op->side; };
        return longest != nullptr && std::ranges::none_of(longest->body, moves) ? longest : nullptr;
    }

    // ---- groups

    // Groups that are spread over the hot loop: one tile a pad, so that none waits for another, where it has iterations enough.
    // Runs of which some pads jump share a branch where the hot loop is all there is: in front of other code a longer run of a
    // result would begin.
    static std::vector<Run> rounds_of(const Copy &copy, const Loop &hot, const Body &head) {
        constexpr int64_t share = 4;
        const std::vector<Run> rounds = split_rounds(copy.tiles), apart = one_tile_a_pad(rounds);
        int64_t groups = 0;
        for (const Run &run : apart) groups += run.count;
        const std::vector<Run> &spread = share * groups <= sure_iterations(hot) ? apart : rounds;
        return head.empty() ? join_runs(spread) : spread;
    }

    // Groups that may start one by one from inside the hot loop are of one tile a pad.
    static std::vector<Run> groups_for(const Copy &copy, const Loop *hot) {
        const std::vector<Run> runs = split_runs(copy.tiles);
        const bool fewer = hot != nullptr && !has_loop(hot->body) &&
                           std::all_of(runs.begin(), runs.end(), [&](const Run &run) { return run.count < hot->extent; });
        return fewer ? join_runs_of_some_pads(one_tile_a_pad(runs)) : runs;
    }

    Kernel &kernel_;
    bool ahead_;
    Rings rings_;
    TransferCode code_;
    Waits waits_;
    std::vector<int> chain_;  // enclosing loops, outermost first
    LoadsAhead loads_;
    std::vector<std::unique_ptr<Copy>> kept_;
    std::set<int> computed_;
    std::vector<Channel> passed_;  // results on their way that nothing has waited for
};

}  // namespace

void overlap(Kernel &kernel, bool ahead) {
    Overlap(kernel, ahead).run();
    if (ahead) start_loads_before_fills(kernel);
}

}  // namespace atalla::codegen
