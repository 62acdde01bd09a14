// Register allocation: whatever path the program takes, every operation reads the value that it means.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <array>
#include <map>
#include <set>

#include "codegen/dependence.h"
#include "codegen/loop_plans.h"
#include "codegen/lowered.h"
#include "codegen/match.h"
#include "codegen/passes.h"
#include "generators/gemm.h"
#include "generators/gemm_space.h"
#include "generators/host_jit.h"
#include "isa/machine.h"
#include "tests/codegen/operations.h"
#include "tests/generators/pipelines.h"

namespace atalla::codegen {
namespace {

// Which virtual registers each physical one may hold, by class and number.
using Contents = std::map<std::pair<RegisterClass, int>, std::set<int32_t>>;

class Holdings {
public:
    Holdings(const Kernel &kernel, const Blocks &blocks) : kernel_(kernel), blocks_(blocks) {}

    // The first read of a register that may hold another value, as text; empty if there is none.
    std::string check() {
        std::vector<Contents> before(blocks_.size());
        std::vector<bool> reached(blocks_.size());
        reached[0] = true;
        for (bool changed = true; changed && wrong_.empty();) {
            changed = false;
            for (size_t b = 0; b < blocks_.size(); b++) {
                if (!reached[b] || blocks_[b].from_block >= 0) continue;
                const Contents after = run(b, before[b]);
                const auto flow = [&](size_t to) {
                    if (!reached[to]) changed = reached[to] = true;
                    for (const auto &[place, held] : after)
                        for (int32_t r : held) changed |= before[to][place].insert(r).second;
                };
                const Terminator &end = blocks_[b].end;
                if (end.kind != Terminator::Halt) flow(b + 1);
                if (end.kind == Terminator::Loop || end.kind == Terminator::Skip) flow(static_cast<size_t>(end.target));
            }
        }
        return wrong_;
    }

private:
    std::pair<RegisterClass, int> place(Reg r) const { return {kernel_.cls(r), kernel_.registers[r.id].physical}; }

    void read(Reg r, const Contents &contents, const Op &op) {
        if (r.id <= all_lanes.id || !wrong_.empty()) return;
        const auto held = contents.find(place(r));
        if (held == contents.end() || (held->second.size() == 1 && held->second.count(r.id))) return;
        wrong_ = fmt::format("'{}' reads {}, whose register may hold", to_string(kernel_, op), kernel_.registers[r.id].name);
        for (int32_t other : held->second) wrong_ += fmt::format(" {}.{}", kernel_.registers[other].name, other);
    }

    // A packet reads before it writes.
    void run_packet(const OpGroup &packet, Contents &contents) {
        for (const Op &op : packet)
            for (Reg r : reads_of(op)) read(r, contents, op);
        for (const Op &op : packet)
            if (op.dst.defined() && op.dst.id > all_lanes.id) contents[place(op.dst)] = {op.dst.id};
    }

    Contents run(size_t b, Contents contents) {
        for (size_t p = 0; p < blocks_[b].packets.size(); p++) {
            OpGroup packet = blocks_[b].packets[p];
            for (Op &op : packet) op.side = nullptr;
            run_packet(packet, contents);
            // What runs out of line after this packet, or does not.
            for (size_t o = 0; o < blocks_.size(); o++) {
                if (blocks_[o].from_block != static_cast<int>(b) || blocks_[o].from_packet != static_cast<int>(p)) continue;
                Contents taken = contents;
                for (const OpGroup &inner : blocks_[o].packets) run_packet(inner, taken);
                for (const auto &[where, held] : taken) contents[where].insert(held.begin(), held.end());
            }
        }
        return contents;
    }

