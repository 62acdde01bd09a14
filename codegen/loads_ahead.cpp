#include "codegen/loads_ahead.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "codegen/loop_tree.h"

namespace atalla::codegen {

Reg LoadsAhead::start(const Copy &copy, const std::vector<Channel> &channels, const Loop &loop, NextIteration &iteration,
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
            iteration.at_once = true;
        } else if (innermost) {
            // A constant number of groups in every iteration of the innermost loop, what does not divide at once.
            const int64_t per_iteration = c.run.count / hot_extent, at_once = c.run.count - per_iteration * hot_extent;
            code_.aim(c, true, next, Reg{}, at, body);
            code_.issue_steps(c, at_once, body);
            iteration.at_once = iteration.at_once || at_once > 0;
            Body groups;
            for (int64_t n = 0; n < per_iteration; n++) code_.issue_step(c, groups);
            hot->body.insert(hot->body.begin(), std::make_move_iterator(groups.begin()), std::make_move_iterator(groups.end()));
        } else {
            issue_between(c, at, next, more, loop, *hot, leaves, body);
        }
    }
    return more;
}

// Takes the transfers of an iteration for even starts from inside the hot loop, if they fit beside those that are there.
bool LoadsAhead::adds_event(const SpreadTransfer &transfer, const Loop &hot, std::vector<SpreadTransfer> &events) const {
    events.push_back(transfer);
    if (can_start_evenly(events, hot, code_)) return true;
    events.pop_back();
    return false;
}

bool LoadsAhead::stays(const Copy &copy, int loop) const {
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

void LoadsAhead::start_resident(const Copy &copy, const Loop &loop, Body &before, Body &body, Loop *hot,
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
bool LoadsAhead::moves_rings(const Loop &loop) const {
    return std::any_of(loop.body.begin(), loop.body.end(), [&](const Node &node) {
        const Ring *ring = node.copy ? rings_.of(node.copy->allocation) : nullptr;
        return ring != nullptr && ring->loop == loop.id;
    });
}

// Does a loop bring operands of its own ahead, so that the engines are busy all the time?
bool LoadsAhead::streams(const Loop &loop) const {
    return std::any_of(loop.body.begin(), loop.body.end(), [&](const Node &node) {
        if (!node.copy || !node.copy->load) return false;
        const Ring *ring = rings_.of(node.copy->allocation);
        return ring != nullptr && ring->loop == loop.id;
    });
}

std::pair<Loop *, int64_t> LoadsAhead::loop_in_nest(const std::vector<SpreadTransfer> &loads, Loop &hot, bool leaves) {
    const auto [last, turns] = innermost_of_nest(hot);
    if (last == nullptr) return {nullptr, 0};
    const Body &turn = loop_around_innermost(hot)->body;
    constexpr int64_t few_iterations = 12;
    leaves = leaves || std::ranges::any_of(turn, [](const Node &node) { return node.copy && !node.copy->load; });
    Loop *const other = loop_beside(turn, *last);
    return {
        leaves && last->extent <= few_iterations && other != nullptr && can_start_evenly_in_nest(loads, turns, *other, code_)
            ? other
            : last,
        turns};
}

bool LoadsAhead::start_in_nest(const std::vector<const Copy *> &loads, const Loop &hot) {
    std::vector<SpreadTransfer> rounds;
    for (const Copy *copy : loads)
        for (const Channel &c : code_.channels(*copy, split_rounds(copy->tiles))) rounds.push_back({c, {}, 0, {}});
    const auto [inner, turns] = innermost_of_nest(hot);
    return inner != nullptr && !streams(hot) && rounds.size() > loads.size() &&
           can_start_evenly_in_nest(rounds, turns, *inner, code_);
}

// How many groups of the next iteration's are to be started: none in the last one of the outermost loop.
Reg LoadsAhead::groups_left(const Channel &c, const Loop &loop, Body &body) {
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
bool LoadsAhead::plan_beside(const Channel &c, Reg left, const Loop &hot) {
    return fits_beside(c, hot) &&
           adds_event({c, {}, groups_an_iteration(c, hot), left}, *longest_loop(hot.body), planned_[hot.id]);
}

bool LoadsAhead::fits_beside(const Channel &c, const Loop &hot) const {
    const Loop *innermost = longest_loop(hot.body);
    if (innermost == nullptr || has_loop(innermost->body) || !moves_rings(hot)) return false;
    const int64_t groups = groups_an_iteration(c, hot);
    constexpr int64_t share = 4;
    return (groups == 1 || groups * hot.extent == c.run.count) && groups * share <= sure_iterations(*innermost);
}

int64_t LoadsAhead::groups_an_iteration(const Channel &c, const Loop &hot) {
    return (c.run.count + hot.extent - 1) / hot.extent;
}

bool LoadsAhead::goes_beside(const Channel &c, const std::map<int, Reg> &at, Reg next, const Loop &loop, const Loop &hot,
                             Body &body) {
    if (!fits_beside(c, hot) || kernel_.takes(Choice::StartAtOnce)) return false;
    Body aimed;
    code_.aim(c, true, next, Reg{}, at, aimed);
    if (!plan_beside(c, groups_left(c, loop, aimed), hot)) return false;
    for (Node &node : aimed) body.push_back(std::move(node));
    return true;
}

// The hot loop has loops of its own: groups go between them while any are left.
void LoadsAhead::issue_between(const Channel &c, const std::map<int, Reg> &at, Reg next, Reg more, const Loop &loop, Loop &hot,
                               bool leaves, Body &body) {
    constexpr int64_t most_groups = 2;
    code_.aim(c, true, next, Reg{}, at, body);
    if (c.run.count % hot.extent == 0 && c.run.count / hot.extent <= most_groups && !streams(hot)) {
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
    if (Loop *start = loop_in_nest(groups, hot, leaves).first;
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
    std::vector<Node> issues;
    for (int64_t n = 0; n < groups_an_iteration(c, hot); n++) {
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
Reg LoadsAhead::advance(const std::map<int, Reg> &at, Body &out) {
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

}  // namespace atalla::codegen
