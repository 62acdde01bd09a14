// atalla-inspect: what is in a model that torch.export.save wrote, and who can run it.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "graph_import/import.h"
#include "graph_import/print.h"
#include "isa/error.h"
#include "runtime/describe.h"
#include "tools/run_tool.h"

namespace {

using namespace atalla;

struct Options {
    std::filesystem::path file;
    std::string model;
    bool code = false, operators = false, parameters = false, symbols = false, json = false;
};

void summarize(const ImportedModel &model) {
    fmt::print("{}: written by PyTorch {}, schema {}, {}\n", model.graph.name, model.torch_version, model.schema_version,
               model.dialect == "TRAINING" ? "plain export" : "decomposed export");
}

void inspect_loadable(const Options &options) {
    const std::shared_ptr<const Model> model = Model::load(options.file);
    if (options.json) std::cout << describe(*model).dump(2) << "\n";
    else fmt::print("{}", describe_text(*model));
}

void inspect(const Options &options) {
    if (options.file.extension() == ".atl") return inspect_loadable(options);
    const ImportedModel model = import_model(options.file, {options.model});
    if (options.json) {
        std::cout << model_json(model).dump(2) << "\n";
        return;
    }
    summarize(model);
    const bool some = options.code || options.operators || options.parameters || options.symbols;
    if (!some) fmt::print("\n{}", print_table(model.graph));
    if (options.code) fmt::print("\n{}", print_code(model.graph));
    if (options.operators) fmt::print("\n{}", print_operators(model.graph));
    if (options.parameters) fmt::print("\n{}", print_parameters(model.graph));
    if (options.symbols) fmt::print("\n{}", print_symbols(model.graph));
}

}  // namespace

int main(int argc, char **argv) {
    CLI::App app("Prints what is in a model that torch.export.save wrote, by default a table of inputs, calls and outputs, or in a compiled one.",
                 "atalla-inspect");
    app.footer("Examples:\n  atalla inspect model.pt2\n  atalla inspect model.pt2 --operators --parameters --symbols\n  atalla inspect model.atl");
    Options options;
    app.add_option("FILE", options.file, "The .pt2 or .atl file")->required();
    app.add_option("--model", options.model, "Which model, if the archive holds several");
    app.add_flag("--code", options.code, "The graph as code");
    app.add_flag("--operators", options.operators, "Its operators with the number of calls");
    app.add_flag("--parameters", options.parameters, "Its parameters, buffers and constants");
    app.add_flag("--symbols", options.symbols, "Its symbolic sizes with their ranges, and its guards");
    app.add_flag("--json", options.json, "Everything as JSON");
    return run_tool(app, argc, argv, [&] { inspect(options); });
}
