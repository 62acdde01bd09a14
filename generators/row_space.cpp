#include "generators/row_space.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "generators/pad_room.h"

namespace atalla {

namespace {

// Vector registers that the values of unrolled rows may take, and straight-line code that the instruction cache holds.
constexpr double most_values = 160, most_packets = 365, resident_packets = 250;
constexpr int64_t most_rows = 128, most_unrolled_rows = 16, most_unrolled_vectors = 64;

int64_t ring_slots(const RowShape &shape, const Machine &machine, int64_t rows) {
    return machine.timed() && shape.rows > rows ? 2 : 1;
}

double operations(const RowCost &cost) { return cost.adds + cost.muls + cost.exps + 4 * cost.passes; }

}  // namespace

RowShape with_short_parts(RowShape shape) {
    // Straight code takes less of shorter rows; sums of single vectors overlap, too, in rows of equal parts of whole ones.
    constexpr int64_t many_rows = 8, most_straight = 60, most_by_vectors = 127;
    const int64_t most = shape.whole_vectors() ? most_by_vectors : most_straight;
    shape.short_parts = shape.rows >= many_rows && tiles_of(shape.length) > most;
    return shape;
}

bool is_skewed(const Point &point) { return point.contains("skewed") && point["skewed"] != 0; }

bool is_beside(const Point &point) { return point.contains("beside") && point["beside"] != 0; }

bool rows_apart(const RowShape &shape, const Machine &machine, const Point &point) {
    const int64_t block = point["rows"], rows = point["row_unroll"];
    return machine.timed() && !is_beside(point) && shape.rows % block == 0 && block > rows && rows % machine.pad.count == 0 &&
           shape.whole_vectors();
}

int64_t rows_beside(const RowShape &shape, const Point &point) {
    const int64_t all = std::gcd(shape.rows, point["rows"]), unrolled = point["row_unroll"];
    int64_t rows = std::min<int64_t>(all, lanes) / unrolled * unrolled;
    while (rows > 0 && all % rows != 0) rows -= unrolled;
    return rows;
}

bool numbers_spread(const RowShape &shape, const Point &point) { return is_beside(point) && !shape.is_short(); }

int64_t neighbours_of(const RowShape &shape, const Machine &machine, const Point &point) {
    const int64_t pads = machine.pad.count, tile = machine.sdma.max_rows / shape.vectors();
    if (!rows_apart(shape, machine, point) || point["rows"] < shape.rows || point["vector_unroll"] < shape.vectors() ||
        tile * shape.vectors() != machine.sdma.max_rows)
        return 0;
    for (const int64_t together : {2 * tile, tile})
        if (together % (point["row_unroll"] / pads) == 0 && shape.rows % (pads * together) == 0) return together;
    return 0;
}

bool rows_stream(const RowShape &shape, const Machine &machine, const Point &point) {
    constexpr int64_t least_transfers = 4;
    if (shape.part > 0 || !machine.timed() || is_beside(point) || point["rows"] < shape.rows ||
        point["vector_unroll"] < shape.vectors() || point["grouped"] != 0 || !shape.whole_vectors())
        return false;
    if (shape.rows * shape.vectors() < least_transfers * machine.pad.count * machine.sdma.max_rows) return false;
    return rows_apart(shape, machine, point) ? neighbours_of(shape, machine, point) > 0
                                             : point["row_unroll"] * shape.vectors() % machine.pad.count == 0;
}

bool rows_in_columns(const RowShape &shape, const Machine &machine) {
    return shape.part == 0 && machine.timed() && !shape.whole_vectors() && machine.pad.count % shape.vectors() != 0;
}

int64_t parts_of_columns(const RowShape &shape, const Machine &machine, const Point &point) {
    constexpr int64_t least_parts = 4;
    if (!rows_in_columns(shape, machine) || is_beside(point) || point["rows"] < shape.rows ||
        point["vector_unroll"] < shape.vectors() || point["grouped"] != 0 || shape.vectors() < machine.pad.count)
        return 1;
    // Tiles are equal, of more rows than half of what one may have.
    const int64_t fewest = ceil_div(shape.rows, int64_t{machine.sdma.max_rows});
    for (int64_t tiles = std::max(fewest, least_parts); tiles <= std::max(fewest + fewest / 2, least_parts); tiles++)
        if (shape.rows % tiles == 0) return tiles;
    return 1;
}

int64_t spare_rows(const RowShape &shape, const Machine &machine, const Point &point) {
    constexpr int64_t idle_stages = 2, idle_stages_through_pads = 4;
    if (!machine.timed() || is_beside(point) || shape.whole_vectors() || point["vector_unroll"] < shape.vectors() ||
        point["rows"] == point["row_unroll"])
        return 0;
    return round_up(point["row_unroll"] * (point["stored"] != 0 ? idle_stages_through_pads : idle_stages), machine.pad.count);
}

int64_t steps_in_pads(const RowShape &shape, const Point &point, const RowCost &cost) {
    const bool loops = point["vector_unroll"] < shape.vectors();
    if (!loops) return point["stored"] != 0 ? cost.steps_in_pads : 0;
    return cost.steps_in_pads - (point["grouped"] != 0 ? cost.light_steps : 0);
}

namespace {

// Each pass has parts of the tensors of rows; the last one those of the rows for all and of the result as well.
std::vector<PadUse> uses_of_parts(const RowShape &shape, const Machine &machine, const RowCost &cost, int64_t vector_unroll) {
    const int64_t slots = machine.timed() ? 2 : 1,
                  buffers = static_cast<int64_t>(cost.passes) * cost.row_tensors + cost.fixed_rows + 1;
    return {static_cast<size_t>(buffers), {slots * shape.part, vector_unroll % machine.pad.count == 0}};
}

Space space_of_parts(const RowShape &shape, const Machine &machine, const RowCost &cost) {
    std::vector<int64_t> unrolls;
    for (int64_t unroll = 1; unroll <= shape.part; unroll *= 2) unrolls.push_back(unroll);
    Space space;
    space.parameter("rows", "rows that are in the pads at a time", {1})
        .parameter("row_unroll", "rows in straight-line code", {1})
        .parameter("vector_unroll", "vectors of a part in straight-line code", unrolls)
        .parameter("reduced", "sums of 32 lanes by the reduction unit, not by the array", {0})
        .parameter("stored", "steps of rows in straight-line code go through the pads, not through registers", {0})
        .parameter("grouped", "vectors of a row are weights of the array, which one row of ones sums", {0})
        .parameter("skewed", "the passes over a row are one loop, each on another row", {0});
    if (cost.beside) space.parameter("beside", "what lanes make of a number of a row is made of many rows' at once", {0});
    space.constraint(
        "pads", {"vector_unroll"}, "The parts of a row that each of its passes has fit the pads.",
        [=](const Point &point) { return fit_pads(machine, uses_of_parts(shape, machine, cost, point["vector_unroll"])); });
    return space;
}

}  // namespace

RowShape shape_in_pads(const RowShape &shape, const Machine &machine, const RowCost &cost) {
    // Rows, results and all steps of a row take no more than half of the pads: some schedule has room.
    const auto buffers = 2 * (1 + cost.row_tensors) + cost.fixed_rows + cost.steps_in_pads;
    if (2 * buffers * shape.vectors() <= machine.pad.count * machine.pad_rows()) return shape;
    bool fits = false;
    for_each(row_space(shape, machine, cost), [&](const Point &) { return !(fits = true); });
    if (fits) return shape;
    RowShape in_parts = shape;
    for (in_parts.part = lanes; in_parts.part > 1; in_parts.part /= 2)
        if (fit_pads(machine, uses_of_parts(in_parts, machine, cost, in_parts.part))) break;
    return in_parts;
}

Space row_space(const RowShape &shape, const Machine &machine, const RowCost &cost) {
    if (shape.part > 0) return space_of_parts(shape, machine, cost);
    const int64_t vectors = shape.vectors();
    std::vector<int64_t> rows, row_unrolls, vector_unrolls;
    for (int64_t block = 1; block < 2 * std::min(shape.rows, most_rows); block *= 2)
        rows.push_back(std::min(block, shape.rows));
    if (shape.rows > rows.back()) rows.push_back(shape.rows);
    for (int64_t unroll = 1; unroll <= std::min(shape.rows, most_unrolled_rows); unroll *= 2) row_unrolls.push_back(unroll);
    for (int64_t unroll = 1; unroll <= std::min(vectors, most_unrolled_vectors); unroll++)
        if (vectors % unroll == 0) vector_unrolls.push_back(unroll);
    const bool may_skew =
        cost.passes > 1 && shape.fills_array() && (shape.whole_vectors() || shape.short_parts) && machine.timed();
    Space space;
    space.parameter("rows", "rows that are in the pads at a time", rows)
        .parameter("row_unroll", "rows in straight-line code", row_unrolls)
        .parameter("vector_unroll", "vectors of a row in straight-line code", vector_unrolls)
        .parameter("reduced", "sums of 32 lanes by the reduction unit, not by the array",
                   shape.is_short() ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0})
        .parameter("stored", "steps of rows in straight-line code go through the pads, not through registers",
                   shape.fills_array() ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0})
        .parameter("grouped", "vectors of a row are weights of the array, which one row of ones sums",
                   shape.fills_array() ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0})
        .parameter("skewed", "the passes over a row are one loop, each on another row",
                   may_skew ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0});
    const bool may_be_beside = cost.beside && shape.rows > 1;
    if (cost.beside) {
        space.parameter("beside", "what lanes make of a number of a row is made of many rows' at once",
                        may_be_beside ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0});
        constexpr int64_t least = 4;
        space.constraint(
            "beside", {"beside", "rows", "row_unroll", "vector_unroll", "stored", "grouped"},
            "Rows that are beside each other are some, each of them in straight-line code, their steps in registers.",
            [=](const Point &point) {
                return point["beside"] == 0 || (point["vector_unroll"] == vectors && rows_beside(shape, point) >= least &&
                                                point["stored"] == 0 && point["grouped"] == 0);
            });
    }
    space.constraint("whole unrolls", {"rows", "row_unroll"}, "The rows in straight-line code divide those in the pads.",
                     [](const Point &point) { return point["rows"] % point["row_unroll"] == 0; });
    std::vector<std::string> pads_depend_on = {"rows", "row_unroll", "vector_unroll", "stored", "grouped", "skewed"};
    if (cost.beside) pads_depend_on.emplace_back("beside");
    space.constraint("pads", pads_depend_on, "The rows of a block and of its results fit the pads.", [=](const Point &point) {
        const int64_t unroll = point["vector_unroll"], block = point["rows"],
                      straight = point["row_unroll"] * (unroll < vectors ? 1 : vectors);
        const bool round = (unroll < vectors ? unroll : straight) % machine.pad.count == 0;
        std::vector<PadUse> uses(static_cast<size_t>(1 + cost.row_tensors),
                                 {ring_slots(shape, machine, block) * (block + spare_rows(shape, machine, point)) * vectors,
                                  round || straight == block * vectors});
        // Rows that wait for later passes, and the tensors' own.
        const int64_t waiting = is_skewed(point) ? 2 * static_cast<int64_t>(cost.passes) : 1,
                      kept = is_skewed(point) ? cost.row_tensors : 0;
        uses.insert(uses.end(), static_cast<size_t>((steps_in_pads(shape, point, cost) + kept) * waiting * point["row_unroll"]),
                    {vectors, round});
        uses.insert(uses.end(), static_cast<size_t>(cost.fixed_rows), {vectors, round || unroll == vectors});
        if (is_beside(point)) uses.push_back({rows_beside(shape, point) * vectors, round});
        if (numbers_spread(shape, point)) uses.insert(uses.end(), 2, {rows_beside(shape, point), false});
        return fit_pads(machine, uses);
    });
    space.constraint("skewed", {"skewed", "rows", "row_unroll", "vector_unroll", "stored", "grouped"},
                     "Passes that become one loop take the rows of a block side by side, as many vectors of each part of them "
                     "at a time, and their sums are rows through the array; or a row, of which a short part is its weights.",
                     [=](const Point &point) {
                         const int64_t parts = shape.parts(), unroll = point["vector_unroll"], block = point["rows"];
                         if (!is_skewed(point)) return true;
                         if (block != point["row_unroll"] || shape.rows % block != 0 || point["stored"] != 0) return false;
                         if (point["grouped"] != 0) return shape.short_parts && block == 1 && unroll * parts == vectors;
                         return shape.whole_vectors() && unroll < vectors && unroll % parts == 0 && vectors % unroll == 0;
                     });
    space.constraint("stored", {"stored", "vector_unroll"},
                     "Steps of rows that are not all straight-line code are in the pads anyway.",
                     [=](const Point &point) { return point["stored"] == 0 || point["vector_unroll"] == vectors; });
    space.constraint("registers", {"row_unroll", "vector_unroll"},
                     "What unrolled rows keep in registers fits the register file.", [=](const Point &point) {
                         if (point["vector_unroll"] < vectors) return point["row_unroll"] * point["vector_unroll"] <= 32;
                         return static_cast<double>(point["row_unroll"] * vectors) * cost.values <= most_values;
                     });
    return space;
}

