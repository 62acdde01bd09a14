// atalla-profile: shows where the cycles of a program, a compiled model or an operator's winner went and what bound them.
#include <filesystem>
#include <iostream>

#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "isa/error.h"
#include "isa/write_file.h"
#include "simulator/profile/perfetto.h"
#include "simulator/profile/profile_text.h"
#include "simulator/profile/retire_log.h"
#include "tools/arranged.h"
#include "tools/profile_page.h"
#include "tools/run_tool.h"
#include "tools/subject.h"
#include "tools/tuned.h"
#include "tools/workload_options.h"

namespace {

using atalla::Error;

struct Options {
    std::filesystem::path program, database, trace, page, retire_log;
    std::vector<std::string> inputs;
    std::string machine = "ax01", point, window;
    size_t hottest = 10;
    bool json = false, quiet = false;
};

// "1000..2000": cycles from the first to before the last.
atalla::RecordOptions window_of(const std::string &text) {
    atalla::RecordOptions options;
    if (text.empty()) return options;
    const size_t dots = text.find("..");
    const auto number = [&](size_t from, size_t to, int64_t &value) {
        const auto [stop, failure] = std::from_chars(text.data() + from, text.data() + to, value);
        return failure == std::errc() && stop == text.data() + to && value >= 0;
    };
    const bool good = dots != std::string::npos && number(0, dots, options.from) && number(dots + 2, text.size(), options.to);
    if (!good || options.from >= options.to)
        throw Error(fmt::format("--window must be two cycles, the smaller one first, such as 1000..2000, not '{}'", text));
    return options;
}

bool is_model(const Options &options) { return options.program.extension() == ".atl"; }

atalla::Subject subject(const Options &options, const atalla::WorkloadOptions &what, bool op_given) {
    if (!is_model(options) && !options.inputs.empty())
        throw Error("--input is for a compiled model (.atl): a program file holds its data");
    if (!options.program.empty()) {
        if (op_given || !what.arguments().empty()) throw Error("give a program file or an operator, not both");
        if (!options.point.empty()) throw Error("--point is a schedule of an operator, and a program file has none");
        if (is_model(options)) return atalla::subject_of_model(options.program, options.inputs);
        return atalla::subject_of(options.program, atalla::find_machine(options.machine));
    }
    if (!op_given) throw Error("nothing to profile: give a program file, or an operator with --op");
    const atalla::Machine machine = atalla::find_machine(options.machine);
    const atalla::Operator &op = what.op();
    const std::shared_ptr<const atalla::Workload> workload =
        atalla::arranged(op, op.workload(what.arguments()), what.given(), machine, options.database).workload;
    const atalla::Point point = options.point.empty()
                                    ? atalla::winning_point(op, workload, machine, options.database, options.quiet)
                                    : atalla::Point::parse(options.point);
    if (const std::string wrong = violation(workload->space(machine), point); !wrong.empty()) throw Error(wrong);
    return atalla::subject_of(op, std::make_shared<const atalla::Evaluator>(workload, machine), point);
}

// Records the cycles that are asked for; without a request the middle of a run that is too long to show whole.
atalla::Recording record(const atalla::Subject &subject, atalla::RecordOptions options, bool anywhere) {
    const auto run = [&](const atalla::RecordOptions &how) {
        atalla::Recorder recorder(subject.machine, how);
        subject.run({.observer = &recorder});
        return recorder.take();
    };
    atalla::Recording recording = run(options);
    if (anywhere && recording.cut) {
        const atalla::Overview &overview = recording.overview;
        const int64_t cycles = overview.cycles_each * static_cast<int64_t>(overview.stretches.size());
        options.from = std::max<int64_t>(0, (cycles - recording.end) / 2);
        recording = run(options);
    }
    return recording;
}

void write_trace(const Options &options, const atalla::Subject &subject) {
    const atalla::Recording recording = record(subject, window_of(options.window), false);
    write_perfetto(recording, subject.program, fmt::format("{} on {}", subject.title, subject.machine.name), options.trace);
    if (recording.cut)
        std::cerr << fmt::format(
            "the trace ends at cycle {}, because it has {} slices by then; --window chooses other cycles\n", recording.end,
            recording.slices.size());
}

void write_page(const Options &options, const atalla::Subject &subject, const atalla::Profile &profile) {
    constexpr size_t slices_of_page = 200'000;
    atalla::RecordOptions how = window_of(options.window);
    how.most_slices = slices_of_page;
    atalla::write_profile_page(subject, profile, record(subject, how, options.window.empty()), options.page);
}

void write_retire_log(const Options &options, const atalla::Subject &subject) {
    atalla::write_file(options.retire_log, [&](std::ostream &out) {
        atalla::RetireLog log(subject.program, out);
        subject.run({.observer = &log});
        log.finish();
    });
}

atalla::Profile analyzed(const Options &options, const atalla::Subject &subject) {
    // Calls of a model share routines, so their packets do not tell for which node they run.
    const bool by_call = !subject.calls.empty() && subject.machine.timed();
    atalla::CallShares shares(subject.program, subject.calls);
    const atalla::RunResult result = subject.run({.per_packet = true, .observer = by_call ? &shares : nullptr});
    atalla::Profile profile = make_profile(subject.machine, subject.program, result, options.hottest, subject.flops);
    if (by_call) profile.by_node = shares.take();
    return profile;
}

void profile(const Options &options, const atalla::WorkloadOptions &what, bool op_given) {
    window_of(options.window);
    for (const std::filesystem::path &file : {options.trace, options.page, options.retire_log}) atalla::require_writable(file);
    const atalla::Subject subject = ::subject(options, what, op_given);
    const bool watched = !options.trace.empty() || !options.page.empty() || !options.retire_log.empty();
    if (watched && !subject.machine.timed())
        throw Error(fmt::format("machine '{}' has no timing, so there is nothing to trace: use a hardware machine",
                                subject.machine.name));
    const atalla::Profile profile = analyzed(options, subject);
    if (const int64_t from = window_of(options.window).from, cycles = static_cast<int64_t>(profile.counters.cycles);
        from > 0 && from >= cycles)
        throw Error(fmt::format("--window begins at cycle {}, but the run ends after {} cycles", from, cycles));
    if (!options.trace.empty()) write_trace(options, subject);
    if (!options.page.empty()) write_page(options, subject, profile);
    if (!options.retire_log.empty()) write_retire_log(options, subject);
    if (options.json) {
        nlohmann::ordered_json json{{"program", subject.title}};
        json.update(profile_json(profile, subject.machine, subject.program));
        std::cout << json.dump(2) << '\n';
    } else {
        std::cout << fmt::format("{} on {}: ", subject.title, subject.machine.name)
                  << profile_text(profile, subject.machine, subject.program);
    }
    if (!std::cout.flush()) throw Error("cannot write to standard output");
}

}  // namespace

