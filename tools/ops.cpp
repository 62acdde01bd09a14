// atalla-ops: lists the operators, what they take, where they are tuned, and where each ATen overload runs.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "db/database.h"
#include "db/default_path.h"
#include "generators/evaluate.h"
#include "generators/numerics.h"
#include "generators/registry.h"
#include "isa/error.h"
#include "tools/coverage.h"
#include "tools/run_tool.h"
#include "tools/tune_list.h"

namespace {

using atalla::Operator;
using json = nlohmann::ordered_json;

struct Options {
    std::string name;
    std::filesystem::path database;
    bool as_json = false, coverage = false, numerics = false;
};

// What the database knows about an operator on a machine, with the compiler of this program.
struct Tuned {
    int64_t workloads = 0;
    double least = 1, greatest = 0;  // shares of the bound
};
using TunedOn = std::map<std::string, Tuned>;  // by machine

std::map<std::string, TunedOn> tuned_operators(const std::filesystem::path &file) {
    std::map<std::string, TunedOn> found;
    if (!std::filesystem::exists(file)) return found;
    const atalla::Database database(file);
    atalla::TrialFilter filter;
    filter.compiler = atalla::compiler_fingerprint();
    for (const atalla::KeySummary &key : database.list(filter)) {
        if (!key.winner || key.bound_cycles == 0) continue;
        Tuned &tuned = found[key.key.op][key.machine_name];
        const double share = static_cast<double>(key.bound_cycles) / static_cast<double>(key.winner->trial.cycles);
        tuned.workloads++;
        tuned.least = std::min(tuned.least, share);
        tuned.greatest = std::max(tuned.greatest, share);
    }
    return found;
}

std::string status(const TunedOn &machines) {
    std::vector<std::string> parts;
    for (const auto &[machine, tuned] : machines)
        parts.push_back(tuned.workloads == 1 ? fmt::format("{} {:.0f} %", machine, 100 * tuned.greatest)
                                             : fmt::format("{} {:.0f}-{:.0f} % ({})", machine, 100 * tuned.least,
                                                           100 * tuned.greatest, tuned.workloads));
    return parts.empty() ? "not tuned yet" : fmt::format("{}", fmt::join(parts, ", "));
}

// The shipped machines for which it has schedules at its default size, its constants arranged or not.
std::vector<std::string> machines_of(const Operator &op) {
    static const std::vector<atalla::Machine> machines = [] {
        std::vector<atalla::Machine> all;
        for (const std::string &name : atalla::shipped_machines()) all.push_back(atalla::find_machine(name));
        return all;
    }();
    const std::shared_ptr<const atalla::Workload> workload = op.workload({});
    std::vector<std::string> names;
    for (const atalla::Machine &machine : machines) {
        const auto runs = [&](const atalla::Workload &one) { return atalla::count(one.space(machine), 1) > 0; };
        const std::vector<atalla::Arrangement> arranged = workload->arrangements(machine);
        if (runs(*workload) || std::ranges::any_of(arranged, [&](const auto &one) { return runs(*one.workload); }))
            names.push_back(machine.name);
    }
    return names;
}

json operator_json(const Operator &op, const TunedOn &machines) {
    const atalla::OperatorCard card = op.card();
    json row = {{"name", op.name()},
                {"family", card.family},
                {"schemas", op.schemas()},
                {"help", op.help()},
                {"example", atalla::example_line(op)},
                {"algorithm", card.algorithm},
                {"space", card.space},
                {"bound", card.bound},
                {"reference", card.reference},
                {"supports", card.supports},
                {"refuses", card.refuses},
                {"fuses", card.fuses},
                {"tensors", json::array()},
                {"arguments", json::array()},
                {"machines", machines_of(op)},
                {"tuned", json::object()}};
    for (const atalla::OperatorTensor &tensor : op.tensors())
        row["tensors"].push_back(
            {{"name", tensor.name}, {"help", tensor.help}, {"required", tensor.required}, {"several", tensor.several}});
    for (const atalla::WorkloadArgument &argument : op.arguments())
        row["arguments"].push_back({{"name", argument.name}, {"help", argument.help}, {"default", argument.fallback}});
    for (const auto &[machine, tuned] : machines)
        row["tuned"][machine] = {
            {"workloads", tuned.workloads}, {"least_share", tuned.least}, {"greatest_share", tuned.greatest}};
    return row;
}

std::string operator_text(const Operator &op, const TunedOn &machines) {
    const atalla::OperatorCard card = op.card();
    std::string text = fmt::format("{}\n  {}\n", op.name(), op.help());
    const auto row = [&](const char *name, const std::string &value) {
        if (!value.empty()) text += fmt::format("  {:<12}{}\n", name, value);
    };
    row("example", atalla::example_line(op));
    row("family", card.family);
    row("ATen", fmt::format("{}", fmt::join(op.schemas(), " ")));
    row("algorithm", card.algorithm);
    row("space", card.space);
    row("bound", card.bound);
    row("reference", card.reference);
    row("takes", card.supports);
    row("refuses", card.refuses);
    row("fuses", card.fuses);
    for (const atalla::OperatorTensor &tensor : op.tensors())
        row("tensor", fmt::format("{}{}: {}", tensor.name, tensor.required ? "" : " (may be left out)", tensor.help));
    for (const atalla::WorkloadArgument &argument : op.arguments())
        row("argument", fmt::format("--{}: {}", argument.name, argument.help));
    row("runs on", fmt::format("{} (at the size of the example)", fmt::join(machines_of(op), " ")));
    row("tuned", status(machines));
    return text;
}

// Errors over all inputs, measured now.
void print_numerics(const Options &options) {
    const atalla::Machine machine = atalla::find_machine("ax01");
    json all = json::array();
    for (const std::string &expression :
         options.name.empty() ? atalla::numerics_expressions() : std::vector<std::string>{options.name}) {
        const atalla::NumericsRow row = atalla::measure_numerics(expression, machine);
        all.push_back({{"expression", row.expression},
                       {"inputs", row.inputs},
                       {"worst_ulps", row.worst_ulps},
                       {"worst_at", row.worst_at},
                       {"over_one", row.over_one},
                       {"wrong_special", row.wrong_special},
                       {"wrong_at", row.wrong_at},
                       {"lanes",
                        {{"adds", row.work.work.adds},
                         {"muls", row.work.work.muls},
                         {"exps", row.work.work.exps},
                         {"copies", row.work.copies}}}});
        if (options.as_json) continue;
        std::cout << fmt::format("{:<28} {:6.3f} ulps at {}, {} inputs over 1, {} special values differ{}\n", row.expression,
                                 row.worst_ulps, fmt::join(row.worst_at, ", "), row.over_one, row.wrong_special,
                                 row.wrong_special > 0 ? fmt::format(", first at {}", fmt::join(row.wrong_at, ", ")) : "")
                  << std::flush;
    }
    if (options.as_json) std::cout << all.dump(2) << '\n';
}

// An operator in the list.
struct Row {
    std::string family, name, status, machines, schemas;
};

// Under each family its operators, in columns as wide as what they hold.
void print_rows(const std::vector<Row> &rows) {
    size_t name = 0, status = 0, machines = 0;
    for (const Row &row : rows) {
        name = std::max(name, row.name.size());
        status = std::max(status, row.status.size());
        machines = std::max(machines, row.machines.size());
    }
    std::string family;
    for (const Row &row : rows) {
        if (row.family != family) std::cout << '\n' << (family = row.family) << '\n';
        std::cout << fmt::format("  {:<{}}  {:<{}}  {:<{}}  {}\n", row.name, name, row.status, status, row.machines, machines,
                                 row.schemas);
    }
}

void list(const Options &options) {
    if (options.numerics) return print_numerics(options);
    if (options.coverage) {
        std::cout << (options.as_json ? atalla::coverage_json().dump(2) + "\n" : atalla::coverage_markdown());
        return;
    }
    const std::map<std::string, TunedOn> tuned =
        tuned_operators(options.database.empty() ? atalla::default_database_path() : options.database);
    const auto tuned_on = [&](const Operator &op) {
        const auto found = tuned.find(op.name());
        return found == tuned.end() ? TunedOn{} : found->second;
    };
    if (!options.name.empty()) {
        const Operator &op = atalla::find_operator(options.name);
        std::cout << (options.as_json ? operator_json(op, tuned_on(op)).dump(2) + "\n" : operator_text(op, tuned_on(op)));
        return;
    }
    if (options.as_json) {
        json all = json::array();
        for (const Operator *op : atalla::operators()) all.push_back(operator_json(*op, tuned_on(*op)));
        std::cout << all.dump(2) << '\n';
        return;
    }
    std::vector<Row> rows = {{"", "", "status", "its example runs on", "ATen"}};
    for (const Operator *op : atalla::operators())
        rows.push_back({op->card().family, op->name(), status(tuned_on(*op)),
                        fmt::format("{}", fmt::join(machines_of(*op), " ")), fmt::format("{}", fmt::join(op->schemas(), " "))});
    print_rows(rows);
    std::cout << fmt::format("\n{} operators. A share is that of the lower bound; `atalla ops NAME` tells all about one.\n",
                             atalla::operators().size());
}

}  // namespace

int main(int argc, char **argv) {
    CLI::App app("Lists the operators: what they take, where they are tuned, and where each ATen overload runs.", "atalla-ops");
    app.footer("Examples:\n  atalla-ops\n  atalla-ops gemm\n  atalla-ops --coverage\n  atalla-ops --numerics 'silu(x)'");
    Options options;
    app.add_option("name", options.name, "One operator, by its name or an ATen schema, with all that is known about it");
    app.add_flag("--coverage", options.coverage, "Where each overload of real models' graphs runs, as a table in Markdown");
    app.add_flag(
        "--numerics", options.numerics,
        "Errors of the pointwise operators (or of one expression) over all bf16 inputs, measured now on the simulator");
    app.add_flag("--json", options.as_json, "Print JSON");
    app.add_option("--db", options.database,
                   "Database file (default: $ATALLA_DB, or atalla-tune/atalla.db in the user's data folder)");
    return atalla::run_tool(app, argc, argv, [&] { list(options); });
}
