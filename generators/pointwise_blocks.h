// How the result of a pointwise kernel is cut into blocks that fit the pads.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "generators/broadcast.h"
#include "generators/joined_rows.h"
#include "generators/patterns.h"
#include "generators/transfer_cost.h"
#include "isa/machine.h"
#include "isa/vectors.h"
#include "schedules/space.h"

namespace atalla {

// Blocks of `cols` of the innermost dimension times `rows` of the next, of whole ones times `planes` of the third; the others
// are loops.
struct Tiling {
    int64_t width = 1, height = 1;  // of the whole result: innermost dimension, next dimension
    int64_t cols = 1, rows = 1, planes = 1;
    int64_t stored_cols = lanes;  // of a row in the pads
    int64_t blocks = 1;           // of all dimensions
    bool guarded = false;         // rows end inside a vector
    int64_t vectors() const { return planes * rows * (stored_cols / lanes); }
};

// Vectors in straight-line code: so many beside each other in a row, of so many rows of so many planes.
struct StraightVectors {
    int64_t across = 1, down = 1, deep = 1;
    int64_t all() const { return across * down * deep; }
};

int64_t largest_divisor(int64_t of, int64_t most);

class PointwiseBlocks {
public:
    // Value of the parameter `parts` for blocks that are parts of two pages of the DRAM, which are in different bank groups.
    static constexpr int64_t in_pages = 2;
    // And for one block of all elements, of which each pad has the same half of every other page: the halves of two
    // neighbouring pages, which are in different bank groups, are in pads of their own.
    static constexpr int64_t all_in_pages = 3, halves_of_page = 2, neighbours = 2, tiles_of_half = 2;

    PointwiseBlocks() = default;
    // `operands`: tensors and what is computed of them once; `parts`: how many are the latter; `columns`: how many of both have
    // a number for each row. `run`: the rows as one run, where they may be one.
    PointwiseBlocks(LoopNest nest, int64_t operands, int64_t parts, int64_t columns, const JoinedRows &run = {});

    // Of two dimensions or more, with an innermost one that is longer than a tile's rows cut into equal ones where it divides.
    static LoopNest with_short_rows(LoopNest nest);

    // Parameters: `block`, elements or rows that come and go together; `unroll`, vectors in straight-line code; `pads`, how
    // many a buffer goes round; `parts`, how a block lies in them; `numbers`, how those of rows are read, where there are some;
    // `joined`, whether all rows are one run.
    Space space(const Machine &machine) const;
    Tiling tiling(const Machine &machine, const Point &point) const;
    // Of blocks that are not parts of pages. Where they lie in parts, straight-line code takes as much from each.
    StraightVectors straight(const Machine &machine, const Tiling &t, const Point &point) const;
    // The result as pages, of which a block has a piece of two neighbours, and the elements between places in each dimension.
    // Operands without outer dimensions begin anew in each page, in parts of one, or after some pairs of neighbours.
    struct Pages {
        LoopNest nest;
        std::vector<int64_t> strides;
    };
    Pages pages_of(const Machine &machine, int64_t block) const;
    Tiling pages_tiling(int64_t block) const;
    // The result as halves of pages, those of a page, neighbouring pages and pairs of these.
    LoopNest halves_of_pages(const Machine &machine) const;
    // Elements of such a half: two transfers, of somewhat fewer rows than one may have where the elements do not divide
    // otherwise; 0 if they do not.
    int64_t half_of_page(const Machine &machine) const;
    static int64_t page_elements(const Machine &machine) { return machine.dram.row_bytes / 2; }
    // How many times as long as its beats a block takes to come or to go, and how many more transfers than full ones.
    struct Transfers {
        double slowdown = 1;
        int64_t more = 0;
    };
    Transfers transfers(const Machine &machine, const Point &point) const;
    static bool single_numbers(const Point &point);
    static bool is_joined(const Point &point);
    const JoinedRows &run() const { return run_; }
    // Whether the rows that a point joins meet patterns of operands without outer dimensions.
    bool meets_patterns(const Point &point) const { return patterns_.exists() && is_joined(point); }
    const PatternRun &patterns() const { return patterns_; }
    void set_patterns(PatternRun patterns) { patterns_ = std::move(patterns); }
    // Whether those with numbers are turns of a loop.
    bool in_turns(const Point &point) const { return run_.exist() && is_joined(point); }
    // Of the dimension that is divided among the pads (vectors of a row, rows, or planes), what one of them gets; 0: it does
    // not divide.
    int64_t part_of(const Tiling &t, int64_t pads) const;

    int64_t operands() const { return operands_; }
    // There are numbers of rows.
    bool has_column() const { return columns_ > 0; }

private:
    // `in_parts`: a row lies in one pad; otherwise long rows go round them.
    Tiling tiling(const Machine &machine, int64_t block, bool in_parts) const;
    TransferCost transfers_of_block(const Machine &machine, const Point &point) const;
    Tiling tiling_of_run(int64_t block) const;
    bool run_fits(const Machine &machine, const Point &point) const;
    // Rows of a block of the run, and vectors in straight-line code.
    std::set<int64_t> blocks_of_run(const Machine &machine) const;
    std::set<int64_t> unrolls_of_run() const;
    // Elements of a block of a run that meets patterns.
    std::set<int64_t> blocks_of_patterns(const Machine &machine) const;
    Tiling tiling_of_patterns(const Machine &machine, int64_t block) const;
    int64_t largest() const { return nest_.dims.size() > 1 ? nest_.dims[1].extent : 1; }
    int64_t row_step(const Machine &machine) const;
    int64_t most_cols(const Machine &machine) const;
    int64_t size_of(const Machine &machine, int64_t rows) const;
    bool has_pages(const Machine &machine, int64_t block) const;
    // Elements of a block of pages.
    int64_t elements_of(int64_t block) const { return nest_.dims.size() == 1 ? block : block * nest_.dims[0].extent; }
    int64_t all_elements() const;
    // Elements after which operands without outer dimensions begin anew; all of them where there are no such operands, 0 where
    // they are not alike.
    int64_t period() const;
    bool fits(const Machine &machine, const Tiling &t) const;
    // Rows of one pad that numbers of rows take which are spread over vectors.
    int64_t spread_rows(const Machine &machine, const Tiling &t) const { return machine.timed() ? columns_ * t.rows : 0; }

    LoopNest nest_;
    int64_t operands_ = 0, parts_ = 0;
    int64_t small_operands_ = 0;  // that take rows of their own beside a block: what is computed once, single numbers
    int64_t columns_ = 0;         // operands with a number for each row
    JoinedRows run_;
    PatternRun patterns_;
};

}  // namespace atalla
