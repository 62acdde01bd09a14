#include "generators/gemm_draft.h"

#include <algorithm>
#include <map>

#include "generators/gemm_plan.h"
#include "isa/vectors.h"

namespace atalla {

namespace {

// Fitted to simulated points of recorded sweeps, in cycles: what a visit costs beside its rows where the adder or the array
// decides, a turn of the loop over the weights, a row with its sum in the pads and a turn of the loop over such rows.
constexpr double adder_overhead = 13.4, array_overhead = 105, weight_loop_cost = 13.6, pad_row_cost = 2.58,
                 pad_loop_cost = 25.3;
// A block beside its visits, a row of its results and an operation of their epilogue; a tile that is transposed, a further turn
// of its loops, a nest of such tiles in another, what a visit takes longer that starts transfers beside it; a row that needs
// neither a start nor an end.
constexpr double block_overhead = 42, result_row_cost = 3.16, epilogue_row_cost = 1.52, transposed_tile_cost = 110,
                 transposing_loop_cost = 110, transposing_nest_cost = 230, moving_rows_cost = 16, saved_row_cost = 3.17;
// A kernel beside its blocks and its code; a miss of the instruction cache beside the way to the memory.
constexpr double start_overhead = 472, miss_overhead = 4;
// Code in packets: of an unrolled row with its sum in registers or in the pads, of a weight, what a visit has beside these; of
// an unrolled row of results and an operation of their epilogue, a loop over blocks, the handling of a second slot; and what
// each k tile with code of its own repeats of a visit. What does not fit the cache is missed so often each time round.
constexpr double row_code = 0.87, pad_row_code = 0.96, weight_code = 1.87, visit_code = 79, result_code = 0.68,
                 epilogue_code = 0.96, loop_code = 39, slot_code = 14, repeated_code = 0.41;
constexpr double missed_again = 1.13;
// The same of two codes that follow each other: whole blocks of columns and a last one, visits that transpose their tiles and
// the rest of their block.
constexpr double missed_of_both = 3;
// The loop that transposes tiles in a nest, with its first and last iterations: of 128 rows, k of 768; a nest of its own.
constexpr double transposing_code = 240, transposing_nest_code = 140;
// Where the loop over k tiles transposes them, in cycles and in packets, on machines whose array adds the sums and others: a
// visit, a row of it, a block beside its visits, a row of its results and an operation of their epilogue.
struct Turning {
    double visit, row, block, result, operation;
};
constexpr Turning turning_cost = {158, 1.45, 120, 4.3, 1.52}, turning_array_cost = {158, 1.06, 120, 1.02, 1.52},
                  turning_code = {120, 1.2, 70, 1.9, 0.5}, turning_array_code = {120, 1, 70, 0.75, 0.5};
// Where each of one or two k tiles is a loop over rows, of which the last makes results: a row beside its lane operations,
// which the first of two stores as a sum; a turn at least, in which a row passes the array; a block and its first of two
// visits; code in packets, of which a second loop reads operands alone; how often what does not fit the cache is missed;
// transfers, and the part of them that no computation hides.
constexpr double through_row_cost = 1.1, through_sum_cost = 1.4, through_turn_cost = 83.5, through_block_cost = 68,
                 through_visit_cost = 59, through_code = 240, through_loop_code = 60, through_row_code = 3.1,
                 through_operation_code = 1.4, missed_through = 0.16, through_bytes_per_cycle = 16.2, not_ahead_through = 0.57;
// Where the first k tile is like the others: code that a row does without, and a row of a block that is cleared.
constexpr double alike_code = 0.8, cleared_row_cost = 0.8;
// Where rows of an epilogue run in each visit, of machines whose vector unit adds the sums or whose array does: what an
// operation of theirs adds to a visit that the array paces, and by how much one that lanes pace is longer than their work; code
// in packets of a block, and of a row of a first k tile that is not like the others.
constexpr double deferred_operation_cost = 0.75, deferred_array_operation_cost = 0.2, deferred_array_lanes_cost = 1.42,
                 deferred_code = 120, deferred_first_row_code = 1.8;
// Two k tiles are no loop where transfers run beside them: what a row and a weight take then, of which the sums are in
// registers, where the vector unit adds or the array, and what a block has beside these with two loops over blocks; and a k
// tile with code of its own where sums are in the pads. Such code runs once a block: what does not fit the cache is missed with
// what it pushes out.
constexpr double two_tiles_row_code = 3.8, two_tiles_array_row_code = 3.25, two_tiles_weight_code = 3.9,
                 two_tiles_array_weight_code = 2, two_tiles_code = 75;
constexpr double apart_code = 110, apart_row_code = 2.3, missed_straight = 2.1;
// Transfers, on the whole, the first ones and long ones that nothing is computed beside; those along k, with which all pads
// visit one row of the memory, and the same with a few rows of B to a pad; of what could pass during the computation, the part
// that does not where each pass of the inner loop begins anew.
constexpr double bytes_per_cycle = 19.1, first_bytes_per_cycle = 17.4, long_bytes_per_cycle = 28.8, row_major_cost = 1.41,
                 few_rows_cost = 1.04, not_ahead = 1.15;
constexpr double transfer_latency = 170;
// Of a row of sums that wait in the pads while other columns pass: its load and its store.
constexpr double waiting_row_cost = 2.2;
// Where B comes beside all visits: a kernel beside these, its start included; a visit and a row of it, or what it is longer
// than the adder's work; a k tile's loop; a row of a block's results, and an operation of its epilogue; transfers.
constexpr double streamed_start = 3800, streamed_visit = 80, streamed_row = 1.75, streamed_adder_overhead = 30,
                 streamed_loop = 67, streamed_result = 6, streamed_operation = 3, streamed_bytes_per_cycle = 24;
// Where the pads' pages are all in one bank group, and what is added if they are in one bank, fitted to one row by 4096 x 4096;
// and if pads begin in later pages, which is more code.
constexpr double one_group_cost = 1.75, one_bank_cost = 1, page_a_row_cost = 3, later_pages_cost = 0.1;
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
        block += parts > 1 ? k_tiles * std::max(rows, parts * packet_part + rows / 2) + parts * packet_part + rows / parts / 2
                           : (k_tiles * 1.5 + 0.5) * rows + packet_part;
    } else {
        block += k_tiles * rows * (2 + packet_loop / static_cast<double>(point["row_unroll"])) + 2 * rows;
    }
    return packet_start + lanes + blocks * (block + (plan.straight ? 0 : packet_loop));
}

