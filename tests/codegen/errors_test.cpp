// What does not match is an error that says why and shows the statement.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/compile.h"
#include "generators/vocabulary.h"
#include "isa/machine.h"
#include "tests/generators/pipelines.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

using namespace Halide;
using namespace vocabulary;
using testing::AllOf;
using testing::HasSubstr;

std::string compile_error(const Pipeline &pipeline, const std::vector<Argument> &arguments,
                          const std::string &machine = "ax01") {
    return error_of([&] { codegen::compile(pipeline, arguments, find_machine(machine)); });
}

// Y = f(X), both [rows][cols]: X is copied to the pads as `xs`, `f` makes the result `ys` there, and Y is copied out.
class Errors : public testing::Test {
protected:
    static constexpr int cols = 64, rows = 64;
    ImageParam x = tensor("X", {cols, rows});
    Var n{"n"}, m{"m"}, mo{"mo"}, mi{"mi"}, l{"l"};
    Func xs{"xs"}, ys{"ys"}, out{"Y"};

    void SetUp() override {
        xs(n, m) = x(n, m);
        in_pads({xs});
    }
    void schedule() {
        out(n, m) = ys(n, m);
        out.bound(n, 0, cols).bound(m, 0, rows).split(m, mo, mi, 4);
        xs.compute_at(out, mo);
        ys.compute_at(out, mo).vectorize(n, 32);
        in_pads({ys});
        whole_loops(out);
        fix_shape(out.output_buffer(), {cols, rows});
    }
    std::string error() { return compile_error(Pipeline(out), {x}); }
};

TEST_F(Errors, NoPlacement) {
    ys(n, m) = xs(n, m);
    schedule();
    xs.store_in(MemoryType::Stack);
    EXPECT_THAT(error(), AllOf(HasSubstr("'xs' has no placement: store_in(VTCM) for the pads, store_in(Register), or "
                                         "store_in(Heap) for scratch in memory"),
                               HasSubstr("allocate xs[bfloat16 * 256] in Stack")));
}

TEST_F(Errors, SizeThatDependsOnALoop) {
    ys(n, m) = strict_float(xs(n, m) + xs(n, 0));
    schedule();
    EXPECT_THAT(error(), AllOf(HasSubstr("the size of 'xs' is not a constant (use bound_storage)"),
                               HasSubstr("allocate xs[bfloat16 * 64 *")));
}

// The rows of X as `times` copies in memory, which come back to the pads: where the result will be.
class ScratchErrors : public Errors {
protected:
    Func written{"written"}, again{"again"};

    void write(int times) {
        Var k("k");
        written(n, m, k) = xs(n, m);
        again(n, m) = written(n, m, times - 1);
        ys(n, m) = strict_float(again(n, m) + bf16(1.0f));
        schedule();
        xs.compute_root();
        written.compute_root().bound(n, 0, cols).bound(m, 0, rows).bound(k, 0, times).store_in(MemoryType::Heap);
        whole_loops(written);
        in_pads({again});
    }
};

TEST_F(ScratchErrors, LargerThanTheResult) {
    write(2);
    again.compute_root();
    EXPECT_THAT(error(), HasSubstr("scratch in memory is larger than the result in whose place it lies"));
}

TEST_F(ScratchErrors, ReadInALoop) {
    write(1);
    again.compute_at(out, mo);
    EXPECT_THAT(error(), AllOf(HasSubstr("scratch in memory lies in the place of a result: what uses it runs once"),
                               HasSubstr("again[")));
}

TEST_F(Errors, CopyWhoseBoundsDependOnALoop) {
    ys(n, m) = strict_float(xs(n, m) + xs(n, 0));
    schedule();
    xs.bound_storage(m, rows);
    EXPECT_THAT(error(), AllOf(HasSubstr("depend on a loop outside the copy"), HasSubstr("for (xs.s0.m")));
}

TEST_F(Errors, MemoryReadByComputation) {
    ys(n, m) = strict_float(x(n, m) + bf16(1.0f));
    schedule();
    EXPECT_THAT(error(), AllOf(HasSubstr("computation reads 'X' in memory; copy it to the pads first"), HasSubstr("ys[ramp(")));
}

