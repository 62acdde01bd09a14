#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>

#include "graph_import/emit.h"
#include "graph_import/print.h"

namespace atalla {

namespace {

std::string element_text(DType type) {
    switch (type) {
        case DType::Bool:
            return "i1";
        case DType::UInt8:
            return "ui8";
        case DType::UInt16:
            return "ui16";
        case DType::UInt32:
            return "ui32";
        case DType::UInt64:
            return "ui64";
        case DType::Complex32:
            return "complex<f16>";
        case DType::Complex64:
            return "complex<f32>";
        case DType::Complex128:
            return "complex<f64>";
        case DType::Float8E4M3FN:
            return "f8E4M3FN";
        case DType::Float8E5M2:
            return "f8E5M2";
        case DType::Float8E4M3FNUZ:
            return "f8E4M3FNUZ";
        case DType::Float8E5M2FNUZ:
            return "f8E5M2FNUZ";
        case DType::Float8E8M0FNU:
            return "ui8";  // LLVM 19 has no such type
        default:
            return std::string(short_dtype_name(type));
    }
}

std::string tensor_text(const TensorType &type) {
    std::string text = "tensor<";
    for (const SymInt &size : type.sizes) text += size.is_constant() ? size.text() + "x" : "?x";
    return text + element_text(type.dtype) + ">";
}

std::string float_text(double value) {
    if (std::isfinite(value)) return fmt::format("{:.17e} : f64", value);
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return fmt::format("0x{:016X} : f64", bits);
}

std::string string_text(const std::string &string) {
    std::string result = "\"";
    for (unsigned char c : string) {
        if (c == '"' || c == '\\' || c < 0x20 || c > 0x7e)
            result += fmt::format("\\{:02X}", c);
        else
            result += static_cast<char>(c);
    }
    return result + "\"";
}

// Element-wise operations of arith and math that take tensors of one type and give the same.
const std::map<std::string_view, std::string_view> float_unary = {
    {"aten::exp", "math.exp"},         {"aten::log", "math.log"},     {"aten::sqrt", "math.sqrt"},
    {"aten::rsqrt", "math.rsqrt"},     {"aten::tanh", "math.tanh"},   {"aten::erf", "math.erf"},
    {"aten::sin", "math.sin"},         {"aten::cos", "math.cos"},     {"aten::abs", "math.absf"},
    {"aten::floor", "math.floor"},     {"aten::ceil", "math.ceil"},   {"aten::trunc", "math.trunc"},
    {"aten::round", "math.roundeven"}, {"aten::neg", "arith.negf"},   {"aten::exp2", "math.exp2"},
    {"aten::log1p", "math.log1p"},     {"aten::expm1", "math.expm1"}, {"aten::log2", "math.log2"},
    {"aten::log10", "math.log10"},     {"aten::tan", "math.tan"}};
const std::map<std::string_view, std::pair<std::string_view, std::string_view>> binary = {  // of floats, of integers
    {"aten::add.Tensor", {"arith.addf", "arith.addi"}},   {"aten::sub.Tensor", {"arith.subf", "arith.subi"}},
    {"aten::mul.Tensor", {"arith.mulf", "arith.muli"}},   {"aten::div.Tensor", {"arith.divf", ""}},
    {"aten::maximum", {"arith.maximumf", "arith.maxsi"}}, {"aten::minimum", {"arith.minimumf", "arith.minsi"}},
    {"aten::bitwise_and.Tensor", {"", "arith.andi"}},     {"aten::__and__.Tensor", {"", "arith.andi"}},
    {"aten::bitwise_or.Tensor", {"", "arith.ori"}},       {"aten::bitwise_xor.Tensor", {"", "arith.xori"}}};

bool is_plain_float(DType type) {
    return type == DType::Float16 || type == DType::BFloat16 || type == DType::Float32 || type == DType::Float64;
}
bool is_signless(DType type) {
    return type == DType::Bool || type == DType::Int8 || type == DType::Int16 || type == DType::Int32 || type == DType::Int64;
}

class Writer {
public:
    std::string module(const Graph &graph) {
        text_ = "module {\n";
        std::vector<std::string> arguments, types;
        for (const GraphInput &input : graph.inputs) {
            if (!input.value) continue;
            arguments.push_back(fmt::format("{}: {} {{atalla.name = {}}}", name(graph, input.value), type(graph, input.value),
                                            string_text(input.name)));
        }
        std::vector<std::string> returned;
        for (const GraphOutput &output : graph.outputs) {
            for_each_value(output.value, [&](ValueId id) {
                returned.push_back(name(graph, id));
                types.push_back(fmt::format("{} {{atalla.name = {}}}", type(graph, id), string_text(output.name)));
            });
        }
        text_ +=
            fmt::format("  func.func @forward({}) -> ({}) {{\n", fmt::join(arguments, ",\n      "), fmt::join(types, ", "));
        body(graph, 2);
        std::vector<std::string> plain;
        for (const GraphOutput &output : graph.outputs) {
            for_each_value(output.value, [&](ValueId id) { plain.push_back(type(graph, id)); });
        }
        text_ += returned.empty() ? "    return\n"
                                  : fmt::format("    return {} : {}\n", fmt::join(returned, ", "), fmt::join(plain, ", "));
        return text_ + "  }\n}\n";
    }

private:
    std::string prefix_;
    std::string text_;
    int constants_ = 0;

