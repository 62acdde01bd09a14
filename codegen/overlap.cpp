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
#include "codegen/ring_loop.h"
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
        if (ahead_ && kernel_.machine->timed()) overlap_in_pairs(kernel_.body);
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
    // Where fewer iterations overlap, transfers start from more of them: the last ones run behind a loop.
    void overlap_in_pairs(Body &body) {
        for (Node &node : body) {
            if (node.branch) overlap_in_pairs(node.branch->body);
            if (!node.loop) continue;
            overlap_in_pairs(node.loop->body);
            if (!has_loop(node.loop->body) && most_stages_with_sides(*node.loop) > 2)
                node.loop->in_pairs = kernel_.takes(Choice::SidesInPairs);
        }
    }
    bool passes_through(const Copy &copy) const { return ahead_ && !computed_.count(copy.allocation); }

    // What leaves must have left before others write to the same place.
    void wait_for_passed(Body &out) {
        code_.wait(passed_, out);
        passed_.clear();
    }

    // ---- the tree

    // What a body has become so far.
    struct Rewritten {
        Body out;
        std::vector<Channel> started;  // transfers that nothing has waited for yet
        std::set<int> loaded;          // by the last loads that start together, which are
        size_t loads_begin = 0, loads_end = std::numeric_limits<size_t>::max();
    };

    // `before` and `after` collect what runs before and after the outermost loop of the nest that is being rewritten.
    // `leaving`: the body is a whole iteration of a loop, and takes the transfers of results that the next one waits for, not
    // this.
    Body rewrite(Body body, int loop, Body &before, Body &after, std::vector<Channel> *leaving = nullptr) {
        Rewritten made;
        std::vector<size_t> begins;  // of the nodes in what is made
        std::vector<Body> waits(body.size());
        std::vector<std::optional<size_t>> first_uses(body.size());
        for (size_t at = 0; leaving != nullptr && ahead_ && at < body.size(); at++)
            first_uses[at] = first_use_in_next(body, at);
        for (size_t at = 0; at < body.size(); at++) {
            Node &node = body[at];
            begins.push_back(made.out.size());
            Body waits_for_loads;  // behind what the nest starts itself
            waits_.before(node, made.started, made.out, loop < 0 && node.loop ? waits_for_loads : made.out);
            if (node.copy) {
                kept_.push_back(std::move(node.copy));
                const std::vector<Channel> channels = start(*kept_.back(), made);
                if (first_uses[at]) {
                    code_.wait(channels, waits[*first_uses[at]]);
                    leaving->insert(leaving->end(), channels.begin(), channels.end());
                } else {
                    made.started.insert(made.started.end(), channels.begin(), channels.end());
                }
            } else if (node.loop && loop < 0) {
                rewrite_nest(std::move(node), std::move(waits_for_loads), made.out);
            } else {
                if (node.loop) rewrite_loop(*node.loop, before, after);
                made.out.push_back(std::move(node));
            }
        }
        code_.wait(made.started, made.out);
        for (size_t at = begins.size(); at-- > 0;)
            made.out.insert(made.out.begin() + static_cast<std::ptrdiff_t>(begins[at]),
                            std::make_move_iterator(waits[at].begin()), std::make_move_iterator(waits[at].end()));
        return std::move(made.out);
    }

    // Returns the transfers that something has to wait for.
    std::vector<Channel> start(const Copy &copy, Rewritten &made) {
        Body &out = made.out;
        const auto brings_back = [&](const Channel &c) { return copy.load && c.copy->tensor == copy.tensor; };
        if (std::ranges::any_of(passed_, brings_back)) wait_for_passed(out);
        if (copy.first_of >= 0) {
            const Reg first = kernel_.scalar("first");
            out.push_back(binary(Opcode::sltu_s, first, kernel_.loops[copy.first_of].index, kernel_.constant(1)));
            If once{first, {}};
            code_.wait(code_.in_place(copy, once.body), once.body);
            out.push_back(std::move(once));
            return {};
        }
        if (passes_through(copy)) {
            const std::vector<Channel> channels = code_.pass_through(copy, out);
            if (!copy.load) passed_.insert(passed_.end(), channels.begin(), channels.end());
            return {};
        }
        Body code;
        std::vector<Channel> channels = code_.in_place(copy, code);
        // Loads that follow each other start together; those of one allocation may bring lanes of the same rows, in
        // their order.
        const bool follows = ahead_ && copy.load && made.loads_end == out.size() && !made.loaded.contains(copy.allocation);
        if (!follows) {
            made.loads_begin = out.size();
            made.loaded.clear();
        }
        made.loaded.insert(copy.allocation);
        append(std::move(code), out);
        if (follows) fuse_starts(out, made.loads_begin);
        if (copy.load) made.loads_end = out.size();
        return channels;
    }

    void rewrite_nest(Node nest, Body waits_for_loads, Body &out) {
        Body before, after;
        rewrite_loop(*nest.loop, before, after);
        Body starts = fuse_starts(std::move(before));
        // Behind another loop of transfers they find the constants made and the engines busy.
        if (!std::any_of(out.begin(), out.end(), loops_over_transfers)) starts = begin_at_once(kernel_, std::move(starts));
        append(std::move(starts), out);
        append(std::move(waits_for_loads), out);
        out.push_back(std::move(nest));
        append(std::move(after), out);
        wait_for_passed(out);
    }

    static bool loops_over_transfers(const Node &node) {
        return node.loop && std::any_of(node.loop->body.begin(), node.loop->body.end(), [](const Node &inner) {
                   return inner.op && info(inner.op->opcode).unit == Unit::Sdma;
               });
    }

    void rewrite_loop(Loop &loop, Body &before, Body &after) {
        chain_.push_back(loop.id);
        RingLoopBody body = take_copies(loop);
        if (body.has_copies()) {
            const NestRewriting nest{[&](Body part) { return rewrite(std::move(part), loop.id, before, after); },
                                     [&](Body part) { return rewrite_leaving(std::move(part), loop.id, before, after); },
                                     before, after};
            overlap_ring_loop({kernel_, rings_, code_, loads_, chain_}, loop, std::move(body), nest);
        } else {
            loop.body = rewrite_leaving(std::move(body.rest), loop.id, before, after);
        }
        chain_.pop_back();
    }

    // Those that start ahead of the iterations of this loop, or behind them.
    RingLoopBody take_copies(Loop &loop) {
        RingLoopBody body;
        for (Node &node : loop.body) {
            const bool stays = node.copy && loads_.stays(*node.copy, loop.id);
            const Ring *ring = node.copy ? rings_.of(node.copy->allocation) : nullptr;
            if (!stays && (ring == nullptr || ring->loop != loop.id)) {
                body.rest.push_back(std::move(node));
                continue;
            }
            kept_.push_back(std::move(node.copy));
            const Copy *const copy = kept_.back().get();
            if (copy->load) {
                (stays ? body.residents : body.loads).push_back(copy);
            } else {
                if (body.store != nullptr)
                    throw Error("cannot generate code: one loop writes more than one ring-buffered result");
                body.store = copy;
                body.store_at = body.rest.size();
            }
        }
        return body;
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
