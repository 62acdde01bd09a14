// Packets: list scheduling of straight-line blocks (list_schedule.cpp), modulo scheduling of innermost loops (modulo.cpp), and
// what of both depends on the code around them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "codegen/branches.h"
#include "codegen/chains.h"
#include "codegen/code_cost.h"
#include "codegen/constant_units.h"
#include "codegen/delays.h"
#include "codegen/first_clears.h"
#include "codegen/idle_stages.h"
#include "codegen/late_rows.h"
#include "codegen/later.h"
#include "codegen/list_schedule.h"
#include "codegen/loop_plans.h"
#include "codegen/masks.h"
#include "codegen/modulo.h"
#include "codegen/nest_ends.h"
#include "codegen/out_of_line.h"
#include "codegen/pad_order.h"
#include "codegen/passes.h"
#include "codegen/tighten.h"
#include "codegen/weights_gap.h"

namespace atalla::codegen {

namespace {

class Packer {
public:
    Packer(Kernel &kernel, Blocks &blocks, bool optimize, const PackOptions &options, LoopPlans &plans)
        : kernel_(kernel),
          machine_(*kernel.machine),
          blocks_(blocks),
          optimize_(optimize),
          options_(options),
          plans_(plans),
          delays_(kernel) {}

    Packed run() {
        // Loops first: what they defer becomes part of the blocks around them.
        if (optimize_)
            for (size_t b = 0; b < blocks_.size(); b++)
                if (loop_of(b) >= 0) pipeline(b);
        if (optimize_ && options_.join) join_nests();
        for (size_t b = 0; b < blocks_.size(); b++)
            if (blocks_[b].packets.empty()) straight(b);
        for (const size_t b : pipelined_) pack_nests_densely(b);
        for (auto &[b, loop] : overlapping_)
            if (!fits_cache(b)) pack_loop_densely(b, loop);
        const auto is_loop_body = [&](size_t b) { return pipelined_.count(b) > 0; };
        keep_loads_behind_stores(kernel_, blocks_, delays_, is_loop_body);
        delays_.keep_weights_apart(blocks_, is_loop_body);
        move_out_of_line(kernel_, blocks_, [&](size_t b) { straight(b); });
        add_branches(kernel_, blocks_, delays_, optimize_);
        const bool turned_fit = std::all_of(turned_.begin(), turned_.end(), [&](size_t b) { return fits_cache(b); });
        std::set<size_t> unfit;
        int64_t most_overlapped = 0;
        for (const auto &[b, stages, gain] : overlapped_) {
            most_overlapped = std::max(most_overlapped, stages);
            const int64_t filling = (stages - 1) * static_cast<int64_t>(blocks_[b].packets.size());
            if (gain < fetch_cycles(machine_) * static_cast<double>(filling) && !fits_cache(b) && fits_cache(b, filling))
                unfit.insert(b);
        }
        return {most_overlapped, long_overlapped_, !turned_.empty(), idle_, joined_, turned_fit, std::move(unfit)};
    }

private:
    // The blocks of the loop around the one that block b is: the first and the last. Nothing if there is none.
    std::optional<std::pair<int, int>> nest_around(size_t b) const {
        return nest_around({static_cast<int>(b), static_cast<int>(b)});
    }
    std::optional<std::pair<int, int>> nest_around(const std::pair<int, int> &inner) const {
        const auto b = static_cast<size_t>(inner.first);
        auto last = static_cast<size_t>(inner.second) + 1;
        while (last < blocks_.size() &&
               (blocks_[last].end.kind != Terminator::Loop || blocks_[last].end.target > static_cast<int>(b)))
            last++;
        if (last == blocks_.size()) return std::nullopt;
        return std::pair(blocks_[last].end.target, static_cast<int>(last));
    }

