// Ranking by the draft: the same order whatever the threads, the best kept, samples of what is too large.
#include "autotune/draft.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "tests/autotune/synthetic.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

std::vector<std::string> texts(const DraftRanking &ranking) {
    std::vector<std::string> texts;
    for (const PricedPoint &priced : ranking.points) {
        texts.push_back(priced.point.text());
    }
    return texts;
}

TEST(DraftRanking, IsSortedAndComplete) {
    const TuningTask task = synthetic::task();
    const DraftRanking ranking = rank_by_draft(task, 100'000, 0, 1, 2);
    EXPECT_TRUE(ranking.whole_space);
    EXPECT_EQ(ranking.points.size(), count(task.space));
    EXPECT_EQ(ranking.drafted, static_cast<int64_t>(count(task.space)));
    for (size_t i = 0; i < ranking.points.size(); i++) {
        EXPECT_EQ(ranking.points[i].predicted, task.draft(ranking.points[i].point));
        EXPECT_TRUE(i == 0 || ranking.points[i - 1].predicted <= ranking.points[i].predicted);
    }
    const std::vector<std::string> all = texts(ranking);
    EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
}

TEST(DraftRanking, KeepsTheBest) {
    const TuningTask task = synthetic::task();
    std::vector<std::string> all = texts(rank_by_draft(task, 100'000, 0, 1, 1));
    const DraftRanking some = rank_by_draft(task, 100'000, 10, 1, 1);
    all.resize(10);
    EXPECT_EQ(texts(some), all);
    EXPECT_EQ(some.drafted, static_cast<int64_t>(count(task.space)));
}

TEST(DraftRanking, ThreadsDoNotMatterButTheSeedBreaksTies) {
    TuningTask task = synthetic::task();
    task.draft = [](const Point &point) { return static_cast<double>(point["unroll"]); };
    const std::vector<std::string> one = texts(rank_by_draft(task, 100'000, 0, 1, 1));
    EXPECT_EQ(texts(rank_by_draft(task, 100'000, 0, 1, 4)), one);
    EXPECT_NE(texts(rank_by_draft(task, 100'000, 0, 2, 1)), one);
    task.draft = nullptr;
    const std::vector<std::string> undrafted = texts(rank_by_draft(task, 100'000, 0, 1, 1));
    EXPECT_NE(undrafted.front(), synthetic::sorted().front().second.text());
    EXPECT_EQ(undrafted.size(), one.size());
}

TEST(DraftRanking, SamplesALargeSpace) {
    const TuningTask task = synthetic::task();
    const DraftRanking ranking = rank_by_draft(task, 50, 0, 1, 1);
    EXPECT_FALSE(ranking.whole_space);
    EXPECT_EQ(ranking.points.size(), 50u);
    EXPECT_EQ(ranking.drafted, 50);
    EXPECT_EQ(texts(rank_by_draft(task, 50, 0, 1, 4)), texts(ranking));
    EXPECT_NE(texts(rank_by_draft(task, 50, 0, 2, 1)), texts(ranking));
    EXPECT_TRUE(rank_by_draft(task, count(task.space), 0, 1, 1).whole_space);
    EXPECT_FALSE(rank_by_draft(task, count(task.space) - 1, 0, 1, 1).whole_space);
}

TEST(DraftRanking, MoreThanOneChunkIsRankedAsAWhole) {
    TuningTask task = synthetic::task();
    std::vector<int64_t> values(20'000);
    for (size_t i = 0; i < values.size(); i++) {
        values[i] = static_cast<int64_t>(i);
    }
    task.space = Space().parameter("x", "a number", values);
    task.draft = [](const Point &point) { return std::abs(static_cast<double>(point["x"]) - 15'000.25); };
    const DraftRanking ranking = rank_by_draft(task, 100'000, 3, 1, 2);
    EXPECT_EQ(texts(ranking), (std::vector<std::string>{R"({"x":15000})", R"({"x":15001})", R"({"x":14999})"}));
    EXPECT_EQ(ranking.drafted, 20'000);
}

TEST(DraftRanking, PointsWithoutANumberComeLast) {
    TuningTask task = synthetic::task();
    task.space = Space().parameter("x", "a number", {0, 1, 2});
    task.draft = [](const Point &point) { return point["x"] == 0 ? std::nan("") : static_cast<double>(point["x"]); };
    const DraftRanking ranking = rank_by_draft(task, 100, 0, 1, 1);
    EXPECT_EQ(ranking.points.back().point["x"], 0);
    EXPECT_EQ(ranking.points.back().predicted, std::numeric_limits<double>::infinity());
}

TEST(DraftRanking, AFailingDraftIsNamed) {
    TuningTask task = synthetic::task();
    task.draft = [](const Point &point) -> double {
        if (point["tile_m"] == 4 && point["tile_n"] == 2 && point["unroll"] == 1 && point["buffers"] == 1 &&
            point["order"] == 0) {
            throw Error("division by zero");
        }
        return 1;
    };
    EXPECT_EQ(error_of([&] { rank_by_draft(task, 100'000, 0, 1, 2); }),
              "the draft of aten::mm failed at buffers=1,order=0,tile_m=4,tile_n=2,unroll=1: division by zero");
}

}  // namespace
}  // namespace atalla
