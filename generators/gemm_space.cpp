#include "generators/gemm_space.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "generators/gemm_draft.h"
#include "generators/gemm_inner.h"
#include "generators/gemm_plan.h"
#include "generators/gemm_prologue.h"
#include "isa/vectors.h"

namespace atalla {

namespace {

// Rows of B that may stay in one pad: up to a quarter of a block of columns, so that each pad's transfers walk through rows of
// their own.
constexpr int64_t rows_to_a_pad = 8;
// Vector registers that a tile with its sums in registers leaves for weights, rows of A and results on their way.
constexpr int64_t registers_in_flight = 90;
// What a tile that the same loop transposes takes beside these, and products that wait for the vector unit to add them.
constexpr int64_t turning_registers = 32, waiting_registers = 13;
// And what each row of an epilogue takes that runs beside the product.
constexpr int64_t deferred_registers = 8;
constexpr int64_t few_elements = 3 * 160 * 160;
constexpr int64_t most_rows = 512, most_unrolled_rows = 32, enough_rows = 16;

// A and B, and at most a bias, are all that comes, and the sums are the results.
bool is_plain(const GemmShape &shape) {
    return !shape.makes_rows() && !shape.staged && !shape.blocked_sums && !shape.addend && shape.operands.empty();
}

// The loops over a single block of rows may go on to whole rounds of the pads.
bool may_round(const GemmShape &shape, const Machine &machine) {
    return machine.timed() && is_plain(shape) && shape.m > machine.pad.count;
}

// Block sizes that cut the rows into each possible number of blocks, with as little overlap between the last two as possible,
// and as little as whole rounds of the pads allow.
std::vector<int64_t> row_values(const GemmShape &shape, const Machine &machine) {
    std::set<int64_t> values;
    const int64_t round = machine.pad.count;
    for (int64_t blocks = 1; blocks <= shape.m; blocks++) {
        const int64_t rows = ceil_div(shape.m, blocks);
        if (rows > most_rows) continue;
        if (machine.timed()) values.insert(rows);  // small pads have no room for a tile that does not go round them
        values.insert(blocks == 1 && may_round(shape, machine) ? ceil_div(rows, round) * round
                                                               : std::min(shape.m, ceil_div(rows, round) * round));
        if (rows <= round) break;
    }
    return {values.begin(), values.end()};
}

// Rows that straight-line code may have at once, of a block of so many: powers of two.
std::vector<int64_t> powers_of_rows(int64_t rows, const Machine &machine) {
    std::vector<int64_t> values;
    for (int64_t unroll = std::max<int64_t>(machine.pad.count, 2); unroll <= most_unrolled_rows && rows % unroll == 0;
         unroll *= 2)
        values.push_back(unroll);
    return values;
}

// Where no long block divides by one that is as long as a row takes through the array, as none of 100 rows or 200 does, other
// divisors that are: up to so many rows, or none.
int64_t most_divided_rows(const std::vector<int64_t> &blocks, const Machine &machine) {
    constexpr int64_t long_block = 128, most = 52;
    if (!machine.timed()) return 0;
    const bool divides = std::any_of(blocks.begin(), blocks.end(), [&](int64_t rows) {
        return rows >= std::min(long_block, blocks.back()) && rows % enough_rows == 0;
    });
    return divides ? 0 : most;
}
std::vector<int64_t> row_unrolls(int64_t rows, int64_t most_divided, const Machine &machine) {
    std::vector<int64_t> values = powers_of_rows(rows, machine);
    if (rows % enough_rows == 0) return values;
    for (int64_t unroll = round_up(enough_rows, machine.pad.count); unroll <= most_divided; unroll += machine.pad.count)
        if (rows % unroll == 0) values.push_back(unroll);
    return values;
}

// What is little comes again in little time. The pads of each block of rows are those of the first.
bool a_may_stay(const GemmShape &shape, const Machine &machine) {
    return machine.timed() && !shape.makes_rows() && shape.batch.empty() && !shape.blocked_sums && shape.n > lanes &&
           shape.m % machine.pad.count == 0 && shape.m * shape.k > few_elements;
}

bool may_turn_inside(const GemmShape &shape, const Machine &machine) {
    return machine.timed() && !shape.b_transposed && !shape.makes_rows() && !shape.blocked_sums;
}

// The epilogue's rows run in the loop over k tiles, of several blocks: one more of them runs than there are.
constexpr int64_t few_blocks = 8;
bool may_defer(const GemmShape &shape, const Machine &machine) {
    constexpr int64_t few_tiles = 4;
    return machine.timed() && shape.staged && shape.k_tiles() >= few_tiles && !shape.blocked_sums && !shape.inner &&
           shape.n >= few_blocks * lanes;
}

// B as [k][n] with tiles that are not whole: as a whole it comes ahead all the same, and blocks of columns are alike.
bool may_leave_whole(const GemmShape &shape, const Machine &machine) {
    return machine.timed() && is_plain(shape) && !shape.b_transposed && shape.n > lanes &&
           (shape.n % lanes != 0 || shape.k % lanes != 0);
}

// Few rows, for which weights pass in whole tiles.
bool may_stream(const GemmShape &shape, const Machine &machine) {
    return machine.timed() && shape.b_transposed && !shape.makes_rows() && shape.batch.empty() && !shape.blocked_sums &&
           !shape.addend && shape.operands.empty() && !shape.staged && shape.m <= lanes && shape.n > lanes &&
           shape.n % lanes == 0 && shape.k > lanes && shape.k % lanes == 0;
}

// Where whole rows of k leave the pads no room for many rows of A.
bool k_may_be_outer(const GemmShape &shape, const Machine &machine) {
    constexpr int64_t many_rows = 128;
    return machine.timed() && shape.b_transposed && !shape.makes_rows() && shape.batch.empty() && !shape.blocked_sums &&
           shape.n > lanes && shape.n % lanes == 0 &&
           2 * shape.k_tiles() * (lanes + std::min(shape.m, many_rows)) > machine.pad.count * machine.pad_rows();
}

}  // namespace

int64_t gemm_pad_rows(const GemmShape &shape, const Machine &machine, const Point &point, bool leaves) {
    const GemmPlan plan(shape, machine, point);
    // Two slots where transfers run ahead.
    const auto slots = [&](int64_t blocks) -> int64_t {
        return blocks * shape.products() > 1 && machine.timed() ? plan.slots : 1;
    };
    const int64_t a_slots = plan.ahead ? slots(plan.row_blocks) : 1;
    if (plan.streamed)  // A and B, sums and results, a bias
        return (plan.stored_rows + shape.n) * plan.k_tiles + (2 * plan.stored_rows + machine.pad.count) * plan.col_blocks;
    const int64_t b_slots = plan.b_resident              ? plan.col_blocks * shape.b_matrices()
                            : plan.ahead || plan.k_outer ? slots(plan.col_blocks)
                                                         : 1;
    int64_t rows = shape.prologue    ? prologue_pad_rows(shape, machine, point)
                   : shape.inner     ? inner_pad_rows(shape, machine, point)
                   : plan.a_resident ? ceil_div(shape.m, machine.pad.count) * machine.pad.count * plan.k_block
                                     : a_slots * plan.stored_rows * (plan.pass < plan.rows ? 1 : plan.k_block);
    rows += b_slots * lanes * plan.k_block;
    // The tiles before they are transposed, or, where all of them stay, the transposed ones of a block, if these do not stay in
    // registers; and the identity.
    if (!shape.b_transposed && machine.timed())
        rows += (plan.c_whole      ? slots(1) * plan.col_blocks
                 : plan.b_resident ? slots(plan.col_blocks)
                                   : !plan.turns_inside) *
                    lanes * plan.k_block +
                lanes;
    rows += plan.c_whole ? slots(plan.row_blocks) * plan.col_blocks * plan.stored_rows
                         : slots(plan.m_outer ? plan.col_blocks : plan.row_blocks) *
                               (plan.waiting_rows() * leaves + plan.stored_rows * shape.addend);
    rows += plan.stored_rows * (plan.k_outer ? plan.col_blocks : !plan.sums_in_registers + shape.blocked_sums);
    const int64_t all = ceil_div(plan.col_blocks, machine.pad.count) * machine.pad.count,
                  vector = leaves ? machine.pad.count * slots(plan.col_blocks) : all;
    if (shape.bias) rows += plan.bias_at_once ? all : vector;
    if (shape.staged) rows += plan.waiting_rows();
    for (const GemmOperand &operand : shape.operands) {
        if (operand.kind == GemmOperand::Matrix)
            rows += slots(plan.m_outer ? plan.col_blocks : plan.row_blocks) * plan.waiting_rows();
        else
            rows += operand.kind == GemmOperand::Row ? vector : slots(plan.row_blocks) * plan.waiting_rows();
    }
    return rows;
}

namespace {

// What is little comes at once.
bool may_come_at_once(const GemmShape &shape, const Machine &machine) {
    return machine.timed() && !shape.prologue && shape.products() == 1 && shape.b_transposed &&
           shape.m * shape.k + shape.n * shape.k + shape.m * shape.n <= few_elements;
}

// Constraints keep copies of what they ask.
class GemmSpace {
public:
    GemmSpace(const GemmShape &shape, const Machine &machine)
        : shape_(shape),
          machine_(machine),
          round_(machine.pad.count),
          k_tiles_(shape.k_tiles()),
          registers_(machine.regs.vector - 1 - registers_in_flight),
          timed_(machine.timed()),
          defers_(may_defer(shape, machine)),
          blocks_of_rows_(row_values(shape, machine)),
          most_divided_(most_divided_rows(blocks_of_rows_, machine)) {}

