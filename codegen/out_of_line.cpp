#include "codegen/out_of_line.h"

#include <algorithm>

namespace atalla::codegen {

namespace {

class OutOfLine {
public:
    OutOfLine(const Kernel &kernel, Blocks &blocks, const std::function<void(size_t)> &pack)
        : kernel_(kernel), machine_(*kernel.machine), blocks_(blocks), pack_(pack) {}

    void run() {
        const size_t inline_blocks = blocks_.size();
        // Results leave in every iteration of the loops around, loads in fewer: the code of results is closest to the loop.
        const auto stores = [](const Op &op) {
            return std::any_of(op.side->begin(), op.side->end(),
                               [](const Op &inner) { return inner.opcode == Opcode::scpad_st; });
        };
        for (const bool results : {true, false})
            for (size_t b = 0; b < inline_blocks; b++)
                for (size_t p = 0; p < blocks_[b].packets.size(); p++)
                    for (size_t i = 0; i < blocks_[b].packets[p].size(); i++)
                        if (blocks_[b].packets[p][i].side && stores(blocks_[b].packets[p][i]) == results)
                            take_out_of_line(b, p, i, inline_blocks);
    }

private:
    void take_out_of_line(size_t b, size_t p, size_t i, size_t inline_blocks) {
        Block block;
        block.label = "side of " + blocks_[b].label;
        block.ops = *blocks_[b].packets[p][i].side;
        block.from_block = static_cast<int>(b);
        block.from_packet = static_cast<int>(p);
        block.before = apart_from_loop(b, behind_nest(b, inline_blocks), operations_left(b, inline_blocks));
        blocks_[b].packets[p][i].imm = static_cast<int32_t>(blocks_.size());
        blocks_.push_back(std::move(block));
        pack_(blocks_.size() - 1);
        Op back;
        back.opcode = Opcode::jal;
        back.dst = zero_scalar;
        blocks_.back().packets.push_back({back});
    }

    // Of the branches of a block: those whose code has no place yet.
    int64_t operations_left(size_t b, size_t inline_blocks) const {
        int64_t operations = 0;
        for (const OpGroup &packet : blocks_[b].packets)
            for (const Op &op : packet)
                if (op.side && op.imm < static_cast<int32_t>(inline_blocks))
                    operations += static_cast<int64_t>(op.side->size());
        return operations;
    }

    // That place, but right behind the loop that block b is where the code there, and that of its other branches, would push
    // the loop's packets out of the instruction cache.
    int apart_from_loop(size_t b, int place, int64_t operations) const {
        if (!machine_.timed() || innermost_loop(kernel_, blocks_, b) < 0) return place;
        int64_t packets = 0;
        for (size_t i = b; i < blocks_.size(); i++)
            if (const Block &block = blocks_[i]; block.from_block < 0
                                                     ? static_cast<int>(i) < place
                                                     : block.before > static_cast<int>(b) && block.before <= place)
                packets += static_cast<int64_t>(block.packets.size());
        // Packets that the ends of blocks still get, and lines at both ends.
        constexpr int64_t margin = 12;
        const int64_t capacity = machine_.icache.bytes / machine_.issue.packet_bytes,
                      length = static_cast<int64_t>(blocks_[b].packets.size());
        const int64_t first = packets % capacity;
        const bool meets =
            packets + operations + margin > capacity && (first < length + margin || first + operations + margin > capacity);
        return meets && length + operations + margin < capacity ? static_cast<int>(b) + 1 : place;
    }

    // The place behind the loop around a block and that around it, for code that they branch to: a forward branch is predicted
    // not taken, and what is near does not push the loop out of the instruction cache. Ends of loops further out that are only
    // a few packets come before it: they follow when results leave, and a line that is missing then has to wait for them.
    int behind_nest(size_t b, size_t blocks) const {
        constexpr size_t few_packets = 2;
        int place = static_cast<int>(b) + 1, loops = 0;
        size_t packets = 0;
        for (size_t later = b; later < blocks; later++) {
            if (loops >= 2) packets += blocks_[later].packets.size();
            if (packets > few_packets) break;
            if (blocks_[later].end.kind != Terminator::Loop || blocks_[later].end.target > static_cast<int>(b)) continue;
            place = static_cast<int>(later) + 1;
            loops++;
        }
        return place;
    }

    const Kernel &kernel_;
    const Machine &machine_;
    Blocks &blocks_;
    const std::function<void(size_t)> &pack_;
};

}  // namespace

void move_out_of_line(const Kernel &kernel, Blocks &blocks, const std::function<void(size_t)> &pack) {
    OutOfLine(kernel, blocks, pack).run();
}

}  // namespace atalla::codegen
