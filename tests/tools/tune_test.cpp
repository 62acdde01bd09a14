// atalla-tune from outside: what it reports, stores, resumes and refuses.
#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "db/database.h"
#include "generators/evaluate.h"
#include "generators/registry.h"
#include "isa/assembler.h"
#include "isa/error.h"
#include "isa/in_file.h"
#include "tests/tools/tool_fixture.h"

namespace atalla {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

class Tune : public testing_tools::Tool {
protected:
    Output tune(const std::string &arguments) const { return run(ATALLA_TUNE_TOOL, arguments); }

    json tuned(const std::string &arguments) const {
        const Output output = tune("--quiet --json " + arguments);
        EXPECT_EQ(output.status, 0) << output.error;
        EXPECT_EQ(output.error, "");
        return json::parse(output.out);
    }

    // The one line that a failed command says.
    std::string refusal(const std::string &arguments) const {
        const Output output = tune("--quiet " + arguments);
        EXPECT_EQ(output.status, 1) << output.out;
        EXPECT_EQ(output.out, "");
        return output.error;
    }
};

TEST_F(Tune, ReportsAsJson) {
    const json report = tuned("--op gemm --shape 64x64x64 --budget 8 --no-choices");
    EXPECT_EQ(report["op"], "gemm");
    EXPECT_EQ(report["shape"], "64x64x64");
    EXPECT_EQ(report["machine"], "ax01");
    EXPECT_EQ(report["bound_cycles"],
              find_operator("gemm").workload({{"shape", "64x64x64"}})->bound(find_machine("ax01")).cycles);
    EXPECT_GE(report["cycles"], report["bound_cycles"]);
    EXPECT_DOUBLE_EQ(report["bound_share"], report["bound_cycles"].get<double>() / report["cycles"].get<double>());
    EXPECT_GT(report["naive_cycles"], report["cycles"]);
    EXPECT_GE(report["drafted"], 8);
    EXPECT_LE(report["lowered"], 8);
    EXPECT_EQ(report["with_choices"], 0);
    EXPECT_GT(report["simulated"], 0);
    EXPECT_LE(report["simulated"], report["lowered"]);
    EXPECT_GT(report["seconds"], 0);
    EXPECT_TRUE(report["schedule"].contains("rows"));
    EXPECT_EQ(report["verified"], true);
    EXPECT_EQ(report["db"], "x.db");
    int64_t stalls = 0;
    for (const auto &[cause, cycles] : report["stalls"].items()) stalls += cycles.get<int64_t>();
    EXPECT_LT(stalls, report["cycles"]);
}

TEST_F(Tune, CountsTrialsWithChoicesBehindTheBudget) {
    const json report = tuned("--op gemm --shape 64x64x64 --budget 8");
    EXPECT_GT(report["with_choices"], 0);
    EXPECT_EQ(report["lowered"], 8 + report["with_choices"].get<int64_t>());
    EXPECT_EQ(tuned("--op gemm --shape 64x64x64 --budget 1 --db y.db")["lowered"], 1);
}

TEST_F(Tune, ArrangesWeightsAndSaysSo) {
    const json arranged = tuned("--op conv2d --shape 1x8x9x9,8x8x3x3 --trials 2"),
               given = tuned("--op conv2d --shape 1x8x9x9,8x8x3x3 --trials 2 --weight-layout oihw");
    EXPECT_EQ(arranged["workload"]["attributes"]["weight_layout"], "packed");
    EXPECT_FALSE(given["workload"]["attributes"].contains("weight_layout"));
    EXPECT_EQ(arranged["notes"].back(),
              "weight is arranged before the program runs, as constants of models are; --weight-layout says how it lies");
    for (const json &note : given["notes"]) EXPECT_THAT(note.get<std::string>(), testing::Not(HasSubstr("arranged")));
    // What is stored decides the order from then on.
    EXPECT_EQ(tuned("--op conv2d --shape 1x8x9x9,8x8x3x3 --trials 2")["simulated"], 0);
}

TEST_F(Tune, PrintsATable) {
    const Output output = tune("--op gemm --shape 64x64x64 --bias --relu --budget 8 --machine ax01-psum --no-choices");
    EXPECT_EQ(output.status, 0) << output.error;
    EXPECT_THAT(output.out, StartsWith("gemm 64x64x64, bias, relu on ax01-psum\n"));
    for (const char *row :
         {"cycles", "lower bound", "of the bound", "of array's peak", "naive schedule", "trials", "time", "schedule",
          "verified        bit for bit", "stored in       x.db", "where the cycles went:\n  [iii"})
        EXPECT_THAT(output.out, HasSubstr(row));
    EXPECT_THAT(output.out, testing::Not(HasSubstr("\033"))) << "no colours outside a terminal";
    EXPECT_THAT(output.error, HasSubstr("8/8")) << "progress";
}

TEST_F(Tune, TheSecondRunIsAnsweredByTheDatabase) {
    const json first = tuned("--shape 64x64x64 --budget 8"), second = tuned("--shape 64x64x64 --budget 8");
    EXPECT_EQ(second["simulated"], 0);
    EXPECT_EQ(second["lowered"], 0);
    EXPECT_EQ(second["from_database"], first["lowered"]);
    for (const char *key : {"cycles", "schedule", "stalls", "verified", "naive_cycles"})
        EXPECT_EQ(second[key], first[key]) << key;
    const json again = tuned("--shape 64x64x64 --budget 8 --retune");
    EXPECT_EQ(again["lowered"], first["lowered"]);
    EXPECT_EQ(again["cycles"], first["cycles"]);
}

TEST_F(Tune, ASeedGivesTheSameTrials) {
    const auto points = [&](const std::string &name) {
        std::set<std::pair<std::string, int64_t>> found;
        for (const StoredTrial &stored : Database(file(name)).select())
            if (!stored.trial.point.contains("unoptimized")) found.emplace(stored.trial.point.text(), stored.trial.cycles);
        return found;
    };
    tuned("--shape 48x40x64 --strategy random --budget 10 --no-choices --seed 3 --db a.db");
    tuned("--shape 48x40x64 --strategy random --budget 10 --no-choices --seed 3 --db b.db");
    tuned("--shape 48x40x64 --strategy random --budget 10 --no-choices --seed 4 --db c.db");
    EXPECT_EQ(points("a.db").size(), 10u);
    EXPECT_EQ(points("a.db"), points("b.db"));
    EXPECT_NE(points("a.db"), points("c.db"));
}

TEST_F(Tune, AKillLosesNothingThatWasDone) {
    const std::string arguments = "--shape 96x96x96 --strategy random --budget 60 --no-choices --seed 5 --quiet --json";
    const pid_t child = start(ATALLA_TUNE_TOOL, arguments);
    const auto trials = [&]() -> size_t {
        try {
            return Database(file("x.db"), Database::Access::ReadOnly).select().size();
        } catch (const std::exception &) {
            return 0;  // the file is being made
        }
    };
    size_t known = 0;
    for (int wait = 0; wait < 6000 && known < 4; wait++, known = trials())
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    kill(child, SIGKILL);
    EXPECT_EQ(finish(child).status, -SIGKILL);
    ASSERT_GE(known, 4u);
    const size_t kept = trials();
    ASSERT_LT(kept, 60u) << "the kill came after the end";
    EXPECT_EQ(Database(file("x.db")).integrity(), "ok");
    const json resumed = json::parse(run(ATALLA_TUNE_TOOL, arguments).out);
    EXPECT_EQ(resumed["from_database"], kept);
    EXPECT_EQ(resumed["lowered"], 60 - kept);
    EXPECT_EQ(resumed["verified"], true);
}

TEST_F(Tune, AnInterruptEndsInOrder) {
    const auto interrupted = [&](const std::string &arguments, const std::function<bool()> &has_begun) {
        const pid_t child = start(ATALLA_TUNE_TOOL, arguments + " --quiet");
        for (int wait = 0; wait < 6000 && !has_begun(); wait++) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        kill(child, SIGINT);
        const Output output = finish(child);
        EXPECT_EQ(output.status, 1);
        return output.error;
    };
    const auto has_a_trial = [&] {
        try {
            return !Database(file("x.db"), Database::Access::ReadOnly).list().empty();
        } catch (const Error &) {
            return false;  // it is being made
        }
    };
    EXPECT_EQ(interrupted("--shape 96x96x96 --strategy random --budget 200", has_a_trial),
              "atalla-tune: interrupted; the same command goes on from here\n");
    EXPECT_EQ(Database(file("x.db")).list().at(0).unfinished, true);
    // Hundreds of thousands of points are priced first, which is not waited for.
    const auto drafts = [&] { return std::filesystem::exists(file("y.db-wal")); };
    EXPECT_EQ(
        interrupted("--op linear(gelu(linear(layer_norm(x,a,b),w,c)),v,d) --shape 50x64,64,64,128x64,128,64x128,64 --db y.db",
                    drafts),
        "atalla-tune: interrupted before a schedule was tried; the same command begins again\n");
}

TEST_F(Tune, EmitsAProgramWithItsData) {
    for (const char *name : {"fsim", "ax01"}) {
        const std::string shape = name == std::string("fsim") ? "30x20x25" : "70x40x64";
        tuned(fmt::format("--shape {} --budget 8 --machine {} --bias --emit gemm.in --emit-asm gemm.s", shape, name));
        const Machine machine = find_machine(name);
        const std::shared_ptr<const Workload> workload = find_operator("gemm").workload({{"shape", shape}, {"bias", "true"}});
        const Evaluator evaluator(workload, machine);
        const Program program = read_in(file("gemm.in"));
        const uint32_t result = program.data.at(0x3C + 3 * 4);  // A, B, bias, C

        Simulator simulator(machine);
        simulator.load(program);
        const RunResult run = simulator.run();
        ASSERT_TRUE(run.ok) << run.error;
        const TensorSpec c = workload->outputs()[0];
        TensorData values(static_cast<size_t>(c.elements()));
        simulator.read_memory(result, {reinterpret_cast<uint8_t *>(values.data()), values.size() * 2});
        EXPECT_EQ(difference(c, values, workload->host_result(machine, evaluator.inputs(DataSet::Normal))[0]), "") << name;

        const Program assembled = assemble(read("gemm.s"), "gemm.s");
        ASSERT_EQ(assembled.packets.size(), program.packets.size());
        for (size_t i = 0; i < program.packets.size(); i++)
            ASSERT_EQ(assembled.packets[i].packet, program.packets[i].packet) << i;
    }
}

TEST_F(Tune, ShowsPassesAndTheUnoptimizedProgram) {
    const Output dump = tune("--shape 32x32x32 --budget 4 --quiet --dump-after pack");
    EXPECT_THAT(dump.out, HasSubstr("==== after pack ====\n"));
    EXPECT_THAT(dump.out, testing::Not(HasSubstr("==== after match ====\n")));
    const Output slow = tune("--shape 32x32x32 --no-opt --json --emit slow.in");
    EXPECT_EQ(slow.status, 0) << slow.error;
    EXPECT_GT(json::parse(slow.out)["naive_cycles"], 0);
    EXPECT_GT(read_in(file("slow.in")).packets.size(), 10u);
}

TEST_F(Tune, MeasuresAGivenPoint) {
    const json report = tuned("--shape 64x64x64 --budget 4");
    const std::string point = Point(report["schedule"].get<Point>()).assignments();
    const json measured = tuned("--shape 64x64x64 --point " + point);
    EXPECT_EQ(measured["cycles"], report["cycles"]);
    EXPECT_EQ(measured["verified"], true);
    EXPECT_TRUE(measured["db"].is_null());
    EXPECT_THAT(refusal("--shape 64x64x64 --point rows=64"), MatchesRegex("atalla-tune: .*\n"));
}

TEST_F(Tune, TunesAListAndNamesWhatItCannot) {
    write("shapes.json", R"({"model": "m", "source": "s", "gemms": [
        {"name": "one", "m": 32, "n": 32, "k": 32, "b": "nk"},
        {"name": "the same", "m": 32, "n": 32, "k": 32, "b": "nk"},
        {"name": "huge", "m": 100000, "n": 100000, "k": 100000, "b": "nk"},
        {"name": "two", "m": 16, "n": 48, "k": 32, "b": "nk", "bias": true}]})");
    const Output output = tune("--shapes shapes.json --budget 4 --quiet --json");
    EXPECT_EQ(output.status, 1);
    EXPECT_EQ(std::count(output.out.begin(), output.out.end(), '\n'), 2);
    EXPECT_THAT(output.out, HasSubstr(R"("shape":"16x48x32")"));
    EXPECT_THAT(output.error, HasSubstr("huge: gemm 100000x100000x100000: a tensor of"));
}

