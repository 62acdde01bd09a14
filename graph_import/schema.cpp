#include "graph_import/schema.h"

#include <fmt/format.h>

#include <cstdlib>
#include <mutex>
#include <unordered_map>

#include "isa/error.h"

namespace atalla {

extern const char aten_schemas[];

namespace {

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
}

// Splits at commas outside brackets and quotes.
std::vector<std::string_view> split(std::string_view text) {
    std::vector<std::string_view> parts;
    int depth = 0;
    bool quoted = false;
    size_t start = 0;
    for (size_t i = 0; i < text.size(); i++) {
        if (text[i] == '"') quoted = !quoted;
        if (quoted) continue;
        if (text[i] == '[' || text[i] == '(') depth++;
        if (text[i] == ']' || text[i] == ')') depth--;
        if (text[i] == ',' && depth == 0) {
            parts.push_back(trimmed(text.substr(start, i - start)));
            start = i + 1;
        }
    }
    if (!trimmed(text.substr(start)).empty()) parts.push_back(trimmed(text.substr(start)));
    return parts;
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// A default as the schemas write it: None, True, 1, 1., "none", [0, 1].
Argument literal(std::string_view text, std::string_view type) {
    if (text == "None") return std::monostate{};
    if (text == "True") return true;
    if (text == "False") return false;
    if (text.front() == '"') return std::string(text.substr(1, text.size() - 2));
    if (text.front() == '[') {
        Sizes integers;
        std::vector<double> numbers;
        for (std::string_view part : split(text.substr(1, text.size() - 2))) {
            numbers.push_back(std::strtod(std::string(part).c_str(), nullptr));
            integers.emplace_back(static_cast<int64_t>(numbers.back()));
        }
        if (has(type, "float")) return numbers;
        return integers;
    }
    // The number of this enumeration is the library's own, and 0 is its first.
    if (has(type, "MemoryFormat")) return std::string("contiguous_format");
    const std::string copy(text);
    if (has(type, "float") || has(text, ".") || has(text, "e") || has(text, "inf")) return std::strtod(copy.c_str(), nullptr);
    const SymInt integer(std::strtoll(copy.c_str(), nullptr, 10));
    if (has(type, "[")) return Sizes{integer};
    return integer;
}

SchemaArgument parse_argument(std::string_view text) {
    const size_t equals = text.find('=');
    const std::string_view declared = trimmed(text.substr(0, equals));
    const size_t space = declared.rfind(' ');
    if (space == declared.npos) throw Error(fmt::format("'{}' is no argument of an operator: 'Tensor self' is one", text));
    SchemaArgument argument{std::string(declared.substr(space + 1)), std::string(trimmed(declared.substr(0, space))), {}};
    if (equals != text.npos) {
        const std::string_view value = trimmed(text.substr(equals + 1));
        if (value.empty()) throw Error(fmt::format("'{}' has no default after '='", text));
        argument.otherwise = literal(value, argument.type);
    }
    return argument;
}

struct Table {
    std::unordered_map<std::string_view, std::string_view> texts;
    std::unordered_map<std::string_view, Schema> parsed;
    std::mutex mutex;

    Table() {
        std::string_view rest = aten_schemas;
        while (!rest.empty()) {
            const size_t end = std::min(rest.find('\n'), rest.size());
            const std::string_view line = rest.substr(0, end);
            const size_t open = line.find('(');
            if (open != line.npos) texts.emplace(line.substr(0, open), line.substr(open));
            rest.remove_prefix(std::min(end + 1, rest.size()));
        }
    }
};

}  // namespace

Schema parse_schema(std::string_view text) {
    const size_t arrow = text.rfind("->");
    const size_t open = text.find('(');
    const size_t close = arrow == text.npos ? text.npos : text.rfind(')', arrow);
    if (open == text.npos || close == text.npos || close < open) {
        throw Error(fmt::format("'{}' is no operator's signature: '(Tensor self, int dim=0) -> Tensor' is one", text));
    }
    Schema schema;
    for (std::string_view part : split(text.substr(open + 1, close - open - 1))) {
        if (part != "*") schema.arguments.push_back(parse_argument(part));
    }
    std::string_view returns = trimmed(text.substr(arrow + 2));
    if (!returns.empty() && returns.front() == '(') returns = returns.substr(1, returns.size() - 2);
    for (std::string_view part : split(returns)) schema.returns.emplace_back(part.substr(0, part.find(' ')));
    return schema;
}

const Schema *find_schema(std::string_view target) {
    constexpr std::string_view aten = "aten::";
    if (!target.starts_with(aten)) return nullptr;
    target.remove_prefix(aten.size());
    static Table table;
    const std::lock_guard lock(table.mutex);
    const auto text = table.texts.find(target);
    if (text == table.texts.end()) return nullptr;
    auto found = table.parsed.find(text->first);
    if (found == table.parsed.end()) found = table.parsed.emplace(text->first, parse_schema(text->second)).first;
    return &found->second;
}

}  // namespace atalla
