// atalla-db from outside: what it prints, its exit status, its messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/db/fixtures.h"

namespace atalla {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing_db::export_text;
using testing_db::key;
using testing_db::not_ok;
using testing_db::ok;

class DbTool : public testing::Test {
protected:
    // `arguments` as a shell takes them; @ stands for the temporary folder. Standard output and error together.
    Output run(std::string arguments) const {
        for (size_t at; (at = arguments.find('@')) != std::string::npos;) {
            arguments.replace(at, 1, folder.path().string());
        }
        return run_shell(fmt::format("ATALLA_DB={} {} {} 2>&1", (folder / "x.db").string(), ATALLA_DB_TOOL, arguments));
    }

    void fill() const {
        Database database(folder / "x.db");
        TuningRun run;
        run.key = key();
        run.bound_cycles = 900;
        const std::string id = database.begin_run(run);
        database.record_trial(key(), ok(1, 1000), id);
        database.record_trial(key(), ok(2, 950), id);
        database.record_trial(key(), not_ok(3, Trial::Refused, "rule 51 at packet 7"), id);
        database.mark_verified(key(), ok(1, 0).point);
        database.mark_differs(key(), ok(2, 0).point, "element 3");
        database.name_machine("machine-1", "ax01");
        database.end_run(id, "finished");
    }

    TemporaryFolder folder;
};

TEST_F(DbTool, List) {
    fill();
    const Output output = run("list");
    EXPECT_EQ(output.status, 0);
    EXPECT_EQ(output.out,
              "aten::mm {\"m\":64}\n"
              "    ax01, compiler compiler-1: 1000 cycles, 90.0 % of bound, 3 trials, verified\n"
              "1 tuned in " +
                  (folder / "x.db").string() + "\n");
    const json rows = json::parse(run("list --json").out);
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0]["winner"]["cycles"], 1000);
    EXPECT_EQ(rows[0]["winner"]["point"]["tile"], 1);
    EXPECT_EQ(json::parse(run("list --json --machine other").out).size(), 0u);
}

TEST_F(DbTool, Show) {
    fill();
    const Output output = run("show --machine ax01");
    EXPECT_EQ(output.status, 0);
    EXPECT_EQ(output.out,
              "aten::mm {\"m\":64}\n"
              "  machine ax01 (machine-1), compiler compiler-1\n"
              "  3 trials, 2 ran; bound 900 cycles; verified\n"
              "         950  depth=2,tile=2  wrong: element 3\n"
              "        1000  depth=2,tile=1  verified\n"
              "     refused  depth=2,tile=3: rule 51 at packet 7\n");
    EXPECT_THAT(run("show --top 1").out, Not(HasSubstr("tile=1")));
    EXPECT_THAT(run("show --op aten::none").out, HasSubstr("nothing in"));
    const Output refused = run("show --status refused");
    EXPECT_THAT(refused.out, HasSubstr("tile=3"));
    EXPECT_THAT(refused.out, Not(HasSubstr("tile=1")));
    EXPECT_THAT(refused.out, HasSubstr("3 trials, 2 ran"));
    EXPECT_EQ(json::parse(run("show --json").out)[0]["shown"].size(), 3u);
}

TEST_F(DbTool, ExportAndMerge) {
    fill();
    EXPECT_EQ(run("export").out, export_text(Database(folder / "x.db")));
    EXPECT_EQ(run("export -o @/rows.jsonl").status, 0);
    EXPECT_FALSE(std::filesystem::exists(folder / "rows.jsonl.part"));
    EXPECT_EQ(run("--db @/text.db merge @/rows.jsonl").out,
              (folder / "rows.jsonl").string() + ": 3 trials read, 3 added, 0 changed\n");
    EXPECT_EQ(run("merge @/x.db --db @/file.db").status, 0) << "--db may follow the command";
    EXPECT_EQ(run("--db @/pipe.db merge - < @/rows.jsonl").status, 0);
    for (const char *name : {"text.db", "file.db", "pipe.db"}) {
        EXPECT_EQ(export_text(Database(folder / name)), export_text(Database(folder / "x.db"))) << name;
    }
    const json report = json::parse(run("merge --json @/rows.jsonl").out);
    EXPECT_EQ(report[0]["read"], 3);
    EXPECT_EQ(report[0]["added"], 0);
    const Output same = run("merge @/x.db");
    EXPECT_EQ(same.status, 1);
    EXPECT_THAT(same.out, HasSubstr("cannot be merged with itself"));
    EXPECT_THAT(run("merge @/none").out,
                HasSubstr("atalla-db: " + (folder / "none").string() + ": cannot be read: No such file"));
}

TEST_F(DbTool, AnExportToAFullDiskFails) {
    fill();
    const Output output = run("export > /dev/full");
    EXPECT_EQ(output.status, 1);
}

