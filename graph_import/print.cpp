#include "graph_import/print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "graph_import/schema.h"

namespace atalla {

namespace {

bool is_dense(const TensorType &type) {
    SymInt expected = 1;
    for (size_t i = type.sizes.size(); i-- > 0;) {
        if (type.sizes[i] == SymInt(1)) continue;
        if (!(type.strides[i] == expected)) return false;
        expected = expected * type.sizes[i];
    }
    return true;
}

std::string number_text(double number) {
    if (std::isnan(number)) return "nan";
    if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
    const std::string text = fmt::format("{}", number);
    return text.find_first_of(".en") == text.npos ? text + ".0" : text;
}

struct ArgumentText {
    const Graph &graph;

    std::string operator()(std::monostate) const { return "None"; }
    std::string operator()(ValueId id) const { return id ? graph.value(id).name : "None"; }
    std::string operator()(const std::vector<ValueId> &ids) const {
        std::vector<std::string> texts;
        for (ValueId id : ids) texts.push_back((*this)(id));
        return fmt::format("[{}]", fmt::join(texts, ", "));
    }
    std::string operator()(const SymInt &size) const { return size.text(); }
    std::string operator()(const Sizes &sizes) const { return text(sizes); }
    std::string operator()(double number) const { return number_text(number); }
    std::string operator()(const std::vector<double> &numbers) const {
        std::vector<std::string> texts;
        for (double number : numbers) texts.push_back(number_text(number));
        return fmt::format("[{}]", fmt::join(texts, ", "));
    }
    std::string operator()(bool flag) const { return flag ? "True" : "False"; }
    std::string operator()(const std::vector<bool> &flags) const {
        std::vector<std::string> texts;
        for (bool flag : flags) texts.push_back((*this)(flag));
        return fmt::format("[{}]", fmt::join(texts, ", "));
    }
    std::string operator()(const Complex &c) const { return fmt::format("{}{:+}j", c.real, c.imaginary); }
    std::string operator()(const std::string &string) const { return fmt::format("'{}'", string); }
    std::string operator()(DType type) const { return std::string(dtype_name(type)); }
    std::string operator()(const std::shared_ptr<Graph> &subgraph) const { return subgraph->name; }
    std::string operator()(const Unreadable &unreadable) const { return fmt::format("<{}>", unreadable.what); }
};

std::string value_type(const Graph &graph, ValueId id) {
    if (!id) return "None";
    const Value &value = graph.value(id);
    switch (value.kind) {
        case Value::Kind::Tensor:
            return type_text(value.type);
        case Value::Kind::Int:
            return fmt::format("int {}", value.symbolic.text());
        case Value::Kind::Float:
            return "float";
        case Value::Kind::Bool:
            return "bool";
    }
    return "";
}

std::string_view kind_name(const GraphInput &input) {
    switch (input.kind) {
        case GraphInput::Kind::User:
            return "input";
        case GraphInput::Kind::Fixed:
            return "fixed";
        case GraphInput::Kind::Parameter:
            return "parameter";
        case GraphInput::Kind::Buffer:
            return input.persistent ? "buffer" : "buffer, not saved";
        case GraphInput::Kind::Constant:
            return "constant";
    }
    return "";
}

std::string arguments_text(const Graph &graph, const Node &node) {
    const Schema *schema = find_schema(node.target);
    std::vector<std::string> texts;
    bool positional = true;
    for (size_t i = 0; i < node.arguments.size(); i++) {
        const NamedArgument &argument = node.arguments[i];
        const std::string value = argument_text(graph, argument.value);
        if (schema && i < schema->arguments.size() && schema->arguments[i].name == argument.name) {
            const auto &otherwise = schema->arguments[i].otherwise;
            if (otherwise && argument_text(graph, *otherwise) == value) {
                positional = false;
                continue;
            }
        }
        texts.push_back(positional || argument.name.empty() ? value : fmt::format("{}={}", argument.name, value));
    }
    return fmt::format("{}", fmt::join(texts, ", "));
}

std::string results_text(const Graph &graph, const Node &node) {
    std::vector<std::string> names;
    for (ValueId output : node.outputs) names.push_back(output ? graph.value(output).name : "_");
    return fmt::format("{}", fmt::join(names, ", "));
}

std::string result_types(const Graph &graph, const Node &node) {
    std::vector<std::string> types;
    for (ValueId output : node.outputs) types.push_back(value_type(graph, output));
    if (types.size() > 4) return fmt::format("{} results, the first {}", types.size(), types[0]);
    return fmt::format("{}", fmt::join(types, ", "));
}

std::string output_kind(const GraphOutput &output) { return output.kind == GraphOutput::Kind::User ? "output" : "mutation"; }

void append_code(const Graph &graph, const std::string &name, int indent, std::string &code) {
    const std::string margin(indent * 4, ' ');
    std::vector<std::string> parameters;
    for (const GraphInput &input : graph.inputs) {
        if (input.kind == GraphInput::Kind::User && input.value) {
            parameters.push_back(fmt::format("{}: {}", graph.value(input.value).name, value_type(graph, input.value)));
        }
    }
    code += fmt::format("{}def {}({}):\n", margin, name, fmt::join(parameters, ", "));
    for (const GraphInput &input : graph.inputs) {
        if (input.kind == GraphInput::Kind::User || !input.value) continue;
        code += fmt::format("{}    {} = self['{}']  # {} {}\n", margin, graph.value(input.value).name, input.name,
                            kind_name(input), value_type(graph, input.value));
    }
    for (const Node &node : graph.nodes) {
        for (const NamedArgument &argument : node.arguments) {
            if (const auto *subgraph = std::get_if<std::shared_ptr<Graph>>(&argument.value)) {
                append_code(**subgraph, (*subgraph)->name, indent + 1, code);
            }
        }
        const std::string results = results_text(graph, node);
        code += fmt::format("{}    {}{}({})", margin, results.empty() ? "" : results + " = ", node.target,
                            arguments_text(graph, node));
        code += node.outputs.empty() ? "\n" : fmt::format("  # {}\n", result_types(graph, node));
    }
    std::vector<std::string> returned;
    for (const GraphOutput &output : graph.outputs) {
        const std::string value = argument_text(graph, output.value);
        if (output.kind == GraphOutput::Kind::Mutation) {
            code += fmt::format("{}    self['{}'] = {}\n", margin, output.name, value);
        } else {
            returned.push_back(value);
        }
    }
    code += fmt::format("{}    return {}\n", margin, fmt::join(returned, ", "));
}

nlohmann::json type_json(const TensorType &type) {
    const auto list = [](const Sizes &sizes) {
        nlohmann::json result = nlohmann::json::array();
        for (const SymInt &size : sizes) {
            if (size.is_constant()) {
                result.push_back(size.value());
            } else {
                result.push_back(size.text());
            }
        }
        return result;
    };
    return {{"dtype", dtype_name(type.dtype)}, {"sizes", list(type.sizes)}, {"strides", list(type.strides)}};
}

nlohmann::json value_json(const Graph &graph, ValueId id) {
    if (!id) return nullptr;
    const Value &value = graph.value(id);
    if (value.kind == Value::Kind::Tensor) {
        nlohmann::json result = type_json(value.type);
        result["name"] = value.name;
        return result;
    }
    return {{"name", value.name}, {"number", value_type(graph, id)}};
}

}  // namespace

std::string columns(const std::vector<std::vector<std::string>> &rows) {
    std::vector<size_t> widths;
    for (const auto &row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (size_t i = 0; i < row.size(); i++) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (size_t r = 0; r < rows.size(); r++) {
        std::string line;
        for (size_t i = 0; i < rows[r].size(); i++) line += fmt::format("{:<{}}  ", rows[r][i], widths[i]);
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
        if (r == 0) {
            std::string rule;
            for (size_t width : widths) rule += std::string(width, '-') + "  ";
            rule.erase(rule.find_last_not_of(' ') + 1);
            text += rule + "\n";
        }
    }
    return text;
}

std::string type_text(const TensorType &type) {
    std::string result = fmt::format("{}{}", short_dtype_name(type.dtype), text(type.sizes));
    if (!is_dense(type)) result += fmt::format(" strides {}", text(type.strides));
    return result;
}

std::string argument_text(const Graph &graph, const Argument &argument) { return std::visit(ArgumentText{graph}, argument); }

std::string print_table(const Graph &graph) {
    std::vector<std::vector<std::string>> rows = {{"kind", "name", "target", "arguments", "type"}};
    for (const GraphInput &input : graph.inputs) {
        const std::string name = input.value ? graph.value(input.value).name : input.name;
        rows.push_back({std::string(kind_name(input)), name, input.name, input.value ? "" : argument_text(graph, input.fixed),
                        value_type(graph, input.value)});
    }
    for (const Node &node : graph.nodes) {
        rows.push_back(
            {"call", results_text(graph, node), node.target, arguments_text(graph, node), result_types(graph, node)});
    }
    for (const GraphOutput &output : graph.outputs) {
        const auto *id = std::get_if<ValueId>(&output.value);
        rows.push_back(
            {output_kind(output), output.name, "", argument_text(graph, output.value), id ? value_type(graph, *id) : ""});
    }
    return columns(rows);
}

std::string print_code(const Graph &graph) {
    std::string code;
    append_code(graph, "forward", 0, code);
    return code;
}

std::string print_operators(const Graph &graph) {
    std::map<std::string, int> counts;
    const std::function<void(const Graph &)> count = [&](const Graph &g) {
        for (const Node &node : g.nodes) {
            counts[node.target]++;
            for (const NamedArgument &argument : node.arguments) {
                if (const auto *subgraph = std::get_if<std::shared_ptr<Graph>>(&argument.value)) count(**subgraph);
            }
        }
    };
    count(graph);
    std::vector<std::pair<std::string, int>> sorted(counts.begin(), counts.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto &a, const auto &b) { return a.second > b.second; });
    std::vector<std::vector<std::string>> rows = {{"calls", "operator"}};
    int total = 0;
    for (const auto &[target, calls] : sorted) {
        rows.push_back({std::to_string(calls), target});
        total += calls;
    }
    return columns(rows) + fmt::format("{} calls of {} operators\n", total, sorted.size());
}

std::string print_parameters(const Graph &graph) {
    std::vector<std::vector<std::string>> rows = {{"kind", "name", "type", "bytes", "note"}};
    std::map<const Storage *, std::string> owners;
    int64_t total = 0;
    for (const GraphInput &input : graph.inputs) {
        if (input.kind == GraphInput::Kind::User || input.kind == GraphInput::Kind::Fixed) continue;
        std::string note = input.missing, bytes = "-";
        if (input.data) {
            bytes = std::to_string(input.data->elements() * element_bytes(input.data->dtype));
            const auto [owner, fresh] = owners.emplace(input.data->storage.get(), input.name);
            if (fresh) {
                total += input.data->storage->bytes;
            } else {
                note = "shares the data of " + owner->second;
            }
        }
        rows.push_back({std::string(kind_name(input)), input.name, value_type(graph, input.value), bytes, note});
    }
    return columns(rows) + fmt::format("{} bytes in {} storages\n", total, owners.size());
}

std::string print_symbols(const Graph &graph) {
    if (graph.symbols.empty()) return "All sizes are constant.\n";
    std::vector<std::vector<std::string>> rows = {{"symbol", "least", "most", "example", "is"}};
    for (const auto &[name, info] : graph.symbols) {
        std::vector<std::string> places;
        for (const GraphInput &input : graph.inputs) {
            if (input.kind != GraphInput::Kind::User || !input.value) continue;
            const Value &value = graph.value(input.value);
            for (size_t d = 0; value.kind == Value::Kind::Tensor && d < value.type.sizes.size(); d++) {
                if (value.type.sizes[d] == SymInt::symbol(name)) places.push_back(fmt::format("{}.size({})", input.name, d));
            }
            if (value.kind == Value::Kind::Int && value.symbolic == SymInt::symbol(name)) places.push_back(input.name);
        }
        rows.push_back({name, std::to_string(info.least), info.most ? std::to_string(*info.most) : "-",
                        info.hint ? std::to_string(*info.hint) : "-", fmt::format("{}", fmt::join(places, ", "))});
    }
    std::string text = columns(rows);
    for (const std::string &guard : graph.guards) text += fmt::format("guard: {}\n", guard);
    return text;
}

nlohmann::json graph_json(const Graph &graph) {
    nlohmann::json result = {{"name", graph.name},
                             {"inputs", nlohmann::json::array()},
                             {"nodes", nlohmann::json::array()},
                             {"outputs", nlohmann::json::array()}};
    for (const GraphInput &input : graph.inputs) {
        nlohmann::json entry = {{"kind", kind_name(input)}, {"name", input.name}, {"value", value_json(graph, input.value)}};
        if (!input.value) entry["fixed"] = argument_text(graph, input.fixed);
        if (input.data) entry["bytes"] = input.data->elements() * element_bytes(input.data->dtype);
        if (!input.missing.empty()) entry["missing"] = input.missing;
        result["inputs"].push_back(std::move(entry));
    }
    for (const Node &node : graph.nodes) {
        nlohmann::json arguments = nlohmann::json::array(), outputs = nlohmann::json::array();
        for (const NamedArgument &argument : node.arguments) {
            nlohmann::json entry = {{"name", argument.name}, {"value", argument_text(graph, argument.value)}};
            if (const auto *subgraph = std::get_if<std::shared_ptr<Graph>>(&argument.value))
                entry["graph"] = graph_json(**subgraph);
            arguments.push_back(std::move(entry));
        }
        for (ValueId output : node.outputs) outputs.push_back(value_json(graph, output));
        result["nodes"].push_back(
            {{"target", node.target}, {"arguments", arguments}, {"outputs", outputs}, {"module", node.module}});
    }
    for (const GraphOutput &output : graph.outputs) {
        result["outputs"].push_back(
            {{"kind", output_kind(output)}, {"name", output.name}, {"value", argument_text(graph, output.value)}});
    }
    if (!graph.symbols.empty()) {
        for (const auto &[name, info] : graph.symbols) {
            nlohmann::json &entry = result["symbols"][name];
            entry["least"] = info.least;
            if (info.most) entry["most"] = *info.most;
            if (info.hint) entry["example"] = *info.hint;
        }
    }
    if (!graph.guards.empty()) result["guards"] = graph.guards;
    return result;
}

nlohmann::json model_json(const ImportedModel &model) {
    nlohmann::json result = graph_json(model.graph);
    result["torch_version"] = model.torch_version;
    result["schema_version"] = model.schema_version;
    result["dialect"] = model.dialect;
    return result;
}

}  // namespace atalla
