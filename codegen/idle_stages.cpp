#include "codegen/idle_stages.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <tuple>

#include "codegen/code_cost.h"

namespace atalla::codegen {

namespace {

// What an operation adds to its register in every iteration, in a way that set_back() can undo.
bool steps(const Kernel &kernel, const Op &op) {
    if (op.src[0] != op.dst) return false;
    return op.opcode == Opcode::addi_s ||
           (op.opcode == Opcode::add_s && op.src[1] != op.dst && kernel.registers[op.src[1].id].constant);
}

// Idle stages load weights, too, which takes the time of a tile: once, where nothing is around the loop. Weights that no row
// of the loop meets are for code behind it.
template <class Ops>
bool weights_may_idle(const LoopInfo &loop, const Ops &ops) {
    bool weights = false, rows = false;
    for (const Op &op : ops) {
        weights = weights || op.opcode == Opcode::lw_vi;
        rows = rows || op.opcode == Opcode::gemm_vv;
    }
    return !weights || (rows && loop.parent < 0);
}

// An operation whose result matters to nothing but the registers and rows that it names, or the weights of its loop. A branch
// out of line counts for itself when it starts a transfer: turns of the loop behind the last one start none.
bool harmless(const Op &op) {
    if (op.side) return true;
    if (op.fence || op.orders >= 0 || is_branch(op.opcode)) return false;
    switch (op.opcode) {
        case Opcode::scpad_ld:
        case Opcode::scpad_st:
            return false;
        case Opcode::div_s:
        case Opcode::mod_s:
            return false;  // by what may be zero
        default:
            return info(op.opcode).unit != Unit::Ex5;
    }
}

// Those that an iteration reads before it writes them.
std::set<Reg> registers_between_iterations(const ScheduleGraph &graph) {
    std::set<Reg> made, carried, written;
    for (const Op &op : graph.ops) {
        if (op.side) continue;
        for (Reg r : reads_of(op))
            if (!made.count(r)) carried.insert(r);
        if (op.dst.defined() && op.dst.id > all_lanes.id) made.insert(op.dst);
    }
    std::set_intersection(made.begin(), made.end(), carried.begin(), carried.end(), std::inserter(written, written.end()));
    return written;
}

class Idle {
public:
    Idle(const Kernel &kernel, const Blocks &blocks, size_t b, const ScheduleGraph &graph, const ModuloSchedule &schedule)
        : kernel_(kernel), blocks_(blocks), b_(b), graph_(graph), schedule_(schedule) {
        for (size_t l = 0; l < kernel.loops.size(); l++)
            if (kernel.loops[l].index == blocks[b].end.index) loop_ = static_cast<int>(l);
    }

    bool possible() const {
        if (loop_ < 0 || kernel_.loops[static_cast<size_t>(loop_)].varies() || b_ == 0 ||
            blocks_[b_ - 1].end.kind != Terminator::Next ||
            !weights_may_idle(kernel_.loops[static_cast<size_t>(loop_)], graph_.ops))
            return false;
        for (size_t i = 0; i < graph_.ops.size(); i++) {
            const Op &op = graph_.ops[i];
            if (!harmless(op) || (op.side && schedule_.stage[i] > 0) || (op.access && !rows_are_free(op, schedule_.stage[i])))
                return false;
            if (info(op.opcode).unit == Unit::Vlsu && !op.access) return false;
        }
        return nothing_stays();
    }

private:
    // No register but those that step lives from an iteration into the next, and none behind the loop.
    bool nothing_stays() const {
        const std::set<Reg> carried = registers_between_iterations(graph_);
        std::map<Reg, int> writers;
        for (const Op &op : graph_.ops)
            if (!op.side && op.dst.defined() && op.dst.id > all_lanes.id) writers[op.dst]++;
        for (const Op &op : graph_.ops)
            if (!op.side && carried.count(op.dst) && (writers[op.dst] > 1 || !steps(kernel_, op))) return false;
        for (const auto &[r, count] : writers)
            for (size_t other = 0; other < blocks_.size(); other++)
                if (other != b_ && needs(blocks_[other], r)) return false;
        return true;
    }

    // Does a block read the register before it writes it?
    static bool needs(const Block &block, Reg r) {
        for (const Op &op : block.ops) {
            if (reads(op, r)) return true;
            if (op.dst == r) return false;
        }
        return block.end.index == r || block.end.limit == r;
    }

