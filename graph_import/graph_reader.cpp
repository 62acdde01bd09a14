#include "graph_import/graph_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph_import/schema.h"
#include "isa/error.h"

namespace atalla {

namespace {

constexpr int64_t strided_layout = 7;
constexpr int deepest_graph = 16;
constexpr size_t most_dimensions = 64;

std::string memory_format_name(int64_t number) {
    switch (number) {
        case 1:
            return "contiguous_format";
        case 2:
            return "channels_last";
        case 3:
            return "channels_last_3d";
        case 4:
            return "preserve_format";
        default:
            return fmt::format("memory format {}", number);
    }
}

// "L__self__,,pkg.Bert;L__self__layer_0,layer.0,pkg.Layer": path and type of the innermost.
void read_module(Node &node, const std::string &stack) {
    const size_t start = stack.rfind(';') == stack.npos ? 0 : stack.rfind(';') + 1;
    const size_t first = stack.find(',', start);
    const size_t second = first == stack.npos ? first : stack.find(',', first + 1);
    if (second == stack.npos) return;
    node.module = stack.substr(first + 1, second - first - 1);
    node.module_type = stack.substr(second + 1);
}

// The arguments in the schema's order, with its defaults where none is given.
void fill_defaults(Node &node) {
    const Schema *schema = find_schema(node.target);
    if (!schema) return;
    std::vector<NamedArgument> ordered;
    for (const SchemaArgument &argument : schema->arguments) {
        const auto given = std::find_if(node.arguments.begin(), node.arguments.end(),
                                        [&](const NamedArgument &candidate) { return candidate.name == argument.name; });
        if (given != node.arguments.end()) {
            ordered.push_back(std::move(*given));
            node.arguments.erase(given);
        } else if (argument.otherwise) {
            ordered.push_back({argument.name, *argument.otherwise});
        }
    }
    // What the schema does not have, a newer PyTorch's argument, is kept: whoever takes the operator can refuse it.
    for (NamedArgument &argument : node.arguments) ordered.push_back(std::move(argument));
    node.arguments = std::move(ordered);
}

}  // namespace

std::string target_of(const std::string &written) {
    constexpr std::string_view operators = "torch.ops.";
    if (!written.starts_with(operators)) return written;
    std::string rest = written.substr(operators.size());
    const size_t dot = rest.find('.');
    if (dot == rest.npos) return written;
    rest.replace(dot, 1, "::");
    constexpr std::string_view overload = ".default";
    if (rest.ends_with(overload)) rest.resize(rest.size() - overload.size());
    return rest;
}

GraphReader::GraphReader(const JsonView &json, Graph &graph, SymbolHints &hints, int depth)
    : json_(json), graph_(graph), hints_(hints), depth_(depth) {
    if (depth > deepest_graph) json.fail("graphs are nested more than 16 deep");
}

ValueId GraphReader::define(const JsonView &name, Value value) {
    value.name = name.string();
    if (value.name.empty()) name.fail("a name is expected");
    const ValueId id{static_cast<int32_t>(graph_.values.size())};
    if (!values_.emplace(value.name, id).second) name.fail(fmt::format("{} is defined twice", value.name));
    graph_.values.push_back(std::move(value));
    return id;
}

ValueId GraphReader::define_tensor(const JsonView &name) {
    Value value;
    value.type = read_type(name.string());
    return define(name, std::move(value));
}

ValueId GraphReader::define_integer(const JsonView &name) {
    Value value;
    value.kind = Value::Kind::Int;
    const JsonView known = json_["sym_int_values"];
    value.symbolic = read_size(known[name.string()]);
    return define(name, std::move(value));
}

ValueId GraphReader::lookup(const JsonView &name) const {
    const auto found = values_.find(name.string());
    if (found == values_.end()) name.fail(fmt::format("{} is used before it is defined", name.string()));
    return found->second;
}

TensorType GraphReader::read_type(const std::string &name) {
    const JsonView values = json_["tensor_values"];
    const JsonView meta = values[name];
    TensorType type;
    const JsonView dtype = meta["dtype"];
    try {
        type.dtype = dtype_of_number(dtype.integer());
    } catch (const Error &error) {
        dtype.fail(error.what());
    }
    if (meta["layout"].integer() != strided_layout) meta.fail("a sparse tensor; only dense ones are supported");
    meta["sizes"].each([&](const JsonView &size) { type.sizes.push_back(read_size(size)); });
    meta["strides"].each([&](const JsonView &stride) { type.strides.push_back(read_size(stride)); });
    if (type.sizes.size() != type.strides.size()) meta.fail("as many strides as sizes are expected");
    if (type.sizes.size() > most_dimensions) meta.fail("more than 64 dimensions");
    for (const SymInt &size : type.sizes) {
        if (size.is_constant() && size.value() < 0) meta.fail(fmt::format("a size is {}", size.value()));
    }
    if (meta.has("storage_offset")) type.offset = read_size(meta["storage_offset"]);
    return type;
}

SymInt GraphReader::read_size(const JsonView &json) {
    const auto [tag, value] = json.only_field();
    if (tag == "as_int") return value.integer();
    if (tag == "as_bool") return value.boolean() ? 1 : 0;
    if (tag != "as_expr") json.fail("a size is expected");
    const JsonView text = value["expr_str"];
    SymInt size = 0;
    try {
        size = parse_symbolic(text.string());
    } catch (const Error &error) {
        text.fail(error.what());
    }
    std::optional<int64_t> hint;
    if (value.has("hint")) {
        const JsonView hint_json = value["hint"];
        const auto [kind, number] = hint_json.only_field();
        if (kind == "as_int") hint = number.integer();
    }
    std::set<std::string> names;
    size.collect_symbols(names);
    for (const std::string &name : names) hints_.try_emplace(name);
    if (size.op() == SymInt::Op::Symbol && hint) hints_[size.name()] = hint;
    return size;
}

// {"as_name": n} or {"as_int": k}.
SymInt GraphReader::symbolic_integer(const JsonView &json) {
    const auto [tag, value] = json.only_field();
    if (tag == "as_int") return value.integer();
    if (tag != "as_name") json.fail("the name of an integer, or one, is expected");
    const JsonView known = json_["sym_int_values"];
    return read_size(known[value.string()]);
}

Argument GraphReader::read_symbolic_number(const std::string &tag, const JsonView &json) {
    const auto [kind, value] = json.only_field();
    if (kind == "as_name") return lookup(value);
    if (kind == "as_float") return value.number();
    if (kind == "as_bool") return value.boolean();
    json.fail(fmt::format("{} is expected to hold a name or a number", tag));
}

std::vector<ValueId> GraphReader::read_tensors(const JsonView &json) {
    std::vector<ValueId> ids;
    json.each([&](const JsonView &element) {
        if (element.has("name")) {
            ids.push_back(lookup(element["name"]));
            return;
        }
        const auto [tag, value] = element.only_field();
        ids.push_back(tag == "as_none" ? ValueId{} : lookup(value["name"]));
    });
    return ids;
}

std::shared_ptr<Graph> GraphReader::read_subgraph(const JsonView &json) {
    auto subgraph = std::make_shared<Graph>();
    subgraph->name = json["name"].string();
    const JsonView body = json["graph"];
    GraphReader reader(body, *subgraph, hints_, depth_ + 1);
    body["inputs"].each([&](const JsonView &argument) {
        const auto [tag, value] = argument.only_field();
        GraphInput input;
        if (tag == "as_tensor") {
            const JsonView name = value["name"];
            input.value = reader.define_tensor(name);
            input.name = name.string();
        } else if (tag == "as_sym_int" && value.has("as_name")) {
            const JsonView name = value["as_name"];
            input.value = reader.define_integer(name);
            input.name = name.string();
        } else {
            input.kind = GraphInput::Kind::Fixed;
            input.fixed = reader.read_argument(argument);
        }
        subgraph->inputs.push_back(std::move(input));
    });
    reader.read_nodes();
    body["outputs"].each([&](const JsonView &argument) {
        GraphOutput output;
        output.value = reader.read_argument(argument);
        output.name = std::to_string(subgraph->outputs.size());
        subgraph->outputs.push_back(std::move(output));
    });
    subgraph->renumber();
    return subgraph;
}

Argument GraphReader::read_argument(const JsonView &json) {
    // Not a structured binding: lambdas below use it.
    const auto field = json.only_field();
    const std::string &tag = field.first;
    const JsonView &value = field.second;
    const auto numbers = [&value] {
        std::vector<double> result;
        value.each([&](const JsonView &number) { result.push_back(number.number()); });
        return result;
    };
    if (tag == "as_none") return std::monostate{};
    if (tag == "as_tensor") return lookup(value["name"]);
    if (tag == "as_tensors" || tag == "as_optional_tensors") return read_tensors(value);
    if (tag == "as_optional_tensor") {
        const auto [kind, inner] = value.only_field();
        if (kind == "as_none") return std::monostate{};
        return lookup(inner["name"]);
    }
    if (tag == "as_int") return SymInt(value.integer());
    if (tag == "as_ints") {
        Sizes integers;
        value.each([&](const JsonView &integer) { integers.emplace_back(integer.integer()); });
        return integers;
    }
    if (tag == "as_float") return value.number();
    if (tag == "as_floats") return numbers();
    if (tag == "as_bool") return value.boolean();
    if (tag == "as_bools") {
        std::vector<bool> flags;
        value.each([&](const JsonView &flag) { flags.push_back(flag.boolean()); });
        return flags;
    }
    if (tag == "as_string") return value.string();
    if (tag == "as_complex") return Complex{value["real"].number(), value["imag"].number()};
    if (tag == "as_sym_int") return symbolic_integer(value);
    if (tag == "as_sym_ints") {
        Sizes integers;
        value.each([&](const JsonView &integer) { integers.push_back(symbolic_integer(integer)); });
        return integers;
    }
    if (tag == "as_sym_float" || tag == "as_sym_bool") return read_symbolic_number(tag, value);
    if (tag == "as_scalar_type") {
        try {
            return dtype_of_number(value.integer());
        } catch (const Error &error) {
            return Unreadable{error.what()};
        }
    }
    if (tag == "as_layout") {
        if (value.integer() == strided_layout) return std::string("strided");
        return Unreadable{fmt::format("sparse layout {}", value.integer())};
    }
    if (tag == "as_memory_format") return memory_format_name(value.integer());
    if (tag == "as_device") return value["type"].string();
    if (tag == "as_graph") return read_subgraph(value);
    return Unreadable{fmt::format("of kind {}", tag)};
}

void GraphReader::read_nodes() {
    json_["nodes"].each([&](const JsonView &node) { read_node(node); });
}

void GraphReader::read_node(const JsonView &json) {
    Node node;
    node.target = target_of(json["target"].string());
    if (node.target.empty()) json["target"].fail("the name of an operator is expected");
    if (json.has("metadata")) {
        const JsonView metadata = json["metadata"];
        if (metadata.has("nn_module_stack")) read_module(node, metadata["nn_module_stack"].string());
    }
    json["inputs"].each([&](const JsonView &input) {
        node.arguments.push_back({input["name"].string(), read_argument(input["arg"])});
    });
    fill_defaults(node);
    json["outputs"].each([&](const JsonView &output) { read_result(node, output); });
    graph_.nodes.push_back(std::move(node));
}

void GraphReader::read_result(Node &node, const JsonView &json) {
    // Not a structured binding: lambdas below use it.
    const auto field = json.only_field();
    const std::string &tag = field.first;
    const JsonView &value = field.second;
    const auto number = [&](Value::Kind kind) {
        Value result;
        result.kind = kind;
        node.outputs.push_back(define(value["as_name"], std::move(result)));
    };
    if (tag == "as_tensor") {
        node.outputs.push_back(define_tensor(value["name"]));
    } else if (tag == "as_tensors") {
        value.each([&](const JsonView &element) { node.outputs.push_back(define_tensor(element["name"])); });
    } else if (tag == "as_none") {
        node.outputs.push_back(ValueId{});
    } else if (tag == "as_sym_int") {
        node.outputs.push_back(define_integer(value["as_name"]));
    } else if (tag == "as_sym_float") {
        number(Value::Kind::Float);
    } else if (tag == "as_sym_bool") {
        number(Value::Kind::Bool);
    } else {
        json.fail(fmt::format("a result of kind {} is not supported", tag));
    }
}

}  // namespace atalla
