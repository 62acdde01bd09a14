// The guard turns a first signal into a request, nests, and leaves no trace.
#include "autotune/interrupt.h"

#include <gtest/gtest.h>

#include "tests/autotune/synthetic.h"

namespace atalla {
namespace {

volatile std::sig_atomic_t received = 0;

TEST(Interrupt, IsNotedAndForgotten) {
    std::signal(SIGINT, [](int) { received = received + 1; });
    {
        const InterruptGuard guard;
        EXPECT_FALSE(interrupt_requested());
        std::raise(SIGINT);
        EXPECT_TRUE(interrupt_requested());
        EXPECT_EQ(received, 0);
        struct sigaction now {};
        sigaction(SIGINT, nullptr, &now);
        EXPECT_EQ(now.sa_handler, SIG_DFL) << "a second signal must kill";
    }
    EXPECT_FALSE(interrupt_requested());
    std::raise(SIGINT);
    EXPECT_EQ(received, 1) << "the earlier handler is back";
    std::signal(SIGINT, SIG_DFL);
}

TEST(Interrupt, InnerGuardsShareTheRequest) {
    const InterruptGuard outer;
    {
        const InterruptGuard inner;
        std::raise(SIGTERM);
        EXPECT_TRUE(interrupt_requested());
    }
    EXPECT_TRUE(interrupt_requested());
    const InterruptGuard another;
    EXPECT_TRUE(interrupt_requested());
}

// A space whose points are hard to find keeps nobody from ending the search.
TEST(Interrupt, EndsASearchThatStillDrafts) {
    const auto calls = std::make_shared<synthetic::Calls>();
    TuningTask task = synthetic::task(calls);
    int64_t asked = 0;
    for (int i = 0; i < 20; i++) {
        task.space.parameter(fmt::format("digit{}", i), "a digit", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    }
    task.space.constraint("never", {"digit19"}, "Nothing.", [&](const Point &) {
        if (++asked == 1000) std::raise(SIGINT);
        return false;
    });
    const TuneResult result = tune(task, nullptr, synthetic::quiet(8));
    EXPECT_TRUE(result.interrupted);
    EXPECT_EQ(result.stopped_because, "interrupted; the same command goes on from here");
    EXPECT_FALSE(result.found);
    EXPECT_EQ(calls->evaluated, 0);
    EXPECT_LT(asked, 2000);
}

}  // namespace
}  // namespace atalla