// Operations on a row of results beside its sums: a bias, an addend that is loaded and added, what is compared and copied. An
// expression's are a loop of their own if it is long; those of a call share packets, as fitted.
double epilogue_operations(const GemmShape &shape) {
    constexpr int in_a_call = 2;
    const int in_expression = shape.epilogue && !shape.staged ? in_a_call * shape.epilogue->calls() : 0;
    return shape.bias + 2 * shape.relu + 2 * shape.addend + (shape.alpha != 1) + in_expression;
}
// Cycles of adder and multiplier.
double shared_cycles(const Machine &machine, const LaneCount &count) {
    return static_cast<double>(static_cast<int64_t>(machine.vec.ii) * count.shared());
}
// Those of an expression in a loop of its own, a row.
double staged_cycles(const GemmShape &shape, const Machine &machine) {
    return shape.staged ? shared_cycles(machine, shape.epilogue_work) : 0;
}
// A visit that rows of the epilogue run in, of which the product alone takes so many cycles of the adder.
double deferred_visit(const GemmShape &shape, const GemmPlan &plan, const Machine &machine, double sums) {
    const auto each = static_cast<double>(plan.deferred_rows()), ii = static_cast<double>(machine.vec.ii);
    const LaneCount &work = shape.epilogue_work;
    const double adder = sums + each * ii * static_cast<double>(work.work.adds),
                 multiplier = each * ii * static_cast<double>(work.work.muls),
                 copies = each * ii * static_cast<double>(work.copies),
                 array = static_cast<double>(plan.rows) + array_overhead +
                         (machine.sa.psum_in ? deferred_array_operation_cost : deferred_operation_cost) * each *
                             static_cast<double>(work.all());
    const double lane_work = std::max({adder, multiplier, (adder + multiplier + copies) / 2});
    return std::max(machine.sa.psum_in ? deferred_array_lanes_cost * lane_work : lane_work, array);
}
// The operations of a row of results in the loop that makes it, beside its sums.
LaneCount row_operations(const GemmShape &shape) {
    LaneCount count = shape.staged ? LaneCount() : shape.epilogue_work;
    count.work.adds += (shape.bias && !shape.starts_with_bias()) + shape.relu + shape.addend;
    count.work.muls += shape.alpha != 1;
    count.copies += shape.relu;
    return count;
}

