// The plan that is printed and drawn is the one that the loadable runs: order, sides, and tensors that do not overlap while
// alive.
#include "model/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "tests/graph_import/fixtures.h"
#include "tests/model/graphs.h"

namespace atalla {
namespace {

// Sums of what came before, with a host's sinus in the middle of each chain.
Graph two_chains() {
    Graph graph;
    graph.name = "chains";
    const std::vector<int64_t> sizes = {16, 64};
    const ValueId x = add_input(graph, "x", sizes, GraphInput::Kind::User);
    std::vector<ValueId> ends;
    for (int chain = 0; chain < 2; chain++) {
        const ValueId soft =
            add_node(graph, "aten::softmax.int", {{"self", chain == 0 ? x : ends[0]}, {"dim", SymInt(1)}}, sizes);
        const ValueId far = add_node(graph, "aten::sin", {{"self", soft}}, sizes);
        const ValueId sum = add_node(graph, "aten::add.Tensor", {{"self", soft}, {"other", far}, {"alpha", SymInt(1)}}, sizes);
        ends.push_back(add_node(graph, "aten::softmax.int", {{"self", sum}, {"dim", SymInt(1)}}, sizes));
    }
    GraphOutput output;
    output.value = ends.back();
    output.name = "y";
    graph.outputs.push_back(output);
    return graph;
}

CompiledModel compiled(bool with_host) {
    CompileModelOptions options;
    options.kernels.measured = 1;
    if (with_host) options.placement.on_host = {"aten::sin"};
    return compile_model(two_chains(), find_machine("ax01"), options);
}

// Tensors that are alive at the same time do not overlap, and what is made once is there from then on.
void expect_sound(const CompiledModel &model) {
    constexpr int64_t alignment = 2048;  // a page of the DRAM
    ASSERT_EQ(model.plans.size(), 1u);
    const ModelPlan &plan = model.plans[0];
    std::map<std::string, const PlannedTensor *> tensors;
    for (const PlannedTensor &a : plan.tensors) {
        tensors[a.name] = &a;
        EXPECT_EQ(a.offset % alignment, 0) << a.name;
        EXPECT_LE(a.offset + a.bytes, plan.arena_bytes) << a.name;
        EXPECT_LE(a.first, a.last) << a.name;
        for (const PlannedTensor &b : plan.tensors) {
            if (&a == &b) continue;
            const bool together = a.first <= b.last && b.first <= a.last,
                       overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
            EXPECT_FALSE(together && overlap) << a.name << " and " << b.name;
        }
    }
    EXPECT_GE(plan.arena_bytes, plan.arena_bound);
    EXPECT_EQ(static_cast<uint64_t>(plan.arena_bytes), model.tables.specializations[0]->arena_bytes);
    std::set<std::string> made;
    for (size_t i = 0; i < plan.calls.size(); i++) {
        const PlannedCall &call = plan.calls[i];
        EXPECT_TRUE(made.insert(call.result).second) << call.result;
        if (i > 0) {
            const PlannedCall &before = plan.calls[i - 1];
            EXPECT_LT(before.time, call.time) << call.result;
            EXPECT_EQ(before.segment + (before.device != call.device), call.segment)
                << call.result << ": neighbours on one side are one segment";
        }
        const auto tensor = tensors.find(call.result);
        if (call.device) {
            ASSERT_TRUE(tensor != tensors.end()) << call.result;
            EXPECT_EQ(tensor->second->first, call.time) << call.result;
        } else if (tensor != tensors.end()) {
            EXPECT_GT(tensor->second->first, call.time) << call.result << ": it comes from the host";
        }
    }
}

TEST(ModelPlan, TensorsThatAreAliveTogetherAreApart) {
    for (const bool with_host : {false, true}) {
        const CompiledModel model = compiled(with_host);
        EXPECT_GE(model.plans.at(0).tensors.size(), 4u);
        expect_sound(model);
    }
}

TEST(ModelPlan, OfExportedModelsIsSound) {
    const Fixtures fixtures("models");
    size_t models = 0;
    for (const Fixture &fixture : fixtures.all()) {
        const Graph imported = fixtures.import(fixture).graph;
        if (!imported.symbols.empty()) continue;
        SCOPED_TRACE(fixture.name);
        models++;
        CompileModelOptions options;
        options.kernels.measured = 1;
        expect_sound(compile_model(imported, find_machine("ax01"), options));
    }
    EXPECT_GE(models, 20u);
}

// Four branches that do not need each other, each with a host's sinus in its middle, are in three segments in whichever order
// they come.
TEST(ModelPlan, CrossingsAreFewest) {
    Graph graph;
    graph.name = "branches";
    const std::vector<int64_t> sizes = {16, 64};
    const ValueId x = add_input(graph, "x", sizes, GraphInput::Kind::User);
    for (int64_t branch = 0; branch < 4; branch++) {
        const ValueId scaled = add_node(graph, "aten::mul.Scalar", {{"self", x}, {"other", SymInt(branch + 2)}}, sizes);
        const ValueId far = add_node(graph, "aten::sin", {{"self", scaled}}, sizes);
        GraphOutput output;
        output.value = add_node(graph, "aten::softmax.int", {{"self", far}, {"dim", SymInt(1)}}, sizes);
        output.name = "y" + std::to_string(branch);
        graph.outputs.push_back(output);
    }
    CompileModelOptions options;
    options.kernels.measured = 1;
    options.placement.on_host = {"aten::sin"};
    const CompiledModel model = compile_model(graph, find_machine("ax01"), options);
    expect_sound(model);
    EXPECT_EQ(model.plans[0].calls.size(), 12u);
    EXPECT_EQ(model.plans[0].segments(), 3u);
}

// Two branches of the same kernels, of which neither needs the other: each kernel is called twice while its code is in the
// instruction cache.
TEST(ModelPlan, CallsOfAKernelFollowEachOther) {
    Graph graph;
    graph.name = "branches";
    const std::vector<int64_t> sizes = {16, 64};
    const ValueId x = add_input(graph, "x", sizes, GraphInput::Kind::User);
    ValueId ends[2];
    for (ValueId &end : ends) {
        const ValueId y = add_input(graph, "y", sizes, GraphInput::Kind::User);
        const ValueId sum = add_node(graph, "aten::add.Tensor", {{"self", x}, {"other", y}, {"alpha", SymInt(1)}}, sizes);
        end = add_node(graph, "aten::softmax.int", {{"self", sum}, {"dim", SymInt(1)}}, sizes);
    }
    GraphOutput output;
    output.value = add_node(graph, "aten::mul.Tensor", {{"self", ends[0]}, {"other", ends[1]}}, sizes);
    output.name = "z";
    graph.outputs.push_back(output);
    CompileModelOptions options;
    options.kernels.measured = 1;
    options.fuse = false;
    const CompiledModel model = compile_model(graph, find_machine("ax01"), options);
    expect_sound(model);
    std::vector<std::string> kernels;
    for (const PlannedCall &call : model.plans[0].calls) kernels.push_back(call.what.substr(0, call.what.find(' ')));
    EXPECT_THAT(kernels, testing::ElementsAre("add", "add", "softmax", "softmax", "mul"));
}

TEST(ModelPlan, CallsAreThoseOfTheLoadable) {
    const CompiledModel model = compiled(true);
    const ModelPlan &plan = model.plans[0];
    std::vector<std::string> sides;
    for (const PlannedCall &call : plan.calls) {
        sides.push_back(call.device ? "accelerator" : "host");
        if (!call.device) {
            EXPECT_EQ(call.what, "aten::sin");
            EXPECT_EQ(call.reason, "asked to run on the host");
        }
    }
    EXPECT_EQ(sides.size(), model.tables.specializations[0]->code->calls.size() + 2);
    EXPECT_EQ(plan.segments(), model.tables.specializations[0]->steps.size());
    EXPECT_EQ(sides[0], "accelerator");
    EXPECT_EQ(sides[1], "host");
    EXPECT_TRUE(std::is_sorted(plan.calls.begin(), plan.calls.end(),
                               [](const PlannedCall &a, const PlannedCall &b) { return a.time < b.time; }));
}

TEST(ModelPlan, IsPrintedAndDrawn) {
    const ModelPlan plan = compiled(true).plans[0];
    EXPECT_THAT(plan_text(plan),
                testing::AllOf(testing::HasSubstr("softmax 16x64"), testing::HasSubstr("asked to run on the host"),
                               testing::HasSubstr("8 calls in 5 segments"), testing::HasSubstr("are alive at a time at most")));
    const std::string svg = plan_svg(plan);
    EXPECT_THAT(svg,
                testing::AllOf(testing::StartsWith("<svg"), testing::EndsWith("</svg>\n"), testing::HasSubstr("<polyline")));
    size_t boxes = 0;
    for (size_t at = svg.find("<title>"); at != std::string::npos; at = svg.find("<title>", at + 1)) boxes++;
    EXPECT_EQ(boxes, plan.tensors.size());
    const nlohmann::json json = plan_json(plan);
    EXPECT_EQ(json.at("calls").size(), plan.calls.size());
    EXPECT_EQ(json.at("calls")[1].at("on"), "host");
    EXPECT_EQ(json.at("arena_bytes"), plan.arena_bytes);
    EXPECT_THAT(plan_text({}), testing::HasSubstr("0 calls in 0 segments"));
    EXPECT_THAT(plan_svg({}), testing::StartsWith("<svg"));
}

}  // namespace
}  // namespace atalla
