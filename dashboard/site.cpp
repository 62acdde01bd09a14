#include "dashboard/site.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "dashboard/kernel_record.h"
#include "dashboard/site_json.h"
#include "isa/error.h"

namespace atalla {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char *data_folder = "data";
constexpr const char *style_file = "dashboard.css";

// Files that pages fetch by a script element, the only way that works without a server. What the characters < > & could
// mean to a page is written as an escape.
std::string script_of(const std::string &name, const ordered_json &value) {
    const std::string json = value.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
    std::string text = fmt::format("atalla.receive(\"{}\",", name);
    text.reserve(text.size() + json.size() + 4);
    for (const char character : json) {
        switch (character) {
            case '<':
                text += "\\u003c";
                break;
            case '>':
                text += "\\u003e";
                break;
            case '&':
                text += "\\u0026";
                break;
            default:
                text += character;
        }
    }
    return text + ");\n";
}

// A page is the template with a title and files of its own: styles before, scripts after those of all pages.
struct Page {
    const char *name, *title, *description;
    std::vector<const char *> styles, scripts;
};
const std::vector<Page> &pages() {
    static const std::vector<Page> all = {
        {"index", "Kernels", "Every tuned kernel, with its share of the lower bound", {}, {"table.js", "kernels.js"}},
        {"kernel",
         "Kernel",
         "One kernel: schedule, stalls, trials, roofline",
         {"vendor/uplot.min.css"},
         {"vendor/uplot.min.js", "table.js", "charts.js", "kernel.js"}},
        {"models", "Models", "Networks: where their cycles go", {}, {"data/models.js", "table.js", "models.js"}},
        {"machines", "Machines", "The same kernels on several machines", {}, {"table.js", "machines.js"}},
        {"changes", "Changes", "The latest run against the one before", {}, {"data/benchmarks.js", "table.js", "changes.js"}},
    };
    return all;
}

constexpr const char *template_file = "page.html";

void replace(std::string &text, const std::string &mark, const std::string &value) {
    const size_t at = text.find(mark);
    if (at == text.npos)
        throw Error(fmt::format("the template {} of the dashboard has no {}: install atalla-tune again", template_file, mark));
    text.replace(at, mark.size(), value);
}

std::string page_of(std::string text, const Page &page) {
    std::string files;
    for (const char *style : page.styles) files += fmt::format("<link rel=\"stylesheet\" href=\"{}\">\n", style);
    files += fmt::format("<link rel=\"stylesheet\" href=\"{}\">\n", style_file);
    for (const char *script : {"common.js", "data/summary.js"})
        files += fmt::format("<script defer src=\"{}\"></script>\n", script);
    for (const char *script : page.scripts) files += fmt::format("<script defer src=\"{}\"></script>\n", script);
    replace(text, "PAGE_DESCRIPTION", page.description);
    replace(text, "PAGE_TITLE", page.title);
    replace(text, "PAGE_FILES", files);
    replace(text, "PAGE_NAME", page.name);
    return text;
}

class Folder {
public:
    explicit Folder(const fs::path &output) : output_(output) {
        std::error_code failure;
        if (fs::exists(output) && !fs::is_directory(output))
            throw Error(fmt::format("cannot write the dashboard to {}: it is a file", output.string()));
        // What an interrupted run left is an earlier dashboard too.
        const bool earlier = fs::exists(output / data_folder) && fs::exists(output / style_file);
        if (fs::exists(output) && !fs::is_empty(output) && !earlier)
            throw Error(
                fmt::format("the folder {} holds something else than a dashboard; name a new folder with -o", output.string()));
        fs::create_directories(output / data_folder, failure);
        if (failure)
            throw Error(fmt::format("cannot make the folder {}: {}", (output / data_folder).string(), failure.message()));
        for (const fs::directory_entry &entry : fs::directory_iterator(output / data_folder)) {
            const std::string name = entry.path().filename().string();
            if (name.ends_with(".js") && (name.starts_with("kernel-") || name.starts_with("program-"))) stale_.insert(name);
        }
    }
    void copy_pages(const fs::path &sources) const {
        std::error_code failure;
        fs::copy(sources, output_, fs::copy_options::recursive | fs::copy_options::overwrite_existing, failure);
        if (failure)
            throw Error(
                fmt::format("cannot copy the pages from {} to {}: {}", sources.string(), output_.string(), failure.message()));
        std::ostringstream text;
        text << std::ifstream(output_ / template_file).rdbuf();
        fs::remove(output_ / template_file, failure);
        for (const Page &page : pages()) write_text(output_ / fmt::format("{}.html", page.name), page_of(text.str(), page));
    }
    void write(const std::string &name, const std::string &key, const ordered_json &value) {
        const fs::path file = output_ / data_folder / name;
        write_text(file, script_of(key, value));
        stale_.erase(name);
    }
    // Kernels that an earlier dashboard had and this one has not.
    void remove_stale() const {
        std::error_code ignored;
        for (const std::string &name : stale_) fs::remove(output_ / data_folder / name, ignored);
    }

private:
    static void write_text(const fs::path &file, const std::string &text) {
        std::ofstream out(file, std::ios::binary);
        out << text;
        out.close();
        if (!out)
            throw Error(fmt::format("writing {} failed: is the disk full, or the folder write-protected?", file.string()));
    }

