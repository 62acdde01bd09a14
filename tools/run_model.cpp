#include "tools/run_model.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string_view>

#include <fmt/format.h>

#include "isa/error.h"
#include "runtime/describe.h"
#include "tools/model_tensors.h"
#include "tools/run_tool.h"

namespace atalla {

namespace {

struct Options {
    std::filesystem::path model;
    std::vector<std::string> inputs, outputs;
    int repeat = 1;
    bool profile = false, json = false, quiet = false;
};

std::string profile_text(const Context &context) {
    std::string text = fmt::format("{:<60} {:<12} {:>12} {:>10}\n", "step", "on", "cycles", "seconds");
    for (const StepProfile &step : context.profile())
        text += fmt::format(
            "{:<60} {:<12} {:>12} {:>10.4f}\n", step.device ? step.node : fmt::format("{} ({})", step.node, step.target),
            step.device ? "accelerator" : "host", step.device ? fmt::format("{}", step.cycles) : "", step.seconds);
    return text;
}

void run(const Options &options) {
    if (options.model.extension() == ".pt2")
        throw Error(
            fmt::format("{0} is not compiled: ./atalla compile {0} -o MODEL.atl makes what runs", options.model.string()));
    const std::shared_ptr<const Model> model = Model::load(options.model);
    Context context(model);
    const std::vector<std::filesystem::path> inputs = port_files(options.inputs, *model->table().inputs(), "input"),
                                             outputs = port_files(options.outputs, *model->table().outputs(), "output");
    for (size_t i = 0; i < inputs.size(); i++) {
        if (inputs[i].empty())
            throw Error(fmt::format("input '{0}' is missing: --input {0}=FILE.npy",
                                    model->table().inputs()->Get(static_cast<uint32_t>(i))->name()->str()));
        context.set_input(i, read_model_tensor(inputs[i]));
    }
    for (int i = 0; i < options.repeat; i++) context.run();
    for (size_t i = 0; i < outputs.size(); i++)
        if (!outputs[i].empty()) write_model_tensor(outputs[i], context.output(i));
    if (options.json) {
        std::cout << describe_run(context).dump() << '\n';
        return;
    }
    if (options.quiet) return;
    if (options.profile) std::cout << profile_text(context);
    const ContextCounters &c = context.counters();
    std::cout << fmt::format("{} on {}: {} cycles, {} packets in {} segments; {} host calls\n", model->table().name()->str(),
                             model->machine().name, c.last.cycles, c.last.packets, c.device_calls, c.host_calls);
}

}  // namespace

bool means_model(int argc, char **argv) {
    return std::any_of(argv + 1, argv + std::max(argc, 1),
                       [](std::string_view word) { return word.ends_with(".atl") || word.ends_with(".pt2"); });
}

int run_model(int argc, char **argv) {
    CLI::App app("Runs a compiled model on .npy files.", "atalla-run");
    app.footer("Example:\n  atalla run model.atl --input x.npy -o y.npy --profile");
    Options options;
    app.add_option("MODEL", options.model, "The .atl file")->required();
    app.add_option("--input", options.inputs, "FILE.npy for the next input, or NAME=FILE.npy; may be repeated");
    app.add_option("-o,--output", options.outputs, "FILE.npy for the next output, or NAME=FILE.npy; may be repeated");
    app.add_option("--repeat", options.repeat, "Calls, one after the other: a model with states goes on from each")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_flag("--profile", options.profile, "Print every step with its cycles and time");
    app.add_flag("--json", options.json, "Print counters and steps as a JSON object");
    app.add_flag("--quiet", options.quiet, "Print nothing");
    return run_tool(app, argc, argv, [&] { run(options); });
}

}  // namespace atalla
