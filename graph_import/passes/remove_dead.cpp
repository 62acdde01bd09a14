// Calls whose results nobody uses go, and with them constants; parameters stay, as what the model declares.
#include "graph_import/passes.h"

namespace atalla {

namespace {

bool has_effect(const Node &node) { return node.outputs.empty(); }

}  // namespace

int remove_dead(Graph &graph) {
    std::vector<bool> used(graph.values.size());
    std::set<std::string> symbols;  // that sizes of living values are made of
    const auto use = [&](ValueId id) {
        used[id.index] = true;
        for (const SymInt &size : graph.type(id).sizes) size.collect_symbols(symbols);
    };
    for (const GraphOutput &output : graph.outputs) {
        for_each_value(output.value, use);
        if (const auto *number = std::get_if<SymInt>(&output.value)) number->collect_symbols(symbols);
    }
    // A symbol that an input gives needs no call that computes it.
    std::set<std::string> given;
    for (const GraphInput &input : graph.inputs) {
        if (!input.value) continue;
        for (const SymInt &size : graph.type(input.value).sizes) size.collect_symbols(given);
        graph.value(input.value).symbolic.collect_symbols(given);
    }
    int removed = 0;
    for (size_t i = graph.nodes.size(); i-- > 0;) {
        Node &node = graph.nodes[i];
        bool alive = has_effect(node);
        for (ValueId output : node.outputs) {
            if (!output) continue;
            alive = alive || used[output.index];
            const Value &value = graph.value(output);
            if (value.kind == Value::Kind::Int && value.symbolic.op() == SymInt::Op::Symbol) {
                const std::string &name = value.symbolic.name();
                alive = alive || (symbols.contains(name) && !given.contains(name));
            }
        }
        if (!alive) {
            node.target.clear();
            removed++;
            continue;
        }
        for_each_value(node, use);
        for (const NamedArgument &argument : node.arguments) {
            if (const auto *size = std::get_if<SymInt>(&argument.value)) size->collect_symbols(symbols);
            if (const auto *sizes = std::get_if<Sizes>(&argument.value)) {
                for (const SymInt &size : *sizes) size.collect_symbols(symbols);
            }
        }
    }
    std::erase_if(graph.inputs, [&](const GraphInput &input) {
        const bool dead = input.kind == GraphInput::Kind::Constant && input.value && !used[input.value.index] &&
                          std::none_of(graph.outputs.begin(), graph.outputs.end(),
                                       [](const GraphOutput &output) { return output.target >= 0; });
        removed += dead;
        return dead;
    });
    graph.renumber();
    return removed;
}

}  // namespace atalla
