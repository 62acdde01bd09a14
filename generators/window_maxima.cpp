#include "generators/window_maxima.h"

#include <algorithm>

#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

bool takes_columns(const PoolShape &shape) {
    constexpr int64_t most_columns = 16;
    const bool shares = shape.kind == Pooling::Max ||
                        (shape.kind == Pooling::Average && shape.planes_outermost && !shape.x.adaptive && !shape.y.adaptive);
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

WindowMaxima::WindowMaxima(const std::string &number, const std::vector<Var> &vars, int columns, int rows, int stride,
                           int start, int first, const std::function<Expr(Expr)> &element, Step step)
    : window("window" + number), column_("column" + number), lane_(vars[0]) {
    column_(vars) = element(0);
    if (rows > 1) {
        below_ = RDom(1, rows - 1, "below" + number);
        column_(vars) = step(element(below_.x), column_(vars));
    }
    std::vector<Expr> at(vars.begin(), vars.end());
    at[1] = vars[1] * stride + start + first;
    window(vars) = column_(at);
    if (columns > 1) {
        beside_ = RDom(1, columns - 1, "beside" + number);
        at[1] = vars[1] * stride + start + (beside_.x + first) % columns;
        window(vars) = step(column_(at), window(vars));
    }
}

void WindowMaxima::schedule(const LoopLevel &windows, const LoopLevel &one_window) {
    column_.compute_at(windows).vectorize(lane_, lanes).bound_extent(lane_, lanes);
    window.compute_at(one_window).vectorize(lane_, lanes).bound_extent(lane_, lanes);
    if (below_.defined()) column_.update().vectorize(lane_, lanes).unroll(below_.x);
    if (beside_.defined()) window.update().vectorize(lane_, lanes).unroll(beside_.x);
    in_registers({column_, window});
}

}  // namespace atalla
