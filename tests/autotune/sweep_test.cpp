// Recorded sweeps: the file format, the score, and how well the shipped strategy searches them.
#include "autotune/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/autotune/synthetic.h"
#include "tests/support/error_of.h"
#include "tests/support/source_path.h"

namespace atalla {
namespace {

using testing::HasSubstr;

TuningCache synthetic_sweep() {
    TuningCache sweep;
    sweep.key = synthetic::task().key();
    sweep.machine_name = "ax01";
    sweep.bound_cycles = 1000;
    for (const Parameter &parameter : synthetic::space().parameters) {
        sweep.parameters.push_back({parameter.name, parameter.values, parameter.choice});
    }
    for (const auto &[cycles, point] : synthetic::sorted()) {
        Trial trial;
        trial.point = point;
        trial.status = Trial::Ok;
        trial.cycles = cycles;
        sweep.rows.push_back({trial, static_cast<double>(cycles), 1700000000123});
    }
    sweep.rows[5].trial.status = Trial::Refused;
    sweep.rows[5].trial.cycles = 0;
    sweep.rows[5].trial.reason = "\"rule\" 51";
    return sweep;
}

std::string text_of(const TuningCache &sweep) {
    std::ostringstream out;
    write_tuning_cache(sweep, out);
    return out.str();
}

TEST(Sweep, FilesComeBackAsTheyWere) {
    TemporaryFolder folder;
    for (const char *name : {"sweep.json", "sweep.json.gz"}) {
        write_sweep(synthetic_sweep(), folder / name);
        const TuningCache read = read_sweep(folder / name);
        EXPECT_EQ(read.key, synthetic_sweep().key);
        EXPECT_EQ(read.rows.size(), synthetic_sweep().rows.size());
        EXPECT_EQ(text_of(parse_tuning_cache(text_of(read), "again")), text_of(read));
    }
    EXPECT_LT(std::filesystem::file_size(folder / "sweep.json.gz"), std::filesystem::file_size(folder / "sweep.json") / 5);
}

// What Kernel Tuner's schema 1.0.0 demands of a cache file.
TEST(Sweep, IsACacheOfKernelTuner) {
    const nlohmann::json file = nlohmann::json::parse(text_of(synthetic_sweep()));
    EXPECT_EQ(file.at("schema_version"), "1.0.0");
    for (const char *member :
         {"device_name", "kernel_name", "problem_size", "tune_params_keys", "tune_params", "objective", "cache"}) {
        EXPECT_TRUE(file.contains(member)) << member;
    }
    EXPECT_EQ(file.at("tune_params_keys"), nlohmann::json({"tile_m", "tile_n", "unroll", "buffers", "order"}));
    const nlohmann::json &row = file.at("cache").begin().value();
    for (const char *member :
         {"time", "compile_time", "verification_time", "benchmark_time", "strategy_time", "framework_time", "timestamp"}) {
        EXPECT_TRUE(row.contains(member)) << member;
    }
    EXPECT_EQ(row.at("timestamp"), "2023-11-14T22:13:20.123+00:00");
    int failures = 0;
    for (const auto &[key, line] : file.at("cache").items()) {
        EXPECT_THAT(key, testing::MatchesRegex("[0-9]+(,[0-9]+)*"));
        failures += line.at("time") == "RuntimeFailedConfig";
    }
    EXPECT_EQ(failures, 1);
}

TEST(Sweep, GoesThroughADatabase) {
    TemporaryFolder folder;
    Database database(folder / "x.db");
    const TuningCache sweep = synthetic_sweep();
    EXPECT_EQ(import_tuning_cache(database, sweep).added, static_cast<int64_t>(sweep.rows.size()));
    EXPECT_EQ(import_tuning_cache(database, sweep).added, 0);
    TuningTask task = synthetic::task();
    task.draft = [](const Point &point) { return static_cast<double>(synthetic::cycles(point)); };
    // Choices of the code generator are no part of a space, nor of what is recorded of one.
    Trial with_choices = sweep.rows.front().trial;
    with_choices.point.set(choices_parameter, 1);
    database.record_trial(task.key(), with_choices);
    TuningCache back = recorded_sweep(database, task);
    EXPECT_EQ(back.rows.size(), sweep.rows.size());
    EXPECT_EQ(back.parameters.front().name, "tile_m");
    EXPECT_GT(back.rows.front().predicted, 0);
}

TEST(Sweep, WhatIsWrongIsNamed) {
    TemporaryFolder folder;
    EXPECT_THAT(error_of([&] { read_sweep(folder / "none.json"); }), HasSubstr("cannot read the sweep"));
    EXPECT_THAT(error_of([&] { parse_tuning_cache("{}", "x.json"); }), HasSubstr("x.json: not a cache of Kernel Tuner"));
    EXPECT_THAT(error_of([&] { parse_tuning_cache(R"({"schema_version": "1.0.0"})", "x.json"); }),
                HasSubstr("not written by atalla-tune"));
    std::string text = text_of(synthetic_sweep());
    const size_t at = text.find("\"status\":\"ok\"");
    text.replace(at, 13, "\"status\":\"OK\"");
    EXPECT_THAT(error_of([&] { parse_tuning_cache(text, "x.json"); }), HasSubstr("configuration"));
    { std::ofstream(folder / "cut.json.gz") << "\x1f\x8b damaged"; }
    EXPECT_THAT(error_of([&] { read_sweep(folder / "cut.json.gz"); }), HasSubstr("cut.json.gz"));
}

// Against the mean over many samples.
TEST(Score, TheBaselineIsTheExpectedBestOfARandomSample) {
    TuningCache sweep = synthetic_sweep();
    sweep.rows.resize(40);
    sweep.rows[5] = sweep.rows[4];
    const std::vector<double> baseline = random_baseline(sweep, 10);
    Random random(7);
    std::vector<double> sums(10, 0);
    constexpr int samples = 20000;
    for (int sample = 0; sample < samples; sample++) {
        random.shuffle(sweep.rows);
        double best = 1e18;
        for (size_t trial = 0; trial < 10; trial++) {
            best = std::min(best, static_cast<double>(sweep.rows[trial].trial.cycles));
            sums[trial] += best / samples;
        }
    }
    for (size_t trial = 0; trial < 10; trial++) {
        EXPECT_NEAR(baseline[trial] / sums[trial], 1, 0.01) << trial;
    }
    EXPECT_EQ(random_baseline(sweep, 1000).size(), 40u);
    EXPECT_NEAR(random_baseline(sweep, 1000).back(), 1e0 * static_cast<double>(synthetic::sorted().front().first), 1e-6);
}

TEST(Score, AnExactDraftScoresOneAndARandomSearchAboutNothing) {
    const TuningCache sweep = synthetic_sweep();
    TuneOptions options;
    const SearchScore exact = score_search(sweep, options, 32);
    EXPECT_GT(exact.score, 0.99);
    EXPECT_EQ(exact.excess, 0);
    EXPECT_EQ(exact.first_best, 1);
    options.strategy = Strategy::Random;
    double mean = 0;
    for (options.seed = 1; options.seed <= 100; options.seed++) {
        mean += score_search(sweep, options, 32).score / 100;
    }
    EXPECT_NEAR(mean, 0, 0.15);
}

// The shipped default on real spaces: 32 trials of a few hundred to 1,400 points.
TEST(Score, TheDefaultStrategyComesCloseToTheOptimumOfEverySweep) {
    std::vector<double> excesses;
    for (const auto &entry : std::filesystem::directory_iterator(source_path("bench/sweeps"))) {
        excesses.push_back(score_search(read_sweep(entry.path()), {}, 32).excess);
    }
    ASSERT_GE(excesses.size(), 12u);
    std::sort(excesses.begin(), excesses.end());
    EXPECT_LE(excesses[excesses.size() / 2], 0.01);
    EXPECT_LE(excesses[excesses.size() * 9 / 10], 0.08);
}

}  // namespace
}  // namespace atalla
