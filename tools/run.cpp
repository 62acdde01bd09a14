// atalla-run: runs the stored winner of an operator on tensors in .npy files, tuning first if there is none.
#include <filesystem>
#include <iostream>

#include <fmt/format.h>

#include "generators/number_words.h"
#include "generators/registry.h"
#include "isa/error.h"
#include "tools/arranged.h"
#include "tools/npy.h"
#include "tools/run_model.h"
#include "tools/run_tool.h"
#include "tools/tuned.h"
#include "tools/workload_options.h"

namespace {

using atalla::Error;

struct Options {
    std::string machine = "ax01", type;
    std::filesystem::path database, output;
    std::map<std::string, std::vector<std::filesystem::path>> tensors;  // by option name
    std::vector<std::filesystem::path> files;                           // tensors in the operator's order
    bool json = false, quiet = false;
};

// What to run: the workload that the tensors make, and their values in the kernel's order.
struct Job {
    std::shared_ptr<const atalla::Workload> workload;
    std::vector<atalla::TensorData> inputs;
    bool from_floats = false;
};

// An operand of a pointwise operator may be a number or a tensor: what is no number names a file.
void divide_operands(const atalla::Operator &op, atalla::WorkloadArguments &arguments, Options &options) {
    for (const atalla::OperatorTensor &tensor : op.tensors()) {
        const auto given = arguments.find(tensor.name);
        if (given == arguments.end() || nlohmann::json::accept(given->second) ||
            atalla::number_of_word(given->second).is_number())
            continue;
        options.tensors[tensor.name] = {given->second};
        arguments.erase(given);
    }
}

Job read_tensors(const Options &options, const atalla::Operator &op, const atalla::WorkloadArguments &arguments) {
    Job job;
    atalla::TensorList shapes;
    std::vector<std::filesystem::path> files = options.files;
    for (const atalla::OperatorTensor &tensor : op.tensors()) {
        const auto named = options.tensors.find(tensor.name);
        std::vector<std::filesystem::path> given =
            named != options.tensors.end() ? named->second : std::vector<std::filesystem::path>{};
        const auto in_order =
            static_cast<ptrdiff_t>(given.empty() ? (tensor.several ? files.size() : std::min<size_t>(files.size(), 1)) : 0);
        given.insert(given.end(), files.begin(), files.begin() + in_order);
        files.erase(files.begin(), files.begin() + in_order);
        if (given.empty() && tensor.required)
            throw Error(fmt::format("{} needs --{}: {}", op.name(), tensor.name, tensor.help));
        if (given.size() > 1 && !tensor.several) throw Error(fmt::format("{} takes one --{}", op.name(), tensor.name));
        for (const std::filesystem::path &file : given) {
            atalla::NpyTensor read = atalla::read_npy(file);
            shapes.emplace_back(tensor.name, read.shape);
            job.from_floats = job.from_floats || read.stored_as.find('f') != std::string::npos;
            job.inputs.push_back(std::move(read.values));
        }
    }
    if (!files.empty()) throw Error(fmt::format("{} has no tensor for {}", op.name(), files.front().string()));
    job.workload = op.workload_of(shapes, arguments);
    return job;
}

atalla::NpyType output_type(const Options &options, const Job &job) {
    if (options.type.empty()) return job.from_floats ? atalla::NpyType::Float32 : atalla::NpyType::Bf16;
    return options.type == "f32" ? atalla::NpyType::Float32 : atalla::NpyType::Bf16;
}

void run(Options options, const atalla::WorkloadOptions &what) {
    const atalla::Operator &op = what.op();
    atalla::WorkloadArguments arguments = what.arguments();
    divide_operands(op, arguments, options);
    const atalla::Machine machine = atalla::find_machine(options.machine);
    Job job = read_tensors(options, op, arguments);
    const atalla::ArrangedWorkload arranged = atalla::arranged(op, job.workload, arguments, machine, options.database);
    job.workload = arranged.workload;
    job.inputs = arranged.inputs(std::move(job.inputs));
    const atalla::Evaluator evaluator(job.workload, machine);
    const atalla::Point point = atalla::winning_point(op, job.workload, machine, options.database, options.quiet);
    const atalla::KernelDefinition kernel = kernel_of(*job.workload, machine, point);
    const atalla::KernelRun run = atalla::run_kernel(kernel, evaluator.compile(point), machine, job.inputs);
    if (!run.result.ok) throw Error(run.result.error);
    if (!run.outside_untouched) throw Error("the program wrote outside its tensors");
    atalla::write_npy(options.output, job.workload->result_shape(), run.outputs.front(), output_type(options, job));
    const auto cycles = static_cast<int64_t>(run.result.counters.cycles), bound = job.workload->bound(machine).cycles;
    if (options.json)
        std::cout << nlohmann::ordered_json{{"op", op.name()},
                                            {"shape", job.workload->shape()},
                                            {"machine", machine.name},
                                            {"cycles", cycles},
                                            {"bound_cycles", bound},
                                            {"schedule", nlohmann::json(point)},
                                            {"output", options.output.string()}}
                         .dump()
                  << '\n';
    else if (!options.quiet)
        std::cout << fmt::format("{} {} on {}: {} cycles, {:.1f} % of the bound; {} written\n", op.name(),
                                 job.workload->title(), machine.name, cycles,
                                 100.0 * static_cast<double>(bound) / static_cast<double>(cycles), options.output.string());
}

}  // namespace

int main(int argc, char **argv) {
    if (atalla::means_model(argc, argv)) return atalla::run_model(argc, argv);
    CLI::App app("Runs an operator's stored winner on .npy files, tuning first if there is none.", "atalla-run");
    app.footer(
        "Examples:\n  atalla-run --op gemm --a A.npy --b B.npy --relu -o C.npy\n  atalla-run --op gelu X.npy -o Y.npy\n"
        "  atalla-run model.atl --input x.npy -o y.npy   (a compiled model: atalla-run model.atl --help)\n\n"
        "Tensors are bf16 (<V2 of ml_dtypes, or <u2 patterns) or floats, which are rounded to bf16.");
    Options options;
    const atalla::WorkloadOptions what(app, argc, argv, false);
    for (const atalla::Operator *op : atalla::operators())
        for (const atalla::OperatorTensor &tensor : op->tensors())
            if (options.tensors.try_emplace(tensor.name).second && app.get_option_no_throw("--" + tensor.name) == nullptr)
                app.add_option("--" + tensor.name, options.tensors[tensor.name],
                               (tensor.help.starts_with("of ") ? "File " : "File of ") + tensor.help)
                    ->group("Tensors");
    app.add_option("files", options.files, "Tensors in the operator's order, instead of options with their names");
    app.add_option("-o,--output", options.output, "File for the result")->required();
    app.add_option("--type", options.type, "Type of the result: bf16 or f32 (default: f32 if a tensor is a float, else bf16)")
        ->check(CLI::IsMember({"bf16", "f32"}));
    app.add_option("--machine", options.machine, "A machine's name or file")->capture_default_str();
    app.add_option("--db", options.database,
                   "Database file (default: $ATALLA_DB, or atalla-tune/atalla.db in the user's data folder)");
    app.add_flag("--json", options.json, "Print a JSON object");
    app.add_flag("--quiet", options.quiet, "Print nothing");
    return atalla::run_tool(app, argc, argv, [&] { run(options, what); });
}
