#include "codegen/stream.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/index.h"
#include "codegen/loop_tree.h"
#include "codegen/modulo.h"
#include "codegen/resources.h"
#include "codegen/spread.h"
#include "isa/vectors.h"

namespace atalla::codegen {

namespace {

// The turns of a loop in which `count` groups start, the first in turn `first` or at once, all others a `span` of turns over
// all of them later.
struct Starts {
    int64_t first = 0, span = 0, count = 0;
    std::vector<int64_t> turns() const {
        std::vector<int64_t> turns;
        for (int64_t n = 0; n < count; n++)
            turns.push_back(
                std::max({first + (n * span + count - 1) / count, turns.empty() ? 0 : turns.back() + 1, int64_t{0}}));
        return turns;
    }
};

// Where a tile is in memory and in its pad, or how far from another one.
struct Place {
    int64_t mem = 0, row = 0;
    Place operator-(const Place &other) const { return {mem - other.mem, row - other.row}; }
    Place operator*(int64_t times) const { return {mem * times, row * times}; }
    bool operator==(const Place &) const = default;
};

// Places that loops around each other would visit: so many, at one distance.
struct Dimension {
    int64_t extent = 0;
    Place step;
};

// Those of a list of places, innermost first; none where some of them are elsewhere.
std::vector<Dimension> dimensions_of(std::vector<Place> places) {
    std::vector<Dimension> dimensions;
    while (places.size() > 1) {
        const Place step = places[1] - places[0];
        size_t extent = 1;
        while (extent < places.size() && places[extent] - places[extent - 1] == step) extent++;
        if (places.size() % extent != 0) return {};
        std::vector<Place> outer;
        for (size_t at = 0; at < places.size(); at++) {
            if (at % extent == 0) outer.push_back(places[at]);
            if (places[at] - outer.back() != step * static_cast<int64_t>(at % extent)) return {};
        }
        dimensions.push_back({static_cast<int64_t>(extent), step});
        places = std::move(outer);
    }
    return dimensions;
}

// The loops of a nest in which each is all that the one around it has, outermost first.
std::vector<Loop *> perfect_nest(Loop &outermost) {
    std::vector<Loop *> nest = {&outermost};
    while (nest.back()->body.size() == 1 && nest.back()->body.front().loop)
        nest.push_back(nest.back()->body.front().loop.get());
    return nest;
}

int64_t turns_of(const std::vector<Loop *> &nest) {
    int64_t turns = 1;
    for (const Loop *loop : nest) turns *= loop->extent;
    return turns;
}

// A copy whose tiles follow each other in each pad, and the turns of the loop that touch those of a place in that order.
struct Streamed {
    Copy *copy = nullptr;
    std::map<int, std::vector<Tile>> tiles;  // by pad
    int64_t groups = 0, row_step = 0;
    std::array<int64_t, 2> mem_steps{};  // from even tiles and from odd ones
    std::vector<Dimension> dimensions;   // of places where steps are of other lengths, too
    std::vector<int64_t> first_use, last_use;
    std::vector<Tile> apart;  // those at the end that do not follow the others
    int64_t most_ahead = 0;   // tiles that every other pad is ahead, so that DRAM serves two bank groups

    int64_t ahead(int pad) const { return pad % 2 != 0 ? most_ahead : 0; }
    const std::vector<Tile> &first() const { return tiles.begin()->second; }  // those of the first pad
    // Groups of the same rows, of all columns; of others one.
    int64_t part() const { return dimensions.empty() || dimensions.front().step.row == 0 ? 1 : dimensions.front().extent; }
    // Is the step to a group another one than that to the first ones?
    bool jumps_to(int64_t group) const { return !dimensions.empty() && group % dimensions.front().extent == 0; }
};

Place place_of(const Tile &tile) { return {tile.mem, tile.row}; }

class Streamer {
public:
    Streamer(Kernel &kernel, TransferCode &code, size_t at)
        : kernel_(kernel),
          code_(code),
          at_(at),
          nest_(perfect_nest(*kernel.body[at].loop)),
          hot_(*nest_.back()),
          turns_(turns_of(nest_)) {}