    Space make() {
        add_parameters();
        fit_registers();
        keep_k_ends_apart();
        serve_small_products();
        fit_straight_code();
        fit_pads();
        unroll_rows();
        bring_b();
        keep_b();
        if (may_leave_whole(shape_, machine_)) leave_whole();
        if (a_may_stay(shape_, machine_)) keep_a();
        if (k_may_be_outer(shape_, machine_)) put_k_outermost();
        if (may_stream(shape_, machine_)) stream_b();
        if (may_turn_inside(shape_, machine_)) turn_b_inside();
        if (defers_) defer_epilogue();
        if (shape_.inner) leave_first_where_nothing_fits();
        return std::move(space_);
    }

private:
    // ---- parameters

    // Straight-line code goes round all pads, so that the pad of each of its accesses is known.
    std::vector<int64_t> weight_unrolls() const {
        std::vector<int64_t> values;
        for (int64_t unroll = round_; lanes % unroll == 0; unroll *= 2) values.push_back(unroll);
        return values.empty() ? std::vector<int64_t>{lanes} : values;  // pads that do not divide a tile
    }
    std::vector<int64_t> unrolls_of_all_rows() const {
        std::set<int64_t> values = {1};
        for (const int64_t rows : blocks_of_rows_)
            for (const int64_t unroll : row_unrolls(rows, most_divided_, machine_)) values.insert(unroll);
        return {values.begin(), values.end()};
    }
    static bool is_large(int64_t k_block, const Machine &machine) { return k_block * lanes * 4 > machine.pad_rows(); }
    // All k tiles, or a part that divides them: a large one on a machine with large pads.
    std::vector<int64_t> k_blocks() const {
        std::vector<int64_t> values;
        const bool outer = k_may_be_outer(shape_, machine_);
        for (int64_t part = 1; part <= k_tiles_; part++)
            if (part == k_tiles_ ||
                (shape_.sum_group() % part == 0 && (!timed_ || is_large(part, machine_) || (outer && part >= lanes))))
                values.push_back(part);
        return values;
    }
    // Where code costs nothing it may be long, and what needs little room in the pads goes through them in parts.
    bool code_costs_nothing() const { return !timed_ && !shape_.makes_rows(); }
    std::vector<int64_t> row_passes() const {
        std::vector<int64_t> values = {0};
        if (code_costs_nothing() && !shape_.staged && !shape_.blocked_sums && shape_.operands.empty())
            for (int64_t pass = round_; pass <= lanes; pass *= 2) values.push_back(pass);
        return values;
    }
    // Where the array adds the sums, a first k tile like the others takes no longer.
    bool small_k_tiles_may_be_alike() const {
        return may_come_at_once(shape_, machine_) && !shape_.inner && machine_.sa.psum_in && k_tiles_ > 1 &&
               !shape_.starts_with_bias() && !shape_.blocked_sums;
    }

