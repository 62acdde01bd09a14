// Symbolic sizes, binding them, node arguments, schemas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "graph_import/guards.h"
#include "graph_import/interpret.h"
#include "graph_import/schema.h"
#include "isa/error.h"
#include "tests/graph_import/fixtures.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

SymInt s(const char *name) { return SymInt::symbol(name); }

TEST(Symbolic, NormalForm) {
    EXPECT_EQ((s("a") + 1) * SymInt(2), s("a") * 2 + 2);
    EXPECT_EQ((s("a") + s("b")).text(), (s("b") + s("a")).text());
    EXPECT_EQ((s("a") - s("a")).value(), 0);
    EXPECT_EQ((s("a") * 4 + 1).text(), "4*a + 1");
    EXPECT_EQ(SymInt::make(SymInt::Op::FloorDiv, {s("a") * 6, 3}), s("a") * 2);
    EXPECT_EQ(SymInt::make(SymInt::Op::Mod, {SymInt(-7), 3}).value(), 2);
    EXPECT_EQ(SymInt::make(SymInt::Op::FloorDiv, {SymInt(-7), 3}).value(), -3);
}

TEST(Symbolic, Parses) {
    EXPECT_EQ(parse_symbolic("Add(Mul(Integer(4), Symbol('s77', positive=True, integer=True)), Integer(1))"), s("s77") * 4 + 1);
    EXPECT_EQ(parse_symbolic("Mul(Integer(-1), Integer(2), Symbol('u0', integer=True))"), s("u0") * -2);
    EXPECT_EQ(parse_symbolic("Pow(Symbol('a'), Integer(2))"), s("a") * s("a"));
    EXPECT_EQ(parse_symbolic("Max(Integer(1), Symbol('a'))").evaluate({{"a", 0}}), 1);
    EXPECT_EQ(parse_symbolic("GreaterThan(Symbol('a'), Integer(3))").evaluate({{"a", 3}}), 1);
    const SymInt unknown = parse_symbolic("CeilToInt(IntTrueDiv(Symbol('a'), Integer(2)))");
    EXPECT_THROW(unknown.evaluate({{"a", 4}}), Error);
    for (const char *bad :
         {"", "Add(", "Add()", "Symbol(", "Symbol('')", "Integer('x')", "Mul(Integer(1)))", "FloorDiv(Integer(1))"}) {
        EXPECT_THROW(parse_symbolic(bad), Error) << bad;
    }
    std::string deep;
    for (int i = 0; i < 100000; i++) deep += "Add(";
    EXPECT_THROW(parse_symbolic(deep), Error);
}

TEST(Symbolic, ErrorsName) {
    EXPECT_THROW(SymInt(INT64_MAX) + 1, Error);
    EXPECT_THROW(SymInt::make(SymInt::Op::FloorDiv, {SymInt(1), 0}), Error);
    try {
        (s("s77") + 1).evaluate({});
        FAIL();
    } catch (const Error &error) {
        EXPECT_STREQ(error.what(), "size s77 has no value");
    }
}

TEST(Guards, Hold) {
    const std::map<std::string, std::vector<int64_t>> sizes = {{"x", {8, 3}}, {"parts_0", {5}}};
    EXPECT_TRUE(guard_holds("(L['x'].size()[0] % 4) == 0", sizes));
    EXPECT_FALSE(guard_holds("L['x'].size()[1] <= 2", sizes));
    EXPECT_TRUE(guard_holds("math.trunc(L['x'].size()[0] / 3) == 2 and not L['x'].size()[0] == 7", sizes));
    EXPECT_TRUE(guard_holds("L['parts'][0].size()[0] != max(1, L['x'].size()[0] // 2)", sizes));
    EXPECT_TRUE(guard_holds("2 <= L['x'].size()[0] <= 8", sizes));
    for (const char *bad :
         {"", "L['y'].size()[0] == 1", "L['x'].size()[9] == 1", "f(1)", "L['x'].size()[0] == 8 8", "1 / 0 == 1"}) {
        EXPECT_THROW(guard_holds(bad, sizes), Error) << bad;
    }
}

std::string binding_error(const Graph &graph, const std::vector<std::vector<int64_t>> &sizes) {
    return error_of([&] { bind_symbols(graph, sizes); });
}

