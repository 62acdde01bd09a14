#include "generators/gemm_space.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace atalla {

namespace {

constexpr int64_t lanes = 32;
// Vector registers that a tile with its sums in registers leaves for weights, rows of A and results on their way.
constexpr int64_t registers_in_flight = 90;
constexpr int64_t most_rows = 512, most_unrolled_rows = 16;

int64_t blocks_of(int64_t size, int64_t block) { return (size + block - 1) / block; }

// What a point means for a shape: the loops that gemm() makes of it.
struct Plan {
    Plan(const GemmShape &shape, const Machine &machine, const Point &point)
        : rows(std::min(point["rows"], shape.m)), row_blocks(blocks_of(shape.m, rows)), col_blocks(blocks_of(shape.n, lanes)),
          k_tiles(blocks_of(shape.k, lanes)), stored_rows(blocks_of(rows, machine.pad.count) * machine.pad.count),
          sums_in_registers(point["sums_in_registers"] != 0), m_outer(point["m_outer"] != 0),
          b_resident(point["b_resident"] != 0 && col_blocks > 1) {}
    int64_t rows, row_blocks, col_blocks, k_tiles, stored_rows;
    bool sums_in_registers, m_outer, b_resident;
};

// Block sizes that cut the rows into each possible number of blocks, with as little overlap between the last two as whole
// rounds of the pads allow.
std::vector<int64_t> row_values(const GemmShape &shape, const Machine &machine) {
    std::set<int64_t> values;
    const int64_t round = machine.pad.count;
    for (int64_t blocks = 1; blocks <= shape.m; blocks++) {
        const int64_t rows = blocks_of(shape.m, blocks);
        if (rows > most_rows) continue;
        values.insert(std::min(shape.m, blocks_of(rows, round) * round));
        if (rows <= round) break;
    }
    return {values.begin(), values.end()};
}

}  // namespace

int64_t gemm_pad_rows(const GemmShape &shape, const Machine &machine, const Point &point) {
    const Plan plan(shape, machine, point);
    const int64_t round = machine.pad.count;
    const int64_t row_slots = plan.row_blocks > 1 ? 2 : 1, col_slots = plan.b_resident ? plan.col_blocks : plan.col_blocks > 1 ? 2 : 1;
    const int64_t block_slots = (plan.m_outer ? plan.col_blocks : plan.row_blocks) > 1 ? 2 : 1;
    int64_t rows = row_slots * plan.stored_rows * plan.k_tiles + col_slots * lanes * plan.k_tiles;
    rows += block_slots * plan.stored_rows * (1 + shape.addend) + (plan.sums_in_registers ? 0 : plan.stored_rows);
    if (shape.bias) rows += round * (plan.col_blocks > 1 ? 2 : 1);
    return rows;
}

Space gemm_space(const GemmShape &shape, const Machine &machine) {
    // Straight-line code goes round all pads, so that the pad of each of its accesses is known.
    const int64_t round = machine.pad.count;
    std::vector<int64_t> weight_unrolls, row_unrolls = {1};
    for (int64_t unroll = round; unroll <= lanes; unroll *= 2) weight_unrolls.push_back(unroll);
    for (int64_t unroll = round; unroll <= most_unrolled_rows; unroll *= 2) row_unrolls.push_back(unroll);
    Space space;
    space.parameter("rows", "rows of A that one load of the weights serves", row_values(shape, machine))
        .choice("sums_in_registers", "1: a block's sums stay in registers while the k tiles pass; 0: in the pads", {0, 1})
        .choice("m_outer", "1: blocks of rows are the outer loop, 0: blocks of columns", {0, 1})
        .choice("b_row_major", "1: a transfer brings the k tiles of a row, 0: the rows of a k tile", {0, 1})
        .choice("b_resident", "1: all of B stays in the pads, 0: two blocks of columns", {0, 1})
        .parameter("weight_unroll", "weight vectors loaded in straight-line code", weight_unrolls)
        .parameter("row_unroll", "rows in straight-line code where the sums are in the pads", row_unrolls);
    space.constraint("registers", {"rows", "sums_in_registers"}, "The sums of a block and the vectors on their way fit the register file.",
                     [=, limit = machine.regs.vector - 1 - registers_in_flight](const Point &point) {
                         return point["sums_in_registers"] == 0 || point["rows"] <= limit;
                     });
    space.constraint("pads", {"rows", "sums_in_registers", "m_outer", "b_resident"}, "The buffers of a block fit the pads together.",
                     [=](const Point &point) { return gemm_pad_rows(shape, machine, point) <= machine.pad.count * machine.pad_rows(); });
    space.constraint("unrolled rows", {"rows", "sums_in_registers", "row_unroll"},
                     "Unrolling goes round the pads and divides the rows of a block; with the sums in registers every row is unrolled anyway.",
                     [=](const Point &point) {
                         const int64_t rows = point["rows"], unroll = point["row_unroll"];
                         if (point["sums_in_registers"] || rows < round) return unroll == 1;
                         return unroll >= round && rows % unroll == 0;
                     });
    const bool one_block = shape.n <= lanes;
    space.constraint("resident", {"b_resident"}, "B is one block of columns, so keeping it is no choice.",
                     [=](const Point &point) { return !one_block || point["b_resident"] == 0; });
    return space;
}

