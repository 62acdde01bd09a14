// Windows over images whose channels are innermost, for pads that do not hold all elements of a window: these come one after
// the other, or a few at a time, while registers hold what is made of them. Lanes are channels.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "generators/long_sums.h"
#include "generators/pool.h"
#include "generators/vocabulary.h"
#include "generators/window_maxima.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// Results whose windows have as many elements of the image, and those at the same places of the window: what lies outside of
// the image is left out.
struct Alike {
    PoolPhase windows;     // `start` counts from the beginning of the image
    int64_t left_out = 0;  // places of a window in front of the image
    int64_t divisor = 1;   // elements that count
};

std::vector<Alike> alike_windows(const PoolAxis &axis, bool count_include_pad) {
    std::vector<Alike> all;
    if (axis.adaptive) {
        for (const PoolPhase &phase : pool_phases(axis)) all.push_back({phase, 0, phase.kernel});
        return all;
    }
    for (int64_t at = 0; at < axis.results; at++) {
        const int64_t first = axis.first(at), start = std::max<int64_t>(first, 0),
                      elements = std::max<int64_t>(0, std::min(axis.end(at), axis.size) - start);
        const Alike one{{at, 1, 1, start, axis.stride, elements}, start - first, counted(axis, at, count_include_pad)};
        if (!all.empty() && all.back().windows.kernel == elements && all.back().left_out == one.left_out &&
            all.back().divisor == one.divisor)
            all.back().windows.count++;
        else
            all.push_back(one);
    }
    return all;
}

class ElementPool {
public:
    ElementPool(const PoolShape &shape, const Point &point)
        : shape_(shape), channels_(size(of_lanes(shape))), elements_(point["elements"]) {}

    // Planes of one channel each are images whose only channel is innermost.
    static int64_t of_lanes(const PoolShape &shape) { return shape.planes_outermost ? 1 : shape.channels; }

    KernelDefinition run() {
        out_(c_, x_, y_, i_) = undef<BFloat>();
        for (const Alike &y : alike_windows(shape_.y, shape_.count_include_pad))
            for (const Alike &x : alike_windows(shape_.x, shape_.count_include_pad)) define(x, y);
        out_.bound(c_, 0, channels_)
            .bound(x_, 0, size(shape_.x.results))
            .bound(y_, 0, size(shape_.y.results))
            .bound(i_, 0, size(images()));
        whole_loops(out_);
        fix_shape(out_.output_buffer(), extents(shape_.x.results, shape_.y.results));
        KernelDefinition kernel;
        kernel.pipeline = Pipeline(out_);
        kernel.add_input("X", image_);
        if (weighted()) kernel.add_input("F", weights_);
        if (shape_.bias) kernel.add_input("bias", bias_);
        kernel.outputs = {{"Y", extents(shape_.x.results, shape_.y.results)}};
        return kernel;
    }

private:
    int64_t images() const { return shape_.images * (shape_.planes_outermost ? shape_.channels : 1); }
    std::vector<int64_t> extents(int64_t columns, int64_t rows) const { return {channels_, columns, rows, images()}; }
    bool weighted() const { return shape_.kind == Pooling::Weighted; }
    int64_t taps() const { return shape_.x.kernel * shape_.y.kernel; }

    // Windows of each kind have rows in the pads in their turn: all where those of the first kind are (codegen/share_rows.h).
    Func in_turn(const std::string &name) {
        const int before = made_[name]++;
        return Func(before == 0 ? name : fmt::format("{}{}_over_{}", name, before, name));
    }

    // A row of 32 channels of a tensor whose other coordinates these are.
    Func channels_of(const std::string &name, const ImageParam &tensor, std::vector<Var> others) {
        std::vector<Var> vars = {c_};
        vars.insert(vars.end(), others.begin(), others.end());
        std::vector<Expr> at(vars.begin(), vars.end());
        const bool narrow = channels_ % lanes != 0;
        if (narrow) at[0] = min(c_, channels_ - 1);
        Func rows = in_turn(name);
        rows(vars) = narrow ? select(c_ < channels_, tensor(at), undef<BFloat>()) : tensor(at);
        in_pads({rows});
        return rows;
    }

    void define(const Alike &x, const Alike &y) {
        const std::string number = std::to_string(made_["result"]);
        const PoolPhase &px = x.windows, &py = y.windows;
        const RDom places(0, size(px.count), 0, size(py.count), "places" + number);
        Func result = in_turn("result");
        const LoopLevel here(out_, places.x);
        Expr value = px.kernel * py.kernel == 0 ? bf16(0.0f) : window(number, LoopLevel(result, x_), x, y);
        if (shape_.kind == Pooling::Average) {
            const double divisor = shape_.divisor != 0 ? shape_.divisor : static_cast<double>(x.divisor * y.divisor);
            value = strict_float(value * bf16(static_cast<float>(1 / divisor)));
        }
        if (shape_.bias) {
            Func bias = channels_of("bias_row", bias_, {});
            bias.compute_at(here).bound_extent(c_, lanes);
            value = strict_float(value + bias(c_));
        }
        result(c_, x_, y_, i_) = shape_.epilogue.apply(value);
        result.compute_at(here).vectorize(c_, lanes).bound_extent(c_, lanes);
        in_pads({result});
        out_(c_, places.x * size(px.step) + size(px.first), places.y * size(py.step) + size(py.first), i_) =
            result(c_, places.x, places.y, i_);
        const Var block("co"), channel("ci");
        out_.update(out_.num_update_definitions() - 1)
            .split(c_, block, channel, std::min(lanes, channels_), TailStrategy::GuardWithIf)
            .reorder({channel, places.x, places.y, block, i_});
    }

