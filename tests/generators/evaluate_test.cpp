// Measuring and checking programs: what a verification must find, and that a measurement repeats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <tuple>

#include <nlohmann/json.hpp>

#include "generators/evaluate.h"
#include "generators/gemm.h"
#include "generators/lowered_cache.h"
#include "generators/registry.h"
#include "isa/error.h"
#include "isa/instruction.h"
#include "schedules/random.h"
#include "simulator/numerics.h"
#include "simulator/report.h"
#include "tests/generators/wrong_workload.h"

namespace atalla {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::shared_ptr<const Workload> gemm_workload(const std::string &shape, WorkloadArguments arguments = {}) {
    arguments["shape"] = shape;
    return find_operator("gemm").workload(arguments);
}

class Measurement : public testing::Test {
protected:
    const Machine machine = find_machine("ax01");
};

TEST_F(Measurement, RepeatsExactlyAlsoInThreads) {
    const auto workload = gemm_workload("64x64x64");
    const Evaluator evaluator(workload, machine);
    Random random(5);
    for (const Point &point : sample_distinct(workload->space(machine), 4, random)) {
        const Evaluation first = evaluator.evaluate(point);
        std::vector<Evaluation> others(3);
        std::vector<std::thread> threads;
        for (Evaluation &other : others) threads.emplace_back([&] { other = evaluator.evaluate(point); });
        for (std::thread &thread : threads) thread.join();
        for (const Evaluation &other : others) {
            EXPECT_EQ(other.status, first.status) << other.reason;
            EXPECT_EQ(other.counters, first.counters) << point.assignments();
        }
    }
}

// A trial does not compute what lanes hold where no scalar depends on it, a verification does.
TEST(Trials, CountWhatRunsWithValuesCount) {
    const std::vector<std::tuple<std::string, std::string, bool>> kernels = {
        {"gemm", "64x96x70", true},        {"conv2d", "1x5x9x9,7x5x3x3", true},
        {"gelu", "40x70", true},           {"add", "13x50,13x50", true},
        {"mul", "13x50,13x1", false},      {"transpose", "70x45", true},
        {"max_pool2d", "1x3x20x20", true}, {"sum", "20x100", false},
        {"cat", "8x33,5x33", true},        {"softmax", "16x70", false},
        {"bmm", "3x20x40,3x40x50", true}};
    Random random(8);
    for (const char *name : {"ax01", "ax01-psum"}) {
        const Machine machine = find_machine(name);
        for (const auto &[op, shape, skips] : kernels) {
            SCOPED_TRACE(op + " on " + name);
            WorkloadArguments arguments = {{"shape", shape}};
            if (op == "max_pool2d") arguments["kernel_size"] = "3";
            if (op == "transpose") arguments.insert({{"dim0", "0"}, {"dim1", "1"}});
            const std::shared_ptr<const Workload> workload = find_operator(op).workload(arguments);
            const Evaluator evaluator(workload, machine);
            const Point point = *sample(workload->space(machine), random);
            const Evaluation trial = evaluator.evaluate(point);
            ASSERT_EQ(trial.status, Evaluation::Ok) << trial.reason;
            const codegen::CompiledKernel compiled = evaluator.compile(point);
            EXPECT_EQ(may_skip_lanes(compiled.program), skips);
            const KernelRun with_values =
                run_kernel(workload->build(machine, point), compiled, machine, evaluator.inputs(DataSet::Normal));
            ASSERT_TRUE(with_values.result.ok) << with_values.result.error;
            EXPECT_EQ(trial.counters, counters_json(with_values.result.counters));
        }
    }
}

TEST_F(Measurement, CyclesDoNotDependOnTheValues) {
    const auto workload = gemm_workload("64x64x64");
    const Evaluator one(workload, machine, 1), other(workload, machine, 2);
    EXPECT_NE(one.inputs(DataSet::Normal), other.inputs(DataSet::Normal));
    Random random(6);
    const Point point = *sample(workload->space(machine), random);
    EXPECT_EQ(one.evaluate(point).counters, other.evaluate(point).counters);
}

TEST_F(Measurement, ForgottenTensorsAreMadeAgainAsTheyWere) {
    const auto workload = gemm_workload("40x40x40");
    const Evaluator evaluator(workload, machine);
    Random random(6);
    const Point point = *sample(workload->space(machine), random);
    const std::vector<TensorData> before = evaluator.inputs(DataSet::Special);
    EXPECT_EQ(evaluator.verify(point), "");
    evaluator.forget_tensors();
    EXPECT_EQ(evaluator.inputs(DataSet::Special), before);
    EXPECT_EQ(evaluator.verify(point), "");
}

TEST_F(Measurement, VerificationFindsAWrongProgram) {
    // The kernel forgets the ReLU; then it has one too many, which only negative results show.
    Random random(7);
    GemmShape shape;
    shape.m = shape.n = shape.k = 40;
    for (bool relu : {false, true}) {
        shape.relu = relu;
        const auto right = gemm_workload("40x40x40", {{"relu", relu ? "false" : "true"}});
        const auto wrong = std::make_shared<WrongWorkload>(
            right, [&](const Machine &machine, const Point &point) { return gemm(shape, machine, point); });
        const Evaluator evaluator(wrong, machine);
        const Point point = *sample(wrong->space(machine), random);
        EXPECT_THAT(evaluator.verify(point), HasSubstr("units in the last place from float64"));
    }
}

TEST_F(Measurement, VerificationFindsAWrongSpecialValue) {
    // C + 0 * D is C but for infinities and NaN in D.
    const auto right = gemm_workload("40x40x40", {{"addend", "true"}, {"beta", "0"}});
    GemmShape shape;
    shape.m = shape.n = shape.k = 40;
    shape.addend = true;
    shape.beta = 0;
    shape.alpha = 1;
    const auto wrong = std::make_shared<WrongWorkload>(right, [&](const Machine &machine, const Point &point) {
        GemmShape other = shape;
        other.addend = false;
        KernelDefinition kernel = gemm(other, machine, point), whole = gemm(shape, machine, point);
        // The tensor stays an argument that nothing reads.
        kernel.arguments = whole.arguments;
        kernel.inputs = whole.inputs;
        return kernel;
    });
    const Evaluator evaluator(wrong, machine);
    Random random(8);
    const Point point = *sample(wrong->space(machine), random);
    EXPECT_THAT(evaluator.verify(point), StartsWith("against the unoptimized program, "));
}

// The only result is often NaN or infinite with special values, and as near to float64 in another order of its sums.
TEST_F(Measurement, VerificationFindsOtherBitsOfNormalValuesWhereSpecialOnesHideThem) {
    const auto right = gemm_workload("1x1x4000"), other = gemm_workload("1x1x4000", {{"sums", "blocked"}});
    const auto wrong = std::make_shared<WrongWorkload>(
        right, [&](const Machine &machine, const Point &point) { return other->build(machine, point); });
    Random random(10);
    const Point point = *sample(other->space(machine), random);
    int hidden = 0;
    for (uint64_t seed = 1; seed <= 7; seed++) {
        const Evaluator evaluator(wrong, machine, seed);
        EXPECT_THAT(evaluator.verify(point), StartsWith("against the unoptimized program, ")) << seed;
        hidden += shows_little(right->host_result(machine, evaluator.inputs(DataSet::Special))) ? 1 : 0;
    }
    EXPECT_GT(hidden, 0);
}

TEST(SpecialValues, ShowLittleWhereMostResultsAreNotFinite) {
    constexpr uint16_t one = 0x3F80, infinity = 0x7F80, minus_infinity = 0xFF80, nan = 0x7FC0;
    EXPECT_FALSE(shows_little({{one, one}, {infinity, nan}}));
    EXPECT_TRUE(shows_little({{one, minus_infinity, infinity}}));
    EXPECT_FALSE(shows_little({{}}));
}

// fsim aborts where a scalar sum overflows: such a sum has no result there, with or without optimization.
TEST_F(Measurement, SpecialValuesAreBoundedWhereSumsOverflow) {
    const auto workload = std::shared_ptr<const Workload>(find_operator("sum").workload({{"shape", "37x38"}}));
    Random random(9);
    int with_largest = 0;
    for (uint64_t seed = 1; seed <= 16; seed++) {
        const Evaluator evaluator(workload, find_machine("fsim"), seed);
        EXPECT_EQ(evaluator.verify(*sample(workload->space(evaluator.machine()), random)), "") << seed;
        const auto largest = [&](DataSet set) {
            return std::ranges::count_if(evaluator.inputs(set)[0], [](uint16_t v) { return (v & 0x7FFF) == 0x7F7F; });
        };
        EXPECT_EQ(largest(DataSet::Bounded), 0);
        with_largest += largest(DataSet::Special) > 0;
    }
    EXPECT_GT(with_largest, 0);
}

TEST_F(Measurement, AThrownErrorIsAFailedTrial) {
    const auto wrong = std::make_shared<WrongWorkload>(
        gemm_workload("8x8x8"), [](const Machine &, const Point &) -> KernelDefinition { throw Error("no such tile"); });
    const Evaluator evaluator(wrong, machine);
    const Evaluation evaluation = evaluator.evaluate({{"rows", 8}});
    EXPECT_EQ(evaluation.status, Evaluation::Failed);
    EXPECT_EQ(evaluation.reason, "no such tile");
    EXPECT_TRUE(evaluation.counters.is_null());
}

// Such a program, here with more addresses than scalar registers, has no results to compare with; the host has.
TEST_F(Measurement, TheHostStandsInForAnUnoptimizedProgramThatCannotBe) {
    const std::shared_ptr<const Workload> workload =
        find_operator("pad").workload({{"shape", "63x5x94x1"}, {"pad", "3,0,4,0"}});
    Random random(7);
    const Point point = *sample(workload->space(machine), random);
    const Evaluator evaluator(workload, machine);
    EXPECT_EQ(evaluator.verify(point), "");
    EXPECT_FALSE(evaluator.unoptimized());
}

TEST_F(Measurement, RefusesTensorsLargerThanMemory) {
    try {
        const Evaluator evaluator(gemm_workload("40000x40000x16"), machine);
        FAIL() << "no error";
    } catch (const Error &error) {
        EXPECT_THAT(error.what(), HasSubstr("but machine 'ax01' has 1073741824 bytes of memory"));
    }
}

TEST(GivenUp, KeepsHowFarItCame) {
    for (const char *machine : {"ax01", "fsim"}) {
        const Evaluator evaluator(gemm_workload("8x32x64"), find_machine(machine));
        const Point point = evaluator.workload().naive_point(evaluator.machine());
        const Evaluation whole = evaluator.evaluate(point);
        ASSERT_EQ(whole.status, Evaluation::Ok) << whole.reason;
        const int64_t limit = whole.cycles / 2;
        const Evaluation part = evaluator.evaluate(point, limit);
        EXPECT_EQ(part.status, Evaluation::TimedOut) << machine;
        EXPECT_EQ(part.rule, "cycle limit") << machine;
        EXPECT_GE(part.cycles, limit) << machine;
        EXPECT_LT(part.cycles, whole.cycles) << machine;
    }
}

TEST(Inputs, AreReproducibleAndSpecialWhereAsked) {
    const std::vector<TensorSpec> tensors = {{"A", {64, 100}}};
    const TensorData normal = random_inputs(tensors, DataSet::Normal, 1)[0],
                     special = random_inputs(tensors, DataSet::Special, 1)[0];
    EXPECT_EQ(random_inputs(tensors, DataSet::Normal, 1)[0], normal);
    EXPECT_NE(random_inputs(tensors, DataSet::Normal, 2)[0], normal);
    const auto amount = [](const TensorData &data, auto kind) {
        return std::count_if(data.begin(), data.end(), [&](uint16_t v) { return kind(bf16_float(v)); });
    };
    const auto nan = [](float v) { return std::isnan(v); };
    const auto infinite = [](float v) { return std::isinf(v); };
    const auto zero = [](float v) { return v == 0; };
    const auto denormal = [](float v) { return std::fpclassify(v) == FP_SUBNORMAL; };
    EXPECT_EQ(amount(normal, nan) + amount(normal, infinite) + amount(normal, denormal), 0);
    EXPECT_GT(amount(special, nan), 0);
    EXPECT_GT(amount(special, infinite), 0);
    EXPECT_GT(amount(special, zero), 500);
    EXPECT_GT(amount(special, denormal), 50);
    double sum = 0, squares = 0;
    for (uint16_t value : normal) {
        sum += bf16_float(value);
        squares += std::pow(bf16_float(value), 2);
    }
    EXPECT_NEAR(sum / 6400, 0, 0.05);
    EXPECT_NEAR(squares / 6400, 1, 0.06);
}

TEST(Difference, NamesTheFirstElement) {
    const TensorSpec tensor{"C", {3, 2}};
    EXPECT_EQ(difference(tensor, {1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}), "");
    EXPECT_EQ(difference(tensor, {0, 0, 0, 0, 0x3F80, 0}, {0, 0, 0, 0, 0x4000, 1}),
              "2 of 6 elements of C differ, the first at [1, 1]: 0x3f80 (1) instead of 0x4000 (2)");
    EXPECT_EQ(difference(tensor, {0x7FC0, 0, 0, 0, 0, 0}, {0xFFC1, 0, 0, 0, 0, 0}), "") << "one NaN is as good as another";
    EXPECT_NE(difference(tensor, {0x8000, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}), "") << "zeros have signs";
}

// The point with another value of a parameter; nothing where no other is valid.
std::optional<Point> with_another(const Space &space, const Point &point, const std::string &name) {
    for (const int64_t value : space.find(name).values) {
        Point other = point;
        other.set(name, value);
        if (other != point && violation(space, other).empty()) return other;
    }
    return std::nullopt;
}

TEST(LoweredCache, WhatOnlyPlacesRowsIsLoweredOnceAndGivesTheSameProgram) {
    const std::shared_ptr<const Workload> workload = gemm_workload("64x64x64");
    const Machine machine = find_machine("ax01");
    const Space space = workload->space(machine);
    const std::vector<std::string> placing = workload->placing_parameters();
    ASSERT_FALSE(placing.empty());
    Random random(3);
    for (const std::string &name : placing) {
        Point point = workload->naive_point(machine);
        std::optional<Point> other;
        for (int draw = 0; draw < 1000 && !other; draw++) {
            point = sample(space, random).value();
            other = with_another(space, point, name);
        }
        ASSERT_TRUE(other) << name;
        SCOPED_TRACE(point.assignments());
        LoweredCache cache(placing);
        const codegen::LoweredPipeline first = cache.lower(point, workload->build(machine, point));
        const KernelDefinition kernel = workload->build(machine, *other);
        const codegen::LoweredPipeline second = cache.lower(*other, kernel);
        EXPECT_TRUE(second.function.body.same_as(first.function.body));
        EXPECT_EQ(codegen::generate(second, machine, kernel.compile_options()).program.packets,
                  Evaluator(workload, machine).compile(*other).program.packets);
        Point longer = point;
        longer.set("rows", point["rows"] == 32 ? 64 : 32);
        EXPECT_FALSE(cache.lower(longer, workload->build(machine, longer)).function.body.same_as(first.function.body));
        cache.clear();
        EXPECT_FALSE(cache.lower(point, workload->build(machine, point)).function.body.same_as(first.function.body));
    }
}

// Choices of the code generator are a parameter beside those of the space: they share what was lowered.
TEST(Choices, OfAPointGiveItAnotherProgramAndWords) {
    const Evaluator evaluator(gemm_workload("64x64x64"), find_machine("ax01"));
    const Workload &workload = evaluator.workload();
    Point point = workload.naive_point(evaluator.machine());
    const codegen::Choices open = evaluator.open_choices(point);
    ASSERT_TRUE(open.contains(codegen::Choice::FewPackets));
    Point other = point;
    other.set(choices_parameter, codegen::Choices(codegen::Choice::FewPackets).bits());
    EXPECT_EQ(violation(workload.space(evaluator.machine()), other), "");
    EXPECT_LT(evaluator.compile(other).program.packets.size(), evaluator.compile(point).program.packets.size());
    EXPECT_EQ(evaluator.verify(other), "");
    EXPECT_EQ(schedule_words(workload, evaluator.machine(), other),
              workload.words(evaluator.machine(), point) + "; straight code in few packets");
    LoweredCache cache({});
    const codegen::LoweredPipeline lowered = cache.lower(point, kernel_of(workload, evaluator.machine(), point));
    EXPECT_TRUE(
        cache.lower(other, kernel_of(workload, evaluator.machine(), other)).function.body.same_as(lowered.function.body));
    other.set(choices_parameter, int64_t{1} << codegen::choice_count);
    EXPECT_THAT(evaluator.evaluate(other).reason, testing::HasSubstr("is no set of the code generator's choices"));
    EXPECT_TRUE(evaluator.open_choices(other).empty());
}

TEST(ErrorInUlps, IsRelativeToThePeak) {
    EXPECT_EQ(largest_error_ulps({0x3F80}, {{1.0}, {1.0}}), 0);
    EXPECT_EQ(largest_error_ulps({0x3F81}, {{1.0}, {1.0}}), 1);
    EXPECT_EQ(largest_error_ulps({0x3F81}, {{1.0}, {2.5}}), 0.5);
    EXPECT_EQ(largest_error_ulps({0x7FC0}, {{1.0}, {1.0}}), INFINITY);
    EXPECT_EQ(largest_error_ulps({0x7FC0}, {{NAN}, {1.0}}), 0);
}

TEST(CompilerFingerprint, NamesSourcesAndHalide) {
    EXPECT_THAT(compiler_fingerprint(), testing::MatchesRegex("[0-9a-f]+-halide21\\.0\\.0"));
}

// The instructions of a program, slot by slot.
std::vector<uint64_t> words(const Program &program) {
    std::vector<uint64_t> all;
    for (const PlacedPacket &placed : program.packets)
        for (const Instruction &instruction : placed.packet) all.push_back(encode(instruction));
    return all;
}

// Halide numbers the names of Funcs as they are made, 9 before 10 but "f$10" before "f$9".
TEST(Programs, DoNotDependOnWhatWasBuiltBefore) {
    const Machine machine = find_machine("ax01");
    Random random(11);
    for (const auto &[op, shape] : {std::pair("mean", "64x1024"),
                                    {"softmax", "32x256"},
                                    {"layer_norm", "32x256,256,256"},
                                    {"gemm", "64x64x96"},
                                    {"conv2d", "1x32x9x9,32x32x3x3"},
                                    {"scaled_dot_product_attention", "1x64x64,1x64x64,1x64x64"},
                                    {"max_pool2d", "1x8x12x12"}}) {
        WorkloadArguments arguments = {{"shape", shape}};
        if (std::string(op) == "mean") arguments["dim"] = "1";
        if (std::string(op) == "max_pool2d") arguments["kernel-size"] = "2";
        const std::shared_ptr<const Workload> workload = find_operator(op).workload(arguments);
        const Evaluator evaluator(workload, machine);
        for (const Point &point : sample_distinct(workload->space(machine), 2, random)) {
            SCOPED_TRACE(workload->title() + " at " + point.assignments());
            const std::vector<uint64_t> first = words(evaluator.compile(point).program);
            for (int time = 0; time < 11; time++) ASSERT_EQ(words(evaluator.compile(point).program), first);
        }
    }
}

}  // namespace
}  // namespace atalla
