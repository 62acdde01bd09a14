#include "codegen/result_transfer.h"

#include <algorithm>
#include <map>

#include "codegen/loop_tree.h"
#include "codegen/spread.h"

namespace atalla::codegen {

namespace {

// In which the engines are busy with what has just started.
constexpr int64_t busy_iterations = 2;

// Are there branches out of line that count on all iterations but one of a result?
bool counts_sides(const Loop &hot) {
    return std::any_of(hot.body.begin(), hot.body.end(),
                       [](const Node &node) { return node.op && node.op->side && node.op->opcode == Opcode::bne_s; });
}

}  // namespace

void append_ops(const Body &ops, Body &out) {
    for (const Node &node : ops) out.push_back(*node.op);
}

ResultTransfer::ResultTransfer(Kernel &kernel, Rings &rings, TransferCode &code, const Copy &copy, const std::vector<Run> &runs)
    : kernel_(kernel), rings_(rings), code_(code), copy_(copy), channels_(code.channels(copy, runs)) {
    const std::string &name = kernel.allocations[copy.allocation].name;
    armed_ = kernel.scalar(name + "_armed");
    pending_ = kernel.scalar(name + "_pending");
    memory_ = kernel.scalar(name + "_out");
    leaving_ = kernel.scalar(name + "_leaving");
    slot_ = kernel.scalar(name + "_made");
}

void ResultTransfer::leave_in_groups(Loop *hot) {
    const auto elements = [](const Channel &c) {
        int64_t sum = 0;
        for (const Tile &tile : c.run.group) sum += c.run.count * tile.rows * tile.cols;
        return sum;
    };
    constexpr int64_t least_share = 8;
    std::ranges::stable_sort(channels_, std::greater(), elements);
    if (hot == nullptr) return;
    const auto [inner, turns] = has_loop(hot->body) ? innermost_of_nest(*hot) : std::pair{hot, int64_t{1}};
    if (inner == nullptr || counts_sides(*inner)) return;
    by_turns_ = inner != hot;
    // Where the rows of a pad take two transfers, those of the second kind leave from another loop of a turn.
    const bool two_kinds = by_turns_ && channels_.size() > 1 && channels_[0].run.count == channels_[1].run.count;
    beside_ = two_kinds ? loop_beside(loop_around_innermost(*hot)->body, *inner) : nullptr;
    const size_t kinds = beside_ != nullptr && sure_iterations(*beside_) > 1 && !counts_sides(*beside_) ? 2 : 1;
    int64_t apart = 0, rest = 0;
    for (size_t i = 0; i < channels_.size(); i++) (i < kinds ? apart : rest) += elements(channels_[i]);
    const bool is_short =
        std::all_of(channels_.begin(), channels_.begin() + static_cast<ptrdiff_t>(kinds), [&](const Channel &c) {
            Body event;
            code_.issue_step(c, event);
            return event.size() < most_side_operations;
        });
    // The last group starts in the first half of the loop, or of its last turn, so that it has left when the next result is
    // made.
    const int64_t count = channels_.front().run.count;
    // Of turns fewer than groups each starts some of them, where there are no others.
    several_a_turn_ = by_turns_ && count > turns && kinds == 1;
    const bool in_time = by_turns_ && !several_a_turn_ ? count <= turns && sure_iterations(*inner) > 1
                                                       : 2 * count <= turns * sure_iterations(*inner);
    if (rest * least_share <= apart && is_short && in_time) groups_ = count;
    if (groups_ == 1 || kinds == 1) beside_ = nullptr;
    if (groups_ == 1) by_turns_ = several_a_turn_ = false;
}

void ResultTransfer::reset(bool direct, Body &before) const {
    before.push_back(value_op(current(), {rings_.first_byte(copy_.allocation), {}}));
    if (direct) return;
    for (Reg r : {armed_, pending_, memory_, leaving_, slot_}) before.push_back(value_op(r, {0, {}}));
    for (const Channel &c : channels_)
        for (Reg r : c.pad) before.push_back(value_op(r, {0, {}}));
}

void ResultTransfer::fence(Body &out) const { out.push_back(code_.fence(copy_.allocation)); }

void ResultTransfer::wait(Body &out) const { code_.wait(channels_, out); }

// Where this iteration's result goes; the next one goes to the other slot.
void ResultTransfer::remember(Body &out) const {
    LinearForm base = copy_.mem;
    base.constant = 0;
    out.push_back(value_op(memory_, base.scaled(2), {kernel_.tensors[copy_.tensor].base}));
    out.push_back(rings_.other_slot(copy_.allocation, current(), current()));
    out.push_back(value_op(armed_, {groups_, {}}));
}

void ResultTransfer::note(bool armed, Body &out) const {
    out.push_back(value_op(slot_, {0, {}}, {current()}));
    if (armed) {
        out.push_back(value_op(leaving_, {0, {}}, {memory_}));
        out.push_back(value_op(pending_, {0, {}}, {armed_}));
        remember(out);
    } else {
        remember(out);
        out.push_back(value_op(leaving_, {0, {}}, {memory_}));
        out.push_back(value_op(pending_, {groups_, {}}));
    }
}

void ResultTransfer::start_direct(Body &out) const {
    // Aiming waits for the result before the last one, whose slot is the next to be written.
    fence(out);
    for (const Channel &c : channels_) {
        code_.aim(c, false, current(), Reg{}, {}, out);
        code_.start_group(c, true, out);
    }
    out.push_back(rings_.other_slot(copy_.allocation, current(), current()));
}

void ResultTransfer::start_behind(Body &before, Body &out) const {
    for (const Channel &c : channels_)
        for (Reg r : c.pad) before.push_back(value_op(r, {0, {}}));
    constexpr bool late = true;
    code_.wait(channels_, out, late);
    start_direct(out);
}

void ResultTransfer::aim_before(Body &out) const {
    fence(out);
    for (const Channel &c : channels_) code_.aim(c, true, slot_, leaving_, {}, out);
}

void ResultTransfer::issue_pending(Loop *hot, Body &out) const {
    fence(out);
    if (groups_ > 1) {
        if (channels_.size() > (beside_ != nullptr ? 2 : 1)) {
            If leave{pending_, {}};
            for (size_t i = beside_ != nullptr ? 2 : 1; i < channels_.size(); i++) {
                code_.aim(channels_[i], channels_[i].run.count > 1, slot_, leaving_, {}, leave.body);
                code_.start_all(channels_[i], true, leave.body);
            }
            out.push_back(std::move(leave));
        }
        const Channel &c = channels_.front();
        code_.aim(c, true, slot_, leaving_, {}, out);
        if (several_a_turn_) {
            const auto [inner, turns] = innermost_of_nest(*hot);
            start_from(kernel_, {c, {}, groups_, pending_}, 1, turns * sure_iterations(*inner) / 2, *inner, false, code_, out);
            return;
        }
        if (by_turns_) {
            // Away from loads, which start in front of the innermost loop.
            Loop &around = *loop_around_innermost(*hot), &inner = *innermost_of(around);
            Body turn;
            start_late(kernel_, {c, {}, 1, pending_}, sure_iterations(inner) / 2, inner, code_, turn);
            if (beside_ != nullptr) {
                const Reg left = kernel_.scalar("left");
                code_.aim(channels_[1], true, slot_, leaving_, {}, out);
                out.push_back(value_op(left, {0, {}}, {pending_}));
                start_late(kernel_, {channels_[1], {}, 1, left}, sure_iterations(*beside_) / 2, *beside_, code_, turn);
            }
            around.body.insert(around.body.begin(), std::make_move_iterator(turn.begin()), std::make_move_iterator(turn.end()));
            return;
        }
        Body event;
        code_.issue_step(c, event);
        event.push_back(value_op(pending_, {-1, {}}, {pending_}));
        hot->body.push_back(side(pending_, event));
        return;
    }
    Body aims, issue;
    for (const Channel &c : channels_) {
        code_.aim(c, c.run.count > 1, slot_, leaving_, {}, aims);
        code_.start_all(c, true, issue);
    }
    issue.push_back(value_op(pending_, {0, {}}));
    if (hot == nullptr || has_loop(hot->body) || has_loop(issue) || issue.size() > most_side_operations) {
        If leave{pending_, std::move(aims)};
        for (Node &node : issue) leave.body.push_back(std::move(node));
        out.push_back(std::move(leave));
        return;
    }
    // Out of line are the starts alone: the transfers before have been waited for.
    append_ops(aims, out);
    if (const std::vector<Channel> rounds = in_rounds(*hot); rounds.size() > 1 && !counts_sides(*hot)) {
        start_rounds(rounds, 0, *hot, out);
        return;
    }
    // Other transfers that go from inside this loop wait until this one has: one start an iteration. Those that count the
    // same groups share their condition.
    std::map<int, Reg> conditions;
    for (Node &node : hot->body) {
        if (!node.op || !node.op->side || node.op->opcode != Opcode::bne_s) continue;
        const Reg left = node.op->src[0];
        Reg &go = conditions[left.id];
        if (!go.defined()) {
            const Reg idle = kernel_.scalar("idle");
            go = kernel_.scalar("go");
            out.push_back(value_op(idle, {-1, {}}, {pending_}));
            out.push_back(binary(Opcode::and_s, go, left, idle));
            issue.push_back(value_op(go, {0, {}}, {left}));
        }
        node.op->src[0] = go;
        node.op->dst = go;
        node.op->side->push_back(value_op(go, {0, {}}, {left}));
    }
    hot->body.push_back(side(pending_, issue));
}

bool ResultTransfer::issue_late(Loop *hot, int64_t others, Body &out) const {
    const int64_t first = others > 1 ? std::min(busy_iterations, others / 2) : busy_iterations;
    if (groups_ > 1 || hot == nullptr || has_loop(hot->body) || sure_iterations(*hot) < 2 || counts_sides(*hot)) return false;
    const std::vector<Channel> rounds = in_rounds(*hot);
    if (rounds.empty()) return false;
    aim_before(out);
    start_rounds(rounds, first, *hot, out);
    return true;
}

std::vector<Channel> ResultTransfer::in_rounds(const Loop &hot) const {
    // The code of another round comes from memory in each turn.
    constexpr int64_t many_iterations = 48;
    const bool apart = sure_iterations(hot) >= many_iterations;
    std::vector<Channel> rounds;
    size_t transfers = 0;
    for (const Channel &c : channels_) {
        if (c.run.count > 1) return {};
        for (size_t i = 0; i < c.pad.size(); i++, transfers++) {
            const auto has_pad = [&](const Tile &tile) { return apart && tile.pad == c.run.group[i].pad; };
            auto round = std::ranges::find_if(
                rounds, [&](const Channel &other) { return std::ranges::none_of(other.run.group, has_pad); });
            if (round == rounds.end()) round = rounds.insert(round, Channel{&copy_, {}, {}, {}, {}});
            round->run.group.push_back(c.run.group[i]);
            round->pad.push_back(c.pad[i]);
            round->mem.push_back(c.mem[i]);
            round->control.push_back(c.control[i]);
        }
    }
    return transfers > most_side_operations ? std::vector<Channel>{} : rounds;
}

void ResultTransfer::start_rounds(const std::vector<Channel> &rounds, int64_t first, Loop &hot, Body &out) const {
    for (const Channel &round : rounds) {
        start_late(kernel_, {round, pending_, 0, {}}, std::min(first, sure_iterations(hot) - 1), hot, code_, out);
        first += busy_iterations;
    }
}

void ResultTransfer::start_last(bool armed, Body &out) const {
    fence(out);
    for (const Channel &c : channels_) {
        code_.aim(c, c.run.count > 1, armed ? current() : slot_, memory_, {}, out);
        code_.start_all(c, true, out);
    }
}

}  // namespace atalla::codegen