// What a transfer of B takes by the rows of the memory, pages, that the pads are in at once, where it would take one.
double row_order_cost(const GemmShape &shape, const Machine &machine, const Point &point) {
    // B as [k][n] comes along its own rows, in whatever order its transposed tiles lie.
    const int64_t row = 2 * (shape.b_transposed ? shape.k : shape.n), page = machine.dram.row_bytes,
                  apart = point["b_block"] * row;
    if (!shape.b_transposed) return row < page ? 1 : one_group_cost;
    if (!point["b_row_major"]) return row < page ? 1 : page_a_row_cost;
    constexpr int64_t rows_of_a_page = 8;
    if (apart < page) return point["b_block"] == 1 ? row_major_cost : point["b_block"] < rows_of_a_page ? few_rows_cost : 1;
    // Each pad is in a page of its own. Blocks begin anywhere in one. Where rows are several pages, pads begin in later ones if
    // that parts them.
    constexpr int64_t places = 4;
    const int64_t come = 2 * lanes * std::min(point["k_block"], shape.k_tiles()),
                  pages = row < 2 * page ? 1 : std::max<int64_t>(1, (come < row ? come : apart) / page);
    double cost = 0;
    for (int64_t place = 0; place < places; place++) {
        std::map<int64_t, int64_t> in_group, in_bank;
        bool begin_later = false;
        for (int64_t pad = 0; pad < machine.pad.count; pad++) {
            const int64_t at = (place * page / places + pad * apart) / page;
            int64_t best = at;
            const auto met = [&](int64_t later) {
                return std::pair(in_group[later % machine.dram.groups], in_bank[later % machine.dram.banks]);
            };
            for (int64_t later = at + 1; later < at + pages; later++)
                if (met(later) < met(best)) best = later;
            begin_later = begin_later || best != at;
            in_group[best % machine.dram.groups]++;
            in_bank[best % machine.dram.banks]++;
        }
        // From 0, where pads are spread over as many as there are, to 1, where all are in one.
        const auto crowded = [&](const std::map<int64_t, int64_t> &pads_of, int64_t count) {
            const int64_t most = std::ranges::max_element(pads_of, {}, [](const auto &each) { return each.second; })->second,
                          least = ceil_div(machine.pad.count, count);
            return least == machine.pad.count
                       ? 0
                       : static_cast<double>(most - least) / static_cast<double>(machine.pad.count - least);
        };
        cost += 1 + (one_group_cost - 1) * crowded(in_group, machine.dram.groups) +
                one_bank_cost * crowded(in_bank, machine.dram.banks) + (begin_later ? later_pages_cost : 0);
    }
    return cost / static_cast<double>(places);
}

