#include "generators/pool_operators.h"

#include <algorithm>

#include <fmt/format.h>

#include "generators/movement.h"
#include "generators/pipeline_workload.h"
#include "generators/pool.h"
#include "generators/reduce_operators.h"
#include "isa/error.h"
#include "isa/vectors.h"

namespace atalla {

namespace {

class Pool : public PipelineWorkload {
public:
    Pool(const WorkloadRequest &request, const PoolShape &shape, const Shape &result)
        : PipelineWorkload(request), shape_(shape) {
        inputs_ = {tensor_spec("x", request.shape("x"))};
        set_result("Y", result);
    }

    Space space(const Machine &machine) const override { return pool_form(shape_, machine).space(shape_, machine); }
    Point naive_point(const Machine &machine) const override { return pool_form(shape_, machine).naive_point(shape_, machine); }
    KernelDefinition build(const Machine &machine, const Point &point) const override {
        return named(pool_form(shape_, machine).kernel(shape_, machine, point));
    }
    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override {
        return {pool_reference(shape_, inputs[0])};
    }
    double tolerance_ulps() const override { return pool_tolerance_ulps(shape_); }
    double flops() const override { return static_cast<double>(results() * 32 * shape_.x.kernel * shape_.y.kernel); }
    double draft(const Machine &machine, const Point &point) const override {
        return pool_form(shape_, machine).draft(shape_, machine, point);
    }

protected:
    // Vectors of results: 32 channels of a place, or 32 planes.
    int64_t results() const {
        return shape_.planes_outermost ? tiles_of(shape_.images * shape_.channels) * shape_.x.results * shape_.y.results
                                       : shape_.images * shape_.x.results * shape_.y.results * shape_.vectors();
    }

    // The windows taken apart into rows and columns, which share as much as can be shared.
    KernelWork work(const Machine &machine) const override {
        const PoolForm *const form = &pool_form(shape_, machine);
        if (shape_.kind == Pooling::Average && (form == &row_pool || form == &run_pool || form == &band_pool))
            return work_along_rows(form == &row_pool);
        const int64_t pixels = results() / (shape_.x.results * shape_.y.results) * shape_.x.size * shape_.y.size;
        const bool disjoint = shape_.x.kernel <= shape_.x.stride && shape_.y.kernel <= shape_.y.stride;
        const int64_t used = disjoint ? results() * shape_.x.kernel * shape_.y.kernel : pixels;
        KernelWork work;
        work.bytes = tensor_bytes();
        work.rows_loaded = std::min(pixels, used);
        work.rows_stored = results();
        // Of S steps that take two values each, every element that is in some window is taken by one and so is what a step
        // makes, unless it is a result: 2 S >= elements + S - results.
        const int64_t planes = shape_.images * shape_.channels,
                      elements = covered_elements(shape_.x) * covered_elements(shape_.y);
        int64_t of_a_plane = std::max<int64_t>(0, elements - shape_.x.results * shape_.y.results);
        // The same holds for sums, whose steps take values without a common element, where lanes alone make them.
        const bool of_windows = shape_.kind == Pooling::Max || !shape_.planes_outermost;
        if (of_windows && shape_.x.kernel * shape_.y.kernel <= most_unrolled_taps)
            of_a_plane = std::max(of_a_plane, least_maximum_steps(shape_.x, shape_.y));
        const int64_t steps = ceil_div(planes * of_a_plane, int64_t{lanes});
        if (shape_.kind == Pooling::Max) {
            // A compare and a copy. What finds NaN is not counted: the array may (codegen/second_look.h).
            work.lanes.adds = work.copies = steps;
        } else {
            work.lanes.adds = steps;
            work.lanes.muls = results();
        }
        return work;
    }

private:
    // The array adds what lies in a row, so that lanes add rows alone; or what lies in a run, of which a vector may have whole
    // windows.
    KernelWork work_along_rows(bool lanes_add_rows) const {
        const int64_t planes = shape_.images * shape_.channels, columns = covered_elements(shape_.x),
                      rows = covered_elements(shape_.y);
        KernelWork work;
        work.bytes = tensor_bytes();
        work.rows_loaded = ceil_div(planes * columns * rows, int64_t{lanes});
        work.rows_stored = ceil_div(planes * shape_.x.results * shape_.y.results, int64_t{lanes});
        if (lanes_add_rows)
            work.lanes.adds = ceil_div(planes * columns * std::max<int64_t>(0, rows - shape_.y.results), int64_t{lanes});
        return work;
    }

