// Convolutions with channels innermost, and pointwise operators behind convolutions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "generators/evaluate.h"
#include "generators/registry.h"
#include "schedules/random.h"
#include "tests/generators/sampled_point.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

// Pointwise operators behind a convolution run in its kernel: products of channels, in bands, windows over planes and over
// places. Channels innermost: the image is not turned. Blocks of rows with padding above and below, steps, distances, groups,
// several images, channels that end inside a vector on either side, kernels beyond the image, lines.
TEST(Convolution, OfImagesWithChannelsInnermost) {
    const std::vector<WorkloadArguments> calls = {
        {{"shape", "1x12x12x64,64x64x3x3,64"}, {"padding", "1"}},
        {{"shape", "2x9x7x40,36x40x3x3"}, {"padding", "1"}, {"stride", "2"}},
        {{"shape", "1x8x13x64,64x32x3x3"}, {"groups", "2"}, {"padding", "2,1"}, {"dilation", "2,1"}},
        {{"shape", "1x14x14x96,32x96x1x1,32"}, {"stride", "2"}},
        {{"shape", "1x6x31x3,5x3x5x4,5"}, {"padding", "0,3,2,1"}, {"stride", "1,2"}},
        {{"shape", "1x2x1x33,33x33x3x3"}, {"padding", "1"}},
    };
    for (const WorkloadArguments &call : calls)
        for (const char *name : {"ax01", "ax01-psum"})
            for (const char *weights : {"packed", "oihw"}) {
                const Machine machine = find_machine(name);
                WorkloadArguments arguments = call;
                arguments["layout"] = "nhwc";
                arguments["weight_layout"] = weights;
                const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
                SCOPED_TRACE(fmt::format("{} on {}, {}", workload->title(), machine.name, weights));
                const Evaluator evaluator(workload, machine, 3);
                Random random(23);
                for (int i = 0; i < 2; i++) check_sampled_point(*workload, machine, evaluator, random);
            }
}

TEST(Convolution, ChannelsInnermostMeanTheSame) {
    const std::shared_ptr<const Workload> inside =
        find_operator("conv2d").workload({{"shape", "2x5x6x3,4x3x3x2,4"}, {"padding", "1"}, {"layout", "nhwc"}});
    const std::shared_ptr<const Workload> planes =
        find_operator("conv2d").workload({{"shape", "2x3x5x6,4x3x3x2,4"}, {"padding", "1"}});
    const std::vector<TensorData> inputs = random_inputs(inside->inputs(), DataSet::Normal, 5);
    std::vector<TensorData> turned = inputs;
    for (size_t image = 0, at = 0; image < 2; image++)
        for (size_t place = 0; place < 30; place++)
            for (size_t channel = 0; channel < 3; channel++) turned[0][(image * 3 + channel) * 30 + place] = inputs[0][at++];
    const Reference expected = planes->reference(turned)[0], given = inside->reference(inputs)[0];
    ASSERT_EQ(expected.values.size(), 2u * 4 * 35);
    ASSERT_EQ(given.values.size(), expected.values.size());
    const size_t places = expected.values.size() / 8;
    for (size_t image = 0, at = 0; image < 2; image++)
        for (size_t place = 0; place < places; place++)
            for (size_t channel = 0; channel < 4; channel++)
                EXPECT_NEAR(given.values[at++], expected.values[(image * 4 + channel) * places + place], 1e-9);
}

TEST(Convolution, WithPointwiseOperatorsBehind) {
    struct Case {
        const char *expression, *shape, *machine;
    };
    uint64_t seed = 0;
    for (const auto &[expression, shape, machine] :
         {Case{"relu(conv2d(x, w, b, padding=1))", "1x20x9x11,40x20x3x3,40", "ax01"},
          Case{"relu(conv2d(x, w, padding=[1,0,2,1], stride=2))", "2x5x12x10,7x5x4x2", "ax01-psum"},
          Case{"relu(conv2d(x, w, b, padding=1, weight_layout=packed))", "1x3x16x16,8x3x3x3,8", "ax01-psum"},
          Case{"silu(conv2d(x, w, b, weight_layout=banded))", "1x3x8x8,4x3x3x3,4", "fsim"},
          Case{"leaky_relu(mul(conv2d(x, w, groups=32), 0.5))", "1x32x8x8,32x1x3x3", "ax01"},
          Case{"relu(conv2d(x, w, b, layout=nhwc, padding=1, weight_layout=packed))", "1x9x7x64,64x64x3x3,64", "ax01"},
          Case{"hardtanh(conv2d(x, w, layout=nhwc, padding=[1,0,2,1], stride=2), min_val=0, max_val=6)", "2x9x7x40,36x40x3x3",
               "ax01-psum"},
          Case{"relu(conv1d(x, w, b, dilation=2))", "2x33x40,6x33x3,6", "ax01"},
          Case{"hardtanh(conv_depthwise_nhwc(x, w, b, padding=1, stride=[1,2]), min_val=0, max_val=6)", "1x7x9x40,3x3x40,40",
               "ax01"},
          Case{"gelu(conv_depthwise_nhwc(x, w))", "2x5x6x32,2x3x32", "fsim"}}) {
        const std::shared_ptr<const Workload> workload = find_operator(expression).workload({{"shape", shape}});
        SCOPED_TRACE(fmt::format("{} on {}", workload->title(), machine));
        Random points(++seed);
        check_sampled_point(*workload, find_machine(machine), Evaluator(workload, find_machine(machine), seed), points);
    }
    EXPECT_THAT(error_of([] { find_operator("add(conv2d(x, w), conv2d(x, v))"); }),
                testing::HasSubstr("has two operators in front of pointwise ones; one kernel computes one"));
    EXPECT_EQ(error_of([] { find_operator("add(conv2d(x, w), r)"); }),
              "add(conv2d(x, w), r): behind conv2d are pointwise operators of its result alone, but r is another operand");
    EXPECT_EQ(error_of([] { find_operator("relu(conv2d(relu(x), w))"); }),
              "conv2d(relu(x), w): input must be an input: what is in front of it is a kernel of its own");
    EXPECT_EQ(error_of([] { find_operator("relu(conv2d(x, x))"); }), "conv2d(x, x): x is given twice");
    EXPECT_EQ(error_of([] {
                  find_operator("relu(conv2d(x, w, pading=1))").workload({{"shape", "1x3x8x8,4x3x3x3"}});
              }),
              "conv2d has no argument 'pading'");
    EXPECT_EQ(error_of([] {
                  find_operator("relu(conv2d(x, w))").workload({{"shape", "1x3x8x8,4x2x3x3"}});
              }),
              "conv2d: given groups=1 and a weight of 4x2x3x3, expected an input of 2 channels, but it has 3");
}

