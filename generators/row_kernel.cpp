#include "generators/row_kernel.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "generators/pad_room.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// Vector registers that the values of unrolled rows may take, and straight-line code that the instruction cache holds.
constexpr double most_values = 160, most_packets = 365, resident_packets = 250;
constexpr int most_sides = 4;
constexpr int64_t most_rows = 128, most_unrolled_rows = 16, most_unrolled_vectors = 64;

int64_t ring_slots(const RowShape &shape, const Machine &machine, int64_t rows) {
    return machine.timed() && shape.rows > rows ? 2 : 1;
}

// Kernels that only have rows made for them do not skew.
bool is_skewed(const Point &point) { return point.contains("skewed") && point["skewed"] != 0; }

bool is_beside(const Point &point) { return point.contains("beside") && point["beside"] != 0; }

// Rows in straight-line code come from all pads where they can: each pad has neighbouring rows, and its transfers are in other
// pages of the DRAM than those of the next pad.
bool rows_apart(const RowShape &shape, const Machine &machine, const Point &point) {
    const int64_t block = point["rows"], rows = point["row_unroll"];
    return machine.timed() && !is_beside(point) && shape.rows % block == 0 && block > rows && rows % machine.pad.count == 0 &&
           shape.length % lanes == 0;
}

// Rows of a block that are beside each other: as many as have lanes and divide it, and the first row of a last one that begins
// earlier, in turns of those in straight-line code. 0: there are none.
int64_t rows_beside(const RowShape &shape, const Point &point) {
    const int64_t all = std::gcd(shape.rows, point["rows"]), unrolled = point["row_unroll"];
    int64_t rows = std::min<int64_t>(all, lanes) / unrolled * unrolled;
    while (rows > 0 && all % rows != 0) rows -= unrolled;
    return rows;
}

// All rows in the pads, those that are apart in turns of so many neighbours: those of two transfers, or of one. Every other pad
// then has tiles of the other bank group of the DRAM, wherever the tensor begins. 0: they are in the tensor's order.
int64_t neighbours_of(const RowShape &shape, const Machine &machine, const Point &point) {
    const int64_t pads = machine.pad.count, tile = machine.sdma.max_rows / shape.vectors();
    if (!rows_apart(shape, machine, point) || point["rows"] < shape.rows || point["vector_unroll"] < shape.vectors() ||
        tile * shape.vectors() != machine.sdma.max_rows)
        return 0;
    for (const int64_t together : {2 * tile, tile})
        if (together % (point["row_unroll"] / pads) == 0 && shape.rows % (pads * together) == 0) return together;
    return 0;
}

// Is all in the pads and one loop over rows, beside which it comes and goes?
bool streams(const RowShape &shape, const Machine &machine, const Point &point) {
    constexpr int64_t least_transfers = 4;
    if (!machine.timed() || is_beside(point) || point["rows"] < shape.rows || point["vector_unroll"] < shape.vectors() ||
        point["grouped"] != 0 || shape.length % lanes != 0)
        return false;
    if (shape.rows * shape.vectors() < least_transfers * machine.pad.count * machine.sdma.max_rows) return false;
    return rows_apart(shape, machine, point) ? neighbours_of(shape, machine, point) > 0
                                             : point["row_unroll"] * shape.vectors() % machine.pad.count == 0;
}

// Short rows that go round the pads, as many as fill all of them, have each vector in one pad anyway.
bool in_columns(const RowShape &shape, const Machine &machine) {
    return machine.timed() && shape.length % lanes != 0 && machine.pad.count % shape.vectors() != 0;
}

double operations(const RowCost &cost) { return cost.adds + cost.muls + cost.exps + 4 * cost.passes; }

}  // namespace

int64_t steps_in_pads(const RowShape &shape, const Point &point, const RowCost &cost) {
    const bool loops = point["vector_unroll"] < shape.vectors();
    if (!loops) return point["stored"] != 0 ? cost.steps_in_pads : 0;
    return cost.steps_in_pads - (point["grouped"] != 0 ? cost.light_steps : 0);
}

