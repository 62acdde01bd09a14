// Equal calls are made once.
#include <fmt/format.h>

#include <map>

#include "graph_import/passes.h"
#include "graph_import/passes/rewriter.h"
#include "graph_import/print.h"

namespace atalla {

namespace {

bool may_differ(const Node &node) {
    for (const NamedArgument &argument : node.arguments) {
        if (std::holds_alternative<std::shared_ptr<Graph>>(argument.value)) return true;
        if (std::holds_alternative<Unreadable>(argument.value)) return true;
    }
    const std::string_view target = node.target;
    // Custom operators may have effects, random ones give something else each time.
    return !target.starts_with("aten::") || node.outputs.empty() || target.find("rand") != target.npos ||
           target.find("bernoulli") != target.npos || target == "aten::dropout" || target == "aten::item" ||
           target.find("empty") != target.npos;
}

std::string key_of(const Graph &graph, const Node &node) {
    std::string key = node.target;
    for (const NamedArgument &argument : node.arguments) {
        key += fmt::format("|{}={}{}", argument.name, argument.value.index(), argument_text(graph, argument.value));
    }
    for (ValueId output : node.outputs) key += fmt::format("|{}", output ? type_text(graph.type(output)) : "");
    return key;
}

}  // namespace

int share_common(Graph &graph) {
    std::map<std::string, std::vector<ValueId>> known;
    Rewriter rewriter(graph);
    return rewriter.sweep([&](Node &node) {
        if (may_differ(node)) return;
        const auto [found, fresh] = known.emplace(key_of(graph, node), node.outputs);
        if (fresh) return;
        for (size_t i = 0; i < node.outputs.size(); i++) {
            if (node.outputs[i]) rewriter.replace(node.outputs[i], found->second[i]);
        }
        node.target.clear();
    });
}

}  // namespace atalla