    fs::path output_;
    std::set<std::string> stale_;
};

// The keys of the slowest winners.
std::set<TrialKey> slowest(const std::vector<KeySummary> &all, int64_t count) {
    std::vector<std::pair<int64_t, TrialKey>> winners;
    for (const KeySummary &key : all)
        if (key.winner) winners.emplace_back(-key.winner->trial.cycles, key.key);
    std::sort(winners.begin(), winners.end());
    if (std::ssize(winners) > count) winners.resize(static_cast<size_t>(count));
    std::set<TrialKey> keys;
    for (auto &[cycles, key] : winners) keys.insert(std::move(key));
    return keys;
}

KernelNotes notes_of(const SiteOptions &options, const KernelRecord &kernel, const std::set<TrialKey> &with_program) {
    if (!options.describe) return {};
    const KernelVersion &current = kernel.current();
    const TrialKey key = {kernel.op, kernel.workload, kernel.machine, current.compiler};
    try {
        return options.describe(key, current.winner ? &*current.winner : nullptr, with_program.contains(key));
    } catch (const std::exception &) {
        // A kernel of another version of the compiler is shown by what the database says of it.
        return {};
    }
}

}  // namespace

SiteReport write_site(const Database &database, const SiteOptions &options) {
    // A database that cannot be read leaves an earlier dashboard as it is.
    const std::vector<KeySummary> keys = database.list();
    Folder folder(options.output);
    folder.copy_pages(options.pages);
    SiteReport report;
    const auto all = static_cast<int64_t>(keys.size());
    const std::set<TrialKey> with_program = slowest(keys, options.describe ? options.programs : 0);

    ordered_json kernels = ordered_json::array();
    std::map<std::string, std::string> machines;
    for_each_kernel(database, keys, [&](KernelRecord &kernel) {
        const KernelNotes notes = notes_of(options, kernel, with_program);
        kernels.push_back(kernel_summary_json(kernel, notes));
        folder.write(fmt::format("kernel-{}.js", kernel.id), kernel.id, kernel_detail_json(kernel, notes));
        if (!notes.program.empty()) {
            folder.write(fmt::format("program-{}.js", kernel.id), "program", {{"text", notes.program}});
            report.programs++;
        }
        machines[kernel.machine] = kernel.machine_name;
        report.kernels++;
        report.trials += static_cast<int64_t>(kernel.trials());
        const std::vector<HistoryEntry> history = kernel.history();
        if (history.size() > 1) {
            report.slower += history.back().cycles > history[history.size() - 2].cycles;
            report.faster += history.back().cycles < history[history.size() - 2].cycles;
        }
        if (options.progress) options.progress(report.kernels, all);
    });

    const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch());
    ordered_json summary = {{"title", options.title},
                            {"generated", now.count()},
                            {"database", database.file().filename().string()},
                            {"trials", report.trials},
                            {"machines", ordered_json::array()}};
    for (const auto &[fingerprint, name] : machines)
        summary["machines"].push_back(machine_json(fingerprint, name, options.machines));
    summary["kernels"] = std::move(kernels);
    folder.write("models.js", "models", {{"networks", models_json(options.models)}, {"compiled", options.loadables}});
    folder.write("benchmarks.js", "benchmarks", benchmarks_json(options.benchmarks, options.compare));
    folder.write("summary.js", "summary", summary);
    folder.remove_stale();
    return report;
}

fs::path find_pages() {
    std::vector<fs::path> folders;
    if (const char *chosen = std::getenv("ATALLA_PAGES"); chosen != nullptr && *chosen != '\0') folders.emplace_back(chosen);
    std::error_code ignored;
    const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
    if (!program.empty()) folders.push_back(program.parent_path().parent_path() / "share" / "atalla-tune" / "dashboard");
    folders.emplace_back(ATALLA_PAGES_FOLDER);
    for (const fs::path &folder : folders)
        if (fs::exists(folder / template_file, ignored)) return folder;
    throw Error(
        fmt::format("the dashboard's pages are not in {}: install atalla-tune again, or name their folder in ATALLA_PAGES",
                    folders.back().string()));
}

}  // namespace atalla
