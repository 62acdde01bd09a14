#include "autotune/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cmath>

namespace atalla {

namespace {

constexpr double bar_interval = 0.1, line_interval = 2.0;  // seconds
constexpr int bar_width = 20, usual_width = 80;            // columns

double steady_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

int terminal_width(std::FILE *stream) {
    winsize size{};
    return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : usual_width;
}

std::string duration(double seconds) {
    const auto whole = static_cast<int64_t>(std::ceil(seconds));
    if (whole < 60) {
        return fmt::format("{} s", whole);
    }
    return whole < 3600 ? fmt::format("{} min {:02} s", whole / 60, whole % 60)
                        : fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string bar(int64_t done, int64_t total) {
    const auto filled = static_cast<int>(done * bar_width / total);
    std::string text(filled, '=');
    if (filled < bar_width) {
        text += '>';
    }
    text.resize(bar_width, ' ');
    return "[" + text + "]";
}

std::string best_so_far(const ProgressState &state) {
    if (state.best_cycles == 0) {
        return "none ran yet";
    }
    std::string text = fmt::format("best {} cycles", state.best_cycles);
    if (state.bound_cycles > 0) {
        text += fmt::format(", {:.1f} % of bound", 100.0 * state.bound_cycles / state.best_cycles);
    }
    return text;
}

std::string time_left(const ProgressState &state) {
    if (state.most_seconds > state.seconds) {
        return fmt::format(", {} left", duration(state.most_seconds - state.seconds));
    }
    const int64_t evaluated = state.done - state.done_before;
    if (state.total == 0 || evaluated <= 0 || state.done >= state.total) {
        return fmt::format(", {}", duration(state.seconds));
    }
    return fmt::format(", {} left", duration(state.seconds / evaluated * (state.total - state.done)));
}

}  // namespace

std::string progress_line(const ProgressState &state, int width) {
    std::string line = state.what.empty() ? "" : state.what + "  ";
    if (state.drafting) {
        line += fmt::format("drafting the space, {}", duration(state.seconds));
        return line.substr(0, std::max(width, 0));
    }
    if (state.total > 0) {
        line += fmt::format("{}/{} {:3}% {}  ", state.done, state.total, state.done * 100 / state.total,
                            bar(std::min(state.done, state.total), state.total));
    } else {
        line += fmt::format("{} done  ", state.done);
    }
    line += best_so_far(state);
    if (state.failed > 0) {
        line += fmt::format(", {} failed", state.failed);
    }
    line += time_left(state);
    return line.substr(0, std::max(width, 0));
}

Progress::Progress(ProgressMode mode, std::FILE *stream, Clock clock)
    : mode_(mode), stream_(stream), clock_(clock ? std::move(clock) : Clock(steady_seconds)) {
    if (mode_ == ProgressMode::Automatic) {
        mode_ = isatty(fileno(stream_)) ? ProgressMode::Bar : ProgressMode::Lines;
    }
}

Progress::~Progress() {
    if (drawn_) {
        std::fputc('\n', stream_);
        std::fflush(stream_);
    }
}

void Progress::update(const ProgressState &state) {
    const double now = clock_();
    if (mode_ == ProgressMode::Quiet || now - last_ < (mode_ == ProgressMode::Bar ? bar_interval : line_interval)) {
        return;
    }
    const int64_t tenth = state.total > 0 ? state.done * 10 / state.total : state.done / 10;
    const bool news = tenth != last_tenth_ || state.best_cycles != last_best_ || state.drafting != last_drafting_;
    if (mode_ == ProgressMode::Lines && !news) {
        return;
    }
    last_ = now;
    last_tenth_ = tenth;
    last_best_ = state.best_cycles;
    last_drafting_ = state.drafting;
    draw(state);
}

void Progress::finish(const ProgressState &state) {
    if (mode_ == ProgressMode::Quiet) {
        return;
    }
    draw(state);
    if (drawn_) {
        std::fputc('\n', stream_);
        std::fflush(stream_);
        drawn_ = false;
    }
}

void Progress::message(const std::string &text) {
    if (mode_ == ProgressMode::Quiet) {
        return;
    }
    clear();
    fmt::print(stream_, "{}\n", text);
    std::fflush(stream_);
}

void Progress::draw(const ProgressState &state) {
    if (mode_ == ProgressMode::Bar) {
        clear();
        fmt::print(stream_, "{}", progress_line(state, terminal_width(stream_) - 1));
        drawn_ = true;
    } else {
        fmt::print(stream_, "{}\n", progress_line(state, usual_width * 2));
    }
    std::fflush(stream_);
}

void Progress::clear() {
    if (drawn_) {
        fmt::print(stream_, "\r\x1b[K");
        drawn_ = false;
    }
}

}  // namespace atalla
