// atalla-inspect: what is in a model that torch.export.save wrote, who can run it, and what the passes make of it.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "graph_import/emit.h"
#include "graph_import/import.h"
#include "graph_import/passes.h"
#include "graph_import/print.h"
#include "graph_import/support.h"
#include "isa/error.h"
#include "runtime/describe.h"
#include "tools/accelerator_registry.h"
#include "tools/planned_model.h"
#include "tools/run_tool.h"
#include "tools/user_library.h"

namespace {

using namespace atalla;

struct Options {
    std::filesystem::path file, output;
    std::string model, emit, dump_after, plan_svg;
    ModelOptions program;  // of the plan
    std::vector<std::string> skipped, libraries;
    bool code = false, operators = false, parameters = false, symbols = false, support = false, plan = false;
    bool passes = false, list_passes = false, json = false;
};

void write(const std::string &text, const std::filesystem::path &file) {
    std::ofstream created;
    if (!file.empty()) created.open(file, std::ios::binary | std::ios::trunc);
    std::ostream &output = file.empty() ? std::cout : created;
    output << text << std::flush;
    if (!output) {
        throw Error(
            fmt::format("{}: cannot be written: {}", file.empty() ? "standard output" : file.string(), std::strerror(errno)));
    }
}

Registries all_registries() {
    Registries registries = registered_operators();
    if (const OperatorRegistry *accelerator = accelerator_registry()) registries.push_back(accelerator);
    registries.push_back(&host_registry());
    return registries;
}

// Sizes of the example in place of symbols: the accelerator decides by shape.
Graph at_example(const Graph &graph) {
    Bindings bindings;
    for (const auto &[name, info] : graph.symbols) {
        if (info.hint) bindings[name] = *info.hint;
    }
    return specialize(graph, bindings);
}

nlohmann::json support_json(const SupportReport &report) {
    nlohmann::json result = nlohmann::json::array();
    for (const SupportFinding &finding : report.findings) {
        result.push_back({{"operator", finding.target},
                          {"calls", finding.nodes.size()},
                          {"support", support_name(finding.kind)},
                          {"registry", finding.registry},
                          {"reason", finding.reason},
                          {"module", finding.first_module}});
    }
    return result;
}

std::string support_text(const SupportReport &report) {
    std::vector<std::vector<std::string>> rows = {{"calls", "operator", "runs on", "why not elsewhere", "first in"}};
    for (const SupportFinding &finding : report.findings) {
        rows.push_back({std::to_string(finding.nodes.size()), finding.target,
                        finding.registry.empty() ? std::string(support_name(finding.kind)) : finding.registry, finding.reason,
                        finding.first_module});
    }
    return columns(rows) +
           fmt::format(
               "{} calls on the accelerator, {} in parts, {} on the host, {} without work, {} to decompose, {} unsupported\n",
               report.count(SupportKind::Accelerator), report.count(SupportKind::Parts), report.count(SupportKind::Host),
               report.count(SupportKind::View), report.count(SupportKind::Decomposition),
               report.count(SupportKind::Unsupported));
}

void apply_passes(Graph &graph, const Options &options) {
    PassOptions how;
    how.skipped.insert(options.skipped.begin(), options.skipped.end());
    if (!options.dump_after.empty() && options.dump_after != "all") {
        std::vector<std::string> names;
        for (const Pass &pass : graph_passes()) names.push_back(pass.name);
        if (std::find(names.begin(), names.end(), options.dump_after) == names.end()) {
            const std::string near = nearest_name(options.dump_after, names);
            throw Error(fmt::format("no pass '{}'{}", options.dump_after,
                                    near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near)));
        }
    }
    how.after = [&](const Pass &pass, int changes, const Graph &now) {
        if (options.dump_after != pass.name && options.dump_after != "all") return;
        std::cerr << fmt::format("after {}, {} change{}:\n{}\n", pass.name, changes, changes == 1 ? "" : "s", print_code(now));
    };
    run_passes(graph, how);
}

std::string emitted(const Graph &graph, const std::string &form) {
    if (form == "mlir") return emit_mlir(graph);
    if (form == "dot") return emit_dot(graph);
    return emit_rpn(graph);
}

void inspect_loadable(const Options &options) {
    const bool of_a_graph = options.code || options.operators || options.parameters || options.symbols || options.support ||
                            options.plan || !options.plan_svg.empty() || options.passes || !options.skipped.empty() ||
                            !options.dump_after.empty() || !options.emit.empty() || !options.model.empty();
    if (of_a_graph) throw Error("a compiled model has no graph any more: only --json and -o go with a .atl file");
    const std::shared_ptr<const Model> model = Model::load(options.file);
    write(options.json ? describe(*model).dump(2) + "\n" : describe_text(*model), options.output);
}