TEST_F(Errors, MemoryWrittenByComputation) {
    out(n, m) = strict_float(xs(n, m) + bf16(1.0f));
    out.bound(n, 0, cols).bound(m, 0, rows).vectorize(n, 32);
    xs.compute_root();
    whole_loops(out);
    fix_shape(out.output_buffer(), {cols, rows});
    EXPECT_THAT(error(), AllOf(HasSubstr("'Y' is written by computation; outputs are written by copies from the pads"),
                               HasSubstr("Y[ramp(")));
}

TEST_F(Errors, TransposeOfLanes) {
    ImageParam square = tensor("S", {32, 32});
    Func ss("ss"), ts("ts"), result("T");
    ss(n, m) = square(n, m);
    ts(n, m) = ss(m, n);
    result(n, m) = ts(n, m);
    result.bound(n, 0, 32).bound(m, 0, 32);
    ss.compute_root();
    ts.compute_root().vectorize(n, 32);
    in_pads({ss, ts});
    whole_loops(result);
    fix_shape(result.output_buffer(), {32, 32});
    EXPECT_THAT(compile_error(Pipeline(result), {square}),
                AllOf(HasSubstr("lanes of 'ss' are not next to each other in the pads (a transpose is needed)"),
                      HasSubstr("ts[ramp(")));
}

TEST_F(Errors, TransposeByCopy) {
    ImageParam square = tensor("S", {32, 32});
    Func ss("ss"), ts("ts"), result("T");
    ss(n, m) = square(m, n);
    ts(n, m) = strict_float(ss(n, m) + bf16(1.0f));
    result(n, m) = ts(n, m);
    result.bound(n, 0, 32).bound(m, 0, 32);
    ss.compute_root();
    ts.compute_root().vectorize(n, 32);
    in_pads({ss, ts});
    whole_loops(result);
    fix_shape(result.output_buffer(), {32, 32});
    EXPECT_THAT(compile_error(Pipeline(result), {square}),
                AllOf(HasSubstr("the copy of 'ss' does not move rows of neighbouring elements (a transpose by DMA)"),
                      HasSubstr("ss[")));
}

TEST_F(Errors, CallWithoutAnOperation) {
    ys(n, m) = bf16(tanh(f32(xs(n, m))));
    schedule();
    EXPECT_THAT(error(), AllOf(HasSubstr("the machine has no operation for 'tanh_f32'"), HasSubstr("ys[ramp(")));
}

TEST_F(Errors, ReciprocalOfLanes) {
    ys(n, m) = bf16(Internal::Call::make(Float(32), "atalla_rcp", {f32(xs(n, m))}, Internal::Call::PureExtern));
    schedule();
    EXPECT_THAT(error(), HasSubstr("the machine computes 'atalla_rcp' of single values, not of lanes"));
}

TEST_F(Errors, DivisionThatIsNotExact) {
    ys(n, m) = strict_float(xs(n, m) / bf16(3.0f));
    schedule();
    EXPECT_THAT(error(),
                AllOf(HasSubstr("the machine divides exactly by powers of two alone; multiply by atalla_rcp of the divisor"),
                      HasSubstr("strict_div")));
}

TEST_F(Errors, Float32Arithmetic) {
    ys(n, m) = bf16(strict_float(f32(xs(n, m)) * 3.0f + 1.0f));
    schedule();
    EXPECT_THAT(error(), HasSubstr("the machine rounds every result to bfloat16; so must the algorithm"));
}

TEST_F(Errors, Float32Constant) {
    ys(n, m) = bf16(strict_float(f32(xs(n, m)) * 0.1f));
    schedule();
    EXPECT_THAT(error(), HasSubstr("an operand is a float32 value, but lanes hold bfloat16; round it in the algorithm"));
}

TEST_F(Errors, Float32Accumulator) {
    Func total("total");
    RDom r(0, 2, "r");
    total(l, m) = 0.0f;
    total(l, m) += f32(xs(r * 32 + l, m));
    ys(n, m) = strict_float(xs(n, m) + bf16(total(n % 32, m)));
    schedule();
    total.compute_at(ys, m).vectorize(l, 32).bound_extent(l, 32).update().reorder(l, r).vectorize(l, 32);
    in_registers({total});
    EXPECT_THAT(error(), HasSubstr("the machine rounds every result to bfloat16; so must the algorithm"));
}

