// atalla-whatif: runs a program, or an operator's winner, on machines with other values, and shows what each is bound by.
#include <filesystem>
#include <iostream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "isa/error.h"
#include "isa/machine_grid.h"
#include "isa/write_file.h"
#include "simulator/profile/profile.h"
#include "tools/arranged.h"
#include "tools/run_tool.h"
#include "tools/sensitivity.h"
#include "tools/subject.h"
#include "tools/tuned.h"
#include "tools/whatif_table.h"
#include "tools/workload_options.h"

namespace {

using atalla::Error;
using atalla::MachineVariant;
using atalla::WhatIf;

struct Options {
    std::filesystem::path program, database, plot;
    std::string machine = "ax01", point;
    std::vector<std::string> sets, sweeps;
    bool retune = false, sensitivity = false, json = false, quiet = false;
};

// What runs on every machine of the grid: a program as it is, or an operator's schedule compiled for each machine.
class Question {
public:
    Question(const Options &options, const atalla::WorkloadOptions &what, bool op_given, const atalla::Machine &base)
        : options_(options) {
        if (!options.program.empty()) {
            if (op_given || !what.arguments().empty()) throw Error("give a program file or an operator, not both");
            for (const auto &[given, name] :
                 {std::pair(options.retune, "--retune"), std::pair(!options.point.empty(), "--point")})
                if (given) throw Error(fmt::format("{} needs an operator: a program file has no schedule", name));
            atalla::read_program(options.program);  // what is wrong with it is no machine's problem
            return;
        }
        if (!op_given) throw Error("nothing to run: give a program file, or an operator with --op");
        if (options.retune && !options.point.empty())
            throw Error("--retune looks for a schedule of each machine, and --point gives one: leave one of them out");
        op_ = &what.op();
        workload_ = atalla::arranged(*op_, op_->workload(what.arguments()), what.given(), base, options.database).workload;
        if (!options.point.empty())
            point_ = atalla::Point::parse(options.point);
        else if (!options.retune)
            point_ = atalla::winning_point(*op_, workload_, base, options.database, options.quiet);
    }

    std::string title() const {
        return op_ == nullptr ? options_.program.filename().string() : fmt::format("{} {}", op_->name(), workload_->title());
    }

    // Never throws for what a machine cannot do: that is the row's problem.
    WhatIf answer(const MachineVariant &variant) const {
        WhatIf row{variant, 0, {}, {}, {}, 0, {}};
        try {
            const atalla::Subject subject =
                op_ == nullptr ? atalla::subject_of(options_.program, variant.machine) : scheduled(row);
            const atalla::RunResult result = subject.run({.per_packet = true});
            const atalla::Profile profile = make_profile(subject.machine, subject.program, result);
            row.cycles = static_cast<int64_t>(result.counters.cycles);
            row.limit = profile.bound_by;
            row.limit_share = profile.bound_share;
        } catch (const std::exception &error) {
            row.problem = error.what();
        }
        return row;
    }

private:
    atalla::Subject scheduled(WhatIf &row) const {
        const atalla::Machine &machine = row.variant.machine;
        const atalla::Point point =
            options_.retune ? atalla::winning_point(*op_, workload_, machine, options_.database, options_.quiet) : *point_;
        if (const std::string wrong = violation(workload_->space(machine), point); !wrong.empty())
            throw Error(fmt::format("the schedule kept is none for this machine (--retune looks for one that is): {}", wrong));
        row.schedule = point.assignments();
        row.bound = workload_->bound(machine);
        return atalla::subject_of(*op_, std::make_shared<const atalla::Evaluator>(workload_, machine), point);
    }

