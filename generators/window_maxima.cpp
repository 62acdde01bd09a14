#include "generators/window_maxima.h"

#include <algorithm>

#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

bool takes_columns(const PoolShape &shape) {
    constexpr int64_t most_columns = 16;
    const bool shares =
        shape.kind == Pooling::Max || (shape.kind == Pooling::Average && !shape.x.adaptive && !shape.y.adaptive);
    return shares && shape.y.kernel > 1 && shape.x.kernel <= most_columns && shape.x.stride <= shape.x.kernel &&
           shape.x.kernel * shape.y.kernel <= most_unrolled_taps;
}

int64_t shared_columns(const PoolAxis &axis, int64_t windows) { return (windows - 1) * axis.stride + axis.kernel; }

int64_t own_column(const PoolAxis &axis) {
    return axis.kernel < 2 * axis.stride ? std::max<int64_t>(0, axis.kernel - axis.stride) : 0;
}

int64_t window_operations(const PoolShape &shape, int64_t windows) {
    // Weighted windows alone have operators behind them.
    if (shape.kind == Pooling::Weighted)
        return windows * (2 * shape.x.kernel * shape.y.kernel + shape.epilogue.operations().all());
    const int64_t columns = shared_columns(shape.x, windows) * (shape.y.kernel - 1) + windows * (shape.x.kernel - 1);
    if (shape.kind != Pooling::Max)
        return shape.kind == Pooling::Average && takes_columns(shape) ? columns : windows * shape.x.kernel * shape.y.kernel;
    // Planes have an addition for NaN behind the last step.
    const int64_t step = shape.planes_outermost ? 2 : 4, behind = shape.planes_outermost ? windows : 0;
    if (!takes_columns(shape)) return behind + step * windows * shape.x.kernel * shape.y.kernel;
    return behind + step * columns;
}

Expr larger(const Expr &element, const Expr &so_far) {
    return select(strict_float(element != element), element, strict_float(max(element, so_far)));
}
Expr sum_with(const Expr &element, const Expr &so_far) { return strict_float(so_far + element); }
Expr larger_number(const Expr &element, const Expr &so_far) { return strict_float(max(element, so_far)); }

bool shares_pairs(const PoolAxis &axis) { return !axis.adaptive && axis.kernel - axis.stride > 1; }

bool all_pairs(const PoolAxis &axis) { return shares_pairs(axis) && axis.results % 2 == 0; }

int64_t steps_of_pairs(const PoolAxis &axis, bool in_pairs, int64_t windows) {
    return in_pairs ? ceil_div(windows, int64_t{2}) * (axis.kernel - axis.stride - 1) + windows * axis.stride
                    : windows * (axis.kernel - 1);
}

Expr of_all(int elements, const std::function<Expr(Expr)> &element, WindowStep step) {
    Expr value = element(0);
    for (int e = 1; e < elements; e++) value = e + 1 < elements ? step(element(e), value) : step(value, element(e));
    return value;
}

Expr of_pair(const PoolAxis &axis, const Expr &window, const std::function<Expr(Expr)> &element, WindowStep step) {
    const int kernel = static_cast<int>(axis.kernel), own = static_cast<int>(axis.stride), common = kernel - own;
    const auto all = [&](const Expr &first, int count) {
        Expr value = element(first);
        for (int i = 1; i < count; i++) value = step(element(first + i), value);
        return value;
    };
    return step(all((1 - window % 2) * own, common), all(window % 2 * common, own));
}

WindowMaxima::WindowMaxima(const std::string &number, const std::vector<Var> &vars, int columns, int rows, int stride,
                           int start, int first, const std::function<Expr(Expr)> &element, WindowStep step)
    : window("window" + number), number_(number), column_("column" + number), lane_(vars[0]) {
    define_columns(vars, rows, element, step);
    define_windows(vars, columns, stride, start, first, step);
}

WindowMaxima::WindowMaxima(const std::vector<Var> &vars, const PoolShape &shape, bool pairs_beside, bool pairs_above,
                           const std::function<Expr(Expr)> &element, WindowStep step)
    : window("window"), column_("column"), lane_(vars[0]) {
    const PoolAxis &ax = shape.x, &ay = shape.y;
    const int stride = static_cast<int>(ax.stride);
    if (pairs_above) {
        column_(vars) = of_pair(ay, vars[2], element, step);
        column_.unroll(vars[2]);
    } else {
        column_(vars) = of_all(static_cast<int>(ay.kernel), element, step);
    }
    if (pairs_beside) {
        std::vector<Expr> at(vars.begin(), vars.end());
        window(vars) = of_pair(
            ax, vars[1],
            [&](const Expr &column) {
                at[1] = vars[1] * stride + column;
                return column_(at);
            },
            step);
        return;
    }
    // A maximum takes the place of a column that no window beside it has, and the others stay.
    define_windows(vars, static_cast<int>(ax.kernel), stride, 0, static_cast<int>(own_column(ax)), step);
}

void WindowMaxima::define_columns(const std::vector<Var> &vars, int rows, const std::function<Expr(Expr)> &element,
                                  WindowStep step) {
    column_(vars) = element(0);
    if (rows == 1) return;
    below_ = RDom(1, rows - 1, "below" + number_);
    column_(vars) = step(element(below_.x), column_(vars));
}

void WindowMaxima::define_windows(const std::vector<Var> &vars, int columns, int stride, int start, int first,
                                  WindowStep step) {
    std::vector<Expr> at(vars.begin(), vars.end());
    at[1] = vars[1] * stride + start + first;
    window(vars) = column_(at);
    if (columns == 1) return;
    beside_ = RDom(1, columns - 1, "beside" + number_);
    at[1] = vars[1] * stride + start + (beside_.x + first) % columns;
    window(vars) = step(column_(at), window(vars));
}

void WindowMaxima::bound(const std::vector<Var> &vars, int64_t columns, int64_t rows) {
    column_.bound_extent(vars[1], static_cast<int>(columns)).bound_extent(vars[2], static_cast<int>(rows));
    window.bound_extent(vars[1], 1).bound_extent(vars[2], 1);
}

void WindowMaxima::schedule(const LoopLevel &windows, const LoopLevel &one_window) {
    column_.compute_at(windows).vectorize(lane_, lanes).bound_extent(lane_, lanes);
    window.compute_at(one_window).vectorize(lane_, lanes).bound_extent(lane_, lanes);
    if (below_.defined()) column_.update().vectorize(lane_, lanes).unroll(below_.x);
    if (beside_.defined()) window.update().vectorize(lane_, lanes).unroll(beside_.x);
    in_registers({column_, window});
}

}  // namespace atalla
