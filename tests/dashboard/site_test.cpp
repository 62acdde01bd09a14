// The folder that the dashboard is, and the data in it; test_pages.py looks at the pages.
#include "dashboard/site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "dashboard/kernel_record.h"
#include "tests/db/fixtures.h"
#include "tests/support/error_of.h"
#include "tests/support/source_path.h"

namespace atalla {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing_db::key;
using testing_db::not_ok;
using testing_db::ok;

std::string text_of(const std::filesystem::path &file) {
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    return text.str();
}

// What a data file hands to the page.
json received(const std::filesystem::path &file) {
    const std::string text = text_of(file);
    const size_t start = text.find(',');
    return json::parse(text.substr(start + 1, text.rfind(')') - start - 1));
}

class Site : public testing::Test {
protected:
    Site() : database(folder / "x.db") {
        options.output = folder / "site";
        options.pages = source_path("dashboard/web");
    }
    std::string run(const TrialKey &of, int64_t started, const std::vector<Trial> &trials, const std::vector<Trial> &verified) {
        TuningRun run;
        run.key = of;
        run.bound_cycles = 900;
        run.started = started;
        const std::string id = database.begin_run(run);
        for (const Trial &trial : trials) database.record_trial(of, trial, id);
        for (const Trial &trial : verified) database.mark_verified(of, trial.point);
        database.end_run(id, "finished");
        return id;
    }
    json summary() const { return received(folder / "site" / "data" / "summary.js"); }

    TemporaryFolder folder;
    Database database;
    SiteOptions options;
};

TEST_F(Site, ASummaryRowAndAPageForEachKernel) {
    run(key(), 1000, {ok(1, 1000), ok(2, 1100), not_ok(3, Trial::Refused, "rule 51")}, {ok(1, 0)});
    database.name_machine("machine-1", "ax01");
    const SiteReport report = write_site(database, options);
    EXPECT_EQ(report.kernels, 1);
    EXPECT_EQ(report.trials, 3);
    const json row = summary().at("kernels").at(0);
    EXPECT_EQ(row.at("op"), "aten::mm");
    EXPECT_EQ(row.at("workload"), json({{"m", 64}}));
    EXPECT_EQ(row.at("machine_name"), "ax01");
    EXPECT_EQ(row.at("cycles"), 1000);
    EXPECT_EQ(row.at("bound"), 900);
    EXPECT_EQ(row.at("verified"), true);
    EXPECT_EQ(row.at("trials"), 3);
    EXPECT_EQ(row.at("failed"), 1);
    const json page = received(folder / "site" / "data" / ("kernel-" + row.at("id").get<std::string>() + ".js"));
    const json version = page.at("versions").at(0);
    EXPECT_EQ(version.at("winner").at("point"), "depth=2,tile=1");
    EXPECT_EQ(version.at("rows").at("cycles").size(), 3u);
    EXPECT_EQ(version.at("fastest").size(), 2u);
    EXPECT_EQ(version.at("failures").at(0).at("reason"), "rule 51");
    for (const char *name :
         {"index.html", "kernel.html", "models.html", "machines.html", "changes.html", "vendor/uplot.min.js"})
        EXPECT_TRUE(std::filesystem::exists(folder / "site" / name)) << name;
}

TEST_F(Site, HistoryHasAnEntryForEachRunAndTellsCompilersApart) {
    run(key(), 1000, {ok(1, 1000)}, {ok(1, 0)});
    run(key(), 2000, {ok(2, 990)}, {ok(2, 0)});
    TrialKey other = key();
    other.compiler = "compiler-2";
    run(other, 3000, {ok(1, 991)}, {ok(1, 0)});
    const SiteReport report = write_site(database, options);
    EXPECT_EQ(report.kernels, 1);
    EXPECT_EQ(report.slower, 1);
    const json row = summary().at("kernels").at(0);
    EXPECT_EQ(row.at("compiler"), "compiler-2");
    EXPECT_EQ(row.at("cycles"), 991);
    std::vector<int64_t> cycles;
    for (const json &entry : row.at("history")) cycles.push_back(entry.at("cycles"));
    EXPECT_THAT(cycles, testing::ElementsAre(1000, 990, 991));
}

TEST_F(Site, WrongResultsNeverWinAndTheUnoptimizedProgramIsNoTrial) {
    run(key(), 1000, {ok(1, 1000), ok(2, 500)}, {ok(1, 0)});
    database.mark_differs(key(), ok(2, 0).point, "element 3");
    Trial unoptimized = ok(0, 9000);
    unoptimized.point.set(unoptimized_mark, 1);
    database.record_trial(key(), unoptimized);
    write_site(database, options);
    const json row = summary().at("kernels").at(0);
    EXPECT_EQ(row.at("cycles"), 1000);
    EXPECT_EQ(row.at("trials"), 2);
    EXPECT_EQ(row.at("history").size(), 1u);
    const json version =
        received(folder / "site" / "data" / ("kernel-" + row.at("id").get<std::string>() + ".js")).at("versions").at(0);
    EXPECT_EQ(version.at("unoptimized"), 9000);
    EXPECT_EQ(version.at("fastest").at(0).at("verification"), "wrong");
}

TEST_F(Site, NamesCannotLeaveTheirText) {
    TrialKey hostile = key(R"({"note":"</script><script>alert(1)</script>"})");
    hostile.op = "<img src=x onerror=alert(1)>&\"'`$(rm)%00../\xff";
    run(hostile, 1000, {ok(1, 1000)}, {ok(1, 0)});
    database.name_machine("machine-1", "a\"b</title>");
    write_site(database, options);
    for (const auto &entry : std::filesystem::recursive_directory_iterator(folder / "site" / "data")) {
        const std::string text = text_of(entry.path());
        EXPECT_THAT(text, Not(HasSubstr("<"))) << entry.path();
        EXPECT_THAT(text, Not(HasSubstr("&"))) << entry.path();
        EXPECT_TRUE(std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 128; })) << entry.path();
    }
    EXPECT_THAT(summary().at("kernels").at(0).at("op").get<std::string>(),
                testing::StartsWith("<img src=x onerror=alert(1)>&\"'`$(rm)%00../"));
}

