// What moves beside a loop over rows that are all in the pads: the tiles of a copy in the order in which the loop touches them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// A loop and those inside of it, each of which is all that the one around it has. Its turns are those of the innermost one.
class LoopNest {
public:
    LoopNest(const Kernel &kernel, Loop &outermost);

    const Kernel &kernel() const { return kernel_; }
    Loop &hot() const { return *loops_.back(); }
    int64_t turns() const { return turns_; }
    // Iterations of several loops begin in front of the innermost one: branches out of line are there, too.
    bool is_several() const { return loops_.size() > 1; }
    // Does it always run as often, and has nothing but operations that are done in each turn?
    bool computes_rows() const;
    // The iterations of its loops in a turn, by the names of their variables.
    std::map<std::string, int64_t> iterations_of(int64_t turn) const;
    // The operations of the innermost loop.
    std::vector<Op> operations() const;

private:
    const Kernel &kernel_;
    std::vector<Loop *> loops_;  // outermost first
    int64_t turns_ = 1;
};

// Where a tile is in memory, in elements, and in its pad, or how far from another one.
struct TilePlace {
    int64_t mem = 0, row = 0;
    TilePlace operator-(const TilePlace &other) const { return {mem - other.mem, row - other.row}; }
    TilePlace operator*(int64_t times) const { return {mem * times, row * times}; }
    bool operator==(const TilePlace &) const = default;
};

// Places that loops around each other would visit: so many, at one distance.
struct TileDimension {
    int64_t extent = 0;
    TilePlace step;
};

// A copy whose tiles follow each other in each pad, and the turns of the loop that touch those of a place in that order.
struct Stream {
    Copy *copy = nullptr;
    std::map<int, std::vector<Tile>> tiles;  // by pad
    int64_t groups = 0, row_step = 0;
    std::array<int64_t, 2> mem_steps{};     // from even tiles and from odd ones
    std::vector<TileDimension> dimensions;  // of places where steps are of other lengths, too, innermost first
    std::vector<int64_t> first_use, last_use;
    std::vector<Tile> apart;  // those at the end that do not follow the others
    int64_t most_ahead = 0;   // tiles that every other pad is ahead, so that DRAM serves two bank groups

    int64_t ahead(int pad) const { return pad % 2 != 0 ? most_ahead : 0; }
    const std::vector<Tile> &first() const { return tiles.begin()->second; }  // those of the first pad
    // Groups of the same rows, of all columns; of others one.
    int64_t part() const { return dimensions.empty() || dimensions.front().step.row == 0 ? 1 : dimensions.front().extent; }
    // Have its steps more than the lengths of `mem_steps`?
    bool jumps() const { return !dimensions.empty(); }
    // Is the step to a group another one than that to the first ones?
    bool jumps_to(int64_t group) const { return jumps() && group % dimensions.front().extent == 0; }
    // The tile of a pad in a turn of the pads, those before the first and behind the last ones each other's neighbours.
    const Tile &tile_of(int pad, int64_t turn) const;
};

// A copy, or each column of one that brings several, or each of the tiles of a turn; nothing where that may not stream.
std::vector<Stream> streams_of_tiles(const LoopNest &nest, Copy &copy);

// Streams of columns that are alike, in copies whose pads have several of the same rows: the tiles of the first rows of all of
// them, then those of the next rows. Tiles are as low as keeps a group of the pads longer than engines take to begin, and
// leaves a turn of the loop for each group of loads and of results: what comes in front of the loop and leaves behind it are
// the columns of one tile each.
std::vector<Stream> streams_of_columns(const LoopNest &nest, Copy &copy);

}  // namespace atalla::codegen
