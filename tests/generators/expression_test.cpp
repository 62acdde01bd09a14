// Groups of operators as text: what they mean, their kernels, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generators/evaluate.h"
#include "generators/expression.h"
#include "generators/registry.h"
#include "schedules/random.h"
#include "tests/generators/refusal.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

using testing::HasSubstr;

TEST(Expression, CanonicalText) {
    const auto canonical = [](const std::string &text) { return parse_expression(text).text(); };
    EXPECT_EQ(canonical(" gelu( add(x,y) ,approximate = tanh )"), "gelu(add(x, y), approximate=tanh)");
    EXPECT_EQ(canonical("add(x, -2.50)"), "add(x, -2.5)");
    EXPECT_EQ(canonical("mul(x, 1e3)"), "mul(x, 1000)");
    EXPECT_EQ(canonical("conv2d(x, w, stride=[ 1, 2 ])"), "conv2d(x, w, stride=[1,2])");
    EXPECT_EQ(parse_expression("add(b, mul(a, b))").inputs(), (std::vector<std::string>{"b", "a"}));
    EXPECT_EQ(find_operator("relu( x )").name(), "relu(x)");
    EXPECT_EQ(&find_operator("relu( x )"), &find_operator("relu(x)"));
}

TEST(Expression, SaysWhereItIsWrong) {
    EXPECT_EQ(error_of([] { parse_expression("add(x, y"); }),
              "the expression 'add(x, y' is wrong after 'add(x, y': ',' or ')' is missing; an example: gelu(add(x, y))");
    EXPECT_THAT(error_of([] { parse_expression("add(x,)"); }), HasSubstr("a name or a number is missing"));
    EXPECT_THAT(error_of([] { parse_expression("conv2d(x, w, stride=[1,])"); }), HasSubstr("a number is missing"));
    EXPECT_THAT(error_of([] { parse_expression("conv2d(x, w, stride=[1 2])"); }), HasSubstr("',' or ']' is missing"));
    EXPECT_THAT(error_of([] { parse_expression("relu(x) y"); }), HasSubstr("nothing may follow"));
    const std::string only =
        "An expression has only these, behind at most a product or a convolution, and in front of a product a norm or softmax "
        "of an input; other operators are kernels of their own (softmax between two products: scaled_dot_product_attention)";
    EXPECT_EQ(error_of([] { find_operator("gellu(x)"); }), "'gellu' is no pointwise operator; did you mean 'gelu'? " + only);
    EXPECT_EQ(error_of([] { find_operator("softmax(mul(x, y))"); }), "'softmax' is no pointwise operator. " + only);
    EXPECT_EQ(error_of([] { find_operator("add(x)"); }), "add takes 2 operands, not 1");
    EXPECT_EQ(error_of([] { find_operator("gelu(x, approximate=erf)"); }), "gelu: approximate must be none or tanh, not 'erf'");
    EXPECT_THAT(error_of([] { find_operator("pow(x, 1.7)"); }), HasSubstr("pow: the exponent must be one of"));
    EXPECT_THAT(error_of([] { find_operator("softplus(x, beta=2)"); }), HasSubstr("softplus: beta must be 1"));
}

TEST(Expression, IsOneKernelWhoseTextIsReadBack) {
    const Operator &op = find_operator("gelu(add(x, mul(y, 0.5)))");
    const auto workload = op.workload({{"shape", "8x40,40"}});
    EXPECT_EQ(workload->inputs().size(), 2u);
    EXPECT_EQ(find_operator(op.name()).parse(workload->text())->text(), workload->text());
}

// Rows that straight code makes and a loop of two k tiles reads: no transfer changes their slot.
TEST(Expression, RowsThatWereMadeAreReadByTheirTile) {
    const Point point = {{"b_block", 1},
                         {"b_resident", 0},
                         {"b_row_major", 0},
                         {"blocks_unrolled", 0},
                         {"k_block", 2},
                         {"k_ends_apart", 0},
                         {"m_outer", 1},
                         {"pads_split", 0},
                         {"prologue_grouped", 0},
                         {"prologue_reduced", 0},
                         {"prologue_row_unroll", 2},
                         {"prologue_rows", 2},
                         {"prologue_stored", 0},
                         {"prologue_vector_unroll", 2},
                         {"row_pass", 0},
                         {"row_unroll", 1},
                         {"rows", 2},
                         {"slots", 2},
                         {"sums_in_registers", 0},
                         {"weight_unroll", 16}};
    EXPECT_EQ(Evaluator(find_operator("mm(rms_norm(x, g, eps=0.001), y)").workload({{"shape", "2x64,64,64x64"}}),
                        find_machine("ax01"))
                  .verify(point),
              "");
}

// Two of so many points run, take no fewer cycles than the bound, and give what the unoptimized program gives.
void verify_at_two_points(const char *text, const char *shape, const char *name, uint64_t points) {
    const Machine machine = find_machine(name);
    const Operator &op = find_operator(text);
    const std::shared_ptr<const Workload> workload = op.workload({{"shape", shape}});
    EXPECT_EQ(op.parse(workload->text())->text(), workload->text());
    const Evaluator evaluator(workload, machine);
    Random random(3);
    int verified = 0;
    for (const Point &point : sample_distinct(workload->space(machine), points, random)) {
        const Evaluation evaluation = evaluator.evaluate(point);
        if (evaluation.status != Evaluation::Ok) continue;
        EXPECT_EQ(evaluator.verify(point), "") << text << " " << point.assignments();
        EXPECT_GE(evaluation.cycles, workload->bound(machine).cycles) << text;
        if (++verified == 2) break;
    }
    EXPECT_GT(verified, 0) << text << " on " << name;
}

