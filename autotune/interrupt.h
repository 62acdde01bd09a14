// Turns Ctrl-C into a request to end in an orderly way.
#pragma once

#include <csignal>

namespace atalla {

// While one lives, the first SIGINT or SIGTERM only notes the request, and a second of the same kind kills as usual.
// May be nested: a tool that tunes several tasks holds one for the whole run and asks after each task.
class InterruptGuard {
public:
    InterruptGuard();
    ~InterruptGuard();  // restores the handlers; the outermost one also forgets the request
    InterruptGuard(const InterruptGuard &) = delete;
    InterruptGuard &operator=(const InterruptGuard &) = delete;

private:
    bool outermost_;
    struct sigaction previous_interrupt_ {
    }, previous_terminate_{};
};

// Whether a signal came since the outermost guard was made.
bool interrupt_requested();

}  // namespace atalla
