// Schedules without a winner run on values before a model uses them; what gives wrong results is passed over.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generators/registry.h"
#include "isa/error.h"
#include "tests/generators/wrong_workload.h"
#include "tests/model/graphs.h"

namespace atalla {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Verify : public testing::Test {
protected:
    void SetUp() override { std::filesystem::remove(file); }
    void TearDown() override { std::filesystem::remove(file); }

    std::shared_ptr<const Workload> workload_of(const std::string &name) const {
        return find_operator(name).workload_of({{"x", {16, 96}}}, {});
    }
    Point preferred() const {
        KernelSet kernels(machine, {});
        return kernels.kernels()[kernels.add(op, right)].point;
    }

    const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "atalla_verify_test.jsonl";
    const Machine machine = find_machine("ax01");
    const Operator &op = find_operator("relu");
    // What takes no longer than the right one, so that a schedule stays the fastest with it.
    const std::shared_ptr<const Workload> right = workload_of("relu"), other = workload_of("neg");
};

TEST_F(Verify, AScheduleWithWrongResultsGivesWayToTheNext) {
    const Point first = preferred();
    const auto workload = std::make_shared<WrongWorkload>(
        right, [&](const Machine &on, const Point &point) { return (point == first ? other : right)->build(on, point); });
    ScheduleCache cache(file);
    KernelOptions options;
    options.cache = &cache;
    KernelSet kernels(machine, options);
    const auto index = static_cast<int>(kernels.add(op, workload));
    EXPECT_EQ(kernels.kernels().back().point, first);
    EXPECT_FALSE(kernels.verify({-1, index}));
    EXPECT_FALSE(kernels.kernels().back().verified);
    EXPECT_THAT(kernels.notes(), ElementsAre(AllOf(HasSubstr("relu 16x96: the schedule " + first.assignments() +
                                                             " gives wrong results and is passed over: "),
                                                   HasSubstr("elements of result differ"))));
    const auto next = static_cast<int>(kernels.add(op, workload));
    const ChosenKernel chosen = kernels.kernels().back();
    EXPECT_NE(chosen.point, first);
    EXPECT_EQ(chosen.from, "draft");
    EXPECT_TRUE(kernels.verify({next}));
    EXPECT_TRUE(kernels.kernels().back().verified);
    // The next compile knows.
    KernelSet later(machine, options);
    later.add(op, workload);
    EXPECT_EQ(later.kernels().back().point, chosen.point);
    EXPECT_TRUE(later.kernels().back().verified);
}

// A NaN among all that a sum takes in makes it one, whatever else is wrong.
TEST_F(Verify, NormalValuesShowWhatSpecialOnesHide) {
    const auto along_both = [](const std::string &name) {
        return find_operator(name).workload_of({{"x", {16, 96}}}, {{"dim", "0,1"}});
    };
    const Operator &mean = find_operator("mean");
    const std::shared_ptr<const Workload> sum = along_both("sum");
    const auto workload = std::make_shared<WrongWorkload>(
        along_both("mean"), [&](const Machine &on, const Point &point) { return sum->build(on, point); });
    KernelSet kernels(machine, {});
    EXPECT_FALSE(kernels.verify({static_cast<int>(kernels.add(mean, workload))}));
    EXPECT_THAT(kernels.notes(), ElementsAre(HasSubstr("gives wrong results and is passed over: 1 of 1 elements of Y differ")));
}

TEST_F(Verify, WhatIsKeptUnverifiedIsVerified) {
    const Point first = preferred();
    const auto workload = std::make_shared<WrongWorkload>(
        right, [&](const Machine &on, const Point &point) { return (point == first ? other : right)->build(on, point); });
    for (const bool verify : {false, true}) {
        ScheduleCache cache(file);
        KernelOptions options;
        options.cache = &cache;
        options.verify = verify;
        KernelSet kernels(machine, options);
        EXPECT_EQ(kernels.verify({static_cast<int>(kernels.add(op, workload))}), !verify);
        EXPECT_EQ(kernels.kernels().back().point, first);
    }
}

TEST_F(Verify, TheUnoptimizedScheduleIsTheLast) {
    const auto workload =
        std::make_shared<WrongWorkload>(right, [&](const Machine &on, const Point &point) { return other->build(on, point); });
    KernelSet kernels(machine, {});
    while (!kernels.verify({static_cast<int>(kernels.add(op, workload))})) ASSERT_LT(kernels.notes().size(), 100u);
    EXPECT_EQ(kernels.kernels().back().from, "naive");
    EXPECT_TRUE(kernels.kernels().back().verified);
}

TEST_F(Verify, WithoutARightScheduleThereIsNoKernel) {
    struct AllWrong : WrongWorkload {
        AllWrong(std::shared_ptr<const Workload> right, std::shared_ptr<const Workload> other)
            : WrongWorkload(std::move(right), nullptr), other_(std::move(other)) {}
        KernelDefinition build(const Machine &on, const Point &point) const override { return other_->build(on, point); }
        double flops() const override { return 1e12; }  // so that the host says what is right
        std::shared_ptr<const Workload> other_;
    };
    const auto workload = std::make_shared<AllWrong>(right, other);
    KernelOptions options;
    options.measured = 1;
    KernelSet kernels(machine, options);
    const std::string error = [&] {
        try {
            while (!kernels.verify({static_cast<int>(kernels.add(op, workload))})) {
            }
        } catch (const Error &thrown) {
            return std::string(thrown.what());
        }
        return std::string("no error");
    }();
    EXPECT_THAT(error,
                AllOf(HasSubstr("relu 16x96: no schedule gives right results: "), HasSubstr("elements of result differ")));
}

TEST_F(Verify, WhatNobodyCanSayIsTakenWithANote) {
    struct Unknown : WrongWorkload {
        explicit Unknown(std::shared_ptr<const Workload> right)
            : WrongWorkload(right, [right](const Machine &on, const Point &point) { return right->build(on, point); }) {}
        double flops() const override { return 1e12; }
        std::vector<TensorData> host_result(const Machine &, const std::vector<TensorData> &) const override {
            throw Error("the host is tired");
        }
    };
    KernelSet kernels(machine, {});
    EXPECT_TRUE(kernels.verify({static_cast<int>(kernels.add(op, std::make_shared<Unknown>(right)))}));
    EXPECT_FALSE(kernels.kernels().back().verified);
    EXPECT_THAT(kernels.notes(), ElementsAre("relu 16x96: its results cannot be verified: the host is tired"));
}

TEST_F(Verify, ModelsHaveVerifiedKernels) {
    Graph graph;
    const ValueId x = add_input(graph, "x", {8, 64}, GraphInput::Kind::User);
    GraphOutput output;
    output.value = add_node(graph, "aten::softmax.int", {{"self", x}, {"dim", SymInt(1)}}, {8, 64});
    output.name = "y";
    graph.outputs.push_back(output);
    CompileModelOptions options;
    const CompiledModel verified = compile_model(graph, machine, options);
    ASSERT_EQ(verified.kernels.size(), 1u);
    EXPECT_TRUE(verified.kernels[0].verified);
    EXPECT_THAT(verified.notes, IsEmpty());
    options.kernels.verify = false;
    const CompiledModel plain = compile_model(graph, machine, options);
    EXPECT_FALSE(plain.kernels[0].verified);
    EXPECT_EQ(plain.bytes, verified.bytes);
}

}  // namespace
}  // namespace atalla
