// Merging: the join of rows obeys its laws, and any order of merges gives the same bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "db/export.h"
#include "db/join.h"
#include "schedules/random.h"
#include "tests/db/fixtures.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_db::export_text;
using testing_db::key;
using testing_db::not_ok;
using testing_db::ok;

// Few different values, so that ties at every level of the order happen often.
StoredTrial random_trial(Random &random) {
    StoredTrial stored;
    stored.key = key(fmt::format("{{\"m\":{}}}", random.below(3)));
    stored.key.machine = fmt::format("machine-{}", random.below(2));
    const auto tile = static_cast<int64_t>(random.below(4));
    const auto status = static_cast<Trial::Status>(random.below(4));
    stored.trial = status == Trial::Ok ? ok(tile, 100 + static_cast<int64_t>(random.below(2)))
                                       : not_ok(tile, status, random.below(2) ? "one reason" : "another");
    stored.trial.seconds_lower = 0.1 * static_cast<double>(random.below(2));
    stored.verification = static_cast<Verification>(static_cast<int>(random.below(3)) - 1);
    stored.differs = stored.verification == Verification::Differs ? fmt::format("element {}", random.below(2)) : "";
    stored.run = fmt::format("run-{}", random.below(2));
    stored.when = 1000 + static_cast<int64_t>(random.below(2));
    return stored;
}

TuningRun random_run(Random &random) {
    TuningRun run;
    run.id = fmt::format("run-{}", random.below(3));
    run.key = key(fmt::format("{{\"m\":{}}}", random.below(2)));
    run.host = "host";
    run.seed = random.below(2);
    run.ended = static_cast<int64_t>(random.below(2)) * 5000;
    run.outcome = run.ended ? "finished" : "running";
    return run;
}

// A source database as an export: lines of a kind may contradict those of other sources.
std::string random_export(uint64_t seed) {
    Random random(seed);
    std::string text = export_header() + "\n";
    for (int i = 0; i < 3; i++) {
        text += export_line(MachineName{fmt::format("machine-{}", random.below(2)),
                                        std::vector<std::string>{"", "ax01", "ax01-psum"}[random.below(3)]}) +
                "\n";
        text += export_line(random_run(random)) + "\n";
    }
    for (int i = 0; i < 12; i++) {
        text += export_line(random_trial(random)) + "\n";
    }
    return text;
}

void import_text(Database &database, const std::string &text) {
    std::istringstream in(text);
    database.import_from(in, "text");
}

TEST(Join, IsCommutativeAssociativeAndIdempotent) {
    Random random(11);
    for (int round = 0; round < 20'000; round++) {
        const StoredTrial a = random_trial(random), b = random_trial(random), c = random_trial(random);
        const auto line = [](const StoredTrial &trial) {
            StoredTrial same_place = trial;  // joined rows are of the same key and point
            same_place.key = key();
            same_place.trial.point = {};
            return export_line(same_place);
        };
        ASSERT_EQ(line(join(a, a)), line(a));
        ASSERT_EQ(line(join(a, b)), line(join(b, a)));
        ASSERT_EQ(line(join(join(a, b), c)), line(join(a, join(b, c))));
    }
}

TEST(Join, OfRunsObeysTheSameLaws) {
    Random random(12);
    for (int round = 0; round < 5000; round++) {
        TuningRun a = random_run(random), b = random_run(random), c = random_run(random);
        a.id = b.id = c.id = "run";
        ASSERT_EQ(export_line(join(a, a)), export_line(a));
        ASSERT_EQ(export_line(join(a, b)), export_line(join(b, a)));
        ASSERT_EQ(export_line(join(join(a, b), c)), export_line(join(a, join(b, c))));
    }
    TuningRun running, finished;
    finished.ended = 5;
    finished.outcome = "finished";
    EXPECT_EQ(join(running, finished).outcome, "finished");
}

