// atalla-library: compiles winners of the tuning database to a kernel library that programs load; looks into libraries.
#include <filesystem>
#include <fstream>
#include <iostream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "autotune/progress.h"
#include "db/default_path.h"
#include "isa/error.h"
#include "isa/write_file.h"
#include "schedules/random.h"
#include "tools/emit.h"
#include "tools/library_build.h"
#include "tools/run_tool.h"

namespace {

using atalla::Error;
using json = nlohmann::ordered_json;

struct Options {
    std::string machine = "ax01";
    std::filesystem::path database, output, file, other;
    std::vector<std::filesystem::path> shapes;
    bool skip_missing = false, as_json = false, quiet = false;
    size_t sample = 0;
    uint64_t seed = 1;
};

void write_bytes(const std::filesystem::path &file, const std::vector<uint8_t> &bytes) {
    const std::filesystem::path unfinished = atalla::unfinished_of(file);
    std::ofstream out(unfinished, std::ios::binary);
    out.write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out) {
        atalla::discard_unfinished(file);
        throw Error(fmt::format("cannot write {}: is there such a folder, and space?", file.string()));
    }
    std::filesystem::rename(unfinished, file);
}

atalla::WorkloadList wanted(const Options &options, const atalla::Database &database, const atalla::Machine &machine) {
    if (options.shapes.empty()) return atalla::workloads_of_database(database, machine);
    atalla::WorkloadList list;
    for (const std::filesystem::path &file : options.shapes) {
        atalla::WorkloadList more = atalla::workloads_of_shapes(file);
        for (atalla::ListedWorkload &listed : more.workloads) list.add(std::move(listed));
        list.problems.insert(list.problems.end(), more.problems.begin(), more.problems.end());
    }
    return list;
}

void build(const Options &options) {
    const atalla::Machine machine = atalla::find_machine(options.machine);
    const atalla::Database database(options.database.empty() ? atalla::default_database_path() : options.database,
                                    atalla::Database::Access::ReadOnly);
    const atalla::WorkloadList list = wanted(options, database, machine);
    const atalla::BuiltLibrary built = atalla::build_library(list, machine, database);
    std::vector<std::string> missing = list.problems;
    missing.insert(missing.end(), built.missing.begin(), built.missing.end());
    if (!missing.empty() && !options.skip_missing)
        throw Error(fmt::format("{} of {} kernels are missing; tune them, or pass --skip-missing:\n  {}", missing.size(),
                                list.workloads.size() + list.problems.size(), fmt::join(missing, "\n  ")));
    if (built.library.kernels.empty())
        throw Error(fmt::format("there is no winner to put into a library for {}: tune something first", machine.name));
    const std::vector<uint8_t> bytes = atalla::library_bytes(built.library);
    write_bytes(options.output, bytes);
    std::filesystem::path header = options.output;
    atalla::write_text_file(header.replace_extension(".h"),
                            atalla::library_header(built.library, options.output.stem().string()));
    if (options.as_json) {
        std::cout << json{{"file", options.output.string()},
                          {"header", header.string()},
                          {"kernels", built.library.kernels.size()},
                          {"bytes", bytes.size()},
                          {"missing", missing}}
                         .dump(2)
                  << '\n';
        return;
    }
    for (const std::string &one : missing) std::cout << "left out: " << one << '\n';
    std::cout << fmt::format("{}: {} kernels for {}, {} bytes; {}\n", options.output.string(), built.library.kernels.size(),
                             machine.name, bytes.size(), header.string());
}

json kernel_json(const atalla::LibraryKernel &kernel) {
    return {{"op", kernel.op},
            {"workload", json::parse(kernel.workload, nullptr, false)},
            {"point", json::parse(kernel.point, nullptr, false)},
            {"cycles", kernel.cycles},
            {"bound_cycles", kernel.bound_cycles},
            {"packets", kernel.program.packets.size()},
            {"run", kernel.run},
            {"recorded", kernel.recorded}};
}

void list(const Options &options) {
    const atalla::KernelLibrary library = atalla::read_library(options.file);
    if (options.as_json) {
        json all = {{"machine", library.machine.name},
                    {"machine_fingerprint", library.machine.fingerprint()},
                    {"compiler_fingerprint", library.compiler},
                    {"kernels", json::array()}};
        for (const atalla::LibraryKernel &kernel : library.kernels) all["kernels"].push_back(kernel_json(kernel));
        std::cout << all.dump(2) << '\n';
        return;
    }
    std::cout << fmt::format("{} kernels for {} ({}), compiler {}\n", library.kernels.size(), library.machine.name,
                             library.machine.fingerprint(), library.compiler);
    for (const atalla::LibraryKernel &kernel : library.kernels)
        std::cout << fmt::format("{:>12} cycles {:5.1f} % of bound {:>6} packets  {} {}\n", kernel.cycles,
                                 100.0 * static_cast<double>(kernel.bound_cycles) / static_cast<double>(kernel.cycles),
                                 kernel.program.packets.size(), kernel.op, kernel.workload);
}

