#include "model/aten_call.h"

#include <nlohmann/json.hpp>

namespace atalla {

namespace {

nlohmann::json json_of(const Sizes &sizes) {
    nlohmann::json list = nlohmann::json::array();
    for (const SymInt &size : sizes) list.push_back(size.value());
    return list;
}

// What is not a tensor; null for None and for what has no JSON.
nlohmann::json json_of(const Argument &argument) {
    if (const auto *value = std::get_if<SymInt>(&argument)) return value->value();
    if (const auto *values = std::get_if<Sizes>(&argument)) return json_of(*values);
    if (const auto *value = std::get_if<double>(&argument)) return *value;
    if (const auto *values = std::get_if<std::vector<double>>(&argument)) return *values;
    if (const auto *value = std::get_if<bool>(&argument)) return *value;
    if (const auto *values = std::get_if<std::vector<bool>>(&argument)) return *values;
    if (const auto *value = std::get_if<std::string>(&argument)) return *value;
    if (const auto *value = std::get_if<DType>(&argument)) return std::string(dtype_name(*value));
    return nullptr;
}

}  // namespace

ElementType element_type(DType type) {
    switch (type) {
        case DType::Bool:
            return ElementType::Bool;
        case DType::UInt8:
            return ElementType::UInt8;
        case DType::Int8:
            return ElementType::Int8;
        case DType::Int16:
            return ElementType::Int16;
        case DType::Int32:
            return ElementType::Int32;
        case DType::Int64:
            return ElementType::Int64;
        case DType::Float16:
            return ElementType::Float16;
        case DType::BFloat16:
            return ElementType::BFloat16;
        case DType::Float32:
            return ElementType::Float32;
        case DType::Float64:
            return ElementType::Float64;
        default:
            return ElementType::Other;
    }
}

NodeCall aten_call(const Graph &graph, const Node &node) {
    NodeCall result;
    result.call.schema = node.target;
    for (const NamedArgument &argument : node.arguments) {
        AtenArgument given;
        given.name = argument.name;
        const auto add = [&](ValueId id) {
            if (!id || graph.value(id).kind != Value::Kind::Tensor) return;
            given.tensors.push_back({constant_sizes(graph.type(id).sizes), element_type(graph.type(id).dtype)});
            result.tensors.push_back(id);
        };
        if (const auto *id = std::get_if<ValueId>(&argument.value))
            add(*id);
        else if (const auto *ids = std::get_if<std::vector<ValueId>>(&argument.value))
            for (ValueId one : *ids) add(one);
        else
            given.value = json_of(argument.value);
        result.call.arguments.push_back(std::move(given));
    }
    return result;
}

}  // namespace atalla