    void run() {
        if ((!in_nest() && !may_stream(kernel_, hot_)) || !computes_rows()) return;
        if (!plan_columns() && !plan_tiles()) return;
        Body before, behind;
        for (const Streamed &s : loads_) s.copy->tiles.clear();
        for (size_t i = 0; i < loads_.size(); i++) {
            if (apart_)
                start_loads_apart(loads_[i], fronts_[i], load_starts_[i], before);
            else
                start_loads(loads_[i], fronts_[i], load_starts_[i], before);
        }
        for (const Streamed &s : stores_) s.copy->tiles.clear();
        for (size_t i = 0; i < stores_.size(); i++) start_results(stores_[i], result_starts_[i], before, behind);
        kernel_.body.insert(kernel_.body.begin() + static_cast<std::ptrdiff_t>(at_) + 1,
                            std::make_move_iterator(behind.begin()), std::make_move_iterator(behind.end()));
        kernel_.body.insert(kernel_.body.begin() + static_cast<std::ptrdiff_t>(at_), std::make_move_iterator(before.begin()),
                            std::make_move_iterator(before.end()));
    }

private:
    bool computes_rows() const {
        const auto varies = [&](const Loop *loop) { return kernel_.loops[static_cast<size_t>(loop->id)].varies(); };
        return std::ranges::none_of(nest_, varies) && std::ranges::all_of(hot_.body, [](const Node &node) {
                   return node.op && !node.op->side && !node.op->fence && node.op->orders < 0;
               });
    }

    // ---- what moves

    // The streams of all copies to and from rows that the loop touches, as `streams_of` has those of one.
    template <class StreamsOf>
    void find_streams(const StreamsOf &streams_of) {
        loads_.clear();
        stores_.clear();
        load_starts_.clear();
        fronts_.clear();
        result_starts_.clear();
        apart_ = in_halves_ = columns_ = false;
        for (size_t i = 0; i < kernel_.body.size(); i++) {
            Node &node = kernel_.body[i];
            if (!node.copy || node.copy->load != (i < at_) || !accesses(hot_.body, node.copy->allocation)) continue;
            if (!stands_alone(*node.copy, i)) continue;
            std::vector<Streamed> streamed = streams_of(*node.copy);
            std::ranges::move(streamed, std::back_inserter(node.copy->load ? loads_ : stores_));
        }
    }

    bool plan_tiles() {
        find_streams([this](Copy &copy) { return consider(copy); });
        if (stores_.size() > 1) return false;
        while (!loads_.empty() && !(stores_.empty() ? plan_loads_alone() : plan())) {
            if (!in_nest() || !stores_.empty()) return false;
            leave_smallest_load();
        }
        return !loads_.empty();
    }

    // Copies whose pads have several columns of the same rows, of which those of the first rows come first and leave first.
    bool plan_columns() {
        if (in_nest()) return false;
        find_streams([this](Copy &copy) { return parts_of_columns(copy); });
        const auto has_columns = [](const Streamed &s) { return !s.dimensions.empty(); };
        if (std::ranges::none_of(loads_, has_columns) || std::ranges::none_of(stores_, has_columns)) return false;
        begin_plan();
        columns_ = true;
        in_halves_ = transfers_bind();
        return plan_apart();
    }

    bool stands_alone(const Copy &copy, size_t at) const {
        if (copy.first_of >= 0 || copy.pad_row != LinearForm{} || !copy.mem.is_constant()) return false;
        // What fills a buffer in front of its load is no matter. A later copy to the same tensor waits for the last tiles of
        // this one, which end behind all others.
        const auto meets = [&](size_t i) {
            const Node &node = kernel_.body[i];
            if (copy.load && i < at && node.loop && node.loop->fill) return false;
            return touches(node, copy.allocation) || (copies(node, copy.tensor, !copy.load) && (copy.load || i < at));
        };
        for (size_t i = 0; i < kernel_.body.size(); i++)
            if (i != at && i != at_ && meets(i)) return false;
        return true;
    }

    static std::map<int, std::vector<Tile>> by_pad_and_row(const Copy &copy) {
        std::map<int, std::vector<Tile>> by_pad;
        for (const Tile &tile : copy.tiles) by_pad[tile.pad].push_back(tile);
        for (auto &[pad, tiles] : by_pad)
            std::sort(tiles.begin(), tiles.end(), [](const Tile &a, const Tile &b) { return a.row < b.row; });
        return by_pad;
    }

    // A column's tiles go on in memory; the next one begins where they go back.
    static std::vector<std::vector<Tile>> columns_of(const std::vector<Tile> &tiles) {
        std::vector<std::vector<Tile>> columns;
        for (const Tile &tile : tiles) {
            if (columns.empty() || tile.mem < columns.back().back().mem) columns.emplace_back();
            columns.back().push_back(tile);
        }
        return columns;
    }