// Code in packets: of a visit, and of all that runs.
struct Code {
    Code(const GemmShape &shape, const GemmPlan &plan, const Machine &machine, const Point &point, double epilogue) {
        const auto unrolled = static_cast<double>(plan.sums_in_registers ? plan.rows : point["row_unroll"]),
                   weights = static_cast<double>(point["weight_unroll"]);
        const int64_t loops = (plan.row_blocks > 1) + (plan.col_blocks > 1) + (shape.products() > 1),
                      apart = point["k_ends_apart"] ? std::min<int64_t>(plan.k_tiles - 1, 2) : 0;
        const bool overlaps = plan.sums_in_registers ? loops >= 2 || (loops == 1 && plan.slots > 1) : loops >= 2 && apart > 0;
        // One loop over blocks has little to hand over, and B that is transposed in the nest stands in front of the tiles.
        straight =
            (shape.b_transposed ? plan.k_tiles == 2 : plan.b_resident && plan.k_tiles <= GemmPlan::row_loop_tiles) && overlaps;
        if (plan.turns_inside) {
            const Turning &turning = machine.sa.psum_in ? turning_array_code : turning_code;
            visit = turning.visit + turning.row * unrolled;
            all = gemm_turning_code(shape, machine);
            if (plan.m_outer && loops > 1) all += loop_code;
            return;
        }
        const double saved = plan.alike ? alike_code * unrolled : 0;
        visit = (plan.sums_in_registers ? row_code : pad_row_code) * unrolled + weight_code * weights + visit_code;
        if (straight && plan.sums_in_registers) {
            // B that was transposed first is in the pads, and needs no code for transfers.
            const bool few_weights = machine.sa.psum_in || !shape.b_transposed;
            const double rows_and_weights = (machine.sa.psum_in ? two_tiles_array_row_code : two_tiles_row_code) * unrolled +
                                            (few_weights ? two_tiles_array_weight_code : two_tiles_weight_code) * weights;
            all = rows_and_weights * static_cast<double>(plan.k_tiles) / 2 + (shape.b_transposed ? two_tiles_code : 0) +
                  epilogue_code * epilogue * unrolled - loop_code * static_cast<double>(2 - loops) -
                  (plan.slots > 1 ? 0 : slot_code) - saved;
            return;
        }
        if (straight) visit -= weight_code * weights;
        const double deferred = plan.deferred ? deferred_code + (plan.alike ? 0 : deferred_first_row_code * unrolled) : 0;
        // Sums that wait in the pads are loaded in front of their visits and stored behind them.
        const double waiting = plan.k_outer ? result_code * unrolled : 0;
        all = visit + waiting + deferred +
              static_cast<double>(apart) * (straight ? apart_code + apart_row_code * unrolled : repeated_code * visit) +
              (result_code + epilogue_code * epilogue) * unrolled + loop_code * static_cast<double>(loops) +
              (plan.slots > 1 && loops > 0 ? slot_code : 0) - saved;
        if (!shape.b_transposed && !plan.b_resident && plan.m_outer) all += transposing_code;
    }
    double visit, all;
    bool straight;  // a block's one or two k tiles in one piece
};

// Of A that stays, which comes as a whole before anything is computed: what comes behind the first block, in bytes.
double late_bytes_of_a(const GemmShape &shape, const GemmPlan &plan) {
    return plan.a_resident ? 2 * static_cast<double>(shape.products() * (shape.m - plan.rows) * shape.k) : 0;
}

// What passes between DRAM and pads, in bytes.
double moved_bytes(const GemmShape &shape, const GemmPlan &plan) {
    const auto products = static_cast<double>(shape.products()), row_blocks = static_cast<double>(plan.row_blocks),
               col_blocks = static_cast<double>(plan.col_blocks);
    const double a = shape.inner ? 0 : 2 * products * static_cast<double>(shape.m * shape.k),
                 b = 2 * products * static_cast<double>(shape.n * shape.k);
    return (plan.m_outer ? a + b * (plan.b_resident ? 1 : row_blocks)
                         : b + a * (shape.makes_rows() || plan.a_resident ? 1 : col_blocks)) +
           2 * products * static_cast<double>(shape.m * shape.n * (1 + shape.addend));
}

double packet_miss(const Machine &machine) {
    return (static_cast<double>(machine.dram.complete) + miss_overhead) * static_cast<double>(machine.issue.packet_bytes) /
           static_cast<double>(machine.icache.line);
}
double cache_packets(const Machine &machine) {
    return static_cast<double>(machine.icache.bytes) / static_cast<double>(machine.issue.packet_bytes);
}