    void add_parameters() {
        const auto either = [](bool possible) { return possible ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0}; };
        const bool at_once = may_come_at_once(shape_, machine_);
        space_.parameter("rows", "rows of A that one load of the weights serves", blocks_of_rows_)
            .choice("sums_in_registers", "1: a block's sums stay in registers while the k tiles pass; 0: in the pads", {0, 1})
            .parameter("row_pass", "rows of A and of the result that pass through the pads at once, 0: all of a block",
                       row_passes())
            .choice("blocks_unrolled", "1: all blocks are straight-line code", either(code_costs_nothing()))
            .choice("k_ends_apart",
                    "1: the first and the last k tile have code of their own, which starts sums and ends them as results; 0: "
                    "all the same",
                    {0, 1})
            .choice("slots",
                    "2: transfers run a block ahead of the computation and behind it; 1: less code for what little there is to "
                    "transfer",
                    at_once ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{2})
            .choice("k_alike",
                    "1: the first k tile is like the others, its sums are cleared when they are stored, and results leave from "
                    "one slot, which is less code; 0: it has code of its own",
                    either(small_k_tiles_may_be_alike() || defers_))
            .choice("pads_split", "1: A and B on two pads each, 0: each on all", either(at_once && !shape_.inner))
            .choice("m_outer", "1: blocks of rows are the outer loop, 0: blocks of columns", {0, 1})
            .parameter("k_block", "k tiles of both operands that come at once", k_blocks())
            .choice("b_row_major", "1: a transfer brings the k tiles of a row, 0: the rows of a k tile", {0, 1})
            .choice("b_block", "rows of B in one pad before the next pad's turn",
                    {1, rows_to_a_pad / 4, rows_to_a_pad / 2, rows_to_a_pad})
            .choice("b_resident", "1: all of B stays in the pads, transposed first where it must be, 0: two blocks of columns",
                    {0, 1})
            .parameter("weight_unroll", "weight vectors loaded in straight-line code", weight_unrolls())
            .parameter("row_unroll", "rows in straight-line code where the sums are in the pads", unrolls_of_all_rows());
    }

