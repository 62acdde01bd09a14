#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "tests/schedules/tiny_search.h"

namespace atalla::tiny {

namespace {

constexpr int lanes = 2;
constexpr int most_registers = 4, most_stored = 20, most_pads = 2, most_tiles = 8;

// A vector: 0 nothing, 1 + number an operand (A(m, kb) first, then B(n, kb)), from `result_base` on a result.
using Vector = uint16_t;
constexpr Vector result_base = 64;
constexpr int lane_codes = 32;

// A lane of a result: 0 nothing of use, else 1 + 2 * k_blocks * cell + part. Part p < k_blocks: the sum of blocks 0..p.
// Part k_blocks + p: the product of block p alone, p > 0.
struct DataflowSearch {
    const Machine &machine;
    Problem problem;
    bool dram;

    // Plain bytes without padding: equal states have equal bytes.
    struct State {
        std::array<Vector, most_registers> registers{};  // descending
        std::array<Vector, most_stored> stored{};        // results in the pads, descending
        uint32_t fetched = 0;                            // operands that were brought in from DRAM
        uint32_t finished = 0;                           // cells of the result whose sum is complete
        std::array<uint8_t, lanes> columns{};            // operands in the array, newest first
        std::array<uint8_t, most_pads> pad_wait{};       // cycles until the pad can read, ascending
        std::array<uint8_t, most_tiles> visits{};        // tiled: times each tile was loaded
        uint8_t alu_wait = 0;
        uint8_t free_beats = 0;  // past DRAM slots that have served nothing yet
        uint8_t result_beats = 0;
        uint8_t since_row = 0;
        uint8_t loading = 0, loaded = 0;  // tiled: 1 + the tile being loaded, and how much of it
        uint8_t used = 1;                 // tiled: a row has passed since the last load
        std::array<uint8_t, 1> unused{};

        std::string_view bytes() const { return {reinterpret_cast<const char *>(this), sizeof *this}; }
    };
    static_assert(std::has_unique_object_representations_v<State>);

    struct Hash {
        size_t operator()(const State &state) const { return std::hash<std::string_view>()(state.bytes()); }
    };
    struct Equal {
        bool operator()(const State &a, const State &b) const { return a.bytes() == b.bytes(); }
    };
    using States = std::unordered_set<State, Hash, Equal>;

    int a_count() const { return problem.m * problem.k_blocks; }
    int operands() const { return (problem.m + problem.n) * problem.k_blocks; }
    int cells() const { return problem.m * problem.n; }
    int register_count() const { return static_cast<int>(machine.regs.vector) - 1; }
    int column_tiles() const { return (problem.n + lanes - 1) / lanes; }

    // Vectors of the result: rows of a tile if tiled, else any cells together.
    int result_vectors() const { return problem.tiled ? problem.m * column_tiles() : (cells() + lanes - 1) / lanes; }
    int finished_vectors(const State &state) const {
        if (!problem.tiled) {
            return (std::popcount(state.finished) + (state.finished == all_cells() ? lanes - 1 : 0)) / lanes;
        }
        int count = 0;
        for (int row = 0; row < problem.m; row++) {
            for (int column = 0; column < problem.n; column += lanes) {
                const uint32_t width = static_cast<uint32_t>(std::min(lanes, problem.n - column));
                const uint32_t tile_row = ((uint32_t{1} << width) - 1) << (row * problem.n + column);
                count += (state.finished & tile_row) == tile_row;
            }
        }
        return count;
    }
    uint32_t all_cells() const { return (uint32_t{1} << cells()) - 1; }

    int code(int cell, int part) const { return 1 + 2 * problem.k_blocks * cell + part; }
    int cell_of(int code) const { return (code - 1) / (2 * problem.k_blocks); }
    int part_of(int code) const { return (code - 1) % (2 * problem.k_blocks); }
    static int lane(Vector vector, int index) {
        const int packed = vector - result_base;
        return index == 0 ? packed % lane_codes : packed / lane_codes;
    }
    static Vector pack(const std::array<int, lanes> &codes) {
        return static_cast<Vector>(result_base + codes[0] + lane_codes * codes[1]);
    }
    static bool is_operand(Vector vector) { return vector > 0 && vector < result_base; }
    static bool is_result(Vector vector) { return vector >= result_base; }

    // What two lanes add up to, if anything of use. An empty lane counts as zero.
    int sum(int a, int b) const {
        if (a == 0 || b == 0) {
            return a + b;
        }
        for (const auto &[total, product] : {std::pair{a, b}, std::pair{b, a}}) {
            if (cell_of(total) == cell_of(product) && part_of(total) < problem.k_blocks &&
                part_of(product) == problem.k_blocks + part_of(total) + 1) {
                return total + 1;
            }
        }
        return 0;
    }

