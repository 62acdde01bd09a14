#include "codegen/nest_lines.h"

#include <map>
#include <utility>

#include "codegen/branches.h"
#include "codegen/code_cost.h"
#include "isa/vectors.h"

namespace atalla::codegen {

namespace {

// Where a packet begins in a line comes again after so many, and earlier for short lines.
constexpr int packets_per_period = 16;

// Packets in front of a block, which the one before it runs through: at its end, but in front of a jump to the block.
void put_in_front(Blocks &blocks, size_t block, int count) {
    Block &front = blocks[block - 1];
    std::vector<OpGroup> &packets = front.packets;
    const bool jumps = !packets.empty() && packets.back().front().opcode == Opcode::jal;
    const auto place = static_cast<int>(packets.size()) - jumps;
    packets.insert(packets.begin() + place, static_cast<size_t>(count), idle_packet());
    // A block in another order than it runs is left at its end, too.
    const auto moved = [&](int at) { return at < place ? at : at + count; };
    std::map<int, int> moved_jumps;
    for (const auto &[from, to] : front.jumps) moved_jumps[moved(from)] = moved(to);
    front.jumps = std::move(moved_jumps);
}

}  // namespace

void fit_nests_to_lines(const Kernel &kernel, Blocks &blocks) {
    const Machine &machine = *kernel.machine;
    if (!machine.timed()) return;
    const int64_t line = machine.icache.line, lines = machine.icache.bytes / line;
    for (size_t end = 0; end < blocks.size(); end++) {
        const Terminator &terminator = blocks[end].end;
        if (terminator.kind != Terminator::Loop || terminator.target < 1) continue;
        const auto first = static_cast<size_t>(terminator.target);
        const Block &front = blocks[first - 1];
        if (front.end.kind != Terminator::Next || front.from_block >= 0) continue;
        const ProgramLayout layout = lay_out(blocks);
        const int64_t start = layout.start[first],
                      bytes = layout.start[end] + packet_bytes * static_cast<int64_t>(blocks[end].packets.size()) - start;
        const auto fits = [&](int64_t at) { return at % line + bytes <= lines * line; };
        if (fits(start) || bytes > lines * line) continue;
        int count = 1;
        while (count < packets_per_period && !fits(start + count * packet_bytes)) count++;
        // Two lines come anew in each turn but the first; the packets, and what lines they take, once. What stands behind the
        // nest was put in an order for where it stood.
        constexpr int64_t least_turns = 4;
        if (count == packets_per_period ||
            executions(kernel, blocks, first) < least_turns * executions(kernel, blocks, first - 1))
            continue;
        const Blocks before = blocks;
        put_in_front(blocks, first, count);
        if (!branches_reach(blocks)) blocks = before;
    }
}

}  // namespace atalla::codegen
