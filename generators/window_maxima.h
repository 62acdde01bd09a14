// The largest elements of windows, or their sums, taken apart: of each column of a window first, then of its columns, which
// windows beside it share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <Halide.h>

#include "generators/pool.h"

namespace atalla {

// Are windows of this size taken apart? Columns stay in registers.
bool takes_columns(const PoolShape &shape);
// Columns that so many neighbouring windows have.
int64_t shared_columns(const PoolAxis &axis, int64_t windows);
// A column of each window that no window beside it has; 0 where there is none.
int64_t own_column(const PoolAxis &axis);
// Lane operations of so many neighbouring windows, a factor of each element left out.
int64_t window_operations(const PoolShape &shape, int64_t windows);

class WindowMaxima {
public:
    // Over vars (lanes, x, y and what is around). The windows are `stride` columns apart, the first one begins at `start`;
    // element(row) is that of column x in a row of window y. A maximum starts from column `first` of its window and goes round.
    // `step` is one of those below.
    using Step = Halide::Expr (*)(const Halide::Expr &element, const Halide::Expr &so_far);
    WindowMaxima(const std::string &number, const std::vector<Halide::Var> &vars, int columns, int rows, int stride, int start,
                 int first, const std::function<Halide::Expr(Halide::Expr)> &element, Step step);

    // Columns once for all windows in straight-line code, a window at a time.
    void schedule(const Halide::LoopLevel &windows, const Halide::LoopLevel &one_window);

    Halide::Func window;

private:
    Halide::Func column_;
    Halide::Var lane_;
    Halide::RDom below_, beside_;
};

// The larger one; NaN where either is none.
Halide::Expr larger(const Halide::Expr &element, const Halide::Expr &so_far);
Halide::Expr sum_with(const Halide::Expr &element, const Halide::Expr &so_far);
// The larger one of two numbers, in half as many operations.
Halide::Expr larger_number(const Halide::Expr &element, const Halide::Expr &so_far);

}  // namespace atalla