    // ---- registers and code

    void fit_registers() {
        // Where the adder forms the sums, a tile that is transposed along its rows in straight-line code overlaps the products.
        const int64_t transposed =
            timed_ && !machine_.sa.psum_in && !shape_.b_transposed ? turning_registers + waiting_registers : 0;
        space_.constraint("registers", {"rows", "sums_in_registers", "b_row_major", "weight_unroll"},
                          "The sums of a block and the vectors on their way fit the register file.",
                          [transposed, addend = shape_.addend, limit = registers_](const Point &point) {
                              const int64_t turning = point["b_row_major"] && point["weight_unroll"] == lanes ? transposed : 0;
                              return point["sums_in_registers"] == 0 || point["rows"] * (1 + addend) + turning <= limit;
                          });
        space_.constraint("rows in parts", {"rows", "sums_in_registers", "row_pass"},
                          "Parts divide the rows of a block, and are few, since each has registers of its own; the block's "
                          "sums stay in registers while they pass.",
                          [](const Point &point) {
                              constexpr int64_t most_parts = 32;
                              const int64_t pass = point["row_pass"];
                              return pass == 0 || (pass < point["rows"] && point["rows"] % pass == 0 &&
                                                   point["rows"] / pass <= most_parts && point["sums_in_registers"] != 0);
                          });
    }

    void keep_k_ends_apart() {
        space_.constraint(
            "k tiles apart", {"sums_in_registers", "k_block", "k_ends_apart"},
            "Sums of all k tiles in the pads, operands whole; sums in registers start and end so by themselves.",
            [possible = (shape_.b_transposed || timed_) && !shape_.blocked_sums, k_tiles = k_tiles_](const Point &point) {
                return point["k_ends_apart"] == 0 ||
                       (possible && point["sums_in_registers"] == 0 && point["k_block"] == k_tiles);
            });
    }

    void serve_small_products() {
        space_.constraint(
            "split pads", {"slots", "pads_split", "b_block"}, "It serves operands that come at once, each from the start.",
            [](const Point &point) { return point["pads_split"] == 0 || (point["slots"] == 1 && point["b_block"] == 1); });
        std::vector<std::string> of_alike = {"sums_in_registers", "k_alike"};
        if (defers_) of_alike.emplace_back("deferred");
        space_.constraint("k tiles alike", of_alike, "It serves sums in registers, of small products or beside an epilogue.",
                          [is_small = small_k_tiles_may_be_alike()](const Point &point) {
                              return point["k_alike"] == 0 ||
                                     (point["sums_in_registers"] != 0 && (is_small || point["deferred"] != 0));
                          });
    }