    // Streaming operand `row` (numbered from 0) past the weights, on top of `psum` (0: none).
    Vector gemm(const State &state, int row, Vector psum) const {
        std::array<int, lanes> codes{};
        for (int index = 0; index < lanes; index++) {
            const int weight = state.columns[index] - 1;
            if (weight < 0 || (row < a_count()) == (weight < a_count()) ||
                row % problem.k_blocks != weight % problem.k_blocks) {
                continue;
            }
            const int block = row % problem.k_blocks;
            const int a = std::min(row, weight) / problem.k_blocks;
            const int b = (std::max(row, weight) - a_count()) / problem.k_blocks;
            const int product = code(a * problem.n + b, block == 0 ? 0 : problem.k_blocks + block);
            codes[index] = sum(product, psum == 0 ? 0 : lane(psum, index));
        }
        return pack(codes);
    }

    template <size_t size>
    static bool contains(const std::array<Vector, size> &vectors, Vector vector) {
        return std::ranges::find(vectors, vector) != vectors.end();
    }
    template <size_t size>
    static void insert(std::array<Vector, size> &vectors, Vector vector) {
        if (vectors.back() != 0) {
            throw std::logic_error("tiny search: more vectors than a state has room for");
        }
        vectors.back() = vector;
        std::ranges::sort(vectors, std::greater());
    }

    // All ways to have `vector` in a register, any victim making room.
    template <typename Continue>
    void keep(const State &state, Vector vector, Continue &&next) const {
        if (contains(state.registers, vector)) {
            return;
        }
        for (int victim = 0; victim < register_count(); victim++) {
            State kept = state;
            kept.registers[victim] = vector;
            std::ranges::sort(kept.registers, std::greater());
            next(kept);
            if (state.registers[victim] == 0) {
                break;
            }
        }
    }

    // A new result goes to the pads, and to a register or not.
    template <typename Continue>
    void produce(State state, Vector result, Continue &&next) const {
        bool of_use = false;
        for (int index = 0; index < lanes; index++) {
            const int value = lane(result, index);
            if (value != 0 && (state.finished >> cell_of(value) & 1) == 0) {
                of_use = true;
                if (part_of(value) == problem.k_blocks - 1) {
                    state.finished |= uint32_t{1} << cell_of(value);
                }
            }
        }
        if (!of_use || contains(state.stored, result)) {
            return;
        }
        insert(state.stored, result);
        next(state);
        keep(state, result, next);
    }

    // ---- The phases of a cycle: each calls the next for every choice ----

    template <typename Continue>
    void read_pads(const State &state, int from, Continue &&next) const {
        next(state);
        for (int pad = from; pad < machine.pad.count; pad++) {
            if (state.pad_wait[pad] > 0) {
                continue;
            }
            State busy = state;
            busy.pad_wait[pad] = static_cast<uint8_t>(machine.pad.read_ii);
            const auto then = [&](const State &loaded) { read_pads(loaded, pad + 1, next); };
            for (Vector result : state.stored) {
                if (result != 0) {
                    keep(busy, result, then);
                }
            }
            for (int operand = 0; operand < operands(); operand++) {
                const uint32_t bit = uint32_t{1} << operand;
                if (!dram || (busy.fetched & bit) != 0) {
                    keep(busy, static_cast<Vector>(1 + operand), then);
                } else if (busy.free_beats > 0) {
                    State fetched = busy;
                    fetched.fetched |= bit;
                    fetched.free_beats--;
                    keep(fetched, static_cast<Vector>(1 + operand), then);
                }
            }
            return;  // pads that are free are alike
        }
    }

    template <typename Continue>
    void shift_in(State state, int weight, Continue &&next) const {
        std::shift_right(state.columns.begin(), state.columns.end(), 1);
        state.columns[0] = static_cast<uint8_t>(1 + weight);
        next(state, false);
    }

    template <typename Continue>
    void load_tile(const State &state, int operand, Continue &&next) const {
        for (int tile = 0; tile < column_tiles() * problem.k_blocks; tile++) {
            const bool starts = state.loading == 0 && state.used && state.visits[tile] < problem.visits;
            if (!starts && state.loading != tile + 1) {
                continue;
            }
            const int first = tile / problem.k_blocks * lanes;
            const int weight = a_count() + (first + (starts ? 0 : state.loaded)) * problem.k_blocks + tile % problem.k_blocks;
            if (weight != operand) {
                continue;
            }
            State loading = state;
            if (starts) {
                loading.columns = {};
                loading.loaded = 0;
                loading.used = 0;
                loading.visits[tile]++;
            }
            loading.loaded++;
            const bool complete = loading.loaded == std::min(lanes, problem.n - first);
            loading.loading = static_cast<uint8_t>(complete ? 0 : tile + 1);
            loading.loaded = complete ? uint8_t{0} : loading.loaded;
            shift_in(loading, operand, next);
        }
    }

