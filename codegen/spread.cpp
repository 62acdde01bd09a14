#include "codegen/spread.h"

#include "codegen/modulo.h"

namespace atalla::codegen {

namespace {

// Code out of line: operations of a group, and what they may be at the most.
constexpr size_t most_side_operations = 40;

// The iterations in which a transfer's groups start.
struct Times {
    int64_t first = 0, distance = 0;
};

// Each gets its share of the iterations, by the tiles it moves. The last group is one distance before the end of its share.
std::vector<Times> times_of(const std::vector<SpreadTransfer> &transfers, int64_t first_tiles, const Loop &hot) {
    const int64_t iterations = hot.extent - (most_stages_with_sides - 1);
    int64_t all = first_tiles, before = first_tiles;
    for (const SpreadTransfer &t : transfers) all += t.channel.run.count * static_cast<int64_t>(t.channel.run.group.size());
    std::vector<Times> times;
    for (const SpreadTransfer &t : transfers) {
        const int64_t first = iterations * before / all;
        before += t.channel.run.count * static_cast<int64_t>(t.channel.run.group.size());
        times.push_back({first, (iterations * before / all - first) / t.channel.run.count});
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

}  // namespace

bool can_spread(const std::vector<SpreadTransfer> &transfers, int64_t first_tiles, const Loop &hot, const TransferCode &code) {
    if (transfers.empty()) return false;
    for (const SpreadTransfer &t : transfers) {
        Body group;
        code.issue_step(t.channel, group);
        if (group.size() > most_side_operations) return false;
    }
    for (const Times &times : times_of(transfers, first_tiles, hot))
        if (times.distance < 1) return false;
    return true;
}

void spread(Kernel &kernel, const std::vector<SpreadTransfer> &transfers, int64_t first_tiles, Loop &hot, const TransferCode &code, Body &body) {
    const std::vector<Times> times = times_of(transfers, first_tiles, hot);
    for (size_t i = 0; i < transfers.size(); i++) {
        const SpreadTransfer &t = transfers[i];
        // `due` counts up to 0, the iteration in which the next group starts.
        const std::string &name = kernel.allocations[t.channel.copy->allocation].name;
        const Reg due = kernel.scalar(name + "_due"), left = kernel.scalar(name + "_left");
        if (t.go.defined()) {
            const Reg never = kernel.scalar("never");
            body.push_back(value_op(never, {-1, {}}, {t.go}));
            body.push_back(shift_left(never, never, never_bits));
            body.push_back(value_op(due, {-times[i].first, {}}, {never}));
        } else {
            body.push_back(value_op(due, {-times[i].first, {}}));
        }
        Body group;
        code.issue_step(t.channel, group);
        if (t.channel.run.count > 1) {
            body.push_back(value_op(left, {t.channel.run.count - 2, {}}));
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

}  // namespace atalla::codegen