    void fit_straight_code() {
        space_.constraint("straight-line blocks", {"rows", "row_pass", "blocks_unrolled"},
                          "The addresses of all transfers of straight-line code fit the registers.",
                          [m = shape_.m, n = shape_.n, products = shape_.products(), k_tiles = k_tiles_](const Point &point) {
                              constexpr int64_t most_copies = 32;
                              const int64_t rows = std::min(point["rows"], m), blocks = ceil_div(m, rows) * ceil_div(n, lanes);
                              const int64_t parts = rows / GemmPlan::pass_rows(point, rows);
                              return point["blocks_unrolled"] == 0 ||
                                     products * blocks * (k_tiles * (parts + 1) + parts) <= most_copies;
                          });
    }

    void unroll_rows() {
        space_.constraint("unrolled rows", {"rows", "sums_in_registers", "row_unroll"},
                          "Unrolling goes round the pads and divides the rows of a block; with the sums in registers every row "
                          "is unrolled anyway.",
                          [m = shape_.m, most_divided = most_divided_, machine = machine_](const Point &point) {
                              const int64_t rows = point["rows"], unroll = point["row_unroll"];
                              if (point["sums_in_registers"]) return unroll == 1 && rows <= m;
                              if (rows < machine.pad.count) return unroll == 1;
                              const std::vector<int64_t> values = row_unrolls(rows, most_divided, machine);
                              return std::find(values.begin(), values.end(), unroll) != values.end();
                          });
    }

    // ---- pads

    // The parameters of what makes the rows of A are named after it.
    void fit_pads() {
        std::vector<std::string> sized = {"rows", "sums_in_registers", "row_pass", "slots", "m_outer", "b_resident", "k_block"};
        if (a_may_stay(shape_, machine_)) sized.emplace_back("a_resident");
        if (may_leave_whole(shape_, machine_)) sized.emplace_back("c_whole");
        if (may_turn_inside(shape_, machine_)) sized.emplace_back("b_turned");
        if (k_may_be_outer(shape_, machine_)) sized.emplace_back("k_outer");
        if (may_stream(shape_, machine_)) sized.emplace_back("streamed");
        if (defers_) sized.insert(sized.end(), {"deferred", "k_alike"});
        if (shape_.prologue) add_prologue(space_, shape_, machine_);
        if (shape_.inner) add_inner(space_, shape_, machine_);
        for (const Parameter &parameter : space_.parameters)
            if (parameter.name.starts_with("prologue_") || parameter.name.starts_with("inner_"))
                sized.push_back(parameter.name);
        space_.constraint("pads", sized,
                          shape_.inner
                              ? "The buffers of a block fit the pads together, with all columns of the inner product's rows."
                              : "The buffers of a block fit the pads together.",
                          [shape = shape_, machine = machine_](const Point &point) {
                              return gemm_pad_rows(shape, machine, point) <= machine.pad.count * machine.pad_rows();
                          });
    }

    void bring_b() {
        space_.constraint(
            "rows to a pad", {"b_block", "b_row_major", "b_resident", "weight_unroll"},
            "The pads are known where all weight loads are straight-line code and all tiles are whole, or begin anew with "
            "each block of columns; it serves transfers along k.",
            [possible = timed_ && shape_.b_transposed && shape_.n >= lanes && shape_.k % lanes == 0,
             whole = shape_.n % lanes == 0](const Point &point) {
                return point["b_block"] == 1 || (possible && (whole || point["b_resident"] == 0) && point["b_row_major"] &&
                                                 point["weight_unroll"] == lanes);
            });
        space_.constraint(
            "transfers along k", {"b_row_major", "k_block"},
            "There are several k tiles. Where the last one is not whole, each tile of a row has a transfer of its "
            "own, and there are registers for a few.",
            [k_tiles = k_tiles_, whole = shape_.k % lanes == 0](const Point &point) {
                constexpr int64_t most_transfers = 16;
                return point["b_row_major"] == 0 || (k_tiles > 1 && (whole || point["k_block"] <= most_transfers));
            });
    }