namespace {

// Packets of a vector's straight-line code, sums by weights of the array aside.
double packets_of_vector(const RowCost &cost) { return cost.packets > 0 ? cost.packets : operations(cost) / 2; }

// Do rows overlap those of other iterations? Where each waits for its own sums, what is under way needs registers, rows for all
// that are read beside it among it, and few iterations have to take as long as one row does.
bool rows_overlap(const RowShape &shape, const Machine &machine, const Point &point, const RowCost &cost, double unit) {
    constexpr double most_under_way = 64, iterations = 3, with_waits = 1.4;
    constexpr int64_t most_stored = 36;
    if (point["grouped"] != 0 || point["vector_unroll"] < shape.vectors()) return false;
    // What waits in the pads fills no register, but each row of a block has rows of the pads for it; longer rows make too many
    // values.
    const int64_t block = point["rows"],
                  taken = (ring_slots(shape, machine, block) * (1 + cost.row_tensors) + cost.steps_in_pads) * block *
                          shape.vectors();
    if (point["stored"] != 0)
        return point["row_unroll"] == 1 && shape.vectors() <= most_stored &&
               taken <= machine.pad.count * machine.pad_rows() / 4 * 3;
    if (!cost.waits) return true;
    const auto straight = static_cast<double>(point["row_unroll"] * shape.vectors());
    return straight * (cost.values + static_cast<double>(cost.fixed_rows)) <= most_under_way &&
           iterations * straight * unit >= with_waits * cost.latency;
}

// A row whose vectors are in loops, one for each pass: what a step takes beside its lanes, and lanes that no other pass
// overlaps. Unrolled rows have code of their own, and that of all is fetched anew each time where the instruction cache does
// not hold it.
double looped_rows_draft(const RowShape &shape, const Machine &machine, const Point &point, const RowCost &cost, double unit) {
    constexpr double step = 2.8, sum_step = 44, lane_share = 2, other_pads = 1.55, row_in_block = 450, group_wait = 65;
    constexpr double code_of_row = 140, code_of_vector = 2.45, cached_packets = 409, miss = 11;
    const auto vectors = static_cast<double>(shape.vectors()), rows = static_cast<double>(point["row_unroll"]),
               unrolled = static_cast<double>(point["vector_unroll"]);
    const double steps = vectors / unrolled, packets = packets_of_vector(cost);
    // Steps that do not all begin in the same pad find it in a register.
    const double lanes_of_row =
        vectors * unit * lane_share * (point["vector_unroll"] % machine.pad.count == 0 ? 1 : other_pads);
    const double sums = cost.sums * (point["grouped"] != 0 ? group_wait : sum_step * steps);
    const double row = steps * packets * step + lanes_of_row + sums + (point["rows"] > 1 ? row_in_block : 0) +
                       static_cast<double>(machine.vec.ii) * cost.row_operations;
    return rows * row +
           miss * std::max(0.0, rows * (code_of_row + cost.row_packets + code_of_vector * packets * unrolled) - cached_packets);
}

// Rows whose passes are one loop, side by side: what their lanes take, or the array, through which a row is under way for
// longer than the loop's interval should be (not where parts of them are weights), and what is between two turns, which is more
// than loops of many vectors leave the instruction cache; or their transfers, which one bank group of the DRAM serves where
// they lie in one page. All rows: the last pass is turns behind.
double skewed_rows_draft(const RowShape &shape, const Machine &machine, const Point &point, const RowCost &cost, double unit) {
    constexpr double array_interval = 51, wait_share = 1.1, turn_end = 110, engine_start = 135, hidden = 0.0125,
                     most_vectors = 16, miss = 40, two_passes_behind = 2, element_bytes = 2, row_operation = 1.4,
                     part_wait_share = 1.2, end_of_parts = 250;
    const auto rows = static_cast<double>(point["row_unroll"]), unrolled = rows * static_cast<double>(point["vector_unroll"]),
               vectors = rows * static_cast<double>(shape.vectors());
    const double loop = point["grouped"] != 0 ? vectors * unit * part_wait_share + end_of_parts
                                              : vectors * std::max(unit, array_interval / unrolled) * wait_share + turn_end +
                                                    std::max(0.0, unrolled - most_vectors) * miss;
    const double compute = loop + rows * row_operation * static_cast<double>(machine.vec.ii) * cost.row_operations;
    const double bytes = element_bytes * rows * static_cast<double>(shape.length),
                 one_page = static_cast<double>(machine.dram.row_bytes);
    const double moved = (1 + static_cast<double>(cost.row_tensors)) *
                         (bytes / (static_cast<double>(machine.sdma.beat) / (bytes <= one_page ? 2 : 1)) +
                          std::max(0.0, engine_start - hidden * bytes));
    return (static_cast<double>(shape.rows) / rows + two_passes_behind * (cost.passes - 1)) * std::max(compute, moved);
}

// Rows whose numbers are beside each other, in passes over as many: what a row and its vectors take, latencies that rows in
// straight-line code share, and the lanes that make the numbers. A block that begins earlier is as long as the others.
double rows_beside_draft(const RowShape &shape, const Point &point) {
    constexpr double of_row = 14, waits = 85, of_lanes = 400, of_reduction = 20;
    constexpr int64_t resident_vectors = 32;
    // All passes are loops over rows, or the last one is code of all of them.
    const bool loops = numbers_spread(shape, point);
    const double of_vector = loops ? 18 : 15, miss = loops ? 5 : 20;
    const int64_t rows = std::min(point["rows"], shape.rows), unrolled = point["row_unroll"];
    const auto vectors = static_cast<double>(shape.vectors());
    double row = of_row + of_vector * vectors + waits / static_cast<double>(unrolled) +
                 of_lanes / static_cast<double>(rows_beside(shape, point));
    if (point["reduced"] != 0) row += of_reduction * (vectors - 1);
    if (unrolled * shape.vectors() > resident_vectors) row += miss * vectors;
    return static_cast<double>(ceil_div(shape.rows, rows) * rows) * row;
}

}  // namespace

