// Lowering runs Halide's passes by itself (codegen/lower.cpp): the loops are those of Halide's own lowering.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "codegen/lets.h"
#include "codegen/lowered.h"
#include "generators/registry.h"
#include "schedules/random.h"

namespace atalla {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Int;

std::string text_of(const Stmt &stmt) {
    std::ostringstream text;
    text << stmt;
    return text.str();
}

// Both number names anew: t12, Func$3, Func.s0.x.max_1.
std::string without_numbers_of_names(const Stmt &stmt) {
    static const std::regex numbers("(_[0-9]+)?\\$[0-9]+|\\bt[0-9]+|_[0-9]+\\b");
    return std::regex_replace(text_of(stmt), numbers, "");
}

void expect_loops_of_halide(const KernelDefinition &kernel) {
    const Halide::Target target("x86-64-linux-no_asserts-no_bounds_query-no_runtime");
    const Halide::Module module = Halide::Pipeline(kernel.pipeline).compile_to_module(kernel.arguments, "kernel", target);
    ASSERT_EQ(module.functions().size(), 1u);
    const LoweredFunc &theirs = module.functions().front(), ours = codegen::lower(kernel.pipeline, kernel.arguments).function;
    EXPECT_EQ(without_numbers_of_names(ours.body), without_numbers_of_names(theirs.body));
    ASSERT_EQ(ours.args.size(), theirs.args.size());
    for (size_t i = 0; i < ours.args.size(); i++) EXPECT_EQ(ours.args[i].name, theirs.args[i].name);
}

TEST(Lowering, MakesTheLoopsOfHalide) {
    const std::vector<std::pair<std::string, WorkloadArguments>> kernels = {
        {"gemm", {{"shape", "100x70x50"}}},
        {"gemm", {{"shape", "64x200x96"}, {"b-layout", "nk"}, {"bias", "true"}}},
        {"conv2d", {{"shape", "1x40x9x9,33x40x3x3"}, {"padding", "1"}}},
        {"conv2d", {{"shape", "1x32x12x12,32x1x3x3"}, {"padding", "1"}, {"groups", "32"}}},
        {"scaled_dot_product_attention", {{"shape", "1x2x70x64,1x2x70x64,1x2x70x64"}, {"is-causal", "true"}}},
        {"softmax", {{"shape", "12x77"}}},
        {"layer_norm", {{"shape", "40x100,100,100"}}},
        {"amax", {{"shape", "8x50x64"}, {"dim", "1"}}},
        {"max_pool2d", {{"shape", "1x33x14x14"}, {"kernel-size", "3"}, {"stride", "2"}}},
        {"transpose", {{"shape", "70x45"}, {"dim0", "0"}, {"dim1", "1"}}},
        {"cat", {{"shape", "20x30,20x17"}, {"dim", "1"}}},
        {"gelu", {{"shape", "1000"}}},
    };
    // Halide puts common subexpressions in the order of their names: t1000 and t1001 are in that of their numbers, t99 and t100
    // not.
    for (int name = 0; name < 10'000; name++) unique_name('t');
    Random random(11);
    for (const char *name : {"ax01", "fsim"})
        for (const auto &[op, arguments] : kernels) {
            const Machine machine = find_machine(name);
            const auto workload = find_operator(op).workload(arguments);
            expect_loops_of_halide(workload->build(machine, workload->naive_point(machine)));
            for (const Point &point : sample_distinct(workload->space(machine), 2, random)) {
                SCOPED_TRACE(op + " " + name + " " + point.assignments());
                expect_loops_of_halide(workload->build(machine, point));
            }
        }
}

class Lets : public testing::Test {
protected:
    const Expr a = Variable::make(Int(32), "a"), b = Variable::make(Int(32), "b"), n = Variable::make(Int(32), "n");
    static Stmt store(const Expr &value) { return Store::make("out", value, 0, {}, const_true(), {}); }
    static Stmt loop(const std::string &name, const Expr &min, const Expr &extent, const Stmt &body) {
        return For::make(name, min, extent, ForType::Serial, Halide::Partition::Auto, Halide::DeviceAPI::None, body);
    }
};

TEST_F(Lets, ThatNobodyReadsGo) {
    const Stmt read = store(a);
    EXPECT_EQ(text_of(codegen::remove_dead_lets(LetStmt::make("a", b, LetStmt::make("n", a, read)), codegen::LoopBounds::Keep)),
              text_of(LetStmt::make("a", b, read)));
    // A chain of which only the last is read.
    const Stmt chain = LetStmt::make("b", 1, LetStmt::make("a", b + 1, LetStmt::make("n", a + 1, store(5))));
    EXPECT_EQ(text_of(codegen::remove_dead_lets(chain, codegen::LoopBounds::Keep)), text_of(store(5)));
    const Stmt needed = LetStmt::make("b", 1, LetStmt::make("a", b + 1, read));
    EXPECT_TRUE(codegen::remove_dead_lets(needed, codegen::LoopBounds::Keep).same_as(needed));
}

TEST_F(Lets, OfOneNameAreToldApart) {
    // Whatever of the two comes first: the outer definition is read beside the inner one, which is not read.
    const Stmt inner = LetStmt::make("a", 2, store(3)), outer = store(a);
    for (const Stmt &body : {Block::make(inner, outer), Block::make(outer, inner)}) {
        const Stmt left = codegen::remove_dead_lets(LetStmt::make("a", 1, body), codegen::LoopBounds::Keep);
        ASSERT_TRUE(left.as<LetStmt>()) << left;
        EXPECT_EQ(text_of(left).find("let a = 2"), std::string::npos) << left;
    }
    // The inner one is read, and reads the outer one.
    const Stmt both = LetStmt::make("a", 1, LetStmt::make("a", a + 1, outer));
    EXPECT_TRUE(codegen::remove_dead_lets(both, codegen::LoopBounds::Keep).same_as(both));
    const Stmt first = LetStmt::make("a", 1, LetStmt::make("a", 2, outer));
    EXPECT_EQ(text_of(codegen::remove_dead_lets(first, codegen::LoopBounds::Keep)), text_of(LetStmt::make("a", 2, outer)));
}

TEST_F(Lets, OfBoundsOfLoopsStayWhereAsked) {
    const Stmt body = loop("x", 0, n, store(1));
    const Stmt defined = LetStmt::make("x.loop_max", n - 1, LetStmt::make("y.loop_max", n - 1, body));
    EXPECT_EQ(text_of(codegen::remove_dead_lets(defined, codegen::LoopBounds::Keep)),
              text_of(LetStmt::make("x.loop_max", n - 1, body)));
    EXPECT_EQ(text_of(codegen::remove_dead_lets(defined, codegen::LoopBounds::Remove)), text_of(body));
}

TEST_F(Lets, OfIntegersAndNamesAreSubstituted) {
    const Stmt lets =
        LetStmt::make("a", Expr(3) + 4,
                      LetStmt::make("b", n, LetStmt::make("c", max(b, n) + (a - 7), store(Variable::make(Int(32), "c") * a))));
    EXPECT_EQ(text_of(codegen::substitute_lets(lets)), text_of(store(n * 7)));
    // Halide's division leaves no negative rest.
    EXPECT_EQ(text_of(codegen::substitute_lets(LetStmt::make("a", -7, store(a / 2)))), text_of(store(-4)));
    EXPECT_EQ(text_of(codegen::substitute_lets(LetStmt::make("a", -7, store(a % 2)))), text_of(store(1)));
    // What does not fit stays what it is.
    const Stmt large = store(Expr(0x7fffffff) + Expr(1));
    EXPECT_EQ(text_of(codegen::substitute_lets(large)), text_of(large));
}

TEST_F(Lets, MakeAssertionsTrue) {
    const auto asserts = [&](const Expr &condition) {
        const Expr message = Call::make(Int(32), "halide_error", {a}, Call::Extern);
        return LetStmt::make("a", 5, Block::make(AssertStmt::make(condition, message), store(1)));
    };
    EXPECT_EQ(text_of(codegen::substitute_lets(asserts(a >= 0 && a < 6))), text_of(store(1)));
    EXPECT_THAT(text_of(codegen::substitute_lets(asserts(a < 5))), testing::HasSubstr("assert"));
    EXPECT_THAT(text_of(codegen::substitute_lets(asserts(a < n))), testing::HasSubstr("assert"));
}

TEST_F(Lets, DefineBoundsOfLoopsThatHaveNone) {
    const Stmt body = loop("x", 2, 6, store(1));
    EXPECT_EQ(text_of(codegen::define_loop_bounds(body)),
              text_of(LetStmt::make("x.loop_min", 2, LetStmt::make("x.loop_max", 7, body))));
    const Stmt known = LetStmt::make("x.loop_max", n, body);
    EXPECT_EQ(text_of(codegen::define_loop_bounds(known)),
              text_of(LetStmt::make("x.loop_max", n, LetStmt::make("x.loop_min", 2, body))));
}

}  // namespace
}  // namespace atalla
