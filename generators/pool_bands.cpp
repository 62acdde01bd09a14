// Means of windows over planes in PyTorch's layout that overlap or reach out of the image. Vectors are bands: rows of the image
// as they follow each other in memory, as many as a vector holds. A product with constant weights takes a band's elements to
// its results, and a second one those of the bands beside it, of which a vector has the first rows of one and the last rows of
// the other. Of bands of one row the lanes add the rows of a window first.
#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "generators/pad_room.h"
#include "generators/pool.h"
#include "generators/pool_transfers.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

constexpr int64_t most_bands = 56;  // of a plane in straight-line code
constexpr int64_t few_bands = 16;   // loops whose turns take so many have twice as many turns as transfers

// How vectors lie on a plane.
struct BandPlan {
    int64_t rows = 0;        // of the image in a band; 0: windows do not fit
    int64_t of_results = 1;  // rows of results that a band has
    int64_t above = 0;       // rows of the band above that its windows see
    int64_t below = 0;       // and of that below
    int64_t pieces = 1;      // of a row of the image
    int64_t results = 0;     // of a row of a piece
    int64_t columns = 0;     // elements of a row of a piece

    explicit BandPlan(const PoolShape &shape) : shape_(&shape) {
        take_several_rows();
        if (rows == 0) take_one_row();
    }

    // Bands of results, and of the image.
    int64_t bands() const { return shape_->y.results / of_results; }
    int64_t image_bands() const { return shape_->y.size / rows; }
    // The bands of a pad's planes follow each other in memory as in the pad; straight-line code takes the bands of a plane, and
    // a row of zeros stands for those outside of it. Many single rows are a loop instead, with rows of zeros between planes:
    // those below one are those above the next.
    bool single_rows() const {
        return rows == 1 && shape_->y.stride == 1 && !shape_->y.adaptive && shape_->y.results > few_bands;
    }
    int64_t zeros() const { return shape_->y.padding; }
    // Rows that the windows of a plane see.
    int64_t seen() const { return bands() + shape_->y.kernel - 1; }
    // From plane to plane of single rows, which come in pairs.
    int64_t pitch() const { return round_up(std::max(zeros() + shape_->y.size, seen() - zeros()), int64_t{2}); }
    // Vectors that so many planes take, and their results.
    int64_t places(int64_t planes) const {
        return single_rows() ? planes * pitch() + shape_->y.kernel : planes * image_bands() + 1;
    }
    int64_t sums(int64_t planes) const { return planes * (single_rows() ? pitch() : bands()); }
    // A band's results come from two products.
    bool beside() const { return above > 0 || below > 0; }

    // Where the elements of a piece begin, and the windows that it has.
    int64_t start(int64_t piece) const { return rows > 1 ? 0 : std::clamp<int64_t>(first(piece), 0, shape_->x.size - columns); }
    int64_t results_of(int64_t piece) const { return std::min(results, shape_->x.results - piece * results); }
    // Of a band.
    int64_t elements() const { return rows * columns; }