TEST_F(Site, AnEmptyDatabaseHasPagesToo) {
    EXPECT_EQ(write_site(database, options).kernels, 0);
    EXPECT_TRUE(summary().at("kernels").empty());
}

TEST_F(Site, AnEarlierDashboardIsReplacedAnythingElseIsNot) {
    run(key(), 1000, {ok(1, 1000)}, {ok(1, 0)});
    write_site(database, options);
    const std::string id = summary().at("kernels").at(0).at("id");
    database.prune({});
    run(key(R"({"m":65})"), 1000, {ok(1, 1000)}, {ok(1, 0)});
    write_site(database, options);
    EXPECT_FALSE(std::filesystem::exists(folder / "site" / "data" / ("kernel-" + id + ".js")));
    EXPECT_EQ(summary().at("kernels").size(), 1u);

    // Left by a run that was killed before its end.
    std::filesystem::remove(folder / "site" / "data" / "summary.js");
    write_site(database, options);
    EXPECT_EQ(summary().at("kernels").size(), 1u);

    std::filesystem::create_directory(folder / "mine");
    std::ofstream(folder / "mine" / "thesis.tex") << "precious";
    options.output = folder / "mine";
    EXPECT_THAT(error_of([&] { write_site(database, options); }),
                HasSubstr("holds something else than a dashboard; name a new folder with -o"));
    EXPECT_EQ(text_of(folder / "mine" / "thesis.tex"), "precious");
    options.output = folder / "mine" / "thesis.tex";
    EXPECT_THAT(error_of([&] { write_site(database, options); }), HasSubstr("it is a file"));
}

TEST_F(Site, WhatTheCompilerKnowsIsShownAndItsErrorsAreNot) {
    run(key(), 1000, {ok(1, 1000)}, {ok(1, 0)});
    run(key(R"({"m":65})"), 1000, {ok(1, 2000)}, {ok(1, 0)});
    options.programs = 1;
    options.describe = [](const TrialKey &of, const StoredTrial *winner, bool with_program) {
        if (of.workload == R"({"m":64})") {
            EXPECT_FALSE(with_program);  // it is the faster one
            throw Error("no such operator");
        }
        KernelNotes notes;
        notes.title = "65";
        notes.program = with_program && winner != nullptr ? "halt.s" : "";
        return notes;
    };
    EXPECT_EQ(write_site(database, options).programs, 1);
    const json kernels = summary().at("kernels");
    EXPECT_EQ(kernels.at(0).at("title"), "");
    EXPECT_EQ(kernels.at(1).at("title"), "65");
    const std::string id = kernels.at(1).at("id");
    EXPECT_EQ(received(folder / "site" / "data" / ("program-" + id + ".js")).at("text"), "halt.s");
}

TEST_F(Site, ARoofIsAboveWhatTheLanesCanDoTogether) {
    const Machine machine = find_machine("ax01");
    TrialKey of = key();
    of.machine = machine.fingerprint();
    run(of, 1000, {ok(1, 1000)}, {ok(1, 0)});
    options.machines = {machine};
    write_site(database, options);
    const json peak = summary().at("machines").at(0).at("peak");
    EXPECT_EQ(peak.at("array_flops"), 2 * 32 * 32);
    // Adder, multiplier and exponentials take 32 lanes every third cycle each, a reduction every twentieth.
    EXPECT_NEAR(peak.at("lane_flops"), 32 * (3.0 / 3 + 1.0 / 20), 1e-9);
}

TEST(KernelId, IsStableAndDependsOnEveryPart) {
    // Links to pages are passed on, so the address of a kernel must not change between versions.
    EXPECT_EQ(kernel_id("gemm", "{}", "m"), "cd824b907af1c7ad");
    EXPECT_NE(kernel_id("gemm", "{}", "m"), kernel_id("gem", "m{}", "m"));
    EXPECT_NE(kernel_id("gemm", "{}", "m"), kernel_id("gemm", "{}", "n"));
}

}  // namespace
}  // namespace atalla