    std::string name(const Graph &graph, ValueId id) const {
        std::string result = fmt::format("%{}", prefix_);
        for (char c : graph.value(id).name) result += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
        // Different names may come to the same letters.
        return fmt::format("{}_{}", result, id.index);
    }

    static std::string type(const Graph &graph, ValueId id) {
        const Value &value = graph.value(id);
        switch (value.kind) {
            case Value::Kind::Tensor:
                return tensor_text(value.type);
            case Value::Kind::Int:
                return "i64";
            case Value::Kind::Float:
                return "f64";
            case Value::Kind::Bool:
                return "i1";
        }
        return "none";
    }

    void line(int indent, const std::string &text) { text_ += fmt::format("{}{}\n", std::string(indent * 2, ' '), text); }

    void body(const Graph &graph, int indent) {
        for (const Node &node : graph.nodes) {
            if (!named(graph, node, indent)) generic(graph, node, indent);
        }
    }

    // A tensor of zeros or another constant of this type.
    std::string splat(const TensorType &type, const std::string &value, int indent) {
        const std::string id = fmt::format("%{}c{}", prefix_, constants_++);
        line(indent, fmt::format("{} = arith.constant dense<{}> : {}", id, value, tensor_text(type)));
        return id;
    }

    static const ValueId *tensor(const Node &node, std::string_view argument) {
        const Argument *found = node.find(argument);
        return found ? std::get_if<ValueId>(found) : nullptr;
    }

    bool named(const Graph &graph, const Node &node, int indent) {
        if (node.outputs.size() != 1 || !node.outputs[0] || graph.value(node.outputs[0]).kind != Value::Kind::Tensor)
            return false;
        const ValueId output = node.outputs[0];
        const TensorType &result = graph.type(output);
        const auto like_result = [&](const ValueId *id) {
            return id && *id && graph.type(*id).dtype == result.dtype && graph.type(*id).sizes == result.sizes;
        };
        const auto emit = [&](const std::string &operation) {
            line(indent, fmt::format("{} = {}", name(graph, output), operation));
            return true;
        };
        const ValueId *self = tensor(node, "self");
        const bool floats = is_plain_float(result.dtype), integers = is_signless(result.dtype);
        if (const auto found = float_unary.find(node.target); found != float_unary.end() && floats && like_result(self)) {
            return emit(fmt::format("{} {} : {}", found->second, name(graph, *self), tensor_text(result)));
        }
        if (const auto found = binary.find(node.target); found != binary.end()) {
            const ValueId *other = tensor(node, "other");
            const std::string_view operation = floats ? found->second.first : integers ? found->second.second : "";
            const bool scaled = node.find("alpha") && !(*node.find("alpha") == Argument(SymInt(1)));
            if (operation.empty() || scaled || !like_result(self) || !like_result(other)) return false;
            return emit(fmt::format("{} {}, {} : {}", operation, name(graph, *self), name(graph, *other), tensor_text(result)));
        }
        if (!is_constant(result.sizes)) return false;
        if (node.target == "aten::relu" && floats && like_result(self)) {
            const std::string zero = splat(result, "0.0", indent);
            return emit(fmt::format("arith.maximumf {}, {} : {}", name(graph, *self), zero, tensor_text(result)));
        }
        if (node.target == "aten::permute" && self && is_constant(graph.type(*self).sizes))
            return transpose(graph, node, *self, indent);
        if (node.target == "aten::view" && self && is_constant(graph.type(*self).sizes) && !result.sizes.empty()) {
            const std::string shape = fmt::format("%{}c{}", prefix_, constants_++);
            std::vector<std::string> sizes;
            for (const SymInt &size : result.sizes) sizes.push_back(size.text());
            line(indent, fmt::format("{} = arith.constant dense<[{}]> : tensor<{}xindex>", shape, fmt::join(sizes, ", "),
                                     sizes.size()));
            return emit(fmt::format("tensor.reshape {}({}) : ({}, tensor<{}xindex>) -> {}", name(graph, *self), shape,
                                    tensor_text(graph.type(*self)), sizes.size(), tensor_text(result)));
        }
        return floats && product(graph, node, indent);
    }

