// Graphs to loadables: what runs where, that one program computes what its kernels compute one by one, and what is refused.
#include "model/compile_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generators/kernel_run.h"
#include "generators/registry.h"
#include "graph_import/interpret.h"
#include "isa/error.h"
#include "model/aten_call.h"
#include "model/fusion.h"
#include "runtime/bf16.h"
#include "tests/model/graphs.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

// `layers` linear layers of one width, with a host's sinus between two of them.
Graph chain(int layers, int64_t width, int sinus_after) {
    Graph graph;
    graph.name = "chain";
    ValueId x = add_input(graph, "x", {4, width}, GraphInput::Kind::User);
    for (int layer = 0; layer < layers; layer++) {
        const auto seed = static_cast<unsigned>(layer);
        const ValueId weight = add_input(graph, "w" + std::to_string(layer), {width, width}, GraphInput::Kind::Parameter,
                                         random_tensor({width, width}, seed, 0.3f));
        const ValueId bias = add_input(graph, "b" + std::to_string(layer), {width}, GraphInput::Kind::Parameter,
                                       random_tensor({width}, seed + 100, 0.3f));
        x = add_node(graph, "aten::linear", {{"input", x}, {"weight", weight}, {"bias", bias}}, {4, width});
        if (layer == sinus_after) x = add_node(graph, "aten::sin", {{"self", x}}, {4, width});
    }
    GraphOutput output;
    output.value = x;
    output.name = "y";
    graph.outputs.push_back(output);
    return graph;
}

// Every linear layer as a program of its own, in bf16 between them.
std::vector<uint16_t> one_by_one(const Graph &graph, const Machine &machine, const CompiledModel &compiled,
                                 const HostTensor &x) {
    std::map<ValueId, std::vector<uint16_t>> values;
    for (const GraphInput &input : graph.inputs) values[input.value] = bf16_elements(input.data ? *input.data : x);
    for (const Node &node : graph.nodes) {
        const NodeCall call = aten_call(graph, node);
        const Resolution found = resolve(call.call);
        EXPECT_EQ(found.place, Resolution::Accelerator) << found.reason;
        std::vector<TensorData> inputs;
        for (size_t position : found.inputs) inputs.push_back(values.at(call.tensors.at(position)));
        const KernelDefinition kernel = found.workload->build(machine, compiled.kernels.at(0).point);
        const KernelRun result = run_kernel(
            kernel, codegen::compile(kernel.pipeline, kernel.arguments, machine, kernel.compile_options()), machine, inputs);
        EXPECT_TRUE(result.result.ok) << result.result.error;
        values[node.outputs[0]] = result.outputs.at(0);
    }
    return values.at(graph.nodes.back().outputs[0]);
}

class CompileModel : public testing::TestWithParam<const char *> {};

TEST_P(CompileModel, OneProgramEqualsItsKernels) {
    const Machine machine = find_machine(GetParam());
    const Graph graph = chain(3, 32, -1);
    CompileModelOptions options;
    options.fuse = false;
    const CompiledModel compiled = compile_model(graph, machine, options);
    ASSERT_EQ(compiled.kernels.size(), 1u);  // the layers are alike
    const auto &code = *compiled.tables.specializations[0]->code;
    EXPECT_EQ(code.routines.size(), 1u);
    EXPECT_EQ(code.calls.size(), 3u);
    const HostTensor x = random_tensor({4, 32}, 77, 1);
    ContextCounters counters;
    EXPECT_EQ(bf16_elements(run(compiled, x, &counters)), one_by_one(graph, machine, compiled, x));
    EXPECT_EQ(counters.device_calls, 1u);
    EXPECT_EQ(counters.host_calls, 0u);
    EXPECT_EQ(counters.programs_loaded, 1u);
}

// The batch of chain() as a symbol.
Graph chain_of_any_batch() {
    Graph graph = chain(2, 32, -1);
    graph.symbols["s0"] = {1, 8, 4};
    for (Value &value : graph.values)
        if (value.type.sizes.size() == 2 && value.type.sizes[0] == SymInt(4)) value.type.sizes[0] = SymInt::symbol("s0");
    return graph;
}

TEST(CompileModelSizes, CallsAreFilledUp) {
    CompileModelOptions options;
    options.sizes = {{{"s0", 6}}, {{"s0", 4}}};
    options.fill = true;
    const CompiledModel compiled = compile_model(chain_of_any_batch(), find_machine("ax01"), options);
    const HostTensor whole = random_tensor({6, 32}, 77, 1);
    const std::vector<float> expected = values_of<float>(run(compiled, whole));
    for (const int64_t rows : {1, 3, 4, 5}) {
        HostTensor part = whole;
        part.sizes[0] = rows;
        const HostTensor result = run(compiled, part);
        EXPECT_EQ(result.sizes, (std::vector<int64_t>{rows, 32}));
        EXPECT_EQ(values_of<float>(result), std::vector<float>(expected.begin(), expected.begin() + rows * 32)) << rows;
    }
    EXPECT_EQ(error_of([&] {
                  run(compiled, random_tensor({7, 32}, 1, 1));
              }),
              "input 'x' has sizes [7, 32], but the model is compiled for [6, 32] or [4, 32]");
}

