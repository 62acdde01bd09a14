// Data movement: which tensors come as tiles through the array, what leaves with what, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "generators/evaluate.h"
#include "generators/registry.h"
#include "schedules/random.h"
#include "tests/generators/refusal.h"

namespace atalla {
namespace {

using testing::HasSubstr;

// Points that make the kernel of another one are none of the space.
TEST(Movement, EveryPointIsAKernelOfItsOwn) {
    const Machine machine = find_machine("ax01");
    const auto workload = find_operator("select").workload({{"shape", "64x197x50"}, {"dim", "1"}, {"index", "0"}});
    const Space space = workload->space(machine);
    const auto holds = [&](int64_t rows, int64_t pads, int64_t turn) {
        return violation(space, {{"rows", rows}, {"pads", pads}, {"turn", turn}}).empty();
    };
    // All 64 rows are one tile of each piece, whether 64 are asked for or more.
    EXPECT_TRUE(holds(64, 4, 0));
    EXPECT_FALSE(holds(1024, 4, 0));
}

TEST(Movement, RefusesWithPyTorchsRule) {
    EXPECT_EQ(refusal("slice", {{"shape", "4x4"}, {"dim", "2"}}),
              "slice: dimension out of range (expected to be in range of [-2, 1], but got 2)");
    EXPECT_EQ(refusal("slice", {{"shape", "4x4"}, {"step", "0"}}), "slice: step must be greater than zero, not 0");
    EXPECT_EQ(refusal("select", {{"shape", "4x4"}, {"index", "4"}}),
              "select: index 4 is out of range for dimension 0 with size 4");
    EXPECT_EQ(refusal("cat", {{"shape", "4x4,3x5"}}), "cat: sizes must match except in dimension 0, but there are 4x4 and 3x5");
    EXPECT_EQ(refusal("permute", {{"shape", "4x4"}, {"dims", "0,0"}}), "permute: dimension 0 is repeated");
    EXPECT_THAT(refusal("permute", {{"shape", "4x8"}, {"dims", "0"}}), HasSubstr("1 dimensions are given for a tensor of 2"));
    EXPECT_THAT(refusal("expand", {{"shape", "4x8"}, {"size", "4,9"}}),
                HasSubstr("the size 9 must match the tensor's size 8 at dimension 1 from the end"));
    EXPECT_THAT(refusal("pad", {{"shape", "4x8"}, {"pad", "1,2,3"}}), HasSubstr("the pads must be pairs"));
    EXPECT_EQ(refusal("pad", {{"shape", "4x8"}, {"value", "one"}}), "pad: value must be a number, not \"one\"");
    EXPECT_EQ(refusal("slice", {{"shape", "4x8"}, {"start", "1.5"}}), "slice: start must be a whole number, not 1.5");
    EXPECT_THAT(refusal("roll", {{"shape", "4x8"}, {"shifts", "1,2"}}), HasSubstr("without dims there must be one shift"));
}

// Rows of a tensor whose neighbours are a few elements apart on the other side are products, tiles that end inside the tensor
// included.
TEST(Movement, TakesSingleElementsThroughTheArray) {
    const Machine machine = find_machine("ax01");
    const auto workload = [](const std::string &op, WorkloadArguments arguments) {
        return find_operator(op).workload(arguments);
    };
    const std::vector<std::shared_ptr<const Workload>> moved = {
        workload("slice", {{"shape", "40x96"}, {"dim", "1"}, {"start", "1"}, {"step", "2"}, {"exact", "false"}}),
        workload("select", {{"shape", "40x7x4"}, {"dim", "2"}, {"index", "3"}, {"exact", "false"}}),
        workload("stack", {{"shape", "24x16,24x16,24x16"}, {"dim", "2"}, {"exact", "false"}}),
        workload("permute", {{"shape", "2x3x12x10"}, {"dims", "0,2,3,1"}}),
        workload("permute", {{"shape", "2x12x10x3"}, {"dims", "0,3,1,2"}}),
        workload("cat", {{"shape", "100x1,100x1"}, {"dim", "1"}, {"exact", "false"}}),
        // 11 elements of 3 tensors, and 7 of 5, are more than a row of lanes.
        workload("permute", {{"shape", "3x66"}, {"dims", "1,0"}}), workload("permute", {{"shape", "5x35"}, {"dims", "1,0"}})};
    for (const auto &w : moved) {
        EXPECT_THAT(w->words(machine, w->naive_point(machine)), HasSubstr("rows of")) << w->title();
        const Evaluator evaluator(w, machine);
        for (const char *point : {"rows=4,unroll=1", "rows=16,unroll=8", "rows=32,unroll=16"}) {
            const Point at = Point::parse(point);
            if (!violation(w->space(machine), at).empty()) continue;
            EXPECT_EQ(evaluator.verify(at), "") << w->title() << " at " << point;
        }
    }
    const std::shared_ptr<const Workload> exact = workload("slice", {{"shape", "40x96"}, {"dim", "1"}, {"step", "2"}});
    EXPECT_THAT(exact->words(machine, exact->naive_point(machine)), HasSubstr("loop nests"));
}

// Blocks that begin at multiples of 32 may come several at a time, and the last one of a dimension that is no multiple by
// itself, in one dimension or both.
TEST(Movement, TurnsTheLastBlocksOfADimensionApart) {
    const Machine machine = find_machine("ax01");
    for (const char *shape : {"70x97", "64x97", "97x64", "2x100x71"}) {
        const std::shared_ptr<const Workload> turned =
            find_operator("transpose").workload({{"shape", shape}, {"dim0", "-1"}, {"dim1", "-2"}});
        const Evaluator evaluator(turned, machine);
        for (const char *point : {"across=1,along=1,apart=1,unroll=32,whole=0", "across=2,along=3,apart=1,unroll=8,whole=0",
                                  "across=3,along=2,apart=1,unroll=32,whole=1", "across=2,along=1,apart=1,unroll=1,whole=0",
                                  "across=2,along=3,apart=1,unroll=32,whole=1"}) {
            const Point at = Point::parse(point);
            if (!violation(turned->space(machine), at).empty()) continue;
            EXPECT_THAT(turned->words(machine, at), HasSubstr("the last ones apart"));
            EXPECT_EQ(evaluator.verify(at), "") << turned->title() << " at " << point;
        }
    }
    const Space space = find_operator("transpose").workload({{"shape", "70x97"}, {"dim0", "0"}, {"dim1", "1"}})->space(machine);
    EXPECT_THAT(violation(space, Point::parse("across=2,along=1,apart=0,unroll=8,whole=0")), HasSubstr("is that block alone"));
}

// What lies between two rows leaves with the first of them where its last vector has room for it, and is no loop nest of its
// own: not behind rows of whole vectors, nor where more lies there, nor where the result ends with a row.
// Where a last block begins earlier it stores elements of the one in front again, which must have left.
TEST(Movement, BlocksThatStoreTheSameElementsLeaveOneAfterTheOther) {
    const Machine machine = find_machine("ax01");
    for (const char *shape : {"97x64", "64x97", "200x97"}) {
        const Evaluator evaluator(find_operator("permute").workload({{"shape", shape}, {"dims", "1,0"}, {"exact", "false"}}),
                                  machine);
        int apart = 0;
        for_each(evaluator.workload().space(machine), [&](const Point &point) {
            if (point["apart"] == 0 || point["whole"] == 0 || point["unroll"] > 8) return true;
            EXPECT_EQ(evaluator.evaluate(point).reason, "") << shape << " " << point.assignments();
            apart++;
            return true;
        });
        EXPECT_GE(apart, 2) << shape;
    }
}

TEST(Movement, ConstantsLeaveWithTheRowsInFrontOfThem) {
    struct Case {
        const char *shape, *pad;
        int nests;
    };
    for (const char *name : {"ax01", "fsim"})
        for (const Case &c : {Case{"3x9x20", "1,1,1,1", 4},
                              {"3x9x20", "1,1", 5},
                              {"3x9x20", "0,1", 1},
                              {"3x9x20", "1,0", 4},
                              {"3x9x32", "1,1,1,1", 5},
                              {"3x9x31", "1,1,1,1", 5},
                              {"3x9x30", "1,1,-1,2", 4},
                              {"5x70", "2,5,0,3", 4},
                              {"70", "1,2", 3}}) {
            const Machine machine = find_machine(name);
            const std::shared_ptr<const Workload> padded =
                find_operator("pad").workload({{"shape", c.shape}, {"pad", c.pad}, {"value", "-1.5"}});
            const Evaluator evaluator(padded, machine);
            Random random(5);
            for (const Point &point : sample_distinct(padded->space(machine), 4, random))
                EXPECT_EQ(evaluator.verify(point), "") << padded->title() << " at " << point.assignments();
            if (machine.timed()) {
                EXPECT_THAT(padded->words(machine, padded->naive_point(machine)),
                            HasSubstr(fmt::format(" {} loop nests", c.nests)))
                    << padded->title();
            }
        }
}

// Hundreds of transfers in straight code, more than there are base registers.
TEST(Movement, TakesMoreTransfersThanRegisters) {
    const Machine machine = find_machine("ax01-psum");
    const Evaluator evaluator(find_operator("expand").workload({{"shape", "1x122"}, {"size", "1,125,122"}}), machine);
    const Point point = Point::parse("pads=4,rows=8,turn=0");
    const Evaluation evaluation = evaluator.evaluate(point);
    ASSERT_EQ(evaluation.reason, "");
    EXPECT_GT(evaluation.counters.at("unit_operations").at("SDMA").get<int64_t>(), machine.regs.scalar);
    EXPECT_EQ(evaluator.verify(point), "");
}

// Constants between planes that end inside a vector leave as vectors of many planes: their transfers are fewer than planes.
TEST(Movement, ConstantsBetweenPlanesShareTransfers) {
    const Machine machine = find_machine("ax01");
    const auto transfers = [&](int64_t pads) {
        const std::shared_ptr<const Workload> padded = find_operator("pad").workload(
            {{"shape", "128x14x14"}, {"pad", fmt::format("{0},{0},{0},{0}", pads)}, {"value", "-1.5"}});
        const Point point = Point::parse("rows=128,pads=4,turn=0");
        const Evaluator evaluator(padded, machine);
        EXPECT_EQ(evaluator.verify(point), "") << padded->title();
        return evaluator.evaluate(point).counters.at("unit_operations").at("SDMA").get<int64_t>();
    };
    const int64_t planes = 128, of_images = transfers(1);  // whose constants are a vector at most
    EXPECT_LT(transfers(2) - of_images, planes / 2);
}

}  // namespace
}  // namespace atalla