void verify(const Options &options) {
    const atalla::KernelLibrary library = atalla::read_library(options.file);
    std::vector<const atalla::LibraryKernel *> kernels;
    for (const atalla::LibraryKernel &kernel : library.kernels) kernels.push_back(&kernel);
    if (options.sample > 0 && options.sample < kernels.size()) {
        atalla::Random random(options.seed);
        random.shuffle(kernels);
        kernels.resize(options.sample);
    }
    std::vector<std::string> wrong(kernels.size());
    const auto size = static_cast<int64_t>(kernels.size());
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < size; i++)
        wrong[static_cast<size_t>(i)] = atalla::check_kernel(library, *kernels[static_cast<size_t>(i)]);
    json different = json::array();
    for (size_t i = 0; i < kernels.size(); i++)
        if (!wrong[i].empty())
            different.push_back({{"op", kernels[i]->op}, {"workload", kernels[i]->workload}, {"what", wrong[i]}});
    if (options.as_json)
        std::cout << json{{"checked", kernels.size()}, {"different", different}}.dump(2) << '\n';
    else {
        std::cout << fmt::format(
            "{} kernels run on random and special values: {} give the host's bits in the cycles that were promised\n",
            kernels.size(), kernels.size() - different.size());
        for (const json &one : different)
            std::cout << fmt::format("  {} {}: {}\n", one["op"].get<std::string>(), one["workload"].get<std::string>(),
                                     one["what"].get<std::string>());
    }
    if (!different.empty())
        throw Error(
            fmt::format("{} of {} kernels are not what {} says", different.size(), kernels.size(), options.file.string()));
}

void diff(const Options &options) {
    const std::vector<std::string> lines =
        atalla::library_differences(atalla::read_library(options.file), atalla::read_library(options.other));
    if (options.as_json)
        std::cout << json(lines).dump(2) << '\n';
    else
        for (const std::string &line : lines) std::cout << line << '\n';
    if (!lines.empty())
        throw Error(fmt::format("the libraries differ in {} place{}", lines.size(), lines.size() == 1 ? "" : "s"));
}

CLI::App *add_command(CLI::App &app, const char *name, const char *help, Options &options) {
    CLI::App *command = app.add_subcommand(name, help);
    command->add_flag("--json", options.as_json, "Print JSON");
    return command;
}

}  // namespace

int main(int argc, char **argv) {
    CLI::App app("Compiles the winners of the tuning database to a kernel library, and looks into libraries; docs/library.md.",
                 "atalla-library");
    app.footer(
        "Examples:\n"
        "  atalla-library build --machine ax01 --shapes examples/shapes/bert-base.json -o bert.atlib\n"
        "  atalla-library build -o ax01.atlib\n"
        "  atalla-library list ax01.atlib\n"
        "  atalla-library verify ax01.atlib --sample 20\n"
        "  atalla-library diff old.atlib new.atlib");
    app.require_subcommand(1);
    Options options;
    CLI::App *build_command =
        add_command(app, "build", "Compile winners; writes the library and a C header beside it", options);
    build_command->add_option("--machine", options.machine, "A machine's name or file")->capture_default_str();
    build_command->add_option("--shapes", options.shapes,
                              "Files that list the products, as examples/shapes/*.json (default: everything in the database)");
    build_command->add_option("--db", options.database,
                              "Database file (default: $ATALLA_DB, or atalla-tune/atalla.db in the user's data folder)");
    build_command->add_option("-o,--output", options.output, "Library to write, such as ax01.atlib")->required();
    build_command->add_flag("--skip-missing", options.skip_missing, "Leave out what has no winner instead of failing");
    CLI::App *list_command = add_command(app, "list", "The kernels with cycles and share of the bound", options);
    CLI::App *verify_command =
        add_command(app, "verify", "Run the kernels: results bit for bit against the host, cycles exactly", options);
    verify_command->add_option("--sample", options.sample, "Only so many, drawn at random");
    atalla::add_seed(*verify_command, options.seed, "Of the sample");
    CLI::App *diff_command =
        add_command(app, "diff", "What differs between two libraries; exit status 1 if anything does", options);
    for (CLI::App *command : {list_command, verify_command, diff_command})
        command->add_option("FILE", options.file, "Library")->required();
    diff_command->add_option("OTHER", options.other, "Library to compare with")->required();
    return atalla::run_tool(app, argc, argv, [&] {
        if (*build_command)
            build(options);
        else if (*list_command)
            list(options);
        else if (*verify_command)
            verify(options);
        else
            diff(options);
    });
}
