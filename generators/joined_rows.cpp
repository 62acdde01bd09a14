#include "generators/joined_rows.h"

#include <algorithm>
#include <numeric>

namespace atalla {

namespace {

// Rows of whole vectors that are longer come and go in parts.
constexpr int64_t longest_whole = 1024;

// Equal parts of so many rows of the pads, of which no transfer has too many; 0 where only many more transfers have them.
int64_t equal_tiles(const Machine &machine, int64_t vectors) {
    const int64_t fewest = ceil_div(vectors, machine.sdma.max_rows);
    for (int64_t tiles = fewest; tiles <= fewest + fewest / 2; tiles++)
        if (vectors % tiles == 0) return vectors / tiles;
    return 0;
}

}  // namespace

bool JoinedRows::suit() const {
    return elements >= lanes && (elements % lanes != 0 || elements > longest_whole) && whole() > 0 &&
           (images == 1 || whole() == rows);
}

int64_t JoinedRows::period() const { return lanes / std::gcd<int64_t>(elements, lanes); }

JoinedRows JoinedRows::in_blocks_of(int64_t block) const {
    JoinedRows run = *this;
    if (block == rows * images && images > 1) {
        run.rows = block;
        run.images = 1;
    }
    return run;
}

int64_t JoinedRows::blocks(int64_t block) const {
    const JoinedRows run = in_blocks_of(block);
    return run.images * ceil_div(run.whole(), block);
}

bool JoinedRows::has_equal_tiles(const Machine &machine, int64_t of_rows) const {
    return equal_tiles(machine, vectors(of_rows)) > 0;
}

int64_t JoinedRows::tiles(const Machine &machine, int64_t of_rows) const {
    const int64_t all = vectors(of_rows), tile = equal_tiles(machine, all);
    return ceil_div(all, tile > 0 ? tile : machine.sdma.max_rows);
}

double JoinedRows::slowdown(const Machine &machine, int64_t pads, int64_t of_pad) const {
    constexpr double of_short_tiles = 0.4, of_other_tiles = 0.2;
    const int64_t together = vectors(of_pad), tile = equal_tiles(machine, together);
    const double tiles = tile > 0
                             ? of_short_tiles * (1 - static_cast<double>(tile) / static_cast<double>(machine.sdma.max_rows))
                             : of_other_tiles;
    const int64_t page = machine.dram.row_bytes / 2 / lanes, groups = machine.dram.groups;
    if (page == 0 || groups < 2) return tiles;
    // Vectors of the group that has most of them, while the pads go from page to page.
    int64_t most = 0;
    for (int64_t at = 0; at < groups * page; at++) {
        std::vector<int64_t> of_group(static_cast<size_t>(groups), 0);
        for (int64_t pad = 0; pad < pads; pad++) of_group[static_cast<size_t>((at + pad * together) / page % groups)]++;
        most += *std::ranges::max_element(of_group);
    }
    const double share = static_cast<double>(most) / static_cast<double>(groups * page * pads);
    return tiles + share * static_cast<double>(groups) - 1;
}

int64_t JoinedRows::rows_together(const Machine &machine, int64_t pads, int64_t block) const {
    constexpr int64_t beats_of_vector = 2;
    constexpr double of_jumps = 0.01;
    const int64_t of_pad = block / pads;
    const bool transfers_bind = beats_of_vector * (operands + 1) > operations * machine.vec.ii;
    if (blocks(block) > 1 || !transfers_bind) return of_pad;
    int64_t best = of_pad;
    double least = slowdown(machine, pads, of_pad);
    for (int64_t rows = period(); rows < of_pad; rows += period()) {
        if (of_pad % rows != 0) continue;
        const double cost = slowdown(machine, pads, rows) + of_jumps;
        if (cost >= least) continue;
        best = rows;
        least = cost;
    }
    return best;
}

RowTurn RowTurn::of(const JoinedRows &run, int64_t straight) {
    const int64_t all = run.vectors_of_row();
    if (straight >= all) return {straight / all, 1, all};
    return {1, ceil_div(all, straight), straight};
}

std::vector<int64_t> RowTurn::choices(const JoinedRows &run, int64_t pads) {
    constexpr int64_t least = 4, most = 64, most_again = 8, most_rows = 4;
    const int64_t all = run.vectors_of_row();
    std::vector<int64_t> found;
    const auto add = [&](int64_t straight) {
        if (straight * pads >= least && straight * pads <= most) found.push_back(straight * pads);
    };
    for (int64_t rows = most_rows; rows > 1; rows /= 2) add(rows * all);
    for (int64_t parts = 1; parts <= all; parts++)
        if (const int64_t vectors = ceil_div(all, parts);
            ceil_div(all, vectors) == parts && (vectors * parts - all) * most_again <= all)
            add(vectors);
    return found;
}

}  // namespace atalla
