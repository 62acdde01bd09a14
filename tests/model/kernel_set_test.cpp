// What kernels without a winner take: of two schedules, or of all that the options ask for.
#include "model/kernels.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "generators/registry.h"

namespace atalla {
namespace {

class Prices : public testing::Test {
protected:
    void SetUp() override { std::filesystem::remove(file); }
    void TearDown() override { std::filesystem::remove(file); }

    KernelSet kernels(ScheduleCache *cache = nullptr) const {
        KernelOptions options;
        options.measured = 6;
        options.cache = cache;
        return KernelSet(machine, options);
    }
    PlacedNode node(std::vector<int64_t> sizes) const {
        PlacedNode made;
        made.place = PlacedNode::Device;
        made.op = &op;
        made.workload = op.workload_of({{"x", std::move(sizes)}}, {});
        return made;
    }

    const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "atalla_kernel_set_test.jsonl";
    const Machine machine = find_machine("ax01");
    const Operator &op = find_operator("softmax");
    // The draft's third schedule of it takes fewer cycles than the first two.
    const PlacedNode softmax = node({64, 200});
};

TEST_F(Prices, QuickOnesAreOfFewerSchedules) {
    KernelSet set = kernels();
    const int64_t quick = set.cycles(op, softmax.workload, Effort::Quick);
    EXPECT_TRUE(set.kernels().empty()) << "nothing is chosen by it";
    const int64_t full = set.cycles(op, softmax.workload);
    EXPECT_LT(full, quick);
    EXPECT_EQ(set.cycles(op, softmax.workload, Effort::Quick), full) << "what is known";
}

TEST_F(Prices, DoNotDependOnWhatOthersKept) {
    const int64_t quick = kernels().cycles(op, softmax.workload, Effort::Quick);
    ScheduleCache cache(file);
    const int64_t full = kernels(&cache).cycles(op, softmax.workload);
    KernelSet later = kernels(&cache);
    EXPECT_EQ(later.cycles(op, softmax.workload, Effort::Quick), quick);
    EXPECT_EQ(later.cycles(op, softmax.workload), full);
}

TEST_F(Prices, AreThoseOfSearchesSideBySide) {
    const PlacedNode other = node({32, 40});
    KernelSet ahead = kernels(), alone = kernels();
    ahead.search_ahead({softmax, other, softmax, PlacedNode()}, Effort::Quick);
    EXPECT_EQ(ahead.cycles(op, softmax.workload, Effort::Quick), alone.cycles(op, softmax.workload, Effort::Quick));
    ahead.search_ahead({softmax, other}, Effort::Full);
    for (const PlacedNode &kernel : {softmax, other}) {
        const ChosenKernel &found = ahead.kernels()[ahead.add(op, kernel.workload)],
                           &expected = alone.kernels()[alone.add(op, kernel.workload)];
        EXPECT_EQ(found.point, expected.point);
        EXPECT_EQ(found.cycles, expected.cycles);
    }
}

}  // namespace
}  // namespace atalla
