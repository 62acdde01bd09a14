// Beats of data movement against the best program of short results, and figures that can be counted by hand.
#include "schedules/movement_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "schedules/random.h"

namespace atalla {
namespace {

const Machine ax01 = find_machine("ax01");

int64_t beats(int64_t run, int64_t from, int64_t to, std::vector<MovedRuns::Dim> dims = {}) {
    return least_moved_beats(ax01, {{run, from, to, std::move(dims)}});
}

TEST(MovementBound, CountsRowsThatBeginInsideABeat) {
    // Equally far from a beat on both sides: every beat once, the first and the last in part.
    EXPECT_EQ(beats(512, 0, 1024), 64);
    EXPECT_EQ(beats(512, 5, 37), 64);
    // Rows of 32 begin inside a beat on one side, three beats for two; the first beat and the last one there are halves.
    EXPECT_EQ(beats(512, 8, 0), 79);
    EXPECT_EQ(beats(512, 0, 24), 79);
    // One element from a beat: rows of 31 up to a beat, and the last one of each row alone.
    EXPECT_LT(beats(512, 1, 0), 80);
    EXPECT_GT(beats(512, 1, 0), 64);
    // Single elements in another order share no row of the pads, but beats.
    EXPECT_GE(beats(1, 0, 0, {{32, 1, 64}, {64, 32, 1}}), 2 * 32 * 64 / 16);
}

TEST(MovementBound, CountsOnceWhatIsReadAgainAndConstantsNotAtAll) {
    EXPECT_EQ(beats(64, 0, 0, {{10, 0, 64}}), 4 + 40);
    EXPECT_EQ(beats(64, 3, 0, {{10, 0, 64}}), 4 + 40);
    EXPECT_EQ(beats(64, 0, 0, {{10, 32, 64}}), 40);  // rows overlap
    EXPECT_EQ(least_moved_beats(ax01, {{64, 0, 0, {{10, 0, 64}}, true}}), 40);
}

int64_t floor_division(int64_t n, int64_t by) { return n >= 0 ? n / by : -((by - 1 - n) / by); }

// The result is runs behind each other; a row of the pads leaves at once, whosever its elements are, and each run's part of it
// comes by a transfer of its own. All ways to cut the result into rows.
int64_t searched(const Machine &machine, const std::vector<MovedRuns> &runs) {
    const int64_t beat = machine.sdma.beat / 2, size = runs.back().to + runs.back().run;
    const auto touched = [&](int64_t first, int64_t end) { return first >= end ? 0 : (end - 1) / beat - first / beat + 1; };
    std::vector<int64_t> least(static_cast<size_t>(size) + 1, 0);
    for (int64_t end = runs.front().to + 1; end <= size; end++) {
        int64_t best = -1;
        for (int64_t first = std::max(runs.front().to, end - machine.sdma.max_cols); first < end; first++) {
            int64_t all = least[static_cast<size_t>(first)] + touched(first, end);
            for (const MovedRuns &run : runs) {
                const int64_t begin = std::max(first, run.to), behind = std::min(end, run.to + run.run);
                if (!run.constant) all += touched(begin - run.to + run.from, behind - run.to + run.from);
            }
            if (best < 0 || all < best) best = all;
        }
        least[static_cast<size_t>(end)] = best;
    }
    return least.back();
}

TEST(MovementBound, IsNotAboveAnyProgramAndCloseToTheBest) {
    Machine tiny = ax01;
    tiny.sdma.beat = 8;
    tiny.sdma.max_cols = 8;
    Random random(7);
    int equal = 0;
    for (int i = 0; i < 400; i++) {
        std::vector<MovedRuns> runs;
        int64_t to = static_cast<int64_t>(random.below(4));
        const int64_t ends = 2 * (1 + static_cast<int64_t>(random.below(3)));
        for (int64_t n = 0; 2 * n < ends; n++) {
            const int64_t length = 1 + static_cast<int64_t>(random.below(60));
            runs.push_back({length, static_cast<int64_t>(random.below(40)), to, {}, random.below(5) == 0});
            to += length;
        }
        const int64_t bound = least_moved_beats(tiny, runs), best = searched(tiny, runs);
        EXPECT_LE(bound, best);
        // Less than a beat for each end of a run on each side.
        EXPECT_GT(bound + 2 * ends, best);
        equal += bound == best;
    }
    EXPECT_GT(equal, 0);
}

// Images that meet one tensor: all ways to cut the result into rows, each of which meets a row of the repeated tensor that
// begins where it does.
int64_t searched_images(const Machine &machine, int64_t elements, int64_t images, int64_t whole) {
    const int64_t beat = machine.sdma.beat / 2, all = elements * images;
    const auto touched = [&](int64_t first, int64_t end) {
        return floor_division(end - 1, beat) - floor_division(first, beat) + 1;
    };
    int64_t best = -1;
    for (uint32_t cuts = 0; cuts >> (all - 1) == 0; cuts++) {
        int64_t beats = 0, first = 0;
        bool fits = true;
        std::map<int64_t, int64_t> repeated;  // by where they begin, how far rows reach
        std::map<int64_t, int64_t> from;      // and their first element inside
        for (int64_t end = 1; end <= all; end++) {
            if (end < all && (cuts >> (end - 1) & 1) == 0) continue;
            fits = fits && end - first <= machine.sdma.max_cols;
            beats += whole * touched(first, end);
            for (int64_t image = first / elements; image * elements < end; image++) {
                const int64_t begin = first - image * elements;
                const auto [reach, inserted] = repeated.try_emplace(begin, 0);
                reach->second = std::max(reach->second, std::min(end - image * elements, elements));
                from[begin] = std::max<int64_t>(begin, 0);
            }
            first = end;
        }
        for (const auto &[begin, end] : repeated) beats += touched(from[begin], end);
        if (fits && (best < 0 || beats < best)) best = beats;
    }
    return best;
}

TEST(MovementBound, ImagesMeetOneTensor) {
    // Each begins with a beat: all of them once.
    EXPECT_EQ(least_broadcast_beats(ax01, 512, 3, 2, 1), 32 * (2 * 3 + 1));
    // Of one element, the next image's rows begin behind a beat; it is not read anew for each of many.
    EXPECT_GT(least_broadcast_beats(ax01, 197 * 197, 12, 2, 1), 197 * 197 * (2 * 12 + 1) / 16 * 11 / 10);
    EXPECT_LT(least_broadcast_beats(ax01, 1000, 1000, 2, 1), 2 * 62500 + 200);

    Machine tiny = ax01;
    tiny.sdma.beat = 8;
    tiny.sdma.max_cols = 8;
    for (int64_t elements = 1; elements <= 14; elements++)
        for (int64_t images = 1; images * elements <= 14; images++)
            for (const int64_t whole : {1, 2, 3}) {
                const int64_t bound = least_broadcast_beats(tiny, elements, images, whole, 1),
                              best = searched_images(tiny, elements, images, whole);
                EXPECT_LE(bound, best) << elements << " elements, " << images << " images, " << whole << " whole tensors";
            }
    EXPECT_EQ(least_broadcast_beats(tiny, 8, 1, 2, 1), searched_images(tiny, 8, 1, 2));
}

}  // namespace
}  // namespace atalla