TEST_F(Errors, SingleValueInThePads) {
    Func largest("largest");
    RDom r(0, cols, "r");
    largest(m) = xs(0, m);
    ys(n, m) = strict_float(xs(n, m) + largest(m));
    schedule();
    largest.compute_at(out, mo).bound_extent(m, 32);
    in_pads({largest});
    EXPECT_THAT(error(), HasSubstr("a single value is stored to 'largest' in the pads, which hold whole vectors"));
}

TEST_F(Errors, LaneThatChanges) {
    ys(n, m) = strict_float(xs(n, m) + xs(m, 0));
    schedule();
    xs.compute_root();
    EXPECT_THAT(error(),
                HasSubstr("a single value of 'xs' is read from the pads in a lane that changes from iteration to iteration"));
}

TEST_F(Errors, VectorsOfAnotherWidth) {
    ys(n, m) = strict_float(xs(n, m) + bf16(1.0f));
    schedule();
    ys.vectorize(m, 2);
    EXPECT_THAT(error(), HasSubstr("cannot generate code"));
}

TEST_F(Errors, NotVectorized) {
    ys(n, m) = strict_float(xs(n, m) + bf16(1.0f));
    out(n, m) = ys(n, m);
    out.bound(n, 0, cols).bound(m, 0, rows);
    xs.compute_root();
    ys.compute_root();
    in_pads({ys});
    whole_loops(out);
    fix_shape(out.output_buffer(), {cols, rows});
    EXPECT_THAT(error(), HasSubstr("a single value is stored to 'ys' in the pads"));
}

TEST_F(Errors, ParallelLoop) {
    ys(n, m) = strict_float(xs(n, m) + bf16(1.0f));
    schedule();
    ys.parallel(m);
    EXPECT_THAT(error(), HasSubstr("the schedule has parallel or asynchronous loops, but the machine runs one thread"));
}

TEST_F(Errors, AsynchronousProducer) {
    ys(n, m) = strict_float(xs(n, m) + bf16(1.0f));
    schedule();
    ys.async();
    EXPECT_THAT(error(), HasSubstr("the schedule has parallel or asynchronous loops, but the machine runs one thread"));
}

TEST_F(Errors, MemoizedFunc) {
    ys(n, m) = strict_float(xs(n, m) + bf16(1.0f));
    schedule();
    ys.memoize();
    EXPECT_THAT(error(), HasSubstr("the schedule memoizes a Func, which needs a runtime"));
}

TEST_F(Errors, StatementUnderACondition) {
    RDom r(0, rows, "r");
    r.where(r % 3 == 1);
    ys(n, m) = xs(n, m);
    ys(n, m) = strict_float(ys(n, m) + xs(n, r));
    schedule();
    xs.compute_root();
    ys.update().reorder(n, m, r).vectorize(n, 32);
    EXPECT_THAT(error(), AllOf(HasSubstr("there is no code for a statement under a condition"), HasSubstr("if (")));
}

TEST_F(Errors, PadsThatAreTooSmall) {
    const KernelDefinition kernel = pipelines::relu({40, 64, 40});
    EXPECT_THAT(compile_error(kernel.pipeline, kernel.arguments, "fsim"),
                AllOf(HasSubstr("rows"), HasSubstr("use a smaller tile")));
}

TEST_F(Errors, TooManyRegisters) {
    const KernelDefinition kernel = pipelines::product({300, 32, 64, 300, true});
    EXPECT_THAT(compile_error(kernel.pipeline, kernel.arguments),
                HasSubstr("registers are live at once; use a smaller register tile"));
}

TEST_F(Errors, TensorOfAnotherType) {
    ImageParam ids(Int(32), 1, "ids");
    ys(n, m) = xs(n, m);
    schedule();
    EXPECT_THAT(compile_error(Pipeline(out), {x, ids}), HasSubstr("tensor 'ids' is not bfloat16"));
}

