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
    // How often a register is made and read between two iterations' first makings of it: all of that is a life.
    struct Life {
        int made = 0, read = 0;
        bool operator==(const Life &) const = default;
    };
    std::map<int32_t, Life> whole;  // of the loop's registers
    std::set<int32_t> read_first;
    for (const Op &op : loop_ops) {
        for (Reg r : reads_of(op)) {
            if (whole[r.id].made == 0) read_first.insert(r.id);
            whole[r.id].read++;
        }
        if (op.dst.defined()) whole[op.dst.id].made++;
    }
    const auto may_change = [&](Reg r) {
        return r.defined() && r.id > all_lanes.id && kernel.cls(r) != RegisterClass::Scalar && !read_first.count(r.id) &&
               whole[r.id].made > 0;
    };
    std::map<int32_t, std::vector<Life>> here;
    for (const Op &op : ops) {
        for (Reg r : reads_of(op))
            if (const auto lives = here.find(r.id); lives != here.end()) lives->second.back().read++;
        if (!may_change(op.dst)) continue;
        std::vector<Life> &lives = here[op.dst.id];
        if (lives.empty() || lives.back().made == whole[op.dst.id].made) lives.emplace_back();
        lives.back().made++;
    }
    // Masks are few: each life has a register of its own. The lives of a vector, which follow each other, share one.
    const auto all_whole = [&](Reg r) {
        return std::ranges::all_of(here[r.id], [&](const Life &life) { return life == whole[r.id]; });
    };
    Renaming names;
    std::map<int32_t, int> made;
    for (Op &op : ops) {
        const Reg made_here = op.dst;
        if (may_change(made_here)) {
            const int before = made[made_here.id]++, of_life = whole[made_here.id].made;
            const bool mask = kernel.is_mask(made_here);
            if (before % of_life == 0 &&
                (mask ? here[made_here.id][static_cast<size_t>(before / of_life)] == whole[made_here.id]
                      : before == 0 && all_whole(made_here)))
                names[made_here.id] = kernel.register_like(made_here);
            else if (before % of_life == 0 && mask)
                names.erase(made_here.id);
        }
        rename(op, names);
    }
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
