#include "codegen/spread.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>

#include "codegen/idle_stages.h"
#include "codegen/modulo.h"
#include "codegen/resources.h"
#include "isa/vectors.h"

namespace atalla::codegen {

namespace {

// The iterations in which a transfer's groups start: evenly over `span` iterations from the first one on.
struct Times {
    int64_t first = 0, span = 0;
    bool to_the_end = false;  // another group would start when the loop has ended
};

int64_t groups_of(const SpreadTransfer &transfer) { return transfer.groups > 0 ? transfer.groups : transfer.channel.run.count; }

// Groups of transfers, by the transfers that they belong to, in the order in which they should start: of each copy the one
// whose pads have had none for the longest, so that it does not wait for the one before.
std::vector<size_t> groups_in_turn(const std::vector<SpreadTransfer> &transfers) {
    std::vector<size_t> order;
    for (size_t first = 0, end = 0; first < transfers.size(); first = end) {
        while (end < transfers.size() && transfers[end].channel.copy == transfers[first].channel.copy) end++;
        std::map<int, int64_t> started;  // by pad: the last group, counted from 1
        std::vector<int64_t> left(transfers.size(), 0);
        int64_t all = 0;
        for (size_t t = first; t < end; t++) all += left[t] = groups_of(transfers[t]);
        for (int64_t group = 1; group <= all; group++) {
            const auto last_of_pads = [&](size_t t) {
                int64_t last = 0;
                for (const Tile &tile : transfers[t].channel.run.group) last = std::max(last, started[tile.pad]);
                return last;
            };
            size_t next = end;
            for (size_t t = first; t < end; t++)
                if (left[t] > 0 && (next == end || last_of_pads(t) < last_of_pads(next))) next = t;
            for (const Tile &tile : transfers[next].channel.run.group) started[tile.pad] = group;
            left[next]--;
            order.push_back(next);
        }
    }
    return order;
}

// Each gets its share of the iterations, by the tiles it moves. The last group is one distance before the end of its share.
std::vector<Times> times_of(const std::vector<SpreadTransfer> &transfers, int64_t first_tiles, const Loop &hot) {
    const int64_t iterations = sure_iterations(hot);
    const std::vector<size_t> order = groups_in_turn(transfers);
    const auto tiles = [&](size_t t) { return static_cast<int64_t>(transfers[t].channel.run.group.size()); };
    int64_t all = first_tiles, before = first_tiles;
    for (size_t t : order) all += tiles(t);
    std::vector<std::vector<int64_t>> starts(transfers.size());  // in tiles
    for (size_t t : order) {
        starts[t].push_back(before);
        before += tiles(t);
    }
    std::vector<Times> times;
    for (size_t t = 0; t < transfers.size(); t++) {
        const auto groups = static_cast<int64_t>(starts[t].size());
        const int64_t distance = groups > 1 ? (starts[t].back() - starts[t].front()) / (groups - 1) : tiles(t);
        // As many distances as there are groups, behind the last one, too.
        const int64_t first = iterations * starts[t].front() / all,
                      span = iterations * (starts[t].back() + distance) / all - first;
        // The last one starts in an iteration that there is.
        times.push_back({first, groups > 1 ? std::min(span, (iterations - 1 - first) * groups / (groups - 1)) : span, false});
    }
    return times;
}

// The cycles of an iteration.
int64_t interval_of(const Kernel &kernel, const Loop &hot) {
    std::vector<Op> iteration;
    for (const Node &node : hot.body)
        if (node.op) iteration.push_back(*node.op);
    return std::max(1, resource_bound(kernel, iteration));
}

// Is the second one a load that ends sooner than engines begin, behind several groups of a result? For its engine the code
// stands still until the result has left: in front of the last group it does so while there is more to move, and what is left
// of the loop runs beside that.
bool in_front_of_last_result(const Kernel &kernel, const std::vector<SpreadTransfer> &transfers) {
    return transfers.size() > 1 && !transfers[0].channel.copy->load && groups_of(transfers[0]) > 1 &&
           transfers[1].channel.copy->load && groups_of(transfers[1]) == 1 &&
           beats_of(transfers[1].channel.run.group, *kernel.machine) <
               kernel.machine->sdma.setup + kernel.machine->dram.complete;
}

// The same, but a lone group starts later where the code, which stands still until the engines are free, would then end behind
// the transfers: as late as the rest of the loop takes no longer than they do, though not later than the engines are free.
// `front`: the cycles from the first tiles to the first iteration; the hot loop runs so many times.
std::vector<Times> late_times_of(const Kernel &kernel, const std::vector<SpreadTransfer> &transfers,
                                 const std::vector<Tile> &first_tiles, int64_t front, int64_t runs, const Loop &hot) {
    const int64_t sure = sure_iterations(hot), interval = interval_of(kernel, hot);
    // Where no stages run idle, the first iterations begin in front of the loop.
    const auto cycles = static_cast<double>(interval);
    const bool idles = may_idle(kernel, hot) && idling_pays(*kernel.machine, cycles, static_cast<double>(runs), cycles);
    const int64_t all = idles ? 2 * hot.extent - sure : hot.extent, in_front = idles ? 0 : hot.extent - sure;
    std::vector<Times> times = times_of(transfers, static_cast<int64_t>(first_tiles.size()), hot);
    int64_t left = 0, before = beats_of(first_tiles, *kernel.machine) + kernel.machine->sdma.setup;
    for (const SpreadTransfer &t : transfers) left += groups_of(t) * beats_of(t.channel.run.group, *kernel.machine);
    for (size_t i = 0; i < transfers.size(); i++) {
        const int64_t groups = groups_of(transfers[i]),
                      beats = groups * beats_of(transfers[i].channel.run.group, *kernel.machine);
        const int64_t free = (before - front) / interval - in_front, in_time = all - left / interval;
        if (groups == 1) times[i].first = std::max(times[i].first, std::min({free, in_time, sure - 1}));
        before += beats + kernel.machine->sdma.setup;
        left -= beats;
    }
    if (in_front_of_last_result(kernel, transfers)) {
        const int64_t groups = groups_of(transfers[0]);
        times[1].first = std::min(times[0].first + ceil_div((groups - 1) * times[0].span, groups), sure - 1);
    }
    return times;
}

bool loads_weights(const Loop &hot) {
    return std::ranges::any_of(hot.body, [](const Node &node) { return node.op && node.op->opcode == Opcode::lw_vi; });
}

// One distance for the groups of all, of which the last one starts a distance before the end.
struct EvenStarts {
    int64_t start = 0, iterations = 0, groups = 0;

