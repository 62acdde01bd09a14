// Moves a transpose behind the element-wise call that uses it, so that transposes meet and cancel, and none stands
// between a product and its activation.
#include "graph_import/passes.h"
#include "graph_import/passes/rewriter.h"

namespace atalla {

int place_transposes(Graph &graph) {
    const auto uses = graph.uses();
    Rewriter rewriter(graph);
    const int moved = rewriter.sweep([&](Node &node) {
        if (!is_element_wise(node.target)) return;
        const ValueId operand = node.tensor("self");
        const Node *transpose = rewriter.producer(operand);
        if (!transpose || transpose->target != "aten::permute" || uses[operand.index].size() != 1 || graph.is_output(operand))
            return;
        const ValueId source = transpose->tensor("self");
        const Argument dims = *transpose->find("dims");
        Node inner = call_on(source, node, node);
        const TensorType type = dense_type(graph.type(node.outputs[0]).dtype, graph.type(source).sizes);
        const ValueId result = rewriter.insert(std::move(inner), graph.value(node.outputs[0]).name + "_inner", type);
        node = make_call("aten::permute", {{"self", result}, {"dims", dims}}, node);
        rewriter.count();
    });
    // What met can be composed now.
    return moved + (moved ? reduce_strength(graph) : 0);
}

}  // namespace atalla
