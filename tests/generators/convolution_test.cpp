// Convolutions at random shapes and schedules: bit for bit equal to the unoptimized program, close to float64, never faster
// than the bound; blocks, strips and parts of images; what is refused.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <regex>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "generators/evaluate.h"
#include "generators/registry.h"
#include "isa/vectors.h"
#include "schedules/bounds.h"
#include "schedules/random.h"
#include "tests/generators/dump_of.h"
#include "tests/generators/refusal.h"
#include "tests/generators/sampled_point.h"

namespace atalla {
namespace {

// A convolution of an image with channels innermost whose pads have a part of it each, in strips of so many rows and columns.
struct OfParts {
    OfParts(const std::string &shape, const std::string &padding, int64_t rows, int64_t strip_rows, int64_t strip_columns)
        : machine(find_machine("ax01-psum")),
          workload(find_operator("conv2d").workload(
              {{"shape", shape}, {"padding", padding}, {"weight_layout", "packed"}, {"layout", "nhwc"}})),
          point(workload->naive_point(machine)) {
        const std::map<std::string, int64_t> all = {
            {"rows", rows},    {"strip_rows", strip_rows}, {"strip_columns", strip_columns}, {"first_apart", 0},
            {"row_unroll", 1}, {"weight_unroll", 32},      {"sums_in_registers", 1},         {"in_parts", 1}};
        for (const auto &[name, value] : all) point.set(name, value);
    }
    int64_t misses() const {
        const Evaluation evaluation = Evaluator(workload, machine).evaluate(point);
        EXPECT_EQ(evaluation.status, Evaluation::Ok) << evaluation.reason;
        return evaluation.status == Evaluation::Ok ? evaluation.counters.at("icache_misses").get<int64_t>() : INT64_MAX;
    }
    const Machine machine;
    const std::shared_ptr<const Workload> workload;
    Point point;
};

// Results of strips that begin in different pads are in one or two of them, which then hold fewer: no schedule of the space
// fails for that. 27 columns make strips of an odd number of places.
TEST(Convolution, ResultsThatFewPadsHaveFitThem) {
    Random random(31);
    const Machine machine = find_machine("ax01-psum");
    for (const auto &[shape, layout] : {std::pair{"1x64x27x27,192x64x5x5", "nchw"}, {"1x27x27x64,192x64x5x5", "nhwc"}}) {
        const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(
            {{"shape", shape}, {"padding", "2"}, {"weight_layout", "packed"}, {"layout", layout}});
        const Evaluator evaluator(workload, machine);
        int at_end = 0;
        constexpr int enough = 8;
        for (const Point &point : sample_distinct(workload->space(machine), 1000, random)) {
            // Results of 32 channels, or of a part of the image, have room.
            if (!point["back_at_end"] || point["rows"] < 27 || at_end == enough) continue;
            at_end++;
            SCOPED_TRACE(layout + (" " + point.assignments()));
            EXPECT_NO_THROW(evaluator.compile(point));
        }
        EXPECT_EQ(at_end, enough) << layout;
    }
}

// Sums that are cleared where those before are stored keep their registers meanwhile. Where these are too few for that they are
// cleared when they begin.
TEST(Convolution, LongStripsAreClearedWhenTheyBegin) {
    const Machine machine = find_machine("ax01-psum");
    const std::shared_ptr<const Workload> workload =
        find_operator("conv2d").workload({{"shape", "1x32x28x28,64x32x3x3"}, {"padding", "1"}, {"weight_layout", "packed"}});
    Point point = workload->naive_point(machine);
    const std::map<std::string, int64_t> all = {{"rows", 28},         {"strip_rows", 7},        {"strip_columns", 28},
                                                {"first_apart", 0},   {"row_unroll", 1},        {"weight_unroll", 32},
                                                {"back_at_end", 0},   {"sums_in_registers", 1}, {"strips_alike", 1},
                                                {"image_at_once", 0}, {"in_line", 0},           {"rows_together", 0}};
    for (const auto &[name, value] : all) point.set(name, value);
    const Evaluator evaluator(workload, machine);
    const Evaluation evaluation = evaluator.evaluate(point);
    ASSERT_EQ(evaluation.status, Evaluation::Ok) << evaluation.reason;
    EXPECT_EQ(evaluator.verify(point), "");
}

// Which columns begin a window changes from block to block of 32: over two blocks, and over more than differ at the ends; of
// columns that no window has, too.
TEST(Convolution, StepsNeedNotDivideABlockOfColumns) {
    Random random(17);
    const Machine machine = find_machine("ax01");
    for (const WorkloadArguments &arguments :
         std::vector<WorkloadArguments>{{{"shape", "1x5x1x45,6x5x1x1"}, {"stride", "1,3"}, {"padding", "0,1"}},
                                        {{"shape", "1x3x2x330,4x3x1x2"}, {"stride", "1,5"}}}) {
        const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
        const Evaluator evaluator(workload, machine);
        for (const Point &point : sample_distinct(workload->space(machine), 3, random))
            EXPECT_EQ(evaluator.verify(point), "") << workload->title() << " at " << point.assignments();
    }
}

// A convolution of one element is a product of matrices, whose bound is made of equal visits: the one for any visits is a
// little lower.
TEST(Convolution, VisitsOfTheBoundAreThoseOfAProduct) {
    const Machine machine = find_machine("ax01-psum");
    const auto visits = [](const Bound &bound) {
        for (const auto &[name, value] : bound.terms)
            if (name == "visits") return value;
        return int64_t{0};
    };
    const Bound convolution = find_operator("conv2d")
                                  .workload({{"shape", "1x512x16x32,512x512x1x1"}, {"weight_layout", "packed"}})
                                  ->bound(machine),
                product = gemm_bound(machine, 512, 512, 512);
    EXPECT_LE(visits(convolution), visits(product));
    EXPECT_GE(visits(convolution), visits(product) * 97 / 100);
    EXPECT_EQ(convolution.binding, "visits");
    EXPECT_EQ(visits(find_operator("conv2d")
                         .workload({{"shape", "1x512x16x32,512x512x1x1"}, {"weight_layout", "packed"}})
                         ->bound(find_machine("ax01"))),
              0);
}

// Two rows of an image whose padding is as high as a block: the part of a block that is copied moves from block to block.
TEST(Convolution, PartsOfBlocksMove) {
    const Machine machine = find_machine("ax01-psum");
    const std::shared_ptr<const Workload> workload =
        find_operator("conv2d").workload({{"shape", "1x64x2x2,32x64x3x3"}, {"padding", "1"}, {"weight_layout", "packed"}});
    Random random(3);
    check_sampled_point(*workload, machine, Evaluator(workload, machine, 1), random);
}

// Blocks whose rows do not divide those of the result overlap; channels whose planes are no whole tiles leave by channel, with
// a rest.
TEST(Convolution, BlocksOverlap) {
    const std::vector<std::pair<WorkloadArguments, int64_t>> calls = {
        {{{"shape", "1x5x13x9,7x5x3x2,7"}, {"padding", "0,1"}, {"weight_layout", "packed"}}, 6},
        {{{"shape", "2x5x17x8,35x5x3x3"}, {"padding", "1,1"}, {"stride", "2,1"}}, 5},
        {{{"shape", "1x32x45x46,33x32x1x1"}, {"weight_layout", "packed"}}, 45},
    };
    for (const auto &[arguments, rows] : calls)
        for (const char *name : {"ax01", "ax01-psum"}) {
            const Machine machine = find_machine(name);
            const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
            SCOPED_TRACE(fmt::format("{} on {}", workload->title(), machine.name));
            const Evaluator evaluator(workload, machine, 3);
            Random random(7);
            for (const Point &point : sample_distinct(restrict_to(workload->space(machine), {{"rows", rows}}), 3, random))
                EXPECT_EQ(evaluator.verify(point), "") << point.assignments();
        }
}

// Rows that strips do not divide, in strips of two sizes: with a bias, with several blocks of rows, with steps of the kernel,
// with output channels that end inside a block of 32.
TEST(Convolution, StripsOfTwoSizesHaveTheRowsOfABlock) {
    struct Case {
        WorkloadArguments arguments;
        int64_t rows, strip_rows;
    };
    const std::vector<Case> cases = {{{{"shape", "1x64x7x7,64x64x3x3,64"}, {"padding", "1"}}, 7, 3},
                                     {{{"shape", "2x32x10x6,40x32x3x3"}, {"padding", "1"}}, 5, 2},
                                     {{{"shape", "1x40x13x9,32x40x3x3"}, {"stride", "2"}, {"padding", "1"}}, 7, 3}};
    for (const Case &one : cases)
        for (const char *name : {"ax01", "ax01-psum"}) {
            const Machine machine = find_machine(name);
            WorkloadArguments arguments = one.arguments;
            arguments["weight_layout"] = "packed";
            const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
            SCOPED_TRACE(fmt::format("{} on {}", workload->title(), machine.name));
            Point point = workload->naive_point(machine);
            for (const auto &[parameter, value] : std::vector<std::pair<std::string, int64_t>>{{"rows", one.rows},
                                                                                               {"strip_rows", one.strip_rows},
                                                                                               {"strips_alike", 0},
                                                                                               {"sums_in_registers", 1},
                                                                                               {"back_at_end", 1},
                                                                                               {"row_unroll", 1}})
                point.set(parameter, value);
            EXPECT_EQ(Evaluator(workload, machine).verify(point), "");
        }
}

// Strips of places in line, which begin and end inside rows, and planes that are turned as they lie in memory: groups, images,
// a bias, wide, high and dilated kernels, and parts of a plane with fewer elements than lanes.
TEST(Convolution, StripsArePlacesInLine) {
    struct Case {
        WorkloadArguments arguments;
        int64_t rows, strip;
    };
    const std::vector<Case> cases = {{{{"shape", "1x32x8x8,32x32x3x3"}, {"padding", "1"}}, 8, 24},
                                     {{{"shape", "2x64x7x12,40x64x3x3,40"}, {"padding", "1"}}, 7, 28},
                                     {{{"shape", "1x64x6x20,64x32x3x3"}, {"padding", "1"}, {"groups", "2"}}, 6, 120},
                                     {{{"shape", "1x32x9x8,32x32x5x5"}, {"padding", "2"}}, 9, 36},
                                     {{{"shape", "1x64x8x8,32x64x3x3"}, {"padding", "2"}, {"dilation", "2"}}, 8, 64},
                                     {{{"shape", "1x32x5x12,32x32x1x3"}, {"padding", "0,1"}}, 5, 16},
                                     {{{"shape", "1x32x9x8,32x32x4x3"}, {"padding", "0,1"}}, 6, 20}};
    const Machine machine = find_machine("ax01-psum");
    for (const Case &one : cases) {
        WorkloadArguments arguments = one.arguments;
        arguments["weight_layout"] = "packed";
        const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
        SCOPED_TRACE(workload->title());
        for (const int64_t back_at_end : {0, 1}) {
            Point point = workload->naive_point(machine);
            for (const auto &[parameter, value] : std::vector<std::pair<std::string, int64_t>>{{"rows", one.rows},
                                                                                               {"strip_rows", 1},
                                                                                               {"strip_columns", one.strip},
                                                                                               {"sums_in_registers", 1},
                                                                                               {"first_apart", 0},
                                                                                               {"back_at_end", back_at_end},
                                                                                               {"row_unroll", 1},
                                                                                               {"weight_unroll", 32},
                                                                                               {"in_line", 1}})
                point.set(parameter, value);
            EXPECT_EQ(Evaluator(workload, machine).verify(point), "");
        }
    }
}

// Several rows of a narrow image are turned at once: as many as divide its rows or not, with rows above and below that padding
// adds, or steps leave out.
TEST(Convolution, NarrowRowsAreTurnedTogether) {
    const std::vector<WorkloadArguments> calls = {
        {{"shape", "1x32x14x14,32x32x3x3"}, {"padding", "1"}, {"weight_layout", "packed"}},
        {{"shape", "2x64x7x7,40x64x3x3,40"}, {"padding", "1"}, {"weight_layout", "packed"}},
        {{"shape", "1x64x5x13,40x32x3x2"}, {"padding", "2,0,0,1"}, {"groups", "2"}},
        {{"shape", "1x32x9x6,8x32x2x3"}, {"stride", "2"}, {"dilation", "2,1"}, {"weight_layout", "packed"}},
        {{"shape", "2x32x3x1,4x32x3x1"}, {"padding", "3,1"}, {"weight_layout", "packed"}},
    };
    for (const WorkloadArguments &arguments : calls)
        for (const char *name : {"ax01", "ax01-psum"}) {
            const Machine machine = find_machine(name);
            const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
            SCOPED_TRACE(fmt::format("{} on {}", workload->title(), machine.name));
            const Evaluator evaluator(workload, machine, 4);
            Random random(8);
            for (const Point &point : sample_distinct(restrict_to(workload->space(machine), {{"rows_together", 1}}), 3, random))
                EXPECT_EQ(evaluator.verify(point), "") << point.assignments();
        }
}

// Each pad has rows of the image: parts of equal size, the last one cut short by the image, or short of rows where strips fill
// it up.
TEST(Convolution, PadsHavePartsOfAnImage) {
    const std::vector<WorkloadArguments> calls = {
        {{"shape", "1x14x14x32,32x32x3x3"}, {"padding", "1"}},
        {{"shape", "2x13x9x64,40x64x3x3,40"}, {"padding", "1"}},
        {{"shape", "1x27x27x32,64x32x5x5"}, {"padding", "2"}},
        {{"shape", "1x5x13x64,40x32x3x2"}, {"padding", "2,0,0,1"}, {"groups", "2"}},
        {{"shape", "1x19x16x64,8x64x2x3"}, {"stride", "2"}, {"dilation", "2,1"}},
        {{"shape", "1x3x11x32,32x32x1x3"}, {"dilation", "1,2"}},
    };
    const Machine machine = find_machine("ax01-psum");
    for (WorkloadArguments arguments : calls) {
        arguments["weight_layout"] = "packed";
        arguments["layout"] = "nhwc";
        const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(arguments);
        SCOPED_TRACE(workload->title());
        const Evaluator evaluator(workload, machine, 4);
        Random random(8);
        for (const Point &point : sample_distinct(restrict_to(workload->space(machine), {{"in_parts", 1}}), 4, random))
            EXPECT_EQ(evaluator.verify(point), "") << point.assignments();
    }
}

// The image's rows and its padding come to the pads once, with the two rows that neighbouring parts share.
TEST(Convolution, PartsOfAnImageAreStoredOnce) {
    const Machine machine = find_machine("ax01-psum");
    const auto run = [&](int64_t in_parts) {
        const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(
            {{"shape", "1x14x14x64,32x64x3x3"}, {"padding", "1"}, {"weight_layout", "packed"}, {"layout", "nhwc"}});
        Point point = workload->naive_point(machine);
        for (const auto &[name, value] : std::vector<std::pair<std::string, int64_t>>{{"rows", 14},
                                                                                      {"strip_rows", in_parts ? 4 : 14},
                                                                                      {"strip_columns", 14},
                                                                                      {"sums_in_registers", 1},
                                                                                      {"row_unroll", 1},
                                                                                      {"weight_unroll", 32},
                                                                                      {"in_parts", in_parts}})
            point.set(name, value);
        const Evaluation evaluation = Evaluator(workload, machine).evaluate(point);
        EXPECT_EQ(evaluation.status, Evaluation::Ok) << evaluation.reason;
        const auto writes = evaluation.counters.at("pad_writes").get<std::vector<int64_t>>();
        return std::pair(std::accumulate(writes.begin(), writes.end(), int64_t{0}),
                         evaluation.counters.at("unit_operations").at("SDMA").get<int64_t>());
    };
    const int64_t results = 14 * 14, weights = 32 * 3 * 3 * 2, parts = 4 * (6 * 16) * 2, missing = 2 * 16 * 2, columns = 3;
    const auto [rows, transfers] = run(1);
    EXPECT_EQ(rows, results + weights + parts - missing);
    EXPECT_GT(run(0).first, results + weights + columns * 14 * 14 * 2);
    // A row of the image each, k tiles of an output channel, and 28 rows of a part's results, the last of which has two rows of
    // places.
    EXPECT_EQ(transfers, (5 + 6 + 6 + 3) + 32 + (2 + 2 + 2 + 1));
}

// Blocks of rows that padding surrounds differently: what comes for one block of channels takes no turns with the next then.
TEST(Convolution, BlocksThatPaddingSurroundsDifferentlyRun) {
    const Machine machine = find_machine("ax01");
    for (const char *padding : {"1", "0"}) {
        const std::shared_ptr<const Workload> workload =
            find_operator("conv2d").workload({{"shape", "1x64x14x14,32x64x3x3"}, {"padding", padding}, {"stride", "2"}});
        const int64_t rows = padding[0] == '1' ? 7 : 6;
        Random random(7);
        int in_blocks = 0;
        for (const Point &point : sample_distinct(workload->space(machine), 60, random)) {
            if (point["image_at_once"] != 0 || point["rows"] >= rows || point["sums_in_registers"] == 0) continue;
            const Evaluation evaluation = Evaluator(workload, machine).evaluate(point);
            EXPECT_EQ(evaluation.reason, "") << point.assignments();
            if (in_blocks++ == 0) {
                EXPECT_EQ(Evaluator(workload, machine).verify(point), "");
            }
            if (in_blocks == 4) break;
        }
        EXPECT_GT(in_blocks, 0) << padding;
    }
}

// Nests of strips, rows of the kernel and k tiles: the results of 32 channels leave beside the products of the next ones.
TEST(Convolution, ResultsOfPartsLeaveFromInsideTheNest) {
    const OfParts conv("1x28x28x32,96x32x3x3", "1", 28, 7, 7);
    const Evaluator evaluator(conv.workload, conv.machine);
    std::istringstream lines(dump_of("overlap", evaluator, conv.point));
    bool out_of_line = false;
    for (std::string line; std::getline(lines, line);)
        out_of_line = out_of_line || (line.find("| ") != std::string::npos && line.find("scpad.st") != std::string::npos);
    EXPECT_TRUE(out_of_line);
    EXPECT_EQ(evaluator.verify(conv.point), "");
}

// The k tiles of all rows of the kernel are one loop, in which all pointers of the image share a step; in front of it nothing
// is aimed anew for a strip.
TEST(Convolution, PointersGoOnFromStripToStrip) {
    const OfParts conv("1x14x28x32,64x32x3x3", "1", 14, 4, 7);
    const Evaluator evaluator(conv.workload, conv.machine);
    const std::string text = dump_of("addresses", evaluator, conv.point);
    const size_t strips = text.find("for finished.all"), visits = text.find("for sums.r_alike");
    ASSERT_LT(strips, visits);
    ASSERT_NE(visits, std::string::npos) << text;
    EXPECT_EQ(text.find("for sums.r_alike", visits + 1), std::string::npos) << "a loop over rows of the kernel";
    const std::string strip = text.substr(strips, visits - strips), visit = text.substr(visits);
    EXPECT_FALSE(std::regex_search(strip, std::regex("addi?\\.s p\\."))) << strip;
    std::set<std::string> steps;
    const std::regex step("add\\.s (p\\.[0-9]+), \\1, (step\\.[0-9]+)");
    for (std::sregex_iterator at(visit.begin(), visit.end(), step); at != std::sregex_iterator(); ++at) steps.insert((*at)[2]);
    EXPECT_EQ(steps.size(), 1) << visit;
    EXPECT_EQ(evaluator.verify(conv.point), "");
}

// The nest around these visits leaves the instruction cache however densely its ends are packed; what has no room is fetched in
// every turn, and what it pushes out.
TEST(Convolution, EndsOfStripsAreDenseWhereTheyLeaveTheCache) {
    const OfParts conv("1x56x56x64,64x64x3x3", "1", 56, 7, 7);
    constexpr int64_t strips = 32, lines_of_a_strip = 60;
    EXPECT_LT(conv.misses(), strips * lines_of_a_strip);
}

// Three pads have twice as many results of a strip as the last one: theirs are stored first, or the last of them would each be
// in a packet of its own.
TEST(Convolution, ResultsOfUnequalPadsAreStoredInFewPackets) {
    const OfParts conv("1x14x14x32,256x32x3x3", "1", 14, 4, 14);
    constexpr int64_t blocks = 8, lines_of_a_block = 76;
    EXPECT_LT(conv.misses(), blocks * lines_of_a_block);
}

// Transfers of weights and of results are out of line, all in the nest: where code is behind it that results need while they
// leave, each line waits for the transfer.
TEST(Convolution, CodeOfTransfersStaysInTheCache) {
    const OfParts conv("1x27x27x64,96x64x5x5", "2", 27, 7, 7);
    constexpr int64_t strips = 12, lines_of_a_strip = 50;
    EXPECT_LT(conv.misses(), strips * lines_of_a_strip);
}

// Sums that are cleared where they are stored, in loops inside loops whose results leave an iteration later.
TEST(Convolution, SumsAreClearedOnceStored) {
    const Machine machine = find_machine("ax01-psum");
    const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(
        {{"shape", "1x3x32x112,8x3x7x7"}, {"stride", "2"}, {"padding", "3"}, {"weight_layout", "packed"}});
    Point point = workload->naive_point(machine);
    for (const auto &[name, value] : std::vector<std::pair<std::string, int64_t>>{
             {"rows", 8}, {"image_at_once", 1}, {"first_apart", 0}, {"weight_unroll", 32}, {"channels", 8}})
        point.set(name, value);
    ASSERT_EQ(point["strip_columns"], 28);
    EXPECT_EQ(Evaluator(workload, machine).verify(point), "");
}

TEST(Convolution, RandomShapesAndSchedules) {
    constexpr int shapes = 26;
    Random random(9);
    const std::array<Machine, 3> machines = {find_machine("ax01"), find_machine("ax01-psum"), find_machine("fsim")};
    for (int i = 0; i < shapes; i++) {
        // The functional machine takes banded weights alone, which the others take, too.
        const bool banded = i >= 16;
        const Machine &machine = machines[banded ? (i % 4 == 1 ? 0 : 2) : static_cast<size_t>(i) % 2];
        const bool depthwise = i % 5 == 4, line = i % 4 == 3;
        const int64_t groups = depthwise ? between(random, 2, 4) : between(random, 1, 2),
                      in = depthwise ? 1 : between(random, 1, 40), out = depthwise ? 1 : between(random, 1, 36);
        const int64_t kernel_y = line ? 1 : between(random, 1, 4), kernel_x = between(random, 1, 4),
                      dilation = between(random, 1, 2), stride = between(random, 1, 3), padding = between(random, 0, 2);
        const int64_t height = line ? 1 : dilation * (kernel_y - 1) + 1 + between(random, 0, 6),
                      width = dilation * (kernel_x - 1) + 1 + between(random, 0, line ? 40 : 8);
        WorkloadArguments arguments = {{"groups", fmt::format("{}", groups)},
                                       {"stride", fmt::format("{}", stride)},
                                       {"padding", fmt::format("{}", padding)},
                                       {"dilation", fmt::format("{}", dilation)}};
        // Other zeros behind the image than in front of it.
        if (i % 3 == 1 && (!banded || !machine.timed()))
            arguments["padding"] =
                line ? fmt::format("{},{}", padding, (padding + i) % 4)
                     : fmt::format("{},{},{},{}", padding, (padding + 1) % 3, (padding + i) % 4, (padding + 2) % 3);
        if (banded)
            arguments["weight_layout"] = "banded";
        else if (i % 3 != 0)
            arguments["weight_layout"] = "packed";
        const int64_t images = between(random, 1, 2);
        const std::string bias = i % 2 == 0 ? fmt::format(",{}", groups * out) : "";
        if (line)
            arguments["shape"] =
                fmt::format("{}x{}x{},{}x{}x{}{}", images, groups * in, width, groups * out, in, kernel_x, bias);
        else
            arguments["shape"] = fmt::format("{}x{}x{}x{},{}x{}x{}x{}{}", images, groups * in, height, width, groups * out, in,
                                             kernel_y, kernel_x, bias);
        const std::shared_ptr<const Workload> workload = find_operator("convolution").workload(arguments);
        SCOPED_TRACE(fmt::format("{} on {}", workload->title(), machine.name));
        const Evaluator evaluator(workload, machine, 1 + static_cast<uint64_t>(i));
        Random points(static_cast<uint64_t>(i));
        check_sampled_point(*workload, machine, evaluator, points);
    }
}

// An infinity becomes NaN in the columns that are turned with it: of an image that is wider than a vector all schedules turn
// the same ones, of others a row is turned as a whole.
TEST(Convolution, SchedulesAgreeOnInfinitiesOfWideImages) {
    const Machine machine = find_machine("fsim");
    for (const auto &[shape, stride, padding, sizes] :
         std::vector<std::tuple<const char *, const char *, const char *, bool>>{{"1x3x30x130,33x3x3x3", "2", "1", false},
                                                                                 {"1x1x12x150,2x1x2x5,2", "1", "0,2", false},
                                                                                 {"1x16x9x13,2x16x1x1", "1", "0", false},
                                                                                 {"1x3x9x28,3x3x3x3", "1", "1", true}}) {
        const std::shared_ptr<const Workload> workload = find_operator("conv2d").workload(
            {{"shape", shape}, {"stride", stride}, {"padding", padding}, {"weight_layout", "banded"}});
        SCOPED_TRACE(workload->title());
        const Space space = workload->space(machine);
        EXPECT_EQ(space.find("places").values.size() > 1, sizes);
        const Evaluator evaluator(workload, machine, 3);
        Random random(7);
        for (const Point &point : sample_distinct(space, 4, random))
            EXPECT_EQ(evaluator.verify(point), "") << point.assignments();
    }
}

// A row of results that the pads do not divide is straight-line code in the unoptimized program.
TEST(Convolution, LongRowsOfOddSizeRun) {
    const std::shared_ptr<const Workload> workload = find_operator("conv1d").workload({{"shape", "1x40x300,32x40x3"}});
    const Evaluator evaluator(workload, find_machine("ax01"));
    const std::optional<Evaluation> run = evaluator.unoptimized();
    ASSERT_TRUE(run);
    EXPECT_EQ(run->status, Evaluation::Ok) << run->reason;
}

// Where pads are small the sums of a tile of places stay in registers: tiles of whole rows and of parts of them, one row of the
// image at a time or several, rows that are not there and blocks of output channels in both orders in memory.
TEST(Convolution, PlacesStayInRegistersWherePadsAreSmall) {
    const Machine fsim = find_machine("fsim");
    const auto workload = [](const char *shape, const char *padding, const char *stride) {
        return std::shared_ptr<const Workload>(find_operator("conv2d").workload(
            {{"shape", shape}, {"padding", padding}, {"stride", stride}, {"layout", "nhwc"}, {"weight_layout", "packed"}}));
    };
    const auto run = [&](const std::shared_ptr<const Workload> &of, const Point &point) {
        SCOPED_TRACE(of->title() + " " + point.assignments());
        ASSERT_EQ(violation(of->space(fsim), point), "");
        const Evaluator evaluator(of, fsim);
        const Evaluation evaluation = evaluator.evaluate(point);
        EXPECT_EQ(evaluation.status, Evaluation::Ok) << evaluation.reason;
        EXPECT_GE(evaluation.cycles, of->bound(fsim).cycles);
        EXPECT_EQ(evaluator.verify(point), "");
    };
    const auto whole = workload("1x8x8x32,32x32x3x3,32", "1", "1");
    run(whole, {{"tile_x", 8}, {"tile_y", 8}, {"rows_together", 1}});
    run(whole, {{"tile_x", 8}, {"tile_y", 4}, {"rows_together", 2}});
    run(workload("1x7x40x40,33x40x3x2,33", "1", "2"), {{"tile_x", 7}, {"tile_y", 4}, {"rows_together", 1}});
    run(workload("2x6x6x3,4x3x3x3", "0", "1"), {{"tile_x", 2}, {"tile_y", 4}, {"rows_together", 4}});
    EXPECT_TRUE(Evaluator(workload("1x28x28x64,64x64x3x3", "1", "1"), fsim).unoptimized());
    EXPECT_LT(Evaluator(whole, fsim).evaluate({{"tile_x", 8}, {"tile_y", 8}, {"rows_together", 1}}).cycles, 1300);
}

TEST(Convolution, RefusesWhatDoesNotFit) {
    EXPECT_EQ(refusal("conv2d", {{"shape", "1x3x8x8,4x2x3x3"}}),
              "conv2d: given groups=1 and a weight of 4x2x3x3, expected an input of 2 channels, but it has 3");
    EXPECT_EQ(refusal("conv2d", {{"shape", "1x4x8x8,3x2x3x3"}, {"groups", "2"}}),
              "conv2d: 3 output channels cannot be divided into 2 groups");
    EXPECT_EQ(refusal("conv2d", {{"shape", "1x3x4x4,4x3x5x5"}}),
              "conv2d: the kernel of 5x5 is larger than the padded input of 4x4");
    EXPECT_EQ(refusal("conv2d", {{"shape", "1x3x8x8,4x3x3x3,5"}}), "conv2d: the bias must have 4 elements, not the shape 5");
    EXPECT_EQ(refusal("conv2d", {{"shape", "1x3x8x8,4x3x3x3"}, {"stride", "0"}}),
              "conv2d: stride is 0, but must be at least 1");
    EXPECT_EQ(refusal("conv2d", {{"shape", "1x3x8x8,4x3x3x3"}, {"padding", "1,1,1"}}),
              "conv2d: padding must have 1, 2 or 4 values, not 3");
    EXPECT_EQ(refusal("conv1d", {{"shape", "1x3x8,4x3x3x3"}}), "conv1d: the weight must have 3 dimensions, not 4");
    EXPECT_EQ(refusal("convolution", {{"shape", "1x3x8x8,4x3x3x3"}, {"transposed", "true"}}),
              "convolution: transposed convolutions are not supported");
    EXPECT_EQ(refusal("conv2d_padding", {{"shape", "1x3x8x8,4x3x3x3"}, {"padding", "some"}}),
              "conv2d_padding: padding must be a number of elements, same or valid, not 'some'");
    EXPECT_EQ(refusal("conv2d", {{"shape", "1x64x8x8,4x64x3x3"}, {"weight_layout", "shared"}}),
              "conv2d: columns of this kernel cannot share k tiles, as the weight layout shared has it");
    EXPECT_EQ(refusal("conv2d", {{"shape", "1x3x8x8,4x3x3x3"}, {"weight_layout", "some"}}),
              "conv2d: weight_layout must be oihw, packed, shared or banded, not 'some'");
}

}  // namespace
}  // namespace atalla
