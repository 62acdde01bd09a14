// What placement adds to a node's own arguments.
#include "model/placement.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generators/registry.h"
#include "graph_import/infinities.h"
#include "graph_import/passes.h"
#include "tests/model/graphs.h"

namespace atalla {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

NamedArgument named(const std::string &name, Argument value) { return {name, std::move(value)}; }

ValueId every_second(Graph &graph, ValueId x) {
    return add_node(graph, "aten::slice.Tensor",
                    {named("self", x), named("dim", SymInt(1)), named("start", SymInt(0)), named("end", SymInt(64)),
                     named("step", SymInt(2))},
                    {64, 32});
}

HostTensor masked_corner(float value) {
    HostTensor mask = random_tensor({64, 64}, 1, 0);
    store_double(mutable_data(mask), DType::Float32, value);
    return mask;
}

struct Masked {
    Graph graph;
    ValueId x = add_input(graph, "x", {64, 64}, GraphInput::Kind::User);
    bool holds(ValueId id) const { return intended_infinities(graph)[static_cast<size_t>(id.index)]; }
    ValueId mask(float corner) { return add_input(graph, "mask", {64, 64}, GraphInput::Kind::Constant, masked_corner(corner)); }
    ValueId call(const std::string &target, std::vector<NamedArgument> arguments) {
        return add_node(graph, target, std::move(arguments), {64, 64});
    }
    ValueId sum(ValueId a, ValueId b) {
        return call("aten::add.Tensor", {named("self", a), named("other", b), named("alpha", SymInt(1))});
    }
};

TEST(IntendedInfinities, ComeFromConstantsNumbersAndLogarithms) {
    Masked m;
    for (const float value : {-std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
        EXPECT_TRUE(m.holds(m.sum(m.x, m.mask(value)))) << value;
    // The most negative float32, which many masks are made of, becomes the most negative bf16.
    EXPECT_FALSE(m.holds(m.sum(m.x, m.mask(std::numeric_limits<float>::lowest()))));
    EXPECT_TRUE(
        m.holds(m.call("aten::masked_fill.Scalar", {named("self", m.x), named("mask", m.mask(1)), named("value", -infinity)})));
    EXPECT_TRUE(m.holds(m.call("aten::log", {named("self", m.x)})));
    EXPECT_FALSE(m.holds(m.x));
    EXPECT_FALSE(m.holds(m.call("aten::exp", {named("self", m.x)})));
}

TEST(IntendedInfinities, EndWhereRowsAreNormalizedOrMultiplied) {
    Masked m;
    const ValueId scores = m.sum(m.x, m.mask(-std::numeric_limits<float>::infinity()));
    EXPECT_TRUE(m.holds(m.sum(scores, m.x)));
    const ValueId p =
        m.call("aten::softmax.int", {named("self", scores), named("dim", SymInt(-1)), named("dtype", std::monostate{})});
    EXPECT_FALSE(m.holds(m.sum(p, m.x)));
    EXPECT_FALSE(m.holds(m.call("aten::mm", {named("self", scores), named("mat2", m.x)})));
}

TEST(Placement, TakesSingleElementsThroughTheArrayWhereNoInfinityIsIntended) {
    Masked m;
    every_second(m.graph, m.x);
    every_second(m.graph, m.sum(m.x, m.mask(-std::numeric_limits<float>::infinity())));
    const std::vector<PlacedNode> placed = place_nodes(m.graph);
    ASSERT_EQ(placed[0].place, PlacedNode::Device) << placed[0].reason;
    EXPECT_THAT(placed[0].workload->text(), testing::HasSubstr("\"exact\":false"));
    EXPECT_EQ(placed[2].workload->text(),
              find_operator("slice")
                  .workload_of({{"x", {64, 64}}}, {{"dim", "1"}, {"start", "0"}, {"end", "64"}, {"step", "2"}})
                  ->text());
}

TEST(Placement, KeepsTheMaskThatIsTurned) {
    Masked m;
    const auto turned = [&](ValueId x) { m.call("aten::permute", {named("self", x), named("dims", Sizes{1, 0})}); };
    turned(m.x);
    turned(m.mask(-std::numeric_limits<float>::infinity()));
    const std::vector<PlacedNode> placed = place_nodes(m.graph);
    EXPECT_THAT(placed[0].workload->text(), testing::Not(testing::HasSubstr("exact")));
    EXPECT_THAT(placed[1].workload->text(), testing::HasSubstr("\"exact\":true"));
}

TEST(Placement, HasOneTextForWhatMovesByTransfersAlone) {
    Masked m;
    add_node(m.graph, "aten::slice.Tensor",
             {named("self", m.x), named("dim", SymInt(0)), named("start", SymInt(0)), named("end", SymInt(32)),
              named("step", SymInt(1))},
             {32, 64});
    const std::vector<PlacedNode> placed = place_nodes(m.graph);
    for (const char *exact : {"true", "false"})
        EXPECT_EQ(placed[0].workload->text(),
                  find_operator("slice")
                      .workload_of({{"x", {64, 64}}}, {{"dim", "0"}, {"start", "0"}, {"end", "32"}, {"exact", exact}})
                      ->text());
}

TEST(Placement, ChoosesByComparisonsOnTheAccelerator) {
    Masked m;
    const ValueId above = m.call("aten::gt.Scalar", {named("self", m.x), named("other", 0.5)});
    m.graph.value(above).type.dtype = DType::Bool;
    const ValueId chosen =
        m.call("aten::where.ScalarOther", {named("condition", above), named("self", m.x), named("other", 0.0)});
    const ValueId counted = m.call("aten::_to_copy", {named("self", above), named("dtype", DType::Float32)});
    for (ValueId id : {chosen, counted}) m.graph.outputs.push_back({GraphOutput::Kind::User, id, "y"});
    run_passes(m.graph);
    const std::vector<PlacedNode> placed = place_nodes(m.graph);
    for (size_t i = 0; i < placed.size(); i++)
        EXPECT_EQ(placed[i].place, PlacedNode::Device) << m.graph.nodes[i].target << ": " << placed[i].reason;
}

}  // namespace
}  // namespace atalla