TEST_F(Tune, AKilledListGoesOnToTheSameEnd) {
    write("shapes.json", R"({"model": "m", "source": "s", "gemms": [
        {"name": "one", "m": 64, "n": 64, "k": 64, "b": "nk", "count": 3},
        {"name": "two", "m": 48, "n": 64, "k": 32, "b": "nk"},
        {"name": "three", "m": 16, "n": 96, "k": 64, "b": "nk", "bias": true}]})");
    const std::string arguments = "--shapes shapes.json --budget 48 --quiet --db ";
    ASSERT_EQ(tune(arguments + "whole.db").status, 0);
    const auto trials = [&]() -> size_t {
        try {
            return Database(file("killed.db"), Database::Access::ReadOnly).select().size();
        } catch (const std::exception &) {
            return 0;  // the file is being made
        }
    };
    size_t before = 0;
    for (const size_t until : {4, 20}) {
        const pid_t child = start(ATALLA_TUNE_TOOL, arguments + "killed.db");
        for (int wait = 0; wait < 6000 && trials() < until; wait++) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        kill(child, SIGKILL);
        EXPECT_EQ(finish(child).status, -SIGKILL) << "the kill came after the end";
        EXPECT_GE(trials(), std::max(before, until));
        before = trials();
    }
    ASSERT_EQ(tune(arguments + "killed.db").status, 0);
    const auto results = [&](const std::string &name) { return run(ATALLA_DB_TOOL, "--db " + name + " export --results").out; };
    EXPECT_EQ(results("killed.db"), results("whole.db"));
}