Space row_space(const RowShape &shape, const Machine &machine, const RowCost &cost) {
    const int64_t vectors = shape.vectors();
    std::vector<int64_t> rows, row_unrolls, vector_unrolls;
    for (int64_t block = 1; block < 2 * std::min(shape.rows, most_rows); block *= 2)
        rows.push_back(std::min(block, shape.rows));
    if (shape.rows > rows.back()) rows.push_back(shape.rows);
    for (int64_t unroll = 1; unroll <= std::min(shape.rows, most_unrolled_rows); unroll *= 2) row_unrolls.push_back(unroll);
    for (int64_t unroll = 1; unroll <= std::min(vectors, most_unrolled_vectors); unroll++)
        if (vectors % unroll == 0) vector_unrolls.push_back(unroll);
    const bool may_skew = cost.passes > 1 && shape.fills_array() && shape.length % lanes == 0 && machine.timed();
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
    const bool may_be_beside = cost.beside && shape.is_short() && shape.rows > 1;
    if (cost.beside) {
        space.parameter("beside", "what lanes make of a number of a row is made of many rows' at once",
                        may_be_beside ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0});
        constexpr int64_t least = 4;
        space.constraint(
            "beside", {"beside", "rows", "row_unroll", "vector_unroll"},
            "Rows that are beside each other are some, each of them in straight-line code.", [=](const Point &point) {
                return point["beside"] == 0 || (point["vector_unroll"] == vectors && rows_beside(shape, point) >= least);
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
                                 {ring_slots(shape, machine, block) * block * vectors, round || straight == block * vectors});
        // Rows that wait for later passes, and the tensors' own.
        const int64_t waiting = is_skewed(point) ? 2 * static_cast<int64_t>(cost.passes) : 1,
                      kept = is_skewed(point) ? cost.row_tensors : 0;
        uses.insert(uses.end(), static_cast<size_t>((steps_in_pads(shape, point, cost) + kept) * waiting * point["row_unroll"]),
                    {vectors, round});
        uses.insert(uses.end(), static_cast<size_t>(cost.fixed_rows), {vectors, round || unroll == vectors});
        if (is_beside(point)) uses.push_back({rows_beside(shape, point) * vectors, round});
        return fit_pads(machine, uses);
    });
    space.constraint("skewed", {"skewed", "rows", "row_unroll", "vector_unroll", "stored", "grouped"},
                     "Passes that become one loop take the rows of a block side by side, as many vectors of each part of them "
                     "at a time, and their sums are rows through the array.",
                     [=](const Point &point) {
                         const int64_t parts = tiles_of(vectors), unroll = point["vector_unroll"], block = point["rows"];
                         return !is_skewed(point) ||
                                (block == point["row_unroll"] && shape.rows % block == 0 && point["stored"] == 0 &&
                                 point["grouped"] == 0 && unroll < vectors && unroll % parts == 0 && vectors % unroll == 0);
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
// that are read beside it among it, and few iterations have to take as long as one row does. Those that end inside a vector are
// taken not to.
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
    return shape.length % lanes == 0 && straight * (cost.values + static_cast<double>(cost.fixed_rows)) <= most_under_way &&
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
// longer than the loop's interval should be, and what is between two turns, which is more than loops of many vectors leave the
// instruction cache; or their transfers, which one bank group of the DRAM serves where they lie in one page. All rows: the last
// pass is turns behind.
double skewed_rows_draft(const RowShape &shape, const Machine &machine, const Point &point, const RowCost &cost, double unit) {
    constexpr double array_interval = 51, wait_share = 1.1, turn_end = 110, engine_start = 135, hidden = 0.0125,
                     most_vectors = 16, miss = 40, two_passes_behind = 2, element_bytes = 2;
    const auto rows = static_cast<double>(point["row_unroll"]), unrolled = rows * static_cast<double>(point["vector_unroll"]),
               vectors = rows * static_cast<double>(shape.vectors());
    const double compute = vectors * std::max(unit, array_interval / unrolled) * wait_share + turn_end +
                           std::max(0.0, unrolled - most_vectors) * miss;
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
    constexpr double of_row = 14, of_vector = 15, waits = 85, of_lanes = 400, of_reduction = 20, miss = 20;
    constexpr int64_t resident_vectors = 32;
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
    const auto rows = static_cast<double>(shape.rows), vectors = static_cast<double>(shape.vectors());
    const auto unrolled_rows = static_cast<double>(point["row_unroll"]), unrolled = static_cast<double>(point["vector_unroll"]);
    // The weights of the array are 32 loads; a reduction holds its unit for as long as it takes.
    const double reductions =
        point["reduced"] != 0 ? static_cast<double>(machine.vec.reduce_ii) * cost.sums * vectors * unrolled_rows : 0;
    // The array takes 32 weights, a row and the gap before the next weights; the scalar unit adds the vectors' sums one after
    // the other.
    const double part_sums =
        cost.sums * (point["grouped"] != 0 ? tiles_of(shape.vectors()) * (32.0 + static_cast<double>(machine.sa.switch_spacing))
                                           : vectors * static_cast<double>(machine.ex3.ii));
    constexpr double start = 900;
    if (is_skewed(point))
        return start + skewed_rows_draft(shape, machine, point, cost,
                                         static_cast<double>(machine.vec.ii) * std::max({cost.adds, cost.muls, cost.exps}));
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
                 first = streams(shape, machine, point) ? 0 : moved / blocks / bytes_per_cycle;
    return start + first + std::max(compute, moved / bytes_per_cycle);
}

std::string row_words(const RowShape &shape, const Point &point) {
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

RowKernel::RowKernel(const RowShape &shape, const Machine &machine, const Point &point, std::string name, std::string prefix)
    : machine_(machine),
      rows_(static_cast<int>(shape.rows)),
      length_(static_cast<int>(shape.length)),
      vectors_(static_cast<int>(shape.vectors())),
      block_(static_cast<int>(std::min(point["rows"], shape.rows))),
      row_unroll_(static_cast<int>(point["row_unroll"])),
      vector_unroll_(static_cast<int>(point["vector_unroll"])),
      reduced_(point["reduced"] != 0),
      stored_(point["stored"] != 0),
      grouped_(point["grouped"] != 0),
      skewed_(is_skewed(point)),
      apart_(rows_apart(shape, machine, point)),
      streams_(point.contains("skewed") && streams(shape, machine, point)),
      columns_(!is_beside(point) && in_columns(shape, machine)),
      beside_(is_beside(point) ? static_cast<int>(rows_beside(shape, point)) : 0),
      neighbours_(streams_ ? static_cast<int>(neighbours_of(shape, machine, point)) : 0),
      parts_(shape.fills_array() ? static_cast<int>(tiles_of(shape.vectors())) : 0),
      prefix_(std::move(prefix)),
      out_(std::move(name)) {
    ones_(k_, w_) = bf16(1.0f);
}

Expr RowKernel::row_of_tensor(const Expr &row) const {
    const int pads = static_cast<int>(machine_.pad.count), together = neighbours_;
    if (together == 0) return row;
    const int of_pad = rows_ / pads;
    return (row % of_pad / together * pads + row / of_pad) * together + row % together;
}

Expr RowKernel::row_in_pads(const Expr &row) const {
    const int pads = static_cast<int>(machine_.pad.count), together = neighbours_;
    if (together == 0) return row;
    return row / together % pads * (rows_ / pads) + row / (pads * together) * together + row % together;
}

Func RowKernel::by_element(const std::string &name, const Func &columns) const {
    Func elements(name);
    elements(n, m) = columns(n % lanes, m, n / lanes);
    return elements;
}

Func RowKernel::rows_of(const std::string &name, std::optional<float> beyond) {
    if (columns_) {
        Input input{tensor(prefix_ + name, {length_, rows_}), Func(prefix_ + name + "_columns")};
        const Expr at = v_ * lanes + k_;
        if (beyond) input.rows(k_, m, v_) = bf16(*beyond);
        input.rows(k_, m, v_) = select(at < length_, input.param(min(at, length_ - 1), m), undef<BFloat>());
        inputs_.push_back(input);
        return by_element(prefix_ + name + "_rows", input.rows);
    }
    Input input{tensor(prefix_ + name, {length_, rows_}), Func(prefix_ + name + "_rows")};
    if (length_ % lanes == 0) {
        input.rows(n, m) = input.param(n, row_of_tensor(m));
    } else {
        if (beyond) input.rows(n, m) = bf16(*beyond);
        input.rows(n, m) = select(n < length_, input.param(min(n, length_ - 1), m), undef<BFloat>());
    }
    inputs_.push_back(input);
    return input.rows;
}

Func RowKernel::row_of(const std::string &name) {
    Input input{tensor(prefix_ + name, {length_}), Func(prefix_ + name + "_row"), true};
    input.rows(n) =
        length_ % lanes == 0 ? Expr(input.param(n)) : select(n < length_, input.param(min(n, length_ - 1)), undef<BFloat>());
    inputs_.push_back(input);
    return input.rows;
}

void RowKernel::each(Func step) { each_.push_back(std::move(step)); }
void RowKernel::each_light(Func step) {
    if (!makes_again()) each(std::move(step));
}
void RowKernel::single(Func step) { single_.push_back(std::move(step)); }
void RowKernel::each_before(Func step) {
    if (beside_ > 0) before_.push_back(std::move(step));
}

Expr RowKernel::in_lanes(const std::string &name, Func number, const std::function<Expr(const Expr &)> &made) {
    numbers_ = Func(name + "_numbers");
    made_ = Func(name);
    const Var l("l"), b("b");
    if (beside_ == 0) {
        numbers_(l, m) = bf16(number(m));
        made_(l, m) = made(numbers_(l, m));
        lanes_of(numbers_, l);
        lanes_of(made_, l);
        return made_(n % lanes, m);
    }
    rows_beside_ = RDom(0, beside_, name + "_rows");
    numbers_(l, b) = bf16(1.0f);
    numbers_(l, b) = select(l == rows_beside_, bf16(number(b * beside_ + rows_beside_)), numbers_(l, b));
    made_(l, b) = made(numbers_(l, b));
    return made_(m % beside_, m / beside_);
}
void RowKernel::lanes_of(Func step, Var lane) { lanes_.emplace_back(std::move(step), std::move(lane)); }

// 32 vectors (or fewer, and zeros) are the weights of the array, through which one row of ones goes: lane w is the sum of
// vector w.
Func RowKernel::grouped_sum(const std::string &name, Func values) {
    const int tiles = tiles_of(vectors_), members = vectors_ / tiles;
    Sum s{Func(name + "_part"),
          Func(name + "_block"),
          Func(name),
          Var("l"),
          RDom(0, lanes, name + "_q"),
          RDom(0, tiles, name + "_r"),
          Func(name + "_weights"),
          Func(name + "_group"),
          RDom(0, lanes, name + "_g")};
    const Var t("t");
    const Expr vector = t * members + (members == lanes ? Expr(w_) : min(w_, members - 1)),
               element = values(vector * lanes + k_, m);
    s.weights(k_, w_, m, t) = members == lanes ? element : select(w_ < members, element, bf16(0.0f));
    s.part(s.lane, m, t) = 0.0f;
    s.part(s.lane, m, t) += f32(s.weights(s.depth, s.lane, m, t));
    s.block(s.lane, m, t) = bf16(s.part(s.lane, m, t));
    s.group(m, t) = 0.0f;
    s.group(m, t) += f32(s.block(s.members, m, t));
    s.total(m) = -0.0f;
    s.total(m) = strict_float(s.total(m) + f32(bf16(s.group(m, s.blocks))));
    sums_.push_back(s);
    return s.total;
}

Func RowKernel::sum(const std::string &name, Func values) {
    if (grouped_) return grouped_sum(name, values);
    Sum s{Func(name + "_part"),
          Func(name + "_block"),
          Func(name),
          Var("l"),
          RDom(0, lanes, name + "_q"),
          RDom(0, vectors_, name + "_r"),
          {},
          {},
          {}};
    Var b("b");
    const Expr value = f32(values(b * lanes + s.depth, m));
    s.total(m) = -0.0f;
    if (parts_ > 0) {
        // As grouped_sum(), with the vectors of a part one after the other.
        s.blocks = RDom(0, parts_, name + "_r");
        s.members = RDom(0, vectors_ / parts_, name + "_g");
        s.group = Func(name + "_group");
        const Var t("t");
        s.part(s.lane, m, b) = 0.0f;
        s.part(s.lane, m, b) += value * f32(ones_(s.depth, s.lane));
        s.block(s.lane, m, b) = bf16(s.part(s.lane, m, b));
        s.group(m, t) = 0.0f;
        s.group(m, t) = strict_float(s.group(m, t) + f32(s.block(0, m, t * (vectors_ / parts_) + s.members)));
        s.total(m) = strict_float(s.total(m) + f32(bf16(s.group(m, s.blocks))));
    } else if (reduced_) {
        s.part(m, b) = 0.0f;
        s.part(m, b) += value;
        s.block(m, b) = bf16(s.part(m, b));
        s.total(m) = strict_float(s.total(m) + f32(s.block(m, s.blocks)));
    } else {
        s.part(s.lane, m, b) = 0.0f;
        s.part(s.lane, m, b) += value * f32(ones_(s.depth, s.lane));
        s.block(s.lane, m, b) = bf16(s.part(s.lane, m, b));
        s.total(m) = strict_float(s.total(m) + f32(s.block(0, m, s.blocks)));
    }
    sums_.push_back(s);
    return s.total;
}

Func RowKernel::largest(const std::string &name, Func values) {
    // Running maxima side by side: one alone would wait for itself.
    const int most = skewed_                      ? std::gcd(most_sides, vector_unroll_ / parts_)
                     : unrolled()                 ? std::min(most_sides, (vectors_ + 1) / 2)
                     : vectors_ % most_sides == 0 ? most_sides
                                                  : 1;
    const int sides = std::max(1, most), steps = (vectors_ + sides - 1) / sides, first = skewed_ ? 0 : 1;
    Extremum x{Func(name + "_lanes"),
               Func(name),
               Var("l"),
               Var("side"),
               steps > first ? RDom(first, steps - first, name + "_r") : RDom(),
               RDom(0, lanes, name + "_q"),
               sides};
    const int at_once = skewed_ ? vector_unroll_ / parts_ / sides : 0;
    if (skewed_) x.rest = RDom({{0, at_once}, {0, parts_}, {0, vectors_ / vector_unroll_}}, name + "_alike");
    // A pass that is one loop with others takes all vectors of the row as they do.
    x.lanes(x.lane, x.side, m) = skewed_ ? bf16(-infinity) : values(x.side * lanes + x.lane, m);
    if (steps > first) {
        // The last vector once more where there are too few.
        const Expr step = skewed_ ? x.rest.y * (steps / parts_) + x.rest.z * at_once + x.rest.x : Expr(x.rest);
        const Expr at = step * sides + x.side, vector = vectors_ % sides == 0 ? at : min(at, vectors_ - 1);
        x.lanes(x.lane, x.side, m) = strict_float(max(values(vector * lanes + x.lane, m), x.lanes(x.lane, x.side, m)));
    }
    std::vector<Expr> all;
    for (int side = 0; side < sides; side++) all.push_back(x.lanes(x.all, side, m));
    while (all.size() > 1) {
        const size_t half = (all.size() + 1) / 2;
        for (size_t i = 0; i < all.size() / 2; i++) all[i] = strict_float(max(all[half + i], all[i]));
        all.resize(half);
    }
    // In float32: Halide's JIT has no maximum of bf16 lanes.
    x.value(m) = -infinity;
    x.value(m) = max(x.value(m), f32(all[0]));
    extrema_.push_back(x);
    return x.value;
}

// Sums of single vectors through the array, on the way to those of parts.
void RowKernel::schedule_parts(Sum &s, const LoopLevel &at) {
    s.block.compute_at(at).bound_extent(s.lane, lanes).vectorize(s.lane, lanes);
    s.part.compute_at(at)
        .vectorize(s.lane, lanes)
        .update()
        .reorder(s.depth, s.lane)
        .atomic()
        .vectorize(s.lane, lanes)
        .vectorize(s.depth, lanes);
    in_registers({s.part, s.block, s.group, s.total});
}

void RowKernel::schedule_sum(Sum &s, const LoopLevel &row) {
    s.total.compute_at(row);
    if (parts_ > 0 && !grouped_) {
        const int members = vectors_ / parts_, unroll = std::gcd(vector_unroll_, members);
        if (skewed_) {
            // Vectors of all parts in turn: their sums are done when the pass is.
            const RVar go("go"), gu("g_unroll");
            s.group.compute_at(row)
                .update()
                .split(s.members, go, gu, vector_unroll_ / parts_)
                .reorder({gu, s.group.args()[1], m, go});
            schedule_parts(s, LoopLevel(s.group, gu));
            return;
        }
        const LoopLevel part(s.total, unrolled() ? RVar("r_unroll") : s.blocks);
        if (unrolled()) s.total.update().split(s.blocks, RVar("ro"), RVar("r_unroll"), parts_);
        s.group.compute_at(part);
        s.group.update().split(s.members, RVar("go"), RVar("g_unroll"), unroll);
        schedule_parts(s, LoopLevel(s.group, RVar("g_unroll")));
        return;
    }
    // Parts of a row that are weights: straight-line code where the row is.
    const int unroll = !grouped_ ? std::min(vector_unroll_, vectors_) : unrolled() ? tiles_of(vectors_) : 1;
    const RVar ro("ro"), ru("r_unroll");
    if (unroll > 1) s.total.update().split(s.blocks, ro, ru, unroll);
    const LoopLevel at = unroll > 1 ? LoopLevel(s.total, ru) : LoopLevel(s.total, s.blocks);
    s.block.compute_at(at);
    s.part.compute_at(at);
    if (reduced_) {
        s.part.update().atomic().vectorize(s.depth, lanes);
    } else {
        s.block.bound_extent(s.lane, lanes).vectorize(s.lane, lanes);
        s.part.vectorize(s.lane, lanes)
            .update()
            .reorder(s.depth, s.lane)
            .atomic()
            .vectorize(s.lane, lanes)
            .vectorize(s.depth, lanes);
    }
    if (grouped_) {
        s.group.compute_at(at).update().atomic().vectorize(s.members, lanes);
        s.weights.compute_at(at)
            .bound_extent(k_, lanes)
            .bound_extent(w_, lanes)
            .split(w_, w_, Var("w_unroll"), lanes)
            .vectorize(k_);
        in_registers({s.weights, s.group});
    }
    in_registers({s.part, s.block, s.total});
}

// The rows of a block in the pads; two of them where others come, and transfers take time.
void RowKernel::hold_block(Func rows, Func consumer, const Var &block) {
    if (streams_) {
        rows.compute_root().bound(n, 0, padded()).bound(m, 0, rows_);
        return in_pads({rows});
    }
    rows.compute_at(consumer, block).bound_storage(m, block_);
    if (columns_)
        rows.bound_extent(k_, lanes).bound_extent(v_, vectors_).align_storage(v_, static_cast<int>(machine_.pad.count));
    else
        rows.bound_extent(n, padded());
    if (rows_ > block_ && machine_.timed()) rows.hoist_storage_root().ring_buffer(2);
    if (parts_go_round())
        rows.align_storage(
            n, lanes * vectors_ / parts_ * static_cast<int>(round_up<int64_t, int64_t>(parts_, machine_.pad.count)));
    in_pads({rows});
}

void RowKernel::schedule_inputs(Func consumer, const Var &block) {
    for (Input &input : inputs_) {
        if (input.one_row) {
            input.rows.compute_root().bound(n, 0, padded());
            in_pads({input.rows});
            continue;
        }
        hold_block(input.rows, consumer, block);
        if (const int together = neighbours_; together > 0)
            input.rows.split(m, Var("pad"), m, rows_ / static_cast<int>(machine_.pad.count)).split(m, Var("turn"), m, together);
        if (input.rows.num_update_definitions() > 0) input.rows.vectorize(columns_ ? k_ : n, lanes);
    }
}

// The vectors of a row: a loop, or straight-line code.
void RowKernel::over_vectors(Func step) {
    const Var no("no"), ni("ni"), part("part_unroll");
    step.split(n, no, ni, lanes).vectorize(ni);
    if (skewed_)
        step.split(no, part, no, vectors_ / parts_)
            .split(no, no, unrolled_vector_, vector_unroll_ / parts_)
            .split(m, m, unrolled_row_, block_)
            .reorder({ni, unrolled_vector_, part, unrolled_row_, no, m});
    else if (vector_unroll_ > 1)
        step.split(no, no, unrolled_vector_, std::min(vector_unroll_, vectors_));
}

// What is computed of a row, or of several side by side.
void RowKernel::schedule_steps(const LoopLevel &row) {
    for (Func step : each_) {
        step.compute_at(row);
        over_vectors(step);
        if (unrolled() && !stored_)
            in_registers({step});
        else
            in_pads({step});
    }
    for (Func step : single_) {
        step.compute_at(row);
        in_registers({step});
    }
    for (auto &[step, lane] : lanes_) {
        step.compute_at(row).vectorize(lane, lanes);
        in_registers({step});
    }
    for (Sum &s : sums_) schedule_sum(s, row);
    if (beside_ == 0) schedule_extrema(row);
    if (sums_with_ones()) {
        ones_.vectorize(k_, lanes).bound(k_, 0, lanes).bound(w_, 0, lanes);
        in_registers({ones_});
    }
}

void RowKernel::schedule_extrema(const LoopLevel &row) {
    for (Extremum &x : extrema_) {
        x.value.compute_at(row).update().atomic().vectorize(x.all, lanes);
        x.lanes.compute_at(row).bound_extent(x.lane, lanes).bound_extent(x.side, x.sides).vectorize(x.lane, lanes);
        if (x.lanes.num_update_definitions() > 0) {
            if (skewed_) {
                x.lanes.update()
                    .reorder({x.lane, x.side, x.rest.x, x.rest.y, m, x.rest.z})
                    .vectorize(x.lane, lanes)
                    .rename(x.rest.x, RVar("r_unroll"))
                    .rename(x.rest.y, RVar("part_unroll"));
            } else {
                x.lanes.update().reorder(x.lane, x.side, x.rest).vectorize(x.lane, lanes);
            }
            if (const int unroll = std::min((vector_unroll_ + x.sides - 1) / x.sides, (vectors_ + x.sides - 1) / x.sides - 1);
                !skewed_ && unroll > 1) {
                RVar ro("ro"), ru("r_unroll");
                x.lanes.update().split(x.rest, ro, ru, unroll, TailStrategy::GuardWithIf).reorder(x.lane, x.side, ru, ro);
            }
        }
        in_registers({x.lanes, x.value});
    }
}

KernelDefinition RowKernel::finish(Func result) {
    if (columns_)
        result = schedule_columns(result);
    else
        schedule_rows(result);
    if (sums_with_ones()) ones_.compute_root();
    whole_loops(out_);
    fix_shape(out_.output_buffer(), {length_, rows_});

    KernelDefinition kernel;
    kernel.pipeline = Pipeline(out_);
    kernel.arguments = arguments();
    const int pads = static_cast<int>(machine_.pad.count);
    // Rows that are apart, or the columns of a block.
    const bool blocks = apart_ || columns_;
    const codegen::PadLayout neighbours{pads, columns_ ? block_ : block_ / pads * vectors_};
    if (blocks) kernel.lay_out(result, neighbours);
    if (parts_go_round()) {
        const codegen::PadLayout parts{pads, vectors_ / parts_};
        kernel.lay_out(result, parts);
        for (const Func &step : each_) kernel.lay_out(step, parts);
        for (const Input &input : inputs_)
            if (!input.one_row) kernel.lay_out(input.rows, parts);
    }
    for (const Input &input : inputs_) {
        kernel.inputs.push_back({input.param.name(), {length_}});
        if (blocks && !input.one_row) kernel.lay_out(input.rows, neighbours);
        if (!input.one_row) kernel.inputs.back().extents.push_back(rows_);
    }
    kernel.outputs = {{out_.name(), {length_, rows_}}};
    return kernel;
}

void RowKernel::schedule_rows(Func result) {
    const Var mo(skewed_ ? "mo_skewed" : "mo"), mi("mi"), no("no"), ni("ni");
    const int pads = static_cast<int>(machine_.pad.count), together = neighbours_;
    out_(n, m) = result(n, row_in_pads(m));
    out_.bound(n, 0, length_)
        .bound(m, 0, rows_)
        .split(m, mo, mi, together > 0 ? pads * together : block_, TailStrategy::ShiftInwards);
    if (together > 0) out_.split(mi, Var("mp"), mi, together);
    schedule_inputs(out_, mo);
    hold_block(result, out_, mo);
    if (beside_ > 0) return schedule_beside(result);
    const Var mp("pad_unroll");
    Var row = m;
    if (apart_) {
        result.split(m, mp, m, block_ / pads);
        row = mp;
        if (row_unroll_ > pads) {
            result.split(m, m, unrolled_row_, row_unroll_ / pads);
            row = unrolled_row_;
        }
    } else if (row_unroll_ > 1 && !skewed_) {
        result.split(m, m, unrolled_row_, row_unroll_);
        row = unrolled_row_;
    }
    over_vectors(result);
    if (apart_) {
        std::vector<VarOrRVar> inner = {ni};
        if (vector_unroll_ > 1) inner.push_back(unrolled_vector_);
        inner.push_back(no);
        if (row_unroll_ > pads) inner.push_back(unrolled_row_);
        inner.insert(inner.end(), {mp, m});
        result.reorder(inner);
    }
    schedule_steps(skewed_ ? LoopLevel(out_, mo) : LoopLevel(result, row));
}

// Rows that are beside each other: what is before their numbers, the numbers, what is made of those, and the results.
void RowKernel::schedule_beside(Func result) {
    result.split(m, m, unrolled_row_, beside_);
    over_vectors(result);
    const LoopLevel rows(result, m);
    for (Func step : before_) {
        step.compute_at(rows).bound_extent(n, padded()).bound_extent(m, beside_);
        if (row_unroll_ > 1) step.split(m, m, unrolled_row_, row_unroll_);
        over_vectors(step);
        in_pads({step});
    }
    const Var lane = numbers_.args()[0], group = numbers_.args()[1];
    for (Func f : {numbers_, made_}) f.compute_at(rows).bound_extent(lane, lanes).vectorize(lane, lanes).bound_extent(group, 1);
    const RVar turn("turn"), unrolled("r_unroll");
    numbers_.update().split(rows_beside_, turn, unrolled, row_unroll_).reorder(lane, unrolled, turn).vectorize(lane, lanes);
    in_registers({numbers_, made_});
    schedule_extrema(LoopLevel(before_.at(0), row_unroll_ > 1 ? unrolled_row_ : m));
    schedule_steps(LoopLevel(numbers_, unrolled));
}

// What is in the pads instead of `result`.
Func RowKernel::schedule_columns(const Func &result) {
    const Var mo("mo"), mi("mi"), no("no"), ni("ni");
    Func columns(result.name() + "_columns");
    columns(k_, m, v_) = result(v_ * lanes + k_, m);
    out_(n, m) = by_element(result.name() + "_elements", columns)(n, m);
    out_.bound(n, 0, length_)
        .bound(m, 0, rows_)
        .split(m, mo, mi, block_, TailStrategy::ShiftInwards)
        .split(n, no, ni, lanes, TailStrategy::GuardWithIf)
        .reorder({ni, mi, no, mo});
    schedule_inputs(out_, mo);
    hold_block(columns, out_, mo);
    schedule_made(columns, k_, v_, {m});
    return columns;
}

void RowKernel::make_rows(Func result, const Var &lane, const Var &vector, Func consumer, const Var &block) {
    schedule_inputs(consumer, block);
    result.compute_at(consumer, block);
    schedule_made(result, lane, vector, {m});
    // Between two blocks other weights are in the array.
    if (sums_with_ones()) ones_.compute_at(consumer, block);
}

void RowKernel::make_all_rows(Func result, const Var &lane, const Var &vector) {
    const Var mo("mo");
    result.compute_root().bound(m, 0, rows_).split(m, mo, m, block_, TailStrategy::ShiftInwards);
    schedule_inputs(result, mo);
    schedule_made(result, lane, vector, {m, mo});
    if (sums_with_ones()) ones_.compute_root();
}

// `around`: its loops over rows.
void RowKernel::schedule_made(Func result, const Var &lane, const Var &vector, std::vector<VarOrRVar> around) {
    result.bound_extent(lane, lanes).bound_extent(vector, vectors_).vectorize(lane, lanes);
    std::vector<VarOrRVar> order = {lane};
    if (vector_unroll_ > 1) {
        result.split(vector, vector, unrolled_vector_, std::min(vector_unroll_, vectors_));
        order.push_back(unrolled_vector_);
    }
    order.push_back(vector);
    if (row_unroll_ > 1) {
        result.split(m, m, unrolled_row_, row_unroll_);
        order.push_back(unrolled_row_);
    }
    order.insert(order.end(), around.begin(), around.end());
    result.reorder(order);
    in_pads({result});
    schedule_steps(LoopLevel(result, row_unroll_ > 1 ? unrolled_row_ : m));
}

std::vector<Argument> RowKernel::arguments() const {
    std::vector<Argument> list;
    for (const Input &input : inputs_) list.emplace_back(input.param);
    return list;
}

}  // namespace atalla