TEST(Guards, BindSizesOfACall) {
    const Fixtures fixtures("models");
    const Graph bert = fixtures.import(fixtures.find("bert_dynamic")).graph;
    const Bindings bound = bind_symbols(bert, {{3, 9}, {3, 9}});
    EXPECT_EQ(bound.size(), 2u);
    EXPECT_THAT(binding_error(bert, {{3, 9}, {4, 9}}), testing::HasSubstr("must be equal to input_ids.size()[0], which is 3"));
    EXPECT_THAT(binding_error(bert, {{65, 9}, {65, 9}}),
                testing::HasSubstr("input_ids.size()[0] is 65, but the model was exported for 1 <= "));
    EXPECT_THAT(binding_error(bert, {{3}, {3}}), testing::HasSubstr("has 1 dimensions"));
    EXPECT_THAT(binding_error(bert, {{3, 9}}), testing::HasSubstr("takes 2 inputs"));
    const Graph mlp = fixtures.import(fixtures.find("mlp")).graph;
    EXPECT_THAT(binding_error(mlp, {{3, 13}}), testing::HasSubstr("exported for the constant size 12"));
    const Fixtures scenarios("scenarios");
    const Graph derived = scenarios.import(scenarios.find("dynamic_derived")).graph;
    EXPECT_EQ(binding_error(derived, {{6, 3}, {7, 3}}), "no error");
    EXPECT_NE(binding_error(derived, {{6, 3}, {6, 3}}), "no error");
}

TEST(Schemas, FillDefaults) {
    const Schema *schema = find_schema("aten::conv2d");
    ASSERT_TRUE(schema);
    EXPECT_EQ(schema->arguments.size(), 7u);
    EXPECT_EQ(std::get<Sizes>(*schema->arguments[3].otherwise), (Sizes{1, 1}));
    EXPECT_EQ(find_schema("aten::nothing"), nullptr);
    EXPECT_EQ(find_schema("mine::conv2d"), nullptr);
    EXPECT_DOUBLE_EQ(std::get<double>(*find_schema("aten::layer_norm")->arguments[4].otherwise), 1e-5);
    EXPECT_EQ(std::get<std::string>(*find_schema("aten::gelu")->arguments[1].otherwise), "none");
    EXPECT_THROW(parse_schema("nothing"), Error);
}

TEST(Nodes, ArgumentsByName) {
    Node node;
    node.target = "aten::thing";
    node.arguments = {{"dim", SymInt(2)},
                      {"eps", 0.5},
                      {"flag", true},
                      {"sizes", Sizes{1, 2}},
                      {"none", std::monostate{}},
                      {"open", SymInt::symbol("s1")}};
    EXPECT_EQ(node.integer("dim"), 2);
    EXPECT_EQ(node.number("dim"), 2.0);
    EXPECT_EQ(node.integers("dim"), (std::vector<int64_t>{2}));
    EXPECT_EQ(node.integers("sizes"), (std::vector<int64_t>{1, 2}));
    EXPECT_FALSE(node.optional_integer("none"));
    EXPECT_FALSE(node.optional_tensor("absent"));
    for (const char *name : {"eps", "none", "absent", "open", "sizes"}) EXPECT_THROW(node.integer(name), Error) << name;
    EXPECT_THROW(node.tensor("dim"), Error);
}

TEST(State, ACacheKeepsWhatItWasGiven) {
    const Fixtures fixtures("models");
    const Fixture &fixture = fixtures.find("cache");
    const Graph graph = fixtures.import(fixture).graph;
    const Interpretation first = interpret(graph, fixture.inputs);
    ASSERT_EQ(first.mutated.size(), 2u);
    HostTensor next = make_tensor(DType::Int64, {1});
    store_int(mutable_data(next), DType::Int64, 3);
    const Interpretation kept = interpret(graph, {fixture.inputs[0], next}, first.mutated);
    const Interpretation fresh = interpret(graph, {fixture.inputs[0], next});
    EXPECT_GT(difference(*kept.outputs[0], *fresh.outputs[0]), 1e-3);
    EXPECT_EQ(graph.outputs[0].kind, GraphOutput::Kind::Mutation);
}

TEST(Tensors, RoundLikeTheMachine) {
    const auto bf16 = [](double value) {
        HostTensor t = make_tensor(DType::BFloat16, {});
        store_double(mutable_data(t), DType::BFloat16, value);
        return element_as_double(t, 0);
    };
    EXPECT_EQ(bf16(1 + 0x1p-8), 1);                     // a tie, to even
    EXPECT_EQ(bf16(1 + 0x1p-8 + 0x1p-40), 1 + 0x1p-7);  // above the tie by less than a float sees
    EXPECT_EQ(bf16(-3.5), -3.5);
    EXPECT_TRUE(std::isnan(bf16(NAN)));
    EXPECT_TRUE(std::isinf(bf16(1e300)));
    HostTensor half = make_tensor(DType::Float16, {});
    for (const double value : {0.0, -0.0, 1.0, -0.5, 65504.0, 0x1p-24, 0x1p-14, 0.333251953125}) {
        store_double(mutable_data(half), DType::Float16, value);
        EXPECT_EQ(element_as_double(half, 0), value);
        EXPECT_EQ(std::signbit(element_as_double(half, 0)), std::signbit(value));
    }
}

}  // namespace
}  // namespace atalla