    // Do the loop around the one that block b is, and the code out of line that it branches to, fit the instruction cache, with
    // so many packets less?
    bool fits_cache(size_t b, int64_t less = 0) const {
        const auto nest = nest_around(b);
        return !nest || packets_of(*nest) - less <= most_packets();
    }
    int64_t most_packets() const { return machine_.icache.bytes / machine_.issue.packet_bytes; }
    int64_t packets_of(const std::pair<int, int> &nest) const {
        const auto [first, last] = nest;
        int64_t packets = 0;
        for (size_t i = 0; i < blocks_.size(); i++) {
            const int at = blocks_[i].from_block >= 0 ? blocks_[i].from_block : static_cast<int>(i);
            if (at >= first && at <= last && !blocks_[i].rare) packets += static_cast<int64_t>(blocks_[i].packets.size());
        }
        return packets;
    }

    int loop_of(size_t b) const { return innermost_loop(kernel_, blocks_, b); }

    // Is a block a loop that starts loads, or one that starts the transfers of results, and nothing else?
    bool only_transfers(size_t b) const {
        const std::vector<Op> &ops = blocks_[b].ops;
        const auto steps = [](const Op &op) { return info(op.opcode).unit == Unit::Ex1; };
        const auto only = [&](Opcode starts) {
            return std::ranges::any_of(ops, [&](const Op &op) { return op.opcode == starts; }) &&
                   std::ranges::all_of(ops, [&](const Op &op) { return op.opcode == starts || steps(op); });
        };
        const int loop = loop_of(b);
        // Code of a few rounds matters more than their order.
        constexpr int64_t few_rounds = 4;
        return machine_.timed() && loop >= 0 &&
               (only(Opcode::scpad_ld) ||
                (only(Opcode::scpad_st) && kernel_.loops[static_cast<size_t>(loop)].extent > few_rounds));
    }

    // ---- straight-line code

    void straight(size_t b) {
        Block &block = blocks_[b];
        if (!optimize_) {
            one_by_one(block);
            return;
        }
        if (std::find(turned_.begin(), turned_.end(), b + 1) != turned_.end())
            if (std::optional<std::vector<Op>> renamed = rename_late_rows(kernel_, code_of(b, block.ops).schedule(1).first))
                block.ops = std::move(*renamed);
        // Code that runs a few times mostly waits for the instruction cache: fewer packets are faster than packets that never
        // wait for each other. Scheduled as if a packet took so many cycles, the latencies need fewer packets.
        const double fetch = fetch_cycles(machine_);
        const auto runs = static_cast<double>(executions(kernel_, blocks_, b));
        const bool few = fetch > 0 && kernel_.takes(Choice::FewPackets);
        constexpr int dense_packets = 2, least_packets = 12;  // as if a packet took so many cycles
        std::vector<Tried> tried;
        const auto add = [&](const StraightCode &code, ScheduleGraph &graph, bool may_be_fastest) {
            PacketOrder order = delays_.keep_apart(graph);
            const int64_t again = issue_cycles(machine_, graph);
            double cost = std::numeric_limits<double>::infinity();
            if (may_be_fastest && few)
                cost = static_cast<double>(order.size());
            else if (may_be_fastest)
                // What waits for its operands the first time waits while packets come from memory.
                cost = static_cast<double>(issue_cycles(machine_, graph, 1 + std::llround(fetch))) +
                       (runs - 1) * static_cast<double>(again);
            tried.push_back({&code, code.added_to(graph), std::move(order), cost, again});
        };
        const auto try_code = [&](StraightCode &code) {
            std::optional<ScheduleGraph> dense;
            for (int packet_cycles : {1, dense_packets, 4, least_packets}) {
                auto [graph, table] = code.schedule(packet_cycles);
                if (machine_.timed() && packet_cycles == 1) tighten(kernel_, graph, table);
                if (packet_cycles == dense_packets && runs > 1 && !options_.in_order) dense = graph;
                add(code, graph, true);
                if (fetch == 0) return;
            }
            if (!dense) return;
            // In this order, with no regard to what packets wait for, it may take still fewer.
            tighten_most(kernel_, *dense, least_packets);
            add(code, *dense, false);
        };
        StraightCode code = code_of(b, block.ops);
        std::optional<StraightCode> spread;
        try_code(code);
        if (fetch > 0)
            if (std::optional<std::vector<Op>> ops = constants_on_other_units(block.ops))
                try_code(spread.emplace(code_of(b, *std::move(ops))));
        block.packets = std::ranges::min_element(tried, {}, &Tried::cost)->packets();
        if (runs > 1 && fetch > 0) keep_densest(b, tried);
    }

