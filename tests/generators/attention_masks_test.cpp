// Masks that problems share: the results of masks that each problem has of its own, and several heads in each step all the
// same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "generators/evaluate.h"
#include "generators/registry.h"
#include "schedules/random.h"
#include "tests/generators/sampled_point.h"

namespace atalla {
namespace {

using Leads = std::array<int64_t, 3>;

// A mask of `leads`, each 1 or that of `all`, with the rows of each problem in full.
TensorData expanded(const TensorData &mask, const Leads &leads, const Leads &all, int64_t rows) {
    TensorData result;
    for (int64_t a = 0; a < all[0]; a++)
        for (int64_t b = 0; b < all[1]; b++)
            for (int64_t c = 0; c < all[2]; c++) {
                const int64_t at = ((a % leads[0]) * leads[1] + b % leads[1]) * leads[2] + c % leads[2];
                const auto first = mask.begin() + at * rows;
                result.insert(result.end(), first, first + rows);
            }
    return result;
}

int64_t most_heads(const Workload &workload, const Machine &machine) {
    return std::ranges::max(workload.space(machine).find("heads").values);
}

// Whatever dimensions of the batch a mask and the keys have, of queries in one block and in several, and of a single query.
TEST(AttentionMasks, MayBeShared) {
    const Leads all = {2, 3, 2};
    Random random(17);
    size_t number = 0;
    for (const char *machine_name : {"ax01", "fsim"}) {
        const Machine machine = find_machine(machine_name);
        for (int has = 0; has < 8; has++) {
            const Leads leads = {(has & 4) != 0 ? all[0] : 1, (has & 2) != 0 ? all[1] : 1, (has & 1) != 0 ? all[2] : 1};
            constexpr std::array<int64_t, 3> lengths = {20, 70, 1};
            const int64_t queries = lengths[number % lengths.size()], keys = number % 2 == 0 ? 40 : 32;
            const Leads key_leads = number % 4 == 3 ? Leads{all[0], 1, 1} : all;
            number++;
            const auto workload_of = [&](const Leads &mask) {
                const auto tensor = [](const Leads &at, int64_t rows, int64_t length) {
                    return fmt::format("{}x{}x{}x{}x{}", at[0], at[1], at[2], rows, length);
                };
                return find_operator("scaled_dot_product_attention")
                    .workload({{"shape", tensor(all, queries, 32) + "," + tensor(key_leads, keys, 32) + "," +
                                             tensor(key_leads, keys, 20) + "," + tensor(mask, queries, keys)}});
            };
            const std::shared_ptr<const Workload> shared = workload_of(leads), own = workload_of(all);
            SCOPED_TRACE(fmt::format("{} {} {} queries", machine.name, has, queries));
            std::vector<TensorData> inputs = random_inputs(shared->inputs(), DataSet::Normal, number);
            const auto result = [&](const Workload &workload, const Evaluator &evaluator) {
                const Point point = workload.naive_point(machine);
                const KernelRun done = run_kernel(workload.build(machine, point), evaluator.compile(point), machine, inputs);
                EXPECT_TRUE(done.result.ok) << done.result.error;
                EXPECT_LE(largest_error_ulps(done.outputs.at(0), workload.reference(inputs)[0]), workload.tolerance_ulps());
                return done.outputs.at(0);
            };
            const Evaluator evaluator(shared, machine, number);
            const TensorData of_shared = result(*shared, evaluator);
            inputs[3] = expanded(inputs[3], leads, all, queries * keys);
            EXPECT_EQ(of_shared, result(*own, Evaluator(own, machine)));
            check_sampled_point(*shared, machine, evaluator, random);
        }
    }
}

// Heads of one query go through each step together where their masks come as one copy.
TEST(AttentionMasks, OfHeadsOfOneQueryLieInARow) {
    const Machine machine = find_machine("ax01");
    struct Case {
        std::string leads;
        std::vector<int64_t> heads;
    };
    for (const Case &c : {Case{"1x3x1", {12, 6, 2, 1}}, Case{"1x1x2", {12, 6, 4, 2, 1}}, Case{"2x3x1", {12, 6, 4, 2, 1}},
                          Case{"2x1x1", {12, 6, 1}}, Case{"1x3x2", {12, 6, 1}}}) {
        const std::shared_ptr<const Workload> workload =
            find_operator("scaled_dot_product_attention")
                .workload({{"shape", "2x3x2x1x32,2x3x2x40x32,2x3x2x40x20," + c.leads + "x1x40"}});
        EXPECT_THAT(workload->space(machine).find("heads").values, testing::UnorderedElementsAreArray(c.heads)) << c.leads;
        for (const int64_t heads : c.heads) {
            SCOPED_TRACE(fmt::format("{}, {} heads", c.leads, heads));
            EXPECT_EQ(Evaluator(workload, machine).verify({{"heads", heads}, {"tiles", 2}, {"depth", 1}}), "");
        }
    }
}

// Windows with a bias for each head, or a mask for all heads of a window, go through each step as those with masks of their own
// do; their code is not fetched for each window.
TEST(AttentionMasks, LeaveHeadsOfAllWindowsTogether) {
    const Machine machine = find_machine("ax01");
    const Point together = {{"rows", 20}, {"row_unroll", 20}, {"softmax_unroll", 4}, {"weight_unroll", 32}, {"heads", 12}};
    Point alone = together;
    alone.set("heads", 3);
    for (const char *mask : {"4x1x20x20", "1x3x20x20"}) {
        SCOPED_TRACE(mask);
        const std::string tensor = "4x3x20x32,";
        const std::shared_ptr<const Workload> workload =
            find_operator("scaled_dot_product_attention").workload({{"shape", tensor + tensor + tensor + mask}});
        EXPECT_EQ(most_heads(*workload, machine), 12);
        const Evaluator evaluator(workload, machine);
        EXPECT_EQ(evaluator.verify(together), "");
        const Evaluation of_all = evaluator.evaluate(together), of_windows = evaluator.evaluate(alone);
        ASSERT_EQ(of_all.status, Evaluation::Ok) << of_all.reason;
        ASSERT_EQ(of_windows.status, Evaluation::Ok) << of_windows.reason;
        EXPECT_LT(static_cast<double>(of_all.cycles), 0.85 * static_cast<double>(of_windows.cycles));
    }
    // Masks of many scores are shared by the heads in the pads.
    const std::string tensor = "2x6x197x64,";
    EXPECT_EQ(
        most_heads(
            *find_operator("scaled_dot_product_attention").workload({{"shape", tensor + tensor + tensor + "2x1x197x197"}}),
            machine),
        6);
}

}  // namespace
}  // namespace atalla
