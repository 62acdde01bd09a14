// Boosted trees, and the corrections of drafts that are made of them: what they learn, what they keep, what they refuse.
#include "autotune/correction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/autotune/synthetic.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;

// A step in one feature, a slope in another, and a third that says nothing.
double truth(double x, double y) { return (x > 3 ? 1.0 : -1.0) + 0.5 * y; }

std::vector<TreeSample> grid() {
    std::vector<TreeSample> samples;
    for (int x = 0; x < 8; x++) {
        for (int y = 0; y < 40; y++) {
            samples.push_back(
                {{static_cast<double>(x), 0.1 * y, static_cast<double>((7 * x + 3 * y) % 5)}, truth(x, 0.1 * y), 1, false});
        }
    }
    return samples;
}

TEST(BoostedTrees, LearnStepsAndSlopes) {
    const BoostedTrees trees(grid(), {});
    for (const double x : {0.0, 3.0, 4.0, 7.0}) {
        for (const double y : {0.2, 1.0, 3.5}) {
            EXPECT_NEAR(trees.predict(std::vector<double>{x, y, 2}), truth(x, y), 0.15) << x << ' ' << y;
        }
    }
    EXPECT_EQ(BoostedTrees().predict({}), 0);
}

TEST(BoostedTrees, ComeBackFromTheirTextAsTheyWere) {
    const BoostedTrees trees(grid(), {}), again(grid(), {});
    const json text = trees.json();
    EXPECT_EQ(text, again.json()) << "the same samples make other trees";
    const BoostedTrees read = BoostedTrees::from_json(json::parse(text.dump()), 3);
    for (const TreeSample &sample : grid()) {
        ASSERT_EQ(read.predict(sample.features), trees.predict(sample.features));
    }
}

TEST(BoostedTrees, WhatIsAtLeastSoMuchPullsNothingDown) {
    std::vector<TreeSample> samples = grid();
    // The upper half is known to take more than a value that is far too small.
    for (TreeSample &sample : samples) {
        if (sample.features[0] > 3 && sample.features[1] > 1) {
            sample.target = -5;
            sample.at_least = true;
        }
    }
    const BoostedTrees trees(samples, {});
    EXPECT_GT(trees.predict(std::vector<double>{6, 3.0, 2}), 0.5);
}

TEST(BoostedTrees, DamageIsNamed) {
    const auto read = [](const char *text) { return error_of([&] { BoostedTrees::from_json(json::parse(text), 2); }); };
    EXPECT_THAT(read("[[[5,0.5,1,2],1,2]]"), HasSubstr("leads nowhere"));
    EXPECT_THAT(read("[[[0,0.5,0,2],1,2]]"), HasSubstr("leads nowhere"));
    EXPECT_THAT(read("[[[0,0.5,1,3],1,2]]"), HasSubstr("leads nowhere"));
    EXPECT_THAT(read("[[]]"), HasSubstr("no node"));
    EXPECT_THAT(read("[[\"x\"]]"), HasSubstr("not as they should be"));
}

// Workloads of several sizes whose draft is right but for a parameter that it does not know.
std::vector<MeasuredTask> tasks(double misjudged) {
    std::vector<MeasuredTask> all;
    for (int size = 1; size <= 20; size++) {
        MeasuredTask task{task_features("{\"m\":" + std::to_string(16 * size) + ",\"b\":\"nk\"}",
                                        find_machine(size % 2 ? "ax01" : "ax01-psum"), 100 * size),
                          {}};
        Random random(static_cast<uint64_t>(size));
        for (const Point &point : sample_distinct(synthetic::space(), 40, random)) {
            const double drafted = static_cast<double>(size * synthetic::cycles(point));
            const double cycles = drafted * (point["unroll"] >= 4 ? misjudged : 1) * (1 + 0.02 * synthetic::noise(point, 3));
            task.points.push_back({point, drafted, static_cast<int64_t>(cycles), false});
        }
        all.push_back(std::move(task));
    }
    return all;
}