    // A way to pack a block.
    struct Tried {
        const StraightCode *code;
        std::vector<Op> added;  // packets that only take time
        PacketOrder order;
        double cost;     // with the fetches of the first time
        int64_t cycles;  // once it is in the cache

        std::vector<OpGroup> packets() const { return gather(code->ops(), added, order); }
    };
    // Of all ways the one of fewest packets that hardly takes longer once it is in the cache.
    struct Densest {
        int64_t longer;  // cycles, than the fastest
        std::vector<OpGroup> packets;
    };
    void keep_densest(size_t b, const std::vector<Tried> &tried) {
        constexpr int64_t longer = 4;  // one of so many cycles
        const int64_t least = std::ranges::min_element(tried, {}, &Tried::cycles)->cycles;
        const auto packets = [&](const Tried &way) {
            return way.cycles > least + least / longer ? std::numeric_limits<size_t>::max() : way.order.size();
        };
        const Tried &densest = *std::ranges::min_element(tried, {}, packets);
        densest_[b] = {densest.cycles - least, densest.packets()};
    }

    // Where one of the nests around a loop leaves the instruction cache, and would not if its straight code took fewer packets,
    // it does.
    void pack_nests_densely(size_t b) {
        for (auto nest = nest_around(b); nest; nest = nest_around(*nest))
            if (packets_with_sides(*nest) > most_packets() && !pack_densely(*nest)) return;
    }
    // With the code out of line that is still to be moved there, an operation a packet.
    int64_t packets_with_sides(const std::pair<int, int> &nest) const {
        int64_t packets = packets_of(nest);
        for (int b = nest.first; b <= nest.second; b++)
            for (const OpGroup &packet : blocks_[static_cast<size_t>(b)].packets)
                for (const Op &op : packet)
                    if (op.side) packets += static_cast<int64_t>(op.side->size());
        return packets;
    }
    bool pack_densely(const std::pair<int, int> &nest) {
        // Where all of it goes round a cache that is too small, what has no room pushes out as much again.
        const int64_t capacity = most_packets(), missing = std::min(packets_with_sides(nest) - capacity, capacity);
        std::map<size_t, std::vector<OpGroup>> before;
        double longer = 0;  // in a turn
        const auto turns = static_cast<double>(executions(kernel_, blocks_, static_cast<size_t>(nest.second)));
        for (auto &[straight, densest] : densest_) {
            if (static_cast<int>(straight) < nest.first || static_cast<int>(straight) > nest.second ||
                densest.packets.size() >= blocks_[straight].packets.size())
                continue;
            before[straight] = blocks_[straight].packets;
            blocks_[straight].packets = densest.packets;
            longer += static_cast<double>(densest.longer) * static_cast<double>(executions(kernel_, blocks_, straight)) / turns;
        }
        const int64_t still_missing = packets_with_sides(nest) - capacity;
        if (still_missing <= 0) return true;
        // What is saved comes from memory by lines: a few packets less are none.
        const double line = static_cast<double>(machine_.icache.line) / static_cast<double>(machine_.issue.packet_bytes),
                     fetched =
                         2 * fetch_cycles(machine_) * line * std::floor(static_cast<double>(missing - still_missing) / line);
        if (fetched < longer)
            for (auto &[straight, packets] : before) blocks_[straight].packets = std::move(packets);
        return false;
    }

    StraightCode code_of(size_t b, std::vector<Op> ops) const {
        return {kernel_, std::move(ops), shared_masks(kernel_, blocks_, b), b == 0, options_.in_order, only_transfers(b)};
    }

    void one_by_one(Block &block) {
        ScheduleGraph graph(kernel_, block.ops, -1);
        for (size_t i = 0; i < graph.ops.size(); i++) graph.cycle[i] = static_cast<int>(i);
        block.packets = delays_.packets(graph);
    }

    // ---- innermost loops

