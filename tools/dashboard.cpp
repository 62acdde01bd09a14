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
    fs::path database, benchmarks, previous;
    std::vector<fs::path> shapes, compiled;
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

// ./atalla bench keeps the results of the run before in a folder inside that of the latest.
void read_benchmarks(Options &options) {
    const char *folder = std::getenv("ATALLA_BENCH");
    const bool chosen = !options.benchmarks.empty();
    if (!chosen && folder != nullptr) options.benchmarks = folder;
    std::error_code ignored;
    if (options.benchmarks.empty() ||
        (!chosen && (!fs::is_directory(options.benchmarks, ignored) || fs::is_empty(options.benchmarks, ignored))))
        return;
    options.site.benchmarks.current = atalla::read_benchmarks(options.benchmarks);
    const fs::path before = options.previous.empty() ? options.benchmarks / "previous" : options.previous;
    if (!options.previous.empty() || fs::is_directory(before, ignored))
        options.site.benchmarks.previous = atalla::read_benchmarks(before);
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
                   "Results of Google Benchmark, a file or a folder (default: those of ./atalla bench, if any)");
    app.add_option("--previous", options.previous, "Results to compare those with (default: their run before)");
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
