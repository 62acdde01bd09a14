// Choices are tried alone, then together, until nothing gains.
#include "autotune/choices_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <vector>

namespace atalla {
namespace {

using testing::ElementsAre;

Point with_bits(int64_t choices) { return {{"choices", choices}, {"tile", 4}}; }

class Search : public testing::Test {
protected:
    // The cycles of the schedule with each set of choices; sets without them are not slower nor faster.
    TunedPoint run(int64_t open, std::map<int64_t, std::optional<int64_t>> cycles) {
        ChoiceTrials trials;
        trials.open = [=](const Point &) { return open; };
        trials.evaluate = [this, cycles](const std::vector<Point> &points, int64_t limit) {
            std::vector<std::optional<int64_t>> found;
            for (const Point &point : points) {
                tried.push_back(choices_of(point));
                limits.push_back(limit);
                const auto known = cycles.find(choices_of(point));
                found.push_back(known == cycles.end() ? 100 : known->second);
            }
            return found;
        };
        return with_best_choices({{{"tile", 4}}, 100}, trials);
    }

    std::vector<int64_t> tried, limits;
};

TEST_F(Search, LeavesAScheduleThatNothingMakesFaster) {
    const TunedPoint best = run(0b101, {{1, 120}, {4, std::nullopt}});
    EXPECT_EQ(best.point, Point({{"tile", 4}}));
    EXPECT_EQ(best.cycles, 100);
    EXPECT_THAT(tried, ElementsAre(1, 4));
}

TEST_F(Search, TakesTogetherWhatGainsAlone) {
    // The three gain; 2 does not gain beside 4, and 1 does.
    const TunedPoint best = run(0b111, {{1, 98}, {2, 95}, {4, 90}, {6, 91}, {5, 85}, {7, 86}});
    EXPECT_EQ(best.point, with_bits(5));
    EXPECT_EQ(best.cycles, 85);
    EXPECT_THAT(tried, ElementsAre(1, 2, 4, 6, 5, 7)) << "what lost beside the first is tried with both";
    EXPECT_THAT(limits, ElementsAre(100, 100, 100, 90, 90, 85)) << "a run that is not faster may be given up";
}

TEST_F(Search, GoesOnWhileSomethingGains) {
    // 2 loses alone and gains behind 1, and 4 behind both.
    const TunedPoint best = run(0b111, {{1, 90}, {2, 110}, {4, 110}, {3, 80}, {5, 95}, {7, 70}});
    EXPECT_EQ(best.point, with_bits(7));
    EXPECT_EQ(best.cycles, 70);
}

TEST_F(Search, TriesNothingWhereNothingIsOpen) {
    EXPECT_EQ(run(0, {}).cycles, 100);
    EXPECT_THAT(tried, ElementsAre());
}

}  // namespace
}  // namespace atalla
