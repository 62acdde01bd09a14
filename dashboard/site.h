// Writes the dashboard: a folder of static pages over the tuning database and the results of benchmarks, which opens from
// the disk without a server and without network.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "dashboard/comparison.h"
#include "db/database.h"
#include "isa/machine.h"

namespace atalla {

// What the compiler knows about a kernel and the database does not. Empty members are left out of the pages.
struct KernelNotes {
    std::string title;  // "512x512x512, bias"
    std::string words;  // the winning schedule in words
    double flops = 0;
    std::string bound_by;
    std::vector<std::pair<std::string, int64_t>> bound_terms;
    std::string program;  // the winner as commented assembly
};

// Called for each kernel with its current winner, nullptr if it has none; `with_program` also asks for the program. Whatever
// it throws is left out of the pages.
using DescribeKernel = std::function<KernelNotes(const TrialKey &, const StoredTrial *winner, bool with_program)>;

struct SiteLayer {
    std::string name;
    int64_t count = 1;
    std::string op, workload;  // as in a trial's key
    std::string problem;       // why it cannot be tuned, then `workload` is empty
};
struct SiteModel {
    std::string name, source;
    std::vector<SiteLayer> layers;
};

struct SiteBenchmarks {
    std::vector<BenchmarkResults> current;
    std::vector<BenchmarkResults> previous;              // the last run before; may be empty
    std::vector<std::vector<BenchmarkResults>> history;  // all runs that are at hand, oldest first; may be empty
};

struct SiteOptions {
    std::filesystem::path output;
    std::filesystem::path pages;  // folder of the page sources
    std::string title = "Atalla kernels";
    int64_t programs = 100;         // kernels, the slowest first, whose programs are shown
    std::vector<Machine> machines;  // those whose descriptions are at hand
    std::vector<SiteModel> models;
    std::vector<nlohmann::ordered_json> loadables;  // compiled models, as web/models.js takes them
    SiteBenchmarks benchmarks;
    CompareOptions compare;
    DescribeKernel describe;                                  // may be empty
    std::function<void(int64_t done, int64_t all)> progress;  // kernels written; may be empty
};

struct SiteReport {
    int64_t kernels = 0, trials = 0, programs = 0, slower = 0, faster = 0;
};

// Replaces an earlier dashboard in the folder. Error if there is something else in it, or if it cannot be written.
SiteReport write_site(const Database &database, const SiteOptions &options);

// Where the page sources are: ATALLA_PAGES, an installed tree, the source tree.
std::filesystem::path find_pages();

}  // namespace atalla