    // Of a plane, whose rows begin anywhere in a beat of the bus.
    double beats() const {
        double sum = 0;
        for (int64_t piece = 0; piece < pieces; piece++)
            sum +=
                static_cast<double>(image_bands()) * mean_beats(shape_->x.size * rows, start(piece), elements()) +
                static_cast<double>(bands()) * mean_beats(shape_->x.results, piece * results, of_results * results_of(piece));
        return sum;
    }

private:
    // As many as there can be in a band, of which all planes have a whole number.
    void take_several_rows() {
        const PoolAxis &x = shape_->x, &y = shape_->y;
        for (int64_t n = y.adaptive ? 1 : std::min(lanes / x.size, y.size); n > 1 && rows == 0; n--) {
            const int64_t windows = n / y.stride,
                          under = std::max<int64_t>(0, (windows - 1) * y.stride + y.kernel - y.padding - n);
            if (n % y.stride != 0 || y.size % n != 0 || y.results % windows != 0 || y.results / windows > most_bands ||
                windows * x.results > lanes || y.padding + under > n)
                continue;
            rows = n;
            of_results = windows;
            above = y.padding;
            below = under;
            results = x.results;
            columns = x.size;
        }
    }
    // Pieces that have all elements of their windows.
    void take_one_row() {
        constexpr int64_t most_pieces = 4, most_rows = 16, most_additions = 256;  // in straight-line code
        for (pieces = 1; pieces <= most_pieces; pieces++) {
            results = ceil_div(shape_->x.results, pieces);
            if (results > lanes || results * (pieces - 1) >= shape_->x.results) continue;
            columns = 0;
            for (int64_t piece = 0; piece < pieces; piece++)
                columns = std::max(columns, end(piece) - std::max<int64_t>(0, first(piece)));
            if (columns > lanes) continue;
            rows = 1;
            if (single_rows() ? shape_->y.kernel > most_rows
                              : bands() > most_bands || bands() * shape_->y.kernel > most_additions)
                rows = 0;
            return;
        }
    }
    int64_t first(int64_t piece) const { return shape_->x.first(piece * results); }
    int64_t end(int64_t piece) const {
        return std::min(shape_->x.size, shape_->x.end(std::min(shape_->x.results, (piece + 1) * results) - 1));
    }

    const PoolShape *shape_;
};

// How a point goes over the planes: so many in the pads at a time, a part of them in each pad.
struct Blocks {
    int64_t count, planes, parts, of_part;
    Blocks(const PoolShape &shape, const Machine &machine, const Point &point)
        : count(shape.images * shape.channels / point["planes"]),
          planes(point["planes"]),
          parts(planes % machine.pad.count == 0 ? machine.pad.count : 1),
          of_part(planes / parts) {}
};

class BandPool {
public:
    BandPool(const PoolShape &shape, const Machine &machine, const Point &point)
        : shape_(shape),
          plan_(shape),
          blocks_(shape, machine, point),
          unroll_(size(point["unroll"] * (plan_.single_rows() ? 1 : plan_.bands()))) {}

    KernelDefinition run() {
        out_(e, p, d, o) = undef<BFloat>();
        for (int64_t number = 0; number < plan_.pieces; number++) {
            pieces_.emplace_back(number);
            define(pieces_.back());
        }
        const std::vector<int64_t> extents = result_extents();
        out_.bound(e, 0, size(extents[0]))
            .bound(p, 0, size(extents[1]))
            .bound(d, 0, size(extents[2]))
            .bound(o, 0, size(extents[3]));
        whole_loops(out_);
        fix_shape(out_.output_buffer(), extents);
        for (Piece &piece : pieces_) schedule(piece);
        KernelDefinition kernel;
        kernel.pipeline = Pipeline(out_);
        kernel.add_input("X", image_);
        kernel.outputs = {{"Y", extents}};
        if (blocks_.parts > 1)
            for (const Piece &piece : pieces_) {
                kernel.lay_out(piece.raw, {0, plan_.places(blocks_.of_part)});
                for (const Product &product : piece.products) kernel.lay_out(product.sums, {0, sums_of_part()});
            }
        return kernel;
    }

private:
    struct Product {
        Func row, weights, part, sums;
        explicit Product(const std::string &name)
            : row("row_" + name), weights("weights_" + name), part("part_" + name), sums("sums_" + name) {}
    };
    struct Piece {
        int64_t number;
        std::string letter;
        Func raw, columns, table;
        RDom at;  // of the results
        std::deque<Product> products;
        explicit Piece(int64_t n)
            : number(n),
              letter(1, static_cast<char>('a' + n)),
              raw("raw_" + letter),
              columns("columns_" + letter),
              table("table_" + letter) {}
    };