TEST(Join, PrefersWhatIsKnownBetter) {
    const auto stored = [](const Trial &trial, Verification verification = Verification::Unverified) {
        return StoredTrial{key(), trial, verification, verification == Verification::Differs ? "x" : "", "", 0};
    };
    const Trial good = ok(1, 100), slower = ok(1, 101), refused = not_ok(1, Trial::Refused, ""),
                failed = not_ok(1, Trial::Failed, ""), timed_out = not_ok(1, Trial::TimedOut, "");
    EXPECT_EQ(join(stored(good), stored(refused)).trial.status, Trial::Ok);
    EXPECT_EQ(join(stored(failed), stored(refused)).trial.status, Trial::Refused);
    EXPECT_EQ(join(stored(failed), stored(timed_out)).trial.status, Trial::Failed);
    EXPECT_EQ(join(stored(good), stored(slower)).trial.cycles, 101);
    EXPECT_EQ(join(stored(good, Verification::Verified), stored(good)).verification, Verification::Verified);
    EXPECT_EQ(join(stored(good, Verification::Verified), stored(good, Verification::Differs)).differs, "x");
    EXPECT_EQ(join(stored(good, Verification::Verified), stored(slower)).verification, Verification::Verified)
        << "the program is the same, whatever it was measured to take";
}

TEST(Merge, AnyOrderGivesTheSameBytes) {
    Random random(21);
    for (int round = 0; round < 5; round++) {
        TemporaryFolder folder;
        std::vector<std::string> sources;
        for (int source = 0; source < 4; source++) {
            sources.push_back(random_export(random.next()));
        }
        std::string expected;
        for (int order = 0; order < 6; order++) {
            Database database(folder / fmt::format("{}.db", order));
            random.shuffle(sources);
            for (const std::string &source : sources) {
                import_text(database, source);
            }
            const std::string text = export_text(database);
            expected = expected.empty() ? text : expected;
            ASSERT_EQ(text, expected) << "round " << round << ", order " << order;
            ASSERT_EQ(database.integrity(), "ok");
        }
        // As a tree: (0 + 1) + (2 + 3), by files instead of texts, with every source merged twice.
        Database left(folder / "left.db"), right(folder / "right.db");
        for (int source = 0; source < 4; source++) {
            Database leaf(folder / fmt::format("leaf-{}.db", source));
            import_text(leaf, sources[source]);
            (source < 2 ? left : right).merge(leaf);
            left.merge(leaf);
        }
        right.merge(left);
        ASSERT_EQ(export_text(right), expected);
    }
}

TEST(Merge, ExportAndImportAreInverse) {
    TemporaryFolder folder;
    Database one(folder / "1.db"), two(folder / "2.db");
    import_text(one, random_export(5));
    const std::string text = export_text(one);
    import_text(two, text);
    EXPECT_EQ(export_text(two), text);
    import_text(two, text);
    EXPECT_EQ(export_text(two), text);
    EXPECT_TRUE(text.find("\"id\":\"run") != std::string::npos);
}

TEST(Merge, TheExportIsReadableAndSorted) {
    TemporaryFolder folder;
    Database database(folder / "x.db");
    import_text(database, export_header() + "\n" +
                              R"({"kind":"trial","op":"b","workload":"text","machine":"m","compiler":"c","point":{"t":1},)"
                              R"("status":"ok","cycles":5,"reason":"","counters":null,"seconds_lower":0.5,)"
                              R"("seconds_simulate":0.25,"verification":"verified","differs":"","run":"","when":7})"
                              "\n" +
                              R"({"kind":"machine","fingerprint":"m","name":"ax01"})"
                              "\n" +
                              R"({"kind":"trial","op":"a","workload":{"m":1},"machine":"m","compiler":"c","point":{"t":1},)"
                              R"("status":"failed","cycles":0,"reason":"why","counters":null,"seconds_lower":0.0,)"
                              R"("seconds_simulate":0.0,"verification":"unverified","differs":"","run":"","when":8})"
                              "\n");
    EXPECT_EQ(export_text(database),
              R"({"format":"atalla-tune database","kind":"header","version":2})"
              "\n"
              R"({"fingerprint":"m","kind":"machine","name":"ax01"})"
              "\n"
              R"({"compiler":"c","counters":null,"cycles":0,"differs":"","kind":"trial","machine":"m","op":"a",)"
              R"("point":{"t":1},"reason":"why","run":"","seconds_lower":0.0,"seconds_simulate":0.0,"status":"failed",)"
              R"("verification":"unverified","when":8,"workload":{"m":1}})"
              "\n"
              R"({"compiler":"c","counters":null,"cycles":5,"differs":"","kind":"trial","machine":"m","op":"b",)"
              R"("point":{"t":1},"reason":"","run":"","seconds_lower":0.5,"seconds_simulate":0.25,"status":"ok",)"
              R"("verification":"verified","when":7,"workload":"text"})"
              "\n");
}