Point gemm_naive_point(const GemmShape &shape, const Machine &machine) {
    const int64_t round = machine.pad.count, rows = std::min(shape.m, 4 * round);
    Point point = {{"rows", rows}, {"sums_in_registers", 0}, {"m_outer", 1}, {"b_row_major", 0}, {"b_resident", 0}, {"weight_unroll", round}, {"row_unroll", 1}};
    while (point["rows"] > round && gemm_pad_rows(shape, machine, point) > round * machine.pad_rows()) point.set("rows", std::max(round, point["rows"] / 2));
    if (point["rows"] % round == 0) point.set("row_unroll", round);
    return point;
}

std::string gemm_words(const GemmShape &shape, const Machine &machine, const Point &point) {
    const Plan plan(shape, machine, point);
    std::string text = plan.row_blocks == 1 ? fmt::format("all {} rows in one block", plan.rows) : fmt::format("{} blocks of {} rows", plan.row_blocks, plan.rows);
    text += plan.sums_in_registers ? ", sums in registers" : fmt::format(", sums in the pads, {} rows unrolled", point["row_unroll"]);
    text += plan.m_outer ? "; columns pass within a block of rows" : "; rows pass within a block of columns";
    text += plan.b_resident ? ", all of B kept in the pads" : "";
    text += fmt::format("; {} weight loads unrolled; transfers {}", point["weight_unroll"], point["b_row_major"] ? "along k" : "along the rows");
    return text;
}

double gemm_draft(const GemmShape &shape, const Machine &machine, const Point &point) {
    const Plan plan(shape, machine, point);
    const auto rows = static_cast<double>(plan.rows), tiles = static_cast<double>(plan.k_tiles);
    const double visits = static_cast<double>(plan.row_blocks * plan.col_blocks);
    const double unroll = static_cast<double>(point["weight_unroll"]);
    const double loads = lanes + (lanes / unroll - 1) * 4;
    double visit = rows + loads + 31;
    if (plan.sums_in_registers) {
        if (!machine.sa.psum_in) visit = std::max(visit, 3.0 * rows);
        const double code = rows * 2 + unroll + 150, cache = static_cast<double>(machine.icache.bytes) / 20;
        if (machine.timed() && code > cache) visit += (code - cache) * 11;
    } else {
        visit += rows * (12.0 + 100.0 / static_cast<double>(point["row_unroll"]));
    }
    const double block = rows + 150;
    const double bytes = 64 * static_cast<double>(plan.k_tiles) *
                         (plan.m_outer ? static_cast<double>(shape.m) + (plan.b_resident ? 1.0 : static_cast<double>(plan.row_blocks)) * static_cast<double>(shape.n)
                                       : static_cast<double>(shape.n) + static_cast<double>(plan.col_blocks) * static_cast<double>(shape.m));
    const double start = 64 * tiles * (rows + lanes) / 24 + 4000;
    return start + std::max(visits * (tiles * visit + block), bytes / 30);
}

}  // namespace atalla