    // It is loaded while the first block of rows is computed, block of columns by block of columns; or transposed before. Where
    // the last block is not whole, all of it comes first. Where that block, which begins earlier, does not begin at the first
    // pad, all of B is in one.
    bool b_may_stay() const {
        return shape_.n > lanes && (shape_.b_transposed ? shape_.batch.empty() : timed_) &&
               (!shape_.b_transposed || shape_.n % round_ == 0 || shape_.n * k_tiles_ <= machine_.pad_rows());
    }
    void keep_b() {
        const bool leaves_whole = may_leave_whole(shape_, machine_);
        std::vector<std::string> of_resident = {"b_resident", "m_outer", "rows", "k_block", "slots"};
        if (leaves_whole) of_resident.emplace_back("c_whole");
        space_.constraint(
            "resident", of_resident,
            "B stays where whole blocks of columns, with all their k tiles, pass within several blocks of rows; or it "
            "comes as a whole.",
            [can_stay = b_may_stay(), leaves_whole, m = shape_.m, batches = !shape_.batch.empty(),
             k_tiles = k_tiles_](const Point &point) {
                const bool several = point["rows"] < m || batches || (leaves_whole && point["c_whole"] != 0);
                return point["b_resident"] == 0 ||
                       (can_stay && point["m_outer"] && (several || point["slots"] == 1) && point["k_block"] == k_tiles);
            });
    }

    void leave_whole() {
        space_.choice("c_whole",
                      "1: results of all columns of a block of rows leave together, and B comes as a whole; 0: those of a "
                      "block of columns",
                      {0, 1});
        space_.constraint("whole results", {"c_whole", "b_resident"}, "All of B is transposed first.",
                          [](const Point &point) { return point["c_whole"] == 0 || point["b_resident"] != 0; });
    }

    void keep_a() {
        space_.choice("a_resident", "1: all of A stays in the pads while blocks of columns pass, 0: two blocks of rows",
                      {0, 1});
        space_.constraint("A resident", {"a_resident", "m_outer", "rows", "k_block", "slots"},
                          "A stays where whole blocks of rows, with all their k tiles, pass within blocks of columns.",
                          [m = shape_.m, round = round_, k_tiles = k_tiles_](const Point &point) {
                              const int64_t rows = point["rows"];
                              return point["a_resident"] == 0 ||
                                     (point["m_outer"] == 0 && point["slots"] == 2 && point["k_block"] == k_tiles && rows < m &&
                                      rows % round == 0 && m % rows == 0);
                          });
    }

    // ---- loops in another order

    void put_k_outermost() {
        space_.choice(
            "k_outer",
            "1: blocks of k tiles are outside those of columns, whose sums wait in the pads; 0: inside, and nothing is "
            "under way while one computes",
            {0, 1});
        space_.constraint(
            "k tiles outermost", {"rows", "k_outer", "k_block", "m_outer", "sums_in_registers", "b_resident", "b_block"},
            "Columns pass within a block of rows and k tiles, with the sums of a visit in registers, and elsewhere "
            "round the pads. There are registers for the places of few transfers of a few rows of a pad.",
            [machine = machine_, k_tiles = k_tiles_](const Point &point) {
                constexpr int64_t most_transfers = 4;
                const int64_t part = point["k_block"], block = point["b_block"], rows = point["rows"],
                              round = machine.pad.count;
                if (point["k_outer"] == 0) return part == k_tiles || is_large(part, machine);
                return part < k_tiles && point["m_outer"] != 0 && point["sums_in_registers"] != 0 && point["b_resident"] == 0 &&
                       (rows % round == 0 || rows < round) &&
                       (ceil_div(part, lanes) <= most_transfers || block == 1 || block == rows_to_a_pad);
            });
    }

    void stream_b() {
        space_.choice(
            "streamed",
            "1: B comes beside all its visits, one loop for each k tile, and the sums of all columns wait in the pads; "
            "0: blocks of columns, each with its sums",
            {0, 1});
        space_.constraint(
            "B streamed",
            {"streamed", "rows", "sums_in_registers", "k_ends_apart", "slots", "pads_split", "m_outer", "k_block",
             "b_row_major", "b_block", "b_resident", "weight_unroll", "row_unroll"},
            "All rows are one block, in straight-line code; operands and sums are in the pads as a whole, B a k tile after "
            "the other.",
            [m = shape_.m, k_tiles = k_tiles_](const Point &point) {
                return point["streamed"] == 0 ||
                       (point["rows"] == m && point["sums_in_registers"] != 0 && point["k_ends_apart"] == 0 &&
                        point["slots"] == 2 && point["pads_split"] == 0 && point["m_outer"] != 0 &&
                        point["k_block"] == k_tiles && point["b_row_major"] == 0 && point["b_block"] == 1 &&
                        point["b_resident"] == 0 && point["weight_unroll"] == lanes && point["row_unroll"] == 1);
            });
    }

