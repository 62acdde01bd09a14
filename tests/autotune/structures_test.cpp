// Which structures a search looks at, and what it makes of those that it has measured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autotune/structures.h"

namespace atalla {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Two choices and a size. Ranks: 0 and 1 have the structure (0, 0), 2 is (0, 1), 3 and 4 (1, 1), 5 is (2, 0).
struct Fixture {
    TuningTask task;
    DraftRanking ranking;

    Fixture() {
        task.space.choice("loops", "the order of loops", {0, 1, 2})
            .choice("slots", "slots", {0, 1})
            .choice("only", "what can be one thing alone", {7})
            .parameter("rows", "rows", {1, 2, 3});
        ranking.whole_space = true;
        add(0, 0, 1, 100);
        add(0, 0, 2, 110);
        add(0, 1, 1, 120);
        add(1, 1, 1, 130);
        add(1, 1, 2, 150);
        add(2, 0, 1, 161);
        task.draft = [this](const Point &point) {
            const auto priced = std::find_if(ranking.points.begin(), ranking.points.end(),
                                             [&](const PricedPoint &one) { return one.point == point; });
            return priced->predicted;
        };
    }
    void add(int64_t loops, int64_t slots, int64_t rows, double predicted) {
        ranking.points.push_back({predicted, 0, {{"loops", loops}, {"slots", slots}, {"only", 7}, {"rows", rows}}});
    }
    const Point &point(size_t rank) const { return ranking.points[rank].point; }
    void measure(Outcomes &outcomes, size_t rank, int64_t cycles, Trial::Status status = Trial::Ok) const {
        Trial trial;
        trial.point = point(rank);
        trial.status = status;
        trial.cycles = cycles;
        outcomes.add(trial);
    }
    Structures structures() const { return {task.space, ranking}; }
};

TEST(Structures, TheMostUnlikeComesFirst) {
    const Fixture fixture;
    Outcomes outcomes;
    fixture.measure(outcomes, 0, 100);
    // (1, 1) differs in both choices; the best of (0, 1) comes behind it. (2, 0) promises nothing.
    EXPECT_THAT(fixture.structures().unlike(outcomes, {}, 5), ElementsAre(3, 2));
}

TEST(Structures, WhatIsProposedCountsAsKnown) {
    const Fixture fixture;
    EXPECT_THAT(fixture.structures().unlike(Outcomes(), {fixture.point(1), fixture.point(4)}, 5), ElementsAre(2));
    EXPECT_THAT(fixture.structures().unlike(Outcomes(), {fixture.point(0), fixture.point(2), fixture.point(3)}, 5), IsEmpty());
}

TEST(Structures, OfEqualOnesTheBestPredictionIsTaken) {
    Fixture fixture;
    fixture.ranking.points.back().predicted = 160;  // as much as may promise something
    Outcomes outcomes;
    fixture.measure(outcomes, 3, 130);
    // (0, 0) and (2, 0) are unlike (1, 1) in both choices.
    EXPECT_THAT(fixture.structures().unlike(outcomes, {}, 1), ElementsAre(0));
    EXPECT_THAT(fixture.structures().unlike(outcomes, {}, 9), ElementsAre(0, 2, 5));
}

TEST(Structures, NothingIsProposedOfAnEmptyRanking) {
    Fixture fixture;
    fixture.ranking.points.clear();
    EXPECT_THAT(fixture.structures().unlike(Outcomes(), {}, 3), IsEmpty());
    EXPECT_THAT(fixture.structures().corrected(fixture.task, Outcomes()), IsEmpty());
}

TEST(Structures, WithoutMeasurementsPredictionsStand) {
    const Fixture fixture;
    EXPECT_THAT(fixture.structures().corrected(fixture.task, Outcomes()), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(Structures, AMeasurementCorrectsItsStructure) {
    const Fixture fixture;
    Outcomes outcomes;
    fixture.measure(outcomes, 0, 200);                   // twice as long: 200 and 220
    fixture.measure(outcomes, 4, 150);                   // as predicted: 130 and 150
    fixture.measure(outcomes, 2, 180, Trial::TimedOut);  // at least 180
    fixture.measure(outcomes, 5, 0, Trial::Refused);     // says nothing: the median of all, 1.5, makes it 241.5
    EXPECT_THAT(fixture.structures().corrected(fixture.task, outcomes), ElementsAre(3, 4, 2, 0, 1, 5));
}

}  // namespace
}  // namespace atalla
