#include "dashboard/comparison.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dashboard/rank_test.h"

namespace atalla {

namespace {

ComparedMetric compare_counts(const std::vector<double> &before, const std::vector<double> &after) {
    ComparedMetric metric;
    metric.exact = true;
    metric.before = *std::max_element(before.begin(), before.end());
    metric.after = *std::max_element(after.begin(), after.end());
    metric.ratio = metric.before > 0 ? metric.after / metric.before : 1;
    metric.verdict = metric.after > metric.before   ? Verdict::Slower
                     : metric.after < metric.before ? Verdict::Faster
                                                    : Verdict::Equal;
    const auto varies = [](const std::vector<double> &values) {
        return std::ranges::count(values, values.front()) != std::ssize(values);
    };
    if (varies(before) || varies(after)) metric.note = "differs between repetitions, the largest is compared";
    return metric;
}

ComparedMetric compare_times(const std::vector<double> &before, const std::vector<double> &after,
                             const CompareOptions &options) {
    ComparedMetric metric;
    metric.metric = "time";
    metric.before = median(before);
    metric.after = median(after);
    metric.ratio = metric.after / metric.before;
    if (least_p(before.size(), after.size()) > options.alpha) {
        metric.verdict = Verdict::Undecided;
        metric.note = fmt::format("{} and {} repetitions are too few to judge", before.size(), after.size());
        return metric;
    }
    const RankTest test = rank_test(before, after);
    metric.p = test.p;
    metric.ratio = test.ratio;
    if (test.p <= options.alpha && std::abs(test.ratio - 1) >= options.least_change)
        metric.verdict = test.ratio > 1 ? Verdict::Slower : Verdict::Faster;
    return metric;
}

class Comparer {
public:
    explicit Comparer(const CompareOptions &options) : options_(options) {}

    void compare(const BenchmarkResults &before, const BenchmarkResults &after) {
        for (const auto &[name, run] : after.runs) {
            const auto old = before.runs.find(name);
            if (old == before.runs.end()) {
                only(name, Verdict::Added);
            } else {
                compare(name, old->second, run);
            }
        }
        for (const auto &[name, run] : before.runs)
            if (!after.runs.contains(name)) only(name, Verdict::Removed);
    }
    void add_all(const BenchmarkResults &after) {
        for (const auto &[name, run] : after.runs) only(name, Verdict::Added);
    }
    Comparison take() { return std::move(comparison_); }

private:
    void only(const std::string &benchmark, Verdict verdict) {
        ComparedMetric metric;
        metric.benchmark = benchmark;
        metric.metric = "benchmark";
        metric.verdict = verdict;
        comparison_.metrics.push_back(metric);
    }
    void compare(const std::string &name, const BenchmarkRun &before, const BenchmarkRun &after) {
        if (!after.error.empty()) {
            only(name, before.error.empty() ? Verdict::Failed : Verdict::Equal);
            comparison_.metrics.back().note = after.error;
            return;
        }
        if (!before.error.empty()) {
            only(name, Verdict::Added);
            comparison_.metrics.back().note = "it failed before: " + before.error;
            return;
        }
        for (const auto &[counter, values] : after.counters) {
            const auto old = before.counters.find(counter);
            if (old == before.counters.end() || !is_exact_counter(counter)) continue;
            add(name, counter, compare_counts(old->second, values), old->second.size(), values.size());
        }
        if (options_.host_times && !before.seconds.empty() && !after.seconds.empty() && median(before.seconds) > 0)
            add(name, "time", compare_times(before.seconds, after.seconds, options_), before.seconds.size(),
                after.seconds.size());
    }
    void add(const std::string &benchmark, const std::string &name, ComparedMetric metric, size_t before, size_t after) {
        metric.benchmark = benchmark;
        metric.metric = name;
        metric.repetitions_before = before;
        metric.repetitions_after = after;
        comparison_.metrics.push_back(std::move(metric));
    }

