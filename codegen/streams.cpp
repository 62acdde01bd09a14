#include "codegen/streams.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <utility>

#include "codegen/index.h"
#include "codegen/modulo.h"
#include "codegen/resources.h"
#include "codegen/transfer_code.h"
#include "isa/vectors.h"

namespace atalla::codegen {

LoopNest::LoopNest(const Kernel &kernel, Loop &outermost) : kernel_(kernel), loops_{&outermost} {
    while (hot().body.size() == 1 && hot().body.front().loop) loops_.push_back(hot().body.front().loop.get());
    for (const Loop *loop : loops_) turns_ *= loop->extent;
}

bool LoopNest::computes_rows() const {
    const auto varies = [&](const Loop *loop) { return kernel_.loops[static_cast<size_t>(loop->id)].varies(); };
    return std::ranges::none_of(loops_, varies) && std::ranges::all_of(hot().body, [](const Node &node) {
               return node.op && !node.op->side && !node.op->fence && node.op->orders < 0;
           });
}

std::map<std::string, int64_t> LoopNest::iterations_of(int64_t turn) const {
    std::map<std::string, int64_t> iterations;
    for (auto loop = loops_.rbegin(); loop != loops_.rend(); loop++) {
        iterations[kernel_.loops[static_cast<size_t>((*loop)->id)].name] = turn % (*loop)->extent;
        turn /= (*loop)->extent;
    }
    return iterations;
}

std::vector<Op> LoopNest::operations() const {
    std::vector<Op> operations;
    for (const Node &node : hot().body) operations.push_back(*node.op);
    return operations;
}

const Tile &Stream::tile_of(int pad, int64_t turn) const { return tiles.at(pad)[static_cast<size_t>(floor_mod(turn, groups))]; }

namespace {

TilePlace place_of(const Tile &tile) { return {tile.mem, tile.row}; }

// Those of a list of places, innermost first; none where some of them are elsewhere.
std::vector<TileDimension> dimensions_of(std::vector<TilePlace> places) {
    std::vector<TileDimension> dimensions;
    while (places.size() > 1) {
        const TilePlace step = places[1] - places[0];
        size_t extent = 1;
        while (extent < places.size() && places[extent] - places[extent - 1] == step) extent++;
        if (places.size() % extent != 0) return {};
        std::vector<TilePlace> outer;
        for (size_t at = 0; at < places.size(); at++) {
            if (at % extent == 0) outer.push_back(places[at]);
            if (places[at] - outer.back() != step * static_cast<int64_t>(at % extent)) return {};
        }
        dimensions.push_back({static_cast<int64_t>(extent), step});
        places = std::move(outer);
    }
    return dimensions;
}

std::map<int, std::vector<Tile>> by_pad_and_row(const Copy &copy) {
    std::map<int, std::vector<Tile>> by_pad;
    for (const Tile &tile : copy.tiles) by_pad[tile.pad].push_back(tile);
    for (auto &[pad, tiles] : by_pad)
        std::sort(tiles.begin(), tiles.end(), [](const Tile &a, const Tile &b) { return a.row < b.row; });
    return by_pad;
}

// A column's tiles go on in memory; the next one begins where they go back.
std::vector<std::vector<Tile>> columns_of(const std::vector<Tile> &tiles) {
    std::vector<std::vector<Tile>> columns;
    for (const Tile &tile : tiles) {
        if (columns.empty() || tile.mem < columns.back().back().mem) columns.emplace_back();
        columns.back().push_back(tile);
    }
    return columns;
}

// Of each column, tiles of so many rows instead of all; nothing where they are not alike.
std::vector<Tile> cut(const std::vector<Tile> &column, int rows) {
    std::vector<Tile> tiles;
    for (const Tile &tile : column) {
        if (tile.rows != column.front().rows) return {};
        for (int row = 0; row < tile.rows; row += rows) {
            tiles.push_back(tile);
            tiles.back().row += row;
            tiles.back().mem += row * tile.pitch;
            tiles.back().rows = rows;
        }
    }
    return tiles;
}

// Steps in memory take turns between two lengths and those in the pads have one, or they are those of a nest.
bool find_steps(Stream &s) {
    std::vector<TilePlace> places;
    for (const Tile &tile : s.first()) places.push_back(place_of(tile));
    bool in_turns = true;
    for (size_t g = 1; g < places.size(); g++)
        in_turns = in_turns && places[g] - places[g - 1] == TilePlace{s.mem_steps[(g - 1) % 2], s.row_step};
    if (in_turns) return true;
    s.dimensions = dimensions_of(std::move(places));
    return !s.dimensions.empty();
}

// The turns that touch each group; false where none touch one, or not in this order.
bool find_uses(const LoopNest &nest, Stream &s) {
    const Allocation &allocation = nest.kernel().allocations[static_cast<size_t>(s.copy->allocation)];
    s.first_use.assign(static_cast<size_t>(s.groups), nest.turns());
    s.last_use.assign(static_cast<size_t>(s.groups), -1);
    std::map<int, std::map<int64_t, size_t>> groups;  // of each pad, by their first rows
    for (const auto &[pad, tiles] : s.tiles)
        for (size_t g = 0; g < tiles.size(); g++) groups[pad][tiles[g].row] = g;
    for (const Node &node : nest.hot().body) {
        if (!node.op->access || node.op->access->allocation != s.copy->allocation) continue;
        const PadAccess &access = *node.op->access;
        if (access.row.is_constant() || access.slot.defined()) return false;
        for (int64_t turn = 0; turn < nest.turns(); turn++) {
            const std::optional<int64_t> row = value_at(nest.kernel(), access.row, nest.iterations_of(turn));
            if (!row) return false;
            const std::map<int64_t, size_t> &of_pad = groups[allocation.pad_of(*row)];
            const int64_t at = allocation.row_in_pad(*row);
            const auto behind = of_pad.upper_bound(at);
            if (behind == of_pad.begin() || at >= std::prev(behind)->first + s.first().front().rows)
                continue;  // of another stream
            const size_t group = std::prev(behind)->second;
            s.first_use[group] = std::min(s.first_use[group], turn);
            s.last_use[group] = std::max(s.last_use[group], turn);
        }
    }
    return std::is_sorted(s.first_use.begin(), s.first_use.end()) && s.first_use.back() < nest.turns() &&
           std::is_sorted(s.last_use.begin(), s.last_use.end()) && s.last_use.front() >= 0;
}

// Rows of the tiles that are moved at a time, of the bank group that has most of them; in all.
int64_t rows_of_fuller_group(const Machine &machine, const Stream &s, int64_t ahead) {
    const int64_t page = machine.dram.row_bytes / 2, groups = machine.dram.groups;
    int64_t sum = 0;
    for (int64_t g = 0; g < s.groups; g++) {
        std::map<int64_t, int64_t> rows;  // by bank group
        for (const auto &[pad, tiles] : s.tiles) {
            const Tile &tile = s.tile_of(pad, g + pad % 2 * ahead);
            for (int64_t row = 0; row < tile.rows; row++)
                rows[floor_mod(floor_div(tile.mem + row * tile.pitch, page), groups)]++;
        }
        sum += std::ranges::max_element(rows, {}, &std::pair<const int64_t, int64_t>::second)->second;
    }
    return sum;
}

// How many tiles ahead every other pad has most of its tiles in another bank group of the DRAM than its neighbours, where
// they share one otherwise. Each that is ahead comes before the loop begins.
int64_t ahead_for_bank_groups(const Machine &machine, const Stream &s) {
    if (machine.dram.row_bytes <= 0) return 0;
    constexpr double less = 0.8;
    constexpr int64_t furthest = 4;
    const int64_t plain = rows_of_fuller_group(machine, s, 0), of_group = plain / s.groups;
    int64_t best = 0, least = static_cast<int64_t>(less * static_cast<double>(plain));
    for (int64_t ahead = 1; ahead <= std::min(furthest, s.groups / 4); ahead++)
        if (const int64_t rows = rows_of_fuller_group(machine, s, ahead) + (ahead - 1) * of_group; rows < least) {
            best = ahead;
            least = rows;
        }
    return best;
}

// Are they enough tiles, at one distance in the pads?
bool follow_each_other(const LoopNest &nest, Stream &s) {
    constexpr int64_t least_groups = 4;
    const std::vector<Tile> &first = s.first();
    s.groups = static_cast<int64_t>(first.size());
    if (s.groups < least_groups) return false;
    s.row_step = first[1].row - first[0].row;
    s.mem_steps = {first[1].mem - first[0].mem, first[2].mem - first[1].mem};
    for (const auto &[pad, tiles] : s.tiles) {
        if (tiles.size() != first.size()) return false;
        for (size_t g = 1; g < tiles.size(); g++) {
            const Tile &a = tiles[g - 1], &b = tiles[g];
            if (place_of(b) - place_of(a) != place_of(first[g]) - place_of(first[g - 1]) || a.rows != b.rows ||
                a.cols != b.cols || a.pitch != b.pitch || a.rows > std::abs(b.row - a.row))
                return false;
        }
    }
    if (!find_steps(s) || !find_uses(nest, s)) return false;
    if (!nest.is_several() && s.mem_steps[0] == s.mem_steps[1]) s.most_ahead = ahead_for_bank_groups(*nest.kernel().machine, s);
    return true;
}

// Several tiles of each pad that a turn takes are a stream each. The last turn's may be elsewhere.
template <class Part>
std::vector<Stream> tiles_in_turns(const LoopNest &nest, size_t count, const Part &part) {
    constexpr size_t most_of_turn = 4;
    for (size_t of_turn = 1; of_turn <= std::min(most_of_turn, count); of_turn++) {
        if (count % of_turn != 0) continue;
        for (const size_t apart : {size_t{0}, of_turn}) {
            std::vector<Stream> streams;
            for (size_t i = 0; i < of_turn; i++) {
                streams.push_back(part(i, count - apart, of_turn));
                if (!follow_each_other(nest, streams.back())) break;
                for (const auto &[pad, tiles] : part(count - apart + i, count - apart + i + (apart > 0 ? 1 : 0)).tiles)
                    streams.back().apart.insert(streams.back().apart.end(), tiles.begin(), tiles.end());
                if (i + 1 == of_turn) return streams;
            }
        }
    }
    return {};
}

// Puts a column's tiles behind those of the columns before, in each part of the rows, where pads and sizes are the same and
// the distance is.
bool joins(Stream &s, const std::map<int, std::vector<Tile>> &column, size_t columns) {
    if (column.size() != s.tiles.size()) return false;
    const auto at = [](std::vector<Tile> &tiles, size_t i) { return tiles.begin() + static_cast<std::ptrdiff_t>(i); };
    for (auto &[pad, tiles] : s.tiles) {
        const auto of_pad = column.find(pad);
        if (of_pad == column.end() || of_pad->second.size() * columns != tiles.size()) return false;
        for (size_t part = of_pad->second.size(); part-- > 0;) {
            const Tile &next = of_pad->second[part], &last = tiles[(part + 1) * columns - 1];
            const int64_t from_first = next.mem - tiles[part * columns].mem;  // of the same rows
            if (from_first < 0 || from_first >= next.pitch) return false;
            if (next.rows != last.rows || next.cols != last.cols || next.pitch != last.pitch) return false;
            if (columns > 1 && place_of(next) - place_of(last) != place_of(last) - place_of(tiles[(part + 1) * columns - 2]))
                return false;
            tiles.insert(at(tiles, (part + 1) * columns), next);
        }
    }
    return true;
}

}  // namespace

std::vector<Stream> streams_of_tiles(const LoopNest &nest, Copy &copy) {
    const std::map<int, std::vector<Tile>> by_pad = by_pad_and_row(copy);
    if (by_pad.size() != static_cast<size_t>(nest.kernel().machine->pad.count)) return {};
    for (const auto &[pad, tiles] : by_pad)
        if (tiles.size() != by_pad.begin()->second.size()) return {};
    // Each `step`-th tile of every pad.
    const auto part = [&](size_t begin, size_t end, size_t step = 1) {
        Stream s;
        s.copy = &copy;
        for (const auto &[pad, tiles] : by_pad)
            for (size_t i = begin; i < end; i += step) s.tiles[pad].push_back(tiles[i]);
        return s;
    };
    const std::vector<Tile> &first = by_pad.begin()->second;
    if (Stream whole = part(0, first.size()); follow_each_other(nest, whole)) return {whole};
    // Columns begin where tiles go back in memory.
    std::vector<Stream> columns;
    for (size_t begin = 0, end = 0; begin < first.size() && copy.load; begin = end) {
        for (end = begin + 1; end < first.size() && first[end].mem > first[end - 1].mem;) end++;
        columns.push_back(part(begin, end));
        if (!follow_each_other(nest, columns.back())) return tiles_in_turns(nest, first.size(), part);
    }
    return columns;
}

std::vector<Stream> streams_of_columns(const LoopNest &nest, Copy &copy) {
    constexpr int64_t least_beats = 128;
    std::map<int, std::vector<std::vector<Tile>>> by_pad;
    size_t columns = 0;
    for (const auto &[pad, tiles] : by_pad_and_row(copy)) {
        by_pad[pad] = columns_of(tiles);
        columns = std::max(columns, by_pad[pad].size());
    }
    if (columns < 2) return {};
    const std::vector<Tile> &first = by_pad.begin()->second.front();
    int rows = first.front().rows;
    const auto groups = [&] { return static_cast<int64_t>(columns * first.size()) * first.front().rows / rows; };
    const auto beats = [&] {
        std::vector<Tile> group;
        for (const auto &[pad, of_pad] : by_pad) group.push_back(of_pad.front().front());
        return beats_of(group, *nest.kernel().machine) * rows / first.front().rows;
    };
    while (rows % 2 == 0 && beats() >= 2 * least_beats && 4 * groups() <= nest.turns()) rows /= 2;
    std::vector<Stream> streams;
    size_t begun = 0;  // the first column of the last stream
    for (size_t column = 0; column < columns; column++) {
        std::map<int, std::vector<Tile>> tiles;
        for (const auto &[pad, of_pad] : by_pad) {
            if (column >= of_pad.size()) continue;
            tiles[pad] = cut(of_pad[column], rows);
            if (tiles[pad].empty()) return {};
        }
        // With the columns before, as long as it is like them.
        if (!streams.empty()) {
            Stream joined = streams.back();
            if (joins(joined, tiles, column - begun)) {
                streams.back() = std::move(joined);
                continue;
            }
        }
        begun = column;
        streams.push_back({});
        streams.back().copy = &copy;
        streams.back().tiles = std::move(tiles);
    }
    for (Stream &s : streams)
        if (!follow_each_other(nest, s)) return {};
    return streams;
}

}  // namespace atalla::codegen
