#include "generators/declared_call.h"

#include <algorithm>

#include <fmt/format.h>

#include "generators/number_words.h"
#include "isa/error.h"

namespace atalla {

namespace {

nlohmann::json attribute_value(const Attribute &attribute, const std::string &text) {
    if (attribute.fallback.is_string()) return text;
    nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
    if (value.is_discarded()) value = number_of_word(text);
    if (value.is_string()) throw Error(fmt::format("{} must be a number, not '{}'", attribute.name, text));
    if (attribute.fallback.is_array() && value.is_number()) return nlohmann::json::array({value});
    return attribute.fallback.is_number_float() && value.is_number() ? nlohmann::json(value.get<double>()) : value;
}

}  // namespace

Given given(const OperatorDeclaration &op, const ExpressionNode &call) {
    const auto most = static_cast<size_t>(std::ranges::count(op.tensors, false, &DeclaredTensor::several)),
               least = static_cast<size_t>(std::ranges::count_if(op.tensors, &DeclaredTensor::required));
    if (call.arguments.size() < least || call.arguments.size() > most)
        throw Error(fmt::format("{} takes {} tensors, not {}", call.name,
                                least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most),
                                call.arguments.size()));
    Given list;
    for (size_t i = 0; i < call.arguments.size(); i++) list.emplace_back(&op.tensors[i], &call.arguments[i]);
    return list;
}

WorkloadRequest call_request(const OperatorDeclaration &op, const ExpressionNode &call, const std::vector<Shape> &shapes) {
    WorkloadRequest made;
    made.op = op.name;
    for (const auto &[tensor, argument] : given(op, call)) made.tensors.push_back({tensor->name, shapes[made.tensors.size()]});
    made.attributes = nlohmann::json::object();
    for (const Attribute &attribute : op.attributes) made.attributes[attribute.name] = attribute.fallback;
    for (const auto &[name, text] : call.keywords) {
        const auto found = std::ranges::find(op.attributes, name, &Attribute::name);
        if (found == op.attributes.end()) throw Error(fmt::format("{} has no argument '{}'", made.op, name));
        made.attributes[name] = attribute_value(*found, text);
    }
    return made;
}

}  // namespace atalla
