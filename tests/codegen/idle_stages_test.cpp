// Pipelined loops whose stages run idle while the first iterations begin and the last ones end: when they may, and that their
// results are right.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "codegen/idle_stages.h"
#include "generators/evaluate.h"
#include "generators/registry.h"
#include "tests/codegen/operations.h"

namespace atalla::codegen {
namespace {

// A row is loaded, goes through the array and is stored: two stages of a loop that a block in front leads to.
struct IdleStages : Fixture, testing::Test {
    static constexpr int64_t iterations = 8;
    static constexpr int32_t bytes = 64;

    IdleStages() {
        index = counted_loop(iterations);
        in = allocation("in", iterations);
        out = allocation("out", iterations);
        kernel.allocations[static_cast<size_t>(in)].guard_behind = 1;
        kernel.allocations[static_cast<size_t>(out)].guard_front = 1;
        const Reg row = vector("row"), dot = vector("dot");
        from = kernel.scalar("from");
        to = kernel.scalar("to");
        ops = {moving(load(row, in, 0), from), op(Opcode::gemm_vv, dot, {row, zero_vector}), moving(store(dot, out, 0), to),
               step(from), step(to)};
        stage = {0, 0, 1, 0, 1};
        blocks.resize(3);
        blocks[1].end = {Terminator::Loop, index, kernel.constant(iterations - 1), 1};
        blocks[2].end.kind = Terminator::Halt;
    }

    Op moving(Op access, Reg pointer) const {
        access.access->row.terms = {{0, 1}};
        access.src[0] = pointer;
        access.src[1] = zero_scalar;
        return access;
    }
    static Op step(Reg pointer) {
        Op next = op(Opcode::addi_s, pointer, {pointer});
        next.imm = bytes;
        return next;
    }
    void add(Op more, int in_stage) {
        ops.push_back(std::move(more));
        stage.push_back(in_stage);
    }
    ScheduleGraph graph() const { return {kernel, ops, 0}; }
    ModuloSchedule schedule() const {
        ModuloSchedule two_stages;
        two_stages.interval = 50;
        two_stages.stages = 2;
        two_stages.stage = stage;
        return two_stages;
    }
    bool possible() {
        blocks[1].ops = ops;
        return can_idle(kernel, blocks, 1, graph(), schedule());
    }

