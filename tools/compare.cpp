// atalla-compare: compares two sets of benchmark results; ./atalla bench --compare calls it.
#include <filesystem>
#include <iostream>

#include <nlohmann/json.hpp>

#include "dashboard/comparison.h"
#include "tools/run_tool.h"

namespace {

// Apart from a failure of the tool itself, which is 1.
constexpr int slower_status = 3;

struct Options {
    std::filesystem::path before;
    std::vector<std::filesystem::path> after;
    atalla::CompareOptions compare;
    bool json = false, all = false, cycles_only = false;
};

}  // namespace

int main(int argc, char **argv) {
    CLI::App app("Compares results of benchmarks: simulated cycles exactly, host times by a rank test over repetitions.",
                 "atalla-compare");
    app.footer(
        "Examples:\n"
        "  atalla-compare old/ build/bench/\n"
        "  atalla-compare old.json new.json --json\n"
        "  ./atalla bench targets --compare last\n\n"
        "Exit status: 0 nothing is slower, 3 something is slower or failed, 1 the results cannot be read.");
    Options options;
    app.add_option("old", options.before, "The results to compare with: a file, or a folder of them")->required();
    app.add_option("new", options.after, "The results to judge: files or folders")->required();
    app.add_option("--alpha", options.compare.alpha, "Largest p of the rank test at which host times differ")
        ->check(CLI::Range(1e-9, 0.5))
        ->capture_default_str();
    app.add_option("--least-change", options.compare.least_change, "Smaller changes of host times are none, as a fraction")
        ->check(CLI::Range(0.0, 10.0))
        ->capture_default_str();
    app.add_flag("--cycles-only", options.cycles_only, "Leave host times out");
    app.add_flag("--all", options.all, "Also print what did not change");
    app.add_flag("--json", options.json, "Print JSON");
    bool regressed = false;
    const int status = atalla::run_tool(app, argc, argv, [&] {
        options.compare.host_times = !options.cycles_only;
        std::vector<atalla::BenchmarkResults> after;
        for (const std::filesystem::path &path : options.after)
            for (atalla::BenchmarkResults &results : atalla::read_benchmarks(path)) after.push_back(std::move(results));
        const atalla::Comparison comparison =
            atalla::compare_benchmarks(atalla::read_benchmarks(options.before), after, options.compare);
        regressed = comparison.regressed();
        if (options.json) {
            std::cout << atalla::comparison_json(comparison, options.compare).dump(2) << '\n';
        } else {
            std::cout << atalla::comparison_text(comparison, options.compare, options.all);
        }
    });
    return status != 0 ? status : regressed ? slower_status : 0;
}
