#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "codegen/passes.h"
#include "isa/error.h"

namespace atalla::codegen {

namespace {

uint8_t number(const Kernel &kernel, Reg r) {
    if (!r.defined()) return 0;
    const int16_t physical = kernel.registers[r.id].physical;
    if (physical < 0) throw Error("cannot generate code: register '" + kernel.registers[r.id].name + "' has no place");
    return static_cast<uint8_t>(physical);
}

Instruction instruction(const Kernel &kernel, const Op &op) {
    Instruction i;
    i.op = op.opcode;
    i.imm = op.imm;
    i.aux = op.aux;
    const auto n = [&](Reg r) { return number(kernel, r); };
    switch (info(op.opcode).format) {
        case Format::SDMA:
            i.d = n(op.src[0]);
            i.a = n(op.src[1]);
            i.b = n(op.src[2]);
            break;
        case Format::VM:
            i.d = op.opcode == Opcode::vreg_st ? n(op.src[2]) : n(op.dst);
            i.a = n(op.src[0]);
            i.b = n(op.src[1]);
            i.aux = static_cast<uint8_t>(op.pad);
            break;
        case Format::BR:
            i.a = n(op.src[0]);
            i.b = n(op.src[1]);
            break;
        default:
            i.d = n(op.dst);
            i.a = n(op.src[0]);
            i.b = n(op.src[1]);
            i.mask = n(op.mask);
    }
    return i;
}

}  // namespace

// The block in front of which a rare one stands, behind the outermost loop around it; none if there is no loop.
static std::optional<size_t> place_of_rare(const Blocks &blocks, size_t block) {
    std::optional<size_t> place;
    for (size_t end = block; blocks[block].rare && end < blocks.size(); end++)
        if (!blocks[end].rare && blocks[end].end.kind == Terminator::Loop && blocks[end].end.target < static_cast<int>(block))
            place = end + 1;
    return place;
}

bool stands_apart(const Blocks &blocks, size_t block) {
    return blocks[block].from_block >= 0 || place_of_rare(blocks, block).has_value();
}

ProgramLayout lay_out(const Blocks &blocks) {
    ProgramLayout layout;
    std::map<size_t, std::vector<size_t>> rare;
    for (size_t b = 0; b < blocks.size(); b++)
        if (const std::optional<size_t> place = place_of_rare(blocks, b)) rare[*place].push_back(b);
    for (size_t b = 0; b < blocks.size() && blocks[b].from_block < 0; b++) {
        if (place_of_rare(blocks, b)) continue;
        // Jumps that a branch reaches stand next to the block that has it, in front of other code out of line or behind it.
        const auto place = [&](size_t o) { return !blocks[o].island ? 1 : blocks[o].from_block < static_cast<int>(b) ? 0 : 2; };
        std::vector<size_t> here;
        for (size_t o = 0; o < blocks.size(); o++)
            if (blocks[o].before == static_cast<int>(b)) here.push_back(o);
        std::ranges::stable_sort(here, {}, place);
        if (const auto seldom = rare.find(b); seldom != rare.end())
            here.insert(here.end(), seldom->second.begin(), seldom->second.end());
        if (!here.empty()) layout.order.push_back(ProgramLayout::jump_over);
        layout.order.insert(layout.order.end(), here.begin(), here.end());
        layout.order.push_back(static_cast<int>(b));
    }
    layout.start.assign(blocks.size(), 0);
    int64_t at = 0;
    for (int b : layout.order) {
        if (b >= 0) layout.start[b] = at;
        at += packet_bytes * (b >= 0 ? static_cast<int64_t>(blocks[b].packets.size()) : 1);
    }
    return layout;
}

Program emit(const Kernel &kernel, const Blocks &blocks) {
    Program program;
    program.sources = kernel.sources;
    const auto [order, start] = lay_out(blocks);
    for (size_t i = 0; i < order.size(); i++) {
        if (order[i] == ProgramLayout::jump_over) {
            size_t next = i + 1;
            while (stands_apart(blocks, static_cast<size_t>(order[next]))) next++;
            Packet packet{};
            packet[0].op = Opcode::jal;
            packet[0].imm =
                static_cast<int32_t>(start[order[next]] - static_cast<int64_t>(program.packets.size()) * packet_bytes);
            program.append(packet);
            continue;
        }
        const size_t b = static_cast<size_t>(order[i]);
        if (!blocks[b].packets.empty())
            program.symbols[fmt::format("{}_{}", b, blocks[b].label)] = static_cast<uint32_t>(start[b]);
        for (size_t p = 0; p < blocks[b].packets.size(); p++) {
            const OpGroup &group = blocks[b].packets[p];
            const auto jump = blocks[b].jumps.find(static_cast<int>(p));
            Packet packet{};
            int32_t source = -1;
            const int64_t here = static_cast<int64_t>(program.packets.size()) * packet_bytes;
            for (size_t slot = 0; slot < group.size(); slot++) {
                packet[slot] = instruction(kernel, group[slot]);
                const bool returns = blocks[b].from_block >= 0 && !blocks[b].island && group[slot].opcode == Opcode::jal;
                if (jump != blocks[b].jumps.end() && (is_branch(group[slot].opcode) || group[slot].opcode == Opcode::jal))
                    packet[slot].imm = static_cast<int32_t>(start[b] + packet_bytes * jump->second - here);
                else if (returns)
                    packet[slot].imm =
                        static_cast<int32_t>(start[blocks[b].from_block] + (blocks[b].from_packet + 1) * packet_bytes - here);
                else if (is_branch(group[slot].opcode) || group[slot].opcode == Opcode::jal)
                    packet[slot].imm = static_cast<int32_t>(start[group[slot].imm] - here);
                // What stands between a block and the next begins with a jump to the next.
                if (is_branch(group[slot].opcode) && packet[slot].imm > furthest_ahead &&
                    group[slot].imm == static_cast<int32_t>(b) + 1)
                    packet[slot].imm =
                        static_cast<int32_t>(start[b] + packet_bytes * static_cast<int64_t>(blocks[b].packets.size()) - here);
                if (is_branch(group[slot].opcode) && (packet[slot].imm < furthest_back || packet[slot].imm > furthest_ahead))
                    throw Error(
                        fmt::format("cannot generate code: a branch in '{}' reaches over {} packets, but at most {} are "
                                    "possible; use a smaller tile",
                                    blocks[b].label, std::abs(packet[slot].imm) / packet_bytes, furthest_ahead / packet_bytes));
                if (source < 0) source = group[slot].source;
            }
            program.append(packet, source);
        }
    }
    return program;
}

}  // namespace atalla::codegen