    const CompareOptions &options_;
    Comparison comparison_;
};

std::string grouped(double number) {
    if (number < 0) return fmt::format("-{}", grouped(-number));
    if (std::round(number) < 1000) return fmt::format("{:.0f}", number);
    const double thousands = std::floor(std::round(number) / 1000);
    return fmt::format("{},{:03.0f}", grouped(thousands), std::round(number) - 1000 * thousands);
}

std::string duration(double seconds) {
    if (seconds < 1e-6) return fmt::format("{:.3g} ns", seconds * 1e9);
    if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
    if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
    return fmt::format("{:.3g} s", seconds);
}

std::string line_of(const ComparedMetric &metric) {
    std::string line = fmt::format("  {:<9}  {}", verdict_name(metric.verdict), metric.benchmark);
    if (metric.before > 0 || metric.after > 0) {
        const bool exact = metric.exact;
        line += fmt::format("  {} {} -> {}", metric.metric, exact ? grouped(metric.before) : duration(metric.before),
                            exact ? grouped(metric.after) : duration(metric.after));
        const double difference = metric.after - metric.before;
        if (exact && difference != 0) line += fmt::format("  {}{}", difference > 0 ? "+" : "", grouped(difference));
        if (metric.ratio != 1) line += fmt::format("  ({:+.2f} %)", 100 * (metric.ratio - 1));
        if (metric.p) line += fmt::format("  p {:.2g}", *metric.p);
    }
    return line + (metric.note.empty() ? "" : "  " + metric.note) + '\n';
}

// Lines first that a reader looks for first.
int urgency(Verdict verdict) {
    switch (verdict) {
        case Verdict::Failed:
            return 0;
        case Verdict::Slower:
            return 1;
        case Verdict::Removed:
            return 2;
        case Verdict::Faster:
            return 3;
        case Verdict::Added:
            return 4;
        case Verdict::Undecided:
            return 5;
        case Verdict::Equal:
            break;
    }
    return 6;
}

}  // namespace

const char *verdict_name(Verdict verdict) {
    switch (verdict) {
        case Verdict::Equal:
            return "equal";
        case Verdict::Faster:
            return "faster";
        case Verdict::Slower:
            return "slower";
        case Verdict::Undecided:
            return "undecided";
        case Verdict::Added:
            return "added";
        case Verdict::Removed:
            return "removed";
        case Verdict::Failed:
            break;
    }
    return "failed";
}

size_t Comparison::count(Verdict verdict) const {
    return static_cast<size_t>(std::ranges::count(metrics, verdict, &ComparedMetric::verdict));
}

bool Comparison::regressed() const { return count(Verdict::Slower) + count(Verdict::Failed) > 0; }

Comparison compare_benchmarks(const std::vector<BenchmarkResults> &before, const std::vector<BenchmarkResults> &after,
                              const CompareOptions &options) {
    Comparer comparer(options);
    const bool pair = before.size() == 1 && after.size() == 1;
    for (const BenchmarkResults &results : after) {
        const auto old = pair ? before.begin() : std::ranges::find(before, results.name, &BenchmarkResults::name);
        if (old == before.end()) {
            comparer.add_all(results);
        } else {
            comparer.compare(*old, results);
        }
    }
    return comparer.take();
}

nlohmann::ordered_json comparison_json(const Comparison &comparison, const CompareOptions &options) {
    nlohmann::ordered_json json;
    json["regressed"] = comparison.regressed();
    for (Verdict verdict : {Verdict::Slower, Verdict::Failed, Verdict::Faster, Verdict::Equal, Verdict::Undecided,
                            Verdict::Added, Verdict::Removed})
        json[verdict_name(verdict)] = comparison.count(verdict);
    json["alpha"] = options.alpha;
    json["least_change"] = options.least_change;
    json["metrics"] = nlohmann::ordered_json::array();
    for (const ComparedMetric &metric : comparison.metrics) {
        nlohmann::ordered_json row = {{"benchmark", metric.benchmark},
                                      {"metric", metric.metric},
                                      {"exact", metric.exact},
                                      {"verdict", verdict_name(metric.verdict)},
                                      {"before", metric.before},
                                      {"after", metric.after},
                                      {"ratio", metric.ratio},
                                      {"p", nullptr},
                                      {"repetitions_before", metric.repetitions_before},
                                      {"repetitions_after", metric.repetitions_after},
                                      {"note", metric.note}};
        if (metric.p) row["p"] = *metric.p;
        json["metrics"].push_back(std::move(row));
    }
    return json;
}

std::string comparison_text(const Comparison &comparison, const CompareOptions &options, bool all) {
    std::vector<const ComparedMetric *> shown;
    for (const ComparedMetric &metric : comparison.metrics)
        if (all || (metric.verdict != Verdict::Equal && metric.verdict != Verdict::Undecided)) shown.push_back(&metric);
    std::ranges::stable_sort(shown, [](const ComparedMetric *one, const ComparedMetric *other) {
        const int first = urgency(one->verdict), second = urgency(other->verdict);
        return first != second ? first < second : std::abs(std::log(one->ratio)) > std::abs(std::log(other->ratio));
    });
    std::string text;
    for (const ComparedMetric *metric : shown) text += line_of(*metric);
    text += fmt::format("{} compared: {} slower, {} failed, {} faster, {} equal", comparison.metrics.size(),
                        comparison.count(Verdict::Slower), comparison.count(Verdict::Failed), comparison.count(Verdict::Faster),
                        comparison.count(Verdict::Equal));
    if (const size_t added = comparison.count(Verdict::Added)) text += fmt::format(", {} added", added);
    if (const size_t removed = comparison.count(Verdict::Removed)) text += fmt::format(", {} removed", removed);
    text += '\n';
    if (const size_t undecided = comparison.count(Verdict::Undecided)) {
        size_t least = 1;
        while (least_p(least, least) > options.alpha) least++;
        text +=
            fmt::format("{} host times have too few repetitions to judge; with --benchmark_repetitions={} they have enough\n",
                        undecided, least);
    }
    return text;
}

}  // namespace atalla
