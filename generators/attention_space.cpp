// The schedules of attention on machines whose pads hold scores, and what they are expected to take.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>

#include "generators/attention_forms.h"
#include "isa/vectors.h"

namespace atalla {

namespace {

// Of a block of queries, which one load of keys and values serves.
constexpr int64_t largest_block = 64;

bool divides(int64_t a, int64_t b) { return b % a == 0; }

// Rows in the pads for the queries between which scores stay.
int64_t stored_rows(const AttentionShape &shape, const Machine &machine, const Point &point) {
    return ceil_div(shape.block_rows(point), machine.pad.count) * machine.pad.count * shape.blocks_together(point);
}

// Rows of all pads together that the buffers of a point take.
int64_t pad_rows(const AttentionShape &shape, const Machine &machine, const Point &point) {
    const int64_t round = machine.pad.count, rows = shape.block_rows(point), together = shape.blocks_together(point),
                  stored = stored_rows(shape, machine, point);
    const int64_t key_tiles = shape.tiles_together(), depth_tiles = tiles_of(shape.depth),
                  width_tiles = shape.width_tiles(point);
    const bool by_blocks = shape.key_blocks() > 1;
    const int64_t slots =
        machine.timed() && shape.comes_by_blocks(rows, together) ? 2 : 1;  // of queries and results, which come and go
    const int64_t heads = point["heads"], key_heads = shape.batch.empty() || shape.batch.back().keys ? heads : 1;
    const bool come = shape.comes_by_heads(machine, heads);  // two slots then, of queries too
    const int64_t two_blocks = 2 * stored / together;
    const int64_t q_slots = !come ? heads * slots : 2, kv_slots = come || by_blocks ? 2 : key_heads;
    // All queries of a head, by tiles of keys: values come a tile at a time where they are whole, sums are divided as they are
    // made and leave a column of a block at a time.
    const bool by_tiles = AttentionShape::streamed(point) > 0 && !shape.whole_rows();
    const int64_t value_tiles =
        shape.values_by_tiles(machine, heads, AttentionShape::streamed(point)) ? 2 : kv_slots * key_tiles;
    int64_t sum =
        lanes * (key_tiles * (kv_slots * depth_tiles + key_heads * width_tiles) + value_tiles * tiles_of(shape.width)) + lanes;
    sum += (shape.queries_pass(machine, rows, together, heads) ? two_blocks : stored * q_slots) * depth_tiles +
           stored * heads *
               ((shape.weights_over_scores(AttentionShape::streamed(point)) ? 1 : 2) * key_tiles + (by_tiles ? 1
                                                                                                    : shape.whole_rows()
                                                                                                        ? 0
                                                                                                        : width_tiles));
    // The sums of p, each of a tile in a round of the pads, and over all tiles.
    if (const int64_t summed = AttentionShape::summed(point); summed > 0 && AttentionShape::streamed(point) == 0)
        sum += rows / summed * together * heads * (round * key_tiles + 1);
    sum += by_tiles && shape.width % lanes == 0 ? two_blocks
                                                : (shape.results_pass(machine, rows, together, heads)
                                                       ? two_blocks
                                                       : stored * (shape.leaves_by_heads(machine, heads) ? 2 : heads * slots)) *
                                                      tiles_of(shape.width);
    // The largest scores for a block of keys; the sums and largest scores for all before.
    if (by_blocks) sum += stored * (width_tiles + 2);
    if (shape.whole_rows() && AttentionShape::streamed(point) == 0 && AttentionShape::waits_in_pads(point))
        sum += AttentionShape::idle_iterations * point["softmax_unroll"] * key_tiles * together * heads;
    // The largest scores of all tiles but a row's own, and of all; p of its own tile, twice; the sums of p; less of keys, which
    // come by tiles. Of whole rows sums over some of the depth, and what a few iterations more store.
    if (AttentionShape::streamed(point) > 0)
        sum += shape.whole_rows()
                   ? (depth_tiles - 1) * stored + AttentionShape::idle_iterations * point["softmax_unroll"] * key_tiles * heads
                   : 5 * stored + shape.spare_rows(rows) * (2 * key_tiles + 3);
    if (shape.mask) sum += (shape.masks_by_heads(machine, heads) ? 2 : 1) * stored * key_tiles;
    // These are in one pad.
    if (shape.causal)
        sum += round * (!shape.skips_hidden(rows) ? shape.queries + lanes * key_tiles
                        : shape.whole_rows()      ? lanes * (key_tiles + 1)
                                                  : lanes);
    return sum + round;
}
// What the softmax takes a few rows at a time lies in as few pads: scores, which weights take the place of. All else goes round
// all pads.
bool fits(const AttentionShape &shape, const Machine &machine, const Point &point) {
    const int64_t round = machine.pad.count, all = pad_rows(shape, machine, point);
    const bool few_pads = shape.weights_over_scores(AttentionShape::streamed(point)) && point.contains("softmax_unroll");
    const int64_t pads = few_pads ? std::gcd(point["softmax_unroll"], round) : round,
                  scores = stored_rows(shape, machine, point) * point["heads"] * shape.tiles_together();
    return ceil_div(scores, pads) + ceil_div(all - scores, round) <= machine.pad_rows() * 15 / 16;
}

// The naive point's, of a block of so many rows.
int64_t naive_softmax_unroll(int64_t block) { return block % 4 == 0 ? 4 : 1; }

// Cycles of the softmax of a block of so many rows: by tiles, each step takes at least its latency. Whole rows overlap the next
// ones where few values are under way, as far as these may live, or where weights wait in the pads; others run one group after
// the other.
double softmax_of_block(const AttentionShape &shape, double rows, double tiles, double share, double group, bool waits) {
    constexpr double lanes_pace = 3.3, latency = 26, ends = 130, quotient = 20;
    if (!shape.whole_rows())
        return tiles * share * (rows * std::max(2 * lanes_pace, 2 * latency / group) + 12 * group / tiles) +
               rows / group * ends + quotient * rows;
    constexpr double most_under_way = 16, row_latency = 210, least_interval = 60, life = 17, quotient_of_whole = 5;
    const double lane_cycles = group * lanes_pace * (3 * tiles - 2);
    if (waits) {
        // One row alone crowds its pad. Of many vectors a loop with code in front of it and behind it leaves the instruction
        // cache, if it has that: where each block has its own, stages run idle.
        constexpr double reads_again = 12, least_waiting = 88, alone = 1.7, most_in_cache = 12, leaves_cache = 1600;
        const double pace = std::max(lane_cycles + reads_again * group, least_waiting) * (group < 2 ? alone : 1);
        return (rows / group + AttentionShape::idle_iterations) * pace +
               (group * tiles > most_in_cache && share == 1 ? leaves_cache : 0) + quotient_of_whole * rows;
    }
    const bool overlaps = group > 1 && group * tiles <= most_under_way;
    constexpr double of_mask = 30;  // rows that see no key are told apart
    const double longest_life = least_interval + life * tiles + (shape.mask ? of_mask : 0);
    const double interval = overlaps ? std::max(lane_cycles, longest_life) : row_latency + lane_cycles;
    return (rows / group + (overlaps ? 1 : 0)) * interval + quotient_of_whole * rows;
}

// Cycles of the scores and the softmax of a head whose whole rows stream: the array keeps a loop's row for so long, and loads
// of weights and the ends of the loops stand between. The softmax fills and drains once for all rows, by code of its own that
// leaves the instruction cache where pads are full. More than a few rows at a time crowd the registers, and one alone its pad.
double streamed_whole_rows(const AttentionShape &shape, const Machine &machine, const Point &point) {
    constexpr double life_of_row = 50, loads_and_ends = 210, lanes_pace = 3.15, fills = 900, fills_by_code = 2200,
                     most_under_way = 16, alone = 1.3, crowded = 1.5;
    const auto rows = static_cast<double>(shape.block_rows(point) * shape.blocks_together(point)),
               tiles = static_cast<double>(tiles_of(shape.keys));
    const auto passing = static_cast<double>(shape.passing_rows(machine, point)),
               group = static_cast<double>(point["softmax_unroll"]);
    const double first = rows / passing * std::max(life_of_row, passing),
                 last = std::max(rows * lanes_pace, rows / passing * life_of_row);
    const double scores =
        tiles * (static_cast<double>(tiles_of(shape.depth) - 1) * (first + loads_and_ends) + last + loads_and_ends);
    const double pace = 3 * lanes_pace * tiles * (group < 2 ? alone : group * tiles > most_under_way ? crowded : 1);
    // Iterations take turns in the rows of their weights where the pads have three quarters of their rows for all.
    const double waiting = static_cast<double>(pad_rows(shape, machine, point)) + rows * (tiles + 1),
                 room = 0.75 * static_cast<double>(machine.pad.count * machine.pad_rows());
    return scores + rows * pace + (waiting <= room ? fills : fills_by_code);
}

}  // namespace

AttentionShape AttentionShape::on(const Machine &machine) const {
    AttentionShape shape = *this;
    // As many as leave room for the largest block of queries.
    const int64_t block = std::min(largest_block, queries);
    Point point = {{"rows", block},
                   {"row_unroll", block},
                   {"softmax_unroll", naive_softmax_unroll(std::min<int64_t>(queries, lanes))},
                   {"heads", 1}};
    if (shape.key_tiles > 0 || !takes_key_blocks() || fits(shape, machine, point)) return shape;
    for (shape.key_tiles = 16; shape.key_tiles > 2; shape.key_tiles /= 2) {
        if (causal) point.set("rows", shape.key_tiles * lanes);
        if (tiles_of(keys) % shape.key_tiles != 1 && fits(shape, machine, point)) break;
    }
    return shape;
}

// Of the shape as it is computed on the machine.
static Space space_of(const AttentionShape &shape, const Machine &machine) {
    std::set<int64_t> rows, row_unrolls, softmax_unrolls, heads;
    // Of the largest blocks also as many that leave few rows of the last one empty, in whole groups of two and of four.
    const int64_t least = ceil_div(shape.queries, ceil_div(shape.queries, largest_block));
    const int64_t in_fours = round_up<int64_t, int64_t>(least, 4);
    for (int64_t unroll : {int64_t{8}, int64_t{16}, int64_t{32}, ceil_div(least, 2) * 2, in_fours, largest_block}) {
        const int64_t block = unroll == in_fours ? unroll : std::min(unroll, shape.queries),
                      blocks = ceil_div(shape.queries, block);
        row_unrolls.insert(block);
        for (int64_t together = 1; together <= blocks && together * block <= 1024; together++)
            if (divides(together, blocks)) rows.insert(together * block);
        for (int64_t together = 2; shape.key_blocks() > 1 && together < blocks && together * block <= 1024; together *= 2)
            rows.insert(together * block);
        for (int64_t group : {1, 2, 4, 8, 16})
            if (divides(group, block)) softmax_unrolls.insert(group);
    }
    if (shape.key_blocks() > 1 && shape.causal) rows = {shape.key_tiles * lanes};
    constexpr int64_t most_heads = 64;
    for (int64_t together = 1; together <= most_heads; together++)
        if (together == 1 || (!shape.batch.empty() && divides(together, shape.batch.back().extent))) heads.insert(together);
    Space space;
    space.parameter("rows", "queries whose scores are in the pads together", {rows.rbegin(), rows.rend()})
        .parameter("row_unroll", "queries of a block, which one load of the keys and values serves",
                   {row_unrolls.rbegin(), row_unrolls.rend()})
        .parameter("softmax_unroll", "queries whose softmax is straight-line code",
                   {softmax_unrolls.begin(), softmax_unrolls.end()})
        .parameter("weight_unroll", "weight vectors of the values that are loaded in straight-line code when these are turned",
                   {4, 8, 16, lanes})
        .parameter("heads", "heads that go through each step together, so that its code is fetched once",
                   {heads.begin(), heads.end()});
    if (shape.may_stream(machine)) {
        space.parameter(
            "stream", "queries in straight-line code where all of a head go through each step together; 0: those of a block do",
            shape.whole_rows() ? std::vector<int64_t>{0, 16, lanes} : std::vector<int64_t>{0, 16});
        space.constraint("streams", {"rows", "row_unroll", "softmax_unroll", "heads", "stream"},
                         "All queries of one head stream, in whole tiles and blocks.", [shape, machine](const Point &point) {
                             const int64_t block = shape.block_rows(point);
                             const int64_t all = block * shape.blocks_together(point);
                             const bool seen = !shape.causal || (block % lanes == 0 && all == tiles_of(shape.keys) * lanes);
                             if (shape.whole_rows())
                                 return point["stream"] == 0 || (all >= shape.queries && seen && fits(shape, machine, point));
                             return point["stream"] == 0 ||
                                    (point["heads"] == 1 && block * shape.blocks_together(point) == shape.queries &&
                                     block % lanes == 0 && lanes % point["softmax_unroll"] == 0 &&
                                     fits(shape, machine, point) && (!shape.causal || shape.skips_hidden(block)));
                         });
    }
    if (shape.whole_rows()) {
        space.parameter("waiting",
                        "1: the weights of a row wait for its sum in the pads, as those that stream do; 0: in registers",
                        {0, 1});
        if (shape.may_stream(machine))
            space.constraint("waiting weights", {"stream", "waiting"}, "Weights of rows that stream wait in the pads anyway.",
                             [](const Point &point) { return point["stream"] == 0 || point["waiting"] == 0; });
    }
    if (shape.may_sum_groups(machine)) {
        // The largest scores of a group are found together: of what is straight-line code without groups one choice stands for
        // all. Groups are no larger than a block of few queries.
        const int64_t group = shape.queries > 8 ? 16 : shape.queries > 4 ? 8 : 4;
        space.parameter(
            "sum_unroll",
            "queries whose weights are summed by one row of the array; 0: by a column of ones behind those of the values",
            {0, group, lanes});
        std::vector<std::string> parameters = {"row_unroll", "softmax_unroll", "sum_unroll"};
        if (shape.may_stream(machine)) parameters.push_back("stream");
        space.constraint("summed groups", parameters, "Queries of a block are summed in whole groups.",
                         [shape, group](const Point &point) {
                             return point["sum_unroll"] == 0 ||
                                    (AttentionShape::streamed(point) == 0 &&
                                     divides(point["sum_unroll"], shape.block_rows(point)) && point["softmax_unroll"] == group);
                         });
    }
    if (shape.key_blocks() > 1) {
        // As many queries are together as keys, so that the mask hides part of one block of keys alone from them.
        if (shape.causal)
            space.constraint("seen tiles", {"row_unroll"}, "A block of queries sees whole tiles, two at least.",
                             [shape](const Point &point) { return shape.skips_hidden(shape.block_rows(point)); });
        space.constraint("whole blocks", {"rows", "row_unroll"}, "Whole blocks are together.",
                         [](const Point &point) { return divides(point["row_unroll"], point["rows"]); });
        space.constraint("one head", {"heads"}, "Keys come by blocks for one head after the other.",
                         [](const Point &point) { return point["heads"] == 1; });
    } else {
        space.constraint("blocks", {"rows", "row_unroll"}, "Whole blocks are together, as many each time.",
                         [queries = shape.queries](const Point &point) {
                             return divides(point["row_unroll"], point["rows"]) &&
                                    divides(point["rows"] / point["row_unroll"], ceil_div(queries, point["row_unroll"]));
                         });
    }
    space.constraint("unrolled softmax", {"row_unroll", "softmax_unroll"}, "Unrolling divides the rows of a block.",
                     [](const Point &point) { return divides(point["softmax_unroll"], point["row_unroll"]); });
    if (shape.whole_rows())
        space.constraint("straight rows", {"softmax_unroll"}, "Rows in straight-line code stay in the instruction cache.",
                         [tiles = tiles_of(shape.keys)](const Point &point) {
                             constexpr int64_t most_vectors = 32;  // of scores
                             return point["softmax_unroll"] * tiles <= most_vectors;
                         });
    if (shape.whole_rows() && shape.causal)
        space.constraint("blocks of their own", {"rows", "row_unroll"},
                         "Where each block has code of its own, for the tiles that it sees, all are together.",
                         [shape](const Point &point) {
                             return !shape.skips_hidden(shape.block_rows(point)) ||
                                    shape.blocks_together(point) == ceil_div(shape.queries, shape.block_rows(point));
                         });
    space.constraint("heads", {"rows", "row_unroll", "heads"}, "Heads are together where all of their queries are.",
                     [queries = shape.queries](const Point &point) {
                         return point["heads"] == 1 ||
                                point["rows"] / point["row_unroll"] == ceil_div(queries, point["row_unroll"]);
                     });
    std::vector<std::string> kept = {"rows", "row_unroll", "softmax_unroll", "heads"};
    if (shape.whole_rows()) kept.push_back("waiting");
    if (shape.may_sum_groups(machine)) kept.push_back("sum_unroll");
    space.constraint("pads", kept, "Keys and values of the heads and the scores of their queries fit the pads together.",
                     [shape, machine](const Point &point) { return fits(shape, machine, point); });
    return space;
}

static Point naive_point_of(const AttentionShape &shape, const Machine &machine) {
    if (shape.key_blocks() > 1 && shape.causal)
        return {{"rows", shape.key_tiles * lanes},
                {"row_unroll", largest_block},
                {"softmax_unroll", 4},
                {"weight_unroll", 4},
                {"heads", 1}};
    const auto of_block = [&shape](int64_t rows) {
        const int64_t block = std::min(shape.queries, rows),
                      blocks = shape.whole_rows() && shape.skips_hidden(block) ? ceil_div(shape.queries, block) : 1;
        return Point{{"rows", blocks * block},
                     {"row_unroll", block},
                     {"softmax_unroll", naive_softmax_unroll(block)},
                     {"weight_unroll", 4},
                     {"heads", 1}};
    };
    Point point = of_block(lanes);
    // Blocks that do not leave out hidden tiles have a mask for each distance from a tile.
    if (!shape.whole_rows() && !fits(shape, machine, point)) point = of_block(largest_block);
    if (shape.may_stream(machine)) point.set("stream", 0);
    if (shape.whole_rows()) point.set("waiting", 0);
    if (shape.may_sum_groups(machine)) point.set("sum_unroll", 0);
    return point;
}

static double draft_of(const AttentionShape &shape, const Machine &machine, const Point &point) {
    // A visit loads weights, waits for the array and goes through the rows of a block at the pace of the adder, in the
    // instruction cache or not. Blocks are loops whose ends overlap nothing. Code is fetched anew for each group of heads.
    constexpr double switching = 63, lanes_pace = 3.3, ends = 130, cold_head = 9000, cold_visit = 14, most_hidden_rows = 60;
    const auto unroll = static_cast<double>(shape.block_rows(point)), tiles = static_cast<double>(tiles_of(shape.keys)),
               group = static_cast<double>(point["softmax_unroll"]);
    const double blocks = std::ceil(static_cast<double>(shape.queries) / unroll),
                 together = static_cast<double>(shape.blocks_together(point));
    const bool skips = shape.skips_hidden(shape.block_rows(point));
    const double share = skips ? (1 + 1 / blocks) / 2 : 1;  // of the tiles
    const double products = static_cast<double>(tiles_of(shape.depth) + shape.width_tiles(point));
    const double visit = std::max(switching + unroll + 8, lanes_pace * unroll),
                 hides = shape.causal && !skips && unroll > most_hidden_rows ? cold_visit * unroll : 0;
    const double turn =
        tiles * static_cast<double>(tiles_of(shape.width)) * (160 + 40 * lanes / static_cast<double>(point["weight_unroll"]));
    // A group of weights that are summed at once waits for the array.
    constexpr double ends_of_group = 8;
    const auto summed = static_cast<double>(AttentionShape::summed(point));
    const double groups_end = summed > 0 ? unroll / summed * tiles * share * ends_of_group : 0;
    const double block = tiles * share * (products * visit + hides) + products * ends +
                         softmax_of_block(shape, unroll, tiles, share, group, AttentionShape::waits_in_pads(point)) +
                         groups_end;
    if (shape.key_blocks() > 1) {
        // Values are turned for each group of queries. Blocks of keys end loops, and join sums.
        constexpr double joined_row = 45, cold_block = 3000;
        const double groups = std::ceil(blocks / together), key_blocks = static_cast<double>(shape.key_blocks()) * share;
        return 4000 +
               static_cast<double>(shape.problems()) *
                   (groups * share * turn + blocks * block +
                    blocks * key_blocks * (unroll * joined_row + (products + 2) * ends) + groups * key_blocks * cold_block);
    }
    if (shape.whole_rows() && AttentionShape::streamed(point) > 0) {
        const double sums = blocks * static_cast<double>(shape.width_tiles(point)) * (tiles * visit + ends);
        return 4000 + static_cast<double>(shape.problems()) * (turn + streamed_whole_rows(shape, machine, point) + sums +
                                                               cold_head / static_cast<double>(point["heads"]));
    }
    const double cold_row = shape.whole_rows() ? 67 * tiles : 100;
    // Long loops, in which reductions run beside other work. Where a mask leaves out nothing those of a block are as long.
    constexpr double streamed = 0.85;
    const double of_blocks = blocks * block * (skips && AttentionShape::streamed(point) > 0 ? streamed : 1);
    return 4000 + static_cast<double>(shape.problems()) *
                      (turn + of_blocks +
                       (cold_head + blocks / together * (1500 + cold_row * group)) / static_cast<double>(point["heads"]));
}

const AttentionForm attention_in_pads = {
    [](const AttentionShape &, const Machine &machine) { return machine.timed(); },
    [](const AttentionShape &shape, const Machine &machine) { return space_of(shape.on(machine), machine); },
    [](const AttentionShape &shape, const Machine &machine) { return naive_point_of(shape.on(machine), machine); },
    [](const AttentionShape &shape, const Machine &machine, const Point &point) {
        return draft_of(shape.on(machine), machine, point);
    },
    [](const AttentionShape &shape, const Machine &machine, const Point &point) {
        return attention(shape.on(machine), machine, point);
    }};

}  // namespace atalla
