// Progress of a tuning run: one line that is rewritten on a terminal, a few plain lines anywhere else.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

namespace atalla {

enum class ProgressMode { Automatic, Bar, Lines, Quiet };  // Automatic: Bar on a terminal, otherwise Lines

struct ProgressState {
    std::string what;       // operator and workload, shortened by whoever sets it
    bool drafting = false;  // the points of the space are priced, none is evaluated yet
    int64_t done = 0;
    int64_t total = 0;  // 0: unknown
    int64_t failed = 0;
    int64_t best_cycles = 0;   // 0: none yet
    int64_t bound_cycles = 0;  // 0: unknown
    double seconds = 0;        // since the start
    double most_seconds = 0;   // where time is the budget; 0: it is not
    int64_t done_before = 0;   // of `done`, answered by the database: they took no time
};

// "  37/64  58% [=====>    ]  best 12345 cycles, 81.2 % of bound, 3 failed, 12 s left", at most `width` columns.
std::string progress_line(const ProgressState &state, int width);

// Not thread-safe: the caller serializes.
class Progress {
public:
    // Seconds from any fixed origin; tests pass their own.
    using Clock = std::function<double()>;

    Progress(ProgressMode mode, std::FILE *stream = stderr, Clock clock = {});
    ~Progress();  // leaves the cursor on a fresh line
    Progress(const Progress &) = delete;
    Progress &operator=(const Progress &) = delete;

    // Shows the state if it is time to: a bar ten times a second, lines when a tenth of the work is done, a better
    // point was found or drafting takes long (no more often than every two seconds).
    void update(const ProgressState &state);
    // Shows the final state whatever the time.
    void finish(const ProgressState &state);
    // A message on a line of its own, above the bar. Not shown in Quiet mode.
    void message(const std::string &text);

private:
    void draw(const ProgressState &state);
    void clear();

    ProgressMode mode_;
    std::FILE *stream_;
    Clock clock_;
    double last_ = -1e9;
    int64_t last_tenth_ = 0, last_best_ = 0;
    bool last_drafting_ = false;
    bool drawn_ = false;
};

}  // namespace atalla
