// What the progress display writes, on a terminal and elsewhere.
#include "autotune/progress.h"

#include <gtest/gtest.h>

#include <memory>

namespace atalla {
namespace {

// Collects what is written to a stream.
class Sink {
public:
    std::FILE *stream() { return file_.get(); }
    std::string text() {
        std::fflush(file_.get());
        std::string text(static_cast<size_t>(std::ftell(file_.get())), '\0');
        std::rewind(file_.get());
        const size_t read = std::fread(text.data(), 1, text.size(), file_.get());
        text.resize(read);
        return text;
    }

private:
    std::unique_ptr<std::FILE, int (*)(std::FILE *)> file_{std::tmpfile(), std::fclose};
};

ProgressState state(int64_t done, int64_t best = 1250) {
    ProgressState state;
    state.what = "aten::mm";
    state.done = done;
    state.total = 64;
    state.best_cycles = best;
    state.bound_cycles = 1000;
    state.seconds = 2.0 * static_cast<double>(done);
    return state;
}

TEST(ProgressLine, SaysWhatMatters) {
    EXPECT_EQ(progress_line(state(32), 200),
              "aten::mm  32/64  50% [==========>         ]  best 1250 cycles, 80.0 % of bound, 1 min 04 s left");
    ProgressState other = state(64);
    other.failed = 3;
    EXPECT_EQ(progress_line(other, 200),
              "aten::mm  64/64 100% [====================]  best 1250 cycles, 80.0 % of bound, 3 failed, 2 min 08 s");
}

TEST(ProgressLine, DoesWithoutWhatIsUnknown) {
    ProgressState unknown;
    unknown.done = 5;
    unknown.seconds = 7200;
    EXPECT_EQ(progress_line(unknown, 200), "5 done  none ran yet, 2 h 00 min");
    unknown.best_cycles = 10;
    EXPECT_EQ(progress_line(unknown, 200), "5 done  best 10 cycles, 2 h 00 min");
}

TEST(ProgressLine, ABudgetOfTimeSaysWhatIsLeftOfIt) {
    ProgressState timed;
    timed.done = 5;
    timed.seconds = 12.5;
    timed.most_seconds = 90;
    EXPECT_EQ(progress_line(timed, 200), "5 done  none ran yet, 1 min 18 s left");
    timed.seconds = 91;
    EXPECT_EQ(progress_line(timed, 200), "5 done  none ran yet, 1 min 31 s");
}

TEST(ProgressLine, CachedTrialsDoNotCountForTheTimeLeft) {
    ProgressState resumed = state(34);
    resumed.done_before = 32;
    resumed.seconds = 4;  // two seconds for each of two trials, thirty to go
    EXPECT_NE(progress_line(resumed, 200).find("1 min 00 s left"), std::string::npos);
}

TEST(ProgressLine, DraftingHasNoTrialsYet) {
    ProgressState drafting = state(0, 0);
    drafting.drafting = true;
    drafting.seconds = 12;
    EXPECT_EQ(progress_line(drafting, 200), "aten::mm  drafting the space, 12 s");
}

TEST(ProgressLine, KeepsToTheWidth) {
    for (const int width : {0, 1, 20, 79}) {
        EXPECT_EQ(progress_line(state(32), width).size(), static_cast<size_t>(width));
    }
}

TEST(Progress, ABarRewritesItsLine) {
    Sink sink;
    double now = 0;
    {
        Progress progress(ProgressMode::Bar, sink.stream(), [&] { return now; });
        progress.update(state(1));
        now = 0.05;
        progress.update(state(2));  // too soon
        now = 0.2;
        progress.update(state(3));
        progress.message("hello");
        progress.finish(state(64));
    }
    const std::string text = sink.text();
    EXPECT_EQ(text.find("aten::mm  1/64"), 0u);
    EXPECT_EQ(text.find("aten::mm  2/64"), std::string::npos);
    EXPECT_NE(text.find("\r\x1b[Katen::mm  3/64"), std::string::npos);
    EXPECT_NE(text.find("\r\x1b[Khello\naten::mm  64/64"), std::string::npos);
    EXPECT_EQ(text.back(), '\n');
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

TEST(Progress, AnAbandonedBarLeavesAFreshLine) {
    Sink sink;
    {
        Progress(ProgressMode::Bar, sink.stream(), [] { return 0.0; }).update(state(1));
    }
    EXPECT_EQ(sink.text().back(), '\n');
}

TEST(Progress, LinesAreSparse) {
    Sink sink;
    double now = 0;
    Progress progress(ProgressMode::Automatic, sink.stream(), [&] { return now; });  // a file is not a terminal
    for (int64_t done = 1; done <= 64; done++) {
        now = 0.1 * static_cast<double>(done);  // a run of 6.4 seconds
        progress.update(state(done, done < 50 ? 1250 : 1200));
    }
    progress.finish(state(64, 1200));
    const std::string text = sink.text();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5) << text;
    EXPECT_EQ(text.find('\r'), std::string::npos);
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(Progress, LinesNeedNews) {
    Sink sink;
    double now = 0;
    Progress progress(ProgressMode::Lines, sink.stream(), [&] { return now; });
    progress.update(state(1));
    for (int i = 0; i < 5; i++) {
        now += 10;
        progress.update(state(1));
    }
    now += 10;
    progress.update(state(1, 1100));
    const std::string text = sink.text();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
}

TEST(Progress, QuietIsQuiet) {
    Sink sink;
    Progress progress(ProgressMode::Quiet, sink.stream());
    progress.update(state(1));
    progress.message("hello");
    progress.finish(state(64));
    EXPECT_EQ(sink.text(), "");
}

}  // namespace
}  // namespace atalla
