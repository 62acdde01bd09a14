#include <fmt/format.h>

#include "graph_import/emit.h"
#include "graph_import/print.h"

namespace atalla {

namespace {

std::string quoted(const std::string &text) {
    std::string result = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        result += c == '\n' ? ' ' : c;
    }
    return result + "\"";
}

}  // namespace

std::string emit_dot(const Graph &graph) {
    std::string text =
        fmt::format("digraph {} {{\n  node [shape=box, fontname=\"sans-serif\", fontsize=10];\n", quoted(graph.name));
    const auto source = [&](ValueId id) {
        const int32_t producer = graph.value(id).producer;
        return producer >= 0 ? fmt::format("n{}", producer) : fmt::format("i{}", id.index);
    };
    for (const GraphInput &input : graph.inputs) {
        if (!input.value) continue;
        const bool user = input.kind == GraphInput::Kind::User;
        text += fmt::format("  i{} [shape=ellipse, style={}, label={}];\n", input.value.index, user ? "bold" : "dashed",
                            quoted(fmt::format("{} {}", input.name, type_text(graph.type(input.value)))));
    }
    for (size_t i = 0; i < graph.nodes.size(); i++) {
        text += fmt::format("  n{} [label={}];\n", i, quoted(graph.nodes[i].target));
        for_each_value(graph.nodes[i], [&](ValueId id) {
            const bool tensor = graph.value(id).kind == Value::Kind::Tensor;
            text += fmt::format("  {} -> n{} [label={}, fontsize=8];\n", source(id), i,
                                quoted(tensor ? type_text(graph.type(id)) : ""));
        });
    }
    for (size_t i = 0; i < graph.outputs.size(); i++) {
        const GraphOutput &output = graph.outputs[i];
        const std::string label =
            output.kind == GraphOutput::Kind::Mutation ? "new value of " + output.name : "output " + output.name;
        text += fmt::format("  o{} [shape=ellipse, style=bold, label={}];\n", i, quoted(label));
        for_each_value(output.value, [&](ValueId id) { text += fmt::format("  {} -> o{};\n", source(id), i); });
    }
    return text + "}\n";
}

}  // namespace atalla
