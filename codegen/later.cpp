#include "codegen/later.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "codegen/dependence.h"

namespace atalla::codegen {

namespace {

using Registers = std::set<int32_t>;

// Registers of the operations that are not the same throughout the kernel.
Registers changing_registers(const Kernel &kernel, const std::vector<Op> &ops) {
    Registers registers;
    const auto note = [&](Reg r) {
        if (r.defined() && r.id > all_lanes.id && !kernel.registers[r.id].constant) registers.insert(r.id);
    };
    for (const Op &op : ops) {
        note(op.dst);
        for (Reg r : reads_of(op)) note(r);
    }
    return registers;
}

bool uses(const Block &block, const Registers &registers) {
    return std::any_of(block.ops.begin(), block.ops.end(), [&](const Op &op) {
        const std::vector<Reg> reads = reads_of(op);
        return std::any_of(reads.begin(), reads.end(), [&](Reg r) { return registers.count(r.id) > 0; }) ||
               (op.dst.defined() && registers.count(op.dst.id) > 0);
    });
}

// In front of a block, or at the end of one.
struct Place {
    size_t block = 0;
    bool at_end = false;
};

// The block of the next turn, if the operations run in one, and the place behind the nest.
struct Places {
    std::optional<size_t> turn;
    Place behind;
};

// The end of the branch that a loop is in: what skips the branch has had no loop.
std::optional<size_t> end_of_branch(const Blocks &blocks, size_t loop) {
    std::optional<size_t> end;
    for (size_t b = 0; b < loop; b++)
        if (blocks[b].end.kind == Terminator::Skip && static_cast<size_t>(blocks[b].end.target) > loop)
            end = std::min(end.value_or(blocks.size()), static_cast<size_t>(blocks[b].end.target));
    return end;
}

// Does code in front of the loop, from a block on, give each of these sums a value that is not made of the one before? In the
// first turn of a nest whose turns go on with a sum there is nothing yet that could be added.
bool begin_anew(const Kernel &kernel, const Blocks &blocks, size_t first, size_t loop, const std::vector<Op> &ops) {
    return std::all_of(ops.begin(), ops.end(), [&](const Op &sum) {
        const auto reads = [&](const Op &op) {
            const std::vector<Reg> regs = reads_of(op);
            return std::find(regs.begin(), regs.end(), sum.dst) != regs.end();
        };
        if (!sum.dst.defined() || kernel.cls(sum.dst) != RegisterClass::Vector || !reads(sum)) return true;
        for (size_t b = first; b < loop; b++)
            for (const Op &op : blocks[b].ops)
                if (op.dst == sum.dst && !reads(op)) return true;
        return false;
    });
}

Places find_places(const Kernel &kernel, const Blocks &blocks, size_t loop, const std::vector<Op> &ops) {
    const Registers registers = changing_registers(kernel, ops);
    Places places;
    const std::optional<size_t> end_of = end_of_branch(blocks, loop);
    size_t b = loop + 1;
    for (; b < blocks.size(); b++) {
        if (b == end_of) {
            places.behind = {b - 1, true};
            return places;
        }
        if (uses(blocks[b], registers) || blocks[b].end.leaves() || blocks[b].end.kind == Terminator::Skip) break;
        if (blocks[b].end.kind == Terminator::Loop && !places.turn) {
            size_t head = static_cast<size_t>(blocks[b].end.target);
            while (head < b && !uses(blocks[head], registers) && blocks[head].end.kind == Terminator::Next) head++;
            if (head >= b || !uses(blocks[head], registers) || !begin_anew(kernel, blocks, head, loop, ops)) break;
            places.turn = head;
        }
    }
    // Not in a loop that runs later, but before it.
    size_t before = b + 1;
    for (size_t end = b; end < blocks.size(); end++)
        if (blocks[end].end.kind == Terminator::Loop && static_cast<size_t>(blocks[end].end.target) > loop)
            before = std::min(before, static_cast<size_t>(blocks[end].end.target));
    places.behind = before <= b ? Place{before - 1, true} : Place{b, false};
    return places;
}

// The first and last block of the outermost loop around a block.
std::pair<size_t, size_t> nest_around(const Blocks &blocks, size_t loop) {
    std::pair<size_t, size_t> nest = {loop, loop};
    for (size_t b = loop; b < blocks.size(); b++)
        if (blocks[b].end.kind == Terminator::Loop && static_cast<size_t>(blocks[b].end.target) <= nest.first)
            nest = {static_cast<size_t>(blocks[b].end.target), b};
    return nest;
}

bool transfers_to(const std::vector<Op> &ops, int allocation) {
    return std::any_of(ops.begin(), ops.end(), [&](const Op &op) {
        return op.side ? transfers_to(*op.side, allocation) : op.opcode == Opcode::scpad_ld && op.orders == allocation;
    });
}

}  // namespace

std::vector<Op> with_own_registers(Kernel &kernel, const std::vector<Op> &loop_ops, std::vector<Op> ops) {
    // How often operations make and read a register: all of the loop's, and those here.
    struct Uses {
        int made = 0, read = 0;
    };
    std::map<int32_t, Uses> everywhere, here;
    const auto count = [](const std::vector<Op> &list, std::map<int32_t, Uses> &uses) {
        for (const Op &op : list) {
            for (Reg r : reads_of(op)) uses[r.id].read++;
            if (op.dst.defined()) uses[op.dst.id].made++;
        }
    };
    count(loop_ops, everywhere);
    count(ops, here);
    // Whole lives, of one iteration or of several.
    const auto lives_here = [&](int32_t r) {
        const Uses all = everywhere[r], some = here[r];
        return all.made > 0 && some.made % all.made == 0 && some.read == some.made / all.made * all.read;
    };
    std::set<int32_t> made;  // before they are read
    std::set<int32_t> seen;
    for (const Op &op : ops) {
        for (Reg r : reads_of(op)) seen.insert(r.id);
        if (op.dst.defined() && seen.insert(op.dst.id).second && kernel.cls(op.dst) != RegisterClass::Scalar &&
            op.dst.id > all_lanes.id && lives_here(op.dst.id))
            made.insert(op.dst.id);
    }
    Renaming names;
    for (int32_t r : made) names[r] = kernel.register_like(Reg{r});
    for (Op &op : ops) rename(op, names);
    return ops;
}

void place_later(Kernel &kernel, Blocks &blocks, size_t loop, const std::vector<Op> &ops) {
    const Places places = find_places(kernel, blocks, loop, ops);
    const auto insert = [&](size_t block, bool at_end) {
        std::vector<Op> copy = with_own_registers(kernel, blocks[loop].ops, ops);
        for (Op &op : copy)
            if (op.access) op.access->earlier = true;
        std::vector<Op> &into = blocks[block].ops;
        into.insert(at_end ? into.end() : into.begin(), copy.begin(), copy.end());
    };
    if (places.turn) insert(*places.turn, false);
    insert(places.behind.block, places.behind.at_end);
}

bool can_turn(const Kernel &kernel, const Blocks &blocks, size_t loop, const std::vector<Op> &ops) {
    const Registers registers = changing_registers(kernel, ops);
    const Places places = find_places(kernel, blocks, loop, ops);
    if (!places.turn || *places.turn + 1 != loop) return false;
    const auto [first, last] = nest_around(blocks, loop);
    if (first == 0 || first == loop) return false;
    for (const Op &op : ops) {
        if (op.opcode == Opcode::vreg_st || op.side || op.orders >= 0) return false;
        if (op.opcode != Opcode::vreg_ld) continue;
        if (!op.access) return false;
        const int allocation = op.access->allocation;
        for (size_t b = first; b <= last; b++) {
            // Transfers from the loop and the block in front of it go to the other slot.
            const bool near = b == loop || b == *places.turn;
            if (transfers_to(blocks[b].ops, allocation) && !(near && op.access->slot.defined())) return false;
        }
    }
    // Rows need the weights that the loop has left in the array.
    const auto has = [](const std::vector<Op> &list, Opcode opcode) {
        return std::any_of(list.begin(), list.end(), [&](const Op &op) { return op.opcode == opcode; });
    };
    const bool rows = has(ops, Opcode::gemm_vv);
    for (size_t b = first; b <= last; b++)
        if (b != loop && b != *places.turn && (uses(blocks[b], registers) || (rows && has(blocks[b].ops, Opcode::lw_vi))))
            return false;
    return true;
}

void aim_first_turn(Kernel &kernel, Blocks &blocks, size_t loop, const std::vector<Op> &ops) {
    std::vector<Op> &before = blocks[nest_around(blocks, loop).first - 1].ops;
    std::map<Reg, std::pair<int, int64_t>> pointers;  // the allocation, and the furthest row from the pointer
    for (const Op &op : ops) {
        if (op.opcode != Opcode::vreg_ld || kernel.registers[op.src[0].id].constant) continue;
        auto &[allocation, furthest] = pointers[op.src[0]];
        allocation = op.access->allocation;
        furthest = std::max<int64_t>(furthest, kernel.registers[op.src[1].id].constant.value_or(0));
    }
    for (const auto &[pointer, rows] : pointers) {
        // The last rows: transfers begin with the first ones, and of two slots with the first.
        const Allocation &allocation = kernel.allocations[rows.first];
        const int64_t row = std::max(allocation.base_row, allocation.base_row + allocation.rows_per_pad() - 1 - rows.second);
        Op aim;
        aim.opcode = Opcode::lui_s;
        aim.dst = pointer;
        constexpr int64_t lui_unit = 128;
        aim.imm = static_cast<int32_t>(row * kernel.machine->pad.row_bytes / lui_unit);
        before.push_back(aim);
    }
}

}  // namespace atalla::codegen