    // Of each column, tiles of so many rows instead of all; nothing where they are not alike.
    static std::vector<Tile> cut(const std::vector<Tile> &column, int rows) {
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

    // Streams of columns that are alike: the tiles of the first rows of all of them, then those of the next rows. Tiles are as
    // low as keeps a group of the pads longer than engines take to begin, and leaves a turn of the loop for each group of loads
    // and of results: what comes in front of the loop and leaves behind it are the columns of one tile each.
    std::vector<Streamed> parts_of_columns(Copy &copy) const {
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
            return beats_of(group, *kernel_.machine) * rows / first.front().rows;
        };
        while (rows % 2 == 0 && beats() >= 2 * least_beats && 4 * groups() <= turns_) rows /= 2;
        std::vector<Streamed> streams;
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
                Streamed joined = streams.back();
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
        for (Streamed &s : streams)
            if (!follow_each_other(s)) return {};
        return streams;
    }

    // Puts a column's tiles behind those of the columns before, in each part of the rows, where pads and sizes are the same and
    // the distance is.
    static bool joins(Streamed &s, const std::map<int, std::vector<Tile>> &column, size_t columns) {
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
                if (columns > 1 &&
                    place_of(next) - place_of(last) != place_of(last) - place_of(tiles[(part + 1) * columns - 2]))
                    return false;
                tiles.insert(at(tiles, (part + 1) * columns), next);
            }
        }
        return true;
    }

    // A copy, or each column of one that brings several, or each of the tiles of a turn; nothing where that may not stream.
    std::vector<Streamed> consider(Copy &copy) const {
        const std::map<int, std::vector<Tile>> by_pad = by_pad_and_row(copy);
        if (by_pad.size() != static_cast<size_t>(kernel_.machine->pad.count)) return {};
        for (const auto &[pad, tiles] : by_pad)
            if (tiles.size() != by_pad.begin()->second.size()) return {};
        // Each `step`-th tile of every pad.
        const auto part = [&](size_t begin, size_t end, size_t step = 1) {
            Streamed s;
            s.copy = &copy;
            for (const auto &[pad, tiles] : by_pad)
                for (size_t i = begin; i < end; i += step) s.tiles[pad].push_back(tiles[i]);
            return s;
        };
        const std::vector<Tile> &first = by_pad.begin()->second;
        if (Streamed whole = part(0, first.size()); follow_each_other(whole)) return {whole};
        // Columns begin where tiles go back in memory.
        std::vector<Streamed> columns;
        for (size_t begin = 0, end = 0; begin < first.size() && copy.load; begin = end) {
            for (end = begin + 1; end < first.size() && first[end].mem > first[end - 1].mem;) end++;
            columns.push_back(part(begin, end));
            if (!follow_each_other(columns.back())) return tiles_in_turns(first.size(), part);
        }
        return columns;
    }

    // Several tiles of each pad that a turn takes are a stream each. The last turn's may be elsewhere.
    template <class Part>
    std::vector<Streamed> tiles_in_turns(size_t count, const Part &part) const {
        constexpr size_t most_of_turn = 4;
        for (size_t of_turn = 1; of_turn <= std::min(most_of_turn, count); of_turn++) {
            if (count % of_turn != 0) continue;
            for (const size_t apart : {size_t{0}, of_turn}) {
                std::vector<Streamed> streams;
                for (size_t i = 0; i < of_turn; i++) {
                    streams.push_back(part(i, count - apart, of_turn));
                    if (!follow_each_other(streams.back())) break;
                    for (const auto &[pad, tiles] : part(count - apart + i, count - apart + i + (apart > 0 ? 1 : 0)).tiles)
                        streams.back().apart.insert(streams.back().apart.end(), tiles.begin(), tiles.end());
                    if (i + 1 == of_turn) return streams;
                }
            }
        }
        return {};
    }

    // Are they enough tiles, at one distance in the pads?
    bool follow_each_other(Streamed &s) const {
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
        if (!find_steps(s) || !find_uses(s)) return false;
        if (!in_nest() && s.mem_steps[0] == s.mem_steps[1]) s.most_ahead = ahead_for_bank_groups(s);
        return true;
    }

    // Steps in memory take turns between two lengths and those in the pads have one, or they are those of a nest.
    bool find_steps(Streamed &s) const {
        std::vector<Place> places;
        for (const Tile &tile : s.first()) places.push_back(place_of(tile));
        bool in_turns = true;
        for (size_t g = 1; g < places.size(); g++)
            in_turns = in_turns && places[g] - places[g - 1] == Place{s.mem_steps[(g - 1) % 2], s.row_step};
        if (in_turns) return true;
        s.dimensions = dimensions_of(std::move(places));
        return !s.dimensions.empty();
    }

