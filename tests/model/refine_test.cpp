// Kernels without a winner take the choices of the code generator that make them faster.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generators/registry.h"
#include "model/kernels.h"
#include "tests/generators/wrong_workload.h"

namespace atalla {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Refine : public testing::Test {
protected:
    void SetUp() override { std::filesystem::remove(file); }
    void TearDown() override { std::filesystem::remove(file); }

    KernelSet kernels(bool choices = true, ScheduleCache *cache = nullptr) const {
        KernelOptions options;
        options.measured = 2;
        options.choices = choices;
        options.cache = cache;
        return KernelSet(machine, options);
    }
    std::shared_ptr<const Workload> softmax(int64_t rows) const { return op.workload_of({{"x", {rows, 200}}}, {}); }
    int64_t cycles_of_program(KernelSet &set) const { return set.cycles_in_a_row({{{&op, workload}, {0x10000, 0x20000}}}); }

    const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "atalla_refine_test.jsonl";
    const Machine machine = find_machine("ax01");
    const Operator &op = find_operator("softmax");
    const std::shared_ptr<const Workload> workload = softmax(64);
};

TEST_F(Refine, MakesAKernelFasterAndItsPriceStays) {
    KernelSet plain = kernels(), refined = kernels();
    const auto index = static_cast<int>(refined.add(op, workload));
    const int64_t price = refined.cycles(op, workload);
    const Point schedule = refined.kernels()[0].point;
    refined.refine({index});
    const ChosenKernel &kernel = refined.kernels()[0];
    EXPECT_NE(choices_of(kernel.point), 0);
    Point without = kernel.point;
    without.erase(choices_parameter);
    EXPECT_EQ(without, schedule);
    EXPECT_LT(cycles_of_program(refined), cycles_of_program(plain));
    EXPECT_EQ(refined.cycles(op, workload), price);
    EXPECT_TRUE(refined.verify({index}));
    EXPECT_TRUE(refined.kernels()[0].verified);
}

TEST_F(Refine, LeavesKernelsThatTakeALittleOfAProgram) {
    KernelSet set = kernels();
    const auto small = static_cast<int>(set.add(op, softmax(1))), large = static_cast<int>(set.add(op, softmax(4096)));
    set.refine({-1, small, large});
    EXPECT_FALSE(set.kernels()[0].refined);
    EXPECT_TRUE(set.kernels()[1].refined);
    set.refine(std::vector<int>(1000, small));
    EXPECT_TRUE(set.kernels()[0].refined);
}

TEST_F(Refine, DoesNothingWithoutChoices) {
    KernelSet set = kernels(false);
    set.refine({static_cast<int>(set.add(op, workload))});
    EXPECT_EQ(choices_of(set.kernels()[0].point), 0);
}

TEST_F(Refine, IsKeptBesideTheScheduleThatModelsDecideBy) {
    ScheduleCache cache(file);
    KernelSet first = kernels(true, &cache), later = kernels(true, &cache);
    const auto refine = [&](KernelSet &set) {
        const auto index = static_cast<int>(set.add(op, workload));
        const Point schedule = set.kernels()[0].point;
        set.refine({index});
        EXPECT_TRUE(set.verify({index}));
        return schedule;
    };
    EXPECT_EQ(refine(first), refine(later));
    EXPECT_EQ(first.kernels()[0].point, later.kernels()[0].point);
    EXPECT_EQ(first.cycles(op, workload), later.cycles(op, workload));
}

TEST_F(Refine, ChoicesThatGiveWrongResultsGiveWayToTheScheduleWithoutThem) {
    const Operator &relu = find_operator("relu");
    const auto workload_of = [](const std::string &name) { return find_operator(name).workload_of({{"x", {16, 96}}}, {}); };
    const std::shared_ptr<const Workload> right = workload_of("relu"), other = workload_of("neg");
    const auto wrong = std::make_shared<WrongWorkload>(right, [&](const Machine &on, const Point &point) {
        return (choices_of(point) != 0 ? other : right)->build(on, point);
    });
    KernelSet set = kernels();
    const auto add = [&] { return static_cast<int>(set.add(relu, wrong)); };
    const Point schedule = set.kernels()[add()].point;
    set.refine({add()});
    ASSERT_NE(choices_of(set.kernels()[add()].point), 0);
    EXPECT_FALSE(set.verify({add()}));
    EXPECT_THAT(set.notes(), ElementsAre(HasSubstr("gives wrong results and is passed over")));
    set.refine({add()});
    EXPECT_EQ(set.kernels()[add()].point, schedule);
    EXPECT_TRUE(set.verify({add()}));
}

}  // namespace
}  // namespace atalla
