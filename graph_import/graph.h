// A model as the compiler sees it: a graph in SSA form whose nodes are calls of ATen operators. The contract between the
// importer, the passes, and whoever compiles or runs the result.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graph_import/dtype.h"
#include "graph_import/symbolic.h"
#include "graph_import/tensor.h"

namespace atalla {

struct Graph;

// An index into Graph::values; negative for "none", as for a result that is absent or a hole in a list of tensors.
struct ValueId {
    int32_t index = -1;
    explicit operator bool() const { return index >= 0; }
    auto operator<=>(const ValueId &) const = default;
};

// What is known of a tensor before it is computed. Strides and offset count elements; a compiler need honour them for
// inputs and outputs of the whole graph only.
struct TensorType {
    DType dtype = DType::Float32;
    Sizes sizes, strides;
    SymInt offset = 0;
};

struct Value {
    enum class Kind { Tensor, Int, Float, Bool };

    std::string name;  // unique in its graph
    Kind kind = Kind::Tensor;
    TensorType type;        // of a tensor
    SymInt symbolic = 0;    // of an Int: the expression that it is known to be
    int32_t producer = -1;  // index into Graph::nodes; -1 for an input of the graph
};

// What a call is given. Integers are expressions over symbols, never references: the nodes that computed them from sizes
// are not needed to know them.
struct Complex {
    double real = 0, imaginary = 0;
    bool operator==(const Complex &) const = default;
};
// Something that the archive may hold and this reader has no form for. An error only where it is used.
struct Unreadable {
    std::string what;
    bool operator==(const Unreadable &) const = default;
};
using Argument = std::variant<std::monostate,        // None
                              ValueId,               // a tensor, or a number known only at run time
                              std::vector<ValueId>,  // tensors, with holes
                              SymInt, Sizes,         // an integer, integers
                              double, std::vector<double>, bool, std::vector<bool>, Complex,
                              std::string,  // also a device ("cpu"), a layout or a memory format ("contiguous_format")
                              DType,
                              std::shared_ptr<Graph>,  // of `cond` and the like; its inputs are bound by position
                              Unreadable>;

struct NamedArgument {
    std::string name;  // the schema's; empty for a higher-order operator's
    Argument value;
};

struct Node {
    // "aten::add.Tensor", "aten::linear" (the default overload has no suffix), "mylib::op", "_operator.mul",
    // "higher_order::cond".
    std::string target;
    // In the schema's order with its defaults filled in, where the operator's schema is known.
    std::vector<NamedArgument> arguments;
    // Each tensor of a list of tensors is a result of its own.
    std::vector<ValueId> outputs;
    std::string module;       // path of the module that called it, "encoder.layer.0.attention"; for messages
    std::string module_type;  // "transformers.models.bert.BertAttention"

    // Null if there is no such argument.
    const Argument *find(std::string_view name) const;

    // The following throw Error, naming the operator and the argument, if the argument is missing or of another type.
    ValueId tensor(std::string_view name) const;
    // An absent or None argument gives no value.
    ValueId optional_tensor(std::string_view name) const;
    std::vector<ValueId> tensors(std::string_view name) const;
    // Any number counts where a float is asked for; a bool or a whole constant where an integer is.
    int64_t integer(std::string_view name) const;
    std::optional<int64_t> optional_integer(std::string_view name) const;
    // A single integer counts as a list of one.
    std::vector<int64_t> integers(std::string_view name) const;
    Sizes sizes(std::string_view name) const;
    double number(std::string_view name) const;
    std::optional<double> optional_number(std::string_view name) const;
    bool flag(std::string_view name) const;
    std::string string(std::string_view name) const;
    std::optional<DType> optional_dtype(std::string_view name) const;
    bool is_none(std::string_view name) const;
};

struct GraphInput {
    enum class Kind {
        User,       // from the caller
        Fixed,      // an argument of the caller that was a Python constant: it has a place, its value is `fixed`
        Parameter,  // these three have `data`
        Buffer,
        Constant,
    };
    Kind kind = Kind::User;
    ValueId value;     // none for Fixed
    std::string name;  // the caller's name of the argument, or the qualified name in the module
    Argument fixed;
    bool persistent = true;  // of a buffer
    // The initial value. Tied tensors share a storage. Absent if the archive has no weights (saved with fake tensors);
    // then `missing` says why.
    std::optional<HostTensor> data;
    std::string missing;
};

struct GraphOutput {
    enum class Kind {
        User,
        Mutation,  // not seen by the caller: to be written to inputs[target] after the call, a buffer or a user's tensor
    };
    Kind kind = Kind::User;
    Argument value;       // a tensor, a number or a constant
    std::string name;     // "logits", "past.0.key", or "0" for a plain tuple's first
    int32_t target = -1;  // index into Graph::inputs, of a mutation
};

struct SymbolInfo {
    int64_t least = 0;
    std::optional<int64_t> most;  // none: unbounded
    std::optional<int64_t> hint;  // the value that the example had; none for sizes that depend on data
};

struct Graph {
    std::string name;  // of the model, or of the subgraph
    std::vector<Value> values;
    std::vector<Node> nodes;  // every operand is an input or the result of an earlier node
    std::vector<GraphInput> inputs;
    std::vector<GraphOutput> outputs;

    // Of a whole model only.
    std::map<std::string, SymbolInfo> symbols;
    std::vector<std::string> guards;  // conditions on the inputs' sizes, Python text: guards.h checks them

    const Value &value(ValueId id) const { return values[id.index]; }
    Value &value(ValueId id) { return values[id.index]; }
    const TensorType &type(ValueId id) const { return values[id.index].type; }

    // A new value named `name`, or `name_1`, `name_2`... where that is taken.
    ValueId add_value(std::string_view name, TensorType type);
    // A new Constant input that holds `data`.
    ValueId add_constant(std::string_view name, HostTensor data);
    // The index of the input that has this value; -1 if none has.
    int input_of(ValueId id) const;
    // Data of a parameter, buffer or constant that no output mutates; null for everything else.
    const HostTensor *constant_data(ValueId id) const;
    // Indices of the nodes that use each value, in order, also through subgraphs' operands. Outputs do not count.
    std::vector<std::vector<int32_t>> uses() const;
    // Whether an output, mutations included, has the value.
    bool is_output(ValueId id) const;
    // Every operand and output `from` becomes `to`.
    void replace_uses(ValueId from, ValueId to);
    // Drops removed nodes (those with an empty target) and sets every producer.
    void renumber();
};

// Every value that a call or an output refers to, holes left out.
void for_each_value(const Argument &argument, const std::function<void(ValueId)> &visit);
void for_each_value(Argument &argument, const std::function<void(ValueId &)> &visit);
void for_each_value(const Node &node, const std::function<void(ValueId)> &visit);

// Error that says what is wrong with the graph if it breaks a rule of this header: for tests, and after every pass.
void verify(const Graph &graph);

// A deep copy; weights stay shared.
Graph clone(const Graph &graph);
// With symbols replaced by values: a graph of constant shapes, if all are bound.
Graph specialize(const Graph &graph, const Bindings &bindings);

}  // namespace atalla
