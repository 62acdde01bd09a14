#include <algorithm>
#include <bit>
#include <compare>
#include <set>
#include <vector>

#include "tests/schedules/tiny_search.h"

namespace atalla::tiny {

namespace {

// Operand vectors are numbered: A(m, kb) first, then B(n, kb).
struct ArraySearch {
    const Machine &machine;
    Problem problem;

    struct State {
        std::vector<int8_t> columns;  // newest first, -1: nothing
        uint32_t done = 0;            // products (m, n, kb)
        uint32_t recent_rows = 0;     // bit i: a row issued i+1 cycles ago
        int8_t since_row = 0;         // cycles since the last row, as far as the spacing asks
        int8_t loading = -1;          // tiled: the tile whose columns are being loaded, -1 none
        int8_t loaded = 0;            // tiled: how many of them
        bool used = true;             // tiled: a row has passed since the last load
        std::vector<int8_t> visits;   // tiled: times each tile was loaded
        auto operator<=>(const State &) const = default;
    };

    int a_count() const { return problem.m * problem.k_blocks; }
    int operands() const { return (problem.m + problem.n) * problem.k_blocks; }
    int columns() const { return static_cast<int>(machine.sa.cols); }
    int column_tiles() const { return (problem.n + columns() - 1) / columns(); }
    int tile_size(int tile) const { return std::min(columns(), problem.n - tile / problem.k_blocks * columns()); }

    // The product that streaming `row` past the weight vector `weight` gives, -1 if it is none of the GEMM's.
    int product(int row, int weight) const {
        if (weight < 0 || (row < a_count()) == (weight < a_count()) || row % problem.k_blocks != weight % problem.k_blocks) {
            return -1;
        }
        const int a = std::min(row, weight) / problem.k_blocks;
        const int b = (std::max(row, weight) - a_count()) / problem.k_blocks;
        return (a * problem.n + b) * problem.k_blocks + row % problem.k_blocks;
    }

    uint32_t all_done() const { return (uint32_t{1} << (problem.m * problem.n * problem.k_blocks)) - 1; }

    State next_cycle(State state, bool row) const {
        const int window = static_cast<int>(machine.sa.L) - 1;
        state.recent_rows = (state.recent_rows << 1 | (row ? 1 : 0)) & ((uint32_t{1} << std::max(0, window)) - 1);
        const int spacing = static_cast<int>(machine.sa.switch_spacing);
        state.since_row = static_cast<int8_t>(row ? std::min(1, spacing) : std::min<int>(state.since_row + 1, spacing));
        return state;
    }

    // Everything one cycle can do, idling included.
    std::vector<State> successors(const State &state) const {
        std::vector<State> out{next_cycle(state, false)};
        const auto shift_in = [&](State next, int weight) {
            next.columns.insert(next.columns.begin(), static_cast<int8_t>(weight));
            next.columns.pop_back();
            out.push_back(next_cycle(std::move(next), false));
        };
        if (state.since_row >= machine.sa.switch_spacing) {
            if (!problem.tiled) {
                for (int weight = 0; weight < operands(); weight++) {
                    shift_in(state, weight);
                }
            } else {
                for (int tile = 0; tile < column_tiles() * problem.k_blocks; tile++) {
                    const bool starts = state.loading < 0 && state.used && state.visits[tile] < problem.visits;
                    if (!starts && state.loading != tile) {
                        continue;
                    }
                    State next = state;
                    if (starts) {
                        next.columns.assign(columns(), -1);
                        next.visits[tile]++;
                    }
                    const int column = tile / problem.k_blocks * columns() + next.loaded;
                    next.loaded++;
                    next.used = false;
                    const bool complete = next.loaded == tile_size(tile);
                    next.loading = static_cast<int8_t>(complete ? -1 : tile);
                    next.loaded = complete ? int8_t{0} : next.loaded;
                    shift_in(std::move(next), a_count() + column * problem.k_blocks + tile % problem.k_blocks);
                }
            }
        }
        if (state.loading < 0 && std::popcount(state.recent_rows) < machine.sa.credits) {
            for (int row = 0; row < (problem.tiled ? a_count() : operands()); row++) {
                uint32_t products = 0;
                for (int weight : state.columns) {
                    const int index = product(row, weight);
                    products |= index < 0 ? 0 : uint32_t{1} << index;
                }
                // A tiled visit may repeat rows to no avail; any other program would do better to idle.
                if (problem.tiled ? products != 0 : (products & ~state.done) != 0) {
                    State next = state;
                    next.done |= products;
                    next.used = true;
                    out.push_back(next_cycle(std::move(next), true));
                }
            }
        }
        return out;
    }

    // Tiled programs visit every tile its number of times.
    bool finished(const State &state) const {
        return state.done == all_done() && state.used &&
               std::ranges::all_of(state.visits, [&](int8_t visits) { return visits == problem.visits; });
    }

    int64_t optimum() const {
        State start;
        start.columns.assign(columns(), -1);
        start.since_row = static_cast<int8_t>(machine.sa.switch_spacing);
        start.visits.assign(problem.tiled ? column_tiles() * problem.k_blocks : 0, 0);
        std::set<State> seen{start};
        std::vector<State> now{start};
        for (int64_t cycle = 0;; cycle++) {
            std::vector<State> later;
            for (const State &state : now) {
                for (State &next : successors(state)) {
                    if (finished(next)) {
                        return cycle + 1 + machine.sa.L;
                    }
                    if (seen.insert(next).second) {
                        later.push_back(std::move(next));
                    }
                }
            }
            now = std::move(later);
        }
    }
};

}  // namespace

int64_t array_optimum(const Machine &machine, const Problem &problem) { return ArraySearch{machine, problem}.optimum(); }

}  // namespace atalla::tiny