    int64_t sums_of_part() const { return plan_.sums(blocks_.of_part); }
    // Bands follow each other in memory. Planes of single rows do not in the pads.
    std::vector<int64_t> image_extents() const {
        if (plan_.single_rows()) return {shape_.x.size * shape_.y.size, blocks_.of_part, blocks_.parts, blocks_.count};
        return {plan_.rows * shape_.x.size, blocks_.of_part * plan_.image_bands(), blocks_.parts, blocks_.count};
    }
    std::vector<int64_t> result_extents() const {
        if (plan_.single_rows()) return {shape_.x.results * shape_.y.results, blocks_.of_part, blocks_.parts, blocks_.count};
        return {plan_.of_results * shape_.x.results, blocks_.of_part * plan_.bands(), blocks_.parts, blocks_.count};
    }

    void define(Piece &piece) {
        define_bands(piece);
        define_table(piece);
        const auto product = [&](const std::string &name) -> Product & {
            piece.products.emplace_back(name);
            return piece.products.back();
        };
        if (plan_.rows == 1) {
            product(piece.letter).row(k, i, d, o) = sum_of_rows(piece.raw);
        } else {
            const auto band = [&](int at) { return band_of_plane(piece.raw, i % size(plan_.bands()) + at); };
            product(piece.letter).row(k, i, d, o) = band(0);
            if (plan_.beside())
                product(piece.letter + "_beside").row(k, i, d, o) =
                    plan_.below == 0   ? band(-1)
                    : plan_.above == 0 ? band(1)
                                       : select(k < size(plan_.below * plan_.columns), band(1), band(-1));
        }
        const int columns = size(plan_.results_of(piece.number));
        for (size_t n = 0; n < piece.products.size(); n++) {
            Product &one = piece.products[n];
            one.weights(k, w) = piece.table(k, w % columns, w / columns, size(static_cast<int64_t>(n)));
            one.part(l, i, d, o) = 0.0f;
            one.part(l, i, d, o) += f32(one.row(q_, i, d, o)) * f32(one.weights(q_, l));
            Expr value = bf16(one.part(l, i, d, o));
            if (n > 0) value = strict_float(piece.products[n - 1].sums(l, i, d, o) + value);
            one.sums(l, i, d, o) = value;
        }
        define_results(piece);
    }

    void define_results(Piece &piece) {
        const Func sums = piece.products.back().sums;
        const int first = size(piece.number * plan_.results), of_piece = size(plan_.results_of(piece.number));
        if (plan_.single_rows()) {
            piece.at = RDom(0, of_piece, 0, size(plan_.bands()), 0, size(blocks_.of_part), "at");
            const RVar x = piece.at[0], row = piece.at[1], plane = piece.at[2];
            out_(row * size(shape_.x.results) + x + first, plane, d, o) = sums(x, plane * size(plan_.pitch()) + row, d, o);
        } else {
            piece.at = RDom(0, size(plan_.of_results) * of_piece, 0, size(sums_of_part()), "at");
            const RVar x = piece.at[0], row = piece.at[1];
            out_(x + first, row, d, o) = sums(x, row, d, o);
        }
    }

    // A band of the plane that place `i` is in.
    Expr band_of_plane(const Func &raw, const Expr &at) const {
        const int bands = size(plan_.image_bands()), zeros = size(plan_.places(blocks_.of_part)) - 1;
        return raw(k, select(at < 0, zeros, select(at < bands, i / size(plan_.bands()) * bands + at, zeros)), d, o);
    }

    // Of the rows of a window. Windows of a row and the next one share the sum of the rows that both have, where rows are so
    // many.
    Expr sum_of_rows(const Func &raw) const {
        const int rows = size(shape_.y.kernel), down = size(shape_.y.stride), above = size(shape_.y.padding);
        const bool single = plan_.single_rows();
        const Expr own = single ? Expr(i) : i % size(plan_.bands());
        const auto row_at = [&](const Expr &at) { return single ? raw(k, at, d, o) : band_of_plane(raw, at - above); };
        const auto sum = [&](const Expr &first, int count) {
            Expr value = row_at(first);
            for (int row = 1; row < count; row++) value = strict_float(value + row_at(first + row));
            return value;
        };
        if (shape_.y.adaptive) {
            Expr first = size(shape_.y.first(shape_.y.results - 1));
            for (int64_t at = shape_.y.results - 1; at > 0; at--)
                first = select(own < size(at), size(shape_.y.first(at - 1)), first);
            return sum(first, rows);
        }
        if (rows <= down) return sum(own * down, rows);
        const Expr pair = own / 2 * (2 * down);
        const int shared = rows - down;
        const Expr alone = pair + own % 2 * rows;
        return strict_float(sum(pair + down, shared) + sum(alone, down));
    }