    Reg index, from, to;
    int in = 0, out = 0;
    std::vector<Op> ops;
    std::vector<int> stage;
    Blocks blocks;
};

TEST_F(IdleStages, PointersAreSetBackByTheirStages) {
    ASSERT_TRUE(possible());
    const std::vector<Op> back = set_back(graph(), schedule());
    ASSERT_EQ(back.size(), 1u) << "only the second stage waits";
    EXPECT_EQ(back[0].dst, to);
    EXPECT_EQ(back[0].opcode, Opcode::addi_s);
    EXPECT_EQ(back[0].imm, -bytes);
}

TEST_F(IdleStages, StepsThatAreNoImmediatesAreTakenBack) {
    ops[4] = op(Opcode::add_s, to, {to, kernel.constant(4096)});
    ASSERT_TRUE(possible());
    const std::vector<Op> back = set_back(graph(), schedule());
    ASSERT_EQ(back.size(), 1u);
    EXPECT_EQ(back[0].opcode, Opcode::sub_s);
}

TEST_F(IdleStages, NeedGuardRows) {
    kernel.allocations[static_cast<size_t>(out)].guard_front = 0;
    EXPECT_FALSE(possible()) << "an idle store would be in front of its buffer";
    kernel.allocations[static_cast<size_t>(out)].guard_front = 1;
    kernel.allocations[static_cast<size_t>(in)].guard_behind = 0;
    EXPECT_FALSE(possible()) << "an idle load would be behind its buffer";
}

TEST_F(IdleStages, SlotsNeedRowsBetweenThem) {
    Allocation &ring = kernel.allocations[static_cast<size_t>(out)];
    ring.rows = 2 * iterations;
    ring.slot_rows = iterations;
    ops[2].access->slot = kernel.scalar("slot");
    EXPECT_FALSE(possible()) << "an idle store would be in the other slot";
    ring.slot_gap = 1;
    EXPECT_TRUE(possible());
    EXPECT_EQ(ring.step_in_pad(iterations), iterations + 1) << "from slot to slot";
    EXPECT_EQ(ring.row_in_pad(iterations + 2), iterations + 3);
    EXPECT_EQ(ring.rows_per_pad(), 2 * iterations + 1);
}

TEST_F(IdleStages, BranchesThatStartTransfersRunInTheFirstStage) {
    Op branch = op(Opcode::bge_s, kernel.scalar("due"), {kernel.scalar("due"), zero_scalar});
    branch.side = std::make_shared<std::vector<Op>>();
    add(branch, 0);
    EXPECT_TRUE(possible());
    stage.back() = 1;
    EXPECT_FALSE(possible());
}

// Weights of idle stages meet rows of idle stages, but not those of code behind a loop, and a loop inside others would load
// them in each of its turns.
TEST_F(IdleStages, MayLoadWeightsOfTheirOwnRowsOnce) {
    LoopInfo &info = kernel.loops.front();
    add(op(Opcode::lw_vi, {}, {vector("w")}), 0);
    EXPECT_TRUE(possible());
    info.parent = 0;
    EXPECT_FALSE(possible());
    info.parent = -1;
    ops[1] = op(Opcode::mul_vv, ops[1].dst, {ops[1].src[0], ops[1].src[0]});
    EXPECT_FALSE(possible());
}

TEST_F(IdleStages, LoadsMayReadOtherRowsOfTheirBuffer) {
    kernel.allocations[static_cast<size_t>(in)].guard_behind = 0;
    kernel.allocations[static_cast<size_t>(in)].rows++;
    EXPECT_TRUE(possible());
    Op transfer;  // a part of it that is on its way
    transfer.opcode = Opcode::scpad_ld;
    transfer.orders = in;
    transfer.ahead = true;
    blocks[0].ops.push_back(transfer);
    EXPECT_FALSE(possible());
    blocks[0].ops.clear();
    kernel.loops[0].arriving = {in};
    EXPECT_FALSE(possible());
    Allocation &buffer = kernel.allocations[static_cast<size_t>(in)];
    buffer.moved.assign(static_cast<size_t>(buffer.rows), true);
    EXPECT_FALSE(possible());
    buffer.moved.back() = false;
    EXPECT_TRUE(possible()) << "no transfer brings the row behind the last one";
}

TEST_F(IdleStages, StoresMayNotReachOtherRowsOfTheirBuffer) {
    ops[2].access->row.constant = 1;
    kernel.allocations[static_cast<size_t>(out)].rows++;
    blocks[0].ops.push_back(store(zero_vector, out, 0));
    EXPECT_FALSE(possible()) << "the row in front holds something";
}

// Two stretches of rows, with a row between them that no operation names: idle stores of the second stretch go there.
TEST_F(IdleStages, StoresMayReachRowsThatNothingNames) {
    constexpr int64_t stretch = iterations + 1;
    Allocation &buffer = kernel.allocations[static_cast<size_t>(out)];
    buffer.rows = 2 * stretch;
    ops[2].access->row.constant = stretch;
    EXPECT_TRUE(possible());
    Op other = store(zero_vector, out, 0);
    other.access->row.terms = {{0, 1}};
    blocks[0].ops.push_back(other);
    EXPECT_TRUE(possible()) << "the other stretch ends in front of the row";
    blocks[0].ops.back().access->row.constant = 1;
    EXPECT_FALSE(possible()) << "it ends there";
    blocks[0].ops.back() = {};
    blocks[0].ops.back().opcode = Opcode::scpad_ld;
    blocks[0].ops.back().orders = out;
    EXPECT_FALSE(possible()) << "which rows a transfer touches is not known";
    buffer.moved.assign(static_cast<size_t>(buffer.rows), true);
    buffer.moved[iterations] = false;
    EXPECT_TRUE(possible()) << "all but the row between them";
    buffer.moved[iterations] = true;
    EXPECT_FALSE(possible());
}

// Slots that follow each other directly, with rows at the end of each that nothing names: idle accesses of either go there.
TEST_F(IdleStages, SlotsMayHaveRowsThatNothingNames) {
    constexpr int64_t slot = iterations + 1;
    for (const int index : {in, out}) {
        Allocation &ring = kernel.allocations[static_cast<size_t>(index)];
        ring.rows = 2 * slot;
        ring.slot_rows = slot;
        ring.moved.assign(static_cast<size_t>(slot), true);
        ring.moved.back() = false;
        ops[index == in ? 0 : 2].access->slot = kernel.scalar("slot");
    }
    Allocation &source = kernel.allocations[static_cast<size_t>(in)], &result = kernel.allocations[static_cast<size_t>(out)];
    EXPECT_TRUE(possible());
    source.moved.back() = true;
    EXPECT_TRUE(possible()) << "loads may read all of their slot";
    source.rows = 2 * iterations;
    source.slot_rows = iterations;
    source.moved.pop_back();
    EXPECT_FALSE(possible()) << "an idle load would read the other slot, which a transfer fills";
    source.moved.front() = false;
    EXPECT_TRUE(possible()) << "but not this row of it";
    result.moved.back() = true;
    EXPECT_FALSE(possible()) << "an idle store would be in a row that leaves";
    result.moved.back() = false;
    result.guard_front = 0;
    EXPECT_FALSE(possible()) << "in front of the first slot is another buffer";
}

TEST_F(IdleStages, NothingElseLivesBetweenIterations) {
    const Reg sum = vector("sum");
    add(op(Opcode::add_vv, sum, {sum, ops[1].dst}), 1);
    EXPECT_FALSE(possible());
}

TEST_F(IdleStages, NothingLivesBehindTheLoop) {
    blocks[2].ops.push_back(op(Opcode::addi_s, kernel.scalar("last"), {to}));
    EXPECT_FALSE(possible()) << "a pointer is read behind the loop";
    blocks[2].ops.insert(blocks[2].ops.begin(), op(Opcode::addi_s, to, {zero_scalar}));
    EXPECT_TRUE(possible()) << "it is written there before";
}

TEST_F(IdleStages, SlotsAreNoOnesToTouch) {
    ops[0].access->slot = kernel.scalar("slot");
    EXPECT_FALSE(possible());
    ops[0].access->slot = {};
    EXPECT_TRUE(possible());
}

// A ring of two slots whose last rows straight-line code stores, to one of the slots: its loop runs idle rows of the array.
TEST(IdleLoops, MayStandBesideCodeOfOneSlot) {
    constexpr int64_t rows = 4096 / 8 * 3;  // 8 places of three channels a row, a product for each channel
    const std::shared_ptr<const Workload> workload =
        find_operator("permute").workload({{"shape", "1x3x64x64"}, {"dims", "0,2,3,1"}});
    const Evaluation evaluation = Evaluator(workload, find_machine("ax01")).evaluate(Point::parse("rows=128,unroll=16"));
    ASSERT_EQ(evaluation.status, Evaluation::Ok) << evaluation.reason;
    EXPECT_GT(evaluation.counters.at("array_rows").get<int64_t>(), rows);
}

// The second k tile of A, whose rows are behind those that the loop of the first one reads, is waited for behind that loop.
TEST(IdleLoops, DoNotReadRowsThatStillCome) {
    const std::shared_ptr<const Workload> workload =
        find_operator("gemm").workload({{"shape", "64x87x39"}, {"addend", "true"}, {"relu", "true"}});
    for (const int rows : {16, 24, 32}) {
        const Point point = Point::parse(
            fmt::format("b_block=1,b_resident=1,b_row_major=1,blocks_unrolled=0,k_alike=0,k_block=2,k_ends_apart=1,m_outer=1,"
                        "pads_split=1,row_pass=0,row_unroll=8,rows={},slots=1,sums_in_registers=0,weight_unroll=32",
                        rows));
        EXPECT_EQ(Evaluator(workload, find_machine("ax01-psum")).verify(point), "") << rows << " rows";
    }
}

// Loops of one iteration and of several, of rows that start sums and that end them.
TEST(IdleLoops, GiveTheSameBits) {
    for (const char *name : {"ax01", "ax01-psum"}) {
        const Machine machine = find_machine(name);
        for (const int rows : {16, 32, 48, 80}) {
            const std::shared_ptr<const Workload> workload =
                find_operator("gemm").workload({{"shape", fmt::format("{}x64x64", rows)}});
            for (const int unroll : {4, 8, 16}) {
                const Point point =
                    Point::parse(fmt::format("b_block=1,b_resident=1,b_row_major=0,blocks_unrolled=0,k_block=2,k_ends_apart=1,"
                                             "m_outer=1,pads_split=1,row_pass=0,row_unroll={},rows={},"
                                             "slots=1,sums_in_registers=0,weight_unroll=8",
                                             unroll, rows));
                EXPECT_EQ(Evaluator(workload, machine).verify(point), "")
                    << name << " " << rows << " rows, " << unroll << " unrolled";
            }
        }
    }
}

}  // namespace
}  // namespace atalla::codegen
