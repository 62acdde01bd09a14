// Norms take the additions before them into their kernel, with the same bits.
#include "model/norm_fusion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/bf16.h"
#include "tests/model/graphs.h"

namespace atalla {
namespace {

const std::vector<int64_t> sizes = {8, 64};

struct Sum {
    Graph graph;
    ValueId a = add_input(graph, "a", sizes, GraphInput::Kind::User), b = add_input(graph, "b", sizes, GraphInput::Kind::User),
            c = add_input(graph, "c", sizes, GraphInput::Kind::User);

    ValueId add(ValueId self, ValueId other, int64_t alpha = 1) {
        return add_node(graph, "aten::add.Tensor", {{"self", self}, {"other", other}, {"alpha", SymInt(alpha)}}, sizes);
    }
    ValueId norm(ValueId of) {
        return add_node(graph, "aten::layer_norm",
                        {{"input", of},
                         {"normalized_shape", Sizes{SymInt(64)}},
                         {"weight", std::monostate{}},
                         {"bias", std::monostate{}},
                         {"eps", 1e-5}},
                        sizes);
    }
    void output(ValueId of) {
        GraphOutput one;
        one.value = of;
        one.name = "y";
        graph.outputs.push_back(one);
    }
    // Additions that each candidate of the norm, the last node, takes in.
    std::vector<size_t> candidates() {
        std::vector<size_t> lengths;
        const std::vector<PlacedNode> placed = place_nodes(graph, {});
        for (const Fusion &fusion : norm_fusions(graph, placed, graph.uses(), static_cast<int32_t>(graph.nodes.size()) - 1))
            lengths.push_back(fusion.nodes.size() - 1);
        return lengths;
    }
};

TEST(NormFusion, GivesTheBitsOfItsOperators) {
    for (const bool nested_first : {true, false})
        for (const char *machine : {"ax01", "fsim"}) {
            Sum sum;
            const ValueId inner = sum.add(sum.a, sum.b);
            sum.output(sum.norm(nested_first ? sum.add(inner, sum.c) : sum.add(sum.c, inner)));
            EXPECT_THAT(sum.candidates(), testing::ElementsAre(1, 2));
            const auto result = [&](bool fuse, size_t calls) {
                CompileModelOptions options;
                options.fuse = fuse;
                options.kernels.measured = 2;
                const CompiledModel compiled = compile_model(sum.graph, find_machine(machine), options);
                EXPECT_EQ(compiled.tables.specializations[0]->code->calls.size(), calls) << machine;
                Context context(Model::from_bytes(compiled.bytes, "norm.atl"));
                for (unsigned i = 0; i < 3; i++) context.set_input(i, random_tensor(sizes, i, 2));
                context.run();
                return bf16_elements(context.output(0));
            };
            EXPECT_EQ(result(true, 1), result(false, 3)) << machine;
        }
}

TEST(NormFusion, LeavesSumsThatAreReadElsewhere) {
    Sum used;
    const ValueId sum = used.add(used.a, used.b);
    used.output(sum);
    used.output(used.norm(sum));
    EXPECT_TRUE(used.candidates().empty());

    Sum inner_used;
    const ValueId inner = inner_used.add(inner_used.a, inner_used.b);
    inner_used.output(inner);
    inner_used.output(inner_used.norm(inner_used.add(inner, inner_used.c)));
    EXPECT_THAT(inner_used.candidates(), testing::ElementsAre(1));
}

TEST(NormFusion, LeavesOtherAdditions) {
    Sum scaled;
    scaled.output(scaled.norm(scaled.add(scaled.a, scaled.b, 2)));
    EXPECT_TRUE(scaled.candidates().empty());

    Sum broadcast;
    const ValueId row = add_input(broadcast.graph, "row", {64}, GraphInput::Kind::User);
    broadcast.output(broadcast.norm(broadcast.add(broadcast.a, row)));
    EXPECT_TRUE(broadcast.candidates().empty());
}

// A norm that one product reads is in front of it in its kernel where that is faster, with the same bits.
TEST(NormFusion, GoesInFrontOfAProduct) {
    for (const bool read_twice : {false, true}) {
        Sum sum;
        const ValueId weight = add_input(sum.graph, "w", {96, 64}, GraphInput::Kind::User), norm = sum.norm(sum.a);
        const auto product = [&](ValueId of) {
            return add_node(sum.graph, "aten::linear", {{"input", of}, {"weight", weight}, {"bias", std::monostate{}}},
                            {8, 96});
        };
        sum.output(product(norm));
        if (read_twice) sum.output(norm);
        const std::vector<PlacedNode> placed = place_nodes(sum.graph, {});
        const std::vector<Fusion> fusions = find_fusions(sum.graph, placed);
        EXPECT_EQ(fusions.size(), read_twice ? 0u : 1u);
        if (read_twice) continue;
        EXPECT_EQ(fusions[0].nodes, (std::vector<int32_t>{0, 1}));
        EXPECT_EQ(fusions[0].kernel.op->name(), "linear(layer_norm(t0, eps=1e-05), t1)");
        const auto result = [&](bool fuse, size_t calls) {
            CompileModelOptions options;
            options.fuse = fuse;
            options.kernels.measured = 2;
            const CompiledModel compiled = compile_model(sum.graph, find_machine("ax01"), options);
            EXPECT_EQ(compiled.tables.specializations[0]->code->calls.size(), calls);
            Context context(Model::from_bytes(compiled.bytes, "norm.atl"));
            for (unsigned i = 0; i < 4; i++)
                context.set_input(i, random_tensor(i < 3 ? sizes : std::vector<int64_t>{96, 64}, i, 2));
            context.run();
            return bf16_elements(context.output(0));
        };
        EXPECT_EQ(result(true, 1), result(false, 2));
    }
}

}  // namespace
}  // namespace atalla
