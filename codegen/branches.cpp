#include "codegen/branches.h"

#include <algorithm>
#include <map>

#include "codegen/resources.h"

namespace atalla::codegen {

namespace {

class Branches {
public:
    Branches(const Kernel &kernel, Blocks &blocks, const Delays &delays, bool optimize)
        : kernel_(kernel), machine_(*kernel.machine), blocks_(blocks), delays_(delays), optimize_(optimize) {}

    void run() {
        for (size_t b = 0; b < blocks_.size(); b++) add_terminator(b);
        for (size_t b = 0; b < blocks_.size(); b++) keep_end_together(b);
        add_islands();
        while (lengthen_a_branch()) {
        }
    }

private:
    void add_terminator(size_t b) {
        Block &block = blocks_[b];
        const Terminator &end = block.end;
        Op op;
        if (block.from_block >= 0) return;
        if (end.kind == Terminator::Next) {
            if (stands_apart(blocks_, b) && !blocks_[b + 1].rare) append_jump(block, static_cast<int>(b) + 1);
            return;
        }
        if (end.kind == Terminator::Halt) {
            op.opcode = Opcode::halt_s;
            block.packets.push_back({op});
            return;
        }
        if (end.kind == Terminator::Return) {
            op.opcode = Opcode::jalr;
            op.dst = zero_scalar;
            op.src = {kernel_.routine->next};
            block.packets.push_back({op});
            return;
        }
        op.imm = end.target;
        op.src = {end.index, end.kind == Terminator::Loop ? end.limit : zero_scalar};
        // A branch reaches about a hundred packets; further it takes a jump, with the branch stepping over it.
        constexpr size_t furthest = 100, room_for_a_way = 15;
        // Ways to code out of line may still come in between.
        size_t sides = 0;
        for (size_t inside = static_cast<size_t>(end.target); end.kind == Terminator::Loop && inside <= b; inside++)
            for (const OpGroup &packet : blocks_[inside].packets)
                sides += std::any_of(packet.begin(), packet.end(), [](const Op &inner) { return inner.side != nullptr; });
        const size_t reach = furthest - std::min(furthest, sides * room_for_a_way);
        if (end.kind == Terminator::Skip) {
            op.dst = end.index;
            if (!block.rare && stands_apart(blocks_, b + 1)) {
                op.opcode = Opcode::beq_s;
                append_branch(block, op);
                append_jump(block, static_cast<int>(b) + 1);
                return;
            }
            if (packets_between(b + 1, static_cast<size_t>(end.target), 2) <= reach) {
                op.opcode = Opcode::beq_s;
                append_branch(block, op);
                return;
            }
            op.opcode = Opcode::bne_s;
            op.imm = static_cast<int32_t>(b) + 1;
            append_branch(block, op);
            append_jump(block, end.target);
            return;
        }
        op.dst = end.index;
        op.aux = 1;
        if (packets_between(static_cast<size_t>(end.target), b + 1, 0) < reach) {
            op.opcode = Opcode::blt_s;
            append_branch(block, op);
            return;
        }
        op.opcode = Opcode::bge_s;
        op.imm = static_cast<int32_t>(b) + 1;
        append_branch(block, op);
        append_jump(block, end.target);
    }

    // A line that is missing once results are leaving comes when all of their beats are written. What stands between the first
    // of these transfers and the jump that ends the block takes two lines, the second of which is asked for before the first
    // beat leaves.
    void keep_end_together(size_t b) {
        std::vector<OpGroup> &packets = blocks_[b].packets;
        if (!optimize_ || !machine_.timed() || packets.empty() || packets.back().front().opcode != Opcode::jal ||
            blocks_[b].from_block >= 0)
            return;
        const auto starts = [](const Op &op) { return op.opcode == Opcode::scpad_st; };
        const auto first = std::find_if(packets.begin(), packets.end(), [&](const OpGroup &packet) {
            return std::any_of(packet.begin(), packet.end(), starts);
        });
        const int64_t line = machine_.icache.line, bytes = packet_bytes * (packets.end() - first);
        const int64_t at = lay_out(blocks_).start[b] + packet_bytes * (first - packets.begin());
        constexpr int most = 9;  // of 16 packets, three begin where that is possible
        for (int fillers = 0; bytes > 0 && fillers <= most; fillers++) {
            if ((at + fillers * packet_bytes) % line + bytes > 2 * line) continue;
            // Code out of line returns behind the packet that branches to it.
            const auto place = static_cast<int>(first - packets.begin());
            for (Block &side : blocks_)
                if (side.from_block == static_cast<int>(b) && side.from_packet >= place) side.from_packet += fillers;
            packets.insert(first, static_cast<size_t>(fillers), idle_packet());
            return;
        }
    }

    // Packets of the blocks from `first` up to `last`, which is not counted, with room at their ends for branches still to
    // come.
    size_t packets_between(size_t first, size_t last, size_t room) const {
        size_t count = 0;
        for (size_t b = first; b < last; b++) count += blocks_[b].packets.size() + room;
        return count;
    }

    static void append_jump(Block &block, int target) {
        Op jump;
        jump.opcode = Opcode::jal;
        jump.dst = zero_scalar;
        jump.imm = target;
        block.packets.push_back({jump});
    }

    // Into the last packet where it fits, otherwise into one of its own.
    void append_branch(Block &block, const Op &branch) {
        if (optimize_ && !block.packets.empty()) {
            OpGroup &last = block.packets.back();
            bool fits = true;
            for (const Op &op : last) {
                if (op.dst == branch.src[0] || op.dst == branch.src[1] || delays_.touches(op)) fits = false;
            }
            if (fits && machine_.issue.slots > static_cast<int64_t>(last.size())) {
                ResourceTable packet(kernel_, 0);
                for (const Op &op : last) packet.take(op, 0);
                if (packet.fits(branch, 0)) {
                    last.push_back(branch);
                    return;
                }
            }
        }
        block.packets.push_back({branch});
    }

