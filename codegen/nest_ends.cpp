#include "codegen/nest_ends.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "codegen/dependence.h"

namespace atalla::codegen {

namespace {

bool depends_on(const Kernel &kernel, const LinearForm &row, int loop) {
    return std::any_of(row.terms.begin(), row.terms.end(),
                       [&](const auto &term) { return kernel.atoms[static_cast<size_t>(term.first)].loop == loop; });
}

// The allocations whose rows a nest stores, or transfers from inside of it.
std::set<int> changed_in(const Blocks &blocks, size_t first, size_t last) {
    std::set<int> changed;
    const auto note = [&](const Op &op) {
        if (op.access && op.opcode == Opcode::vreg_st) changed.insert(op.access->allocation);
        if (op.orders >= 0) changed.insert(op.orders);
    };
    for (size_t b = first; b <= last; b++)
        for (const Op &op : blocks[b].ops) {
            note(op);
            if (op.side) std::for_each(op.side->begin(), op.side->end(), note);
        }
    return changed;
}

// What may run once too often: it starts no transfer, leaves the weights as they are, and touches the rows of slots, which are
// free then as in every other turn, or loads some that stay as they are.
bool may_run_again(const Kernel &kernel, const Op &op, int loop, const std::set<int> &changed) {
    const Unit unit = info(op.opcode).unit;
    if (op.side || is_branch(op.opcode) || unit == Unit::Sdma || unit == Unit::Ex5 || op.opcode == Opcode::lw_vi ||
        op.opcode == Opcode::div_s || op.opcode == Opcode::mod_s)
        return false;
    if (unit == Unit::Vlsu && !op.access) return false;
    return !op.access || !depends_on(kernel, op.access->row, loop) ||
           (op.opcode == Opcode::vreg_ld && !changed.count(op.access->allocation));
}

std::set<Reg> written_by(const std::vector<Op> &ops) {
    std::set<Reg> written;
    for (const Op &op : ops)
        if (op.dst.defined() && op.dst.id > all_lanes.id) written.insert(op.dst);
    return written;
}

// Of what the start writes, that which code behind the nest reads: it wants what the last turn has left.
std::set<Reg> needed_behind(const Blocks &blocks, size_t first, size_t last) {
    std::set<Reg> written = written_by(blocks[first].ops), needed;
    const auto note = [&](Reg r) {
        if (written.count(r)) needed.insert(r);
    };
    for (size_t b = last + 1; b < blocks.size(); b++) {
        for (const Op &op : blocks[b].ops)
            for (Reg r : reads_of(op)) note(r);
        note(blocks[b].end.index);
        note(blocks[b].end.limit);
    }
    return needed;
}

bool is_wait(const Op &op) { return op.opcode == Opcode::or_s && op.dst == zero_scalar && op.orders >= 0; }

// What a unit makes of registers, all lanes of it.
bool computes(const Op &op) {
    switch (info(op.opcode).unit) {
        case Unit::Ex1:
        case Unit::Ex2:
        case Unit::Ex3:
        case Unit::Ex4:
        case Unit::Alu:
        case Unit::Mul:
        case Unit::Exp:
        case Unit::Reduce:
        case Unit::MoveToScalar:
            break;
        default:
            return false;
    }
    return op.orders < 0 && !op.fence && !op.side && !op.mask.defined() && !op.keeps_dst && op.dst.defined() &&
           op.dst.id > all_lanes.id;
}

// By operation of the start: may it run at the end of its turn as well, once more in the first one? What it reads is still
// there then and nothing before needs what it makes.
std::vector<bool> may_be_late(const Kernel &kernel, const Blocks &blocks, size_t first, size_t last) {
    const std::vector<Op> &start = blocks[first].ops;
    std::map<Reg, int> writers;
    std::set<Reg> read_inside, needed = needed_behind(blocks, first, last);
    for (size_t b = first; b <= last; b++) {
        for (const Op &op : blocks[b].ops) {
            writers[op.dst]++;
            if (b > first && b < last)
                for (Reg r : reads_of(op)) read_inside.insert(r);
        }
        const Terminator &end = blocks[b].end;
        writers[end.index]++;
        read_inside.insert({end.index, end.limit});
    }
    std::vector<bool> late(start.size(), false);
    std::set<Reg> read_behind;          // in the start, by operations that stay
    std::map<Reg, int> written_before;  // in the start
    for (const Op &op : start) written_before[op.dst]++;
    for (size_t i = start.size(); i-- > 0;) {
        const Op &op = start[i];
        written_before[op.dst]--;
        const std::vector<Reg> sources = reads_of(op);
        const bool stay =
            std::all_of(sources.begin(), sources.end(), [&](Reg r) { return r != op.dst && written_before[r] == writers[r]; });
        late[i] = computes(op) && stay && writers[op.dst] == 1 && kernel.cls(op.dst) != RegisterClass::Mask &&
                  !read_inside.count(op.dst) && !read_behind.count(op.dst) && !needed.count(op.dst);
        if (!late[i]) read_behind.insert(sources.begin(), sources.end());
    }
    return late;
}

// The registers that live inside of the start alone.
std::set<Reg> own_registers(const Blocks &blocks, size_t first, const std::vector<bool> &comes_late) {
    std::set<Reg> own, others;
    const auto mention = [&](const Op &op) {
        for (Reg r : reads_of(op)) others.insert(r);
        others.insert(op.dst);
    };
    for (size_t b = 0; b < blocks.size(); b++) {
        others.insert({blocks[b].end.index, blocks[b].end.limit});
        for (size_t i = 0; i < blocks[b].ops.size(); i++)
            if (b != first || comes_late[i]) mention(blocks[b].ops[i]);
    }
    for (const Op &op : blocks[first].ops) {
        for (Reg r : reads_of(op))
            if (!own.count(r)) others.insert(r);
        if (op.dst.defined() && op.dst.id > all_lanes.id && !others.count(op.dst)) own.insert(op.dst);
    }
    return own;
}

}  // namespace

bool can_join_ends(const Kernel &kernel, const Blocks &blocks, size_t first, size_t last) {
    const Terminator &end = blocks[last].end;
    if (!kernel.machine->timed() || first == 0 || first >= last || blocks[first].end.kind != Terminator::Next ||
        end.kind != Terminator::Loop || end.target != static_cast<int>(first))
        return false;
    for (size_t b = 0; b < blocks.size(); b++) {
        const Terminator &other = blocks[b].end;
        if (b == last || (other.kind != Terminator::Loop && other.kind != Terminator::Skip)) continue;
        const bool around = b > last && other.kind == Terminator::Loop && other.target <= static_cast<int>(first);
        if (around || other.target == static_cast<int>(first)) return false;
    }
    const int loop = loop_of(kernel, end);
    const std::vector<Op> &start = blocks[first].ops;
    const std::set<int> changed = changed_in(blocks, first, last);
    if (!std::all_of(start.begin(), start.end(), [&](const Op &op) { return may_run_again(kernel, op, loop, changed); }))
        return false;
    const std::set<Reg> written = written_by(start), needed = needed_behind(blocks, first, last);
    if (written.count(end.index) || written.count(end.limit)) return false;
    if (std::any_of(needed.begin(), needed.end(), [&](Reg r) { return kernel.cls(r) != RegisterClass::Scalar; })) return false;
    for (size_t b = last + 1; b < blocks.size(); b++)
        if (std::any_of(blocks[b].ops.begin(), blocks[b].ops.end(), [](const Op &op) { return op.side != nullptr; }))
            return false;
    // Slots that rotate are told apart by the turn in which they were filled; what this one fills it must not load at its end.
    return std::none_of(blocks[last].ops.begin(), blocks[last].ops.end(),
                        [](const Op &op) { return op.opcode == Opcode::vreg_ld && op.access && op.access->turn == 0; });
}

JoinedEnds joined_ends(Kernel &kernel, const Blocks &blocks, size_t first, size_t last, bool late) {
    const std::vector<bool> comes_late =
        late ? may_be_late(kernel, blocks, first, last) : std::vector<bool>(blocks[first].ops.size(), false);
    JoinedEnds joined;
    std::vector<Op> &ops = joined.ops;
    for (size_t i = 0; i < comes_late.size(); i++)
        if (comes_late[i]) ops.push_back(blocks[first].ops[i]);
    for (Op op : blocks[last].ops) {
        if (op.access) {
            op.access->earlier = true;
            if (op.access->turn >= 0) op.access->turn++;
        }
        ops.push_back(std::move(op));
    }
    // The loop's variable grows behind the block.
    const Reg index = blocks[last].end.index;
    const std::vector<Op> &start = blocks[first].ops;
    Renaming names;
    for (Reg r : own_registers(blocks, first, comes_late)) names[r.id] = kernel.register_like(r);
    if (std::any_of(start.begin(), start.end(), [&](const Op &op) { return reads(op, index); })) {
        Op next;
        next.opcode = Opcode::addi_s;
        next.dst = kernel.register_like(index);
        next.src = {index};
        next.imm = 1;
        names[index.id] = next.dst;
        ops.push_back(next);
    }
    for (Reg r : needed_behind(blocks, first, last)) {
        Op keep;
        keep.opcode = Opcode::or_s;
        keep.dst = joined.behind[r.id] = kernel.register_like(r);
        keep.src = {r, zero_scalar};
        ops.push_back(keep);
    }
    for (size_t i = 0; i < start.size(); i++) {
        if (comes_late[i]) continue;
        Op op = start[i];
        // Transfers have had the time of the loops inside.
        if (is_wait(op)) op.ahead = false;
        rename(op, names);
        ops.push_back(std::move(op));
    }
    return joined;
}

void join_ends(Blocks &blocks, size_t first, size_t last, JoinedEnds joined) {
    blocks[last].ops = std::move(joined.ops);
    blocks[last].end.target = static_cast<int>(first) + 1;
    for (size_t b = last + 1; b < blocks.size(); b++) {
        for (Op &op : blocks[b].ops) rename(op, joined.behind);
        for (Reg *r : {&blocks[b].end.index, &blocks[b].end.limit})
            if (const auto found = joined.behind.find(r->id); found != joined.behind.end()) *r = found->second;
    }
}

}  // namespace atalla::codegen
