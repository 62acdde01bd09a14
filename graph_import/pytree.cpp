#include "graph_import/pytree.h"

#include <fmt/format.h>

#include "isa/error.h"

namespace atalla {

namespace {

constexpr size_t most_leaves = 100'000;

// The keys of a node's children, from its context where that is a list of names.
std::vector<std::string> keys_of(const JsonView &node, size_t count, const JsonView &named_tuples) {
    std::vector<std::string> keys;
    const std::string context = node.has("context") && node["context"].json().is_string() ? node["context"].string() : "";
    nlohmann::json parsed = nlohmann::json::parse(context, nullptr, false);
    if (parsed.is_string() && named_tuples.has(parsed.get<std::string>())) {
        parsed = named_tuples[parsed.get<std::string>()].json();
    } else if (!parsed.is_array() && named_tuples.has(context)) {
        parsed = named_tuples[context].json();
    }
    // A data class gives its fields, perhaps behind something else: [names, none-names].
    if (parsed.is_array() && !parsed.empty() && parsed[0].is_array()) parsed = nlohmann::json(parsed[0]);
    if (parsed.is_array() && parsed.size() == count) {
        for (const auto &key : parsed) keys.push_back(key.is_string() ? key.get<std::string>() : key.dump());
    } else {
        for (size_t i = 0; i < count; i++) keys.push_back(std::to_string(i));
    }
    return keys;
}

void collect(const JsonView &node, const std::string &path, const JsonView &named_tuples, std::vector<std::string> &names) {
    if (names.size() >= most_leaves) node.fail("too many outputs");
    if (node["type"].is_null()) {
        names.push_back(path.empty() ? "0" : path);
        return;
    }
    const JsonView children = node["children_spec"];
    const std::vector<std::string> keys = keys_of(node, children.size(), named_tuples);
    for (size_t i = 0; i < children.size(); i++) {
        collect(children.element(i), path.empty() ? keys[i] : fmt::format("{}.{}", path, keys[i]), named_tuples, names);
    }
}

}  // namespace

std::vector<std::string> output_names(const JsonView &module) {
    std::vector<std::string> names;
    try {
        std::string spec;
        module["module_call_graph"].each([&](const JsonView &entry) {
            if (entry["fqn"].string().empty()) spec = entry["signature"]["out_spec"].string();
        });
        if (spec.empty()) return {};
        const nlohmann::json document = parse_foreign_json(spec, "out_spec");
        const nlohmann::json none = nlohmann::json::object();
        const bool has_tuples = module.has("treespec_namedtuple_fields");
        const nlohmann::json &tuples = has_tuples ? module.json().at("treespec_namedtuple_fields") : none;
        const JsonView tree(document, "out_spec");
        collect(tree.element(1), "", JsonView(tuples, "treespec_namedtuple_fields"), names);
    } catch (const Error &) {
        return {};
    } catch (const nlohmann::json::exception &) {
        return {};
    }
    return names;
}

}  // namespace atalla