TEST(Merge, CertificatesJoinToTheStrongestProof) {
    TemporaryFolder folder;
    const Certificate bound{key(), 100, "array", 0}, stronger{key(), 120, "dram", 0}, proof{key(), 100, "accumulate", 150};
    const auto results = [](const Database &database) {
        std::ostringstream out;
        database.export_to(out, {}, true);
        return out.str();
    };
    const auto recorded = [&](const std::string &name, const std::vector<Certificate> &certificates) {
        Database database(folder / name);
        database.record_trial(key(), ok(1, 150));
        for (const Certificate &certificate : certificates) {
            database.record_certificate(certificate);
        }
        return results(database);
    };
    const std::string expected = recorded("a.db", {bound, stronger, proof});
    EXPECT_EQ(recorded("b.db", {proof, proof, stronger, bound}), expected);
    EXPECT_THAT(expected, HasSubstr(R"("bound_by":"dram","bound_cycles":120,)"));
    EXPECT_THAT(expected, HasSubstr(R"("least_cycles":150)"));
    Database merged(folder / "c.db"), alone(folder / "d.db");
    merged.merge(Database(folder / "a.db"));
    merged.merge(Database(folder / "b.db"));
    EXPECT_EQ(results(merged), expected);
    import_text(alone, expected);
    EXPECT_EQ(alone.certificate(key()), (Certificate{key(), 120, "dram", 150}));
    EXPECT_EQ(alone.certificate(key("other")), std::nullopt);
    EXPECT_TRUE(alone.certificate(key())->optimal_in_space(150));
    EXPECT_FALSE(alone.certificate(key())->optimal_in_space(151));
    EXPECT_DOUBLE_EQ(alone.certificate(key())->gap(150), 0.25);
    alone.prune({});
    EXPECT_EQ(alone.certificate(key()), std::nullopt) << "what nothing refers to stays";
}

TEST(Merge, ReportsWhatItDid) {
    TemporaryFolder folder;
    Database mine(folder / "mine.db"), theirs(folder / "theirs.db");
    mine.record_trial(key(), ok(1, 100));
    mine.record_trial(key(), ok(2, 200));
    mine.record_trial(key(), ok(3, 300));
    theirs.merge(mine);
    theirs.record_trial(key(), ok(4, 400));
    theirs.mark_verified(key(), ok(1, 0).point);
    theirs.record_trial(key(), ok(2, 222));
    const MergeReport report = mine.merge(theirs);
    EXPECT_EQ(report.read, 4);
    EXPECT_EQ(report.added, 1);
    EXPECT_EQ(report.changed, 2);
    EXPECT_THAT(report.conflicts,
                ElementsAre(R"(aten::mm {"m":64} at depth=2,tile=2 on machine machine-1: 200 and 222 cycles)"));
    EXPECT_EQ(mine.find_trial(key(), ok(2, 0).point)->trial.cycles, 222);
    EXPECT_EQ(export_text(mine), export_text(theirs));
    const MergeReport again = mine.merge(theirs);
    EXPECT_EQ(again.added + again.changed, 0);
    EXPECT_TRUE(again.conflicts.empty());
    EXPECT_THAT(error_of([&] { mine.merge(mine); }), HasSubstr("cannot be merged with itself"));
}