TEST_F(Tune, VerifiesTheDatabase) {
    tuned("--shape 64x64x64 --budget 6");
    const Output good = tune("--verify-db");
    EXPECT_EQ(good.status, 0) << good.error;
    EXPECT_THAT(good.out, HasSubstr("0 different, 0 not reproducible here"));
    EXPECT_EQ(json::parse(tune("--verify-db --winners --json").out)["equal"], 1);
    EXPECT_EQ(json::parse(tune("--verify-db --json --op relu").out)["checked"], 0);
    EXPECT_GT(json::parse(tune("--verify-db --json --op gemm").out)["checked"], 0);
    EXPECT_THAT(refusal("--verify-db --shape 64x64x64"), HasSubstr("--shape says nothing of what is verified"));
    {
        Database database(file("x.db"));
        StoredTrial stored = database.list().at(0).winner.value();
        const TrialKey key = stored.key;
        database.prune({.op = key.op, .workload = {}, .machine = {}, .compiler = {}, .status = {}});
        stored.trial.cycles++;
        database.record_trial(key, stored.trial);
        TrialKey other = key;
        other.compiler = "another";
        database.record_trial(other, stored.trial);
    }
    const Output bad = run(ATALLA_DB_TOOL, "verify --db x.db");
    EXPECT_EQ(bad.status, 1);
    EXPECT_THAT(bad.out, HasSubstr("1 checked, 0 equal, 1 different, 1 not reproducible here"));
    EXPECT_THAT(bad.out, HasSubstr("cycles: stored"));
    EXPECT_EQ(bad.error, "atalla-tune: 1 of 1 stored trials do not repeat\n");
}

