#include <algorithm>

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

Program emit(const Kernel &kernel, const Blocks &blocks) {
    Program program;
    program.sources = kernel.sources;
    std::vector<int64_t> start(blocks.size() + 1, 0);
    for (size_t b = 0; b < blocks.size(); b++) start[b + 1] = start[b] + packet_bytes * static_cast<int64_t>(blocks[b].packets.size());
    for (size_t b = 0; b < blocks.size(); b++) {
        if (!blocks[b].packets.empty()) program.symbols[fmt::format("{}_{}", b, blocks[b].label)] = static_cast<uint32_t>(start[b]);
        for (const OpGroup &group : blocks[b].packets) {
            Packet packet{};
            int32_t source = -1;
            const int64_t here = static_cast<int64_t>(program.packets.size()) * packet_bytes;
            for (size_t slot = 0; slot < group.size(); slot++) {
                packet[slot] = instruction(kernel, group[slot]);
                if (is_branch(group[slot].opcode) || group[slot].opcode == Opcode::jal)
                    packet[slot].imm = static_cast<int32_t>(start[group[slot].imm] - here);
                if (source < 0) source = group[slot].source;
            }
            program.append(packet, source);
        }
    }
    return program;
}

}  // namespace atalla::codegen
