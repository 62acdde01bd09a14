#include "generators/registry.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "generators/attention_operator.h"
#include "generators/batch_norm.h"
#include "generators/convolution_operator.h"
#include "generators/depthwise_places.h"
#include "generators/gemm_operator.h"
#include "generators/group_norm.h"
#include "generators/matmul_operators.h"
#include "generators/movement.h"
#include "generators/pointwise_operators.h"
#include "generators/pool_operators.h"
#include "generators/reduce_operators.h"
#include "generators/row_operators.h"
#include "isa/error.h"

namespace atalla {

namespace {

bool has_schema(const Operator &op, const std::string &schema) {
    const std::vector<std::string> schemas = op.schemas();
    return std::find(schemas.begin(), schemas.end(), schema) != schemas.end();
}

}  // namespace

const std::vector<const Operator *> &operators() {
    static const std::vector<const Operator *> all = [] {
        std::vector<const Operator *> list = {&gemm_operator()};
        for (const Operator *one : declared(matmul_operators())) list.push_back(one);
        for (const auto &rows : {attention_operators(), convolution_operators(), depthwise_operators()})
            for (const Operator *one : declared(rows)) list.push_back(one);
        for (const auto &rows : {row_operators(), group_norm_operators(), batch_norm_operators()})
            for (const Operator *one : declared(rows)) list.push_back(one);
        for (const Operator *one : declared(reduce_operators())) list.push_back(one);
        for (const Operator *one : declared(pool_operators())) list.push_back(one);
        for (const Operator *one : pointwise_operators()) list.push_back(one);
        for (const Operator *one : declared(movement_operators())) list.push_back(one);
        return list;
    }();
    return all;
}

std::string plain_schema(std::string_view schema) {
    if (schema.starts_with("aten::")) schema.remove_prefix(6);
    if (schema.starts_with("aten.")) schema.remove_prefix(5);
    if (schema.ends_with(".default")) schema.remove_suffix(8);
    return std::string(schema);
}

const OperatorDecision *find_decision(std::string_view schema) {
    const auto found = std::ranges::find(operator_decisions(), schema, &OperatorDecision::schema);
    return found == operator_decisions().end() ? nullptr : &*found;
}

namespace {

// That on an overload, or on the first overload of an operator named without one ("to", "split").
const OperatorDecision *find_decision_by_name(std::string_view name) {
    if (const OperatorDecision *decided = find_decision(name)) return decided;
    const auto found = std::ranges::find(operator_decisions(), name, [](const OperatorDecision &one) {
        return std::string_view(one.schema).substr(0, one.schema.find('.'));
    });
    return found == operator_decisions().end() ? nullptr : &*found;
}

std::string_view where_decided(Resolution::Place place) {
    switch (place) {
        case Resolution::View:
            return "it is a view, which costs nothing";
        case Resolution::Host:
            return "it runs on the host";
        case Resolution::Folded:
            return "it is computed when a graph is compiled";
        default:
            return "nothing runs for it";
    }
}

}  // namespace

const Operator &find_operator(std::string_view name) {
    if (name.find('(') != std::string_view::npos) return expression_operator(name);
    std::vector<std::string> names, known;
    for (const Operator *one : operators()) {
        if (one->name() == name) return *one;
        names.push_back(one->name());
        known.push_back(one->name());
        for (const std::string &schema : one->schemas()) known.push_back(fmt::format("aten::{}", schema));
    }
    for (const Operator *one : operators())
        if (has_schema(*one, plain_schema(name))) return *one;
    if (const OperatorDecision *decided = find_decision_by_name(plain_schema(name)))
        throw Error(fmt::format("operator '{}' has no kernel to tune or run: {} ({}); ./atalla ops lists all {} that have",
                                name, where_decided(decided->place), decided->reason, names.size()));
    const std::string nearest = nearest_name(name, known);
    throw Error(fmt::format("unknown operator '{}'{} ./atalla ops lists all {}", name,
                            nearest.empty() ? ";" : fmt::format("; did you mean '{}'?", nearest), names.size()));
}

bool takes_argument(const Operator &op, std::string_view name) {
    return std::ranges::any_of(op.arguments(), [&](const WorkloadArgument &argument) { return argument.name == name; });
}

std::string example_line(const Operator &op) {
    WorkloadArguments example = op.example();
    std::string line = fmt::format("--op {} --shape {}", op.name(), example.at("shape"));
    example.erase("shape");
    const std::vector<WorkloadArgument> arguments = op.arguments();
    for (const auto &[name, value] : example) {
        const bool flag = std::any_of(arguments.begin(), arguments.end(),
                                      [&, &name = name](const WorkloadArgument &one) { return one.name == name && one.flag; });
        line += flag ? fmt::format(" --{}", name) : fmt::format(" --{} {}", name, value);
    }
    return line;
}

Resolution resolve(const AtenCall &call) {
    const std::string schema = plain_schema(call.schema);
    Resolution refused;
    // Several operators may share a schema, each for some of its forms.
    for (const Operator *one : operators()) {
        if (!has_schema(*one, schema)) continue;
        Resolution found = one->resolve(call);
        if (found.place == Resolution::Accelerator) return found;
        if (!refused.reason.empty()) refused.reason += "; ";
        refused.reason += found.reason;
    }
    if (const OperatorDecision *decided = find_decision(schema)) {
        Resolution found;
        found.place = decided->place;
        found.reason = refused.reason.empty() ? decided->reason : refused.reason + "; " + decided->reason;
        return found;
    }
    if (refused.reason.empty()) refused.reason = fmt::format("no operator has the schema '{}'", schema);
    return refused;
}

bool is_floating(ElementType type) {
    return type == ElementType::BFloat16 || type == ElementType::Float16 || type == ElementType::Float32 ||
           type == ElementType::Float64;
}

const char *element_type_name(ElementType type) {
    constexpr std::array names = {"bool",    "uint8",    "int8",    "int16",   "int32", "int64",
                                  "float16", "bfloat16", "float32", "float64", "other"};
    return names.at(static_cast<size_t>(type));
}

const char *place_name(Resolution::Place place) {
    constexpr std::array names = {"accelerator", "view", "host", "folded", "dropped", "unsupported"};
    return names.at(static_cast<size_t>(place));
}

}  // namespace atalla