TEST_F(Tune, RefusesWhatItDoesNotKnow) {
    EXPECT_THAT(
        refusal("--op gem"),
        testing::MatchesRegex("atalla-tune: unknown operator 'gem'; did you mean 'gemm'\\? ./atalla ops lists all [0-9]+\n"));
    EXPECT_THAT(refusal("--machine ax02"), HasSubstr("did you mean ax01?"));
    EXPECT_THAT(refusal("--strategy drift"), HasSubstr("did you mean 'draft'?"));
    EXPECT_THAT(refusal("--effort norml"), HasSubstr("did you mean 'normal'?"));
    EXPECT_THAT(refusal("--dump-after pak"), HasSubstr("did you mean 'pack'?"));
    EXPECT_THAT(refusal("--shap 1x1x1"), HasSubstr("there is no option --shap; did you mean --shape?; see atalla-tune --help"));
    EXPECT_THAT(refusal("--op softmax --shape 4x5 --dimm=1 more"), HasSubstr("there is no option --dimm; did you mean --dim?"));
    EXPECT_THAT(refusal("--op max_pool2d --shape 1x4x8x8"), HasSubstr("max_pool2d needs kernel-size: of a window"));
    EXPECT_THAT(refusal("--shapes none.json"), HasSubstr("none.json: cannot be read: No such file"));
}

