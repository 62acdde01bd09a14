#include "graph_import/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "graph_import/archive.h"
#include "graph_import/graph_reader.h"
#include "graph_import/plain_export.h"
#include "graph_import/pytree.h"
#include "graph_import/weights.h"
#include "isa/error.h"

namespace atalla {

namespace {

constexpr int64_t supported_major = 8;
constexpr int64_t largest_program = int64_t{128} << 20;  // bytes of JSON

// The folder that holds the archive's entries, with its slash; Error for another container.
std::string root_of(const Archive &archive) {
    constexpr std::string_view format = "archive_format";
    for (const std::string &entry : archive.entries()) {
        if (entry == format) return "";
        if (entry.ends_with(format) && entry[entry.size() - format.size() - 1] == '/' &&
            std::count(entry.begin(), entry.end(), '/') == 1) {
            return entry.substr(0, entry.size() - format.size());
        }
    }
    const auto holds = [&](std::string_view suffix) {
        return std::any_of(archive.entries().begin(), archive.entries().end(),
                           [&](const std::string &entry) { return entry.ends_with(suffix); });
    };
    if (holds("serialized_exported_program.json")) {
        throw Error(fmt::format("{}: written by PyTorch 2.7 or older; export the model again with PyTorch 2.9 or newer",
                                archive.name()));
    }
    if (holds("data.pkl") || holds("constants.pkl")) {
        throw Error(
            fmt::format("{}: this is what torch.save or torch.jit.save wrote, not an exported program; save one with "
                        "torch.export.save(torch.export.export(model, inputs), \"model.pt2\")",
                        archive.name()));
    }
    throw Error(
        fmt::format("{}: a zip archive, but not one that torch.export.save wrote: it has no archive_format", archive.name()));
}

std::string choose_model(const Archive &archive, const std::string &root, const std::string &wanted) {
    std::vector<std::string> models;
    const std::string folder = root + "models/";
    constexpr std::string_view ending = ".json";
    for (const std::string &entry : archive.entries()) {
        if (entry.starts_with(folder) && entry.ends_with(ending) && entry.size() > folder.size() + ending.size()) {
            models.push_back(entry.substr(folder.size(), entry.size() - folder.size() - ending.size()));
        }
    }
    const auto has = [&](const std::string &name) { return std::find(models.begin(), models.end(), name) != models.end(); };
    if (models.empty()) throw Error(fmt::format("{}: the archive holds no exported program", archive.name()));
    if (!wanted.empty()) {
        if (!has(wanted))
            throw Error(fmt::format("{}: no model '{}'; there are {}", archive.name(), wanted, fmt::join(models, ", ")));
        return wanted;
    }
    if (models.size() == 1) return models[0];
    if (has("model")) return "model";
    throw Error(fmt::format("{}: several models; choose one of {}", archive.name(), fmt::join(models, ", ")));
}

void attach_data(Graph &graph, GraphInput &input, WeightStore &weights) {
    StoredTensor stored = weights.find(input.name, input.kind == GraphInput::Kind::Constant || !input.persistent);
    TensorType &type = graph.value(input.value).type;
    if (stored.tensor.dtype != type.dtype || !is_constant(type.sizes) || constant_sizes(type.sizes) != stored.tensor.sizes) {
        throw Error(fmt::format("{}: its data ({}, [{}]) is not what the graph says ({}, {})", input.name,
                                dtype_name(stored.tensor.dtype), fmt::join(stored.tensor.sizes, ", "), dtype_name(type.dtype),
                                text(type.sizes)));
    }
    // The index describes the payload; the strides in the graph are the tracer's.
    type.strides.assign(stored.tensor.strides.begin(), stored.tensor.strides.end());
    type.offset = stored.tensor.offset;
    if (stored.missing.empty()) {
        input.data = std::move(stored.tensor);
    } else {
        input.missing = std::move(stored.missing);
    }
}

GraphInput read_input(const JsonView &spec, size_t index, GraphReader &reader, Graph &graph, WeightStore &weights) {
    const auto [kind, fields] = spec.only_field();
    GraphInput input;
    if (kind == "parameter" || kind == "buffer" || kind == "tensor_constant") {
        using Kind = GraphInput::Kind;
        input.kind = kind == "parameter" ? Kind::Parameter : kind == "buffer" ? Kind::Buffer : Kind::Constant;
        input.name = fields[kind + "_name"].string();
        if (fields.has("persistent")) input.persistent = fields["persistent"].boolean();
        const JsonView argument = fields["arg"];
        input.value = reader.define_tensor(argument["name"]);
        attach_data(graph, input, weights);
    } else if (kind == "user_input") {
        const JsonView union_json = fields["arg"];
        const auto [tag, argument] = union_json.only_field();
        if (tag == "as_tensor") {
            const JsonView name = argument["name"];
            input.name = name.string();
            input.value = reader.define_tensor(name);
        } else if (tag == "as_sym_int" && argument.has("as_name")) {
            const JsonView name = argument["as_name"];
            input.name = name.string();
            input.value = reader.define_integer(name);
        } else {
            input.kind = GraphInput::Kind::Fixed;
            input.name = fmt::format("argument {}", index);
            input.fixed = reader.read_argument(union_json);
        }
    } else if (kind == "constant_input") {
        input.kind = GraphInput::Kind::Fixed;
        input.name = fields["name"].string();
        if (fields.has("value")) input.fixed = reader.read_argument(fields["value"]);
    } else if (kind == "custom_obj") {
        fields["custom_obj_name"].fail("the model holds a custom object, which cannot be imported");
    } else {
        spec.fail(fmt::format("an input of kind '{}' is not supported", kind));
    }
    return input;
}

void read_inputs(const JsonView &module, GraphReader &reader, Graph &graph, WeightStore &weights) {
    const JsonView signature = module["signature"];
    const JsonView specs = signature["input_specs"];
    const JsonView body = module["graph"];
    if (specs.size() != body["inputs"].size()) specs.fail("one entry for each input of the graph is expected");
    for (size_t i = 0; i < specs.size(); i++) graph.inputs.push_back(read_input(specs.element(i), i, reader, graph, weights));
}

int32_t mutated_input(const Graph &graph, const JsonView &name, bool user) {
    for (size_t i = 0; i < graph.inputs.size(); i++) {
        const GraphInput &input = graph.inputs[i];
        if ((input.kind == GraphInput::Kind::User) == user && input.value && input.name == name.string()) {
            return static_cast<int32_t>(i);
        }
    }
    name.fail(fmt::format("{} is not an input", name.string()));
}

GraphOutput read_output(const JsonView &spec, Argument value, const Graph &graph) {
    const auto [kind, fields] = spec.only_field();
    GraphOutput output;
    output.value = std::move(value);
    if (kind == "user_output") return output;
    constexpr std::string_view ending = "_mutation";
    if (!kind.ends_with(ending)) {
        spec.fail(fmt::format("an output of kind '{}' belongs to training or to effects and is not supported", kind));
    }
    const JsonView name = fields[kind.substr(0, kind.size() - ending.size()) + "_name"];
    output.kind = GraphOutput::Kind::Mutation;
    output.name = name.string();
    output.target = mutated_input(graph, name, kind.starts_with("user_input"));
    return output;
}

void read_outputs(const JsonView &module, GraphReader &reader, Graph &graph) {
    const JsonView signature = module["signature"];
    const JsonView specs = signature["output_specs"];
    const JsonView body = module["graph"];
    const JsonView outputs = body["outputs"];
    if (specs.size() != outputs.size()) specs.fail("one entry for each output of the graph is expected");
    std::vector<size_t> seen_by_caller;
    for (size_t i = 0; i < specs.size(); i++) {
        graph.outputs.push_back(read_output(specs.element(i), reader.read_argument(outputs.element(i)), graph));
        if (graph.outputs[i].kind == GraphOutput::Kind::User) seen_by_caller.push_back(i);
    }
    const std::vector<std::string> names = output_names(module);
    for (size_t i = 0; i < seen_by_caller.size(); i++) {
        graph.outputs[seen_by_caller[i]].name = names.size() == seen_by_caller.size() ? names[i] : std::to_string(i);
    }
}

void read_symbols(const JsonView &program, const SymbolHints &hints, Graph &graph) {
    for (const auto &[name, hint] : hints) graph.symbols[name].hint = hint;
    if (program.has("range_constraints")) {
        program["range_constraints"].each_field([&](const std::string &name, const JsonView &range) {
            // Ranges of whole expressions follow from those of their symbols; PyTorch leaves ranges of symbols behind that no
            // size has any more.
            const auto found = graph.symbols.find(name);
            if (found == graph.symbols.end()) return;
            SymbolInfo &info = found->second;
            info.least = range.has("min_val") ? range["min_val"].integer() : 0;
            if (range.has("max_val")) info.most = range["max_val"].integer();
        });
    }
    if (program.has("guards_code")) {
        std::set<std::string> seen;
        program["guards_code"].each([&](const JsonView &guard) {
            if (seen.insert(guard.string()).second) graph.guards.push_back(guard.string());
        });
    }
}

void require_version(const JsonView &program, const Archive &archive, ImportedModel &model) {
    const JsonView version = program["schema_version"];
    const int64_t major = version["major"].integer(), minor = version["minor"].integer();
    model.schema_version = fmt::format("{}.{}", major, minor);
    if (program.has("torch_version")) model.torch_version = program["torch_version"].string();
    if (major != supported_major) {
        throw Error(
            fmt::format("{}: schema version {} (PyTorch {}) cannot be read; this reader knows major version {}: export the "
                        "model again with PyTorch 2.9 to 2.14",
                        archive.name(), model.schema_version, model.torch_version.empty() ? "unknown" : model.torch_version,
                        supported_major));
    }
    if (program.has("verifiers")) {
        const JsonView verifiers = program["verifiers"];
        if (verifiers.size() > 0) model.dialect = verifiers.element(0).string();
    }
}

ImportedModel import_archive(const Archive &archive, const ImportOptions &options) {
    const std::string root = root_of(archive);
    const std::string name = choose_model(archive, root, options.model);
    const std::string entry = fmt::format("{}models/{}.json", root, name);
    const std::string what = fmt::format("{}: {}", archive.name(), entry);
    const nlohmann::json document = parse_foreign_json(archive.read_text(entry, largest_program), what);
    const JsonView program(document, what);

    ImportedModel model;
    require_version(program, archive, model);
    WeightStore weights(archive, root, name, options.check_data);
    Graph &graph = model.graph;
    graph.name = name;
    SymbolHints hints;
    const JsonView module = program["graph_module"];
    const JsonView body = module["graph"];
    GraphReader reader(body, graph, hints);
    read_inputs(module, reader, graph, weights);
    reader.read_nodes();
    read_outputs(module, reader, graph);
    read_symbols(program, hints, graph);
    graph.renumber();
    settle_plain_export(graph, archive.name());
    verify(graph);
    return model;
}

}  // namespace

ImportedModel import_model(const std::filesystem::path &file, const ImportOptions &options) {
    return import_archive(Archive::open(file), options);
}

ImportedModel import_model(std::span<const std::byte> bytes, std::string_view name, const ImportOptions &options) {
    return import_archive(Archive::of_bytes(bytes, name), options);
}

}  // namespace atalla