    // raw(element, place)
    void define_bands(const Piece &piece) {
        Func raw = piece.raw;
        const int start = size(plan_.start(piece.number)), planes = size(blocks_.of_part), end = size(plan_.elements());
        const Expr element = start + min(k, end - 1);
        raw(k, i, d, o) = bf16(0.0f);
        if (plan_.single_rows()) {
            const RDom in(0, size(shape_.y.size), 0, planes, "in");
            raw(k, in.y * size(plan_.pitch()) + in.x + size(plan_.zeros()), d, o) =
                select(k < end, image_(in.x * size(shape_.x.size) + element, in.y, d, o), undef<BFloat>());
        } else {
            const RDom in(0, planes * size(plan_.image_bands()), "in");
            raw(k, in.x, d, o) = select(k < end, image_(element, in.x, d, o), undef<BFloat>());
        }
    }

    // table(k, column, row, product): the weights of a band's results, which are those of the columns that a result sees in
    // the rows that it sees.
    void define_table(const Piece &piece) {
        Func columns = piece.columns, table = piece.table;
        const PoolAxis &axis = shape_.x;
        const auto lanes_from = [&](int64_t from, int64_t end) { return k >= size(from) && k < size(end); };
        columns(k, w) = bf16(0.0f);
        for (int64_t x = 0; x < plan_.results_of(piece.number); x++) {
            const int64_t at = piece.number * plan_.results + x, start = plan_.start(piece.number),
                          first = std::max<int64_t>(0, axis.first(at)) - start, end = std::min(axis.end(at), axis.size) - start;
            const auto elements = static_cast<double>(counted(axis, at, shape_.count_include_pad) * shape_.y.kernel);
            const Expr weight = bf16(static_cast<float>(1 / (shape_.divisor != 0 ? shape_.divisor : elements)));
            Expr value = bf16(0.0f);
            for (int64_t row = 0; row < plan_.rows && end > first; row++)
                value = select(lanes_from(row * plan_.columns + first, row * plan_.columns + end), weight, value);
            columns(k, size(x)) = value;
        }
        if (plan_.rows == 1) {
            table(k, w, r, s) = columns(k, w);
            return;
        }
        rows_ = Func("rows");
        rows_(k, w) = bf16(0.0f);
        const int64_t all = plan_.rows, width = plan_.columns;
        for (int64_t row = 0; row < plan_.of_results; row++) {
            const int64_t first = row * shape_.y.stride - shape_.y.padding, end = first + shape_.y.kernel;
            const auto seen = [&](int64_t from, int64_t behind, const Expr &otherwise) {
                return select(lanes_from(from * width, behind * width), bf16(1.0f), otherwise);
            };
            rows_(k, size(row)) = seen(std::max<int64_t>(first, 0), std::min(end, all), bf16(0.0f));
            if (!plan_.beside()) continue;
            Expr value = bf16(0.0f);
            if (first < 0) value = seen(all + first, all, value);
            if (end > all) value = seen(0, end - all, value);
            rows_(k, size(plan_.of_results + row)) = value;
        }
        table(k, w, r, s) = strict_float(columns(k, w) * rows_(k, s * size(plan_.of_results) + r));
    }