    bool transpose(const Graph &graph, const Node &node, ValueId self, int indent) {
        std::vector<int64_t> dims = node.integers("dims");
        for (int64_t &d : dims) d += d < 0 ? static_cast<int64_t>(dims.size()) : 0;
        const TensorType &result = graph.type(node.outputs[0]);
        const std::string empty = fmt::format("%{}c{}", prefix_, constants_++);
        line(indent, fmt::format("{} = tensor.empty() : {}", empty, tensor_text(result)));
        line(indent,
             fmt::format("{} = linalg.transpose ins({} : {}) outs({} : {}) permutation = [{}]", name(graph, node.outputs[0]),
                         name(graph, self), tensor_text(graph.type(self)), empty, tensor_text(result), fmt::join(dims, ", ")));
        return true;
    }

    // Matrix products whose operands have the result's element type.
    bool product(const Graph &graph, const Node &node, int indent) {
        const TensorType &result = graph.type(node.outputs[0]);
        const ValueId *a = tensor(node, node.target == "aten::linear" ? "input" : "self");
        const ValueId *b = tensor(node, node.target == "aten::linear"   ? "weight"
                                        : node.target == "aten::matmul" ? "other"
                                                                        : "mat2");
        if (!a || !b || graph.type(*a).dtype != result.dtype || graph.type(*b).dtype != result.dtype) return false;
        const size_t rank = graph.type(*a).sizes.size();
        if (rank != graph.type(*b).sizes.size() || !is_constant(graph.type(*a).sizes) || !is_constant(graph.type(*b).sizes))
            return false;
        std::string operation;
        if (node.target == "aten::linear" && rank == 2 && node.is_none("bias")) operation = "linalg.matmul_transpose_b";
        if ((node.target == "aten::mm" || node.target == "aten::matmul") && rank == 2) operation = "linalg.matmul";
        if ((node.target == "aten::bmm" || node.target == "aten::matmul") && rank == 3 &&
            graph.type(*a).sizes[0] == graph.type(*b).sizes[0]) {
            operation = "linalg.batch_matmul";
        }
        if (operation.empty()) return false;
        const std::string zero = splat(result, "0.0", indent);
        line(indent, fmt::format("{} = {} ins({}, {} : {}, {}) outs({} : {}) -> {}", name(graph, node.outputs[0]), operation,
                                 name(graph, *a), name(graph, *b), tensor_text(graph.type(*a)), tensor_text(graph.type(*b)),
                                 zero, tensor_text(result), tensor_text(result)));
        return true;
    }

