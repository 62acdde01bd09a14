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
        : kernel_(kernel), ahead_(ahead), rings_(kernel, ahead), code_(kernel, rings_), waits_(kernel, ahead, rings_, code_) {}

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
    static constexpr int64_t most_groups_between = 2;

    void rewrite_loop(Loop &loop, Body &before, Body &after) {
        chain_.push_back(loop.id);
        // Ring copies of this loop are taken out of its body; the rest is rewritten in place.
        std::vector<const Copy *> loads, stores, residents;
        Body rest;
        size_t longest_loop = 0, store_at = 0;
        int64_t most_operations = 0;
        for (Node &node : loop.body) {
            if (node.copy && stays(*node.copy, loop.id)) {
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
        std::vector<SpreadTransfer> events = std::move(planned_[loop.id]);
        for (const Copy *copy : residents) start_resident(*copy, loop, before, body, hot_loop, events);
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
        const bool in_nest = hot && has_loop(hot_loop->body) && loads_start_in_nest(loads, *hot_loop);
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
        loads_at_once_ = false;
        NextIteration next;
        next.wait_late = spreads && !transfers_end_early(kernel_, transfers, first_tiles, *hot_loop);
        for (size_t i = 0; i < loads.size(); i++) {
            const Reg more = start_load(*loads[i], load_channels[i], loop, next, before, body, hot_loop, spreads || in_nest,
                                        result.has_value(), events);
            for (SpreadTransfer &t : transfers)
                if (t.channel.copy == loads[i]) t.go = more;
        }
        if (in_nest) {
            std::vector<SpreadTransfer> of_loads;
            std::copy_if(transfers.begin(), transfers.end(), std::back_inserter(of_loads),
                         [](const SpreadTransfer &t) { return t.channel.copy->load; });
            const auto [inner, turns] = loop_of_loads(of_loads, *hot_loop, result.has_value());
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
        const bool leaves_late = loads_at_once_ || (others_at_once && others > 1);
        // Or behind a hot loop that is over before what has started in front of it, where the one before has long left.
        // Otherwise that has the time up to the next stores.
        const bool leaves_last =
            rotate && !direct && !spreads && loads_at_once_ && result->is_lone() && is_over_soon(*hot_loop);
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

    // ---- loads ahead

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

    // The iteration that loads of a loop bring operands for: its indices, and 1 if there is one, 0 if not.
    struct NextIteration {
        std::map<int, Reg> at;
        Reg more;
        bool wait_late = false;  // for what this one needs
    };

    // With `spreads` the transfers are only aimed. What is returned is 1 if another iteration follows, 0 if not. The first load
    // makes what all share of it.
    Reg start_load(const Copy &copy, const std::vector<Channel> &channels, const Loop &loop, NextIteration &iteration,
                   Body &before, Body &body, Loop *hot, bool spreads, bool leaves, std::vector<SpreadTransfer> &events) {
        const std::string &name = kernel_.allocations[copy.allocation].name;
        const Reg current = rings_.slot(copy.allocation), next = kernel_.scalar(name + "_next");
        std::map<int, Reg> &at = iteration.at;
        const bool first = at.empty();

        // Before the nest: everything of the first iteration.
        for (int id : chain_)
            if (first) before.push_back(value_op(at[id] = kernel_.scalar(name + "_at"), {0, {}}));
        before.push_back(value_op(next, {rings_.first_byte(copy.allocation), {}}));
        before.push_back(value_op(current, {rings_.first_byte(copy.allocation) + rings_.slot_bytes(copy.allocation), {}}));
        for (const Channel &c : channels) {
            code_.aim(c, c.run.count > 1, next, Reg{}, at, before);
            code_.start_all(c, false, before);
        }
        // In the body: wait, change slots, aim at the next iteration.
        code_.wait(channels, body, iteration.wait_late);
        body.push_back(value_op(current, {0, {}}, {next}));
        body.push_back(rings_.other_slot(copy.allocation, next, current));
        if (first) iteration.more = advance(at, body);
        const Reg more = iteration.more;
        if (spreads) {
            for (const Channel &c : channels) code_.aim(c, true, next, Reg{}, at, body);
            return more;
        }
        const int64_t hot_extent = hot != nullptr ? hot->extent : 0;
        const bool innermost = hot != nullptr && !has_loop(hot->body);
        for (size_t i = 0; i < channels.size(); i++) {
            const Channel &c = channels[i];
            if (innermost && c.run.count < hot_extent && adds_event({c, {}, 0, {}}, *hot, events)) {
                code_.aim(c, true, next, Reg{}, at, body);
            } else if (hot != nullptr && !innermost && i > 0 && goes_beside(c, at, next, loop, *hot, body)) {
                continue;
            } else if (i > 0 || hot == nullptr) {
                code_.aim(c, c.run.count > 1, next, Reg{}, at, body);
                code_.start_all(c, true, body);
                loads_at_once_ = true;
            } else if (innermost) {
                // A constant number of groups in every iteration of the innermost loop, what does not divide at once.
                const int64_t per_iteration = c.run.count / hot_extent, at_once = c.run.count - per_iteration * hot_extent;
                code_.aim(c, true, next, Reg{}, at, body);
                code_.issue_steps(c, at_once, body);
                loads_at_once_ = loads_at_once_ || at_once > 0;
                Body groups;
                for (int64_t n = 0; n < per_iteration; n++) code_.issue_step(c, groups);
                hot->body.insert(hot->body.begin(), std::make_move_iterator(groups.begin()),
                                 std::make_move_iterator(groups.end()));
            } else {
                issue_between(c, at, next, more, loop, *hot, leaves, body);
            }
        }
        return more;
    }

    // Takes the transfers of an iteration for even starts from inside the hot loop, if they fit beside those that are there.
    bool adds_event(const SpreadTransfer &transfer, const Loop &hot, std::vector<SpreadTransfer> &events) const {
        events.push_back(transfer);
        if (can_start_evenly(events, hot, code_)) return true;
        events.pop_back();
        return false;
    }

    // ---- loads that stay

    // A load that runs in the first iteration of the outer loop only, each part in another place: what it brings stays.
    bool stays(const Copy &copy, int loop) const {
        if (!ahead_ || !copy.load || copy.first_of < 0 || chain_.size() != 2 || chain_[0] != copy.first_of ||
            kernel_.loops[loop].varies() || split_rounds(copy.tiles).size() != 1)
            return false;
        const auto only_this = [&](const LinearForm &form) {
            return std::all_of(form.terms.begin(), form.terms.end(),
                               [&](const auto &term) { return kernel_.atoms[term.first].loop == loop; });
        };
        return copy.pad_row.terms.size() == 1 && kernel_.atoms[copy.pad_row.terms.begin()->first].is_loop &&
               only_this(copy.pad_row) && only_this(copy.mem);
    }

    void start_resident(const Copy &copy, const Loop &loop, Body &before, Body &body, Loop *hot,
                        std::vector<SpreadTransfer> &events) {
        const std::string &name = kernel_.allocations[copy.allocation].name;
        const Reg index = kernel_.scalar(name + "_at"), more = kernel_.scalar(name + "_more"),
                  left = kernel_.scalar(name + "_left");
        const Channel c = code_.channel(copy, split_rounds(copy.tiles).front());
        const std::map<int, Reg> at = {{loop.id, index}};
        before.push_back(value_op(index, {0, {}}));
        before.push_back(value_op(more, {loop.extent - 1, {}}));
        code_.aim(c, c.run.count > 1, Reg{}, Reg{}, at, before);
        code_.start_all(c, false, before);
        // One tile ahead while there are any.
        code_.wait({c}, body);
        const Reg any = kernel_.scalar("any"), keep = kernel_.scalar("keep");
        body.push_back(binary(Opcode::slt_s, any, zero_scalar, more));
        body.push_back(binary(Opcode::add_s, index, index, any));
        body.push_back(binary(Opcode::sub_s, more, more, any));
        code_.aim(c, true, Reg{}, Reg{}, at, body);
        if (hot != nullptr && !has_loop(hot->body) && adds_event({c, any, 0, {}}, *hot, events)) return;
        body.push_back(binary(Opcode::sub_s, keep, zero_scalar, any));
        body.push_back(binary(Opcode::and_s, left, keep, kernel_.constant(static_cast<int32_t>(c.run.count))));
        if (hot != nullptr && !has_loop(hot->body)) {
            // A group an event, and as many events an iteration as that takes; one iteration is left for a result.
            Body event;
            code_.issue_step(c, event);
            event.push_back(value_op(left, {-1, {}}, {left}));
            const int64_t iterations = sure_iterations(*hot) - 1,
                          events = iterations > 0 ? (c.run.count + iterations - 1) / iterations : 0;
            constexpr int64_t most_events = 4;
            if (event.size() <= most_side_operations && events > 0 && events <= most_events) {
                for (int64_t e = 0; e < events; e++) hot->body.push_back(side(left, event));
                return;
            }
        }
        If rest{left, {}};
        code_.issue_steps(c, c.run.count, rest.body);
        body.push_back(std::move(rest));
    }

    // Has a loop transfers of its own beside its hot loop, where others can join them?
    bool moves_rings(const Loop &loop) {
        return std::any_of(loop.body.begin(), loop.body.end(), [&](const Node &node) {
            const Ring *ring = node.copy ? rings_.of(node.copy->allocation) : nullptr;
            return ring != nullptr && ring->loop == loop.id;
        });
    }

    // Does a loop bring operands of its own ahead, so that the engines are busy all the time?
    bool streams(const Loop &loop) {
        return std::any_of(loop.body.begin(), loop.body.end(), [&](const Node &node) {
            if (!node.copy || !node.copy->load) return false;
            const Ring *ring = rings_.of(node.copy->allocation);
            return ring != nullptr && ring->loop == loop.id;
        });
    }

    // The loop that loads start from, one by one, inside a nest, and how many turns of it there are. Where a result leaves from
    // the last one of a turn, which is short, it is another one: the engines would still be busy in the same loop.
    std::pair<Loop *, int64_t> loop_of_loads(const std::vector<SpreadTransfer> &loads, Loop &hot, bool leaves) {
        const auto [last, turns] = innermost_of_nest(hot);
        if (last == nullptr) return {nullptr, 0};
        const Body &turn = loop_around_innermost(hot)->body;
        constexpr int64_t few_iterations = 12;
        leaves = leaves || std::ranges::any_of(turn, [](const Node &node) { return node.copy && !node.copy->load; });
        Loop *const other = loop_beside(turn, *last);
        return {leaves && last->extent <= few_iterations && other != nullptr &&
                        can_start_evenly_in_nest(loads, turns, *other, code_)
                    ? other
                    : last,
                turns};
    }

    // Do loads of which one has several rounds of the pads start one by one from inside a nest? All but the first would start
    // at once.
    bool loads_start_in_nest(const std::vector<const Copy *> &loads, const Loop &hot) {
        std::vector<SpreadTransfer> rounds;
        for (const Copy *copy : loads)
            for (const Channel &c : code_.channels(*copy, split_rounds(copy->tiles))) rounds.push_back({c, {}, 0, {}});
        const auto [inner, turns] = innermost_of_nest(hot);
        return inner != nullptr && !streams(hot) && rounds.size() > loads.size() &&
               can_start_evenly_in_nest(rounds, turns, *inner, code_);
    }

    // How many groups of the next iteration's are to be started: none in the last one of the outermost loop.
    Reg groups_left(const Channel &c, const Loop &loop, Body &body) {
        const Reg left = kernel_.scalar(kernel_.allocations[c.copy->allocation].name + "_left");
        if (chain_.size() > 1) {
            body.push_back(value_op(left, {c.run.count, {}}));
            return left;
        }
        const Reg more = kernel_.scalar("more");
        body.push_back(
            binary(Opcode::slt_s, more, kernel_.loops[loop.id].index, kernel_.constant(static_cast<int32_t>(loop.extent - 1))));
        body.push_back(binary(Opcode::sub_s, more, zero_scalar, more));
        body.push_back(binary(Opcode::and_s, left, more, kernel_.constant(static_cast<int32_t>(c.run.count))));
        return left;
    }

    // Some groups in every iteration of the hot loop, from inside its innermost one and beside its own transfers, if they fit
    // there.
    bool plan_beside(const Channel &c, Reg left, const Loop &hot) {
        const Loop *innermost = longest_loop(hot.body);
        if (innermost == nullptr || has_loop(innermost->body) || !moves_rings(hot)) return false;
        const int64_t groups = (c.run.count + hot.extent - 1) / hot.extent;
        constexpr int64_t share = 4;
        return (groups == 1 || groups * hot.extent == c.run.count) && groups * share <= sure_iterations(*innermost) &&
               adds_event({c, {}, groups, left}, *innermost, planned_[hot.id]);
    }
    bool goes_beside(const Channel &c, const std::map<int, Reg> &at, Reg next, const Loop &loop, const Loop &hot, Body &body) {
        Body aimed;
        code_.aim(c, true, next, Reg{}, at, aimed);
        const Reg left = groups_left(c, loop, aimed);
        if (!plan_beside(c, left, hot)) return false;
        for (Node &node : aimed) body.push_back(std::move(node));
        return true;
    }

    // The hot loop has loops of its own: groups go between them while any are left.
    void issue_between(const Channel &c, const std::map<int, Reg> &at, Reg next, Reg more, const Loop &loop, Loop &hot,
                       bool leaves, Body &body) {
        code_.aim(c, true, next, Reg{}, at, body);
        if (c.run.count % hot.extent == 0 && c.run.count / hot.extent <= most_groups_between && !streams(hot)) {
            // The same number in every iteration. The last block brings the first one once more, to the slot that is free.
            Body groups;
            for (int64_t n = 0; n < c.run.count / hot.extent; n++) code_.issue_step(c, groups);
            for (Node &node : groups) node.op->early = info(node.op->opcode).unit == Unit::Sdma;
            hot.body.insert(hot.body.begin(), std::make_move_iterator(groups.begin()), std::make_move_iterator(groups.end()));
            return;
        }
        size_t at_node = hot.body.size();
        for (size_t i = 0; i < hot.body.size(); i++)
            if (hot.body[i].loop) at_node = i;
        const auto [inner, turns] = innermost_of_nest(hot);
        // At a distance from each other, so that no group waits for the one before.
        const std::vector<SpreadTransfer> groups = {{c, more, 0, {}}};
        if (Loop *start = loop_of_loads(groups, hot, leaves).first;
            start != nullptr && !streams(hot) && start_evenly_in_nest(kernel_, groups, turns, *start, code_, body))
            return;
        const Reg left = groups_left(c, loop, body);
        if (streams(hot) && plan_beside(c, left, hot)) return;
        Body one;
        code_.issue_step(c, one);
        one.push_back(value_op(left, {-1, {}}, {left}));
        if (inner != nullptr && turns * (sure_iterations(*inner) - 1) >= c.run.count &&  // one iteration is for a result
            one.size() <= most_side_operations) {
            inner->body.push_back(side(left, one));
            return;
        }
        const int64_t per_iteration = (c.run.count + hot.extent - 1) / hot.extent;
        std::vector<Node> issues;
        for (int64_t n = 0; n < per_iteration; n++) {
            If issue{left, {}};
            code_.issue_step(c, issue.body);
            issue.body.push_back(value_op(left, {-1, {}}, {left}));
            issues.push_back(Node(std::move(issue)));
        }
        hot.body.insert(hot.body.begin() + static_cast<std::ptrdiff_t>(at_node), std::make_move_iterator(issues.begin()),
                        std::make_move_iterator(issues.end()));
    }

    // The indices of the iteration after, innermost first, wrapping to the start of the nest at its end. Returns 1, at the end
    // 0.
    Reg advance(const std::map<int, Reg> &at, Body &out) {
        Reg carry = kernel_.constant(1), inside;
        for (size_t i = chain_.size(); i-- > 0;) {
            const LoopInfo &loop = kernel_.loops[chain_[i]];
            const Reg index = at.at(chain_[i]), keep = kernel_.scalar("keep");
            inside = kernel_.scalar("inside");
            out.push_back(binary(Opcode::add_s, index, index, carry));
            if (loop.varies()) {
                // How often it runs is that of this turn: only its last iteration looks ahead to the next one.
                const Reg behind = kernel_.scalar("behind");
                out.push_back(binary(Opcode::slt_s, behind, loop.last, index));
                out.push_back(binary(Opcode::xor_s, inside, behind, kernel_.constant(1)));
            } else {
                out.push_back(binary(Opcode::slt_s, inside, index, kernel_.constant(static_cast<int32_t>(loop.extent))));
            }
            out.push_back(binary(Opcode::sub_s, keep, zero_scalar, inside));
            out.push_back(binary(Opcode::and_s, index, index, keep));
            if (i > 0) {
                carry = kernel_.scalar("carry");
                out.push_back(binary(Opcode::xor_s, carry, inside, kernel_.constant(1)));
            }
        }
        return inside;
    }

    Kernel &kernel_;
    bool ahead_;
    Rings rings_;
    TransferCode code_;
    Waits waits_;
    std::vector<int> chain_;  // enclosing loops, outermost first
    std::vector<std::unique_ptr<Copy>> kept_;
    std::map<int, std::vector<SpreadTransfer>> planned_;  // by loop: transfers of loops around it that start from its hot loop
    std::set<int> computed_;
    bool loads_at_once_ = false;   // the loop that is rewritten starts loads in front of its hot loop
    std::vector<Channel> passed_;  // results on their way that nothing has waited for
};

}  // namespace

void overlap(Kernel &kernel, bool ahead) {
    Overlap(kernel, ahead).run();
    if (ahead) start_loads_before_fills(kernel);
}

}  // namespace atalla::codegen
