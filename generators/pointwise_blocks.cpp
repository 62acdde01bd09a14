#include "generators/pointwise_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>

namespace atalla {

namespace {

// Elements of a row that one tile takes on a machine with large pads; longer rows are cut.
constexpr int64_t longest_row = 2048;
// Pads that one buffer may take, in rows of all pads: two slots each for inputs and result.
constexpr int64_t most_buffer_rows = 2048;

const std::vector<int64_t> unrolls = {4, 8, 16, 32, 2}, pads_of_parts = {4, 2, 1};

int64_t round_down(int64_t n) { return n < lanes ? n : n < 4 * lanes ? n / lanes * lanes : n / (4 * lanes) * 4 * lanes; }

// The pads, of so many, that buffers go round: what loops add to a row must be whole rounds.
int64_t pads_in_turn(const Tiling &t, const StraightVectors &straight, int64_t pads) {
    const int64_t vectors = t.stored_cols / lanes;
    const auto whole_rounds = [&](int64_t of) {
        return (straight.across == vectors || straight.across % of == 0) &&
               (straight.down == t.rows || straight.down * vectors % of == 0) &&
               (straight.deep == t.planes || straight.deep * t.rows * vectors % of == 0);
    };
    while (!whole_rounds(pads)) pads--;
    return pads;
}

}  // namespace

int64_t largest_divisor(int64_t of, int64_t most) {
    while (of % most != 0) most--;
    return most;
}

PointwiseBlocks::PointwiseBlocks(LoopNest nest, int64_t operands, int64_t parts, int64_t columns, const JoinedRows &run)
    : nest_(std::move(nest)), operands_(operands), parts_(parts), small_operands_(parts), columns_(columns), run_(run) {
    for (size_t i = 0; i < nest_.dims[0].present.size(); i++) small_operands_ += nest_.is_single(i);
}

LoopNest PointwiseBlocks::with_short_rows(LoopNest nest) {
    constexpr int64_t step = 4 * lanes, shortest = 2 * step;
    const int64_t extent = nest.dims[0].extent;
    if (nest.dims.size() < 2 || extent <= longest_row || extent % step != 0) return nest;
    const int64_t cols = step * largest_divisor(extent / step, longest_row / 2 / step);
    if (cols < shortest) return nest;
    nest.dims[0].extent = cols;
    nest.dims.insert(nest.dims.begin() + 1, {extent / cols, nest.dims[0].present});
    return nest;
}

Space PointwiseBlocks::space(const Machine &machine) const {
    Space space;
    std::set<int64_t> sizes;
    const Tiling whole = tiling(machine, nest_.dims.size() == 1 ? nest_.dims[0].extent : largest(), false);
    for (int64_t rows = row_step(machine); rows <= most_buffer_rows / 2; rows *= 2) {
        const int64_t size = size_of(machine, rows);
        if (fits(machine, tiling(machine, size, false))) sizes.insert(size);
    }
    // Pieces of pages that are no longer than what begins anew.
    const int64_t least = row_step(machine);
    for (int64_t rows = 1; rows < std::min(least, largest()); rows *= 2)
        if (has_pages(machine, rows)) sizes.insert(rows);
    // Planes whose rows are whole.
    if (nest_.dims.size() > 2 && !has_column() && whole.cols == whole.width)
        for (int64_t planes = nest_.dims[2].extent; planes > 1; planes = (planes + 1) / 2)
            if (fits(machine, tiling(machine, planes * largest(), false))) sizes.insert(planes * largest());
    // Rows with a number each are straight-line code where they are not whole vectors of such numbers.
    const bool short_code = !has_column() || largest() % lanes == 0 || largest() <= 4 * lanes;
    if (short_code && fits(machine, whole)) sizes.insert(nest_.dims.size() == 1 ? round_down(nest_.dims[0].extent) : largest());
    if (sizes.empty()) sizes.insert(size_of(machine, 1));
    const std::set<int64_t> apart = sizes, of_run = has_column() ? blocks_of_run(machine) : blocks_of_patterns(machine);
    std::vector<int64_t> all_unrolls = unrolls;
    std::vector<std::string> first;
    if (!of_run.empty()) {
        first = {"joined"};
        sizes.insert(of_run.begin(), of_run.end());
        if (has_column())
            for (const int64_t unroll : unrolls_of_run())
                if (std::ranges::find(unrolls, unroll) == unrolls.end()) all_unrolls.push_back(unroll);
        space.choice("joined",
                     has_column() ? "rows that end inside vectors, or are long, apart (0), or as one run, in which each begins "
                                    "inside a vector (1)"
                                  : "rows apart (0), or as one run of vectors, each of which meets one of the patterns that "
                                    "operands without outer dimensions make (1)",
                     {0, 1});
    }
    const auto also = [&](std::vector<std::string> names) {
        names.insert(names.begin(), first.begin(), first.end());
        return names;
    };
    space
        .parameter("block",
                   nest_.dims.size() == 1 ? "elements that come and go together"
                   : of_run.empty()       ? "rows that come and go together"
                   : has_column()         ? "rows that come and go together"
                                          : "rows that come and go together; elements where rows are joined",
                   {sizes.begin(), sizes.end()})
        .choice("unroll", "vectors in straight-line code", all_unrolls)
        .choice("pads", "pads that a buffer goes round: with fewer, transfers in and out meet less often", pads_of_parts)
        .choice("parts",
                "a pad holds every so manieth vector of a block (0) or one part of it (1); 2: blocks are parts of two pages of "
                "the DRAM; 3: all is one block, of which each pad has a half of every other page",
                {0, 1, in_pages, all_in_pages});
    // Vectors take ports for vectors of those that read them, single values ports for scalars.
    if (has_column() && machine.timed())
        space.choice("numbers", "numbers of rows are vectors of equal lanes (0) or single values (1)", {0, 1});
    if (!of_run.empty() && !has_column())
        space.constraint("joined", {"joined", "block", "unroll", "pads", "parts"},
                         "Blocks of a run are parts, one for each pad.", [apart, of_run](const Point &point) {
                             if (!is_joined(point)) return apart.count(point["block"]) > 0;
                             return of_run.count(point["block"]) > 0 && point["parts"] == 1 && point["pads"] > 1 &&
                                    point["unroll"] >= point["pads"];
                         });
    else if (!of_run.empty())
        space.constraint("joined", {"joined", "block", "unroll", "numbers", "pads", "parts"},
                         "Rows of a block begin with a vector in each pad, and straight-line code takes whole ones or parts.",
                         [blocks = *this, machine, apart, of_run](const Point &point) {
                             if (!is_joined(point))
                                 return apart.count(point["block"]) > 0 &&
                                        std::ranges::find(unrolls, point["unroll"]) != unrolls.end();
                             return of_run.count(point["block"]) > 0 && !single_numbers(point) && point["parts"] == 1 &&
                                    point["pads"] > 1 && point["pads"] <= machine.pad.count &&
                                    point["unroll"] % point["pads"] == 0 && blocks.run_fits(machine, point);
                         });
    space.constraint("pads", {"pads"}, "There are as many pads.",
                     [count = machine.pad.count](const Point &point) { return point["pads"] <= count; });
    space.constraint("parts", also({"pads", "block", "parts"}), "A block has as many equal parts as pads.",
                     [blocks = *this, machine, least](const Point &point) {
                         if (is_joined(point)) return point["parts"] == 1;
                         if (point["parts"] == all_in_pages)
                             return point["pads"] == halves_of_page * neighbours && blocks.half_of_page(machine) > 0 &&
                                    point["block"] == blocks.nest_.dims[0].extent;
                         if (point["parts"] == in_pages) return point["pads"] > 1 && blocks.has_pages(machine, point["block"]);
                         if (blocks.nest_.dims.size() > 1 && point["block"] < std::min(least, blocks.largest())) return false;
                         return point["parts"] == 0 || (machine.timed() && point["pads"] > 1 &&
                                                        blocks.part_of(blocks.tiling(machine, point), point["pads"]) > 1);
                     });
    space.constraint(
        "room", also({"pads", "block", "unroll", "parts"}), "A buffer fits its pads.",
        [blocks = *this, machine](const Point &point) {
            if (is_joined(point)) return true;
            const Tiling t = blocks.tiling(machine, point);
            const int64_t slots = t.blocks > 1 && machine.timed() ? 2 : 1, buffers = blocks.operands_ + 1;
            const int64_t pads =
                point["parts"] > 0 ? point["pads"] : pads_in_turn(t, blocks.straight(machine, t, point), point["pads"]);
            const int64_t groups = std::max<int64_t>(1, machine.pad.count / pads);
            const int64_t rows = (t.vectors() + pads - 1) / pads * slots;
            // Operands of pages that begin anew stay in the pads.
            const int64_t own = point["parts"] == in_pages ? blocks.period() : 0,
                          stay = own < blocks.all_elements() ? ceil_div(own, machine.pad.count * lanes) * buffers : 0;
            return (buffers + groups - 1) / groups * rows + stay + blocks.small_operands_ + blocks.spread_rows(machine, t) <=
                   machine.pad_rows();
        });
    return space;
}

// Blocks are so many rows, or multiples of it: a round of the pads, or a vector of numbers with one for each row.
int64_t PointwiseBlocks::row_step(const Machine &machine) const { return !has_column() ? 4 : machine.timed() ? lanes : 8; }

// Elements of a row in one tile: all buffers must fit the pads with at least four rows (or one column of numbers) each.
int64_t PointwiseBlocks::most_cols(const Machine &machine) const {
    const int64_t slots = machine.timed() ? 2 : 1, rows = row_step(machine);
    const int64_t vectors = machine.pad.count * machine.pad_rows() / (slots * rows * (operands_ + 2));
    int64_t cols = longest_row;
    while (cols > lanes && cols / lanes > vectors) cols /= 2;
    return cols;
}

// The block parameter for about so many rows of 32.
int64_t PointwiseBlocks::size_of(const Machine &machine, int64_t rows) const {
    const int64_t n = nest_.dims[0].extent;
    if (nest_.dims.size() == 1) return round_down(std::min(n, rows * lanes));
    const int64_t high = std::max<int64_t>(1, rows * lanes / round_up(std::min(n, most_cols(machine)), lanes));
    const int64_t step = row_step(machine);
    if (largest() < step) return largest();
    return std::min(largest() / step * step, std::max(step, high / step * step));
}

Tiling PointwiseBlocks::tiling(const Machine &machine, const Point &point) const {
    if (point["parts"] == all_in_pages) {
        Tiling t;
        t.height = t.rows = halves_of_page;
        t.planes = neighbours;
        t.width = t.cols = t.stored_cols = nest_.dims[0].extent / (t.rows * t.planes);
        return t;
    }
    if (meets_patterns(point)) return tiling_of_patterns(machine, point["block"]);
    return in_turns(point) ? tiling_of_run(point["block"]) : tiling(machine, point["block"], point["parts"] == 1);
}

Tiling PointwiseBlocks::tiling_of_run(int64_t block) const {
    const JoinedRows run = run_.in_blocks_of(block);
    Tiling t;
    t.width = run.elements * run.rows;
    t.cols = t.stored_cols = run.vectors(block) * lanes;
    t.blocks = run.blocks(block);
    return t;
}

Tiling PointwiseBlocks::tiling_of_patterns(const Machine &machine, int64_t block) const {
    Tiling t;
    t.width = patterns_.elements;
    t.cols = t.stored_cols = block;
    t.blocks = patterns_.images * ceil_div(patterns_.whole(machine), block);
    return t;
}

std::set<int64_t> PointwiseBlocks::blocks_of_patterns(const Machine &machine) const {
    constexpr int64_t least = 4096, most = 16384;
    std::set<int64_t> blocks, sizes = {least, 2 * least, most};
    if (patterns_.in_images()) sizes.insert(std::clamp(patterns_.whole(machine), least, most));
    if (patterns_.exists())
        for (const int64_t block : sizes)
            if (patterns_.fits(machine, block, small_operands_)) blocks.insert(block);
    return blocks;
}

bool PointwiseBlocks::run_fits(const Machine &machine, const Point &point) const {
    constexpr int64_t most_again = 8;
    const int64_t pads = point["pads"], block = point["block"], of_pad = block / pads;
    const JoinedRows run = run_.in_blocks_of(block);
    const int64_t whole = run.whole(), count = ceil_div(whole, block), blocks = run.images * count;
    // The last block, which begins earlier, makes few rows again.
    if (block > whole || block % (pads * run.period()) != 0 || (count * block - whole) * most_again > whole) return false;
    const RowTurn turn = RowTurn::of(run, point["unroll"] / pads);
    const std::vector<int64_t> straight = RowTurn::choices(run, pads);
    if (std::ranges::find(straight, point["unroll"]) == straight.end() || of_pad % turn.rows != 0) return false;
    // Numbers begin anew between rows that come together, or among those of all pads.
    const int64_t together = run.rows_together(machine, pads, block);
    if (run.rows > run_.rows && together % run_.rows != 0 && run_.rows % (pads * together) != 0) return false;
    const int64_t slots = blocks > 1 ? 2 : 1, numbers = run_.numbers_of_block(block), groups = machine.pad.count / pads,
                  buffers = run.operands + 1,
                  small =
                      small_operands_ + run.inputs * slots * tiles_of(numbers) + run.numbers * (round_up(numbers, lanes) + 1);
    return (buffers + groups - 1) / groups * run.vectors(of_pad) * slots + small <= machine.pad_rows();
}

// Of every size up to twice as many vectors the rows whose transfers take least time, and all.
std::set<int64_t> PointwiseBlocks::blocks_of_run(const Machine &machine) const {
    constexpr int64_t least = 128, most = 4096;  // vectors
    std::set<int64_t> blocks;
    if (!machine.timed() || !run_.exist()) return blocks;
    const int64_t whole = run_.whole();
    for (const int64_t pads : pads_of_parts) {
        const int64_t step = pads * run_.period();
        std::map<int, std::pair<double, int64_t>> best;  // by size
        for (int64_t rows = step; pads > 1 && rows <= whole && run_.vectors(rows) <= most; rows += step) {
            const auto again = static_cast<double>(ceil_div(whole, rows) * rows - whole) / static_cast<double>(whole);
            const std::pair<double, int64_t> cost = {run_.slowdown(machine, pads, rows / pads) + again, rows};
            if (run_.vectors(rows) < least) continue;
            const auto [found, first] = best.try_emplace(std::bit_width(static_cast<uint64_t>(run_.vectors(rows))), cost);
            if (!first) found->second = std::min(found->second, cost);
        }
        for (const auto &[size, cost] : best) blocks.insert(cost.second);
    }
    const int64_t all = run_.rows * run_.images;
    if (whole == run_.rows && all % (2 * run_.period()) == 0) blocks.insert(all);
    return blocks;
}

std::set<int64_t> PointwiseBlocks::unrolls_of_run() const {
    std::set<int64_t> found;
    for (const int64_t pads : pads_of_parts)
        if (pads > 1)
            for (const int64_t unroll : RowTurn::choices(run_, pads)) found.insert(unroll);
    return found;
}

Tiling PointwiseBlocks::tiling(const Machine &machine, int64_t block, bool in_parts) const {
    const int64_t pads = machine.pad.count;
    Tiling t;
    t.width = nest_.dims[0].extent;
    t.height = largest();
    if (nest_.dims.size() == 1) {
        t.cols = block;
        t.rows = 1;
    } else {
        const int64_t most = most_cols(machine);
        t.cols = t.width <= most ? t.width : std::max<int64_t>(lanes, most / 2);
        t.rows = std::min(block, t.height);
    }
    if (block > t.height && nest_.dims.size() > 2) t.planes = block / t.height;
    t.guarded = t.cols % lanes != 0;
    t.stored_cols = round_up(t.cols, lanes);
    if (nest_.dims.size() > 1 && !in_parts && t.stored_cols > 2 * lanes) t.stored_cols = round_up(t.cols, pads * lanes);
    t.blocks = ((t.width + t.cols - 1) / t.cols) * ((t.height + t.rows - 1) / t.rows);
    for (size_t d = 2; d < nest_.dims.size(); d++)
        t.blocks *= d > 2 ? nest_.dims[d].extent : (nest_.dims[d].extent + t.planes - 1) / t.planes;
    return t;
}

StraightVectors PointwiseBlocks::straight(const Machine &machine, const Tiling &t, const Point &point) const {
    if (in_turns(point)) return {point["unroll"], 1};
    const int64_t unroll = point["unroll"], pads = point["pads"], share = point["parts"] == 1 ? part_of(t, pads) : 0;
    const auto of_each = [&](int64_t most) {
        return pads * largest_divisor(share, std::clamp<int64_t>(most / pads, 1, share));
    };
    if (share > 0 && nest_.dims.size() == 1) return {of_each(unroll), 1};
    if (has_column() && !machine.timed()) return {1, t.rows % lanes == 0 ? lanes : t.rows};
    const int64_t vectors = t.stored_cols / lanes, across = largest_divisor(vectors, std::min(vectors, unroll));
    if (share > 0 && t.planes > 1)
        return {across, largest_divisor(t.rows, std::clamp<int64_t>(unroll / pads / across, 1, t.rows)), pads};
    if (share > 0) return {across, of_each(unroll / across)};
    // Numbers of rows are held while a row is computed.
    if (nest_.dims.size() == 1 || (has_column() && across < vectors)) return {across, 1};
    const int64_t down = largest_divisor(t.rows, std::clamp<int64_t>(unroll / across, 1, t.rows));
    return {across, down,
            down < t.rows ? 1 : largest_divisor(t.planes, std::clamp<int64_t>(unroll / (across * down), 1, t.planes))};
}

int64_t PointwiseBlocks::all_elements() const {
    int64_t all = 1;
    for (const LoopNest::Dim &dim : nest_.dims) all *= dim.extent;
    return all;
}

int64_t PointwiseBlocks::period() const {
    const int64_t all = all_elements();
    int64_t period = all;
    for (size_t i = 0; i < nest_.dims[0].present.size(); i++) {
        if (nest_.is_single(i)) continue;
        int64_t own = 1;
        bool outer = false;  // a dimension that it does not have
        for (size_t d = 0; d < nest_.dims.size(); d++) {
            if (!nest_.is_present(i, d))
                outer = true;
            else if (outer)
                return 0;
            else
                own *= nest_.dims[d].extent;
        }
        if (own == all) continue;
        if (period != all && own != period) return 0;
        period = own;
    }
    return period;
}

bool PointwiseBlocks::has_pages(const Machine &machine, int64_t block) const {
    const int64_t page = page_elements(machine), piece = elements_of(block) / 2, all = all_elements(), own = period();
    return machine.timed() && parts_ == 0 && piece > 0 && page > 0 && piece % (4 * lanes) == 0 && page % piece == 0 &&
           all % (2 * page) == 0 && own > 0 && own % piece == 0 && (own == all || own % (2 * page) == 0 || page % own == 0);
}

int64_t PointwiseBlocks::half_of_page(const Machine &machine) const {
    const int64_t page = page_elements(machine), pads = halves_of_page * neighbours;
    if (!machine.timed() || machine.pad.count != pads || parts_ != 0 || nest_.dims.size() != 1 ||
        page != halves_of_page * tiles_of_half * machine.sdma.max_rows * lanes)
        return 0;
    const int64_t fewest_rows = machine.sdma.max_rows * 3 / 4;
    for (int64_t rows = machine.sdma.max_rows; rows >= fewest_rows; rows--)
        if (const int64_t half = tiles_of_half * rows * lanes; nest_.dims[0].extent % (pads * half) == 0) return half;
    return 0;
}

bool PointwiseBlocks::is_joined(const Point &point) { return point.contains("joined") && point["joined"] != 0; }

bool PointwiseBlocks::single_numbers(const Point &point) { return point.contains("numbers") && point["numbers"] != 0; }

TransferCost PointwiseBlocks::transfers_of_block(const Machine &machine, const Point &point) const {
    const Tiling t = tiling(machine, point);
    const bool in_parts = point["parts"] == 1;
    const int64_t pads = in_parts ? point["pads"] : pads_in_turn(t, straight(machine, t, point), point["pads"]),
                  vectors = t.stored_cols / lanes, share = in_parts ? part_of(t, pads) : 0,
                  part = share * (nest_.dims.size() == 1 ? 1
                                  : t.planes > 1         ? t.rows * vectors
                                                         : vectors);
    TransferCost cost(machine, pads, t.guarded);
    for (int64_t row = 0; row < t.planes * t.rows; row++)
        for (int64_t vector = 0; vector * lanes < t.cols; vector++) {
            const int64_t at = row * vectors + vector;
            cost.add(part > 0 ? at / part : at % pads, row * t.width + vector * lanes,
                     std::min<int64_t>(lanes, t.cols - vector * lanes));
        }
    return cost;
}

// Fitted together with PointwiseWorkload::draft.
PointwiseBlocks::Transfers PointwiseBlocks::transfers(const Machine &machine, const Point &point) const {
    constexpr double interleaved = 1.43, interleaved_rows = 1.26, one_block = 1.16, quarter_of_page = 1.2,
                     less_than_a_page = 1.45, more_than_a_page = 1.49, half_the_pads = 0.19, beats_of_vector = 2;
    if (!machine.timed()) return {};
    const Tiling t = tiling(machine, point);
    const int64_t page = page_elements(machine), part = t.vectors() * lanes / point["pads"];
    const bool in_parts = point["parts"] == 1, divides = page % part == 0;
    const bool open = point["parts"] >= in_pages || (in_parts && divides && 2 * part >= page);
    const bool rows = nest_.dims.size() > 1, long_rows = rows && t.stored_cols > 2 * lanes,
               pages = t.planes * t.rows * t.cols >= 2 * page;
    const double around = t.blocks == 1        ? one_block
                          : long_rows && pages ? interleaved_rows
                                               : interleaved,
                 part_of_page = divides && 4 * part >= page ? quarter_of_page
                                : part < page               ? less_than_a_page
                                                            : more_than_a_page;
    const double takes_turns =
        (open || (in_parts && t.planes > 1 && t.blocks > 1) ? 1
         : in_parts                                         ? part_of_page
                                                            : around) *
        (1 + half_the_pads * std::log2(static_cast<double>(machine.pad.count) / static_cast<double>(point["pads"])));
    // Blocks of pages are in two bank groups all the time.
    if (point["parts"] >= in_pages) return {takes_turns, 0};
    const TransferCost cost = transfers_of_block(machine, point);
    return {std::max(takes_turns, cost.cycles() / (beats_of_vector * static_cast<double>(t.vectors()))),
            cost.transfers() - ceil_div(t.vectors(), machine.sdma.max_rows)};
}

PointwiseBlocks::Pages PointwiseBlocks::pages_of(const Machine &machine, int64_t block) const {
    const int64_t page = page_elements(machine), piece = elements_of(block) / 2, all = all_elements(), own = period();
    Pages pages;
    // `of_short`: operands without outer dimensions have it.
    const auto add = [&](int64_t extent, int64_t stride, bool of_short) {
        LoopNest::Dim dim{extent, {}};
        for (size_t i = 0; i < nest_.dims[0].present.size(); i++)
            dim.present.push_back(!nest_.is_single(i) && (of_short || nest_.is_present(i, nest_.dims.size() - 1)));
        pages.nest.dims.push_back(dim);
        pages.strides.push_back(stride);
    };
    add(piece, 1, true);
    add(2, page, own % (2 * page) == 0);
    add(std::min(own, page) / piece, piece, true);
    if (own < page) add(page / own, own, false);
    const int64_t pairs = own % (2 * page) == 0 ? own / (2 * page) : 0;
    if (pairs > 0) add(pairs, 2 * page, true);
    if (pairs == 0 || own < all) add(all / std::max(own, 2 * page), std::max(own, 2 * page), false);
    return pages;
}

LoopNest PointwiseBlocks::halves_of_pages(const Machine &machine) const {
    const int64_t half = half_of_page(machine);
    LoopNest nest;
    for (int64_t extent : {half, halves_of_page, neighbours, nest_.dims[0].extent / (neighbours * halves_of_page * half)})
        nest.dims.push_back({extent, nest_.dims[0].present});
    return nest;
}

Tiling PointwiseBlocks::pages_tiling(int64_t block) const {
    Tiling t;
    t.width = t.cols = t.stored_cols = elements_of(block) / 2;
    t.height = t.rows = 2;
    return t;
}

// Of the dimension that is divided among the pads (vectors of a row, rows, or planes), what one of them gets; 0: it does not
// divide.
int64_t PointwiseBlocks::part_of(const Tiling &t, int64_t pads) const {
    const int64_t all = nest_.dims.size() == 1 ? t.stored_cols / lanes : t.planes > 1 ? t.planes : t.rows;
    return all % pads == 0 ? all / pads : 0;
}

bool PointwiseBlocks::fits(const Machine &machine, const Tiling &t) const {
    const int64_t slots = t.blocks > 1 && machine.timed() ? 2 : 1;
    const int64_t rows = round_up(t.vectors(), machine.pad.count) * slots;
    return rows * (operands_ + 1) + machine.pad.count * (small_operands_ + spread_rows(machine, t)) <=
               machine.pad.count * machine.pad_rows() &&
           rows <= 4 * most_buffer_rows;
}

}  // namespace atalla