    void pipeline(size_t b) {
        if (only_transfers(b)) return;  // the engines set the pace
        if (blocks_[b].rare) return;    // overlap takes code
        auto [schedule, graph, rows] = plan_of(b);
        if (!schedule) return;  // left to list scheduling
        const LoopInfo &loop = kernel_.loops[loop_of(b)];
        const double gain = schedule->stages > 1 && !schedule->later ? gain_by_overlap(b, *schedule) : 0;
        if (rows) {
            blocks_[b].ops = std::move(rows->loop);
            blocks_[b - 1].ops.insert(blocks_[b - 1].ops.end(), rows->in_front.begin(), rows->in_front.end());
        }
        pipelined_.insert(b);
        defer(b, schedule->deferred);
        if (options_.idle && can_idle(kernel_, blocks_, b, graph, *schedule) &&
            (options_.idle_loops.contains(b) || runs_idle(b, graph, *schedule))) {
            idle_ = true;
            const std::vector<Op> back = set_back(graph, *schedule);
            blocks_[b - 1].ops.insert(blocks_[b - 1].ops.end(), back.begin(), back.end());
            blocks_[b].end.limit =
                loaded_constant(static_cast<int32_t>(loop.extent + schedule->stages - 2), blocks_[b].end.index);
        } else if (schedule->stages > 1) {
            if (!schedule->later) overlapped_.push_back({b, schedule->stages, gain});
            long_overlapped_ |= !schedule->later && values_of(kernel_, graph.ops) > most_short_values(machine_);
            std::vector<Op> &before = blocks_[b - 1].ops, &after = blocks_[b + 1].ops;
            const std::vector<Op> prologue = with_own_registers(kernel_, blocks_[b].ops, schedule->prologue);
            before.insert(before.end(), prologue.begin(), prologue.end());
            if (schedule->later) {
                turned_.push_back(b);
                aim_first_turn(kernel_, blocks_, b, schedule->epilogue);
                place_later(kernel_, blocks_, b, schedule->epilogue);
            } else {
                const std::vector<Op> epilogue = with_own_registers(kernel_, blocks_[b].ops, schedule->epilogue);
                after.insert(after.begin(), epilogue.begin(), epilogue.end());
            }
            if (!schedule->later) name_rows_by_loop(kernel_, graph, *schedule, loop_of(b));
            blocks_[b].end.limit =
                loop.varies() ? before_last(loop, schedule->stages - 1, before)
                              : loaded_constant(static_cast<int32_t>(loop.extent - schedule->stages), blocks_[b].end.index);
        }
        if (machine_.timed() && schedule->stages == 1 && schedule->deferred.empty())
            merge_between_rows_and_weights(kernel_, graph);
        const bool overlaps = schedule->stages > 1 && !schedule->later;
        if (mostly_fetched(b, graph, *schedule))
            tighten_loop(kernel_, graph, schedule->interval);
        else if (overlaps)
            overlapping_.try_emplace(b, OverlappingLoop{graph, schedule->interval});
        blocks_[b].packets = delays_.packets(graph, overlaps);
    }

    // A loop whose iterations overlap, as it was packed.
    struct OverlappingLoop {
        ScheduleGraph graph;
        int interval;
    };
    void pack_loop_densely(size_t b, OverlappingLoop &loop) {
        tighten_loop(kernel_, loop.graph, loop.interval);
        blocks_[b].packets = delays_.packets(loop.graph, true);
    }

    // Cycles by which a turn of the loop's nest is shorter, at the most, than where no long iterations overlap.
    double gain_by_overlap(size_t b, const ModuloSchedule &schedule) {
        const int64_t iterations = kernel_.loops[static_cast<size_t>(loop_of(b))].extent;
        constexpr int64_t many_iterations = 24;
        if (iterations < many_iterations) return 0;
        const std::optional<ModuloSchedule> shorter = plan_of(b, OverlapIterations::Short).schedule;
        const int64_t interval =
            shorter ? shorter->interval : issue_cycles(machine_, code_of(b, blocks_[b].ops).schedule(1).first);
        return static_cast<double>(iterations * (interval - schedule.interval));
    }

