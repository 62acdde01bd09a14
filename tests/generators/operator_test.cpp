// The registry and what the operators say about themselves: arguments, texts, spaces, messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include <nlohmann/json.hpp>

#include "generators/gemm.h"
#include "generators/gemm_host.h"
#include "generators/registry.h"
#include "schedules/random.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

using testing::HasSubstr;

const Operator &gemm_op() { return find_operator("gemm"); }

std::string workload_error(const WorkloadArguments &arguments) {
    return error_of([&] { gemm_op().workload(arguments); });
}

TEST(Registry, FindsByNameAndSchema) {
    EXPECT_EQ(find_operator("aten::addmm").name(), "addmm");
    EXPECT_EQ(find_operator("aten::linear.default").name(), "linear");
    EXPECT_EQ(find_operator("constant_pad_nd").name(), "pad");
    EXPECT_EQ(gemm_op().name(), "gemm");
}

TEST(Registry, NamesTheNearestOfAnUnknownOperator) {
    EXPECT_THAT(error_of([] { find_operator("gem"); }),
                testing::StartsWith("unknown operator 'gem'; did you mean 'gemm'? ./atalla ops lists all "));
    EXPECT_THAT(error_of([] { find_operator("aten::adm"); }),
                testing::StartsWith("unknown operator 'aten::adm'; did you mean 'aten::mm'? ./atalla ops lists all "));
    EXPECT_THAT(error_of([] { find_operator("wavelets"); }),
                testing::StartsWith("unknown operator 'wavelets'; ./atalla ops lists all "));
}

TEST(Registry, SaysWhereAnOperatorWithoutKernelsRuns) {
    EXPECT_THAT(
        error_of([] { find_operator("embedding"); }),
        testing::MatchesRegex("operator 'embedding' has no kernel to tune or run: it runs on the host \\(rows of a table "
                              "by token ids.*\\); ./atalla ops lists all [0-9]+ that have"));
    EXPECT_THAT(error_of([] { find_operator("aten::split"); }),
                testing::HasSubstr("it runs on the host (each part is a slice"));
    EXPECT_THAT(error_of([] { find_operator("view"); }), testing::HasSubstr("it is a view, which costs nothing (the same"));
    EXPECT_THAT(error_of([] { find_operator("arange"); }), testing::HasSubstr("it is computed when a graph is compiled"));
}

TEST(Registry, ExamplesAreArgumentsOfTheCommandLine) {
    for (const Operator *op : operators()) {
        std::set<std::string> names = {"shape"};
        for (const WorkloadArgument &argument : op->arguments()) names.insert(argument.name);
        for (const auto &[name, value] : op->example()) EXPECT_TRUE(names.contains(name)) << example_line(*op);
    }
}

TEST(Registry, SpacesAreWellFormedForAnyNumberOfPads) {
    for (const char *name : {"ax01", "ax01-psum", "fsim"})
        for (int pads = 1; pads <= 4; pads++) {
            Machine machine = find_machine(name);
            machine.pad.count = pads;
            for (const Operator *op : operators())
                EXPECT_NO_THROW(check_space(op->workload(op->example())->space(machine)))
                    << op->name() << " on " << name << " with " << pads << " pads";
        }
}

TEST(GemmOperator, ReadsShapes) {
    EXPECT_EQ(gemm_op().workload({})->shape(), "512x512x512");
    EXPECT_EQ(gemm_op().workload({{"shape", "197x768x3072"}})->shape(), "197x768x3072");
    EXPECT_EQ(gemm_op().workload({{"m", "1"}, {"n", "2"}, {"k", "3"}})->shape(), "1x2x3");
    EXPECT_EQ(gemm_op().workload({{"shape", "10x20x30"}, {"n", "7"}})->shape(), "10x7x30");
    EXPECT_EQ(gemm_op().workload({{"shape", "8x8x8"}, {"bias", "true"}, {"relu", "true"}, {"alpha", "0.5"}})->title(),
              "8x8x8, alpha 0.5, bias, relu");
}