    // Values are operands, in order; what is no value is an attribute; a list of tensors leaves its length as one.
    void generic(const Graph &graph, const Node &node, int indent) {
        std::vector<std::string> operands, types, attributes, results, result_types;
        std::vector<const Graph *> regions;
        const auto attribute = [&](const std::string &argument, const std::string &value) {
            attributes.push_back(fmt::format(
                "{} = {}", string_text(argument.empty() ? fmt::format("argument{}", attributes.size()) : argument), value));
        };
        for (const NamedArgument &argument : node.arguments) {
            if (const auto *subgraph = std::get_if<std::shared_ptr<Graph>>(&argument.value)) {
                regions.push_back(subgraph->get());
            } else if (const auto *ids = std::get_if<std::vector<ValueId>>(&argument.value)) {
                std::vector<int64_t> present;
                for (ValueId id : *ids) present.push_back(id ? 1 : 0);
                attribute(argument.name,
                          present.empty() ? "array<i64>" : fmt::format("array<i64: {}>", fmt::join(present, ", ")));
            } else if (!std::holds_alternative<ValueId>(argument.value) &&
                       !std::holds_alternative<std::monostate>(argument.value)) {
                attribute(argument.name, attribute_text(graph, argument.value));
            }
            for_each_value(argument.value, [&](ValueId id) {
                operands.push_back(name(graph, id));
                types.push_back(type(graph, id));
            });
        }
        for (ValueId output : node.outputs) {
            if (!output) continue;
            results.push_back(name(graph, output));
            result_types.push_back(type(graph, output));
        }
        std::string target = node.target;
        if (const size_t colons = target.find("::"); colons != target.npos) target.replace(colons, 2, ".");
        if (target[0] == '_') target = "python." + target.substr(1);
        text_ += fmt::format("{}{}\"{}\"({})", std::string(indent * 2, ' '),
                             results.empty() ? "" : fmt::format("{} = ", fmt::join(results, ", ")), target,
                             fmt::join(operands, ", "));
        if (!regions.empty()) {
            text_ += " (";
            for (size_t i = 0; i < regions.size(); i++) {
                text_ += i ? ", " : "";
                region(*regions[i], indent);
            }
            text_ += ")";
        }
        if (!attributes.empty()) text_ += fmt::format(" {{{}}}", fmt::join(attributes, ", "));
        text_ += fmt::format(" : ({}) -> ({})\n", fmt::join(types, ", "), fmt::join(result_types, ", "));
    }

    void region(const Graph &graph, int indent) {
        const std::string outer = prefix_;
        prefix_ += fmt::format("r{}_", constants_++);
        std::vector<std::string> arguments, returned, types;
        for (const GraphInput &input : graph.inputs) {
            if (input.value) arguments.push_back(fmt::format("{}: {}", name(graph, input.value), type(graph, input.value)));
        }
        text_ += "{\n";
        line(indent, fmt::format("^bb0({}):", fmt::join(arguments, ", ")));
        body(graph, indent + 1);
        for (const GraphOutput &output : graph.outputs) {
            for_each_value(output.value, [&](ValueId id) {
                returned.push_back(name(graph, id));
                types.push_back(type(graph, id));
            });
        }
        line(indent + 1,
             fmt::format("\"higher_order.yield\"({}) : ({}) -> ()", fmt::join(returned, ", "), fmt::join(types, ", ")));
        text_ += std::string(indent * 2, ' ') + "}";
        prefix_ = outer;
    }

    static std::string attribute_text(const Graph &graph, const Argument &argument) {
        if (const auto *size = std::get_if<SymInt>(&argument); size && size->is_constant())
            return fmt::format("{} : i64", size->value());
        if (const auto *sizes = std::get_if<Sizes>(&argument); sizes && is_constant(*sizes)) {
            return sizes->empty() ? "array<i64>" : fmt::format("array<i64: {}>", fmt::join(constant_sizes(*sizes), ", "));
        }
        if (const auto *number = std::get_if<double>(&argument)) return float_text(*number);
        if (const auto *flag = std::get_if<bool>(&argument)) return *flag ? "true" : "false";
        if (const auto *dtype = std::get_if<DType>(&argument)) return element_text(*dtype);
        if (const auto *string = std::get_if<std::string>(&argument)) return string_text(*string);
        return string_text(argument_text(graph, argument));
    }
};

}  // namespace

std::string emit_mlir(const Graph &graph) { return Writer().module(graph); }

}  // namespace atalla