    int64_t last() const { return start + iterations * (groups - 1) / groups; }
    std::vector<Times> times(const std::vector<SpreadTransfer> &transfers, const Loop &hot) const {
        std::vector<Times> times;
        int64_t before = 0;
        for (const SpreadTransfer &t : transfers) {
            const int64_t first = start + iterations * before / groups;
            before += groups_of(t);
            const int64_t end = start + iterations * before / groups;
            times.push_back({first, start < 1 ? 0 : end - first, end == hot.extent});
        }
        return times;
    }
};

// Up to the end of the loop. As much in front is left to a result; all that a distance of one iteration does not need.
EvenStarts even_starts(const std::vector<SpreadTransfer> &transfers, const Loop &hot) {
    int64_t all = 0;
    for (const SpreadTransfer &t : transfers) all += groups_of(t);
    // The last group starts one distance before the end, in an iteration that is sure to run.
    const int64_t unsure = hot.extent - sure_iterations(hot),
                  end = hot.extent / (all + 1) > unsure ? hot.extent : sure_iterations(hot);
    const int64_t iterations = end / (all + 1) > 1 ? end * all / (all + 1) : all;
    return {end - iterations, iterations, all};
}

int64_t beats_of_all(const Kernel &kernel, const std::vector<SpreadTransfer> &transfers, const std::vector<Tile> &first_tiles) {
    int64_t beats = beats_of(first_tiles, *kernel.machine);
    for (const SpreadTransfer &t : transfers) beats += groups_of(t) * beats_of(t.channel.run.group, *kernel.machine);
    return beats;
}

// Is DRAM busy for most of a loop that loads weights, which takes at least what these and the rows between two of their loads
// take?
bool is_busy(const Kernel &kernel, const std::vector<SpreadTransfer> &transfers, const Loop &hot) {
    constexpr double most = 0.8;
    if (!kernel.machine->timed() || !loads_weights(hot)) return false;
    const auto is_of_array = [](const Node &node) { return node.op && info(node.op->opcode).unit == Unit::Array; };
    const int64_t array = std::ranges::count_if(hot.body, is_of_array);
    return static_cast<double>(beats_of_all(kernel, transfers, {})) >=
           most * static_cast<double>(hot.extent * (array + kernel.machine->sa.switch_spacing));
}

// Earlier where what the last group brings would come behind the loop: with as much in front as a result needs, which begins in
// so many iterations. Not in loops that load weights, whose first turns results share: with partial sums of the array products
// of 256 and 512 cubed take 1 to 2 % longer so. Where DRAM is busy for most of such a loop it has all of it but the iterations
// of a result.
EvenStarts in_time(const Kernel &kernel, const std::vector<SpreadTransfer> &transfers, int64_t of_result, const Loop &hot,
                   EvenStarts starts) {
    constexpr int64_t least_in_front = 2, cycles_of_beat = 2;  // of one bank group
    const int64_t in_front = std::max(of_result, least_in_front);
    const Machine &machine = *kernel.machine;
    if (!machine.timed() || starts.start < 1) return starts;
    if (is_busy(kernel, transfers, hot)) {
        // Behind the last group its second half starts: in an iteration that is sure to run, too.
        const int64_t start = std::min(starts.start, std::max<int64_t>(1, of_result)), all = sure_iterations(hot) - start;
        return all < starts.groups ? starts : EvenStarts{start, all, starts.groups};
    }
    if (loads_weights(hot)) return starts;
    const int64_t interval = interval_of(kernel, hot), beats = beats_of(transfers.back().channel.run.group, machine),
                  takes = machine.sdma.setup + machine.dram.complete + cycles_of_beat * beats;
    const int64_t late = starts.last() + ceil_div(takes, interval) - sure_iterations(hot);
    starts.start -= std::clamp<int64_t>(late, 0, std::max<int64_t>(0, starts.start - in_front));
    return starts;
}

// One distance for the groups of all while a loop runs several times.
std::vector<Times> times_in_nest(const std::vector<SpreadTransfer> &transfers, int64_t turns, const Loop &hot) {
    int64_t all = 0, before = 0;
    for (const SpreadTransfer &t : transfers) all += groups_of(t);
    const int64_t distance = turns * sure_iterations(hot) / (all + 1);
    std::vector<Times> times;
    for (const SpreadTransfer &t : transfers) {
        times.push_back({distance * (before + 1), distance * groups_of(t), false});
        before += groups_of(t);
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
// What a branch can add to its register.
constexpr int64_t most_step = 127;

bool all_fit(const std::vector<SpreadTransfer> &transfers, const std::vector<Times> &times, const TransferCode &code) {
    const auto is_short = [&](const SpreadTransfer &t) {
        Body group;
        code.issue_step(t.channel, group);
        return group.size() <= most_side_operations;
    };
    const auto has_time = [&](size_t i) { return groups_of(transfers[i]) == 1 || times[i].span >= groups_of(transfers[i]); };
    for (size_t i = 0; i < transfers.size(); i++)
        if (!is_short(transfers[i]) || !has_time(i)) return false;
    return !transfers.empty();
}

// The two halves of a group: they start half a distance apart, and count their own steps until they jump, from `body` on.
std::vector<Channel> halves(Kernel &kernel, const Channel &whole, Body &body) {
    std::vector<Channel> parts(2,
                               Channel{whole.copy, {{}, whole.run.count, whole.run.row_step, whole.run.mem_step}, {}, {}, {}});
    const std::vector<size_t> half = halves_of(whole.run.group, *kernel.machine);
    for (Channel &part : parts) {
        const auto counter = [&](const std::string &name, int64_t value) {
            const Reg reg = kernel.scalar(name);
            body.push_back(value_op(reg, {value, {}}));
            return reg;
        };
        for (Run::Jump jump : whole.run.jumps) {
            jump.tiles = 0;
            part.run.jumps.push_back(jump);
            part.left.push_back(counter("until", jump.left));
        }
        if (whole.row_jump.defined()) part.row_jump = counter("row_jump", 0);
    }
    for (size_t i = 0; i < half.size(); i++) {
        Channel &part = parts[half[i]];
        for (size_t j = 0; j < whole.run.jumps.size(); j++)
            part.run.jumps[j].tiles |= (whole.run.jumps[j].tiles >> i & 1u) << part.run.group.size();
        part.run.group.push_back(whole.run.group[i]);
        part.pad.push_back(whole.pad[i]);
        part.mem.push_back(whole.mem[i]);
        part.control.push_back(whole.control[i]);
    }
    return parts;
}

// Where transfers take longer than what computes beside them, each group as its halves: while one half's engines begin, DRAM
// serves the other. Not those of a loop further out, whose groups one register counts.
void start_halves(std::vector<SpreadTransfer> &transfers, std::vector<Times> &times, Kernel &kernel, Body &body) {
    std::vector<SpreadTransfer> parts;
    std::vector<Times> parts_times;
    for (size_t i = 0; i < transfers.size(); i++) {
        const int64_t groups = groups_of(transfers[i]), distance = times[i].span / groups;
        const bool divides = groups > 1 && distance > 1 && !transfers[i].left.defined() &&
                             static_cast<int64_t>(transfers[i].channel.run.group.size()) == kernel.machine->pad.count &&
                             kernel.machine->pad.count % 2 == 0;
        std::vector<Channel> channels =
            divides ? halves(kernel, transfers[i].channel, body) : std::vector<Channel>{transfers[i].channel};
        for (size_t part = 0; part < channels.size(); part++) {
            parts.push_back({std::move(channels[part]), transfers[i].go, transfers[i].groups, transfers[i].left});
            parts_times.push_back(times[i]);
            if (part > 0) parts_times.back().first += distance / 2;
        }
    }
    transfers = std::move(parts);
    times = std::move(parts_times);
}

// Are the tiles of all groups neighbouring columns of the same rows, which walk through the pages of the DRAM together? One
// bank group serves them at a time, or both where a page has few rows, of which one engine is ahead of another. Halves that
// start apart are in different pages, and while the engines of one begin the other has something to move: that pays where they
// take longer than the loop, which runs so often that their code is little.
bool walk_together(const Kernel &kernel, const std::vector<SpreadTransfer> &transfers, int64_t runs, const Loop &hot) {
    constexpr double with_begin = 1.25;
    constexpr int64_t few_rows = 8, least_runs = 8;
    if (loads_weights(hot) || runs < least_runs) return false;
    const Machine &machine = *kernel.machine;
    double cycles = 0;
    for (const SpreadTransfer &t : transfers) {
        const std::vector<Tile> &group = t.channel.run.group;
        const Tile &first = group.front();
        std::set<int> pads;
        const bool are_columns = std::ranges::all_of(group, [&](const Tile &tile) {
            return pads.insert(tile.pad).second && tile.rows > 1 && tile.rows == first.rows && tile.pitch == first.pitch &&
                   std::abs(tile.mem - first.mem) < std::min<int64_t>(tile.pitch, lanes * machine.pad.count);
        });
        const bool one_group = few_rows * first.pitch < machine.dram.row_bytes / 2;
        if (!are_columns) return false;
        cycles += (one_group ? static_cast<double>(machine.dram.groups) : with_begin) *
                  static_cast<double>(groups_of(t) * beats_of(group, machine));
    }
    return cycles > static_cast<double>(interval_of(kernel, hot) * hot.extent);
}

// Each half is a branch in every iteration, and the last one starts half a distance later. Single groups stay whole.
bool pay_in_halves(const std::vector<SpreadTransfer> &transfers) {
    constexpr int64_t most_in_halves = 4, least_groups = 8;
    const auto has_several = [](const SpreadTransfer &t) { return groups_of(t) > 1; };
    const auto has_many = [](const SpreadTransfer &t) { return groups_of(t) >= least_groups; };
    const int64_t several = std::ranges::count_if(transfers, has_several);
    return several <= most_in_halves && several == std::ranges::count_if(transfers, has_many);
}

// Returns the register that counts the groups of the last transfer, where it has several.
Reg start_at(Kernel &kernel, const std::vector<SpreadTransfer> &transfers, const std::vector<Times> &times, Loop &hot,
             const TransferCode &code, Body &body) {
    std::map<Reg, Reg> nevers;  // by what says that there is nothing to move
    Reg left;
    for (size_t i = 0; i < transfers.size(); i++) {
        const SpreadTransfer &t = transfers[i];
        // `due` grows by `step` an iteration, and a group starts where it is 0 or, of several groups, more: `span / step`
        // iterations after the one before.
        const int64_t groups = groups_of(t), common = std::gcd(times[i].span, groups);
        const bool exact = groups / common <= most_step;
        const int64_t step = exact ? groups / common : 1, span = exact ? times[i].span / common : times[i].span / groups;
        const std::string &name = kernel.allocations[t.channel.copy->allocation].name;
        const Reg due = kernel.scalar(name + "_due");
        left = kernel.scalar(name + "_left");
        Reg go = t.go;
        if (t.left.defined()) {
            go = kernel.scalar("any");
            body.push_back(binary(Opcode::slt_s, go, zero_scalar, t.left));
        }
        if (go.defined()) {
            Reg &never = nevers[go];
            if (!never.defined()) {
                never = kernel.scalar("never");
                body.push_back(value_op(never, {-1, {}}, {go}));
                body.push_back(shift_left(never, never, never_bits));
            }
            body.push_back(value_op(due, {-times[i].first * step, {}}, {never}));
        } else {
            body.push_back(value_op(due, {-times[i].first * step, {}}));
        }
        Body group;
        code.issue_step(t.channel, group);
        if (t.left.defined()) group.push_back(value_op(t.left, {-1, {}}, {t.left}));
        // A loop whose stages run idle goes on behind its end.
        if (groups > 1 && times[i].to_the_end && !may_idle(kernel, hot)) {
            group.push_back(value_op(due, {-span, {}}, {due}));
        } else if (groups > 1) {
            body.push_back(value_op(left, {groups - 2, {}}));
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
            group.push_back(value_op(due, {-span, {}}, {due, more}));
        }
        Op branch = side(due, group);
        branch.opcode = groups > 1 ? Opcode::bge_s : Opcode::beq_s;
        branch.aux = static_cast<uint8_t>(step);
        hot.body.push_back(std::move(branch));
    }
    return left;
}

}  // namespace

int64_t sure_iterations(const Loop &hot) { return hot.extent - (most_stages_with_sides(hot) - 1); }

bool transfers_end_early(const Kernel &kernel, const std::vector<SpreadTransfer> &transfers,
                         const std::vector<Tile> &first_tiles, const Loop &hot) {
    constexpr double most = 0.67;  // of its time
    return static_cast<double>(beats_of_all(kernel, transfers, first_tiles)) <
           most * static_cast<double>(interval_of(kernel, hot) * hot.extent);
}

bool transfers_bind(const Kernel &kernel, const std::vector<SpreadTransfer> &transfers, const std::vector<Tile> &first_tiles,
                    const Loop &hot) {
    constexpr double longer = 1.2;  // code out of line takes time, too
    return !loads_weights(hot) && static_cast<double>(beats_of_all(kernel, transfers, first_tiles)) >=
                                      longer * static_cast<double>(interval_of(kernel, hot) * hot.extent);
}

bool can_spread(const std::vector<SpreadTransfer> &transfers, const std::vector<Tile> &first_tiles, const Loop &hot,
                const TransferCode &code) {
    return all_fit(transfers, times_of(transfers, static_cast<int64_t>(first_tiles.size()), hot), code);
}

void spread(Kernel &kernel, const std::vector<SpreadTransfer> &transfers, const std::vector<Tile> &first_tiles, int64_t runs,
            Loop &hot, const TransferCode &code, Body &body) {
    const auto front = static_cast<int64_t>(first_tiles.size() + body.size());
    std::vector<Times> times = late_times_of(kernel, transfers, first_tiles, front, runs, hot);
    std::vector<SpreadTransfer> parts = transfers;
    // Of what starts in one iteration the first in the loop.
    if (in_front_of_last_result(kernel, transfers)) {
        std::swap(parts[0], parts[1]);
        std::swap(times[0], times[1]);
    }
    if (transfers_bind(kernel, transfers, first_tiles, hot) || walk_together(kernel, transfers, runs, hot) ||
        (pay_in_halves(transfers) && is_busy(kernel, transfers, hot)))
        start_halves(parts, times, kernel, body);
    start_at(kernel, parts, times, hot, code, body);
}

void start_late(Kernel &kernel, const SpreadTransfer &transfer, int64_t first, Loop &hot, const TransferCode &code,
                Body &body) {
    start_at(kernel, {transfer}, {{first, 1, false}}, hot, code, body);
}

Reg start_from(Kernel &kernel, const SpreadTransfer &transfer, int64_t first, int64_t span, Loop &hot, bool every,
               const TransferCode &code, Body &body) {
    const Reg left = start_at(kernel, {transfer}, {{first, span, false}}, hot, code, body);
    hot.body.back().op->every = every;
    return left;
}

bool can_start_evenly(const std::vector<SpreadTransfer> &transfers, const Loop &hot, const TransferCode &code) {
    // Without a span there is no iteration for it.
    const std::vector<Times> times = even_starts(transfers, hot).times(transfers, hot);
    return std::none_of(times.begin(), times.end(), [](const Times &t) { return t.span == 0; }) &&
           all_fit(transfers, times, code);
}

int64_t start_evenly(Kernel &kernel, const std::vector<SpreadTransfer> &transfers, int64_t of_result, Loop &hot,
                     const TransferCode &code, Body &body) {
    std::vector<SpreadTransfer> parts = transfers;
    std::vector<Times> times = in_time(kernel, transfers, of_result, hot, even_starts(transfers, hot)).times(transfers, hot);
    const int64_t first = times.front().first;
    if (pay_in_halves(transfers) && is_busy(kernel, transfers, hot)) start_halves(parts, times, kernel, body);
    start_at(kernel, parts, times, hot, code, body);
    return first;
}

bool can_start_evenly_in_nest(const std::vector<SpreadTransfer> &transfers, int64_t turns, const Loop &hot,
                              const TransferCode &code) {
    const std::vector<Times> times = times_in_nest(transfers, turns, hot);
    return !times.empty() && times.front().first >= 2 && all_fit(transfers, times, code);
}

bool start_evenly_in_nest(Kernel &kernel, const std::vector<SpreadTransfer> &transfers, int64_t turns, Loop &hot,
                          const TransferCode &code, Body &body) {
    if (!can_start_evenly_in_nest(transfers, turns, hot, code)) return false;
    start_at(kernel, transfers, times_in_nest(transfers, turns, hot), hot, code, body);
    return true;
}

}  // namespace atalla::codegen
