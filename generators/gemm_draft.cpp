#include "generators/gemm_draft.h"

#include <algorithm>

#include "generators/gemm_plan.h"
#include "isa/vectors.h"

namespace atalla {

namespace {

// Fitted to simulated points of recorded sweeps, in cycles: what a visit costs beside its rows where the adder or the array
// decides, a turn of the loop over the weights, a row with its sum in the pads and a turn of the loop over such rows.
constexpr double adder_overhead = 18, array_overhead = 137, weight_loop_cost = 25, pad_row_cost = 3.1, pad_loop_cost = 57;
// A block beside its visits and a row of its results, a tile that is transposed, a row that needs neither a start nor an end.
constexpr double block_overhead = 83, result_row_cost = 8.4, transposed_tile_cost = 640, saved_row_cost = 1;
// A kernel beside its blocks; a packet that the instruction cache misses.
constexpr double start_overhead = 504, packet_miss = 11.6;
// Code in packets: of a row and a weight in a visit, what a visit and a block have beside these, the handling of a second slot, and
// what k tiles of their own repeat.
constexpr double row_code = 0.88, weight_code = 0.36, visit_code = 30, block_code = 4, slot_code = 51, repeated_code = 0.2;
// Transfers, on the whole and the first ones; those along k, which visit more rows of the memory; of what could pass during the
// computation, the part that does not where each pass of the inner loop begins anew.
constexpr double bytes_per_cycle = 13.8, first_bytes_per_cycle = 26, row_major_cost = 1.38, not_ahead = 0.48;
constexpr double transfer_latency = 170;
// Operands on pads of their own.
constexpr double split_cost = 0.965;
// In packets, on a functional machine: until the first rows are there, a part that is waited for, a turn of a loop.
constexpr double packet_start = 12, packet_part = 5, packet_loop = 10;

// Packets of a functional machine, where nothing but the slots and the room in the pads costs anything.
double packets_draft(const GemmPlan &plan, const Point &point) {
    const auto rows = static_cast<double>(plan.rows), k_tiles = static_cast<double>(plan.k_tiles);
    const double parts = rows / static_cast<double>(plan.pass), blocks = static_cast<double>(plan.row_blocks * plan.col_blocks);
    // Rows come two a packet, while others are multiplied if they do not all need the same room.
    const double weights = lanes + packet_start + static_cast<double>(lanes / point["weight_unroll"] - 1) * packet_loop;
    double block = k_tiles * weights;
    if (plan.sums_in_registers) {
        block += parts > 1 ? k_tiles * std::max(rows, parts * packet_part + rows / 2) + parts * packet_part + rows / parts / 2 : (k_tiles * 1.5 + 0.5) * rows + packet_part;
    } else {
        block += k_tiles * rows * (2 + packet_loop / static_cast<double>(point["row_unroll"])) + 2 * rows;
    }
    return packet_start + lanes + blocks * (block + (plan.straight ? 0 : packet_loop));
}

// The code that runs again and again, in packets: a visit's and a block's.
struct Code {
    Code(const GemmPlan &plan, const Point &point, double per_row) : block(block_code + (plan.sums_in_registers ? static_cast<double>(plan.rows) : 0)) {
        const double rows = plan.sums_in_registers ? static_cast<double>(plan.rows) * per_row : static_cast<double>(point["row_unroll"]) * pad_row_cost;
        visit = row_code * rows + weight_code * static_cast<double>(point["weight_unroll"]) + visit_code;
        const auto copies = static_cast<double>(std::min<int64_t>(plan.k_tiles - 1, 2));
        all = visit * (point["k_ends_apart"] ? 1 + repeated_code * copies : 1) + block + (plan.slots > 1 ? slot_code : 0);
    }
    double visit, block, all;
};

}  // namespace

double gemm_draft(const GemmShape &shape, const Machine &machine, const Point &point) {
    if (!shape.batch.empty()) {
        GemmShape one = shape;
        one.batch.clear();
        return gemm_draft(one, machine, point) * static_cast<double>(shape.products());
    }
    const GemmPlan plan(shape, machine, point);
    if (!machine.timed()) return packets_draft(plan, point);
    const auto rows = static_cast<double>(plan.rows), k_tiles = static_cast<double>(plan.k_tiles);
    const auto row_blocks = static_cast<double>(plan.row_blocks), col_blocks = static_cast<double>(plan.col_blocks);

    // A visit is the time between two loads of the weights, a block what ends with its results stored.
    const double per_row = machine.sa.psum_in ? 1 : static_cast<double>(machine.vec.ii);
    double visit = (lanes / static_cast<double>(point["weight_unroll"]) - 1) * weight_loop_cost;
    visit += plan.sums_in_registers ? std::max(per_row * rows + adder_overhead, rows + array_overhead)
                                    : (pad_row_cost + pad_loop_cost / static_cast<double>(point["row_unroll"])) * rows + array_overhead;
    double block = k_tiles * visit + rows * result_row_cost + block_overhead - (point["k_ends_apart"] ? saved_row_cost * rows : 0);
    if (!shape.b_transposed) block += transposed_tile_cost * k_tiles / (plan.m_outer ? 1 : row_blocks);

    // All code is missed once; what does not fit the cache pushes out as much again: once a block, or once a visit if its
    // loop is that long.
    const Code code(plan, point, per_row);
    const double capacity = static_cast<double>(machine.icache.bytes) / static_cast<double>(machine.issue.packet_bytes);
    block += 2 * packet_miss * std::max(0.0, std::min(code.visit, capacity) + code.block - capacity);
    block += 2 * packet_miss * std::max(0.0, code.visit - capacity) * k_tiles;
    const double start = start_overhead + packet_miss * code.all, computation = row_blocks * col_blocks * block;

    if (plan.k_block < plan.k_tiles) {
        // Nothing is under way while a block of k tiles computes.
        const double part = 2 * lanes * lanes * static_cast<double>(plan.k_block) * (1 + rows / lanes);
        const double wait = transfer_latency + part / first_bytes_per_cycle;
        return start + computation + row_blocks * col_blocks * k_tiles / static_cast<double>(plan.k_block) * wait;
    }
    const double a_bytes = 2 * static_cast<double>(shape.m * shape.k), b_bytes = 2 * static_cast<double>(shape.n * shape.k);
    const double bytes = (plan.m_outer ? a_bytes + b_bytes * (plan.b_resident ? 1 : row_blocks) : b_bytes + a_bytes * col_blocks) + 2 * static_cast<double>(shape.m * shape.n);
    const double along_k = point["b_row_major"] && point["b_block"] == 1 ? row_major_cost : 1;
    const double transfers = bytes / bytes_per_cycle * along_k, first = 2 * lanes * k_tiles * (rows + lanes) / first_bytes_per_cycle * along_k;
    const double inner = plan.m_outer ? col_blocks : row_blocks;
    const double together = plan.slots > 1 ? first + std::max(computation, transfers) + not_ahead / inner * std::min(computation, transfers) : computation + transfers;
    return (start + together) * (point["pads_split"] ? split_cost : 1);
}

}  // namespace atalla