std::string sections(const ImportedModel &model, const Options &options) {
    const Graph &graph = model.graph;
    std::string text = fmt::format("{}: written by PyTorch {}, schema {}, {}\n", graph.name, model.torch_version,
                                   model.schema_version, model.dialect == "TRAINING" ? "plain export" : "decomposed export");
    const bool some = options.code || options.operators || options.parameters || options.symbols || options.support;
    if (!some) text += "\n" + print_table(graph);
    if (options.code) text += "\n" + print_code(graph);
    if (options.operators) text += "\n" + print_operators(graph);
    if (options.parameters) text += "\n" + print_parameters(graph);
    if (options.symbols) text += "\n" + print_symbols(graph);
    if (options.support) text += "\n" + support_text(support_report(at_example(graph), all_registries()));
    return text;
}

// Of the graph before the passes, which the compiler runs itself.
void print_plan(const Graph &graph, const Options &options) {
    const PlannedModel planned = planned_model(graph, options.program, {options.skipped.begin(), options.skipped.end()});
    if (options.plan) write(options.json ? planned.json : planned.text, options.output);
    if (!options.plan_svg.empty()) write(planned.svg, options.plan_svg);
}

void inspect(const Options &options) {
    for (const std::string &library : options.libraries) load_user_library(library);
    if (options.list_passes) {
        for (const Pass &pass : graph_passes()) fmt::print("{:<13} {}\n", pass.name, pass.help);
        return;
    }
    if (options.file.empty()) throw Error("name a .pt2 or .atl file; see atalla-inspect --help");
    if (options.file.extension() == ".atl") return inspect_loadable(options);
    ImportedModel model = import_model(options.file, {options.model});
    if (options.plan || !options.plan_svg.empty()) return print_plan(model.graph, options);
    if (options.passes || !options.skipped.empty() || !options.dump_after.empty()) apply_passes(model.graph, options);
    if (!options.emit.empty()) return write(emitted(model.graph, options.emit), options.output);
    if (options.json) {
        nlohmann::json result = model_json(model);
        if (options.support) result["support"] = support_json(support_report(at_example(model.graph), all_registries()));
        return write(result.dump(2) + "\n", options.output);
    }
    write(sections(model, options), options.output);
}

}  // namespace

int main(int argc, char **argv) {
    CLI::App app(
        "Prints what is in a model that torch.export.save wrote, by default a table of inputs, calls and outputs, or in a "
        "compiled one.",
        "atalla-inspect");
    app.footer(
        "Examples:\n  atalla inspect model.pt2\n  atalla inspect model.pt2 --operators --parameters --symbols\n"
        "  atalla inspect model.pt2 --support\n  atalla inspect model.pt2 --plan --plan-svg plan.svg\n  atalla inspect "
        "model.pt2 --passes --emit mlir -o model.mlir\n  atalla inspect model.atl");
    Options options;
    app.add_option("FILE", options.file, "The .pt2 or .atl file");
    app.add_option("--model", options.model, "Which model, if the archive holds several");
    app.add_flag("--code", options.code, "The graph as code");
    app.add_flag("--operators", options.operators, "Its operators with the number of calls");
    app.add_flag("--parameters", options.parameters, "Its parameters, buffers and constants");
    app.add_flag("--symbols", options.symbols, "Its symbolic sizes with their ranges, and its guards");
    app.add_flag("--support", options.support, "Who runs each operator, and why others do not");
    app.add_flag("--plan", options.plan,
                 "What the compiler makes of it: kernels, segments and where each tensor lies in memory");
    app.add_option("--plan-svg", options.plan_svg, "File to draw the memory plan into");
    const std::vector<CLI::Option *> of_plan = add_model_options(app, options.program);
    for (CLI::Option *option : of_plan) option->group("Options of the plan, as compile has them");
    app.add_flag("--passes", options.passes, "Run the passes first");
    app.add_option("--skip", options.skipped, "A pass to leave out (runs the others)")->allow_extra_args(false);
    app.add_option("--dump-after", options.dump_after, "Print the graph after this pass, or after 'all', to standard error");
    app.add_flag("--list-passes", options.list_passes, "The passes in their order");
    app.add_option("--emit", options.emit, "Write the graph for another tool")->check(CLI::IsMember({"mlir", "dot", "rpn"}));
    app.add_option("-o,--output", options.output, "File to write (standard output if not given)");
    app.add_option("--library", options.libraries, "Shared library with operators and passes of your own")
        ->allow_extra_args(false);
    app.add_flag("--json", options.json, "Everything as JSON");
    return run_tool(app, argc, argv, [&] {
        for (const CLI::Option *option : of_plan)
            if (option->count() > 0 && !options.plan && options.plan_svg.empty())
                throw Error(fmt::format("{} is an option of the plan: give --plan or --plan-svg, too", option->get_name()));
        inspect(options);
    });
}
