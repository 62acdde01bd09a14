// What is done to a graph before its nodes are placed: work on constants that is better done once than in every call.
#pragma once

#include "graph_import/graph.h"

namespace atalla {

// Nodes whose operands are all constants are computed; their results become constants.
void fold_constants(Graph &graph);

// Batch norms behind convolutions become part of the convolution's weights and bias.
void fold_batch_norms(Graph &graph);

// Products with a constant [k][n] matrix become `linear` with its transpose, which is how the array keeps weights.
void arrange_weights(Graph &graph);

// Nodes without a used result go.
void remove_dead_nodes(Graph &graph);

// All of them, in this order.
void prepare(Graph &graph);

}  // namespace atalla
