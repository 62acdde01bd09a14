// What the accelerator has no kernel for, as calls of what it has: graph_import/decompositions.
#include "graph_import/decompositions/expansion.h"
#include "graph_import/passes.h"

namespace atalla {

namespace {

const Decompositions &decompositions() {
    static const Decompositions all = [] {
        Decompositions table;
        add_element_wise_decompositions(table);
        add_reduction_decompositions(table);
        add_arrangement_decompositions(table);
        add_resampling_decompositions(table);
        add_transposed_convolution(table);
        add_einsum(table);
        add_grouped_products(table);
        add_convolution_in_depth(table);
        add_volume_decompositions(table);
        add_column_decompositions(table);
        add_transformer_layer(table);
        return table;
    }();
    return all;
}

}  // namespace

int decompose(Graph &graph) {
    Rewriter rewriter(graph);
    return rewriter.sweep([&](Node &node) {
        const auto found = decompositions().find(node.target);
        if (found == decompositions().end() || node.outputs.size() != 1 || !is_floating(graph.type(node.outputs[0]).dtype))
            return;
        Expansion expansion(graph, rewriter, node);
        if (found->second(expansion)) rewriter.count();
    });
}

}  // namespace atalla
