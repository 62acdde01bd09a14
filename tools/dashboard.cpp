// atalla-dashboard: writes a static site over the tuning database and the results of benchmarks.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include <fmt/format.h>

#include "dashboard/site.h"
#include "db/default_path.h"
#include "isa/error.h"
#include "tools/kernel_notes.h"
#include "tools/loadable_view.h"
#include "tools/run_tool.h"

namespace {

namespace fs = std::filesystem;
using atalla::Error;

struct Options {
    fs::path database, previous;
    std::vector<fs::path> benchmarks, shapes, compiled;
    bool json = false, quiet = false;
    atalla::SiteOptions site;
};

// The networks that ship with atalla-tune: beside the installed pages, or in the source tree.
std::vector<fs::path> shipped_shapes(const fs::path &pages) {
    std::vector<fs::path> files;
    std::error_code ignored;
    for (const char *folder : {"../examples/shapes", "../../examples/shapes"})
        for (const fs::directory_entry &entry : fs::directory_iterator(pages / folder, ignored))
            if (entry.path().extension() == ".json") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

// The runs that ./atalla bench keeps, a folder each, whose names are in the order of time.
std::vector<fs::path> kept_runs(const fs::path &results) {
    std::vector<fs::path> runs;
    std::error_code ignored;
    for (const fs::directory_entry &entry : fs::directory_iterator(results / "history", ignored))
        if (entry.is_directory(ignored) && !fs::is_empty(entry.path(), ignored)) runs.push_back(entry.path());
    std::sort(runs.begin(), runs.end());
    return runs;
}

void read_benchmarks(Options &options) {
    atalla::SiteBenchmarks &benchmarks = options.site.benchmarks;
    std::vector<fs::path> runs = options.benchmarks;
    fs::path before = options.previous;
    if (runs.size() > 1) {
        if (before.empty()) before = runs[runs.size() - 2];
    } else {
        const char *folder = std::getenv("ATALLA_BENCH");
        std::error_code ignored;
        const fs::path latest = !runs.empty() ? runs.front() : folder != nullptr ? folder : "";
        if (runs.empty() && (!fs::is_directory(latest, ignored) || fs::is_empty(latest, ignored))) return;
        if (before.empty() && fs::is_directory(latest / "previous", ignored)) before = latest / "previous";
        runs = kept_runs(latest);
        benchmarks.current = atalla::read_benchmarks(latest);
    }
    for (const fs::path &run : runs) benchmarks.history.push_back(atalla::read_benchmarks(run));
    if (benchmarks.current.empty()) benchmarks.current = benchmarks.history.back();
    if (!before.empty()) benchmarks.previous = atalla::read_benchmarks(before);
}

void run(Options &options) {
    const fs::path file = options.database.empty() ? atalla::default_database_path() : options.database;
    const bool writable = ::access(file.c_str(), W_OK) == 0;
    const atalla::Database database(
        file, writable && fs::exists(file) ? atalla::Database::Access::ReadWrite : atalla::Database::Access::ReadOnly);
    atalla::SiteOptions &site = options.site;
    site.pages = atalla::find_pages();
    site.machines = atalla::known_machines();
    site.describe = atalla::kernel_describer(site.machines);
    for (const fs::path &shapes : options.shapes.empty() ? shipped_shapes(site.pages) : options.shapes)
        site.models.push_back(atalla::site_model(shapes));
    for (const fs::path &model : options.compiled) site.loadables.push_back(atalla::loadable_view(model));
    read_benchmarks(options);
    const bool terminal = ::isatty(STDERR_FILENO) != 0 && !options.quiet;
    if (terminal) site.progress = [](int64_t done, int64_t all) { std::cerr << fmt::format("\r{} of {} kernels", done, all); };
    const atalla::SiteReport report = atalla::write_site(database, site);
    if (terminal) std::cerr << '\r';
    const fs::path page = fs::absolute(site.output / "index.html").lexically_normal();
    if (options.json) {
        std::cout << nlohmann::ordered_json{{"page", page.string()},   {"kernels", report.kernels},
                                            {"trials", report.trials}, {"programs", report.programs},
                                            {"slower", report.slower}, {"faster", report.faster}}
                         .dump()
                  << '\n';
    } else if (!options.quiet) {
        std::cout << fmt::format("{} kernels, {} trials: {} slower and {} faster than the run before\nopen {}\n",
                                 report.kernels, report.trials, report.slower, report.faster, page.string());
    }
}

}  // namespace

int main(int argc, char **argv) {
    CLI::App app(
        "Writes a static site over the tuning database and the results of benchmarks; it opens without a server or network.",
        "atalla-dashboard");
    app.footer(
        "Examples:\n"
        "  atalla-dashboard -o site/\n"
        "  atalla-dashboard -o site/ --db team.db --benchmarks new/ --previous old/\n"
        "  atalla-dashboard -o site/ --model mlp.atl --model bert.atl\n\n"
        "Then open site/index.html.");
    Options options;
    app.add_option("-o,--output", options.site.output, "Folder to write: a new one, or that of an earlier dashboard")
        ->required();
    app.add_option("--db", options.database,
                   "Database file (default: $ATALLA_DB, or atalla-tune/atalla.db in the user's data folder)");
    app.add_option("--benchmarks", options.benchmarks,
                   "Results of Google Benchmark, a file or a folder; several are runs, the oldest first (default: those of "
                   "./atalla bench, if any)");
    app.add_option("--previous", options.previous, "Results to compare the latest with (default: the run before)");
    app.add_option("--shapes", options.shapes, "Networks to show, files as examples/shapes/*.json (default: all of these)");
    app.add_option("--model", options.compiled, "Compiled models (.atl) to show; each is run once on zeros, for its cycles");
    app.add_option("--programs", options.site.programs, "Show the programs of so many kernels, the slowest first")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    app.add_option("--title", options.site.title, "Title of the site")->capture_default_str();
    app.add_flag("--json", options.json, "Print JSON");
    app.add_flag("--quiet", options.quiet, "Print nothing");
    return atalla::run_tool(app, argc, argv, [&] { run(options); });
}