TEST_F(Errors, ScalarArgument) {
    Param<float> scale("scale");
    ys(n, m) = strict_float(xs(n, m) * bf16(scale));
    schedule();
    EXPECT_THAT(compile_error(Pipeline(out), {x, scale}), HasSubstr("scalar argument 'scale' is not supported"));
}

TEST_F(Errors, ScheduleThatHalideRefuses) {
    ys(n, m) = xs(n, m);
    schedule();
    xs.compute_at(ys, mi);
    EXPECT_THAT(error(), HasSubstr("Halide refuses the schedule"));
}

// ---- the weight buffer

class WeightErrors : public testing::Test {
protected:
    ImageParam a = tensor("A", {32, 8}), b = tensor("B", {32, 32});
    Var n{"n"}, m{"m"}, k{"k"}, w{"w"};
    Func as{"as"}, bs{"bs"}, weights{"weights"}, part{"part"}, sum{"sum"}, out{"C"};
    RDom q{0, 32, "q"};

    void define(int depth = 32) {
        as(k, m) = a(k, m);
        bs(k, n) = b(k, n);
        weights(k, w) = bs(k, w);
        part(n, m) = 0.0f;
        part(n, m) += f32(as(q, m)) * f32(weights(q, n));
        sum(n, m) = bf16(part(n, m));
        out(n, m) = sum(n, m);
        out.bound(n, 0, 32).bound(m, 0, 8);
        as.compute_root();
        bs.compute_root();
        sum.compute_root().vectorize(n, depth);
        part.compute_at(sum, m).vectorize(n, 32).update().reorder(q, n).atomic().vectorize(n, 32).vectorize(q, 32);
        weights.compute_root().vectorize(k, 32).bound_extent(w, 32);
        in_pads({as, bs, sum});
        in_registers({weights, part});
        whole_loops(out);
        fix_shape(out.output_buffer(), {32, 8});
    }
    std::string error() { return compile_error(Pipeline(out), {a, b}); }
};

TEST_F(WeightErrors, NoneAsItShouldBe) {
    define();
    EXPECT_EQ(error(), "no error");
}

TEST_F(WeightErrors, UnrolledFill) {
    define();
    weights.unroll(w);
    EXPECT_THAT(error(), HasSubstr("the weight tile 'weights' is not filled by one loop over its 32 vectors"));
}

TEST_F(WeightErrors, FillInAnotherOrder) {
    define();
    Var wo("wo"), wi("wi");
    weights.split(w, wo, wi, 8).reorder(wo, wi);
    EXPECT_THAT(error(), HasSubstr("the loop does not fill the vectors of one weight tile in order"));
}

TEST_F(WeightErrors, WeightsInThePads) {
    define();
    in_pads({weights});
    EXPECT_THAT(error(), HasSubstr("neither factor of the product is a weight tile (a Register Func of 32 x 32)"));
}

TEST_F(WeightErrors, TileThatIsNoLongerThere) {
    define();
    Func twice("twice"), second("second"), other("other"), result("D");
    second(k, w) = strict_float(bs(k, w) + bf16(1.0f));
    other(n, m) = 0.0f;
    other(n, m) += f32(as(q, m)) * f32(second(q, n));
    twice(n, m) = strict_float(bf16(other(n, m)) + bf16(part(n, m)));
    result(n, m) = twice(n, m);
    result.bound(n, 0, 32).bound(m, 0, 8);
    twice.compute_root().vectorize(n, 32);
    part.compute_at(twice, m);
    other.compute_at(twice, m).vectorize(n, 32).update().reorder(q, n).atomic().vectorize(n, 32).vectorize(q, 32);
    second.compute_root().vectorize(k, 32).bound_extent(w, 32);
    in_pads({twice});
    in_registers({second, other});
    whole_loops(result);
    fix_shape(result.output_buffer(), {32, 8});
    EXPECT_THAT(compile_error(Pipeline(result), {a, b}),
                HasSubstr("the weight buffer holds another tile here, or one that depends on the iteration"));
}

}  // namespace
}  // namespace atalla