TEST(GemmOperator, RefusesShapes) {
    EXPECT_EQ(workload_error({{"shape", "512x512"}}), "gemm: a shape is MxNxK, such as 512x512x512, not '512x512'");
    EXPECT_EQ(workload_error({{"shape", "4x4x4x4"}}), "gemm: k must be a whole number, not '4x4'");
    EXPECT_EQ(workload_error({{"shape", "4x0x4"}}), "gemm: n is 0, but sizes must be at least 1");
    EXPECT_EQ(workload_error({{"m", "-3"}}), "gemm: m is -3, but sizes must be at least 1");
    EXPECT_EQ(workload_error({{"k", "1.5"}}), "gemm: k must be a whole number, not '1.5'");
    EXPECT_EQ(workload_error({{"k", "4000000000"}}), "gemm: k is 4000000000, larger than 2147483647");
    EXPECT_EQ(workload_error({{"k", "99999999999999999999"}}), "gemm: k must be a whole number, not '99999999999999999999'");
    EXPECT_EQ(workload_error({{"shape", "100000x4x100000"}}),
              "gemm 100000x4x100000: a tensor of 100000 x 100000 elements is larger than 2147483647");
    EXPECT_EQ(workload_error({{"b-layout", "km"}}), "gemm: b-layout must be nk or kn, not 'km'");
    EXPECT_EQ(workload_error({{"alpha", "inf"}}), "gemm: alpha must be a finite number, not 'inf'");
    EXPECT_EQ(workload_error({{"biass", "true"}}), "gemm has no argument 'biass'; did you mean 'bias'?");
}

TEST(GemmOperator, TextIsCanonicalAndReadBack) {
    const auto workload = gemm_op().workload({{"shape", "5x6x7"}, {"bias", "true"}, {"addend", "true"}, {"beta", "0.25"}});
    EXPECT_EQ(workload->text(),
              R"({"addend":true,"alpha":1.0,"b":"nk","beta":0.25,"bias":true,"k":7,"m":5,"n":6,"relu":false,"type":"bf16"})");
    EXPECT_EQ(gemm_op().parse(workload->text())->text(), workload->text());
    // A factor without effect does not make another workload.
    EXPECT_EQ(gemm_op().workload({{"beta", "3"}})->text(), gemm_op().workload({})->text());
    EXPECT_THAT(error_of([] { gemm_op().parse(R"({"m":5})"); }), HasSubstr("is not the text of a gemm workload"));
    EXPECT_THAT(error_of([] { gemm_op().parse("x"); }), HasSubstr("is not the text of a gemm workload"));
}

TEST(GemmOperator, TensorsMakeAWorkload) {
    const auto workload =
        gemm_op().workload_of({{"a", {3, 5}}, {"b", {4, 5}}, {"bias", {4}}, {"addend", {3, 4}}}, {{"relu", "true"}});
    EXPECT_EQ(workload->title(), "3x4x5, bias, addend, relu");
    ASSERT_EQ(workload->inputs().size(), 4u);
    EXPECT_EQ(workload->inputs()[1].extents, (std::vector<int64_t>{5, 4}));
    EXPECT_EQ(workload->outputs()[0].extents, (std::vector<int64_t>{4, 3}));
}

TEST(MatmulOperators, ResultsHaveTheShapeOfPyTorch) {
    const auto result = [](const std::string &op, const TensorList &shapes) {
        return find_operator(op).workload_of(shapes, {})->outputs()[0].extents;
    };
    EXPECT_EQ(result("linear", {{"input", {2, 3, 5}}, {"weight", {4, 5}}}), (std::vector<int64_t>{4, 3, 2}));
    EXPECT_EQ(result("relu(linear(x, w))", {{"x", {2, 3, 5}}, {"w", {4, 5}}}), (std::vector<int64_t>{4, 3, 2}));
    EXPECT_EQ(result("matmul", {{"a", {7, 1, 3, 5}}, {"b", {2, 5, 4}}}), (std::vector<int64_t>{4, 3, 2, 7}));
    EXPECT_EQ(result("matmul", {{"a", {2, 3, 5}}, {"b", {5}}}), (std::vector<int64_t>{3, 2}));
    EXPECT_TRUE(result("matmul", {{"a", {5}}, {"b", {5}}}).empty());
}