TEST(Correction, LearnsWhatTheDraftMisjudges) {
    const CorrectionQuality quality = judge_correction(tasks(3), 5);
    EXPECT_EQ(quality.tasks, 20u);
    EXPECT_EQ(quality.points, 800u);
    EXPECT_GT(quality.error_drafted, 0.3);
    EXPECT_LT(quality.error_corrected, 0.1);
    EXPECT_GT(quality.share_corrected, 0.95);
    EXPECT_LT(quality.worst_drafted, quality.worst_corrected);
    EXPECT_TRUE(quality.wins());
}

TEST(Correction, IsNoUseWhereTheDraftIsRight) {
    std::vector<MeasuredTask> exact = tasks(1);
    for (MeasuredTask &task : exact) {
        for (MeasuredPoint &point : task.points) {
            point.cycles = static_cast<int64_t>(point.drafted);
        }
    }
    EXPECT_FALSE(judge_correction(exact, 5).wins());
}

TEST(Correction, FeaturesAreNamedByWhereTheyComeFrom) {
    const Features features = task_features(R"({"b":"nk","bias":true,"m":63,"taps":[3,3]})", find_machine("ax01"), 1000);
    EXPECT_EQ(features.at("b=nk"), 1);
    EXPECT_EQ(features.at("bias"), 1);
    EXPECT_DOUBLE_EQ(features.at("m"), std::log(64));
    EXPECT_EQ(features.at("taps.size"), 2);
    EXPECT_EQ(features.at("sa.psum_in"), 0);
    EXPECT_THAT(features, AllOf(Contains(Key("taps.1")), Contains(Key("vec.ii")), Not(Contains(Key("b")))));
}

TEST(Correction, ComesBackFromItsFile) {
    TemporaryFolder folder;
    const std::vector<MeasuredTask> known = tasks(3);
    write_corrections({{"gemm", Correction(known)}}, folder / "corrections.json");
    const Corrections read = read_corrections(folder / "corrections.json");
    const auto draft = [](const Point &point) { return static_cast<double>(synthetic::cycles(point)); };
    const auto corrected = corrected_draft(read, "gemm", known.front().features, draft);
    const auto other = corrected_draft(read, "softmax", known.front().features, draft);
    const MeasuredPoint &one = known.front().points.front();
    EXPECT_EQ(corrected(one.point),
              draft(one.point) * Correction(known).of(known.front().features)(one.point, draft(one.point)));
    EXPECT_EQ(other(one.point), draft(one.point)) << "an operator without a correction keeps its draft";
}

TEST(Correction, WrongFilesAreNamed) {
    TemporaryFolder folder;
    const std::filesystem::path file = folder / "x.json";
    const auto refusal = [&](const std::string &text) {
        std::ofstream(file) << text;
        return error_of([&] { read_corrections(file); });
    };
    EXPECT_THAT(error_of([&] { read_corrections(folder / "none.json"); }),
                HasSubstr("none.json: cannot be read: No such file"));
    EXPECT_THAT(refusal("{"), HasSubstr("holds no corrections"));
    EXPECT_THAT(refusal(R"({"format":"atalla draft correction","version":2,"operators":{}})"), HasSubstr("of version 1"));
    EXPECT_THAT(refusal(R"({"format":"atalla draft correction","version":1,"operators":{"gemm":{}}})"),
                AllOf(HasSubstr("x.json"), HasSubstr("gemm")));
    EXPECT_THAT(
        refusal(R"({"format":"atalla draft correction","version":1,"operators":{"gemm":{"features":["m"],"trees":[]}}})"),
        HasSubstr("'drafted' is missing"));
    EXPECT_THAT(error_of([&] { write_corrections({}, folder / "no" / "x.json"); }), HasSubstr("cannot write"));
}

}  // namespace
}  // namespace atalla