TEST(CompileModelSizes, AreNotFilledUpUnlessThatIsExact) {
    CompileModelOptions options;
    options.sizes = {{{"s0", 4}}};
    EXPECT_THAT(error_of([&] {
                    run(compile_model(chain_of_any_batch(), find_machine("ax01"), options), random_tensor({3, 32}, 1, 1));
                }),
                testing::HasSubstr("compiled for [4, 32]"));
    Graph graph = chain_of_any_batch();
    const ValueId last = std::get<ValueId>(graph.outputs[0].value);
    graph.outputs[0].value = add_node(graph, "aten::softmax.int", {{"self", last}, {"dim", SymInt(0)}}, {4, 32});
    graph.value(std::get<ValueId>(graph.outputs[0].value)).type.sizes[0] = SymInt::symbol("s0");
    options.fill = true;
    EXPECT_EQ(
        error_of([&] { compile_model(graph, find_machine("ax01"), options); }),
        "calls cannot be filled up to a larger s0: aten::softmax.int may mix what lies along s0; compile each size by itself");
}

INSTANTIATE_TEST_SUITE_P(Machines, CompileModel, testing::Values("ax01", "fsim"));

TEST(CompileModelHost, TakesWhatItIsAskedTo) {
    const Graph graph = chain(3, 32, 1);
    CompileModelOptions options;
    options.placement.on_host = {"aten::sin"};
    const CompiledModel compiled = compile_model(graph, find_machine("ax01"), options);
    const HostTensor x = random_tensor({4, 32}, 5, 1);
    ContextCounters counters;
    const std::vector<float> result = values_of<float>(run(compiled, x, &counters));
    EXPECT_EQ(counters.device_calls, 2u);
    EXPECT_EQ(counters.host_calls, 1u);
    const std::vector<float> expected = values_of<float>(*interpret(graph, {x}).outputs.at(0));
    for (size_t i = 0; i < result.size(); i++) EXPECT_NEAR(result[i], expected[i], 0.1) << i;
    EXPECT_THAT(compiled.tables.findings, testing::Contains(testing::Pointee(testing::AllOf(
                                              testing::Field(&loadable::FindingT::target, "aten::sin"),
                                              testing::Field(&loadable::FindingT::accelerator, false),
                                              testing::Field(&loadable::FindingT::reason, "asked to run on the host")))));
}

// relu(linear(x)) + x, with the sum's operands in either order, and a chain of pointwise calls behind a host's call.
Graph residual(bool sum_first) {
    Graph graph = chain(1, 64, -1);
    const ValueId x = graph.inputs[0].value, product = graph.nodes[0].outputs[0];
    const ValueId bounded = add_node(graph, "aten::relu", {{"self", product}}, {4, 64});
    const ValueId sum =
        add_node(graph, "aten::add.Tensor",
                 {{"self", sum_first ? x : bounded}, {"other", sum_first ? bounded : x}, {"alpha", SymInt(1)}}, {4, 64});
    const ValueId far = add_node(graph, "aten::sin", {{"self", sum}}, {4, 64});
    const ValueId square = add_node(graph, "aten::mul.Tensor", {{"self", far}, {"other", far}}, {4, 64});
    graph.outputs[0].value = add_node(graph, "aten::neg", {{"self", square}}, {4, 64});
    return graph;
}