// A last block of columns that are fewer has code of its own, and B as [k][n] then comes where it is waited for.
bool has_fewer_last(const GemmShape &shape, const GemmPlan &plan, const Machine &machine) {
    return !shape.b_transposed && shape.n % lanes != 0 && !plan.c_whole &&
           !(plan.b_resident && shape.n % machine.pad.count == 0);
}

// What B as [k][n] adds to a block: its tiles are transposed for it, or for all blocks of its columns.
double transposing_cycles(const GemmShape &shape, const GemmPlan &plan, const Machine &machine, const Point &point) {
    if (shape.b_transposed) return 0;
    const bool nest = !plan.turns_inside && !plan.b_resident, fewer_last = has_fewer_last(shape, plan, machine);
    const double weight_loops = lanes / static_cast<double>(point["weight_unroll"]) - 1;
    const double tile = (plan.turns_inside ? 0 : transposed_tile_cost + weight_loops * transposing_loop_cost) +
                        (fewer_last ? 2 * lanes * lanes / first_bytes_per_cycle : 0);
    return (tile * static_cast<double>(plan.k_tiles) + (nest ? transposing_nest_cost : 0) +
            (fewer_last ? transfer_latency : 0)) /
           (plan.m_outer && !plan.b_resident ? 1 : static_cast<double>(plan.row_blocks));
}
// Packets of the loops that transpose, where they are no part of the loop over k tiles.
double nest_packets(const GemmShape &shape, const GemmPlan &plan) {
    return shape.b_transposed || plan.turns_inside ? 0 : transposing_nest_code;
}

// B comes beside the visits of all columns, of a k tile after the other.
double streamed_draft(const GemmShape &shape, const GemmPlan &plan, const Machine &machine) {
    const auto rows = static_cast<double>(plan.rows), k_tiles = static_cast<double>(plan.k_tiles),
               blocks = static_cast<double>(plan.col_blocks);
    const double adder = machine.sa.psum_in ? 0 : static_cast<double>(machine.vec.ii) * rows + streamed_adder_overhead;
    const double visits = k_tiles * (streamed_loop + blocks * std::max(streamed_visit + streamed_row * rows, adder)),
                 results = blocks * rows * (streamed_result + streamed_operation * epilogue_operations(shape)),
                 of_a = 2 * lanes * k_tiles * rows / first_bytes_per_cycle;
    return streamed_start + of_a + std::max(visits, moved_bytes(shape, plan) / streamed_bytes_per_cycle) + results;
}

// One or two k tiles, each a loop over rows: the first one's sums wait in the pads, the last makes results.
double through_draft(const GemmShape &shape, const GemmPlan &plan, const Machine &machine, const Point &point) {
    const auto rows = static_cast<double>(plan.rows), unrolled = static_cast<double>(point["row_unroll"]),
               visits = static_cast<double>(plan.k_tiles);
    const double blocks = static_cast<double>(shape.products() * plan.row_blocks * plan.col_blocks);
    const auto loop = [&](double row) { return rows / unrolled * std::max(through_turn_cost, unrolled * row); };
    LaneCount start, last = row_operations(shape);
    const int64_t all = last.all() + shape.starts_with_bias();
    start.work.adds = shape.starts_with_bias() && !machine.sa.psum_in;
    double block = through_block_cost + rows * staged_cycles(shape, machine) +
                   visits * (lanes / static_cast<double>(point["weight_unroll"]) - 1) * weight_loop_cost;
    if (plan.k_tiles > 1) {
        block += through_visit_cost + loop(through_sum_cost + shared_cycles(machine, start));
        last.work.adds += !machine.sa.psum_in;
    } else {
        last.work.adds += start.work.adds;
    }
    block += loop(through_row_cost + shared_cycles(machine, last)) + transposing_cycles(shape, plan, machine, point);
    const double code = (has_fewer_last(shape, plan, machine) ? 2 : 1) * nest_packets(shape, plan) + through_code +
                        through_loop_code * (visits - 1) +
                        unrolled * (through_row_code + through_operation_code * (static_cast<double>(all) - (visits - 1))),
                 again = missed_through * std::clamp(code - cache_packets(machine), 0.0, code / 2) * (blocks - 1);
    const double along_k = plan.k_tiles > 1 ? row_order_cost(shape, machine, point) : 1,
                 computation = blocks * block + packet_miss(machine) * again, of_a = late_bytes_of_a(shape, plan),
                 transfers = (moved_bytes(shape, plan) - of_a) / through_bytes_per_cycle * along_k,
                 first = 2 * lanes * visits * (rows + lanes) / first_bytes_per_cycle * along_k,
                 inner = static_cast<double>(plan.m_outer ? plan.col_blocks : plan.row_blocks);
    const double together =
        plan.slots > 1 ? first + std::max(computation, transfers) + not_ahead_through / inner * std::min(computation, transfers)
                       : computation + transfers + transfer_latency * (blocks / inner - 1);
    return start_overhead + packet_miss(machine) * code + of_a / long_bytes_per_cycle + together;
}

}  // namespace

