// Transfers of a result that start in an iteration that is named, in rounds of one for each pad.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "codegen/result_transfer.h"
#include "codegen/spread.h"
#include "codegen/transfer_code.h"
#include "tests/codegen/transfer_starts.h"

namespace atalla::codegen {
namespace {

TEST(LateStart, IsOnceAndInTheIterationThatIsNamed) {
    for (const bool armed : {true, false}) {
        Transfers f;
        const Channel c = f.channel(1);
        const Reg pending = f.kernel.scalar("pending");
        Loop hot = loop_of(6);
        Body body = f.aim(c);
        start_late(f.kernel, {c, pending, 0, {}}, 2, hot, f.code, body);
        Scalars scalars;
        scalars.set(pending, armed);
        scalars.run(body);
        for (int i = 0; i < 6; i++) {
            EXPECT_EQ(scalars.started.size(), armed && i > 2 ? 4u : 0u) << "in front of iteration " << i;
            scalars.iteration(hot.body);
        }
        EXPECT_EQ(scalars.started.size(), armed ? 4u : 0u);
    }
}

// For a pad's second transfer the code would stand still until its first has ended.
TEST(LateStart, TransfersOfAResultGoInRoundsOfOneForEachPad) {
    for (const int64_t iterations : {20, 60}) {
        Transfers f;
        f.copy.load = false;
        f.copy.tiles = {{0, 0, 0, 8, 32, 1024}, {1, 0, 8192, 8, 32, 1024}, {0, 8, 32768, 4, 32, 1024}};
        const ResultTransfer result(f.kernel, f.rings, f.code, f.copy, split_runs(f.copy.tiles));
        Loop hot = loop_of(iterations);
        Body body;
        result.issue_pending(&hot, body);
        if (iterations == 20) {
            ASSERT_EQ(hot.body.size(), 1u) << "little code for few iterations";
            continue;
        }
        Scalars scalars;
        scalars.set(result.pending(), 1);
        for (const Node &node : body)
            if (!node.op->fence) scalars.run(*node.op);
        std::vector<size_t> started;
        for (int i = 0; i < 4; i++) {
            scalars.iteration(hot.body);
            started.push_back(scalars.started.size());
        }
        EXPECT_EQ(started, (std::vector<size_t>{2, 2, 3, 3}));
    }
}

TEST(TransferRuns, AreSplitSoThatNoTransferOfAGroupWaitsForAnother) {
    const std::vector<codegen::Run> split = one_tile_a_pad(
        {{{{0, 0, 0, 8, 32, 32}, {1, 0, 1, 8, 32, 32}, {0, 8, 2, 8, 32, 32}, {1, 8, 3, 8, 32, 32}, {0, 16, 4, 8, 32, 32}},
          5,
          7,
          9}});
    ASSERT_EQ(split.size(), 3u);
    std::set<int64_t> seen;
    for (const codegen::Run &run : split) {
        EXPECT_EQ(run.count, 5);
        EXPECT_EQ(run.row_step, 7);
        EXPECT_EQ(run.mem_step, 9);
        std::set<int> pads;
        for (const Tile &tile : run.group) {
            EXPECT_TRUE(pads.insert(tile.pad).second);
            EXPECT_TRUE(seen.insert(tile.mem).second);
        }
    }
    EXPECT_EQ(seen.size(), 5u);
}

}  // namespace
}  // namespace atalla::codegen