TEST_F(DbTool, Prune) {
    fill();
    const Output unbounded = run("prune");
    EXPECT_EQ(unbounded.status, 1);
    EXPECT_THAT(unbounded.out, HasSubstr("prune needs at least one of --op"));
    EXPECT_EQ(run("prune --status refused --dry-run").out, "trials to delete: 1\n");
    EXPECT_EQ(run("prune --status refused").out, "trials deleted: 1\n");
    EXPECT_EQ(json::parse(run("prune --all --json").out)["trials"], 2);
    EXPECT_THAT(run("prune --status refsed").out, HasSubstr("did you mean 'refused'?"));
}

TEST_F(DbTool, Stats) {
    fill();
    const Output output = run("stats");
    EXPECT_EQ(output.status, 0);
    EXPECT_THAT(output.out, HasSubstr("integrity ok"));
    EXPECT_THAT(output.out, HasSubstr("3 trials: 2 ok, 0 failed, 1 refused, 0 timed out, 1 with wrong results\n"));
    EXPECT_EQ(json::parse(run("stats --json").out)["winners"], 1);
    // A damaged index page: found by the check though every row can still be read.
    const auto size = std::filesystem::file_size(folder / "x.db");
    std::fstream file(folder / "x.db", std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<int64_t>(size) - 4096);
    file << std::string(4096, '\x5A');
    file.close();
    EXPECT_EQ(run("stats").status, 1);
    EXPECT_THAT(run("stats").out, HasSubstr("is damaged"));
}

TEST_F(DbTool, ResultsAreTheSameWhoeverMeasuredThem) {
    fill();
    const std::string results = run("export --results").out;
    EXPECT_THAT(results, Not(HasSubstr("\"kind\":\"run\"")));
    {
        Database other(folder / "y.db");
        Trial slow = ok(1, 1000);
        slow.seconds_lower = 7;
        other.record_trial(key(), not_ok(3, Trial::Refused, "rule 51 at packet 7"));
        other.record_trial(key(), slow, "another run");
        other.record_trial(key(), ok(2, 950));
        other.mark_verified(key(), ok(1, 0).point);
        other.mark_differs(key(), ok(2, 0).point, "element 3");
        other.name_machine("machine-1", "ax01");
    }
    EXPECT_THAT(results, HasSubstr("\"cycles\":950"));
    EXPECT_EQ(run("--db @/y.db export --results").out, results);
    EXPECT_THAT(run("export --op other").out, Not(HasSubstr("tile")));
    const std::string refused = run("export --status refused").out;
    EXPECT_THAT(refused, HasSubstr("rule 51"));
    EXPECT_THAT(refused, Not(HasSubstr("\"cycles\":950"))) << "the number alone may be part of a time or an identifier";
}

TEST_F(DbTool, ACacheOfKernelTunerGoesOutAndIn) {
    fill();
    EXPECT_EQ(run("export --kernel-tuner -o @/cache.json").status, 0);
    const Output merged = run("--db @/y.db merge @/cache.json");
    EXPECT_EQ(merged.status, 0) << merged.out;
    EXPECT_THAT(merged.out, HasSubstr("3 trials read, 3 added"));
    EXPECT_EQ(Database(folder / "y.db").trials_of(key()).size(), 3u);
    EXPECT_THAT(run("export --kernel-tuner --op other").out, HasSubstr("the options pick 0"));
}

TEST_F(DbTool, Vacuum) {
    {
        Database database(folder / "x.db");
        for (int64_t value = 1; value <= 300; value++) {
            database.record_trial(key(), ok(value, 1000 + value));
        }
    }
    EXPECT_EQ(run("prune --all").status, 0);
    EXPECT_GT(json::parse(run("vacuum --json").out)["freed_bytes"], 4096);
    EXPECT_EQ(json::parse(run("stats --json").out)["integrity"], "ok");
}

TEST_F(DbTool, LookingDoesNotCreate) {
    for (const char *command : {"list", "show", "export", "stats", "prune --all"}) {
        const Output output = run(command);
        EXPECT_EQ(output.status, 1) << command;
        EXPECT_THAT(output.out, HasSubstr("atalla-db: there is no database at ")) << command;
    }
    EXPECT_FALSE(std::filesystem::exists(folder / "x.db"));
}

TEST_F(DbTool, HelpAndMisuse) {
    const Output help = run("--help");
    EXPECT_EQ(help.status, 0);
    EXPECT_THAT(help.out, HasSubstr("Examples:"));
    EXPECT_EQ(run("merge --help").status, 0);
    EXPECT_EQ(run("").status, 1);
    EXPECT_EQ(run("lsit").status, 1);
    EXPECT_EQ(run("merge").status, 1);
}

}  // namespace
}  // namespace atalla