    // Branches that do not reach their block out of line go to a jump that does: behind their own block, in front of it, or, if
    // both are too far, right behind the branch.
    void add_islands() {
        constexpr int64_t least_room = 8;  // jumps
        const size_t blocks = blocks_.size();
        std::map<int, int64_t> ways;  // from each block
        for (const Block &block : blocks_) ways[block.from_block]++;
        for (size_t o = 0; o < blocks; o++) {
            if (blocks_[o].from_block < 0) continue;
            const int64_t room_for_others = std::max(least_room, ways[blocks_[o].from_block]);
            const ProgramLayout layout = lay_out(blocks_);
            const int from = blocks_[o].from_block, packet = blocks_[o].from_packet;
            const int64_t offset = layout.start[o] - (layout.start[from] + packet * packet_bytes);
            if (offset >= furthest_back && offset <= furthest_ahead - room_for_others * packet_bytes) continue;
            const auto behind = static_cast<int64_t>(blocks_[from].packets.size()) - packet;
            const bool reaches_behind = (behind + room_for_others) * packet_bytes <= furthest_ahead;
            if (!reaches_behind && (packet + room_for_others) * packet_bytes > -furthest_back) {
                jump_behind_branch(o);
                continue;
            }
            Block island;
            island.label = "way to " + blocks_[o].label;
            island.from_block = from;
            island.from_packet = packet;
            island.before = reaches_behind ? from + 1 : from;
            island.island = true;
            Op jump;
            jump.opcode = Opcode::jal;
            jump.dst = zero_scalar;
            jump.imm = static_cast<int32_t>(o);
            island.packets.push_back({jump});
            for (Op &op : blocks_[from].packets[packet])
                if (op.side && op.imm == static_cast<int32_t>(o)) op.imm = static_cast<int32_t>(blocks_.size());
            blocks_.push_back(std::move(island));
        }
    }

    // A branch at the end of a block that more code out of line than expected came in front of steps over a jump instead. One
    // at a time: what is longer now may take another out of reach.
    bool lengthen_a_branch() {
        const ProgramLayout layout = lay_out(blocks_);
        for (size_t b = 0; b < blocks_.size(); b++) {
            Block &block = blocks_[b];
            const Terminator &end = block.end;
            if (block.from_block >= 0 || (end.kind != Terminator::Loop && end.kind != Terminator::Skip)) continue;
            const auto last = static_cast<int64_t>(block.packets.size()) - 1;
            const int64_t offset = layout.start[end.target] - (layout.start[b] + last * packet_bytes);
            if (offset >= furthest_back && offset <= furthest_ahead) continue;
            for (Op &op : block.packets.back()) {
                if (op.side || op.imm != end.target || (op.opcode != Opcode::blt_s && op.opcode != Opcode::beq_s)) continue;
                op.opcode = op.opcode == Opcode::blt_s ? Opcode::bge_s : Opcode::bne_s;
                op.imm = static_cast<int32_t>(b) + 1;
                append_jump(block, end.target);
                return true;
            }
        }
        return false;
    }

    // The jump to block `o` stands behind the packet that branches to it, and behind another jump, over it.
    void jump_behind_branch(size_t o) {
        constexpr int added = 2;
        Block &from = blocks_[blocks_[o].from_block];
        const int at = blocks_[o].from_packet;
        for (Block &block : blocks_)
            if (block.from_block == blocks_[o].from_block && block.from_packet > at) block.from_packet += added;
        std::map<int, int> jumps;
        for (auto [packet, to] : from.jumps) jumps[packet + (packet > at ? added : 0)] = to + (to > at ? added : 0);
        from.jumps = std::move(jumps);
        Op jump;
        jump.opcode = Opcode::jal;
        jump.dst = zero_scalar;
        jump.imm = static_cast<int32_t>(o);
        from.packets.insert(from.packets.begin() + at + 1, added, OpGroup{jump});
        from.jumps[at] = at + 2;
        from.jumps[at + 1] = at + 3;
        blocks_[o].from_packet = at + 2;
    }

    const Kernel &kernel_;
    const Machine &machine_;
    Blocks &blocks_;
    const Delays &delays_;
    const bool optimize_;
};

}  // namespace

void add_branches(const Kernel &kernel, Blocks &blocks, const Delays &delays, bool optimize) {
    Branches(kernel, blocks, delays, optimize).run();
}

OpGroup idle_packet() {
    Op idle;
    idle.opcode = Opcode::or_s;
    idle.dst = zero_scalar;
    idle.src = {zero_scalar, zero_scalar};
    return {idle};
}

bool branches_reach(const Blocks &blocks) {
    const ProgramLayout layout = lay_out(blocks);
    for (size_t b = 0; b < blocks.size(); b++)
        for (size_t p = 0; p < blocks[b].packets.size(); p++)
            for (const Op &op : blocks[b].packets[p]) {
                if (!is_branch(op.opcode)) continue;
                const int64_t offset =
                    layout.start[static_cast<size_t>(op.imm)] - layout.start[b] - static_cast<int64_t>(p) * packet_bytes;
                if (op.imm != static_cast<int32_t>(b) + 1 && (offset < furthest_back || offset > furthest_ahead)) return false;
            }
    return true;
}

}  // namespace atalla::codegen