TEST(Merge, AMachineKeepsTheFirstOfItsNames) {
    TemporaryFolder folder;
    Database database(folder / "x.db");
    for (const char *name : {"", "b", "a", "c", ""}) {
        database.name_machine("m", name);
    }
    EXPECT_THAT(export_text(database), HasSubstr(R"("name":"a")"));
}

TEST(Merge, BadTextIsRefusedAsAWhole) {
    TemporaryFolder folder;
    Database database(folder / "x.db");
    database.record_trial(key(), ok(1, 100));
    const std::string before = export_text(database);
    Random random(1);
    const std::string good = export_header() + "\n" + export_line(random_trial(random)) + "\n";
    const auto refusal = [&](const std::string &text) {
        std::istringstream in(text);
        const std::string message = error_of([&] { database.import_from(in, "rows.jsonl"); });
        EXPECT_EQ(export_text(database), before);
        return message;
    };
    EXPECT_THAT(refusal(""), HasSubstr("rows.jsonl:1: the text does not begin with the header of a tuning database export; "
                                       "nothing was taken over"));
    EXPECT_THAT(refusal("{}\n"), HasSubstr("does not begin with the header"));
    EXPECT_THAT(refusal(R"({"kind":"header","format":"atalla-tune database","version":3})"),
                HasSubstr("has format version 3, this program knows versions 1 to 2"));
    EXPECT_THAT(refusal(good + "{\"kind\":"), HasSubstr("rows.jsonl:3: not JSON: "));
    EXPECT_THAT(refusal(good + "\n"), HasSubstr("rows.jsonl:3: not JSON: "));
    EXPECT_THAT(refusal(good + R"({"kind":"tiral"})"),
                HasSubstr("'tiral' is not a kind of line (machine, run, certificate, trial)"));
    EXPECT_THAT(refusal(good + R"({"kind":"trial","op":"a"})"), HasSubstr("key 'workload' not found"));
    EXPECT_THAT(refusal(good + R"({"kind":)" + std::string(1'000'000, '[')), HasSubstr("JSON is nested more than 32 deep"));
    EXPECT_THAT(refusal(std::string(1'000'000, '{')), HasSubstr("rows.jsonl:1: not JSON"));
    std::string wrong = good;
    wrong.replace(wrong.find("\"point\":{"), 9, "\"point\":{\"x\":1.5,");
    EXPECT_THAT(refusal(wrong), HasSubstr("rows.jsonl:2: the parameter 'x' of a point is 1.5"));
    wrong = good;
    wrong.replace(wrong.find("\"cycles\":"), 9, "\"cycles\":1e30,\"ignored\":");
    EXPECT_THAT(refusal(wrong), HasSubstr("'cycles' is 1e+30, not a 64-bit integer"));
    wrong = export_header() + "\n" + export_line(StoredTrial{key(), ok(1, 0), Verification::Unverified, "", "", 0});
    EXPECT_THAT(refusal(wrong), HasSubstr("a trial that is ok took 0 cycles"));
    wrong = good + export_line(random_run(random));
    wrong.replace(wrong.find("\"seed\":"), 7, "\"seed\":-1,\"ignored\":");
    EXPECT_THAT(refusal(wrong), HasSubstr("'seed' is -1, not a natural number of 64 bits"));
    wrong = good;
    wrong.replace(wrong.find("\"counters\":"), 11, "\"counters\":[1],\"ignored\":");
    EXPECT_THAT(refusal(wrong), HasSubstr("the counters of a trial are an object or null, not array"));
    wrong = good;
    wrong.replace(wrong.find("\"verification\":\""), 16, "\"verification\":\"un");
    EXPECT_THAT(refusal(wrong), HasSubstr("is not a verification"));
}

}  // namespace
}  // namespace atalla
