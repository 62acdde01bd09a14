#include "schedules/movement_bound.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "isa/vectors.h"

namespace atalla {

namespace {

constexpr int64_t element_bytes = 2;  // bf16

// Beats in parts of as many as a beat has elements, so that those that runs share are whole numbers.
class LeastBeats {
public:
    explicit LeastBeats(const Machine &machine) : beat_(machine.sdma.beat / element_bytes), row_(machine.sdma.max_cols) {}

    int64_t parts(const MovedRuns &moved) {
        if (moved.constant || reads_again(moved, moved.dims)) return plain(moved);
        // A long run in pieces: each is charged for its own elements of a beat that it shares with the next one.
        const int64_t piece = beat_ * std::max<int64_t>(1, longest / beat_), pieces = moved.run / piece,
                      rest = moved.run % piece;
        int64_t sum = 0;
        for (const auto &[begin, count] : begins(moved)) {
            if (pieces > 0) sum += count * pieces * of_run(piece, begin);
            if (rest > 0) sum += count * of_run(rest, begin);
        }
        return sum;
    }
    int64_t beat() const { return beat_; }

private:
    static constexpr int64_t longest = 512;
    using Begin = std::pair<int64_t, int64_t>;  // of a run, in beats of the input and of the result

    // Each element of the result, and each of the input that is sure to be read, once.
    static int64_t plain(const MovedRuns &moved) {
        int64_t written = moved.run, read = moved.run;
        std::vector<MovedRuns::Dim> others;
        for (const MovedRuns::Dim &dim : moved.dims) {
            written *= dim.extent;
            if (dim.from == 0) continue;
            read *= dim.extent;
            others.push_back(dim);
        }
        return written + (moved.constant || reads_again(moved, others) ? 0 : read);
    }

    // May an element be read for several places?
    static bool reads_again(const MovedRuns &moved, std::vector<MovedRuns::Dim> dims) {
        std::sort(dims.begin(), dims.end(), [](const auto &a, const auto &b) { return a.from < b.from; });
        int64_t behind = moved.run;  // the last element so far
        for (const MovedRuns::Dim &dim : dims) {
            if (dim.from < behind) return true;
            behind += (dim.extent - 1) * dim.from;
        }
        return false;
    }

    // How many runs begin at which places of beats.
    std::map<Begin, int64_t> begins(const MovedRuns &moved) const {
        std::map<Begin, int64_t> counts = {{{place(moved.from), place(moved.to)}, 1}};
        for (const MovedRuns::Dim &dim : moved.dims) {
            std::map<Begin, int64_t> all;
            for (const auto &[begin, count] : counts)
                for (int64_t at = 0; at < std::min(dim.extent, beat_); at++)
                    all[{place(begin.first + at * dim.from), place(begin.second + at * dim.to)}] +=
                        count * ceil_div(dim.extent - at, beat_);
            counts = std::move(all);
        }
        return counts;
    }
    int64_t place(int64_t n) const { return (n % beat_ + beat_) % beat_; }

    // Of a run that is cut into rows of the pads in the best way.
    int64_t of_run(int64_t run, const Begin &begin) {
        const auto [found, inserted] = known_.try_emplace({run, begin}, 0);
        if (!inserted) return found->second;
        std::vector<int64_t> least(static_cast<size_t>(run) + 1, 0);
        for (int64_t end = 1; end <= run; end++) {
            int64_t best = -1;
            for (int64_t first = std::max<int64_t>(0, end - row_); first < end; first++) {
                const int64_t parts = least[static_cast<size_t>(first)] + of_row(run, first, end, begin.first) +
                                      of_row(run, first, end, begin.second);
                if (best < 0 || parts < best) best = parts;
            }
            least[static_cast<size_t>(end)] = best;
        }
        return found->second = least.back();
    }
    // The beats that elements [first, end) touch on one side: of one that has others than the run's their own part.
    int64_t of_row(int64_t run, int64_t first, int64_t end, int64_t begin) const {
        int64_t parts = 0;
        for (int64_t at = (begin + first) / beat_ * beat_; at < begin + end; at += beat_) {
            const bool own = at >= begin && at + beat_ <= begin + run;
            parts += own ? beat_ : std::min(begin + end, at + beat_) - std::max(begin + first, at);
        }
        return parts;
    }

    int64_t beat_, row_;
    std::map<std::pair<int64_t, Begin>, int64_t> known_;
};

// What an element costs at least, in beats, whose row of a transfer begins so far behind a beat.
std::vector<double> least_of_elements(const Machine &machine) {
    const int64_t beat = machine.sdma.beat / element_bytes;
    std::vector<double> least;
    for (int64_t begin = 0; begin < beat; begin++) {
        least.push_back(2);
        for (int64_t length = 1; length <= machine.sdma.max_cols; length++)
            least.back() =
                std::min(least.back(), static_cast<double>(ceil_div(begin + length, beat)) / static_cast<double>(length));
    }
    return least;
}

}  // namespace

// Sets of places behind beats from which the repeated tensors' rows begin; each image meets those that serve it best. What a
// set costs follows from the set without its last place.
int64_t least_broadcast_beats(const Machine &machine, int64_t elements, int64_t images, int64_t whole, int64_t repeated) {
    const std::vector<double> least = least_of_elements(machine);
    const auto beat = static_cast<int64_t>(least.size());
    const auto sets = size_t{1} << beat;
    const auto last_of = [](size_t set) { return static_cast<size_t>(std::bit_width(set)) - 1; };
    const auto without_last = [&](size_t set) { return set ^ (size_t{1} << last_of(set)); };
    std::vector<double> beats(sets, 0), own(sets, 2);
    for (size_t set = 1; set < sets; set++)
        beats[set] = beats[without_last(set)] + static_cast<double>(repeated) * least[last_of(set)];
    for (int64_t image = 0; image < std::min(images, beat); image++)
        for (size_t set = 1; set < sets; set++) {
            const int64_t begin = static_cast<int64_t>(last_of(set)) + image * elements;
            own[set] = std::min(own[without_last(set)], least[static_cast<size_t>(begin % beat)]);
            beats[set] += static_cast<double>(whole * ceil_div(images - image, beat)) * own[set];
        }
    constexpr double rounding = 1e-6;
    return static_cast<int64_t>(
        std::ceil(static_cast<double>(elements) * *std::min_element(beats.begin() + 1, beats.end()) - rounding));
}

int64_t least_moved_beats(const Machine &machine, const std::vector<MovedRuns> &moved) {
    LeastBeats least(machine);
    int64_t parts = 0;
    for (const MovedRuns &runs : moved) parts += least.parts(runs);
    return ceil_div(parts, least.beat());
}

}  // namespace atalla
