// From the JSON of one graph, the model's or a subgraph's, to values and nodes.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "graph_import/graph.h"
#include "graph_import/json_view.h"

namespace atalla {

// The symbols that occur, with the value that the example had.
using SymbolHints = std::map<std::string, std::optional<int64_t>>;

class GraphReader {
public:
    // `json` is an object with `nodes`, `tensor_values` and so on, and like `graph` and `hints` outlives the reader.
    GraphReader(const JsonView &json, Graph &graph, SymbolHints &hints, int depth = 0);

    ValueId define_tensor(const JsonView &name);
    ValueId define_integer(const JsonView &name);
    void read_nodes();
    // Of one of the unions that arguments, inputs and outputs are. What has no form here becomes Unreadable.
    Argument read_argument(const JsonView &json);

private:
    ValueId define(const JsonView &name, Value value);
    ValueId lookup(const JsonView &name) const;
    TensorType read_type(const std::string &name);
    SymInt read_size(const JsonView &json);
    SymInt symbolic_integer(const JsonView &json);
    Argument read_symbolic_number(const std::string &tag, const JsonView &json);
    std::vector<ValueId> read_tensors(const JsonView &json);
    std::shared_ptr<Graph> read_subgraph(const JsonView &json);
    void read_node(const JsonView &json);
    void read_result(Node &node, const JsonView &json);

    JsonView json_;
    Graph &graph_;
    SymbolHints &hints_;
    int depth_;
    std::map<std::string, ValueId> values_;  // of this graph: subgraphs have their own names
};

// "aten::add.Tensor" from "torch.ops.aten.add.Tensor".
std::string target_of(const std::string &written);

}  // namespace atalla