TEST(CompileModelFusion, GivesTheBitsOfItsOperators) {
    const HostTensor x = random_tensor({4, 64}, 9, 1);
    for (const bool sum_first : {false, true})
        for (const char *machine : {"ax01", "fsim"}) {
            CompileModelOptions options;
            options.placement.on_host = {"aten::sin"};
            const CompiledModel fused = compile_model(residual(sum_first), find_machine(machine), options);
            options.fuse = false;
            options.one_by_one = true;
            const CompiledModel apart = compile_model(residual(sum_first), find_machine(machine), options);
            ContextCounters of_fused, of_apart;
            EXPECT_EQ(bf16_elements(run(fused, x, &of_fused)), bf16_elements(run(apart, x, &of_apart))) << machine;
            EXPECT_EQ(of_fused.device_calls, 2u);
            EXPECT_EQ(of_apart.device_calls, 5u);
            const auto &calls = fused.tables.specializations[0]->code->calls;
            ASSERT_EQ(calls.size(), 2u);
            EXPECT_THAT(fused.kernels.at(0).routine.name, testing::HasSubstr(sum_first ? "add(t3, relu(linear(t0, t1, t2)))"
                                                                                       : "add(relu(linear(t0, t1, t2)), t3)"));
            EXPECT_THAT(fused.kernels.at(1).routine.name, testing::HasSubstr("neg(mul(t0, t0))"));
            EXPECT_EQ(fused.tables.specializations[0]->code->routines.size(), 2u);  // the parts were measured and are not in it
            const auto &fusions = fused.tables.specializations[0]->fusions;
            ASSERT_EQ(fusions.size(), 3u);  // of those that were measured, relu(linear(..)) is in a longer one
            for (const auto &fusion : fusions) {
                EXPECT_EQ(fusion->chosen, fusion->kernel.find("relu(linear") != 0) << fusion->kernel;
                EXPECT_GT(fusion->cycles, 0);
                EXPECT_GT(fusion->apart, fusion->cycles);
            }
            EXPECT_TRUE(apart.tables.specializations[0]->fusions.empty());
            if (std::string(machine) == "ax01") {
                EXPECT_LT(of_fused.last.cycles, of_apart.last.cycles);
            }
        }
}

TEST(CompileModelFusion, TakesWhatSavesMost) {
    const Graph graph = residual(false);
    const std::vector<PlacedNode> placed = place_nodes(graph, {.on_host = {"aten::sin"}, .registered = {}});
    std::vector<size_t> asked;
    const auto two_at_most = [&](const Fusion &fusion) {
        asked.push_back(fusion.nodes.size());
        return int64_t{fusion.nodes.size() == 2};
    };
    const std::vector<Fusion> fusions = find_fusions(graph, placed, two_at_most);
    EXPECT_THAT(asked, testing::ElementsAre(2, 3, 2));  // linear, relu; linear, relu, add; mul, neg
    ASSERT_EQ(fusions.size(), 2u);
    EXPECT_EQ(fusions[0].kernel.op->name(), "relu(linear(t0, t1, t2))");
    EXPECT_TRUE(find_fusions(graph, placed, [](const Fusion &) { return 0; }).empty());
}

TEST(CompileModelKernels, AreTheFastestOfThoseThatAreMeasured) {
    const Operator &op = find_operator("gelu");
    const std::shared_ptr<const Workload> workload = op.workload_of({{"x", {64, 96}}}, {});
    KernelOptions how;
    int64_t before = 0;
    for (const uint64_t measured : {1, 4, 8}) {
        how.measured = measured;
        KernelSet kernels(find_machine("ax01"), how);
        const int64_t cycles = kernels.cycles(op, workload);
        EXPECT_GE(cycles, workload->bound(find_machine("ax01")).cycles);
        EXPECT_TRUE(before == 0 || cycles <= before) << cycles << " after " << before;
        before = cycles;
    }
}

TEST(CompileModelErrors, NameEveryUnknownOperator) {
    Graph graph = chain(1, 32, -1);
    const ValueId a = add_node(graph, "mylib::twist", {{"self", graph.nodes[0].outputs[0]}}, {4, 32});
    const ValueId b = add_node(graph, "mylib::turn", {{"self", a}}, {4, 32});
    graph.nodes.back().module = "encoder.layer.0";
    graph.outputs[0].value = b;
    EXPECT_THAT([&] { compile_model(graph, find_machine("ax01")); },
                testing::ThrowsMessage<Error>(testing::AllOf(
                    testing::HasSubstr("has 2 of the model's operators"), testing::HasSubstr("mylib::twist (1 call)"),
                    testing::HasSubstr("mylib::turn (1 call, first in encoder.layer.0)"))));
    CompileModelOptions options;
    options.placement.registered = {"mylib::twist", "mylib::turn"};
    EXPECT_NO_THROW(compile_model(graph, find_machine("ax01"), options));
}

TEST(CompileModelErrors, NameMissingWeightsAndSizes) {
    Graph graph = chain(1, 32, -1);
    graph.inputs[1].data.reset();
    graph.inputs[1].missing = "saved with fake tensors";
    EXPECT_THAT([&] { compile_model(graph, find_machine("ax01")); },
                testing::ThrowsMessage<Error>("the value of w0 is not in the archive: saved with fake tensors"));
    CompileModelOptions options;
    options.sizes = {{{"s0", 4}}};
    const Graph good = chain(1, 32, -1);
    EXPECT_THAT([&] { compile_model(good, find_machine("ax01"), options); },
                testing::ThrowsMessage<Error>("the model has no size 's0'"));
}

}  // namespace
}  // namespace atalla