    // The iterations of the loops of the nest in one of its turns.
    std::map<std::string, int64_t> iterations_of(int64_t turn) const {
        std::map<std::string, int64_t> iterations;
        for (auto loop = nest_.rbegin(); loop != nest_.rend(); loop++) {
            iterations[kernel_.loops[static_cast<size_t>((*loop)->id)].name] = turn % (*loop)->extent;
            turn /= (*loop)->extent;
        }
        return iterations;
    }

    // The turns that touch each group; false where none touch one, or not in this order.
    bool find_uses(Streamed &s) const {
        const Allocation &allocation = kernel_.allocations[static_cast<size_t>(s.copy->allocation)];
        s.first_use.assign(static_cast<size_t>(s.groups), turns_);
        s.last_use.assign(static_cast<size_t>(s.groups), -1);
        std::map<int, std::map<int64_t, size_t>> groups;  // of each pad, by their first rows
        for (const auto &[pad, tiles] : s.tiles)
            for (size_t g = 0; g < tiles.size(); g++) groups[pad][tiles[g].row] = g;
        for (const Node &node : hot_.body) {
            if (!node.op->access || node.op->access->allocation != s.copy->allocation) continue;
            const PadAccess &access = *node.op->access;
            if (access.row.is_constant() || access.slot.defined()) return false;
            for (int64_t turn = 0; turn < turns_; turn++) {
                const std::optional<int64_t> row = value_at(kernel_, access.row, iterations_of(turn));
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
        return std::is_sorted(s.first_use.begin(), s.first_use.end()) && s.first_use.back() < turns_ &&
               std::is_sorted(s.last_use.begin(), s.last_use.end()) && s.last_use.front() >= 0;
    }

    // The copy that brings least comes in front of the loop as a whole.
    void leave_smallest_load() {
        const auto smallest =
            std::ranges::min_element(loads_, {}, [&](const Streamed &s) { return beats_of(s.copy->tiles, *kernel_.machine); });
        std::erase_if(loads_, [copy = smallest->copy](const Streamed &s) { return s.copy == copy; });
        load_starts_.clear();
        fronts_.clear();
    }

    // How many tiles ahead every other pad has most of its tiles in another bank group of the DRAM than its neighbours, where
    // they share one otherwise. Each that is ahead comes before the loop begins.
    int64_t ahead_for_bank_groups(const Streamed &s) const {
        if (kernel_.machine->dram.row_bytes <= 0) return 0;
        constexpr double less = 0.8;
        constexpr int64_t furthest = 4;
        const int64_t plain = rows_of_fuller_group(s, 0), of_group = plain / s.groups;
        int64_t best = 0, least = static_cast<int64_t>(less * static_cast<double>(plain));
        for (int64_t ahead = 1; ahead <= std::min(furthest, s.groups / 4); ahead++)
            if (const int64_t rows = rows_of_fuller_group(s, ahead) + (ahead - 1) * of_group; rows < least) {
                best = ahead;
                least = rows;
            }
        return best;
    }

    // Rows of the tiles that are moved at a time, of the bank group that has most of them; in all.
    int64_t rows_of_fuller_group(const Streamed &s, int64_t ahead) const {
        const int64_t page = kernel_.machine->dram.row_bytes / 2, groups = kernel_.machine->dram.groups;
        int64_t sum = 0;
        for (int64_t g = 0; g < s.groups; g++) {
            std::map<int64_t, int64_t> rows;  // by bank group
            for (const auto &[pad, tiles] : s.tiles) {
                const Tile &tile = tiles[static_cast<size_t>((g + pad % 2 * ahead) % s.groups)];
                for (int64_t row = 0; row < tile.rows; row++)
                    rows[floor_mod(floor_div(tile.mem + row * tile.pitch, page), groups)]++;
            }
            sum += std::ranges::max_element(rows, {}, &std::pair<const int64_t, int64_t>::second)->second;
        }
        return sum;
    }

    // ---- when

    // The turns that a group's stores take: those of an iteration that overlaps others, and the way into the pads.
    int64_t turns_to_land() const {
        constexpr int64_t landing = 100;
        std::vector<Op> ops;
        for (const Node &node : hot_.body) ops.push_back(*node.op);
        return stages_ + 1 + landing / std::max(1, resource_bound(kernel_, ops));
    }

    // A group starts when the one before it in its pads has ended, so each start says that what the group before brings is
    // there. That of a load comes before the loop, which may have begun some iterations in front, touches those rows.
    bool in_time(const Streamed &s, const Starts &starts, int64_t front) const {
        const std::vector<int64_t> turns = starts.turns();
        for (size_t n = 1; n < turns.size(); n++)
            if (turns[n] + half_distance() + stages_ > s.first_use[n + static_cast<size_t>(front) - 1]) return false;
        return true;
    }

    // The iterations of a nest begin in front of its innermost loop: branches out of line are there, too.
    bool in_nest() const { return nest_.size() > 1; }

    static constexpr int64_t least_in_loop = 2;  // groups of one transfer, as start_from() has it

    // Turns from one half of a group to the other; 0: they start together.
    int64_t half_distance() const { return apart_ && in_halves_ ? 1 : 0; }

    void begin_plan() {
        stages_ = most_stages_with_sides(hot_);
        sure_ = in_nest() ? turns_ : sure_iterations(hot_);
        apart_ = in_halves_ = true;
    }

    bool plan() {
        begin_plan();
        if (transfers_bind() && plan_apart()) return true;
        const auto jumps = [](const Streamed &s) { return !s.dimensions.empty(); };
        if (in_nest() || std::ranges::any_of(loads_, jumps) || std::ranges::any_of(stores_, jumps)) return false;
        apart_ = in_halves_ = false;
        const Streamed &result = stores_.front();
        const int64_t distance = std::max<int64_t>(1, hot_.extent / result.groups);
        // Results as soon as they are there, or so little later that one starts behind the last group of each load.
        const int64_t land = turns_to_land(), late = result.most_ahead;
        int64_t made = 0;
        for (int64_t h = 0; h + late < result.groups; h++)
            made = std::max(made, result.last_use[static_cast<size_t>(h + late)] + land - h * hot_.extent / result.groups);
        for (int64_t first = made; first < made + distance; first++)
            if (plan_beside(first, distance)) return true;
        return false;
    }

    // Loads between results, of which the first leaves in turn `first`.
    bool plan_beside(int64_t first, int64_t distance) {
        const Streamed &result = stores_.front();
        const int64_t late = result.most_ahead;
        load_starts_.clear();
        fronts_.clear();
        unsure_ = 0;
        if (!plan_loads(first, distance, static_cast<int64_t>(loads_.size()) + 1)) return false;
        // As many as start while the loop runs. Where it has code in front of it and behind it, the last of them may not have.
        const auto start_in_loop = [&](int64_t count) {
            return Starts{first, (hot_.extent * count + result.groups - 1) / result.groups, count};
        };
        int64_t count = result.groups - late;
        while (count > 0 && start_in_loop(count).turns().back() >= hot_.extent) count--;
        if (count < least_in_loop) return false;
        result_starts_ = {start_in_loop(count)};
        for (const int64_t turn : result_starts_.front().turns()) unsure_ += turn >= sure_ ? 1 : 0;
        return last_loads_end();
    }

    int64_t beats_of_all(const Streamed &s) const {
        int64_t beats = beats_of(s.apart, *kernel_.machine);
        for (const auto &[pad, tiles] : s.tiles) beats += beats_of(tiles, *kernel_.machine);
        return beats;
    }

    // Do transfers take longer than what computes, with so many cycles for each group's engines to begin?
    bool transfers_bind(int64_t to_begin = 0) const {
        std::vector<Op> ops;
        for (const Node &node : hot_.body) ops.push_back(*node.op);
        int64_t beats = 0;
        for (const Streamed &s : stores_) beats += beats_of_all(s);
        for (const Streamed &s : loads_) beats += beats_of_all(s) + to_begin * s.groups;
        return beats > resource_bound(kernel_, ops) * turns_;
    }

    // All loads, then all results: where transfers take longer than what computes DRAM turns once from reading to writing, and
    // has something to move from the start to the end. Each group comes as two halves with tiles in both bank groups, a turn
    // apart: one is served while the engines of the other begin. Pads of which some are ahead would have one more group to
    // begin with and to end with.
    bool plan_apart() {
        constexpr int64_t least_in_front = 2;
        const auto is_staggered = [](const Streamed &s) { return s.most_ahead > 0; };
        if (std::ranges::any_of(stores_, is_staggered) || std::ranges::any_of(loads_, is_staggered)) return false;
        int64_t of_loads = 0, of_results = 0;
        for (const Streamed &s : loads_) of_loads += s.groups - least_in_front;
        for (const Streamed &s : stores_) of_results += s.groups;
        const int64_t events = of_loads + of_results, land = turns_to_land();
        // The last results that leave while the loop runs do so as soon as they are there, those in front of them so much
        // earlier.
        int64_t first_result = turns_;
        for (const Streamed &result : stores_) {
            int64_t count = result.groups;
            Starts results;
            do {
                results = {0, turns_ * count * of_results / result.groups / events, count};
                for (int64_t h = 0; h < count; h++)
                    results.first = std::max(
                        results.first, result.last_use[static_cast<size_t>(h)] + land - ceil_div(h * results.span, count));
            } while (results.turns().back() + half_distance() >= sure_ && --count >= least_in_loop);
            if (count < least_in_loop) return false;
            first_result = std::min(first_result, results.first);
            result_starts_.push_back(results);
        }
        for (size_t i = 0; i < loads_.size(); i++) {
            const Streamed &s = loads_[i];
            // Where the first turns may touch many groups, of nests and of steps of several lengths, as many as are needed.
            int64_t front = least_in_front;
            Starts starts;
            const auto comes_in_time = [&] {
                starts = {first_result * static_cast<int64_t>(i) / of_loads, first_result, s.groups - front};
                // The last group in front of the loop has ended when the first one beside it starts.
                const int64_t used = s.first_use[static_cast<size_t>(front) - 1];
                return !s.jumps_to(front) && starts.turns().front() + half_distance() + stages_ <= used &&
                       in_time(s, starts, front);
            };
            while (s.groups - front >= least_in_loop && !comes_in_time() && (in_nest() || !s.dimensions.empty())) front++;
            if (s.groups - front < least_in_loop || !comes_in_time()) return false;
            load_starts_.push_back(starts);
            fronts_.push_back(front);
        }
        return last_loads_end();
    }

    // Results of few transfers, or of one pad, leave behind the loop. In the turn before one that needs the last group of a
    // load nothing else starts in its pads: it is waited for there.
    bool plan_loads_alone() {
        constexpr int64_t engine_starts = 45;  // DRAM has nothing to do where all of a group's begin together
        const auto jumps = [](const Streamed &s) { return !s.dimensions.empty(); };
        // Of a nest the code in front of its loops must pay, too.
        if (in_nest() ? transfers_bind() || leaves_much() : std::ranges::any_of(loads_, jumps)) return false;
        stages_ = most_stages_with_sides(hot_);
        in_halves_ = transfers_bind(engine_starts);
        // Groups of several loads, which share engines, take turns.
        const auto events = static_cast<int64_t>(loads_.size());
        const int64_t distance = events > 1 ? std::max<int64_t>(1, turns_ / loads_.front().groups) : 1;
        return plan_loads(0, distance, events);
    }

    // Does DRAM have about as much to do behind the loop, for its results?
    bool leaves_much() const {
        int64_t come = 0, leave = 0;
        for (const Streamed &s : loads_) come += beats_of_all(s);
        for (size_t i = at_; i < kernel_.body.size(); i++)
            if (const Node &node = kernel_.body[i]; node.copy && !node.copy->load && accesses(hot_.body, node.copy->allocation))
                leave += beats_of(node.copy->tiles, *kernel_.machine);
        return 2 * leave > come;
    }

    int64_t turn_of_wait(const Streamed &s) const { return s.first_use.back() - stages_ - 1; }

    // Loads between the results, of which the first leaves in turn `first_result`, at one distance from each other.
    bool plan_loads(int64_t first_result, int64_t distance, int64_t events) {
        constexpr int64_t most_in_front = 6;
        for (size_t i = 0; i < loads_.size(); i++) {
            const Streamed &s = loads_[i];
            const int64_t wanted = first_result + (static_cast<int64_t>(i) + 1) * distance / events;
            std::optional<Starts> found;
            int64_t front = 0;
            while (!found && ++front < std::min(most_in_front, s.groups - s.most_ahead - 2)) {
                const int64_t count = s.groups - front - s.most_ahead;
                Starts starts{distance * front, turns_ * count / s.groups, count};
                const auto comes_in_time = [&] {
                    return in_time(s, starts, front) && (!stores_.empty() || starts.turns().back() < turn_of_wait(s));
                };
                while (starts.first > -distance && !comes_in_time()) starts.first--;
                if (!comes_in_time()) continue;
                found = starts;
                starts.first -= floor_mod(starts.first - wanted, distance);
                if (comes_in_time()) found = starts;
            }
            if (!found) return false;
            load_starts_.push_back(*found);
            fronts_.push_back(front);
        }
        return true;
    }

    // The last group that a load brings has ended when a result starts in its pads.
    bool last_loads_end() const {
        for (size_t i = 0; i < loads_.size(); i++) {
            const int64_t last = load_starts_[i].turns().back(),
                          needed = loads_[i].first_use[static_cast<size_t>(fronts_[i] + load_starts_[i].count) - 1] - stages_;
            bool ended = false;
            for (size_t r = 0; r < stores_.size(); r++) {
                const auto takes = [&](const auto &of_pad) { return stores_[r].tiles.contains(of_pad.first); };
                const std::vector<int64_t> turns = result_starts_[r].turns();
                ended = ended || (std::ranges::all_of(loads_[i].tiles, takes) && std::ranges::any_of(turns, [&](int64_t turn) {
                                      return turn > last && turn + half_distance() <= needed;
                                  }));
            }
            if (!ended) return false;
        }
        return true;
    }

    // ---- code

    // `first`: the group that starts first in the loop.
    Run group_of(const Streamed &s, int64_t count, int64_t first, const std::function<int64_t(int)> &index) const {
        const auto from = static_cast<size_t>(index(s.tiles.begin()->first)) % 2;
        Run run{{}, count, s.row_step, s.mem_steps[from], s.mem_steps[0] != s.mem_steps[1] ? s.mem_steps[1 - from] : 0, {}};
        if (!s.dimensions.empty()) {
            run.mem_step = s.dimensions.front().step.mem;
            run.other_mem_step = 0;
            int64_t every = 1;
            for (size_t d = 1; d < s.dimensions.size(); d++) {
                const Dimension &inside = s.dimensions[d - 1];
                every *= inside.extent;
                const Place more = s.dimensions[d].step - inside.step * inside.extent;
                run.jumps.push_back({more.mem, every, every - 1 - first % every, more.row});
            }
        }
        for (const auto &[pad, tiles] : s.tiles)
            if (const int64_t i = index(pad); i >= 0 && i < s.groups) run.group.push_back(tiles[static_cast<size_t>(i)]);
        return run;
    }

    // Transfers that start while the loop runs, and what counts those that have not started, as start_from() does.
    struct Started {
        Channel channel;
        Reg left;
    };

    // A group is one transfer of each pad, or two halves that start one after the other.
    std::vector<Channel> channels_of(const Streamed &s, const Run &run) {
        if (!in_halves_) return {code_.channel(*s.copy, run)};
        std::vector<Run> parts(2, run);
        for (Run &part : parts) part.group.clear();
        const std::vector<size_t> half = halves_of(run.group, *kernel_.machine);
        for (size_t i = 0; i < half.size(); i++) parts[half[i]].group.push_back(run.group[i]);
        std::erase_if(parts, [](const Run &part) { return part.group.empty(); });
        return code_.channels(*s.copy, parts);
    }

    std::vector<Channel> aimed(const Streamed &s, const Run &run, Body &before) {
        std::vector<Channel> channels = channels_of(s, run);
        for (const Channel &c : channels) code_.aim(c, true, Reg{}, Reg{}, {}, before);
        return channels;
    }
    std::vector<Started> start_beside(const std::vector<Channel> &channels, const Starts &starts, Body &before) {
        std::vector<Started> started;
        int64_t first = starts.first;
        for (const Channel &c : channels) {
            started.push_back(
                {c, start_from(kernel_, {c, {}, starts.count, {}}, first, starts.span, hot_, in_nest(), code_, before)});
            first += half_distance();
        }
        return started;
    }

    void wait_beside(const std::vector<Channel> &channels, int64_t turn, Body &before) {
        const Reg due = kernel_.scalar("due");
        before.push_back(value_op(due, {-turn, {}}));
        Body group;
        code_.wait(channels, group);
        Op branch = side(due, group);
        branch.opcode = Opcode::beq_s;
        branch.aux = 1;
        branch.every = in_nest();
        hot_.body.push_back(std::move(branch));
    }

    // The tile of a pad in a turn of the pads, those before the first and behind the last ones each other's neighbours.
    static const Tile &tile_of(const Streamed &s, int pad, int64_t turn) {
        return s.tiles.at(pad)[static_cast<size_t>(floor_mod(turn, s.groups))];
    }

    // In front of the loop each pad has as many tiles: one that is ahead those after its first ones, then these; another one
    // its last ones, too.
    void start_loads(Streamed &s, int64_t front, const Starts &starts, Body &before) {
        const Run run = group_of(s, starts.count, front, [&](int pad) { return front + s.ahead(pad); });
        const std::vector<Channel> channels = aimed(s, run, before);
        start_beside(channels, starts, before);
        if (stores_.empty()) wait_beside(channels, turn_of_wait(s), before);
        std::vector<Tile> &first = s.copy->tiles;
        for (int64_t turn = 0; turn < front; turn++)
            for (const auto &[pad, tiles] : s.tiles) first.push_back(tile_of(s, pad, turn + s.ahead(pad)));
        for (int64_t turn = -s.most_ahead; turn < 0; turn++)
            for (const auto &[pad, tiles] : s.tiles) first.push_back(tile_of(s, pad, turn + s.ahead(pad)));
        first.insert(first.end(), s.apart.begin(), s.apart.end());
    }

    // What the first turn touches is waited for in front of the loop; each of the others has ended when the next one starts.
    void start_loads_apart(Streamed &s, int64_t front, const Starts &starts, Body &before) {
        const auto at_once = columns_ ? s.part() : 1;
        const std::vector<Channel> channels =
            aimed(s, group_of(s, s.groups - at_once, front, [&](int) { return at_once; }), before);
        const std::vector<Tile> &places = s.first();
        for (auto n = static_cast<size_t>(at_once); n < static_cast<size_t>(front); n++)
            for (Channel c : channels) {
                if (!s.dimensions.empty()) {
                    // Here the steps are known. It points one step of the first ones before the first.
                    c.left.clear();
                    c.row_jump = {};
                    c.run.mem_step = places[n + 1].mem - places[n].mem;
                    if (n > static_cast<size_t>(at_once)) c.run.row_step = places[n].row - places[n - 1].row;
                }
                code_.issue_step(c, before);
            }
        start_beside(channels, starts, before);
        for (int64_t group = 0; group < at_once; group++)
            for (const auto &[pad, tiles] : s.tiles) s.copy->tiles.push_back(tile_of(s, pad, group));
        s.copy->tiles.insert(s.copy->tiles.end(), s.apart.begin(), s.apart.end());
    }

    // Behind it those that are left, and the first ones of the pads that were ahead.
    void start_results(Streamed &s, const Starts &starts, Body &before, Body &behind) {
        const Run run = group_of(s, starts.count, 0, [&](int pad) { return s.most_ahead - s.ahead(pad); });
        const std::vector<Started> started = start_beside(aimed(s, run, before), starts, before);
        if (unsure_ > 0) behind.push_back(code_.fence(s.copy->allocation));
        for (int64_t n = 0; n < unsure_; n++)
            for (const auto &[channel, left] : started) {
                const Reg more = kernel_.scalar("more");
                behind.push_back(value_op(more, {2, {}}, {left}));
                If again{more, {}};
                code_.issue_step(channel, again.body);
                again.body.push_back(value_op(left, {-1, {}}, {left}));
                behind.push_back(std::move(again));
            }
        // Whole parts are loops of their own, in front of what is left of another.
        const auto leave = [&](int64_t first, int64_t end) {
            for (int64_t turn = first; turn < end; turn++)
                for (const auto &[pad, tiles] : s.tiles) s.copy->tiles.push_back(tile_of(s, pad, turn - s.ahead(pad)));
        };
        const int64_t first = starts.count + s.most_ahead, part = columns_ ? s.part() : 1,
                      whole = std::min((first + part - 1) / part * part, s.groups + s.most_ahead);
        leave(whole, s.groups + s.most_ahead);
        leave(first, whole);
    }

    Kernel &kernel_;
    TransferCode &code_;
    size_t at_;
    std::vector<Loop *> nest_;  // outermost first
    Loop &hot_;                 // the innermost one
    int64_t turns_;             // of it, in all
    std::vector<Streamed> loads_, stores_;
    std::vector<Starts> load_starts_;
    std::vector<int64_t> fronts_;  // groups of each load that come in front of the loop
    std::vector<Starts> result_starts_;
    int64_t stages_ = 1, sure_ = 0;
    bool columns_ = false;  // pads have several columns, whose groups take turns
    bool apart_ = false;    // all loads come in front of all results
    // Each group is two transfers of half of the pads, so that one has something to move while the engines of the other begin.
    bool in_halves_ = false;
    int64_t unsure_ = 0;  // last results whose turns the loop may not come to
};

}  // namespace

bool may_stream(const Kernel &kernel, const Loop &loop) {
    constexpr int64_t least_iterations = 8;
    return kernel.loops[static_cast<size_t>(loop.id)].parent < 0 && loop.extent >= least_iterations;
}

void stream_copies(Kernel &kernel, TransferCode &code) {
    for (size_t at = 0; at < kernel.body.size(); at++)
        if (kernel.body[at].loop) Streamer(kernel, code, at).run();
}

}  // namespace atalla::codegen