    // ---- more work in the loop over k tiles

    void turn_b_inside() {
        constexpr double most_code = 1.25;  // with what runs once a block
        space_.choice("b_turned",
                      "1: the loop over k tiles transposes each tile of B that it multiplies with, 0: a loop of its own",
                      {0, 1});
        space_.constraint(
            "turned inside", {"b_turned", "sums_in_registers", "b_resident", "b_row_major", "k_block", "weight_unroll", "rows"},
            "It serves one block of rows, for which each tile is transposed once, with sums in registers. Tiles come ahead and "
            "stay in registers, and the loop over k tiles fits the instruction cache.",
            [m = shape_.m, k_tiles = k_tiles_,
             fits =
                 shape_.m * (1 + shape_.addend) + turning_registers + (machine_.sa.psum_in ? 0 : waiting_registers) <=
                     registers_ &&
                 gemm_turning_code(shape_, machine_) <=
                     most_code * static_cast<double>(machine_.icache.bytes / machine_.issue.packet_bytes)](const Point &point) {
                return point["b_turned"] == 0 ||
                       (fits && point["sums_in_registers"] != 0 && point["b_resident"] == 0 && point["b_row_major"] == 0 &&
                        point["k_block"] == k_tiles && point["weight_unroll"] == lanes && point["rows"] >= m);
            });
    }

    void defer_epilogue() {
        space_.choice("deferred",
                      "1: the epilogue of a block runs beside the product of the next one, some of its rows in each k tile's "
                      "visit; 0: behind its own",
                      {0, 1});
        space_.constraint(
            "epilogue deferred",
            {"deferred", "rows", "sums_in_registers", "k_block", "k_alike", "slots", "m_outer", "b_resident", "weight_unroll"},
            "It serves blocks that follow each other, with their sums in registers and all k tiles in one loop without others "
            "inside. Operands come and results leave in every block alike.",
            [shape = shape_, machine = machine_, k_tiles = k_tiles_, limit = registers_](const Point &point) {
                const bool m_outer = point["m_outer"] != 0, resident = point["b_resident"] != 0;
                const bool alike =
                    shape.b_transposed ? !resident : shape.n % lanes == 0 || (resident && shape.n % machine.pad.count == 0);
                return point["deferred"] == 0 ||
                       (point["sums_in_registers"] != 0 && point["k_block"] == k_tiles && point["slots"] == 2 &&
                        point["weight_unroll"] == lanes && alike &&
                        (m_outer || ceil_div(shape.m, point["rows"]) >= few_blocks) &&
                        point["rows"] * (1 + shape.addend) +
                                deferred_registers * GemmPlan(shape, machine, point).deferred_rows() <=
                            limit);
            });
        if (may_turn_inside(shape_, machine_))
            space_.constraint("epilogue or B", {"deferred", "b_turned"},
                              "The loop over k tiles has room for rows of the epilogue or for tiles that it transposes.",
                              [](const Point &point) { return point["deferred"] == 0 || point["b_turned"] == 0; });
    }

    // The first point takes the least room: where that is too much, no other need be looked at.
    void leave_first_where_nothing_fits() {
        const Point first = gemm_naive_point(shape_, machine_);
        if (gemm_pad_rows(shape_, machine_, first) > round_ * machine_.pad_rows())
            for (Parameter &parameter : space_.parameters) parameter.values = {first[parameter.name]};
    }

    const GemmShape &shape_;
    const Machine &machine_;
    const int64_t round_;  // pads
    const int64_t k_tiles_;
    const int64_t registers_;  // for sums
    const bool timed_, defers_;
    const std::vector<int64_t> blocks_of_rows_;
    const int64_t most_divided_;
    Space space_;
};

}  // namespace

Space gemm_space(const GemmShape &shape, const Machine &machine) { return GemmSpace(shape, machine).make(); }

const Point &gemm_common_point() {
    static const Point common = {{"row_pass", 0},   {"blocks_unrolled", 0}, {"k_ends_apart", 0}, {"k_alike", 0},
                                 {"pads_split", 0}, {"m_outer", 1},         {"b_block", 1}};
    return common;
}

