// How a node's arguments are read.
#include <fmt/format.h>

#include <cmath>

#include "graph_import/graph.h"
#include "isa/error.h"

namespace atalla {

namespace {

[[noreturn]] void wrong(const Node &node, std::string_view name, std::string_view wanted) {
    const Argument *argument = node.find(name);
    if (!argument) throw Error(fmt::format("{}: argument {} is missing", node.target, name));
    if (const auto *unreadable = std::get_if<Unreadable>(argument)) {
        throw Error(fmt::format("{}: argument {} is {}, which is not supported", node.target, name, unreadable->what));
    }
    throw Error(fmt::format("{}: argument {} is not {}", node.target, name, wanted));
}

// Absent and None alike give null.
const Argument *given(const Node &node, std::string_view name) {
    const Argument *argument = node.find(name);
    return argument && !std::holds_alternative<std::monostate>(*argument) ? argument : nullptr;
}

}  // namespace

const Argument *Node::find(std::string_view name) const {
    for (const NamedArgument &argument : arguments) {
        if (argument.name == name) return &argument.value;
    }
    return nullptr;
}

bool Node::is_none(std::string_view name) const { return given(*this, name) == nullptr; }

ValueId Node::tensor(std::string_view name) const {
    const Argument *argument = find(name);
    if (const auto *id = argument ? std::get_if<ValueId>(argument) : nullptr) return *id;
    wrong(*this, name, "a tensor");
}

ValueId Node::optional_tensor(std::string_view name) const { return is_none(name) ? ValueId{} : tensor(name); }

std::vector<ValueId> Node::tensors(std::string_view name) const {
    const Argument *argument = find(name);
    if (const auto *ids = argument ? std::get_if<std::vector<ValueId>>(argument) : nullptr) return *ids;
    const auto *empty = argument ? std::get_if<Sizes>(argument) : nullptr;
    if (empty && empty->empty()) return {};
    wrong(*this, name, "a list of tensors");
}

std::optional<int64_t> Node::optional_integer(std::string_view name) const {
    const Argument *argument = given(*this, name);
    if (!argument) return std::nullopt;
    if (const auto *integer = std::get_if<SymInt>(argument)) {
        if (!integer->is_constant()) {
            throw Error(fmt::format("{}: argument {} is {}, not a constant", target, name, integer->text()));
        }
        return integer->value();
    }
    if (const auto *flag = std::get_if<bool>(argument)) return *flag;
    if (const auto *number = std::get_if<double>(argument);
        number && *number == std::floor(*number) && std::fabs(*number) < 1e15) {
        return static_cast<int64_t>(*number);
    }
    wrong(*this, name, "an integer");
}

int64_t Node::integer(std::string_view name) const {
    const auto result = optional_integer(name);
    if (!result) wrong(*this, name, "an integer");
    return *result;
}

Sizes Node::sizes(std::string_view name) const {
    const Argument *argument = find(name);
    if (argument) {
        if (const auto *sizes = std::get_if<Sizes>(argument)) return *sizes;
        if (const auto *size = std::get_if<SymInt>(argument)) return {*size};
        if (std::holds_alternative<std::monostate>(*argument)) return {};
    }
    wrong(*this, name, "a list of integers");
}

std::vector<int64_t> Node::integers(std::string_view name) const {
    std::vector<int64_t> result;
    for (const SymInt &size : sizes(name)) {
        if (!size.is_constant())
            throw Error(fmt::format("{}: argument {} holds {}, not a constant", target, name, size.text()));
        result.push_back(size.value());
    }
    return result;
}

std::optional<double> Node::optional_number(std::string_view name) const {
    const Argument *argument = given(*this, name);
    if (!argument) return std::nullopt;
    if (const auto *number = std::get_if<double>(argument)) return *number;
    if (std::holds_alternative<SymInt>(*argument) || std::holds_alternative<bool>(*argument)) {
        return static_cast<double>(integer(name));
    }
    wrong(*this, name, "a number");
}

double Node::number(std::string_view name) const {
    const auto result = optional_number(name);
    if (!result) wrong(*this, name, "a number");
    return *result;
}

bool Node::flag(std::string_view name) const {
    const Argument *argument = find(name);
    if (const auto *flag = argument ? std::get_if<bool>(argument) : nullptr) return *flag;
    const auto *integer = argument ? std::get_if<SymInt>(argument) : nullptr;
    if (integer && integer->is_constant()) return integer->value() != 0;
    wrong(*this, name, "true or false");
}

std::string Node::string(std::string_view name) const {
    const Argument *argument = find(name);
    if (const auto *string = argument ? std::get_if<std::string>(argument) : nullptr) return *string;
    wrong(*this, name, "a string");
}

std::optional<DType> Node::optional_dtype(std::string_view name) const {
    const Argument *argument = given(*this, name);
    if (!argument) return std::nullopt;
    if (const auto *type = std::get_if<DType>(argument)) return *type;
    wrong(*this, name, "an element type");
}

}  // namespace atalla