    LoopPlan plan_of(size_t b) {
        const auto most = options_.overlap_of_loop.find(b);
        return plan_of(b, most == options_.overlap_of_loop.end() ? options_.overlap : std::min(options_.overlap, most->second));
    }
    LoopPlan plan_of(size_t b, OverlapIterations overlap) {
        const LoopPlans::Key key{b, overlap, options_.turn};
        if (const auto found = plans_.of_loop.find(key); found != plans_.of_loop.end()) return found->second;
        LoopPlan plan{{}, ScheduleGraph(kernel_, blocks_[b].ops, loop_of(b)), {}};
        const auto runs_later = [&](const std::vector<Op> &epilogue) {
            return options_.turn && can_turn(kernel_, blocks_, b, epilogue);
        };
        const std::set<Reg> masks = shared_masks(kernel_, blocks_, b);
        if (std::optional<LoopPlan> cleared = plan_with_clears(b, masks, overlap))
            return plans_.of_loop.emplace(key, std::move(*cleared)).first->second;
        plan.schedule = modulo_schedule(kernel_, plan.graph, kernel_.loops[loop_of(b)], masks, overlap, runs_later);
        space_evenly(b, masks, overlap, plan);
        // Whether a loop turns depends on what the blocks around it hold this time.
        if (!plan.schedule || !plan.schedule->later) plans_.of_loop.emplace(key, plan);
        return plan;
    }

    // Of a loop whose first iteration clears sums: planned without these, for which its packets have room.
    std::optional<LoopPlan> plan_with_clears(size_t b, const std::set<Reg> &masks, OverlapIterations overlap) {
        std::vector<Op> rest = without_first_clears(kernel_, blocks_[b].ops);
        if (rest.size() == blocks_[b].ops.size()) return std::nullopt;
        ScheduleGraph graph(kernel_, std::move(rest), loop_of(b));
        const auto stays = [](const std::vector<Op> &) { return false; };
        std::optional<ModuloSchedule> schedule =
            modulo_schedule(kernel_, graph, kernel_.loops[loop_of(b)], masks, overlap, stays);
        if (!schedule || schedule->stages > 1 || !schedule->deferred.empty()) return std::nullopt;
        merge_between_rows_and_weights(kernel_, graph);
        std::optional<ScheduleGraph> whole = with_first_clears(kernel_, graph, blocks_[b].ops, loop_of(b), schedule->interval);
        if (!whole) return std::nullopt;
        return LoopPlan{std::move(schedule), std::move(*whole), {}};
    }

    // Does a loop run so few times that it matters how many packets come from memory?
    bool mostly_fetched(size_t b, const ScheduleGraph &graph, const ModuloSchedule &schedule) const {
        constexpr double matters = 0.1;  // of its cycles
        return fetch_cycles(machine_) * static_cast<double>(PacketOrder(graph).size()) >
               matters * static_cast<double>(executions(kernel_, blocks_, b)) * schedule.interval;
    }

    // The ends of nests that go round often enough for the start to pay that runs in front of them.
    void join_nests() {
        const auto cycles_and_packets = [&](size_t b, const std::vector<Op> &ops) {
            const ScheduleGraph graph = code_of(b, ops).schedule(1).first;
            return std::pair(static_cast<double>(issue_cycles(machine_, graph)),
                             static_cast<double>(PacketOrder(graph).size()));
        };
        for (size_t last = 0; last < blocks_.size(); last++) {
            if (blocks_[last].end.kind != Terminator::Loop) continue;
            const auto first = static_cast<size_t>(blocks_[last].end.target);
            // What turned loops leave to the code in front of them has its place.
            const bool turns = std::any_of(turned_.begin(), turned_.end(), [&](size_t b) { return first < b && b < last; });
            if (turns || !can_join_ends(kernel_, blocks_, first, last)) continue;
            const auto [start, packets] = cycles_and_packets(first, blocks_[first].ops);
            const double end = cycles_and_packets(last, blocks_[last].ops).first;
            JoinedEnds both = joined_ends(kernel_, blocks_, first, last, false),
                       late = joined_ends(kernel_, blocks_, first, last, true);
            double together = cycles_and_packets(last, both.ops).first;
            if (const double cycles = cycles_and_packets(last, late.ops).first; cycles < together) {
                together = cycles;
                both = std::move(late);
            }
            if (static_cast<double>(executions(kernel_, blocks_, last)) * (start + end - together) <=
                fetch_cycles(machine_) * packets + start)
                continue;
            if (kernel_.takes(Choice::EndsApart)) continue;
            join_ends(blocks_, first, last, std::move(both));
            joined_ = true;
        }
    }