Point gemm_naive_point(const GemmShape &shape, const Machine &machine) {
    const int64_t round = machine.pad.count, rows = shape.m < round ? shape.m : std::min(shape.m / round, int64_t{4}) * round;
    Point point = {{"rows", rows},
                   {"sums_in_registers", 0},
                   {"slots", 2},
                   {"b_row_major", 0},
                   {"b_resident", 0},
                   {"k_block", shape.k_tiles()},
                   {"weight_unroll", lanes % round == 0 ? round : lanes},
                   {"row_unroll", 1}};
    for (const auto &[name, value] : gemm_common_point().values()) point.set(name, value);
    if (a_may_stay(shape, machine)) point.set("a_resident", 0);
    if (may_turn_inside(shape, machine)) point.set("b_turned", 0);
    if (may_leave_whole(shape, machine)) point.set("c_whole", 0);
    if (k_may_be_outer(shape, machine)) point.set("k_outer", 0);
    if (may_stream(shape, machine)) point.set("streamed", 0);
    if (may_defer(shape, machine)) point.set("deferred", 0);
    if (shape.prologue) set_naive_prologue(point, shape, machine);
    if (shape.inner) set_naive_inner(point, shape, machine);
    if (const Point whole = point; gemm_pad_rows(shape, machine, point) > round * machine.pad_rows())
        for (const auto &[name, value] : whole.values())
            if (name.ends_with("k_block")) point.set(name, 1);
    while (point["rows"] > round && gemm_pad_rows(shape, machine, point) > round * machine.pad_rows())
        point.set("rows", point["rows"] - round);
    if (point["rows"] % round == 0) point.set("row_unroll", round);
    return point;
}

std::string gemm_words(const GemmShape &shape, const Machine &machine, const Point &point) {
    const GemmPlan plan(shape, machine, point);
    std::string text = plan.row_blocks == 1 ? fmt::format("all {} rows in one block", plan.rows)
                                            : fmt::format("{} blocks of {} rows", plan.row_blocks, plan.rows);
    text += plan.streamed            ? ", sums of all columns in the pads"
            : plan.sums_in_registers ? ", sums in registers"
                                     : fmt::format(", sums in the pads, {} rows unrolled", point["row_unroll"]);
    if (plan.pass < plan.rows) text += fmt::format(", {} rows at a time through the pads", plan.pass);
    if (point["k_ends_apart"]) text += ", the first and the last k tile apart";
    if (plan.slots == 1 && machine.timed())
        text += point["pads_split"] ? ", operands at once, on two pads each" : ", operands at once";
    if (plan.alike) text += ", all k tiles alike";
    if (plan.straight) text += ", all blocks in straight-line code";
    text += plan.m_outer ? "; columns pass within a block of rows" : "; rows pass within a block of columns";
    if (plan.a_resident) text += ", all of A kept in the pads";
    text += plan.b_resident ? (shape.b_transposed ? ", all of B kept in the pads" : ", all of B transposed into the pads first")
                            : "";
    if (plan.c_whole) text += ", all columns leave together";
    if (plan.streamed) text += ", for all of them a k tile after the other, beside which B comes";
    if (plan.turns_inside) text += ", each tile of B transposed where it is multiplied with";
    if (plan.deferred) text += fmt::format("; {} rows of the epilogue in each visit of the next block", plan.deferred_rows());
    if (shape.blocked_sums) text += fmt::format("; sums of {} groups of {} k tiles", shape.sum_groups(), shape.sum_group());
    if (plan.k_block < plan.k_tiles)
        text += fmt::format("; operands come {} k tiles at a time{}", plan.k_block,
                            plan.k_outer ? ", all columns between two of these" : "");
    text += fmt::format("; {} weight loads unrolled; transfers {}", point["weight_unroll"],
                        point["b_row_major"] ? "along k" : "along the rows");
    if (point["b_block"] > 1) text += fmt::format(", {} rows of B to a pad", point["b_block"]);
    if (shape.inner) text += "; rows made first by a product: " + gemm_words(*shape.inner, machine, inner_point(point));
    if (shape.prologue) text += "; rows made first: " + shape.prologue->words(machine, prologue_point(point));
    return text;
}

}  // namespace atalla