TEST_F(Tune, RefusesImpossibleNumbers) {
    EXPECT_EQ(refusal("--shape 0x4x4"), "atalla-tune: gemm: m is 0, but sizes must be at least 1\n");
    EXPECT_EQ(refusal("--m 4 --n -1"), "atalla-tune: gemm: n is -1, but sizes must be at least 1\n");
    EXPECT_THAT(refusal("--shape 40000x40000x16"), HasSubstr("bytes of memory"));
    for (const char *budget : {"0", "-5", "4.5", "10m", "s", "1e99s"})
        EXPECT_THAT(refusal(std::string("--budget ") + budget),
                    HasSubstr("--budget must be a number of trials, such as 64, or of seconds, such as 10s"))
            << budget;
    EXPECT_THAT(refusal("--trials x"), HasSubstr("--trials must be a number of trials, such as 64"));
    EXPECT_THAT(refusal("--b-layout nn"), HasSubstr("b-layout"));
    for (const char *seed : {"-1", "1.5", "x", "99999999999999999999"})
        EXPECT_THAT(refusal(std::string("--seed ") + seed), HasSubstr("the seed must be a whole number, 0 or more")) << seed;
}

TEST_F(Tune, RefusesDatabasesThatItCannotUse) {
    write("x.db", "This is a text file, long enough to have a header that SQLite would look at and not like.");
    EXPECT_THAT(refusal("--shape 8x8x8"), HasSubstr("x.db"));
    EXPECT_EQ(read("x.db"), "This is a text file, long enough to have a header that SQLite would look at and not like.");
    std::filesystem::create_directory(file("folder.db"));
    EXPECT_THAT(refusal("--shape 8x8x8 --db folder.db"), HasSubstr("folder.db"));
    EXPECT_THAT(refusal("--verify-db --db missing.db"), HasSubstr("missing.db"));
}

// A limit on file sizes stands in for the full disk: it stops the write in the same place.
TEST_F(Tune, ADiskThatIsFullDuringTuningKeepsWhatWasDone) {
    const std::string arguments = "--shape 64x64x64 --strategy random --budget 40 --seed 5 --quiet --json";
    write("limited.sh", fmt::format("trap '' XFSZ; ulimit -f 256; exec {} {}", ATALLA_TUNE_TOOL, arguments));
    const Output full = run("/bin/sh", "limited.sh");
    EXPECT_EQ(full.status, 1);
    EXPECT_EQ(full.out, "");
    EXPECT_EQ(full.error,
              "atalla-tune: writing the database x.db failed: the disk is full, over a limit, or broken; everything recorded "
              "before is kept: free some space and run the same command again\n");
    const size_t kept = Database(file("x.db")).select().size();
    ASSERT_GT(kept, 0u);
    ASSERT_LT(kept, 40u) << "the limit was not reached";
    const json resumed = tuned(arguments);
    EXPECT_EQ(resumed["from_database"], kept);
    EXPECT_EQ(resumed["verified"], true);
}

TEST_F(Tune, RefusesPlacesThatItCannotWrite) {
    const Output output = tune("--shape 32x32x32 --budget 2 --quiet --emit none/gemm.in");
    EXPECT_EQ(output.status, 1);
    EXPECT_EQ(output.error, "atalla-tune: cannot write 'none/gemm.in': check that its folder exists and can be written\n");
    if (std::filesystem::exists("/dev/full")) {
        EXPECT_EQ(std::system(fmt::format("ATALLA_DB={} {} --shape 32x32x32 --budget 2 --quiet > /dev/full 2> {}",
                                          file("x.db").string(), ATALLA_TUNE_TOOL, file("said").string())
                                  .c_str()),
                  1 << 8);
        EXPECT_EQ(read("said"), "atalla-tune: cannot write to standard output\n");
    }
}

}  // namespace
}  // namespace atalla
