// Analysis, recordings and retire logs of runs whose every cycle is known.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <sstream>

#include "isa/assembler.h"
#include "simulator/profile/calls.h"
#include "simulator/profile/labels.h"
#include "simulator/profile/profile.h"
#include "simulator/profile/retire_log.h"
#include "simulator/profile/trace.h"
#include "tests/isa/test_paths.h"
#include "tests/timing/random_program.h"

namespace atalla {
namespace {

struct Ran {
    Machine machine = load_machine(source_path("machines/ax01.json"));
    Program program;
    RunResult result;

    Ran(const std::string &text, timing::Observer *observer = nullptr) : program(assemble(text)) { run(observer); }
    void run(timing::Observer *observer) {
        Simulator simulator(machine);
        simulator.load(program);
        result = simulator.run({.per_packet = true, .observer = observer});
    }
};

// The first packet issues in cycle 34; nothing here crosses a line of the instruction cache.
TEST(RetireLog, TellsWhatEveryOperationDidAndWhen) {
    const std::string text = "{ addi.s x1, x0, 7 ; mul.s x2, x0, x0 }\nadd.s x3, x1, x1\nhalt.s\n";
    const Program program = assemble(text);
    std::ostringstream out;
    RetireLog log(program, out);
    Ran ran(text, &log);
    log.finish();
    ASSERT_TRUE(ran.result.ok) << ran.result.error;
    EXPECT_EQ(out.str(),
              "# atalla retire log 1: packet slot issue done pc target value operation\n"
              "0 0 34 35 00000000 x1 00000007 addi.s x1, x0, 7\n"
              "0 1 34 37 00000000 x2 00000000 mul.s x2, x0, x0\n"
              "1 0 39 40 00000014 x3 0000000e add.s x3, x1, x1\n"
              "2 0 40 40 00000028 - - halt.s\n");
}

TEST(RetireLog, ShowsStoresTransfersAndWhatWasUnderWay) {
    const std::string text =
        "lui.s x3, 8192\nor.s x3, x3, x0\nscpad.ld x1, x3, x0\nvreg.st v0, x3, x0, 1, 2\nsw.s x3, 4(x0)\ndivi.s x4, x3, 0\n";
    const Program program = assemble(text);
    std::ostringstream out;
    RetireLog log(program, out);
    Ran ran(text, &log);
    log.finish();
    EXPECT_EQ(ran.result.rule, "50");
    const std::string lines = out.str();
    EXPECT_NE(lines.find(" pad0[0] - scpad.ld x1, x3, x0\n"), std::string::npos) << lines;
    EXPECT_NE(lines.find(" pad2[0] 00000000 vreg.st v0, x3, x0, 1, 2\n"), std::string::npos) << lines;
    EXPECT_NE(lines.find(" mem[00000004] 00100000 sw.s x3, 4(x0)\n"), std::string::npos) << lines;
    EXPECT_NE(lines.find(" - 00000028 pad0[0]"), std::string::npos) << "the transfer had not ended: " << lines;
}

TEST(Profiles, AddUpBySourceAndByPacket) {
    Ran ran("addi.s x2, x0, 5\nloop: mul.s x3, x1, x1\nadd.s x4, x3, x3\nblt.s x1, x2, loop, 1\nend: halt.s\n");
    const Profile profile = make_profile(ran.machine, ran.program, ran.result, 2);
    const Counters &counters = ran.result.counters;
    ASSERT_EQ(profile.by_func.size(), 3u);
    EXPECT_EQ(profile.by_func[0].name, "loop");
    EXPECT_EQ(profile.by_func[0].share.packets, 3u * 6);
    uint64_t cycles = 0;
    for (const SourceShare &share : profile.by_func) {
        cycles += share.share.cycles();
    }
    EXPECT_EQ(cycles, counters.cycles);
    ASSERT_EQ(profile.hottest.size(), 2u);
    EXPECT_GE(profile.hottest[0].share.cycles(), profile.hottest[1].share.cycles());
    EXPECT_TRUE(profile.by_node.empty());
}

TEST(Profiles, GroupByAtenNodeWhereTheSourceMapKnowsIt) {
    Ran ran("addi.s x2, x0, 5\naddi.s x2, x0, 6\nhalt.s\n");
    ran.program.sources = {{"P", "k", "aten::addmm"}, {"E", "", "aten::relu"}};
    ran.program.packets[0].source = 0;
    ran.program.packets[1].source = ran.program.packets[2].source = 1;
    const Profile profile = make_profile(ran.machine, ran.program, ran.result);
    ASSERT_EQ(profile.by_node.size(), 3u) << "two nodes and the time after halt";
    EXPECT_EQ(profile.by_node[0].name, "aten::addmm") << "it waits for the first fetch";
    EXPECT_EQ(origin_of(0, ran.program), "P / k (aten::addmm)");
    EXPECT_EQ(origin_of(1, ran.program), "E (aten::relu)");
}

// 600 additions, three cycles each, none of which waits for another.
// Three calls of one routine, one behind the other: only their order tells them apart.
TEST(Profiles, GiveCyclesToTheCallThatIsUnderWay) {
    const std::string text =
        "addi.s x2, x0, 2\nroutine: mul.s x3, x1, x1\nadd.s x4, x3, x3\nblt.s x1, x2, routine, 1\nend: halt.s\n";
    CallShares shares(assemble(text), {{"first", 20, 80}, {"second", 20, 80}, {"first", 20, 80}});
    const Ran ran(text, &shares);
    ASSERT_TRUE(ran.result.ok) << ran.result.error;
    std::map<std::string, uint64_t> packets;
    uint64_t cycles = 0;
    for (const SourceShare &one : shares.take()) {
        packets[one.name] = one.share.packets;
        cycles += one.share.cycles();
    }
    EXPECT_EQ(packets, (std::map<std::string, uint64_t>{{"(entry)", 1}, {"first", 2 * 3 + 1}, {"second", 3}}));
    EXPECT_EQ(cycles, ran.result.counters.cycles);
}

TEST(Profiles, NameTheUnitThatIsBusy) {
    Ran ran(
        "addi.s x2, x0, 199\nloop: add.vv v1, v2, v3, m0\nadd.vv v5, v2, v3, m0\nadd.vv v9, v2, v3, m0\n"
        "blt.s x1, x2, loop, 1\nhalt.s\n");
    const Profile profile = make_profile(ran.machine, ran.program, ran.result);
    EXPECT_EQ(profile.bound_by, "adder");
    EXPECT_GT(profile.bound_share, 0.8);
    EXPECT_EQ(profile.resources.front().busy, 3 * 600u);
    EXPECT_EQ(profile.roofline.of, "lanes");
    EXPECT_EQ(profile.roofline.flops, 600u * 32);
    EXPECT_EQ(profile.roofline.peak_flops, 32);
    EXPECT_EQ(make_profile(ran.machine, ran.program, ran.result, 10, 500).roofline.flops, 500u)
        << "what the problem asks for, where it is known";
}

TEST(Recordings, SlicesOfATrackDoNotOverlapAndCoverEveryCycleOfIssue) {
    const Machine machine = load_machine(source_path("machines/ax01.json"));
    for (uint32_t seed = 1; seed <= 40; seed++) {
        Simulator simulator(machine);
        simulator.load(RandomProgram(seed, machine, 100).make());
        Recorder recorder(machine, {});
        const RunResult result = simulator.run({.step_limit = 5000, .observer = &recorder});
        if (!result.ok) {
            continue;
        }
        const Recording recording = recorder.take();
        EXPECT_EQ(recording.end, static_cast<int64_t>(result.counters.cycles));
        int64_t at = 0, issue_end = 0;
        uint16_t track = 0;
        for (const Slice &slice : recording.slices) {
            at = slice.track == track ? at : 0;
            track = slice.track;
            ASSERT_GE(slice.begin, at) << "seed " << seed << ", track " << recording.tracks[track].name;
            ASSERT_TRUE(track != 0 || slice.begin == at) << "seed " << seed;
            at = slice.begin + slice.cycles;
            issue_end = track == 0 ? at : issue_end;
        }
        EXPECT_EQ(issue_end, static_cast<int64_t>(result.counters.cycles));
        uint64_t cycles = 0;
        for (const Overview::Stretch &stretch : recording.overview.stretches) {
            cycles = std::accumulate(stretch.stalls.begin(), stretch.stalls.end(), cycles + stretch.packets);
        }
        EXPECT_EQ(cycles, result.counters.cycles);
    }
}

TEST(Recordings, KeepToTheirWindowAndTheirLimit) {
    const std::string text = "addi.s x2, x0, 400\nloop: add.vv v1, v2, v3, m0\nblt.s x1, x2, loop, 1\nhalt.s\n";
    const Machine machine = load_machine(source_path("machines/ax01.json"));
    Recorder window(machine, {.from = 200, .to = 300});
    Ran first(text, &window);
    const Recording part = window.take();
    EXPECT_FALSE(part.cut);
    EXPECT_EQ(part.end, 300);
    for (const Slice &slice : part.slices) {
        EXPECT_TRUE(slice.begin >= 200 && slice.begin < 300);
    }
    Recorder limited(machine, {.most_slices = 100});
    Ran second(text, &limited);
    const Recording cut = limited.take();
    EXPECT_TRUE(cut.cut);
    EXPECT_EQ(cut.slices.size(), 100u);
    EXPECT_LT(cut.end, 300);
}

}  // namespace
}  // namespace atalla