// What is behind rows of kernels is part of a strip's code: with many channels the nest leaves the instruction cache.
TEST(Convolution, TheDraftCountsWhatIsBehindTheResults) {
    const Machine machine = find_machine("ax01");
    const std::shared_ptr<const Workload> workload =
        find_operator("hardtanh(conv2d(x, w, b, stride=2, padding=1, weight_layout=packed), min_val=0, max_val=6)")
            .workload({{"shape", "1x3x48x48,32x3x3x3,32"}});
    const auto point = [](int channels) {
        return Point::parse(
            fmt::format("back_at_end=1,channels={},first_apart=1,image_at_once=0,in_line=0,in_parts=0,kernel_parts=1,"
                        "row_unroll=1,rows=24,rows_together=0,strip_columns=24,strip_rows=1,strips_alike=1,"
                        "sums_in_registers=1,weight_unroll=32",
                        channels));
    };
    const Evaluator evaluator(workload, machine);
    EXPECT_LT(evaluator.evaluate(point(8)).cycles, evaluator.evaluate(point(32)).cycles);
    EXPECT_LT(workload->draft(machine, point(8)), workload->draft(machine, point(32)));
}

// With channels innermost what is behind the sums is a loop of its own for all strips of 32 channels, of one size or of two, or
// of a single strip is beside its sums.
TEST(Convolution, PointwiseOperatorsBehindPlacesOfAllStrips) {
    const std::shared_ptr<const Workload> workload =
        find_operator("relu(conv2d(x, w, b, layout=nhwc, padding=1, weight_layout=packed))")
            .workload({{"shape", "1x7x9x32,64x32x3x3,64"}});
    const Machine machine = find_machine("ax01");
    const Evaluator evaluator(workload, machine, 5);
    for (const auto &[strip_rows, alike] : {std::pair{3, 0}, {3, 1}, {7, 1}}) {
        Point point = workload->naive_point(machine);
        for (const auto &[name, value] : {std::pair{"rows", 7},
                                          {"strip_rows", strip_rows},
                                          {"strip_columns", 9},
                                          {"sums_in_registers", 1},
                                          {"row_unroll", 1},
                                          {"strips_alike", alike},
                                          {"back_at_end", 1 - alike}})
            point.set(name, value);
        ASSERT_EQ(violation(workload->space(machine), point), "") << point.assignments();
        EXPECT_EQ(evaluator.verify(point), "") << point.assignments();
    }
}

// The array turns each result back once, and the loop that does overlaps its iterations although their masks wait for the
// multiplier.
TEST(Convolution, ResultsAreTurnedBackBesideWhatIsBehindThem) {
    const Point point = {{"rows", 28},        {"image_at_once", 1},     {"strip_rows", 1},  {"strip_columns", 56},
                         {"strips_alike", 1}, {"sums_in_registers", 1}, {"first_apart", 1}, {"back_at_end", 1},
                         {"row_unroll", 1},   {"weight_unroll", 32},    {"in_line", 0},     {"rows_together", 0},
                         {"in_parts", 0},     {"kernel_parts", 1}};
    const auto run = [&](const char *expression) {
        const Evaluation evaluation =
            Evaluator(find_operator(expression).workload({{"shape", "1x32x56x56,64x32x1x3"}}), find_machine("ax01"))
                .evaluate(point);
        EXPECT_EQ(evaluation.status, Evaluation::Ok) << evaluation.reason;
        return std::pair(evaluation.counters.at("array_rows").get<int64_t>(), evaluation.counters.at("packets").get<int64_t>());
    };
    const auto [rows, packets] = run("mul(conv2d(x, w, padding=[0,1]), 2)");
    const auto [rows_of_relu, packets_of_relu] = run("relu(conv2d(x, w, padding=[0,1]))");
    EXPECT_EQ(rows_of_relu, rows);
    EXPECT_LT(packets_of_relu, packets * 21 / 20);
}

}  // namespace
}  // namespace atalla