TEST(GemmOperator, RefusesTensorsThatDoNotFit) {
    const auto error = [](const TensorList &shapes) { return error_of([&] { gemm_op().workload_of(shapes, {}); }); };
    EXPECT_EQ(error({{"a", {3, 5}}, {"b", {4, 6}}}),
              "gemm: b of 4x6 does not fit a of 3x5: stored as nk it must have 5 columns");
    EXPECT_EQ(error({{"a", {3, 5}}, {"b", {4, 5}}, {"bias", {3}}}),
              "gemm: bias must have the shape 4 to fit a of 3x5 and b of 4x5, not 3");
    EXPECT_EQ(error({{"a", {3, 5}}, {"b", {4, 5}}, {"addend", {4, 3}}}),
              "gemm: addend must have the shape 3x4 to fit a of 3x5 and b of 4x5, not 4x3");
    EXPECT_EQ(error({{"a", {15}}, {"b", {4, 5}}}), "gemm: a must have 2 dimensions, not 1");
    EXPECT_EQ(error({{"a", {0, 5}}, {"b", {4, 5}}}), "gemm: a tensor is empty, but sizes must be at least 1");
}

TEST(GemmOperator, CountsUsefulOperations) {
    EXPECT_EQ(gemm_op().workload({{"shape", "3x4x5"}})->flops(), 3 * 4 * 10);
    EXPECT_EQ(gemm_op().workload({{"shape", "3x4x5"}, {"bias", "true"}, {"relu", "true"}})->flops(), 3 * 4 * 12);
}

class GemmSpace : public testing::TestWithParam<const char *> {};

TEST_P(GemmSpace, HoldsOnlyWhatFits) {
    const Machine machine = find_machine(GetParam());
    Random random(1);
    for (const char *shape : {"512x512x512", "1x1x1", "33x33x33", "1x4096x4096", "4096x1x64", "197x768x768"}) {
        const auto workload = gemm_op().workload({{"shape", shape}});
        const Space space = workload->space(machine);
        check_space(space);
        for (const Point &point : sample_distinct(space, 50, random)) {
            EXPECT_EQ(violation(space, point), "") << shape;
            EXPECT_GT(workload->draft(machine, point), 0) << shape << " " << point.assignments();
            EXPECT_FALSE(workload->words(machine, point).empty());
        }
    }
}

TEST_P(GemmSpace, HasPointsForTheTunedShapes) {
    const Machine machine = find_machine(GetParam());
    for (const char *shape : {"64x64x64", "33x33x33", "1x64x64", "100x70x50"})
        EXPECT_GT(count(gemm_op().workload({{"shape", shape}})->space(machine), 2), 0u) << shape;
}

INSTANTIATE_TEST_SUITE_P(Machines, GemmSpace, testing::Values("ax01", "ax01-psum", "fsim"));

// gemm_host by hand: one 32-deep tile and one of a single element, where the roundings show.
TEST(GemmHost, RoundsAfterEveryTile) {
    const Machine machine = find_machine("ax01");
    GemmShape shape;
    shape.m = shape.n = 1;
    shape.k = 33;
    constexpr uint16_t one = 0x3F80, tiny = 0x3B80;  // 1 and 2^-8
    TensorData a(33, 0), b(33, one);
    a[0] = one;
    a[1] = tiny;
    // 1 + 2^-8 in float32, halfway between two bf16 numbers: to even, 1.
    EXPECT_EQ(gemm_host(shape, machine, {a, b}), TensorData{one});
    a[2] = tiny;
    // Summed before the rounding: 1 + 2^-7.
    EXPECT_EQ(gemm_host(shape, machine, {a, b}), TensorData{0x3F81});
    a[2] = 0;
    a[32] = tiny;
    // The first tile is rounded to 1 and the second adds half a unit: 1 again.
    EXPECT_EQ(gemm_host(shape, machine, {a, b}), TensorData{one});
}