    // What a loop takes whose iterations do not overlap, its code from memory included, if it is entered so many times.
    double straight_cycles(size_t b, double entered) const {
        const ScheduleGraph graph = code_of(b, blocks_[b].ops).schedule(1).first;
        const auto iterations = static_cast<double>(kernel_.loops[static_cast<size_t>(loop_of(b))].extent);
        return entered * iterations * static_cast<double>(issue_cycles(machine_, graph)) +
               fetch_cycles(machine_) * static_cast<double>(PacketOrder(graph).size());
    }

    // Rows that are alike at one distance from each other, where the whole loop gets shorter, its code from memory included.
    void space_evenly(size_t b, const std::set<Reg> &masks, OverlapIterations overlap, LoopPlan &plan) {
        const LoopInfo &loop = kernel_.loops[loop_of(b)];
        if (b == 0 || blocks_[b - 1].end.kind != Terminator::Next || (plan.schedule && plan.schedule->later)) return;
        // Evenly spaced rows read and write each bank in turn; operations that displaced others wait for banks now and then.
        constexpr int64_t waits = 16;  // one of so many cycles
        const auto entered = static_cast<double>(executions(kernel_, blocks_, b - 1));
        const auto cycles = [&](const ModuloSchedule &one, const ScheduleGraph &code) {
            constexpr size_t slots_filled = 2;  // of a packet in front of the loop or behind it
            const int64_t issued = one.interval * (loop.extent + one.stages - 1);
            const size_t packets = PacketOrder(code).size() + (one.prologue.size() + one.epilogue.size()) / slots_filled;
            return entered * static_cast<double>(one.evicting ? issued + issued / waits : issued) +
                   fetch_cycles(machine_) * static_cast<double>(packets);
        };
        std::optional<double> least;
        if (plan.schedule) least = cycles(*plan.schedule, plan.graph);
        const std::vector<RegInfo> before = kernel_.registers;
        std::vector<RegInfo> registers = before;
        for (const RowLoads loads : {RowLoads::Shared, RowLoads::Own}) {
            std::copy(before.begin(), before.end(), kernel_.registers.begin());
            std::optional<AlikeRows> rows = alike_rows(kernel_, blocks_[b].ops, loop_of(b), loads);
            if (!rows) continue;
            ScheduleGraph even(kernel_, rows->loop, loop_of(b));
            std::optional<ModuloSchedule> spaced = evenly_spaced_schedule(kernel_, even, loop, masks, overlap, loads);
            if (!spaced) continue;
            if (!least) least = straight_cycles(b, entered);
            if (*least <= cycles(*spaced, even) || kernel_.takes(Choice::RowsUneven)) continue;
            least = cycles(*spaced, even);
            plan = {std::move(spaced), std::move(even), std::move(rows)};
            registers = kernel_.registers;
        }
        std::copy(registers.begin(), registers.end(), kernel_.registers.begin());
    }

    // Are the stages of a loop that can run idle to do so?
    bool runs_idle(size_t b, const ScheduleGraph &graph, const ModuloSchedule &schedule) const {
        const bool pays = idling_pays(machine_, static_cast<double>(PacketOrder(graph).size()),
                                      static_cast<double>(executions(kernel_, blocks_, b - 1)), schedule.interval);
        return pays ? !kernel_.takes(Choice::NeverIdle) : kernel_.takes(Choice::AlwaysIdle);
    }

