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

// The larger of two values, or their sum: one of those below.
using WindowStep = Halide::Expr (*)(const Halide::Expr &element, const Halide::Expr &so_far);

// Is what two windows beside each other have in common worth making once for both?
bool shares_pairs(const PoolAxis &axis);
// Are all windows of an axis pairs? Whether they share decides which of two zeros a maximum is, so the shape alone does.
bool all_pairs(const PoolAxis &axis);
// Steps along an axis of so many windows beside each other, which share in pairs or not.
int64_t steps_of_pairs(const PoolAxis &axis, bool in_pairs, int64_t windows);
// What `step` makes of so many elements, element(0) and so on. The last one is what it keeps, so that no register lives through
// all steps.
Halide::Expr of_all(int elements, const std::function<Halide::Expr(Halide::Expr)> &element, WindowStep step);
// What `step` makes of a window's elements, element(0) and so on: of those that it has in common with its neighbour in a pair
// of windows, one expression for both, and of its own. An even window is the first of its pair.
Halide::Expr of_pair(const PoolAxis &axis, const Halide::Expr &window, const std::function<Halide::Expr(Halide::Expr)> &element,
                     WindowStep step);

class WindowMaxima {
public:
    // Over vars (lanes, x, y and what is around). The windows are `stride` columns apart, the first one begins at `start`;
    // element(row) is that of column x in a row of window y. A maximum starts from column `first` of its window and goes round.
    WindowMaxima(const std::string &number, const std::vector<Halide::Var> &vars, int columns, int rows, int stride, int start,
                 int first, const std::function<Halide::Expr(Halide::Expr)> &element, WindowStep step);
    // The same of a shape's windows from column 0 on. Pairs of windows beside each other share what they have in common, and so
    // do pairs above each other, where straight-line code has them all.
    WindowMaxima(const std::vector<Halide::Var> &vars, const PoolShape &shape, bool pairs_beside, bool pairs_above,
                 const std::function<Halide::Expr(Halide::Expr)> &element, WindowStep step);

    // So many columns and rows in straight-line code, for windows that are one loop of the two axes or begin earlier in the
    // last tile, where Halide finds no constant.
    void bound(const std::vector<Halide::Var> &vars, int64_t columns, int64_t rows);
    // Columns once for all windows in straight-line code, a window at a time.
    void schedule(const Halide::LoopLevel &windows, const Halide::LoopLevel &one_window);

    Halide::Func window;

private:
    void define_columns(const std::vector<Halide::Var> &vars, int rows,
                        const std::function<Halide::Expr(Halide::Expr)> &element, WindowStep step);
    void define_windows(const std::vector<Halide::Var> &vars, int columns, int stride, int start, int first, WindowStep step);

    std::string number_;
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