    const Options &options_;
    const atalla::Operator *op_ = nullptr;
    std::shared_ptr<const atalla::Workload> workload_;
    std::optional<atalla::Point> point_;
};

std::vector<WhatIf> answers(const Question &question, const std::vector<MachineVariant> &variants, bool one_by_one) {
    std::vector<WhatIf> rows(variants.size());
    // Tuning uses all threads itself.
#pragma omp parallel for schedule(dynamic) if (!one_by_one)
    for (size_t at = 0; at < variants.size(); at++) rows[at] = question.answer(variants[at]);
    return rows;
}

void show(const std::string &text) {
    if (!(std::cout << text).flush()) throw Error("cannot write to standard output");
}

void whatif(const Options &options, const atalla::WorkloadOptions &what, bool op_given) {
    const atalla::Machine base = atalla::find_machine(options.machine);
    if (options.sensitivity) {
        if (!options.sweeps.empty() || !options.plot.empty())
            throw Error("--sensitivity changes one parameter after the other: it takes no --sweep and draws no plot");
        if (options.retune) throw Error("--sensitivity keeps the schedule: it takes no --retune");
    }
    std::vector<atalla::Setting> fixed;
    std::vector<atalla::Sweep> sweeps;
    for (const std::string &text : options.sets) fixed.push_back(atalla::parse_setting(text));
    atalla::require_writable(options.plot);
    for (const std::string &text : options.sweeps) sweeps.push_back(atalla::parse_sweep(text));
    const std::vector<MachineVariant> variants =
        options.sensitivity
            ? atalla::sensitivity_variants(options.machine, atalla::machine_grid(base, fixed, {}).front().machine)
            : atalla::machine_grid(base, fixed, sweeps);
    const Question question(options, what, op_given, base);
    const std::vector<WhatIf> rows = answers(question, variants, options.retune);
    if (std::ranges::all_of(rows, [](const WhatIf &row) { return row.cycles == 0; }))
        throw Error(fmt::format("{} runs on none of the machines; on {}: {}", question.title(), rows[0].variant.machine.name,
                                rows[0].problem));

    if (!options.plot.empty()) {
        const std::string svg = atalla::whatif_svg(fmt::format("{} on {}", question.title(), base.name), rows);
        atalla::write_file(options.plot, [&](std::ostream &out) { out << svg; });
    }
    const char *how = options.retune ? "tuned for each" : options.program.empty() ? "one schedule" : "one program";
    if (options.json) {
        const nlohmann::ordered_json json{
            {"program", question.title()}, {"machine", base.name}, {"schedules", how}, {"rows", atalla::whatif_json(rows)}};
        show(json.dump(2) + "\n");
    } else {
        show(fmt::format("{} on {}, {}\n", question.title(), base.name, how) +
             (options.sensitivity ? atalla::sensitivity_text(rows) : atalla::whatif_text(rows)));
    }
}

}  // namespace

int main(int argc, char **argv) {
    CLI::App app("Runs a program, or an operator's winner, on machines with other values: cycles, lower bound and what binds.",
                 "atalla-whatif");
    app.footer(
        "Examples:\n"
        "  atalla-whatif --op gemm --shape 256x256x256 --set vec.ii=2 --sweep sa.weight_buffers=1,2 --sweep pad.count=2,4\n"
        "  atalla-whatif --op gemm --sweep sa.credits=16..48 --retune --plot credits.svg\n"
        "  atalla-whatif gemm.in --sweep dram.complete=12,22,52 --json\n"
        "  atalla-whatif --op gemm --sensitivity\n\n"
        "The schedule is the winner on the machine as it is, compiled for each machine of the grid; with --retune each has its "
        "own.\n"
        "A program file runs as it is. docs/machine.md lists the keys with their possible values.");
    Options options;
    const atalla::WorkloadOptions what(app, argc, argv, true);
    app.add_option("PROGRAM", options.program, "Program file (.in, or assembly if it ends in .s) instead of an operator");
    app.add_option("--machine", options.machine, "The machine to start from: a name or a file")->capture_default_str();
    app.add_option("--set", options.sets, "Give a parameter another value, such as vec.ii=2; may be repeated")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    app.add_option("--sweep", options.sweeps,
                   "Try these values of a parameter: sa.credits=16,43 or vec.ii=1..4; may be repeated")
        ->type_name("KEY=VALUES")
        ->allow_extra_args(false);
    app.add_flag("--retune", options.retune, "Tune for each machine instead of keeping the schedule");
    app.add_flag("--sensitivity", options.sensitivity, "Try every plausible value of every parameter, one at a time");
    app.add_option("--point", options.point, "This schedule instead of the stored winner");
    app.add_option("--plot", options.plot, "Draw cycles and bounds as SVG");
    app.add_option("--db", options.database,
                   "Database file (default: $ATALLA_DB, or atalla-tune/atalla.db in the user's data folder)");
    app.add_flag("--json", options.json, "Print JSON");
    app.add_flag("--quiet", options.quiet, "No progress while tuning");
    return atalla::run_tool(app, argc, argv, [&] { whatif(options, what, app.count("--op") > 0); });
}