    PoolShape shape_;
};

// The last two axes (x alone in one dimension), one value for both or one for each.
std::pair<int64_t, int64_t> pair_of(const WorkloadRequest &request, const std::string &attribute, size_t dimensions,
                                    int64_t otherwise) {
    const std::vector<int64_t> values = request.integers(attribute);
    if (values.empty()) return {otherwise, otherwise};
    if (values.size() != 1 && values.size() != dimensions)
        throw Error(
            fmt::format("{}: {} must either be a single int, or a tuple of {} ints", request.op, attribute, dimensions));
    return {values.front(), values.back()};
}

// One window, of the whole image.
bool is_whole(const PoolAxis &axis) { return axis.results == 1 && axis.padding == 0 && axis.kernel == axis.size; }

OperatorDeclaration pool_row(const std::string &name, Pooling kind, size_t dimensions, std::vector<std::string> schemas) {
    OperatorDeclaration row;
    row.name = name;
    row.schemas = std::move(schemas);
    row.help = fmt::format("{} of the elements of each window", kind == Pooling::Max ? "the largest" : "the mean");
    row.card.family = "pooling";
    row.card.algorithm =
        kind == Pooling::Max
            ? "compares and masked copies of vectors of 32 channels or planes, columns of a window first, "
              "which windows beside it share, or, of planes, rows first, "
              "where the array has just turned a block of one; NaN spread to every window that has one, of "
              "planes by an element of each block that the array has "
              "turned, times zero, added to the results of its rows; nchw, windows of two columns that do "
              "not overlap, where that takes less time: the larger of the rows of an image, whose columns "
              "the array takes apart, and the larger of those"
            : "bf16 sums of vectors of 32 channels or of 32 planes, columns of a window first, which windows "
              "beside it share, of channels those above it, too, and of large or uneven windows row by row, times "
              "the reciprocal of the "
              "count; nchw of one window: as mean; nchw where no window reaches out of the "
              "image: bf16 sums of the rows of a window, whose columns the array adds (fp32) with the "
              "reciprocal as their weights; of short rows without overlap what lies in 32 "
              "elements that follow each other (fp32), and bf16 sums of those; of windows that overlap or "
              "reach out of the image what lies in a band of its rows (fp32), and bf16 sums of that and of "
              "what lies in the bands beside it, or of single rows";
    row.card.space =
        "tiles of results and vectors of channels, or rows, in the pads at a time, results in straight-line code; where the "
        "pads "
        "hold no tile, the elements of a window that come at a time";
    row.card.bound = kind == Pooling::Max
                         ? "dram, and lanes: as many steps as there are elements in windows, less the results"
                         : "dram, and lanes: as many steps as there are elements in windows, less the results; of rows alone "
                           "where the array adds the columns, none where it adds runs of short rows";
    row.card.reference = kind == Pooling::Max ? "exact" : "float64, relative to the sum of magnitudes";
    row.card.supports =
        "stride, padding, ceil mode; nchw, where the array turns 32 planes at a time or adds columns, so that an infinity or "
        "NaN spreads over up to 32 "
        "elements that come together, where they are maxima to the windows of that part of these rows (of whole rows where a "
        "window is wider than 32 elements, or rows are long "
        "and fewer than four) and to the same results of the 31 planes around, or over the windows that share 32 columns with "
        "it, of short rows over the results of several, of bands over those of a band and of those beside it, and zeros lose "
        "their sign; nhwc, without the array";
    row.card.refuses =
        "dilation; nchw where the array turns planes and 32 of them do not fit the pads of a machine whose transfers take time";
    row.card.fuses = "nothing yet";
    row.tensors = {{"x", {"self", "input"}, "the images"}};
    row.attributes = {{"kernel_size", "of a window", std::vector<int64_t>{}, true},
                      {"stride", "between windows; the kernel size if not given", std::vector<int64_t>{}},
                      {"padding", "around the image", std::vector<int64_t>{}},
                      {"ceil_mode", "windows that reach beyond the image count too", false}};
    if (kind == Pooling::Max) row.attributes.push_back({"dilation", "must be 1", std::vector<int64_t>{}});
    if (kind == Pooling::Average) row.attributes.push_back({"count_include_pad", "the padding counts as elements", true});
    if (kind == Pooling::Average && dimensions == 2)
        row.attributes.push_back({"divisor_override", "divide by this instead", nullptr});
    row.attributes.push_back({"layout", "of x: nchw, as PyTorch has it, or nhwc, channels innermost", "nchw"});
    row.example = {
        {"shape", dimensions == 2 ? "1x64x56x56" : "1x64x128"}, {"kernel-size", "3"}, {"stride", "2"}, {"padding", "1"}};
    row.make = [kind, dimensions](const WorkloadRequest &request) -> std::unique_ptr<Workload> {
        const std::string layout = request.word("layout");
        if (layout != "nhwc" && layout != "nchw")
            throw Error(fmt::format("{}: layout must be nchw or nhwc, not '{}'", request.op, layout));
        const bool planes = layout == "nchw";
        const Shape &shape = request.shape("x");
        const bool batched = shape.size() == dimensions + 2;
        if (!batched && shape.size() != dimensions + 1)
            throw Error(fmt::format("{}: expected {}D or {}D input, but got {}", request.op, dimensions + 1, dimensions + 2,
                                    shape_text(shape)));
        const auto [kernel_y, kernel_x] = pair_of(request, "kernel_size", dimensions, 0);
        const auto [stride_y, stride_x] = pair_of(request, "stride", dimensions, 0);
        const auto [padding_y, padding_x] = pair_of(request, "padding", dimensions, 0);
        if (kind == Pooling::Max)
            if (const auto [dilation_y, dilation_x] = pair_of(request, "dilation", dimensions, 1);
                dilation_y != 1 || dilation_x != 1)
                throw Error(fmt::format("{}: dilation {}, {} is not supported, only 1", request.op, dilation_y, dilation_x));
        PoolShape pool;
        pool.kind = kind;
        pool.images = batched ? shape.front() : 1;
        pool.planes_outermost = planes;
        const size_t channel_axis = shape.size() - 1 - (planes ? dimensions : 0), x_axis = shape.size() - (planes ? 1 : 2),
                     y_axis = x_axis - 1;
        pool.channels = shape[channel_axis];
        const bool ceil_mode = request.flag("ceil_mode");
        pool.x = pool_axis(request.op, shape[x_axis], kernel_x, stride_x == 0 ? kernel_x : stride_x, padding_x, ceil_mode);
        if (dimensions == 2)
            pool.y = pool_axis(request.op, shape[y_axis], kernel_y, stride_y == 0 ? kernel_y : stride_y, padding_y, ceil_mode);
        if (kind == Pooling::Average) {
            pool.count_include_pad = request.flag("count_include_pad");
            if (dimensions == 2 && request.given("divisor_override")) {
                pool.divisor = request.number("divisor_override");
                if (pool.divisor == 0) throw Error(fmt::format("{}: divisor must be not zero", request.op));
            }
        }
        if (kind == Pooling::Average && planes && pool.divisor == 0 && is_whole(pool.x) && is_whole(pool.y))
            return trailing_mean(request, dimensions);
        Shape result = shape;
        result[x_axis] = pool.x.results;
        if (dimensions == 2) result[y_axis] = pool.y.results;
        if (element_count(result) == 0) return constant_workload(request, result);
        return std::make_unique<Pool>(request, pool, result);
    };
    return row;
}

OperatorDeclaration adaptive_row(const std::string &name, size_t dimensions, std::vector<std::string> schemas) {
    OperatorDeclaration row;
    row.name = name;
    row.schemas = std::move(schemas);
    row.help = "the mean of the windows that share the image evenly";
    row.card.family = "pooling";
    row.card.algorithm =
        "to one result: the mean over the image, blocks of 32 through the array (fp32, rounded to bf16) added in fp32; to "
        "more: the windows of average pooling, "
        "which at uneven distances are bands of rows, or, in planes that the array turns, results whose windows have equal "
        "sizes "
        "in one loop";
    row.card.space = "that of mean, or of avg_pool2d";
    row.card.bound = "as mean, or as avg_pool2d";
    row.card.reference = "float64, relative to the sum of magnitudes";
    row.card.supports =
        "any sizes; nchw, where an infinity or NaN spreads over 32 elements or the windows that share 32 columns with it, and "
        "zeros lose their sign; nhwc where windows are of one size at even distances, as where the result's sizes divide the "
        "image's";
    row.card.refuses =
        "nchw where the array turns planes and 32 of them do not fit the pads of a machine whose transfers take time, but for "
        "one result; sizes with more than 36 "
        "kinds of windows, each of which is code of its own (13 to 7 has 7 along an axis, 14 to 7 has one); nhwc with windows "
        "of several sizes";
    row.card.fuses = "nothing yet";
    row.tensors = {{"x", {"self", "input"}, "the images"}};
    row.attributes = {{"output_size", "of the result: one number, or one for each axis", std::vector<int64_t>{1}},
                      {"layout", "of x: nchw, as PyTorch has it, or nhwc, channels innermost", "nchw"}};
    row.example = {{"shape", dimensions == 2 ? "1x64x56x56" : "1x64x128"}, {"output-size", dimensions == 2 ? "8,8" : "16"}};
    row.make = [dimensions](const WorkloadRequest &request) -> std::unique_ptr<Workload> {
        const std::string layout = request.word("layout");
        if (layout != "nhwc" && layout != "nchw")
            throw Error(fmt::format("{}: layout must be nchw or nhwc, not '{}'", request.op, layout));
        const bool planes = layout == "nchw";
        const Shape &shape = request.shape("x");
        if (shape.size() != dimensions + 1 && shape.size() != dimensions + 2)
            throw Error(fmt::format("{}: expected {}D or {}D input, but got {}", request.op, dimensions + 1, dimensions + 2,
                                    shape_text(shape)));
        const auto [rows, columns] = pair_of(request, "output_size", dimensions, 1);
        if (rows < 1 || columns < 1)
            throw Error(fmt::format("{}: output_size must be greater than zero, but got {}, {}", request.op, rows, columns));
        const size_t x_axis = shape.size() - (planes ? 1 : 2), y_axis = x_axis - 1;
        for (size_t axis = dimensions == 2 ? y_axis : x_axis; axis <= x_axis; axis++)
            if (shape[axis] == 0)
                throw Error(fmt::format("{}: expected input to have non-zero size for non-batch dimensions, but got {}",
                                        request.op, shape_text(shape)));
        if (planes && columns == 1 && (dimensions == 1 || rows == 1)) return trailing_mean(request, dimensions);
        PoolShape pool;
        pool.kind = Pooling::Average;
        pool.images = shape.size() == dimensions + 2 ? shape.front() : 1;
        pool.channels = shape[shape.size() - 1 - (planes ? dimensions : 0)];
        pool.planes_outermost = planes;
        pool.x = adaptive_axis(shape[x_axis], columns);
        if (dimensions == 2) pool.y = adaptive_axis(shape[y_axis], rows);
        const std::string to = dimensions == 2 ? fmt::format("{}x{}", rows, columns) : fmt::format("{}", columns);
        constexpr size_t most_phases = 36;
        if (const size_t phases = pool_phases(pool.x).size() * pool_phases(pool.y).size(); phases > most_phases)
            throw Error(
                fmt::format("{}: from {} to {} there are {} kinds of windows, each with code of its own, and at most {} fit",
                            request.op, shape_text(shape), to, phases, most_phases));
        if (!planes && (pool.x.adaptive || pool.y.adaptive))
            throw Error(
                fmt::format("{}: in layout nhwc windows must be of one size at even distances, and from {} to {} they are not; "
                            "permute to nchw, which takes any",
                            request.op, shape_text(shape), to));
        Shape result = shape;
        result[x_axis] = columns;
        if (dimensions == 2) result[y_axis] = rows;
        if (element_count(result) == 0) return constant_workload(request, result);
        return std::make_unique<Pool>(request, pool, result);
    };
    return row;
}

}  // namespace

std::vector<OperatorDeclaration> pool_operators() {
    return {pool_row("max_pool2d", Pooling::Max, 2, {"max_pool2d", "max_pool2d_with_indices"}),
            pool_row("avg_pool2d", Pooling::Average, 2, {"avg_pool2d"}),
            pool_row("max_pool1d", Pooling::Max, 1, {"max_pool1d"}),
            pool_row("avg_pool1d", Pooling::Average, 1, {"avg_pool1d"}),
            adaptive_row("adaptive_avg_pool2d", 2, {"adaptive_avg_pool2d", "_adaptive_avg_pool2d"}),
            adaptive_row("adaptive_avg_pool1d", 1, {"adaptive_avg_pool1d"})};
}

}  // namespace atalla