double row_draft(const RowShape &shape, const Machine &machine, const Point &point, const RowCost &cost) {
    // Vectors of which each pass takes a part at a time, which the one before brings.
    if (shape.part > 0)
        return static_cast<double>(shape.rows * shape.vectors()) *
               (operations(cost) + packets_of_vector(cost) / static_cast<double>(point["vector_unroll"]));
    const auto rows = static_cast<double>(shape.rows), vectors = static_cast<double>(shape.vectors());
    const auto unrolled_rows = static_cast<double>(point["row_unroll"]), unrolled = static_cast<double>(point["vector_unroll"]);
    // The weights of the array are 32 loads; a reduction holds its unit for as long as it takes.
    const double reductions =
        point["reduced"] != 0 ? static_cast<double>(machine.vec.reduce_ii) * cost.sums * vectors * unrolled_rows : 0;
    // The array takes 32 weights, a row and the gap before the next weights; the scalar unit adds the vectors' sums one after
    // the other.
    const double part_sums =
        cost.sums * (point["grouped"] != 0 ? shape.parts() * (32.0 + static_cast<double>(machine.sa.switch_spacing))
                                           : vectors * static_cast<double>(machine.ex3.ii));
    constexpr double start = 900;
    if (is_skewed(point))
        return start + skewed_rows_draft(shape, machine, point, cost,
                                         static_cast<double>(machine.vec.ii) *
                                             std::max({cost.adds - cost.waiting_adds, cost.muls, cost.exps}));
    const double own_numbers = is_beside(point) ? static_cast<double>(rows_beside(shape, point)) : 1;
    if (!machine.timed())
        return rows * (vectors * operations(cost) / 3 + cost.row_packets / own_numbers) +
               rows / static_cast<double>(point["rows"]) * 10 + rows / unrolled_rows * 4 + (point["reduced"] != 0 ? 0 : 40);
    const double unit = static_cast<double>(machine.vec.ii) * std::max({cost.adds, cost.muls, cost.exps});
    const bool overlaps = rows_overlap(shape, machine, point, cost, unit);
    // Weights of the array take fewer packets than rows whose sums the scalar unit adds.
    const double packets =
        unrolled_rows *
        (cost.row_packets + unrolled * (packets_of_vector(cost) - (point["grouped"] != 0 ? 0.5 * cost.sums : 0)));
    constexpr double block_cost = 300, bytes_per_cycle = 24, miss = 5, group_wait = 65, through_pads = 1.05, sum_latency = 8;
    constexpr double not_hidden = 0.2;  // of the latency, where rows overlap
    double iteration = 0;
    if (unrolled >= vectors) {
        // Sums of single vectors follow each other.
        const double latency =
            cost.latency + (point["stored"] == 0 && point["grouped"] == 0 ? cost.sums * sum_latency * vectors : 0);
        iteration = latency * (overlaps ? not_hidden : 1) +
                    unrolled_rows * (vectors * unit + static_cast<double>(machine.vec.ii) * cost.row_operations);
        if (point["grouped"] != 0) iteration += group_wait * cost.sums;
        if (point["stored"] != 0) iteration *= through_pads;
        // Code that leaves the instruction cache is fetched anew each time.
        iteration = std::max({iteration, reductions, part_sums * unrolled_rows}) +
                    (packets > most_packets ? miss * (packets - resident_packets) : 0);
    } else {
        iteration = std::max({looped_rows_draft(shape, machine, point, cost, unit), reductions, part_sums * unrolled_rows});
    }
    const double blocks = rows / static_cast<double>(std::min(point["rows"], shape.rows));
    // Stages of iterations that overlap run idle at both ends of a block.
    const double idle = !overlaps ? 0 : point["stored"] != 0 ? 4 : 2;
    const double compute = is_beside(point) ? rows_beside_draft(shape, point) + blocks * block_cost
                                            : (rows / unrolled_rows + blocks * idle) * iteration +
                                                  (unrolled >= vectors ? blocks * block_cost : 0),
                 bytes = 2 * rows * static_cast<double>(shape.length);
    const double moved = static_cast<double>(1 + cost.row_tensors) * bytes,
                 parts = static_cast<double>(parts_of_columns(shape, machine, point)),
                 first = rows_stream(shape, machine, point) ? 0 : moved / blocks / parts / bytes_per_cycle;
    return start + first + std::max(compute, moved / bytes_per_cycle);
}

std::string row_words(const RowShape &shape, const Point &point) {
    if (shape.part > 0)
        return fmt::format("parts of {} vectors of a row, again for each pass; {} vectors at a time", shape.part,
                           point["vector_unroll"]);
    std::string text = point["rows"] >= shape.rows ? fmt::format("all {} rows in one block", shape.rows)
                                                   : fmt::format("blocks of {} rows", point["rows"]);
    text += point["row_unroll"] > 1 ? fmt::format(", {} in straight-line code", point["row_unroll"]) : "";
    text += point["reduced"] != 0 ? ", sums by the reduction unit" : "";
    text += point["grouped"] != 0 ? ", summed as weights of the array" : "";
    text += is_beside(point) ? ", their numbers beside each other" : "";
    if (is_skewed(point)) return text + fmt::format("; {} vectors at a time, all passes in one loop", point["vector_unroll"]);
    return text + (point["vector_unroll"] < shape.vectors() ? fmt::format("; {} vectors at a time", point["vector_unroll"])
                   : point["stored"] != 0                   ? "; steps in the pads"
                                                            : "; steps in registers");
}

}  // namespace atalla
