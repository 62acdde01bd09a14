#include "codegen/spread.h"

#include <algorithm>

#include "codegen/modulo.h"

namespace atalla::codegen {

namespace {

// Code out of line: operations of a group, and what they may be at the most.

// The iterations in which a transfer's groups start.
struct Times {
    int64_t first = 0, distance = 0;
    bool to_the_end = false;   // another group would start when the loop has ended
};

int64_t groups_of(const SpreadTransfer &transfer) { return transfer.groups > 0 ? transfer.groups : transfer.channel.run.count; }

// Each gets its share of the iterations, by the tiles it moves. The last group is one distance before the end of its share.
std::vector<Times> times_of(const std::vector<SpreadTransfer> &transfers, int64_t first_tiles, const Loop &hot) {
    const int64_t iterations = sure_iterations(hot);
    int64_t all = first_tiles, before = first_tiles;
    for (const SpreadTransfer &t : transfers) all += groups_of(t) * static_cast<int64_t>(t.channel.run.group.size());
    std::vector<Times> times;
    for (const SpreadTransfer &t : transfers) {
        const int64_t first = iterations * before / all;
        before += groups_of(t) * static_cast<int64_t>(t.channel.run.group.size());
        times.push_back({first, (iterations * before / all - first) / groups_of(t), false});
    }
    return times;
}

// One distance for the groups of all, up to the end of the loop, the first one later than the first iteration.
std::vector<Times> even_times(const std::vector<SpreadTransfer> &transfers, const Loop &hot) {
    int64_t all = 1;
    for (const SpreadTransfer &t : transfers) all += groups_of(t);
    // The last group starts one distance before the end, in an iteration that is sure to run.
    const int64_t unsure = hot.extent - sure_iterations(hot), distance = hot.extent / all > unsure ? hot.extent / all : sure_iterations(hot) / all;
    int64_t end = distance > unsure ? hot.extent : sure_iterations(hot);
    std::vector<Times> times(transfers.size());
    for (size_t i = transfers.size(); i-- > 0;) {
        times[i] = {end - groups_of(transfers[i]) * distance, distance, end == hot.extent};
        end = times[i].first;
    }
    return times;
}

Op shift_left(Reg dst, Reg from, int bits) {
    Op op;
    op.opcode = Opcode::slli_s;
    op.dst = dst;
    op.src = {from};
    op.imm = bits;
    return op;
}

// No loop has so many iterations.
constexpr int never_bits = 20;

bool all_fit(const std::vector<SpreadTransfer> &transfers, const std::vector<Times> &times, const TransferCode &code) {
    const auto is_short = [&](const SpreadTransfer &t) {
        Body group;
        code.issue_step(t.channel, group);
        return group.size() <= most_side_operations;
    };
    return !transfers.empty() && std::all_of(transfers.begin(), transfers.end(), is_short) && std::all_of(times.begin(), times.end(), [](const Times &t) { return t.distance >= 1; });
}

void start_at(Kernel &kernel, const std::vector<SpreadTransfer> &transfers, const std::vector<Times> &times, Loop &hot, const TransferCode &code, Body &body) {
    for (size_t i = 0; i < transfers.size(); i++) {
        const SpreadTransfer &t = transfers[i];
        // `due` counts up to 0, the iteration in which the next group starts.
        const std::string &name = kernel.allocations[t.channel.copy->allocation].name;
        const Reg due = kernel.scalar(name + "_due"), left = kernel.scalar(name + "_left");
        Reg go = t.go;
        if (t.left.defined()) {
            go = kernel.scalar("any");
            body.push_back(binary(Opcode::slt_s, go, zero_scalar, t.left));
        }
        if (go.defined()) {
            const Reg never = kernel.scalar("never");
            body.push_back(value_op(never, {-1, {}}, {go}));
            body.push_back(shift_left(never, never, never_bits));
            body.push_back(value_op(due, {-times[i].first, {}}, {never}));
        } else {
            body.push_back(value_op(due, {-times[i].first, {}}));
        }
        Body group;
        code.issue_step(t.channel, group);
        if (t.left.defined()) group.push_back(value_op(t.left, {-1, {}}, {t.left}));
        if (groups_of(t) > 1 && times[i].to_the_end) {
            group.push_back(value_op(due, {1 - times[i].distance, {}}));
        } else if (groups_of(t) > 1) {
            body.push_back(value_op(left, {groups_of(t) - 2, {}}));
            // Below zero after the last but one: then never again.
            const Reg more = kernel.scalar("more");
            Op sign;
            sign.opcode = Opcode::srai_s;
            sign.dst = more;
            sign.src = {left};
            sign.imm = 31;
            group.push_back(sign);
            group.push_back(shift_left(more, more, never_bits));
            group.push_back(value_op(left, {-1, {}}, {left}));
            group.push_back(value_op(due, {1 - times[i].distance, {}}, {more}));
        }
        Op branch = side(due, group);
        branch.opcode = Opcode::beq_s;
        branch.aux = 1;
        hot.body.push_back(std::move(branch));
    }
}

}  // namespace

int64_t sure_iterations(const Loop &hot) { return hot.extent - (most_stages_with_sides(hot) - 1); }

bool can_spread(const std::vector<SpreadTransfer> &transfers, int64_t first_tiles, const Loop &hot, const TransferCode &code) {
    return all_fit(transfers, times_of(transfers, first_tiles, hot), code);
}

void spread(Kernel &kernel, const std::vector<SpreadTransfer> &transfers, int64_t first_tiles, Loop &hot, const TransferCode &code, Body &body) {
    start_at(kernel, transfers, times_of(transfers, first_tiles, hot), hot, code, body);
}

bool can_start_evenly(const std::vector<SpreadTransfer> &transfers, const Loop &hot, const TransferCode &code) {
    return all_fit(transfers, even_times(transfers, hot), code);
}

void start_evenly(Kernel &kernel, const std::vector<SpreadTransfer> &transfers, Loop &hot, const TransferCode &code, Body &body) {
    start_at(kernel, transfers, even_times(transfers, hot), hot, code, body);
}

}  // namespace atalla::codegen
