// Pooling over images.
#pragma once

#include <string>
#include <vector>

#include "generators/epilogue.h"
#include "generators/kernel_definition.h"
#include "generators/kernel_run.h"
#include "generators/operator.h"
#include "isa/machine.h"
#include "isa/vectors.h"
#include "schedules/point.h"
#include "schedules/space.h"

namespace atalla {

// Weighted: the sum of the elements, each times the weight of its place in the window, which is the plane's own; a depthwise
// convolution.
enum class Pooling { Max, Average, Weighted };

// One axis of the windows. Outside the image Max sees -infinity and the others zeros.
struct PoolAxis {
    int64_t size = 1, results = 1;
    int64_t kernel = 1, stride = 1, padding = 0;
    bool adaptive = false;  // windows from floor(at size / results) to ceil((at + 1) size / results); `kernel` is the longest
    int64_t first(int64_t at) const { return adaptive ? at * size / results : at * stride - padding; }
    // Behind the last element, of the image or the padding.
    int64_t end(int64_t at) const { return adaptive ? ((at + 1) * size + results - 1) / results : first(at) + kernel; }
};

// Results `first`, `first + step`, ... whose windows are alike: each begins `stride` behind the one before.
struct PoolPhase {
    int64_t first = 0, step = 1, count = 1;
    int64_t start = 0, stride = 1, kernel = 1;  // of the first window, from the beginning of the padding
};
std::vector<PoolPhase> pool_phases(const PoolAxis &axis);

// Windows of at most so many elements are unrolled: each place of a pixel takes a register of its own.
constexpr int64_t most_unrolled_taps = 64;

struct PoolShape {
    Pooling kind = Pooling::Max;
    int64_t images = 1, channels = 1;
    PoolAxis x, y;
    bool planes_outermost = false;  // images as PyTorch has them, [image][channel][y][x]; otherwise channels are innermost
    bool count_include_pad = true;
    double divisor = 0;  // divisor_override, 0: the elements of the window
    bool bias = false;   // Weighted: what is added to a plane
    Epilogue epilogue;   // behind each result, of Weighted

    int64_t vectors() const { return tiles_of(channels); }
};

// The axis of a pooling as PyTorch counts its results. Error with PyTorch's words where there are none.
PoolAxis pool_axis(const std::string &op, int64_t size, int64_t kernel, int64_t stride, int64_t padding, bool ceil_mode);
// Windows that share an image of this size among so many results.
PoolAxis adaptive_axis(int64_t size, int64_t results);

// What of the padding a window sees, and the factor of its sum.
bool reaches_out(const PoolAxis &axis);
inline bool padded(const PoolShape &shape) { return reaches_out(shape.x) || reaches_out(shape.y); }
// Elements of a window that count, in PyTorch's way, and whether they are as many as the kernel has everywhere.
int64_t counted(const PoolAxis &axis, int64_t at, bool count_include_pad);
bool uniform(const PoolAxis &axis, bool count_include_pad);
// Elements of the image that are in some window.
int64_t covered_elements(const PoolAxis &axis);
// Steps that take the larger of two values, without which no program has the largest element of every window of a plane
// (docs/bounds.md).
int64_t least_maximum_steps(const PoolAxis &x, const PoolAxis &y);
// The mean of a window from its sum. Where windows have different counts, rows of the pads hold the factors of x and y.
Halide::Expr window_mean(const PoolShape &shape, Halide::Expr sum, Halide::Expr lane, Halide::Expr x, Halide::Expr y);

// A way to compute poolings: the shapes that it takes, its schedules and their kernels. Inputs X and, of weighted windows, F
// and the bias.
struct PoolForm {
    bool (*takes)(const PoolShape &shape, const Machine &machine);
    Space (*space)(const PoolShape &shape, const Machine &machine);
    Point (*naive_point)(const PoolShape &shape, const Machine &machine);
    double (*draft)(const PoolShape &shape, const Machine &machine, const Point &point);
    KernelDefinition (*kernel)(const PoolShape &shape, const Machine &machine, const Point &point);
};

// Planes outermost, where no window reaches out of the image: lanes lie along its rows. Of means a product with constant
// weights adds the columns of the windows; an infinity or NaN then spreads over the results of a vector of columns. Of maxima
// of windows of two columns products take the columns apart, where that beats turning planes, and an infinity or NaN that is
// the largest of its column does the same. A zero loses its sign.
extern const PoolForm row_pool;
// The beats of the bus that it takes; infinite where it does not take the shape.
double beats_along_rows(const PoolShape &shape, const Machine &machine);
// Means, planes outermost, where no window reaches out of the image or below another one: what the rows of some results see is
// a run of elements, which comes as it lies in memory, and products with constant weights add what a vector of it has of each
// window. An infinity or NaN then spreads over the results of a run, and a zero loses its sign. Where that spares the bus much,
// as of short rows.
extern const PoolForm run_pool;
// Means, planes outermost, of windows that overlap or reach out of the image: bands of rows of the image as they lie in memory,
// whose elements products with constant weights take to their results. An infinity or NaN then spreads over the results of a
// band and of those beside it, and a zero loses its sign.
extern const PoolForm band_pool;
// Maxima, planes outermost, in two steps: along the rows of an image, where the array has just turned a block of one and all
// its elements are in registers, and then along columns, where the results go back through the array. An infinity or NaN
// spreads to the windows of its part of a row.
extern const PoolForm row_maxima;
// Planes outermost: 32 planes at a time are turned by the array, so that lanes are planes, and their results are turned back.
// An infinity or NaN then spreads over a block of 32 elements, and to all windows of maxima that see a row with an element of
// the block, and a zero loses its sign. Weighted windows are of one image, or of a multiple of 32 channels: F [channels][kernel
// y][kernel x] and the bias [channels]. It takes what the pads hold.
extern const PoolForm plane_pool;
// Channels innermost; F of weighted windows is [kernel y][kernel x][channels]. It takes what leaves room for tiles of results
// in the pads.
extern const PoolForm channel_pool;
// The same where the pads have no room: the elements of a window one after the other, or a few at a time. Planes, too, each as
// an image of one channel, where transfers take no time; elsewhere that would be slow beyond use.
extern const PoolForm element_pool;

// The form that serves best: runs, rows, bands, maxima of rows, channels, whole planes or elements if one takes the shape, else
// planes, whose space is then empty.
const PoolForm &pool_form(const PoolShape &shape, const Machine &machine);

Reference pool_reference(const PoolShape &shape, const TensorData &input);
double pool_tolerance_ulps(const PoolShape &shape);

}  // namespace atalla
