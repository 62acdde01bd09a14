#include "codegen/turns.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "codegen/transfer_code.h"
#include "isa/vectors.h"

namespace atalla::codegen {

namespace {

// Each pad has an engine: the tiles of a copy go round the pads, whatever their order in memory. Where tiles lie inside pages
// of the DRAM, those that are moved at the same time are in different bank groups if there are some: neighbours in a turn, or
// where a turn lies in one group and the next in another, every other pad is a turn ahead.
class Turns {
public:
    Turns(const std::vector<Tile> &tiles, const Machine &machine, int64_t array)
        : dram_(machine.dram),
          array_(array),
          page_(machine.dram.row_bytes / 2),
          groups_(machine.dram.groups),
          pads_(machine.pad.count) {
        std::map<int, int> count;
        for (const Tile &tile : tiles) turns_.push_back({count[tile.pad]++, tile});
        std::stable_sort(turns_.begin(), turns_.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
    }

    // A tile of each pad in turn, each pad's in the order that they have.
    std::vector<Tile> tiles() const {
        std::vector<Tile> all;
        for (const auto &[turn, tile] : turns_) all.push_back(tile);
        return all;
    }
    // What in_turns() says of `at_once` and `in_loop`.
    std::vector<Tile> in_order(const PadLayout &layout, bool at_once, bool in_loop) {
        const auto code = [this](const Order &order) { return with_code(order); };
        const auto banks = [this](const Order &order) { return with_banks(order); };
        const auto branches = [this](const Order &order) { return with_branches(order); };
        if (in_loop && page_ > 0 && layout.block <= 1 && begin_apart(branches, branches, {by_pad()})) return tiles();
        if (page_ > 0 && !layout.even && layout.block > 1 && are_columns() && align_columns()) return tiles();
        if (at_once && page_ > 0 && layout.block > 1 && !layout.even && begin_apart(code, banks, {by_pad(), along_memory()}))
            return tiles();
        if (layout.even && inside_pages()) begin_in_other_banks();
        if (inside_pages()) {
            if (!layout.even && change_groups())
                exchange();
            else
                mix_groups();
        }
        if (page_ > 0 && !layout.even && layout.block > 1 && are_columns()) part_pads();
        return tiles();
    }

private:
    using Order = std::map<int, std::vector<Tile>>;  // of each pad's tiles
    static constexpr int64_t cycles_of_a_loop = 400, row_cycles = 2;

    Order by_pad() const {
        Order all;
        for (const auto &[turn, tile] : turns_) all[tile.pad].push_back(tile);
        return all;
    }
    void take(const Order &order) {
        std::map<int, size_t> next;
        for (auto &[turn, tile] : turns_) tile = order.at(tile.pad)[next[tile.pad]++];
    }

    // The tiles of each pad one behind the other in memory: those of a page follow each other.
    Order along_memory() const {
        Order all = by_pad();
        for (auto &[pad, of_pad] : all) std::ranges::stable_sort(of_pad, {}, &Tile::mem);
        return all;
    }

    // Every other pad begins with later turns of one of these orders, the first of which is that of the tiles, in pages of
    // another bank group, and takes the first ones last, where that is worth the loops that the jump costs. Of the ways to do
    // it the one that `best_of` says takes least.
    template <class Cost, class BestOf>
    bool begin_apart(Cost cost, BestOf best_of, const std::vector<Order> &orders) {
        constexpr int64_t least_gain = 8;  // one of so many cycles
        constexpr size_t furthest = 64;
        const Order &plain = orders.front();
        if (plain.size() < 2) return false;
        const int64_t crowded = cost(plain), most = crowded - crowded / least_gain;
        size_t turns = 0;
        for (const auto &[pad, of_pad] : plain) turns = std::max(turns, of_pad.size());
        std::optional<Order> best;
        int64_t least = 0;
        for (const Order &order : orders)
            for (size_t ahead = 1; ahead < std::min(turns, furthest); ahead++) {
                auto apart = order;
                bool other = false;
                for (auto &[pad, of_pad] : apart) {
                    if (other) std::ranges::rotate(of_pad, of_pad.begin() + static_cast<std::ptrdiff_t>(ahead % of_pad.size()));
                    other = !other;
                }
                if (cost(apart) >= most) continue;
                if (const int64_t cycles = best_of(apart); !best || cycles < least) {
                    least = cycles;
                    best = std::move(apart);
                }
            }
        take(best ? *best : plain);
        return best.has_value();
    }
    // The cycles of tiles in an order, which they are left in, with those of the loops over them.
    int64_t with_code(const Order &order) { return row_cycles * served(order) + of_loops(order); }
    // The same between what bank groups and what banks say, which opens of pages hide in part.
    int64_t with_banks(const Order &order) { return (row_cycles * served(order) + of_banks(order)) / 2 + of_loops(order); }
    // The same where each run is a branch in a loop that computes, which starts a tile of each pad at the most.
    int64_t with_branches(const Order &order) {
        constexpr int64_t cycles_of_a_branch = 60, never = INT64_MAX / 2;
        take(order);
        const std::vector<Run> runs = split_runs(tiles());
        if (std::ranges::any_of(runs, [&](const Run &run) { return run.group.size() > order.size(); })) return never;
        return row_cycles * served(order) + cycles_of_a_branch * static_cast<int64_t>(runs.size());
    }

    // Where the pads meet in bank groups or banks, each in a page of its own, each begins with a later turn and takes its first
    // ones last, one pad after the other as suits those before it: the steps in front of the jump stay as they are. Pads that
    // share a page leave it together.
    void begin_in_other_banks() {
        constexpr int64_t least_gain = 8;  // one of so many cycles
        constexpr size_t furthest = 64;
        const Order plain = by_pad();
        const int64_t crowded = of_banks(plain), least = crowded - crowded / least_gain;
        if (plain.size() < 2 || of_bus(plain) > least || share_page(plain)) return;
        // Each run is a branch in a loop that starts transfers: few more of them, and none beside many.
        const int64_t most_loops = std::max(of_runs(plain), cycles_of_a_loop * static_cast<int64_t>(plain.size()));
        Order begun, all = plain;  // the pads so far, and with them the others as they were
        for (const auto &[pad, of_pad] : plain) {
            std::optional<int64_t> fewest;
            std::vector<Tile> best;
            const size_t latest = begun.empty() ? 1 : std::min(alike(of_pad), furthest);
            for (size_t later = 0; later < latest; later++) {
                begun[pad] = all[pad] = begin_later(of_pad, later);
                const int64_t loops = of_runs(all), cycles = of_banks(begun) + loops;
                if (loops > most_loops || (fewest && cycles >= *fewest)) continue;
                fewest = cycles;
                best = all[pad];
            }
            begun[pad] = all[pad] = std::move(best);
        }
        // Or every other pad, where the array would wait for the tiles: of k = 1,280 beside one row, not beside eight, whose
        // products take 1.5 % longer so.
        constexpr double longer = 1.16;
        const bool waits = static_cast<double>(crowded) >= longer * static_cast<double>(array_);
        for (size_t later = 1; waits && later < std::min(alike(plain.begin()->second), furthest); later++) {
            bool other = false;
            for (const auto &[pad, of_pad] : plain) {
                all[pad] = other ? begin_later(of_pad, later) : of_pad;
                other = !other;
            }
            if (of_runs(all) <= most_loops && of_banks(all) + of_runs(all) < of_banks(begun) + of_runs(begun)) begun = all;
        }
        take(of_banks(begun) + of_runs(begun) <= least + of_runs(plain) ? begun : plain);
    }
    // The tiles of a pad that are like the first one, in front of any others; these stay where they are.
    static size_t alike(const std::vector<Tile> &of_pad) {
        const Tile &first = of_pad.front();
        const auto other = std::ranges::find_if(of_pad, [&](const Tile &tile) {
            return tile.rows != first.rows || tile.cols != first.cols || tile.pitch != first.pitch;
        });
        return static_cast<size_t>(other - of_pad.begin());
    }
    static std::vector<Tile> begin_later(std::vector<Tile> of_pad, size_t later) {
        std::rotate(of_pad.begin(), of_pad.begin() + static_cast<std::ptrdiff_t>(later),
                    of_pad.begin() + static_cast<std::ptrdiff_t>(alike(of_pad)));
        return of_pad;
    }

    bool share_page(const Order &order) const {
        std::set<int64_t> pages;
        return std::ranges::any_of(
            order, [&](const auto &of_pad) { return !pages.insert(floor_div(of_pad.second.front().mem, page_)).second; });
    }
    // Cycles of a beat for each row of the tiles, and of as many beats as a row of a vector has.
    int64_t of_bus(const Order &order) const {
        int64_t rows = 0;
        for (const auto &[pad, of_pad] : order)
            for (const Tile &tile : of_pad) rows += tile.rows;
        return row_cycles * rows;
    }
    // The cycles of the DRAM, if the tiles of a turn go from row to row together, each in the page in which it begins: those
    // that are in one bank group or in different pages of a bank, which opens one anew for a few columns, have it in turns.
    int64_t of_banks(const Order &order) const {
        size_t turns = 0;
        for (const auto &[pad, of_pad] : order) turns = std::max(turns, of_pad.size());
        int64_t cycles = 0;
        for (size_t turn = 0; turn < turns; turn++) {
            std::map<int64_t, int64_t> in_group, in_bank;
            std::map<int64_t, std::set<int64_t>> pages;  // of a bank
            int64_t all = 0, rows = 0;
            for (const auto &[pad, of_pad] : order) {
                if (turn >= of_pad.size()) continue;
                const int64_t page = floor_div(of_pad[turn].mem, page_), bank = floor_mod(page, dram_.banks);
                in_group[floor_mod(page, groups_)]++;
                in_bank[bank]++;
                pages[bank].insert(page);
                rows = std::max<int64_t>(rows, of_pad[turn].rows);
                all++;
            }
            int64_t row = all;
            for (const auto &[group, count] : in_group) row = std::max(row, dram_.cas_same_group * count);
            for (const auto &[bank, count] : in_bank)
                if (pages[bank].size() > 1)
                    row = std::max(row, count * (dram_.cas_same_group + dram_.open_conflict / dram_.row_hit_cap));
            cycles += row_cycles * row * rows;
        }
        return cycles;
    }
    int64_t of_loops(const Order &order) {
        take(order);
        return cycles_of_a_loop * static_cast<int64_t>(split_runs(tiles()).size());
    }

    // The same of a loop that starts transfers beside other work: runs are branches in it, some of which pads jump in.
    int64_t of_runs(const Order &order) {
        constexpr int64_t cycles_of_a_jump = 100;
        take(order);
        int64_t cycles = 0;
        for (const Run &run : join_runs_of_some_pads(split_runs(tiles())))
            cycles += cycles_of_a_loop + cycles_of_a_jump * static_cast<int64_t>(run.jumps.size());
        return cycles;
    }

    int64_t group_of(const Tile &tile) const { return floor_mod(floor_div(tile.mem, page_), groups_); }

    bool inside_pages() const {
        return page_ > 0 && std::all_of(turns_.begin(), turns_.end(), [&](const auto &turn) {
                   return turn.first > 0 || turn.second.rows * turn.second.pitch <= page_;
               });
    }

    // Do all pads take part in an even number of turns, each in one group and not in that of the turn before?
    bool change_groups() const {
        const int last = turns_.empty() ? 0 : turns_.back().first;
        std::map<int, int64_t> group;
        for (const auto &[turn, tile] : turns_)
            if (group.try_emplace(turn, group_of(tile)).first->second != group_of(tile)) return false;
        for (int turn = 1; turn <= last; turn++)
            if (group[turn] == group[turn - 1]) return false;
        return last % 2 == 1 && turns_.size() % static_cast<size_t>(last + 1) == 0 &&
               turns_.size() > static_cast<size_t>(last + 1);
    }

    // First the even turns of even pads beside the odd ones of odd pads, then the others.
    void exchange() {
        std::stable_sort(turns_.begin(), turns_.end(), [](const auto &a, const auto &b) {
            const auto key = [](const auto &turn) { return std::pair((turn.first + turn.second.pad) % 2, turn.first / 2); };
            return key(a) < key(b);
        });
    }

    // Are the tiles of the first turn columns of the same rows, so that all pads walk through the same pages?
    bool are_columns() const {
        return std::ranges::all_of(turns_, [&](const auto &turn) {
            const Tile &tile = turn.second, &first = turns_.front().second;
            return tile.pitch == first.pitch &&
                   (turn.first > 0 || (tile.rows == first.rows && std::abs(tile.mem - first.mem) < tile.pitch));
        });
    }

    // Where some pads have more columns than others, turns of as many tiles of each soon have other rows in each pad, and every
    // one of them its own steps. A turn is then the same part of the rows, of neighbouring columns: all parts of the first
    // columns, then those of the next ones. Every other pad begins with later parts, in pages of another bank group, and comes
    // to the first ones later. False where turns are such parts anyway, or would be more than there are tiles in a pad.
    bool align_columns() {
        constexpr int64_t least_gain = 10;  // one of so many cycles
        const Tile &first = turns_.front().second;
        std::map<std::pair<int64_t, int64_t>, Order> turns;  // by column of the pads and row
        std::map<int, std::pair<int64_t, int64_t>> of_turn;
        std::set<int64_t> parts;
        bool aligned = true;
        for (const auto &[turn, tile] : turns_) {
            const int64_t from_first = tile.mem - first.mem;
            const std::pair place(floor_mod(from_first, first.pitch) / (lanes * pads_), floor_div(from_first, first.pitch));
            std::vector<Tile> &here = turns[place][tile.pad];
            here.push_back(tile);
            if (here.size() > 1) return false;
            aligned = aligned && of_turn.try_emplace(turn, place).first->second == place;
            parts.insert(place.second);
        }
        const size_t count = parts.size();
        const auto most = static_cast<size_t>(turns_.back().first) + 1;  // tiles in a pad
        if (aligned || turns.size() != most || most % count != 0) return false;
        turns_.clear();
        int turn = 0;
        for (const auto &[place, order] : turns) {
            for (const auto &[pad, tiles] : order) turns_.emplace_back(turn, tiles.front());
            turn++;
        }
        const Order plain = by_pad();
        Order best = plain;
        int64_t least = served(plain) - served(plain) / least_gain;
        for (size_t ahead = 1; ahead < count; ahead++) {
            Order parted = plain;
            for (auto &[pad, tiles] : parted)
                for (size_t at = 0; pad % 2 == 1 && at + count <= tiles.size(); at += count) {
                    const auto begin = tiles.begin() + static_cast<std::ptrdiff_t>(at);
                    std::rotate(begin, begin + static_cast<std::ptrdiff_t>(ahead), begin + static_cast<std::ptrdiff_t>(count));
                }
            if (const int64_t cycles = served(parted); cycles < least) {
                least = cycles;
                best = std::move(parted);
            }
        }
        take(best);
        return true;
    }

    // Cycles that DRAM takes for all tiles, if those of a turn go from row to row together: a bank group serves one in two.
    int64_t served(const Order &tiles) const {
        int64_t cycles = 0;
        size_t turns = 0;
        for (const auto &[pad, of_pad] : tiles) turns = std::max(turns, of_pad.size());
        for (size_t turn = 0; turn < turns; turn++)
            for (int row = 0, left = 1; left > 0; row++) {
                std::vector<int64_t> of_group(static_cast<size_t>(groups_), 0);
                left = 0;
                for (const auto &[pad, of_pad] : tiles)
                    if (turn < of_pad.size() && row < of_pad[turn].rows) {
                        of_group[static_cast<size_t>(
                            floor_mod(floor_div(of_pad[turn].mem + row * of_pad[turn].pitch, page_), groups_))]++;
                        left++;
                    }
                int64_t longest = left;
                for (const int64_t count : of_group) longest = std::max(longest, groups_ * count);
                cycles += longest;
            }
        return cycles;
    }

    // Every other pad begins some turns ahead, in pages of another bank group, and comes to the turns that it has left out
    // later.
    void part_pads() {
        const Order plain = by_pad();
        size_t turns = 0;
        for (const auto &[pad, of_pad] : plain) turns = std::max(turns, of_pad.size());
        constexpr int64_t least_gain = 10;  // one of so many cycles
        int64_t least = served(plain);
        least -= least / least_gain;
        std::optional<Order> best;
        for (size_t ahead = 1; 2 * ahead <= turns; ahead++) {
            auto parted = plain;
            bool fits = turns % (2 * ahead) == 0;
            for (auto &[pad, of_pad] : parted) {
                const size_t here = ahead * of_pad.size() / turns;
                fits = fits && here > 0 && of_pad.size() % (2 * here) == 0;
                for (size_t turn = 0; fits && pad % 2 == 1 && turn < of_pad.size(); turn += 2 * here) {
                    const auto first = of_pad.begin() + static_cast<std::ptrdiff_t>(turn),
                               middle = first + static_cast<std::ptrdiff_t>(here);
                    std::rotate(first, middle, middle + static_cast<std::ptrdiff_t>(here));
                }
            }
            if (!fits) continue;
            if (const int64_t cycles = served(parted); cycles < least) {
                least = cycles;
                best = std::move(parted);
            }
        }
        take(best ? *best : plain);
    }

    // The order of pads that suits the first turn is that of all.
    void mix_groups() {
        std::map<int64_t, int> tiles_of_group;
        std::map<int, int> place_of_pad;
        for (const auto &[turn, tile] : turns_)
            if (turn == 0) place_of_pad[tile.pad] = tiles_of_group[group_of(tile)]++;
        if (tiles_of_group.size() > 1)
            std::stable_sort(turns_.begin(), turns_.end(), [&](const auto &a, const auto &b) {
                return a.first != b.first ? a.first < b.first : place_of_pad[a.second.pad] < place_of_pad[b.second.pad];
            });
    }

    const Machine::Dram &dram_;
    const int64_t array_;          // cycles of its work beside the tiles
    const int64_t page_, groups_;  // elements of a page
    const int64_t pads_;
    std::vector<std::pair<int, Tile>> turns_;
};

}  // namespace

std::vector<Tile> in_turns(const Kernel &kernel, const std::vector<Tile> &tiles, const PadLayout &layout, bool at_once,
                           bool in_loop, int64_t array) {
    Turns turns(tiles, *kernel.machine, array);
    std::vector<Tile> plain = turns.tiles(), ordered = turns.in_order(layout, at_once, in_loop);
    return ordered == plain || !kernel.takes(Choice::PlainTurns) ? ordered : plain;
}

}  // namespace atalla::codegen
