// What counts as slower, faster, equal, or not to be judged.
#include "dashboard/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace atalla {
namespace {

using testing::HasSubstr;
using testing::Not;

BenchmarkResults results(const std::string &name, std::map<std::string, BenchmarkRun> runs) {
    return {name, "", "", std::move(runs)};
}
BenchmarkRun cycles(double count) { return {{0.5}, {{"cycles", {count}}}, "", ""}; }
BenchmarkRun times(std::vector<double> seconds) { return {std::move(seconds), {}, "", ""}; }

ComparedMetric only_metric(const BenchmarkRun &before, const BenchmarkRun &after, const CompareOptions &options = {}) {
    const Comparison comparison = compare_benchmarks({results("x", {{"b", before}})}, {results("x", {{"b", after}})}, options);
    EXPECT_EQ(comparison.metrics.size(), 1u);
    return comparison.metrics.at(0);
}

CompareOptions without_times() {
    CompareOptions options;
    options.host_times = false;
    return options;
}

TEST(Comparison, ADifferenceOfOneCycleCounts) {
    EXPECT_EQ(only_metric(cycles(418993), cycles(418993), without_times()).verdict, Verdict::Equal);
    EXPECT_EQ(only_metric(cycles(418993), cycles(418994), without_times()).verdict, Verdict::Slower);
    EXPECT_EQ(only_metric(cycles(418993), cycles(418992), without_times()).verdict, Verdict::Faster);
}

TEST(Comparison, TheWorstRepetitionOfACountIsCompared) {
    BenchmarkRun after = cycles(100);
    after.counters["cycles"] = {100, 103, 100};
    const ComparedMetric metric = only_metric(cycles(100), after, without_times());
    EXPECT_EQ(metric.verdict, Verdict::Slower);
    EXPECT_EQ(metric.after, 103);
    EXPECT_THAT(metric.note, HasSubstr("differs between repetitions"));
}

TEST(Comparison, OtherCountersAreNotJudged) {
    BenchmarkRun before = times({1}), after = times({1});
    before.counters["bound_share"] = {0.9};
    after.counters["bound_share"] = {0.5};
    EXPECT_TRUE(
        compare_benchmarks({results("x", {{"b", before}})}, {results("x", {{"b", after}})}, without_times()).metrics.empty());
}

TEST(Comparison, HostTimesNeedRepetitionsProbabilityAndSize) {
    const std::vector<double> base = {1.00, 1.01, 1.02, 1.03, 1.04, 1.05};
    std::vector<double> slower, faster, little;
    for (double value : base) {
        slower.push_back(value * 1.2);
        faster.push_back(value * 0.8);
        little.push_back(value * 1.049);
    }
    EXPECT_EQ(only_metric(times(base), times(slower)).verdict, Verdict::Slower);
    EXPECT_NEAR(only_metric(times(base), times(slower)).ratio, 1.2, 1e-3);
    EXPECT_EQ(only_metric(times(base), times(faster)).verdict, Verdict::Faster);
    EXPECT_EQ(only_metric(times(base), times(little)).verdict, Verdict::Equal);  // significant, but below 5 %
    EXPECT_EQ(only_metric(times(base), times({0.9, 1.5, 0.95, 1.6, 1.0, 1.7})).verdict,
              Verdict::Equal);  // large, but may be chance
    const ComparedMetric few = only_metric(times({1, 1.1, 1.2, 1.3}), times({2, 2.1, 2.2, 2.3}));
    EXPECT_EQ(few.verdict, Verdict::Undecided);
    EXPECT_EQ(few.note, "4 and 4 repetitions are too few to judge");
    CompareOptions lax;
    lax.alpha = 0.05;
    EXPECT_EQ(only_metric(times({1, 1.1, 1.2, 1.3}), times({2, 2.1, 2.2, 2.3}), lax).verdict, Verdict::Slower);
}

TEST(Comparison, BenchmarksThatComeGoOrFail) {
    BenchmarkRun broken;
    broken.error = "no schedule";
    const Comparison comparison =
        compare_benchmarks({results("x", {{"gone", cycles(1)}, {"broke", cycles(1)}, {"broken", broken}, {"mended", broken}})},
                           {results("x", {{"new", cycles(1)}, {"broke", broken}, {"broken", broken}, {"mended", cycles(1)}})});
    EXPECT_EQ(comparison.count(Verdict::Removed), 1u);
    EXPECT_EQ(comparison.count(Verdict::Added), 2u);
    EXPECT_EQ(comparison.count(Verdict::Failed), 1u);
    EXPECT_TRUE(comparison.regressed());
    EXPECT_THAT(comparison_text(comparison, {}, false), HasSubstr("failed     broke  no schedule\n"));
}

TEST(Comparison, FilesAreMatchedByNameAndOneByOneWhateverTheName) {
    const auto count = [](const Comparison &comparison, Verdict verdict) { return comparison.count(verdict); };
    const BenchmarkResults one = results("one", {{"b", cycles(1)}}), two = results("two", {{"b", cycles(2)}});
    EXPECT_EQ(count(compare_benchmarks({one}, {two}, without_times()), Verdict::Slower), 1u);
    EXPECT_EQ(count(compare_benchmarks({one, two}, {two}, without_times()), Verdict::Equal), 1u);
    EXPECT_EQ(count(compare_benchmarks({one}, {one, two}, without_times()), Verdict::Added), 1u);
}

TEST(Comparison, TextShowsTheWorstFirstAndTheTotals) {
    const Comparison comparison =
        compare_benchmarks({results("x", {{"a", cycles(1000)}, {"b", cycles(1000)}, {"c", cycles(1000)}, {"d", cycles(1000)}})},
                           {results("x", {{"a", cycles(900)}, {"b", cycles(1001)}, {"c", cycles(2000)}, {"d", cycles(1000)}})});
    const std::string text = comparison_text(comparison, {}, false);
    EXPECT_EQ(text,
              "  slower     c  cycles 1,000 -> 2,000  +1,000  (+100.00 %)\n"
              "  slower     b  cycles 1,000 -> 1,001  +1  (+0.10 %)\n"
              "  faster     a  cycles 1,000 -> 900  -100  (-10.00 %)\n"
              "8 compared: 2 slower, 0 failed, 1 faster, 1 equal\n"
              "4 host times have too few repetitions to judge; with --benchmark_repetitions=5 they have enough\n");
    EXPECT_THAT(comparison_text(comparison, {}, true), HasSubstr("  equal      d  cycles 1,000 -> 1,000\n"));
}

TEST(Comparison, JsonHasEveryMetric) {
    const Comparison comparison = compare_benchmarks({results("x", {{"a", cycles(10)}})}, {results("x", {{"a", cycles(11)}})});
    const nlohmann::ordered_json json = comparison_json(comparison, {});
    EXPECT_EQ(json.at("regressed"), true);
    EXPECT_EQ(json.at("slower"), 1);
    EXPECT_EQ(json.at("undecided"), 1);
    const auto &metric = json.at("metrics").at(0);
    EXPECT_EQ(metric.at("benchmark"), "a");
    EXPECT_EQ(metric.at("metric"), "cycles");
    EXPECT_EQ(metric.at("before"), 10);
    EXPECT_EQ(metric.at("after"), 11);
    EXPECT_EQ(metric.at("p"), nullptr);
}

}  // namespace
}  // namespace atalla