double gemm_turning_code(const GemmShape &shape, const Machine &machine) {
    const Turning &turning = machine.sa.psum_in ? turning_array_code : turning_code;
    return turning.visit + turning.block +
           (turning.row + turning.result + turning.operation * epilogue_operations(shape)) * static_cast<double>(shape.m);
}

double gemm_draft(const GemmShape &shape, const Machine &machine, const Point &point) {
    const auto products = static_cast<double>(shape.products());
    const GemmPlan plan(shape, machine, point);
    if (!machine.timed()) return packets_draft(plan, point) * products;
    if (plan.streamed) return streamed_draft(shape, plan, machine);
    // Kernels of fewer results are starts and ends above all, which the costs of loops do not tell apart.
    constexpr int64_t few_results = 512;
    if (plan.k_tiles <= GemmPlan::row_loop_tiles && point["k_ends_apart"] &&
        shape.products() * shape.m * plan.col_blocks > few_results)
        return through_draft(shape, plan, machine, point);
    const auto rows = static_cast<double>(plan.rows), k_tiles = static_cast<double>(plan.k_tiles);
    const auto row_blocks = static_cast<double>(plan.row_blocks), col_blocks = static_cast<double>(plan.col_blocks);
    const double epilogue = epilogue_operations(shape);
    const bool fewer_last = has_fewer_last(shape, plan, machine);
    // A visit is the time between two loads of the weights, a block what ends with its results stored.
    const double per_row = machine.sa.psum_in ? 1 : static_cast<double>(machine.vec.ii);
    const double weight_loops = lanes / static_cast<double>(point["weight_unroll"]) - 1;
    double visit = weight_loops * weight_loop_cost;
    visit += plan.sums_in_registers
                 ? std::max(per_row * rows + adder_overhead, rows + array_overhead)
                 : (pad_row_cost + pad_loop_cost / static_cast<double>(point["row_unroll"])) * rows + array_overhead;
    // Rows of A that come anew for each block of columns start from inside the visits where a nest transposes beside them.
    if (!shape.b_transposed && !plan.turns_inside && !plan.b_resident && !plan.m_outer && !plan.a_resident)
        visit += moving_rows_cost;
    const Code code(shape, plan, machine, point, epilogue);
    // Both pass the instruction cache as often as all columns do.
    const bool two_codes = fewer_last && plan.col_blocks > 1;
    const double all_code = code.all * (two_codes ? 2 : 1), passes = products * (plan.m_outer ? row_blocks : 1);
    const double capacity = cache_packets(machine);
    // A nest that fits the instruction cache turns: the last sums of a block run with the rows of the next one's first k tile.
    const bool turns = plan.sums_in_registers && !machine.sa.psum_in && plan.k_tiles > 1 && !code.straight &&
                       shape.products() * plan.row_blocks * plan.col_blocks > 1 && code.all <= capacity &&
                       (shape.b_transposed || plan.b_resident) && !plan.deferred;
    double block = (k_tiles - (turns ? 1 : 0)) * visit + rows * (result_row_cost + epilogue_row_cost * epilogue) +
                   block_overhead - (point["k_ends_apart"] ? saved_row_cost * rows : 0);
    if (plan.turns_inside) {
        const Turning &turning = machine.sa.psum_in ? turning_array_cost : turning_cost;
        block = k_tiles * (turning.visit + turning.row * rows) + turning.block +
                (turning.result + turning.operation * epilogue) * rows;
    } else if (plan.alike) {
        block += cleared_row_cost * rows;
    }
    // Sums of all columns come out of the pads and go back for each block of k tiles.
    const double parts = plan.k_outer ? k_tiles / static_cast<double>(plan.k_block) : 1;
    if (plan.k_outer) block += parts * (block_overhead + waiting_row_cost * rows);
    if (plan.deferred) {
        const double sums = machine.sa.psum_in ? 0 : per_row * rows;
        block += static_cast<double>(plan.visits) * (deferred_visit(shape, plan, machine, sums) - visit);
    } else {
        block += rows * staged_cycles(shape, machine);
    }
    // The sums of a group end in a loop of their own, which adds them to those in the pads.
    if (shape.blocked_sums) block += static_cast<double>(shape.sum_groups()) * (array_overhead + rows * 2 * pad_row_cost);
    block += transposing_cycles(shape, plan, machine, point);

    // All code is missed once. What does not fit the cache pushes out as much again: once a visit if its loop is that long,
    // once a block otherwise.
    const double inner = plan.turns_inside || plan.m_outer ? col_blocks : row_blocks;
    const double blocks = products * row_blocks * col_blocks * (plan.deferred ? 1 + 1 / inner : 1);
    const double visits_again = std::max(0.0, code.visit - capacity) * (k_tiles - 1) * blocks;
    const double beyond = code.all - capacity;
    double blocks_again = (blocks * parts - 1) * (plan.turns_inside ? std::clamp(missed_of_both * beyond, 0.0, code.all)
                                                                    : std::clamp(beyond, 0.0, code.all / 2) *
                                                                          (code.straight ? missed_straight / missed_again : 1));
    if (two_codes) blocks_again += std::clamp(missed_of_both * (all_code - capacity), 0.0, all_code) * (passes - 1);
    const double nest_code = (plan.b_resident || !plan.m_outer ? nest_packets(shape, plan) : 0) * (two_codes ? 2 : 1);
    const double start = start_overhead + packet_miss(machine) * (all_code + nest_code),
                 computation = blocks * block + missed_again * packet_miss(machine) * std::max(visits_again, blocks_again);

    if (plan.k_block < plan.k_tiles && !plan.k_outer) {
        // Nothing is under way while a block of k tiles computes.
        const double part = 2 * lanes * lanes * static_cast<double>(plan.k_block) * (1 + rows / lanes);
        const double wait = transfer_latency + part / first_bytes_per_cycle;
        return start + computation + blocks * k_tiles / static_cast<double>(plan.k_block) * wait;
    }
    const double along_k = plan.k_tiles > 1 ? row_order_cost(shape, machine, point) : 1;
    const double transfers = moved_bytes(shape, plan) / bytes_per_cycle * along_k,
                 first = 2 * lanes * k_tiles / parts * (rows + lanes) / first_bytes_per_cycle * along_k;
    if (plan.k_outer) {
        // Rows of A come while nothing is computed.
        const double turns = products * row_blocks * parts - 1,
                     of_a = transfer_latency + 2 * lanes * k_tiles / parts * rows / first_bytes_per_cycle;
        return start + first + std::max(computation, transfers) + turns * of_a;
    }
    const double all_of_a = late_bytes_of_a(shape, plan) / long_bytes_per_cycle;
    // With one slot the operands of a further block of the outer loop come while nothing is computed.
    const double waits = blocks / inner - 1;
    const double together =
        plan.slots > 1 ? first + std::max(computation, transfers) + not_ahead / inner * std::min(computation, transfers)
                       : computation + transfers + transfer_latency * waits;
    return start + all_of_a + together;
}

}  // namespace atalla