    const Kernel &kernel_;
    const Blocks &blocks_;
    std::string wrong_;
};

std::string check_registers(const KernelDefinition &definition, const Machine &machine, bool optimize,
                            MakeConstants constants = MakeConstants::AtStart) {
    Kernel kernel = match(lower(definition.pipeline, definition.arguments).function, machine, optimize);
    place(kernel, definition.layouts);
    overlap(kernel, optimize);
    lower_addresses(kernel, optimize);
    Blocks blocks = make_blocks(kernel, !optimize, constants);
    if (optimize) assign_banks(kernel, blocks);
    LoopPlans plans;
    pack(kernel, blocks, optimize, {}, plans);
    allocate(kernel, blocks);
    for (const RegInfo &reg : kernel.registers) {
        const int64_t count = reg.cls == RegisterClass::Scalar   ? machine.regs.scalar
                              : reg.cls == RegisterClass::Vector ? machine.regs.vector
                                                                 : machine.regs.mask;
        EXPECT_LT(reg.physical, count) << reg.name;
    }
    return Holdings(kernel, blocks).check();
}

TEST(Registers, HoldWhatIsRead) {
    silence_halide();
    const std::vector<KernelDefinition> kernels = {pipelines::relu({12, 45, 2, true}),
                                                   pipelines::exponential_chain({7, 50, 3}),
                                                   pipelines::softmax({7, 50, 3}),
                                                   pipelines::layernorm({7, 50, 2}),
                                                   pipelines::spread({7, 50, 3}),
                                                   pipelines::product({13, 50, 45, 4, true}),
                                                   pipelines::product({64, 40, 70, 16, true, true}),
                                                   pipelines::convolution({6, 5, 40, 33})};
    for (const char *name : {"ax01", "ax01-psum"}) {
        const Machine machine = find_machine(name);
        for (size_t i = 0; i < kernels.size(); i++)
            for (bool optimize : {false, true})
                EXPECT_EQ(check_registers(kernels[i], machine, optimize), "")
                    << "kernel " << i << " on " << name << ", optimize " << optimize;
    }
}

// x < y and y < x of many rows: what is read together is in different banks.
TEST(Registers, OfOneOperationAreInDifferentBanks) {
    Fixture f;
    Blocks blocks(1);
    std::vector<Op> &ops = blocks[0].ops;
    const int in = f.allocation("in", 16);
    for (int row = 0; row < 16; row += 2) {
        const Reg x = f.vector("x"), y = f.vector("y");
        ops.push_back(f.load(x, in, row));
        ops.push_back(f.load(y, in, row + 1));
        ops.push_back(Fixture::op(Opcode::mlt_mvv, f.mask("less"), {x, y}));
        ops.push_back(Fixture::op(Opcode::mlt_mvv, f.mask("more"), {y, x}));
    }
    assign_banks(f.kernel, blocks);
    for (const Op &op : ops) {
        if (op.opcode != Opcode::mlt_mvv) continue;
        EXPECT_GE(f.kernel.registers[op.src[0].id].bank, 0);
        EXPECT_NE(f.kernel.registers[op.src[0].id].bank, f.kernel.registers[op.src[1].id].bank);
    }
}

// Sums that wait for what comes behind fill two banks: of the results that are stored beside weights and rows of the array,
// which have the others, those that find no room there are in one of these.
TEST(Registers, OfResultsAreInBanksWithRoom) {
    Fixture f("ax01-psum");
    constexpr int sums = 110, rows = 32, room = 64;
    Blocks blocks(3);
    const int pads = f.allocation("pads", 512);
    std::vector<Reg> sum, result;
    for (int i = 0; i < sums; i++) {
        sum.push_back(f.vector("sum"));
        const Reg place = f.vector("place");
        blocks[0].ops.push_back(f.load(sum[i], pads, i));
        blocks[2].ops.push_back(f.load(place, pads, i));
        blocks[2].ops.push_back(Fixture::op(Opcode::gemm_vv, sum[i], {place, sum[i]}));
        blocks[2].ops.push_back(f.store(sum[i], pads, i));
    }
    for (int i = 0; i < rows; i++) {
        const Reg weight = f.vector("weight"), row = f.vector("row");
        result.push_back(f.vector("result"));
        blocks[1].ops.push_back(f.load(weight, pads, i));
        blocks[1].ops.push_back(f.load(row, pads, i));
        blocks[1].ops.push_back(Fixture::op(Opcode::lw_vi, {}, {weight}));
        blocks[1].ops.push_back(Fixture::op(Opcode::gemm_vv, result[i], {row, zero_vector}));
        blocks[1].ops.push_back(f.store(result[i], pads, i));
    }
    assign_banks(f.kernel, blocks);
    std::map<int, int> held;
    for (const std::vector<Reg> &registers : {sum, result})
        for (const Reg reg : registers) held[f.kernel.registers[reg.id].bank]++;
    EXPECT_EQ(held.size(), 3U);
    for (const auto &[bank, count] : held) EXPECT_LT(count, room) << "bank " << bank;
}

// Most of the 256 vector registers are in use at once.
TEST(Registers, HoldWhatIsReadUnderPressure) {
    silence_halide();
    const Machine machine = find_machine("ax01");
    EXPECT_EQ(check_registers(pipelines::product({150, 32, 96, 150, true}), machine, true), "");
}

// A transfer keeps its base register busy until the next one of its pad issues, and no longer.
TEST(Registers, OfTransfersAreFreeBehindTheNextOfTheirPad) {
    Fixture fixture;
    constexpr int transfers = 400;  // more than there are registers
    Blocks blocks(1);
    std::vector<Reg> bases;
    for (int i = 0; i < transfers; i++) {
        const Reg base = fixture.kernel.scalar("base");
        Op start = fixture.op(Opcode::scpad_ld, base, {base, zero_scalar, zero_scalar}),
           made = fixture.op(Opcode::addi_s, base, {zero_scalar});
        start.pad = i % static_cast<int>(fixture.machine.pad.count);
        blocks[0].packets.push_back({made});
        blocks[0].packets.push_back({start});
        bases.push_back(base);
    }
    blocks[0].end.kind = Terminator::Halt;
    allocate(fixture.kernel, blocks);
    const auto number = [&](size_t i) { return fixture.kernel.registers[static_cast<size_t>(bases[i].id)].physical; };
    for (size_t i = 0; i < bases.size(); i++)
        for (size_t later = i + 1; later <= i + static_cast<size_t>(fixture.machine.pad.count) && later < bases.size(); later++)
            EXPECT_NE(number(i), number(later)) << i << " and " << later;
}

// Where registers are too few for constants that wait in them from the start, blocks make their own.
TEST(Registers, OfConstantsAreFreeInOtherBlocks) {
    silence_halide();
    Machine machine = find_machine("ax01");
    const KernelDefinition kernel = pipelines::softmax({7, 50, 3});
    const auto refused = [&](MakeConstants constants) {
        try {
            EXPECT_EQ(check_registers(kernel, machine, true, constants), "");
            return false;
        } catch (const TooFewRegisters &) {
            return true;
        }
    };
    while (!refused(MakeConstants::AtStart)) machine.regs.scalar -= 4;
    EXPECT_FALSE(refused(MakeConstants::InBlocks));
    EXPECT_NO_THROW(compile(kernel.pipeline, kernel.arguments, machine));
}

TEST(Registers, HoldWhatIsReadInRandomSchedules) {
    silence_halide();
    GemmShape shape;
    shape.m = 100;
    shape.n = 70;
    shape.k = 90;
    shape.bias = shape.addend = true;
    for (const char *name : {"ax01", "ax01-psum"}) {
        const Machine machine = find_machine(name);
        Random random(3);
        for (const Point &point : sample_distinct(gemm_space(shape, machine), 12, random)) {
            SCOPED_TRACE(std::string(name) + " " + point.assignments());
            EXPECT_NO_THROW(EXPECT_EQ(check_registers(gemm(shape, machine, point), machine, true), ""));
        }
    }
}

}  // namespace
}  // namespace atalla::codegen
