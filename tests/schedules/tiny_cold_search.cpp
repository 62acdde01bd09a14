#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "tests/schedules/tiny_search.h"

namespace atalla::tiny {

namespace {

struct ColdSearch {
    const Machine &machine;
    Problem problem;

    // Beats are numbered: A(m, kb), B(n, kb), then the vectors of the result, (m, column tile).
    int a_beats() const { return problem.m * problem.k_blocks; }
    int operands() const { return a_beats() + problem.n * problem.k_blocks; }
    int width() const { return static_cast<int>(machine.sa.cols); }
    int column_tiles() const { return (problem.n + width() - 1) / width(); }
    int results() const { return problem.m * column_tiles(); }
    int64_t use() const { return 1 + machine.wb.offer_to_use; }

    struct Row {
        int tile, m;  // tile: column tile * k_blocks + K block
    };

    // A scpad.ld may begin: the first packet was looked up, fetched and has issued, and the one that needs its address has.
    int64_t first_transfer() const {
        const int64_t looked_up = 0, requested = looked_up + 1, opened = requested + machine.dram.open_closed;
        const int64_t arrived = opened + machine.dram.complete, issued = arrived + 1;
        return issued + machine.ex1.L + use();
    }

    // The packet that can use a vector whose beat was asked for in `command`.
    int64_t in_register(int64_t command) const {
        const int64_t arrived = command + machine.dram.complete, presented = arrived + 1;
        const int64_t landed = presented + machine.pad.write_land, load_issued = landed + 1;
        const int64_t read = load_issued + machine.vlsu.present, offered = read + machine.pad.read_L + machine.vlsu.load_extra;
        return offered + machine.wb.offer_to_use;
    }

    // The array's operations in the order of `rows`, as far as their operands are in registers; -1: not known.
    void run_array(const std::vector<Row> &rows, const std::vector<int64_t> &ready, std::vector<int64_t> &result) const {
        int64_t free = 0, last_row = -machine.sa.switch_spacing;
        int tile = -1;
        std::vector<int64_t> sum(static_cast<size_t>(results()), -1);
        std::ranges::fill(result, -1);
        for (const Row &row : rows) {
            const int block = row.tile % problem.k_blocks, column = row.tile / problem.k_blocks;
            if (row.tile != tile) {
                tile = row.tile;
                free = std::max(free, last_row + machine.sa.switch_spacing);
                for (int n = column * width(); n < std::min(problem.n, (column + 1) * width()); n++) {
                    const int64_t weight = ready[static_cast<size_t>(a_beats() + n * problem.k_blocks + block)];
                    if (weight < 0) return;
                    free = std::max(free, weight) + 1;
                }
            }
            const int64_t streamed = ready[static_cast<size_t>(row.m * problem.k_blocks + block)];
            if (streamed < 0) return;
            const size_t place = static_cast<size_t>(row.m * column_tiles() + column);
            const int64_t partial = machine.sa.psum_in && sum[place] >= 0 ? sum[place] : 0;
            last_row = std::max({free, streamed, partial});
            free = last_row + 1;
            sum[place] = std::max(sum[place], last_row + machine.sa.L + use());
            result[static_cast<size_t>(row.tile * problem.m + row.m)] = last_row + machine.sa.L + use();
        }
    }

    // The packet that can store a vector of the result; -1 if some product of it is not known.
    int64_t finished(int vector, const std::vector<int64_t> &result, int64_t &adder) const {
        const int m = vector / column_tiles(), column = vector % column_tiles();
        int64_t ready = 0;
        for (int block = 0; block < problem.k_blocks; block++) {
            const int64_t product = result[static_cast<size_t>((column * problem.k_blocks + block) * problem.m + m)];
            if (product < 0) return -1;
            ready = std::max(ready, product);
            if (block > 0 && !machine.sa.psum_in) {
                ready = std::max(ready, adder);
                adder = ready + machine.vec.ii;
                ready += machine.vec.add_L + use();
            }
        }
        return ready;
    }

    // The run's cycles with these orders, nothing if a result would leave before it is made.
    std::optional<int64_t> run(const std::vector<int> &beats, const std::vector<Row> &rows) const {
        std::vector<int64_t> ready(static_cast<size_t>(operands()), -1), result(rows.size(), -1);
        int64_t slot = first_transfer() + machine.sdma.setup, adder = 0, end = 0;
        for (int beat : beats) {
            if (beat < operands()) {
                ready[static_cast<size_t>(beat)] = in_register(slot);
            } else {
                run_array(rows, ready, result);
                const int64_t stored = finished(beat - operands(), result, adder);
                if (stored < 0) return std::nullopt;
                const int64_t transfer = stored + 1, read = transfer + machine.sdma.setup;
                slot = std::max(slot, read + machine.pad.read_L + machine.sdma.load_extra);
                end = std::max(end, slot + machine.dram.complete + 1);
            }
            slot++;
        }
        return end;
    }

    template <typename Each>
    void each_row_order(const std::vector<int> &tiles, size_t at, std::vector<Row> &rows, Each &&each) const {
        if (at == tiles.size()) {
            each(rows);
            return;
        }
        std::vector<int> order(static_cast<size_t>(problem.m));
        std::iota(order.begin(), order.end(), 0);
        do {
            for (int m : order) rows.push_back({tiles[at], m});
            each_row_order(tiles, at + 1, rows, each);
            rows.resize(rows.size() - order.size());
        } while (std::ranges::next_permutation(order).found);
    }

    int64_t optimum() const {
        int64_t least = INT64_MAX;
        std::vector<int> tiles(static_cast<size_t>(column_tiles() * problem.k_blocks));
        std::iota(tiles.begin(), tiles.end(), 0);
        do {
            std::vector<Row> rows;
            each_row_order(tiles, 0, rows, [&](const std::vector<Row> &order) {
                std::vector<int> beats(static_cast<size_t>(operands() + results()));
                std::iota(beats.begin(), beats.end(), 0);
                do {
                    least = std::min(least, run(beats, order).value_or(INT64_MAX));
                } while (std::ranges::next_permutation(beats).found);
            });
        } while (std::ranges::next_permutation(tiles).found);
        return least;
    }
};

}  // namespace

int64_t cold_optimum(const Machine &machine, const Problem &problem) { return ColdSearch{machine, problem}.optimum(); }

}  // namespace atalla::tiny