    void schedule(Piece &piece) {
        const LoopLevel block(out_, o);
        schedule_table(piece);
        piece.raw.compute_at(block)
            .vectorize(k, lanes)
            .bound_extent(k, lanes)
            .bound(i, 0, size(plan_.places(blocks_.of_part)))
            .bound(d, 0, size(blocks_.parts));
        two_slots(piece.raw);
        in_pads({piece.raw});
        const int results = size(plan_.of_results * plan_.results_of(piece.number));
        for (Product &product : piece.products) {
            Func sums = product.sums;
            const Var place("place_unroll"), pad("pad_unroll"), all("all");  // `all`: one turn, in front of which weights load
            sums.compute_at(block)
                .vectorize(l, lanes)
                .bound_extent(l, lanes)
                .bound(i, 0, size(sums_of_part()))
                .bound(d, 0, size(blocks_.parts))
                .split(i, all, i, size(sums_of_part()))
                .split(i, i, place, unroll_)
                .split(d, d, pad, size(blocks_.parts))
                .reorder(l, pad, place, i, d, all);
            if (&product == &piece.products.back()) two_slots(sums);
            product.weights.compute_at(sums, all)
                .vectorize(k, lanes)
                .bound_extent(k, lanes)
                .bound_extent(w, results)
                .bound_storage(w, lanes)
                .split(w, w, Var("w_unroll"), results);
            const LoopLevel one(sums, pad);
            as_array_row(product.part.compute_at(one), l, q_);
            product.row.compute_at(one).vectorize(k, lanes).bound_extent(k, lanes);
            in_registers({product.weights, product.part, product.row});
            in_pads({sums});
        }
    }
    void two_slots(Func f) const {
        if (blocks_.count > 1) f.hoist_storage_root().ring_buffer(2);
    }

    void schedule_table(const Piece &piece) {
        Func columns = piece.columns, table = piece.table;
        const auto whole = [&](Func f) {
            f.compute_root().bound(k, 0, lanes).bound(w, 0, lanes).vectorize(k, lanes);
            for (int u = 0; u < f.num_update_definitions(); u++) f.update(u).vectorize(k, lanes);
            in_pads({f});
        };
        whole(columns);
        if (rows_.defined()) whole(rows_);
        table.compute_root()
            .bound(k, 0, lanes)
            .bound(w, 0, size(plan_.results_of(piece.number)))
            .bound(r, 0, size(plan_.of_results))
            .bound(s, 0, size(static_cast<int64_t>(piece.products.size())))
            .vectorize(k, lanes);
        in_pads({table});
    }

    const PoolShape &shape_;
    const BandPlan plan_;
    const Blocks blocks_;
    const int unroll_;  // places of each pad in straight-line code
    Var k{"k"}, w{"w"}, l{"l"}, r{"r"}, s{"s"}, i{"i"}, e{"e"}, p{"p"}, d{"d"}, o{"o"};
    RDom q_{0, lanes, "q"};
    ImageParam image_ = tensor("X", image_extents());
    Func rows_, out_{"Y"};
    std::deque<Piece> pieces_;
};

bool fits(const PoolShape &shape, const Machine &machine, const Point &point) {
    const BandPlan plan(shape);
    const Blocks blocks(shape, machine, point);
    const int64_t slots = blocks.count > 1 ? 2 : 1;
    const bool round = blocks.parts > 1;
    std::vector<PadUse> uses;
    for (int64_t piece = 0; piece < plan.pieces; piece++) {
        const int64_t sums = plan.sums(blocks.of_part) * blocks.parts;
        uses.push_back({slots * plan.places(blocks.of_part) * blocks.parts, round});
        uses.push_back({slots * sums, round});
        if (plan.beside()) uses.push_back({sums, round});
        uses.insert(uses.end(), {{2 * lanes, false}, {lanes, false}, {lanes, false}});
    }
    return fit_pads(machine, uses);
}

std::vector<int64_t> planes_of(const PoolShape &shape, const Machine &machine) {
    constexpr int64_t most = 512;
    constexpr size_t choices = 8;
    std::vector<int64_t> all;
    for (const int64_t count : divisors(shape.images * shape.channels, most))
        if (fits(shape, machine, {{"planes", count}})) all.push_back(count);
    if (all.size() > choices) all.erase(all.begin(), all.end() - choices);
    return all;
}