TEST(GemmHost, AppliesTheEpilogueInOrder) {
    const Machine machine = find_machine("ax01");
    GemmShape shape;
    shape.m = shape.n = shape.k = 1;
    shape.bias = shape.addend = true;
    shape.alpha = 0.5;
    shape.beta = -2;
    const auto bf16 = [](float value) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16); };
    const std::vector<TensorData> inputs = {{bf16(3)}, {bf16(4)}, {bf16(1)}, {bf16(8)}};
    EXPECT_EQ(gemm_host(shape, machine, inputs), TensorData{bf16(-9)});  // 0.5 * 12 + 1 - 2 * 8
    EXPECT_EQ(gemm_reference(shape, inputs).values, std::vector<double>{-9});
    EXPECT_EQ(gemm_reference(shape, inputs).peaks, std::vector<double>{16});
    shape.relu = true;
    EXPECT_EQ(gemm_host(shape, machine, inputs), TensorData{bf16(0)});
    EXPECT_EQ(gemm_reference(shape, inputs).values, std::vector<double>{0});
}

TEST(Registry, TextsTellInfinitiesApart) {
    std::set<std::string> texts;
    for (const char *number : {"inf", "-inf", "nan", "1"})
        for (const char *op : {"eq", "masked_fill"}) {
            const auto workload =
                find_operator(op).workload({{"shape", op == std::string("eq") ? "4x8" : "4x8,4x8"}, {"y", number}});
            EXPECT_EQ(find_operator(op).parse(workload->text())->text(), workload->text());
            EXPECT_THAT(workload->title(), testing::EndsWith(std::string(", y ") + number));
            texts.insert(op + workload->text());
        }
    EXPECT_EQ(texts.size(), 8u);
    const auto padded = find_operator("pad").workload({{"shape", "4x8"}, {"pad", "1,1"}, {"value", "-inf"}});
    EXPECT_EQ(find_operator("pad").parse(padded->text())->text(), padded->text());
}

TEST(Resolve, NoneStandsForWhatPyTorchTakesThen) {
    const Resolution found =
        resolve({"aten::var.correction", {{"self", {{{4, 8}}}, nullptr}, {"dim", {}, {1}}, {"correction", {}, nullptr}}});
    ASSERT_EQ(found.place, Resolution::Accelerator) << found.reason;
    EXPECT_EQ(found.workload->text(), find_operator("var").workload({{"shape", "4x8"}, {"dim", "1"}})->text());
}

TEST(Resolve, FindsTheWorkloadOfACall) {
    AtenCall call{"aten::add.Tensor", {{"self", {{{4, 8}}}, {}}, {"other", {{{8}}}, {}}}};
    Resolution found = resolve(call);
    ASSERT_EQ(found.place, Resolution::Accelerator) << found.reason;
    EXPECT_EQ(found.op->name(), "add");
    EXPECT_EQ(found.inputs, (std::vector<size_t>{0, 1}));
    // A number may stand for a tensor.
    call = {"aten::mul.Tensor", {{"self", {{{4, 8}}}, {}}, {"other", {}, 2.5}}};
    found = resolve(call);
    ASSERT_EQ(found.place, Resolution::Accelerator) << found.reason;
    // A list of tensors.
    call = {"aten::cat", {{"tensors", {{{4, 8}}, {{2, 8}}}, {}}, {"dim", {}, 0}}};
    found = resolve(call);
    ASSERT_EQ(found.place, Resolution::Accelerator) << found.reason;
    EXPECT_EQ(found.workload->outputs()[0].extents, (std::vector<int64_t>{8, 6}));
}

TEST(Resolve, SaysWhyThereIsNone) {
    AtenCall call{"aten::add.Tensor", {{"self", {{{4}, ElementType::Int64}}, {}}, {"other", {}, 1}}};
    Resolution found = resolve(call);
    EXPECT_EQ(found.place, Resolution::Unsupported);
    EXPECT_THAT(found.reason, HasSubstr("add: 'self' is int64, but the accelerator computes in bf16"));
    EXPECT_EQ(resolve({"aten::view", {}}).place, Resolution::View);
    EXPECT_EQ(resolve({"aten::arange", {}}).place, Resolution::Folded);
    EXPECT_EQ(resolve({"aten::cumsum", {}}).place, Resolution::Host);
    EXPECT_EQ(resolve({"aten::no_such_thing", {}}).reason, "no operator has the schema 'no_such_thing'");
}

}  // namespace
}  // namespace atalla