    // What is made of the elements of a window, where `here` says.
    Expr window(const std::string &number, const LoopLevel &here, const Alike &x, const Alike &y) {
        const PoolPhase &px = x.windows, &py = y.windows;
        const std::vector<Var> vars = {c_, x_, y_, i_};
        const std::vector<Expr> at(vars.begin(), vars.end());
        Func window("window" + number);
        std::vector<Func> rows, factors;  // of each run
        const auto element = [&](const Expr &column, const Expr &row) {
            return rows.back()(c_, x_ * size(px.stride) + size(px.start) + column, y_ * size(py.stride) + size(py.start) + row,
                               i_);
        };
        std::vector<SummingFunc> sums;
        if (shape_.kind == Pooling::Max) {
            rows.push_back(channels_of("pixels", image_, {x_, y_, i_}));
            const RDom taps(0, size(px.kernel), 0, size(py.kernel), "taps" + number);
            window(vars) = bf16(-infinity);
            window(vars) = larger(element(taps.x, taps.y), window(at));
            sums = {{window, {px.kernel, py.kernel, 0, nullptr, nullptr}, taps}};
        } else {
            sums = summing_funcs(
                window, vars, long_sum(px.kernel, py.kernel),
                [&](size_t run) {
                    rows.push_back(channels_of("pixels", image_, {x_, y_, i_}));
                    if (weighted()) factors.push_back(channels_of("factors", weights_, {t_}));
                    return [&, run](const Expr &column, const Expr &row) {
                        const Expr tap = (row + size(y.left_out)) * size(shape_.x.kernel) + column + size(x.left_out);
                        return weighted() ? strict_float(element(column, row) * factors[run](c_, tap)) : element(column, row);
                    };
                },
                "taps" + number);
        }
        size_t run = 0;
        for (SummingFunc &one : sums) {
            const RVar chunks("chunks"), inside("inside");
            one.sum.compute_at(one.place(sums, here)).vectorize(c_, lanes).bound_extent(c_, lanes);
            in_registers({one.sum});
            if (one.of.rest) one.sum.update(1).vectorize(c_, lanes);
            if (one.of.in_groups()) {
                one.sum.update().reorder(c_, one.terms.x).vectorize(c_, lanes);
                continue;
            }
            const int chunk = size(std::gcd(elements_, one.of.steps));
            std::vector<VarOrRVar> order = {c_, inside, chunks};
            if (one.terms.dimensions() > 1) order.emplace_back(one.terms.y);
            one.sum.update().split(one.terms.x, chunks, inside, chunk).reorder(order).vectorize(c_, lanes);
            rows[run]
                .compute_at(one.sum, chunks)
                .bound_extent(c_, lanes)
                .bound_extent(x_, chunk)
                .bound_extent(y_, 1)
                .bound_storage(x_, size(elements_));
            if (weighted())
                factors[run]
                    .compute_at(one.sum, chunks)
                    .bound_extent(c_, lanes)
                    .bound_extent(t_, chunk)
                    .bound_storage(t_, size(elements_));
            run++;
        }
        return window(at);
    }

    const PoolShape &shape_;
    const int channels_;
    const int64_t elements_;
    std::map<std::string, int> made_;  // Funcs of each name
    Var c_{"c"}, x_{"x"}, y_{"y"}, i_{"i"}, t_{"t"};
    Func out_{"Y"};
    ImageParam image_ = tensor("X", extents(shape_.x.size, shape_.y.size)), weights_ = tensor("F", {shape_.channels, taps()}),
               bias_ = tensor("bias", {shape_.channels});
};

Space space_of(const PoolShape &shape, const Machine &machine) {
    // With the elements there are their factors, the result and a bias.
    const int64_t most = machine.pad_rows() / 2;
    Space space;
    space.parameter("elements", "of a row of a window in the pads at a time", divisors(shape.x.kernel, most));
    return space;
}

Point naive_point_of(const PoolShape &, const Machine &) { return {{"elements", 1}}; }

double draft_of(const PoolShape &shape, const Machine &machine, const Point &point) {
    // A transfer of a few elements after the other.
    const double transfer = machine.timed() ? 200 : 8, element = 8;
    const auto elements = static_cast<double>(shape.images * shape.x.results * shape.y.results * shape.x.kernel *
                                              shape.y.kernel * (shape.planes_outermost ? shape.channels : shape.vectors()));
    return elements * (element + transfer / static_cast<double>(point["elements"]));
}

}  // namespace

const PoolForm element_pool = {
    [](const PoolShape &shape, const Machine &machine) {
        return !shape.planes_outermost || (shape.kind != Pooling::Weighted && !machine.timed());
    },
    space_of, naive_point_of, draft_of,
    [](const PoolShape &shape, const Machine &, const Point &point) { return ElementPool(shape, point).run(); }};

}  // namespace atalla