    // Rows of the pads that an access in this stage touches while it has no iteration, relative to its buffer.
    bool rows_are_free(const Op &op, int stage) const {
        const PadAccess &access = *op.access;
        const Allocation &allocation = kernel_.allocations[static_cast<size_t>(access.allocation)];
        const bool store = op.opcode == Opcode::vreg_st;
        const bool slots = access.slot.defined();
        if (slots && allocation.slot_rows == 0) return false;
        int64_t step = 0, lowest = access.row.constant, highest = lowest;
        for (const auto &[atom, rows] : access.row.terms) {
            const Atom &what = kernel_.atoms[static_cast<size_t>(atom)];
            if (!what.is_loop) return false;
            if (what.loop == loop_) {
                step = rows;
                continue;
            }
            (rows < 0 ? lowest : highest) += rows * (kernel_.loops[static_cast<size_t>(what.loop)].extent - 1);
        }
        const std::optional<int64_t> in_pad = allocation.step_in_pad(step);
        if (!in_pad || *in_pad < 0 || (store && *in_pad == 0)) return false;
        const int64_t iterations = kernel_.loops[static_cast<size_t>(loop_)].extent, in_front = stage,
                      behind = schedule_.stages - 1 - stage;
        const int64_t first = allocation.row_in_pad(lowest), last = allocation.row_in_pad(highest) + (iterations - 1) * *in_pad;
        const int64_t rows = slots ? allocation.row_in_pad(allocation.slot_rows - 1) + 1 : allocation.rows_per_pad();
        if (first - in_front * *in_pad < -allocation.guard_front || last + behind * *in_pad >= rows + allocation.guard_behind)
            return false;
        const bool apart = !slots || allocation.slot_gap > 0;  // from rows of another slot
        const bool ahead = !store && !slots && loads_ahead(access.allocation);
        if (!store && apart && !ahead) return true;
        // The nearest row in front and the nearest behind.
        if (apart && lowest == highest && (in_front == 0 || first < *in_pad) && (behind == 0 || last + *in_pad >= rows))
            return true;
        return nobody_names(access, *in_pad, in_front, behind, store, ahead);
    }

    // Are the rows that an access touches in so many iterations in front of the loop and behind it between those that copies
    // and operations name? Loads may touch all rows of their slot, and of another one, or where transfers come `ahead`, all
    // that these do not bring.
    bool nobody_names(const PadAccess &access, int64_t in_pad, int64_t in_front, int64_t behind, bool store, bool ahead) const {
        const Allocation &allocation = kernel_.allocations[static_cast<size_t>(access.allocation)];
        const bool slots = access.slot.defined();
        if (ahead && allocation.moved.empty()) return false;
        const auto key = std::tuple(access.allocation, slots, store);
        auto named = named_.find(key);
        if (named == named_.end()) named = named_.emplace(key, named_rows(access.allocation, slots, store)).first;
        if (!named->second) return false;
        const int64_t pad_rows = slots ? allocation.row_in_pad(allocation.slot_rows - 1) + 1 : allocation.rows_per_pad();
        const auto is_free = [&](int64_t pad, int64_t row) {
            if (!store && !ahead && row >= 0 && row < pad_rows) return true;
            if (slots && allocation.slot_gap == 0) row = floor_mod(row, pad_rows);
            return !named->second->contains({pad, row});
        };
        const int64_t iterations = kernel_.loops[static_cast<size_t>(loop_)].extent;
        const std::optional<std::set<int64_t>> firsts = rows_of(access, loop_);
        return firsts && std::all_of(firsts->begin(), firsts->end(), [&](int64_t row) {
                   const auto [pad, first] = place(allocation, row);
                   bool free = true;
                   for (int64_t i = 1; i <= in_front; i++) free = free && is_free(pad, first - i * in_pad);
                   for (int64_t i = 0; i < behind; i++) free = free && is_free(pad, first + (iterations + i) * in_pad);
                   return free;
               });
    }

    // Rows of a buffer, or of its slots, that transfers bring, and for stores those that operations name, too: pads and rows in
    // them. Nothing where that is not known.
    using Rows = std::set<std::pair<int64_t, int64_t>>;
    std::optional<Rows> named_rows(int buffer, bool slots, bool store) const {
        const Allocation &allocation = kernel_.allocations[static_cast<size_t>(buffer)];
        if (allocation.moved.empty() && is_transferred(buffer)) return std::nullopt;
        const int64_t rows = slots ? allocation.slot_rows : allocation.rows;
        Rows named;
        for (int64_t row = 0; row < rows; row++)
            if (static_cast<size_t>(row) < allocation.moved.size() && allocation.moved[static_cast<size_t>(row)])
                named.insert(place(allocation, row));
        if (!store) return named;
        for (const Block &block : blocks_)
            for (const Op &op : block.ops) {
                if (!op.access || op.access->allocation != buffer) continue;
                const std::optional<std::set<int64_t>> touched = rows_of(*op.access, -1);
                if (!touched) return std::nullopt;
                for (int64_t row : *touched)
                    if (slots || (row >= 0 && row < rows)) named.insert(place(allocation, floor_mod(row, rows)));
            }
        return named;
    }