    // next(state, row): whether the array took a row.
    template <typename Continue>
    void use_array(const State &state, Continue &&next) const {
        next(state, false);
        const bool may_load = state.since_row >= machine.sa.switch_spacing;
        for (Vector vector : state.registers) {
            if (!is_operand(vector)) {
                continue;
            }
            const int operand = vector - 1;
            if (may_load) {
                problem.tiled ? load_tile(state, operand, next) : shift_in(state, operand, next);
            }
            if (problem.tiled && (state.loading > 0 || operand >= a_count())) {
                continue;
            }
            State rowed = state;
            rowed.used = 1;
            const auto then = [&](const State &made) { next(made, true); };
            produce(rowed, gemm(state, operand, 0), then);
            for (Vector psum : state.registers) {
                if (machine.sa.psum_in && is_result(psum)) {
                    produce(rowed, gemm(state, operand, psum), then);
                }
            }
        }
    }

    template <typename Continue>
    void add(const State &state, Continue &&next) const {
        next(state);
        if (state.alu_wait > 0 || (problem.tiled && machine.sa.psum_in)) {
            return;
        }
        State busy = state;
        busy.alu_wait = static_cast<uint8_t>(machine.vec.ii);
        for (Vector a : state.registers) {
            for (Vector b : state.registers) {
                if (is_result(a) && is_result(b) && a > b) {
                    produce(busy, pack({sum(lane(a, 0), lane(b, 0)), sum(lane(a, 1), lane(b, 1))}), next);
                }
            }
        }
    }

    // The DRAM slot of the cycle serves an operand, now or later, or a result, which a pad that is free reads.
    template <typename Continue>
    void send_result(const State &state, Continue &&next) const {
        next(state);
        const bool ready = dram && state.result_beats < finished_vectors(state);
        for (int pad = 0; ready && state.free_beats > 0 && pad < machine.pad.count; pad++) {
            if (state.pad_wait[pad] == 0) {
                State sent = state;
                sent.pad_wait[pad] = static_cast<uint8_t>(machine.pad.read_ii);
                sent.free_beats--;
                sent.result_beats++;
                next(sent);
                return;
            }
        }
    }

    State next_cycle(State state, bool row) const {
        for (uint8_t &wait : state.pad_wait) {
            wait -= wait > 0;
        }
        std::sort(state.pad_wait.begin(), state.pad_wait.begin() + machine.pad.count);
        state.alu_wait -= state.alu_wait > 0;
        const int spacing = static_cast<int>(machine.sa.switch_spacing);
        state.since_row = static_cast<uint8_t>(std::min(spacing, row ? 1 : state.since_row + 1));
        const int operands_left = operands() - std::popcount(state.fetched);
        state.free_beats = static_cast<uint8_t>(std::min<int>(state.free_beats, operands_left));
        forget_finished(state);
        return state;
    }

    // Vectors that can add nothing to the result any more are not told apart.
    void forget_finished(State &state) const {
        const auto of_no_use = [&](Vector vector) {
            if (!is_result(vector)) {
                return false;
            }
            for (int index = 0; index < lanes; index++) {
                const int value = lane(vector, index);
                if (value != 0 && (state.finished >> cell_of(value) & 1) == 0) {
                    return false;
                }
            }
            return true;
        };
        std::ranges::replace_if(state.registers, of_no_use, Vector{0});
        std::ranges::replace_if(state.stored, of_no_use, Vector{0});
        std::ranges::sort(state.registers, std::greater());
        std::ranges::sort(state.stored, std::greater());
    }

    bool complete(const State &state) const {
        bool visited = true;
        for (int tile = 0; problem.tiled && tile < column_tiles() * problem.k_blocks; tile++) {
            visited = visited && state.visits[tile] == problem.visits;
        }
        return visited && state.used && state.finished == all_cells() && (!dram || state.result_beats == result_vectors());
    }

    int64_t optimum(int64_t limit) const {
        State start;
        start.since_row = static_cast<uint8_t>(machine.sa.switch_spacing);
        States seen{start};
        std::vector<State> now{start};
        for (int64_t cycle = 0; cycle + 1 + machine.sa.L <= limit; cycle++) {
            std::vector<State> later;
            bool done = false;
            for (const State &state : now) {
                State begun = state;
                begun.free_beats += dram;
                read_pads(begun, 0, [&](const State &read) {
                    use_array(read, [&](const State &computed, bool row) {
                        add(computed, [&](const State &added) {
                            send_result(added, [&](const State &sent) {
                                const State next = next_cycle(sent, row);
                                done = done || complete(next);
                                if (seen.insert(next).second) {
                                    later.push_back(next);
                                }
                            });
                        });
                    });
                });
            }
            if (done) {
                return cycle + 1 + machine.sa.L;
            }
            now = std::move(later);
        }
        return limit + 1;
    }
};

}  // namespace

int64_t dataflow_optimum(const Machine &machine, const Problem &problem, bool dram, int64_t limit) {
    return DataflowSearch{machine, problem, dram}.optimum(limit);
}

}  // namespace atalla::tiny