TEST(ProductExpression, IsVerifiedAtSomePoints) {
    struct Case {
        const char *op, *shape;
    };
    for (const Case &c :
         {Case{"relu(add(linear(x, w, b), r))", "33x40,50x40,50,33x50"}, Case{"tanh(add(bmm(x, y), z))", "3x20x40,3x40x70,70"},
          Case{"mul(silu(linear(x, w)), z)", "1x64,96x64,96"}, Case{"hardtanh(mm(x, y), max_val=6, min_val=0)", "40x33,33x20"},
          Case{"relu(conv1x1(w, x, b))", "40x24x1x1,2x24x5x9,40"}, Case{"add(conv1x1(w, x), r)", "34x40x1,40x37,34x37"},
          Case{"mul(mm(x, y), c)", "40x33,33x70,40x1"}})
        for (const char *name : {"ax01", "fsim"}) verify_at_two_points(c.op, c.shape, name, 6);
}

// A product whose first operand is made by another, on sizes that end inside tiles. What it makes must fit the pads.
TEST(ProductExpression, OfAProductIsVerifiedAtSomePoints) {
    struct Case {
        const char *op, *shape;
    };
    for (const Case &c : {Case{"linear(gelu(linear(x, w1, b1)), w2, b2)", "33x40,50x40,50,70x50,70"},
                          Case{"mm(relu(mm(x, y)), z)", "5x33,33x40,40x20"},
                          Case{"addmm(c, silu(addmm(d, x, y, beta=0.5)), z, alpha=2)", "20,40,5x33,33x40,40x20"},
                          Case{"add(linear(linear(rms_norm(x, g), w1), w2), r)", "1x64,64,96x64,32x96,32"}})
        for (const char *name : {"ax01", "ax01-psum"}) verify_at_two_points(c.op, c.shape, name, 4);
    // Two pads of 32 rows have room for the weights of both products alone.
    const Space none =
        find_operator("linear(linear(x, w1), w2)").workload({{"shape", "2x32,32x32,32x32"}})->space(find_machine("fsim"));
    EXPECT_EQ(count(none), 0u);
    EXPECT_THAT(why_empty(none), HasSubstr("with all columns of the inner product's rows"));
}

TEST(ProductExpression, RefusesByName) {
    EXPECT_EQ(error_of([] { find_operator("add(mm(x, y), mm(x, z))"); }),
              "add(mm(x, y), mm(x, z)) has two products; one kernel computes one");
    EXPECT_THAT(error_of([] { find_operator("relu(mm(relu(x), y))"); }), HasSubstr("the product's tensors must be inputs"));
    EXPECT_EQ(error_of([] { find_operator("relu(mm(x))"); }), "mm takes 2 tensors, not 1");
    EXPECT_THAT(error_of([] { find_operator("mm(x, layer_norm(y))"); }),
                HasSubstr("the first operand may be a norm or a softmax"));
    EXPECT_EQ(error_of([] { find_operator("mm(relu(mm(mm(x, y), z)), w)"); }),
              "mm(relu(mm(mm(x, y), z)), w) has three products one behind the other; one kernel computes two");
    EXPECT_THAT(error_of([] { find_operator("mm(add(mm(x, y), r), z)"); }),
                HasSubstr("pointwise operators of the first one alone, but r is another operand"));
    EXPECT_EQ(error_of([] { find_operator("mm(relu(mm(x, y)), y)"); }), "mm(relu(mm(x, y)), y): an input is given twice");
    EXPECT_THAT(refusal("linear(matmul(x, v), w)", {{"shape", "8x4,4,3x8"}}),
                HasSubstr("matmul in front of a product makes 8 rows of 1 elements, but the product takes 1 of 8"));
    EXPECT_THAT(refusal("linear(bmm(x, y), w)", {{"shape", "2x4x8,2x8x6,5x6"}}),
                HasSubstr("bmm in front of a product makes the rows of one, not of a batch"));
    EXPECT_EQ(error_of([] { find_operator("mm(layer_norm(x, g, h, r), y)"); }), "layer_norm takes 1 to 3 tensors, not 4");
    EXPECT_EQ(error_of([] { find_operator("mm(layer_norm(relu(x)), y)"); }),
              "layer_norm(relu(x)): tensors of an operator in front of a product must be inputs");
    EXPECT_EQ(error_of([] { find_operator("mm(layer_norm(x), x)"); }), "mm(layer_norm(x), x): an input is given twice");
    EXPECT_THAT(refusal("bmm(layer_norm(x), y)", {{"shape", "2x4x8,2x8x6"}}),
                HasSubstr("makes the rows of one, not of a batch; it is a kernel of its own"));
    EXPECT_THAT(refusal("mm(softmax(x, dim=0), y)", {{"shape", "4x8,8x6"}}),
                HasSubstr("softmax in front of a product is along the last axis"));
    EXPECT_THAT(refusal("mm(layer_norm(x, g), y)", {{"shape", "4x8,7,8x6"}}),
                HasSubstr("expected weight of the same shape as normalized_shape"));
    EXPECT_THAT(error_of([] { find_operator("add(mm(x, y), x)"); }), HasSubstr("give it a second name"));
    EXPECT_THAT(refusal("add(mm(x, y), z)", {{"shape", "4x8,8x6,1x1"}}),
                HasSubstr("z of 1x1 is neither of the product's shape nor one row or column of it"));
}

}  // namespace
}  // namespace atalla