    static std::pair<int64_t, int64_t> place(const Allocation &allocation, int64_t row) {
        return {floor_mod(floor_div(row, allocation.block), allocation.interleave), allocation.row_in_pad(row)};
    }

    bool is_transferred(int allocation) const {
        const auto transfers = [&](const Op &op) { return op.orders == allocation; };
        return std::any_of(blocks_.begin(), blocks_.end(), [&](const Block &block) {
            return std::any_of(block.ops.begin(), block.ops.end(), [&](const Op &op) {
                return transfers(op) || (op.side && std::any_of(op.side->begin(), op.side->end(), transfers));
            });
        });
    }

    // The rows that an access touches while the loops run, but for one of them, which is at its first iteration.
    std::optional<std::set<int64_t>> rows_of(const PadAccess &access, int but_for) const {
        std::set<int64_t> rows = {access.row.constant};
        for (const auto &[atom, step] : access.row.terms) {
            const Atom &what = kernel_.atoms[static_cast<size_t>(atom)];
            if (!what.is_loop) return std::nullopt;
            if (what.loop == but_for) continue;
            std::set<int64_t> more;
            for (int64_t row : rows)
                for (int64_t i = 0; i < kernel_.loops[static_cast<size_t>(what.loop)].extent; i++) more.insert(row + i * step);
            rows = std::move(more);
        }
        return rows;
    }

    // Do transfers bring other rows of the buffer while the loop reads it?
    bool loads_ahead(int allocation) const {
        if (kernel_.loops[static_cast<size_t>(loop_)].arriving.contains(allocation)) return true;
        const auto brings = [&](const Op &op) { return op.opcode == Opcode::scpad_ld && op.orders == allocation && op.ahead; };
        return std::any_of(blocks_.begin(), blocks_.end(), [&](const Block &block) {
            return std::any_of(block.ops.begin(), block.ops.end(), [&](const Op &op) {
                return brings(op) || (op.side && std::any_of(op.side->begin(), op.side->end(), brings));
            });
        });
    }

    const Kernel &kernel_;
    const Blocks &blocks_;
    size_t b_;
    const ScheduleGraph &graph_;
    const ModuloSchedule &schedule_;
    int loop_ = -1;
    mutable std::map<std::tuple<int, bool, bool>, std::optional<Rows>> named_;  // by buffer, slots, store
};

}  // namespace

bool may_idle(const Kernel &kernel, const Loop &loop) {
    const auto is_harmless = [](const Node &node) { return node.op && harmless(*node.op); };
    if (loop.extent <= 1 || !std::ranges::all_of(loop.body, is_harmless)) return false;
    const auto ops = loop.body | std::views::transform([](const Node &node) -> const Op & { return *node.op; });
    return std::ranges::any_of(ops, [](const Op &op) { return op.opcode == Opcode::vreg_ld; }) &&
           weights_may_idle(kernel.loops[static_cast<size_t>(loop.id)], ops);
}

bool idling_pays(const Machine &machine, double packets, double runs, double interval) {
    constexpr double hidden = 0.4;  // of the time of that code
    return fetch_cycles(machine) * packets > hidden * runs * interval;
}

bool can_idle(const Kernel &kernel, const Blocks &blocks, size_t b, const ScheduleGraph &graph,
              const ModuloSchedule &schedule) {
    return kernel.machine->timed() && schedule.stages > 1 && !schedule.later && schedule.deferred.empty() &&
           Idle(kernel, blocks, b, graph, schedule).possible();
}

std::vector<Op> set_back(const ScheduleGraph &graph, const ModuloSchedule &schedule) {
    constexpr int64_t smallest_immediate = -2048;
    const std::set<Reg> pointers = registers_between_iterations(graph);
    std::vector<Op> ops;
    for (size_t i = 0; i < schedule.stage.size(); i++) {
        Op op = graph.ops[i];
        if (!pointers.count(op.dst) || schedule.stage[i] == 0) continue;
        int times = schedule.stage[i];
        const int64_t back = -static_cast<int64_t>(op.imm) * times;
        if (op.opcode == Opcode::add_s) {
            op.opcode = Opcode::sub_s;
        } else if (back >= smallest_immediate && back <= -smallest_immediate - 1) {
            op.imm = static_cast<int32_t>(back);
            times = 1;
        } else {
            op.opcode = Opcode::subi_s;
        }
        ops.insert(ops.end(), static_cast<size_t>(times), op);
    }
    return ops;
}

}  // namespace atalla::codegen
