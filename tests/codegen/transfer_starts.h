// Hot loops that start transfers by branches out of line: their scalar operations are run here, and what starts is noted.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "codegen/kernel_ir.h"
#include "codegen/rings.h"
#include "codegen/spread.h"
#include "codegen/transfer_code.h"
#include "isa/machine.h"

namespace atalla::codegen {

// Runs scalar operations; transfers are noted by where they read the memory.
class Scalars {
public:
    void run(const Op &op) {
        if (op.opcode == Opcode::scpad_ld || op.opcode == Opcode::scpad_st) {
            started.push_back({values_[op.src[0].id], values_[op.src[1].id]});
            return;
        }
        int64_t result = 0;
        const auto source = [&](size_t i) { return values_[op.src[i].id]; };
        if (op.value) {
            result = op.value->constant;
            for (Reg r : op.src) result += r.defined() ? values_[r.id] : 0;
        } else if (op.opcode == Opcode::slt_s) {
            result = source(0) < source(1);
        } else if (op.opcode == Opcode::slli_s) {
            result = source(0) * (int64_t{1} << op.imm);
        } else if (op.opcode == Opcode::srai_s) {
            result = source(0) >> op.imm;
        } else if (op.opcode == Opcode::and_s) {
            result = source(0) & source(1);
        } else {
            FAIL() << "an operation that the test does not know";
        }
        values_[op.dst.id] = result;
    }
    void run(const Body &body) {
        for (const Node &node : body) run(*node.op);
    }
    // An iteration of a loop of branches that are taken where their register is 0, or not below it, and add to it: how many
    // transfers it starts.
    size_t iteration(const Body &loop) {
        const size_t before = started.size();
        for (const Node &node : loop) {
            const int64_t due = values_[node.op->src[0].id];
            const bool taken = node.op->opcode == Opcode::beq_s ? due == 0 : due >= 0;
            values_[node.op->src[0].id] += node.op->aux;
            for (size_t i = 0; taken && i < node.op->side->size(); i++) run((*node.op->side)[i]);
        }
        return started.size() - before;
    }
    void set(Reg reg, int64_t value) { values_[reg.id] = value; }
    void set_constants(const Kernel &kernel) {
        for (size_t id = 0; id < kernel.registers.size(); id++)
            if (kernel.registers[id].constant) values_[static_cast<int32_t>(id)] = *kernel.registers[id].constant;
    }
    int64_t get(Reg reg) { return values_[reg.id]; }
    std::vector<std::pair<int64_t, int64_t>> started;  // pad row, memory; both in bytes

private:
    std::map<int32_t, int64_t> values_;
};

// A tensor whose tiles come into a buffer that goes round four pads.
struct Transfers {
    Transfers() {
        kernel.machine = &machine;
        Allocation pads;
        pads.name = "B";
        pads.rows = 4096;
        pads.interleave = 4;
        pads.pads = {0, 1, 2, 3};
        pads.base_row = 0;
        kernel.allocations = {pads};
        kernel.tensors = {{"b", {1024, 1024}, false, kernel.scalar("b")}};
        copy.tensor = 0;
        copy.allocation = 0;
    }
    // So many groups of one tile in each of the pads.
    Channel channel(int64_t groups) {
        codegen::Run run{{}, groups, 8, 4096};
        for (int pad = 0; pad < 4; pad++) run.group.push_back({pad, 0, pad * 1024, 8, 32, 1024});
        return code.channel(copy, run);
    }
    // The operations that point a channel one step before its first group.
    Body aim(const Channel &c) const {
        Body body;
        code.aim(c, true, {}, {}, {}, body);
        return body;
    }
    Body aim(const std::vector<SpreadTransfer> &transfers) const {
        Body body;
        for (const SpreadTransfer &transfer : transfers) code.aim(transfer.channel, true, {}, {}, {}, body);
        return body;
    }
    // The loop's own operations, which take so many cycles an iteration.
    void take_cycles(Loop &loop, int64_t cycles) {
        const Reg counter = kernel.scalar("counter");
        for (int64_t i = 0; i < cycles; i++) loop.body.push_back(value_op(counter, {1, {}}, {counter}));
    }
    const Machine machine = find_machine("ax01");
    Kernel kernel;
    Copy copy;
    Rings rings{kernel, false};
    TransferCode code{kernel, rings};
};

inline Loop loop_of(int64_t extent) {
    Loop loop;
    loop.extent = extent;
    return loop;
}
// The branches that stand behind a loop's own operations, of which there are so many.
inline Body branches_behind(Loop &loop, int64_t operations) {
    return Body(std::make_move_iterator(loop.body.begin() + operations), std::make_move_iterator(loop.body.end()));
}

// Did everything start once, from the first group on?
inline void expect_in_order(const Scalars &scalars, const Channel &c) {
    ASSERT_EQ(scalars.started.size(), static_cast<size_t>(c.run.count) * 4);
    for (size_t i = 0; i < scalars.started.size(); i++) {
        const auto group = static_cast<int64_t>(i / 4);
        EXPECT_EQ(scalars.started[i].first, group * c.run.row_step * 64) << "transfer " << i;
        EXPECT_EQ(scalars.started[i].second, (static_cast<int64_t>(i % 4) * 1024 + group * c.run.mem_step) * 2)
            << "transfer " << i;
    }
}

}  // namespace atalla::codegen
