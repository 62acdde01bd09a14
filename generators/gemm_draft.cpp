#include "generators/gemm_draft.h"

#include <algorithm>

#include "generators/gemm_plan.h"

namespace atalla {

namespace {

constexpr int64_t lanes = GemmPlan::lanes;

// Fitted to simulated points, in cycles: what a visit costs beside its rows where the adder or the array decides, a turn of
// the loop over the weights, a row with its sum in the pads and a turn of the loop over such rows.
constexpr double adder_overhead = 12, array_overhead = 103, weight_loop_cost = 40, pad_row_cost = 4.6, pad_loop_cost = 66;
// A block beside its visits and rows, its code in packets, and a kernel beside its blocks.
constexpr double block_overhead = 150, block_code_overhead = 60, start_overhead = 600;
// A line that the instruction cache misses; transfers alone, and with little under way; transfers along k.
constexpr double miss_cycles = 35, bytes_per_cycle = 30, first_bytes_per_cycle = 24, row_major_cost = 1.15;
constexpr double transfer_latency = 170;
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
    const double switch_cost = (lanes / static_cast<double>(point["weight_unroll"]) - 1) * weight_loop_cost;
    double visit, visit_code;
    if (plan.sums_in_registers) {
        const double per_row = machine.sa.psum_in ? 1 : static_cast<double>(machine.vec.ii);
        visit = std::max(per_row * rows + adder_overhead, rows + array_overhead) + switch_cost;
        visit_code = visit;
    } else {
        const double per_row = pad_row_cost + pad_loop_cost / static_cast<double>(point["row_unroll"]);
        visit = per_row * rows + array_overhead + switch_cost;
        visit_code = array_overhead + per_row * static_cast<double>(point["row_unroll"]);
    }
    const double block_code = rows + block_code_overhead;
    double block = k_tiles * visit + rows + block_overhead, start = start_overhead;
    // Code that does not fit the cache pushes out as much again: once a block, or once a visit if its loop is that long.
    const double capacity = static_cast<double>(machine.icache.bytes) / static_cast<double>(machine.issue.packet_bytes);
    const double miss = miss_cycles * static_cast<double>(machine.issue.packet_bytes) / static_cast<double>(machine.icache.line);
    block += 2 * miss * std::max(0.0, std::min(visit_code, capacity) + block_code - capacity);
    block += 2 * miss * std::max(0.0, visit_code - capacity) * k_tiles;
    start += miss * (visit_code + block_code);

    const double a_bytes = 2 * static_cast<double>(shape.m * shape.k), b_bytes = 2 * static_cast<double>(shape.n * shape.k);
    if (plan.k_block < plan.k_tiles) {
        // Nothing is under way while a block of k tiles computes.
        const double part = 2 * lanes * lanes * static_cast<double>(plan.k_block) * (1 + rows / lanes);
        const double wait = transfer_latency + part / first_bytes_per_cycle;
        return start + row_blocks * col_blocks * (block + k_tiles / static_cast<double>(plan.k_block) * wait);
    }
    const double bytes = plan.m_outer ? a_bytes + b_bytes * (plan.b_resident ? 1 : row_blocks) : b_bytes + a_bytes * col_blocks;
    start += 2 * lanes * k_tiles * (rows + lanes) / first_bytes_per_cycle;
    const double transfers = bytes / bytes_per_cycle * (point["b_row_major"] && point["b_block"] == 1 ? row_major_cost : 1);
    return start + std::max(row_blocks * col_blocks * block, transfers);
}

}  // namespace atalla