    // The value of the variable so many iterations before the last, made in front of the loop.
    Reg before_last(const LoopInfo &loop, int iterations, std::vector<Op> &before) {
        Op op;
        op.opcode = Opcode::addi_s;
        op.dst = kernel_.scalar("limit");
        op.src = {loop.last};
        op.imm = -iterations;
        before.push_back(op);
        return op.dst;
    }

    // A constant that the entry block makes, as it does those that were known when the blocks were made; in another bank than
    // the register that it is read with.
    Reg loaded_constant(int32_t value, Reg beside) {
        const auto bank = [&](Reg r) { return kernel_.registers[r.id].bank; };
        Reg reg = kernel_.constant(value);
        for (int copy = 1; reg != zero_scalar && bank(reg) >= 0 && bank(reg) == bank(beside); copy++)
            reg = kernel_.constant(value, copy);
        if (reg != zero_scalar && bank(reg) < 0 && bank(beside) >= 0)
            kernel_.registers[reg.id].bank =
                static_cast<int8_t>((bank(beside) + 1) % std::max<int64_t>(1, machine_.regs.scalar_banks));
        std::vector<Op> &entry = blocks_.front().ops;
        if (reg == zero_scalar || std::any_of(entry.begin(), entry.end(), [&](const Op &op) { return op.dst == reg; }))
            return reg;
        Op op;
        op.opcode = Opcode::addi_s;
        op.dst = reg;
        op.src = {zero_scalar};
        op.imm = value;
        entry.insert(entry.begin(), op);
        return reg;
    }

    // -0, which changes no sum, in place of what the iteration before the first would have made: first 0 * -1,
    // and from it -0 * 0 on the multiplier or -0 - 0 on the adder, whichever has less to do: the sums themselves mostly run in
    // the same block.
    void defer(size_t b, const std::vector<DeferredSum> &deferred) {
        if (deferred.empty()) return;
        std::vector<Op> sums, neutral;
        std::map<Unit, size_t> work = {{Unit::Alu, deferred.size()}};
        for (const Op &op : blocks_[b - 1].ops) work[info(op.opcode).unit]++;
        for (const DeferredSum &sum : deferred) {
            sums.push_back(sum.op);
            Op reset;
            reset.opcode = Opcode::mul_vs;
            reset.dst = sum.op.src[0] == sum.op.dst ? sum.op.src[1] : sum.op.src[0];
            reset.src = {zero_vector, kernel_.constant(static_cast<int32_t>(0xBF800000))};
            if (!neutral.empty()) {
                // No scalar operand: those ports are scarce where results are stored.
                reset.opcode = work[Unit::Alu] < work[Unit::Mul] ? Opcode::sub_vv : Opcode::mul_vv;
                reset.src = {neutral[0].dst, zero_vector};
            }
            work[info(reset.opcode).unit]++;
            reset.source = sum.op.source;
            neutral.push_back(reset);
        }
        std::vector<Op> &before = blocks_[b - 1].ops;
        before.insert(before.end(), neutral.begin(), neutral.end());
        place_later(kernel_, blocks_, b, sums);
    }

    Kernel &kernel_;
    const Machine &machine_;
    Blocks &blocks_;
    bool optimize_;
    const PackOptions &options_;
    LoopPlans &plans_;
    struct Overlapped {
        size_t block;
        int64_t stages;
        double gain;
    };
    std::vector<Overlapped> overlapped_;  // loops that run iterations side by side
    bool long_overlapped_ = false;        // one of those with many values
    std::vector<size_t> turned_;          // blocks that are turned loops
    bool idle_ = false;                   // stages of a loop run idle
    bool joined_ = false;                 // the ends of a nest are one block
    Delays delays_;
    std::map<size_t, OverlappingLoop> overlapping_;
    std::set<size_t> pipelined_;  // loop bodies whose iterations follow each other as planned
    // Of straight code that runs more than once, and how many cycles longer it takes than the fastest.
    std::map<size_t, Densest> densest_;
};

}  // namespace

Packed pack(Kernel &kernel, Blocks &blocks, bool optimize, const PackOptions &options, LoopPlans &plans) {
    return Packer(kernel, blocks, optimize, options, plans).run();
}

}  // namespace atalla::codegen
