// How windows over planes take them: the image with its padding in the pads, and the blocks that the array turns.
#pragma once

#include <vector>

#include "generators/pool.h"
#include "isa/machine.h"
#include "isa/vectors.h"
#include "schedules/point.h"

namespace atalla {

// What windows see of an axis, padding included, of at least so many results.
int64_t seen_elements(const PoolAxis &axis, int64_t results = 0);

// The image in the pads, row by row with its padding. Rows begin in one pad where the places go round all.
struct PlaneFrame {
    int64_t pitch, rows, places;
    // Windows beyond a row, which only fill up straight-line code, see places of the next one.
    PlaneFrame(const PoolShape &shape, const Machine &machine, int64_t results);
};

// Rows of elements in blocks of up to 32, which the array turns: parts of a row, whole rows, or what follows each other where
// rows do.
struct PlaneBlocks {
    int64_t elements = lanes;     // of a block
    int64_t parts = 1, step = 0;  // of a row, and from one's first element to the next one's; they may share elements
    int64_t rows = 1;             // of a block
    int64_t bands = 1;            // all blocks of one part
    int64_t length = lanes;       // from band to band
    bool in_one_row = false;      // bands are parts of a single row

    // Whatever the pads go round, the first places of two blocks are in one.
    static PlaneBlocks of_image(const PoolShape &shape, const Machine &machine);

    // Of results no element is in two blocks, and the last ones may be shorter.
    static PlaneBlocks of_results(const PoolShape &shape, const Machine &machine);

    // From band to band where rows of so many elements are `pitch` apart.
    int64_t distance(int64_t columns, int64_t pitch) const { return length == rows * columns ? rows * pitch : length; }

    // Columns of which every block that has an element of a row has one.
    std::vector<int64_t> columns_of_blocks(int64_t width) const;

private:
    // Parts of a single row are bands.
    PlaneBlocks in_one_line(int64_t distance);
};

// How a point takes the planes.
struct PlanePlan {
    int64_t columns;  // windows of a row, as many as fill straight-line code
    int64_t pitch;    // from row to row of the results
    PlaneFrame frame;
    PlaneBlocks image, back;
    int64_t bands, results;  // that come, or leave, together
    int64_t together;        // blocks of 32 planes in the pads at a time

    PlanePlan(const PoolShape &shape, const Machine &machine, const Point &point);

    int64_t chunks() const { return ceil_div(image.bands, bands); }
    // The last block of results may have room for more rows than there are.
    int64_t result_rows() const { return back.in_one_row ? 1 : back.bands * back.rows; }
};

// Does what is in the pads at a time fit them?
bool planes_fit(const PoolShape &shape, const Machine &machine, const Point &point);

KernelDefinition plane_pool_kernel(const PoolShape &shape, const Machine &machine, const Point &point);

}  // namespace atalla