Space space_of(const PoolShape &shape, const Machine &machine) {
    constexpr int64_t most_unrolled = 80;  // vectors
    const BandPlan plan(shape);
    const int64_t vectors = plan.single_rows() ? 1 : plan.bands();
    Space space;
    space.parameter("planes", "in the pads at a time", planes_of(shape, machine))
        .parameter("unroll", "planes of a pad, or rows of one, in straight-line code",
                   plan.single_rows() ? std::vector<int64_t>{2, 4, 6, 8} : std::vector<int64_t>{1, 2, 4, 8});
    space.constraint("whole unrolls", {"planes", "unroll"}, "What is in straight-line code divides that of a pad.",
                     [=](const Point &point) {
                         const int64_t planes = Blocks(shape, machine, point).of_part;
                         return (plan.single_rows() ? plan.sums(planes) : planes) % point["unroll"] == 0;
                     });
    space.constraint("code", {"planes", "unroll"},
                     "At most 80 vectors are in straight-line code, or those of a plane of each pad.", [=](const Point &point) {
                         return point["unroll"] == 1 ||
                                vectors * point["unroll"] * Blocks(shape, machine, point).parts <= most_unrolled;
                     });
    return space;
}

Point naive_point_of(const PoolShape &shape, const Machine &machine) {
    return {{"planes", planes_of(shape, machine).front()}, {"unroll", BandPlan(shape).single_rows() ? 2 : 1}};
}

bool takes(const PoolShape &shape, const Machine &machine) {
    const bool overlaps = shape.x.kernel > shape.x.stride || shape.y.kernel > shape.y.stride;
    if (!shape.planes_outermost || shape.kind != Pooling::Average || !machine.timed() ||
        !uniform(shape.y, shape.count_include_pad) || !(overlaps || reaches_out(shape.x) || reaches_out(shape.y)))
        return false;
    const BandPlan plan(shape);
    // A single result fills no tile of weights.
    return plan.rows > 0 && plan.of_results * plan.results_of(plan.pieces - 1) > 1 && !planes_of(shape, machine).empty();
}

double draft_of(const PoolShape &shape, const Machine &machine, const Point &point) {
    // Bands at the pace of the lanes, of the pads that straight-line code has or of the latency of the array, which bands in
    // straight-line code share; transfers beside them, but for the first and the last.
    constexpr double latency = 60, start = 3000, around = 300, of_nest = 150, lost = 1.3, beside = 0.3, pace = 2.5;
    const BandPlan plan(shape);
    const Blocks blocks(shape, machine, point);
    const auto real = [](int64_t n) { return static_cast<double>(n); };
    const int64_t products = plan.rows > 1 && plan.beside() ? 2 : 1,
                  vectors = point["unroll"] * blocks.parts * (plan.single_rows() ? 1 : plan.bands());
    const double additions = plan.rows > 1 ? real(products - 1) : real(shape.y.kernel) / 2,
                 loads = plan.rows > 1 ? real(products == 2 ? 4 : 1) : 1.5;
    const double each = std::max({real(machine.vec.ii) * additions, real(machine.vec.ii) * loads / real(blocks.parts),
                                  real(products) * latency / real(vectors), pace * real(products)});
    const double compute =
        real(plan.pieces * products) * of_nest + real(plan.pieces * plan.sums(blocks.planes)) * each + around;
    const double transfers = lost * plan.beats() * real(blocks.planes);
    return start + real(blocks.count) * (std::max(compute, transfers) + beside * std::min(compute, transfers)) + transfers;
}

}  // namespace

const PoolForm band_pool = {
    takes, space_of, naive_point_of, draft_of,
    [](const PoolShape &shape, const Machine &machine, const Point &point) { return BandPool(shape, machine, point).run(); }};

}  // namespace atalla
