// The operator that docs/add-an-operator.md shows: every schedule of it is right, and messages name what is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "generators/evaluate.h"
#include "generators/pipeline_workload.h"
#include "generators/vocabulary.h"
#include "isa/error.h"
#include "isa/vectors.h"
#include "simulator/numerics.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

using namespace Halide;
using namespace vocabulary;

class Twice : public PipelineWorkload {
public:
    explicit Twice(const WorkloadRequest &request) : PipelineWorkload(request) {
        const Shape &shape = request.shape("x");
        if (shape.size() != 2 || element_count(shape) == 0 || shape[1] % lanes != 0)
            throw Error(request.op + ": x must have two dimensions, the second a multiple of 32");
        inputs_ = {tensor_spec("x", shape)};
        set_result("y", shape);
    }

    Space space(const Machine &machine) const override {
        const int64_t vectors = columns() / lanes, room = machine.pad.count * machine.pad_rows() / 2;
        Space space;
        space.parameter("rows", "rows in the pads at a time", divisors(rows(), rows()));
        space.constraint("pads", {"rows"}, "Two slots of rows and two of results take half of the pads at most.",
                         [=](const Point &point) { return 4 * point["rows"] * vectors <= room; });
        return space;
    }

    KernelDefinition build(const Machine &, const Point &point) const override {
        const Var n("n"), m("m"), mo("mo"), mi("mi");
        const ImageParam x = tensor("x", inputs_[0].extents);
        Func xs("xs"), ys("ys"), y("y");
        // The algorithm: a copy to the pads, the sum, a copy from the pads.
        xs(n, m) = x(n, m);
        ys(n, m) = strict_float(xs(n, m) + xs(n, m));
        y(n, m) = ys(n, m);
        // The schedule: so many rows at a time, with two slots where there are several blocks.
        y.bound(n, 0, size(columns())).bound(m, 0, size(rows())).split(m, mo, mi, size(point["rows"]));
        for (Func rows_of : {xs, ys}) {
            rows_of.compute_at(y, mo);
            if (point["rows"] < rows()) rows_of.hoist_storage_root().ring_buffer(2);
        }
        ys.vectorize(n, lanes);
        in_pads({xs, ys});
        whole_loops(y);
        fix_shape(y.output_buffer(), inputs_[0].extents);
        return kernel(Pipeline(y), {x});
    }

    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override {
        Reference reference;
        for (const uint16_t element : inputs[0]) {
            reference.values.push_back(2 * static_cast<double>(bf16_float(element)));
            reference.peaks.push_back(std::abs(reference.values.back()));
        }
        return {std::move(reference)};
    }
    double tolerance_ulps() const override { return 0; }

protected:
    KernelWork work(const Machine &) const override {
        KernelWork work;
        work.bytes = tensor_bytes();
        work.lanes.adds = work.rows_loaded = work.rows_stored = inputs_[0].elements() / lanes;
        return work;
    }

private:
    int64_t columns() const { return inputs_[0].extents[0]; }
    int64_t rows() const { return inputs_[0].extents[1]; }
};

std::vector<OperatorDeclaration> twice_operators() {
    OperatorDeclaration row;
    row.name = "twice";
    row.help = "x + x";
    row.card = {.family = "example", .algorithm = "x + x in bf16", .space = "rows at a time", .bound = "DRAM traffic"};
    row.tensors = {{"x", {"self"}, "the matrix"}};
    row.example = {{"shape", "64x64"}};
    row.make = [](const WorkloadRequest &request) { return std::make_unique<Twice>(request); };
    return {row};
}

TEST(ExampleOperator, EveryScheduleIsRight) {
    const DeclaredOperator twice(twice_operators().front());
    const std::shared_ptr<const Workload> workload = twice.workload({{"shape", "6x64"}});
    for (const char *name : {"ax01", "fsim"}) {
        const Machine machine = find_machine(name);
        const Evaluator evaluator(workload, machine, 1);
        EXPECT_GT(count(workload->space(machine)), 1u);
        for_each(workload->space(machine), [&](const Point &point) {
            SCOPED_TRACE(machine.name + " " + point.assignments());
            const Evaluation evaluation = evaluator.evaluate(point);
            EXPECT_EQ(evaluation.status, Evaluation::Ok) << evaluation.reason;
            EXPECT_GE(evaluation.cycles, workload->bound(machine).cycles);
            EXPECT_EQ(evaluator.verify(point), "");
            return true;
        });
    }
}

TEST(ExampleOperator, SaysWhatItTakes) {
    const DeclaredOperator twice(twice_operators().front());
    EXPECT_THAT(error_of([&] {
                    twice.workload({{"shape", "6x33"}});
                }),
                testing::HasSubstr("twice: x must have two dimensions"));
}

}  // namespace
}  // namespace atalla
