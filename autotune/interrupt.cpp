#include "autotune/interrupt.h"

#include <atomic>

namespace atalla {

namespace {

std::atomic<bool> requested = false;
std::atomic<int> guards = 0;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only use lock-free atomics");

void note(int) { requested = true; }

}  // namespace

InterruptGuard::InterruptGuard() : outermost_(guards++ == 0) {
    if (!outermost_) {
        return;
    }
    requested = false;
    struct sigaction action {};
    action.sa_handler = note;
    action.sa_flags = SA_RESETHAND | SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &previous_interrupt_);
    sigaction(SIGTERM, &action, &previous_terminate_);
}

InterruptGuard::~InterruptGuard() {
    guards--;
    if (outermost_) {
        sigaction(SIGINT, &previous_interrupt_, nullptr);
        sigaction(SIGTERM, &previous_terminate_, nullptr);
        requested = false;
    }
}

bool interrupt_requested() { return requested; }

}  // namespace atalla