int main(int argc, char **argv) {
    CLI::App app("Shows where the cycles of a program went, by stall cause, source, unit and packet, and what bound it.",
                 "atalla-profile");
    app.footer(
        "Examples:\n"
        "  atalla-profile --op gemm --shape 128x128x128 --html gemm.html\n"
        "  atalla-profile gemm.in --machine ax01 --trace gemm.pftrace --window 1000..2000\n"
        "  atalla-profile model.atl --trace model.pftrace\n"
        "  atalla-profile --op gemm --retire-log gemm.log --json\n\n"
        "A trace opens in ui.perfetto.dev, where a cycle is a microsecond. Without --window the page shows the middle of a run "
        "that is\n"
        "too long to be shown whole.");
    Options options;
    const atalla::WorkloadOptions what(app, argc, argv, true);
    app.add_option("PROGRAM", options.program,
                   "Program file (.in, or assembly if it ends in .s) or compiled model (.atl) instead of an operator");
    app.add_option("--machine", options.machine, "A machine's name or file; a compiled model has its own")
        ->capture_default_str();
    app.add_option("--input", options.inputs,
                   "Of a compiled model: FILE.npy for the next input, or NAME=FILE.npy; zeros if not given")
        ->allow_extra_args(false);
    app.add_option("--point", options.point, "This schedule instead of the stored winner");
    app.add_option("--db", options.database,
                   "Database file (default: $ATALLA_DB, or atalla-tune/atalla.db in the user's data folder)");
    app.add_option("--hottest", options.hottest, "How many packets to list")->capture_default_str();
    app.add_option("--trace", options.trace, "Write a Perfetto trace");
    app.add_option("--html", options.page, "Write one page with the timeline, the roofline and the stalls");
    app.add_option("--retire-log", options.retire_log, "Write a line for each operation that retired (docs/profile.md)");
    app.add_option("--window", options.window, "Cycles of trace and page, such as 1000..2000");
    app.add_flag("--json", options.json, "Print the profile as JSON");
    app.add_flag("--quiet", options.quiet, "No progress while tuning");
    return atalla::run_tool(app, argc, argv, [&] {
        if (is_model(options) && app.count("--machine") > 0)
            throw Error("a compiled model has its own machine: leave --machine out");
        profile(options, what, app.count("--op") > 0);
    });
}
