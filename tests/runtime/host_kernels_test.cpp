// The host's compiled kernels give, byte for byte, what the interpreter gives: for every call of the exported programs that
// they take, and for shapes and strides that those do not have.
#include "runtime/host_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "graph_import/guards.h"
#include "graph_import/interpret.h"
#include "graph_import/passes.h"
#include "tests/graph_import/fixtures.h"

namespace atalla {
namespace {

bool same(const HostTensor &a, const HostTensor &b) {
    return a.dtype == b.dtype && a.sizes == b.sizes && a.is_dense() && b.is_dense() &&
           std::memcmp(a.begin(), b.begin(), static_cast<size_t>(a.elements() * element_bytes(a.dtype))) == 0;
}

// Runs a graph node by node and compares what both compute.
class Comparison {
public:
    explicit Comparison(std::set<std::string> &taken) : taken_(taken) {}

    void run(const Graph &graph, const std::vector<HostTensor> &inputs, const std::string &name) {
        std::vector<std::optional<HostTensor>> values(graph.values.size());
        size_t next = 0;
        for (const GraphInput &input : graph.inputs) {
            if (input.kind == GraphInput::Kind::Fixed) continue;
            if (input.kind == GraphInput::Kind::User)
                values[static_cast<size_t>(input.value.index)] = inputs.at(next++);
            else if (input.data)
                values[static_cast<size_t>(input.value.index)] = *input.data;
        }
        const auto operand = [&](ValueId id) -> const HostTensor & { return values[static_cast<size_t>(id.index)].value(); };
        for (const Node &node : graph.nodes) {
            const bool tensors = std::all_of(node.outputs.begin(), node.outputs.end(),
                                             [&](ValueId id) { return id && graph.value(id).kind == Value::Kind::Tensor; });
            if (node.target.starts_with("higher_order::")) return;
            if (!tensors || node.outputs.empty()) continue;
            const std::vector<HostTensor> expected = interpret_node(graph, node, operand);
            std::vector<ResultType> types;
            for (ValueId id : node.outputs) types.push_back({graph.type(id).dtype, constant_sizes(graph.type(id).sizes)});
            if (const auto results = run_host_kernel(node, operand, types)) {
                taken_.insert(node.target);
                EXPECT_TRUE(same(results->at(0), dense_copy(expected[0]))) << name << ": " << node.target;
            }
            for (size_t i = 0; i < expected.size(); i++) values[static_cast<size_t>(node.outputs[i].index)] = expected[i];
        }
    }

private:
    std::set<std::string> &taken_;
};

TEST(HostKernels, GiveWhatTheInterpreterGives) {
    std::set<std::string> taken;
    for (const char *archive : {"scenarios", "models"}) {
        const Fixtures fixtures(archive);
        for (const Fixture &fixture : fixtures.all()) {
            const Graph dynamic = fixtures.import(fixture).graph;
            std::vector<std::vector<int64_t>> sizes;
            for (const HostTensor &input : fixture.inputs) sizes.push_back(input.sizes);
            const Bindings bindings = bind_symbols(dynamic, sizes);
            Graph graph = bindings.empty() ? clone(dynamic) : specialize(dynamic, bindings);
            Comparison(taken).run(graph, fixture.inputs, fixture.name);
            run_passes(graph);
            Comparison(taken).run(graph, fixture.inputs, fixture.name + " after the passes");
        }
    }
    EXPECT_THAT(taken, testing::IsSupersetOf({"aten::le.Tensor", "aten::__and__.Tensor", "aten::_to_copy", "aten::where.Scalar",
                                              "aten::any.dim", "aten::embedding", "aten::index.Tensor", "aten::index_copy"}));
}

// A graph of one call.
struct OneCall {
    Graph graph;
    std::vector<HostTensor> tensors;
    Node node;

    ValueId add(const HostTensor &tensor) {
        const ValueId id = declare(tensor.dtype, tensor.sizes);
        tensors.push_back(tensor);
        return id;
    }
    ValueId declare(DType dtype, const std::vector<int64_t> &sizes) {
        Value value;
        value.kind = Value::Kind::Tensor;
        value.type.dtype = dtype;
        for (const int64_t size : sizes) value.type.sizes.push_back(SymInt(size));
        graph.values.push_back(value);
        return ValueId{static_cast<int32_t>(graph.values.size()) - 1};
    }
    const HostTensor &operand(ValueId id) const { return tensors.at(static_cast<size_t>(id.index)); }
};

HostTensor counting(DType dtype, const std::vector<int64_t> &sizes, int64_t modulus) {
    HostTensor tensor = make_tensor(dtype, sizes);
    for (int64_t i = 0; i < tensor.elements(); i++) {
        if (is_floating(dtype))
            store_double(mutable_data(tensor) + i * element_bytes(dtype), dtype, static_cast<double>(i) / 3);
        else
            store_int(mutable_data(tensor) + i * element_bytes(dtype), dtype, (i * 7 + 3) % modulus);
    }
    return tensor;
}

HostTensor turned(HostTensor tensor) {
    std::reverse(tensor.sizes.begin(), tensor.sizes.end());
    std::reverse(tensor.strides.begin(), tensor.strides.end());
    return tensor;
}

TEST(HostKernels, TakeAnyStridesAndRefuseWhatTheyDoNotCompute) {
    const auto compute = [](const OneCall &call, const ResultType &type) {
        return run_host_kernel(call.node, [&](ValueId id) -> const HostTensor & { return call.operand(id); }, {type});
    };
    OneCall compare;
    compare.node = {"aten::lt.Tensor",
                    {{"self", compare.add(turned(counting(DType::Int64, {5, 3}, 11)))},
                     {"other", compare.add(counting(DType::Int64, {2, 1, 5}, 9))}},
                    {},
                    "",
                    ""};
    compare.node.outputs = {compare.declare(DType::Bool, {2, 3, 5})};
    const auto result = compute(compare, {DType::Bool, {2, 3, 5}});
    ASSERT_TRUE(result);
    EXPECT_TRUE(same(result->at(0), interpret_node(compare.graph, compare.node, [&](ValueId id) -> const HostTensor & {
                                        return compare.operand(id);
                                    }).at(0)));

    OneCall deep;  // five dimensions
    deep.node = {"aten::logical_not", {{"self", deep.add(counting(DType::Bool, {1, 2, 1, 2, 1}, 2))}}, {}, "", ""};
    EXPECT_FALSE(compute(deep, {DType::Bool, {1, 2, 1, 2, 1}}));

    OneCall table;  // an index outside is for the interpreter to refuse
    table.node = {
        "aten::embedding",
        {{"weight", table.add(counting(DType::Float32, {4, 3}, 1))}, {"indices", table.add(counting(DType::Int64, {2}, 1000))}},
        {},
        "",
        ""};
    EXPECT_FALSE(compute(table, {DType::Float32, {2, 3}}));
    OneCall unknown;
    unknown.node = {"aten::cumsum", {{"self", unknown.add(counting(DType::Int64, {2}, 5))}}, {}, "", ""};
    EXPECT_FALSE(compute(unknown, {DType::Int64, {2}}));
}

}  // namespace
}  // namespace atalla
