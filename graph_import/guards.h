// From the sizes of a call to values of symbols, and whether a model holds for them.
#pragma once

#include <vector>

#include "graph_import/graph.h"

namespace atalla {

// Sizes of the User inputs in order, empty for one that is a number; `numbers` holds the values of those that are, in
// order among themselves. Error, naming the input and the dimension, for a wrong number of dimensions, a size that is not
// the model's constant, sizes that must be equal but are not, a size out of its range, or a broken guard. The message has
// the form of PyTorch's: "x.size()[0] is 65, but the model was exported for 1 <= s77 <= 64".
Bindings bind_symbols(const Graph &graph, const std::vector<std::vector<int64_t>> &input_sizes,
                      const std::vector<int64_t> &numbers = {});

// Whether a guard's text holds for these inputs, by name. Error if it uses what is not understood.
bool guard_holds(const std::string &guard, const std::map<std::string, std::vector<int64_t>> &sizes);

}  // namespace atalla
