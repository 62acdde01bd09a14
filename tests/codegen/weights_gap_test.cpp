// Fewer packets between the last row of a loop and its next weights.
#include <gtest/gtest.h>

#include "codegen/weights_gap.h"
#include "tests/codegen/operations.h"

namespace atalla::codegen {
namespace {

// Loads of weights, the weights, rows with their loads, steps of the pointers: one operation a cycle.
class WeightsGap : public testing::Test, protected Fixture {
protected:
    static constexpr int weights = 4, rows = 4;

    // `pad_of`: the pad that weight i lies in.
    template <typename PadOf>
    ScheduleGraph merged(PadOf pad_of) {
        counted_loop(8);
        const Reg in_b = kernel.scalar("b"), in_a = kernel.scalar("a"), step = kernel.scalar("step"),
                  zero = kernel.scalar("zero");
        std::vector<Op> ops;
        std::vector<Reg> loaded;
        for (int i = 0; i < weights; i++) {
            loaded.push_back(vector("weight"));
            ops.push_back(op(Opcode::vreg_ld, loaded.back(), {in_b, zero}));
            ops.back().pad = pad_of(i);
        }
        for (Reg weight : loaded) ops.push_back(op(Opcode::lw_vi, {}, {weight}));
        const Reg row = vector("row");
        ops.push_back(op(Opcode::vreg_ld, row, {in_a, zero}));
        for (int i = 0; i < rows; i++) ops.push_back(op(Opcode::gemm_vv, vector("product"), {row, zero_vector}));
        ops.push_back(op(Opcode::add_s, in_b, {in_b, step}));
        ops.push_back(op(Opcode::add_s, in_a, {in_a, step}));
        ScheduleGraph graph(kernel, ops, 0);
        for (size_t i = 0; i < ops.size(); i++) graph.cycle[i] = static_cast<int>(i);
        merge_between_rows_and_weights(kernel, graph);
        return graph;
    }
    static constexpr int first_row = 2 * weights + 1, last_row = first_row + rows - 1;
};

TEST_F(WeightsGap, LoadsFromDifferentPadsShareAPacket) {
    const ScheduleGraph graph = merged([](int i) { return i % 4; });
    EXPECT_EQ(graph.cycle[0], graph.cycle[1]);
    EXPECT_EQ(graph.cycle[2], graph.cycle[3]);
    EXPECT_LT(graph.cycle[0], graph.cycle[2]) << "a packet has two loads at most";
}

TEST_F(WeightsGap, LoadsFromOnePadDoNot) {
    const ScheduleGraph graph = merged([](int) { return 1; });
    for (int i = 1; i < weights; i++) EXPECT_LT(graph.cycle[i - 1], graph.cycle[i]);
}

TEST_F(WeightsGap, StepsGoBesideRowsBehindWhatReadsThem) {
    const ScheduleGraph graph = merged([](int i) { return i % 4; });
    const size_t step_b = graph.ops.size() - 2, step_a = graph.ops.size() - 1;
    for (const size_t step : {step_b, step_a}) {
        EXPECT_LT(graph.cycle[step], last_row) << "the last packet is the branch's";
        EXPECT_GE(graph.cycle[step], graph.cycle[2 * weights]) << "the load of the row";
    }
    EXPECT_NE(graph.cycle[step_b], graph.cycle[step_a]) << "a packet has one scalar step";
}

// What makes a step is behind the rows, too, and has its result early enough for it to go beside them.
TEST_F(WeightsGap, WhatMakesAStepGoesBehindTheWeights) {
    counted_loop(8);
    const Reg in_b = kernel.scalar("b"), zero = kernel.scalar("zero"), left = kernel.scalar("left"),
              jump = kernel.scalar("jump"), weight = vector("weight"), row = vector("row");
    std::vector<Op> ops = {op(Opcode::vreg_ld, weight, {in_b, zero})};
    constexpr int several = 12;
    for (int i = 0; i < several; i++) ops.push_back(op(Opcode::lw_vi, {}, {weight}));
    for (int i = 0; i < several; i++) ops.push_back(op(Opcode::gemm_vv, vector("product"), {row, zero_vector}));
    const int last = static_cast<int>(ops.size()) - 1;
    ops.push_back(op(Opcode::addi_s, left, {left}));
    ops.push_back(op(Opcode::srai_s, jump, {left}));
    ops.push_back(op(Opcode::add_s, in_b, {in_b, jump}));
    ScheduleGraph graph(kernel, ops, 0);
    for (size_t i = 0; i < ops.size(); i++) graph.cycle[i] = static_cast<int>(i);
    merge_between_rows_and_weights(kernel, graph);
    const int count = graph.cycle[last + 1], shift = graph.cycle[last + 2], step = graph.cycle[last + 3];
    EXPECT_GE(count, 1) << "in front of the weights packets are merged";
    EXPECT_GE(shift, count + result_latency(machine, Opcode::addi_s));
    EXPECT_GT(step, shift);
    EXPECT_LT(step, last);
}

TEST_F(WeightsGap, WhatMakesAStepStaysInFrontOfItsOtherReaders) {
    counted_loop(8);
    const Reg in_a = kernel.scalar("a"), made = kernel.scalar("made"), weight = vector("weight"), row = vector("row");
    std::vector<Op> ops = {op(Opcode::addi_s, made, {made}), op(Opcode::vreg_ld, weight, {made, zero_scalar})};
    for (int i = 0; i < weights; i++) ops.push_back(op(Opcode::lw_vi, {}, {weight}));
    for (int i = 0; i < rows; i++) ops.push_back(op(Opcode::gemm_vv, vector("product"), {row, zero_vector}));
    ops.push_back(op(Opcode::add_s, in_a, {in_a, made}));
    ScheduleGraph graph(kernel, ops, 0);
    for (size_t i = 0; i < ops.size(); i++) graph.cycle[i] = static_cast<int>(i);
    merge_between_rows_and_weights(kernel, graph);
    EXPECT_LT(graph.cycle[0], graph.cycle[1]);
}

TEST_F(WeightsGap, RowsAndWeightsStayWhereTheyAre) {
    const ScheduleGraph graph = merged([](int i) { return i % 4; });
    for (int i = 0; i < weights; i++) EXPECT_EQ(graph.cycle[weights + i], weights + i);
    for (int i = 0; i < rows; i++) EXPECT_EQ(graph.cycle[first_row + i], first_row + i);
}

}  // namespace
}  // namespace atalla::codegen
