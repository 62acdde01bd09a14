// The guard turns a first signal into a request, nests, and leaves no trace.
#include "autotune/interrupt.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace atalla
