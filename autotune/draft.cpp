#include "autotune/draft.h"

#include <fmt/format.h>
#include <omp.h>
#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>

#include "isa/error.h"

namespace atalla {

namespace {

// Points priced between two selections: bounds the memory, and gives each thread enough to do.
constexpr size_t chunk = 8192;

double checked_draft(const TuningTask &task, const Point &point) {
    const double predicted = task.draft ? task.draft(point) : 0;
    return std::isnan(predicted) ? std::numeric_limits<double>::infinity() : predicted;
}

}  // namespace

std::vector<PricedPoint> price(const TuningTask &task, const std::vector<Point> &points, uint64_t seed, int threads) {
    Random random(seed);
    std::vector<PricedPoint> priced;
    priced.reserve(points.size());
    for (const Point &point : points) {
        priced.push_back({0, random.next(), point});
    }
    std::exception_ptr failure;
    const auto size = static_cast<int64_t>(priced.size());
#pragma omp parallel for schedule(static) num_threads(threads > 0 ? threads : omp_get_max_threads())
    for (int64_t i = 0; i < size; i++) {
        try {
            priced[i].predicted = checked_draft(task, priced[i].point);
        } catch (const std::exception &error) {
#pragma omp critical(atalla_draft)
            failure = std::make_exception_ptr(
                Error(fmt::format("the draft of {} failed at {}: {}", task.op, priced[i].point.assignments(), error.what())));
        }
    }
    if (failure) {
        std::rethrow_exception(failure);
    }
    return priced;
}

DraftRanking rank_by_draft(const TuningTask &task, uint64_t limit, uint64_t keep, uint64_t seed, int threads) {
    DraftRanking ranking;
    std::vector<Point> pending;
    uint64_t chunk_seed = seed;
    const auto select = [&] {
        std::sort(ranking.points.begin(), ranking.points.end());
        if (keep > 0 && ranking.points.size() > keep) {
            ranking.points.resize(keep);
        }
    };
    const auto flush = [&] {
        std::vector<PricedPoint> priced = price(task, pending, chunk_seed++, threads);
        ranking.drafted += static_cast<int64_t>(priced.size());
        std::move(priced.begin(), priced.end(), std::back_inserter(ranking.points));
        pending.clear();
        if (keep > 0) {
            select();
        }
    };
    const auto add = [&](const Point &point) {
        pending.push_back(point);
        if (pending.size() == chunk) {
            flush();
        }
    };
    // Counting up to the limit is cheap beside pricing that many.
    ranking.whole_space = count(task.space, limit + 1) <= limit;
    if (ranking.whole_space) {
        for_each(task.space, [&](const Point &point) {
            add(point);
            return true;
        });
    } else {
        Random random(seed);
        for (const Point &point : sample_distinct(task.space, limit, random)) {
            add(point);
        }
    }
    flush();
    select();
    return ranking;
}

}  // namespace atalla
