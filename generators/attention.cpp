#include "generators/attention.h"

#include <algorithm>
#include <string>

#include "generators/batch_vars.h"
#include "generators/vocabulary.h"
#include "isa/error.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// The lowest bf16 number: where the largest score of a row starts.
constexpr float lowest = -0x1.FEp127f;

std::vector<int64_t> with_batch(int64_t element, int64_t rows, const std::vector<AttentionBatch> &batch, bool AttentionBatch::*has, size_t inside) {
    std::vector<int64_t> extents = {element};
    for (size_t d = 0; d <= batch.size(); d++) {
        if (d == std::min(inside, batch.size())) extents.push_back(rows);
        if (d == batch.size()) break;
        const AttentionBatch &dim = batch[batch.size() - 1 - d];
        if (has == nullptr || dim.*has) extents.push_back(dim.extent);
    }
    return extents;
}

}  // namespace

int64_t AttentionShape::problems() const {
    int64_t n = 1;
    for (const AttentionBatch &dim : batch) n *= dim.extent;
    return n;
}
std::vector<int64_t> AttentionShape::q_extents() const { return with_batch(depth, queries, batch, nullptr, inside('q')); }
std::vector<int64_t> AttentionShape::k_extents() const { return with_batch(depth, keys, batch, &AttentionBatch::keys, inside('k')); }
std::vector<int64_t> AttentionShape::v_extents() const { return with_batch(width, keys, batch, &AttentionBatch::keys, inside('v')); }
std::vector<int64_t> AttentionShape::mask_extents() const { return with_batch(keys, queries, batch, &AttentionBatch::mask, 0); }
std::vector<int64_t> AttentionShape::out_extents() const { return with_batch(width, queries, batch, nullptr, inside('o')); }

namespace {

// A matrix product inside the pipeline: one k tile after the other, weights loaded outside the rows.
struct Dot {
    Func weights, part, rounded;

    explicit Dot(const std::string &name) : weights(name + "_weights"), part(name + "_part"), rounded(name + "_rounded") {}
};

class AttentionPipeline {
public:
    AttentionPipeline(const AttentionShape &shape, const Machine &machine, const Point &point)
        : shape_(shape), machine_(machine), point_(point), queries_(static_cast<int>(shape.queries)), keys_(static_cast<int>(shape.keys)),
          depth_(static_cast<int>(shape.depth)), width_(static_cast<int>(shape.width)), key_tiles_(static_cast<int>(tiles_of(shape.keys))), depth_tiles_(static_cast<int>(tiles_of(shape.depth))),
          // One more column of ones: the sum of p.
          width_tiles_(static_cast<int>(tiles_of(shape.width + 1))), rows_(static_cast<int>(std::min<int64_t>(point["rows"], shape.queries))),
          weight_unroll_(static_cast<int>(point["weight_unroll"])), row_unroll_(static_cast<int>(point["row_unroll"])), skips_(shape.skips_hidden(rows_)) {
    }

    KernelDefinition build() {
        define_operands();
        define_scores();
        define_result();
        schedule();
        return kernel();
    }

private:
    std::vector<Expr> args(std::vector<Expr> own, bool AttentionBatch::*has = nullptr) const { return batch_.args(std::move(own), has); }
    // Where an element of a row of the tensors is.
    std::vector<Expr> q_at(const Expr &element, const Expr &row) const { return batch_.tensor_args(element, row, nullptr, shape_.inside('q')); }
    std::vector<Expr> k_at(const Expr &element, const Expr &row) const { return batch_.tensor_args(element, row, &AttentionBatch::keys, shape_.inside('k')); }
    std::vector<Expr> v_at(const Expr &element, const Expr &row) const { return batch_.tensor_args(element, row, &AttentionBatch::keys, shape_.inside('v')); }
    // The same, of what each block of queries has its own.
    std::vector<Expr> own(std::vector<Expr> first) const {
        std::vector<Expr> all = args(std::move(first));
        if (skips_) all.push_back(ib);
        return all;
    }
    // Does a query of the block see a key of the tile?
    Expr seen(const Expr &tile) const { return tile * lanes < (ib + 1) * rows_; }


    void define_operands() {
        const Expr at = c * lanes + k;
        const auto place = own({k, i, c});
        const Expr query = skips_ ? ib * rows_ + i : Expr(i);
        if (depth_ % lanes != 0) define_within(Qs, place, at < depth_, q(q_at(min(at, depth_ - 1), query)));
        else define(Qs, place, q(q_at(at, query)));
        if (depth_ % lanes != 0 || keys_ % lanes != 0)
            define_within(Ks, args({k, t, c}), at < depth_ && t < keys_, key(k_at(min(at, depth_ - 1), min(t, keys_ - 1))));
        else define(Ks, args({k, t, c}), key(k_at(at, t)));
        if (keys_ % lanes != 0 || width_ % lanes != 0)
            define_within(Vs, args({d, t}), d < width_ && t < keys_, value(v_at(min(d, width_ - 1), min(t, keys_ - 1))));
        else define(Vs, args({d, t}), value(v_at(d, t)));
        // V^T: its rows as weights and those of the identity through them; then columns of ones.
        identity(k, w) = select(k == w, bf16(1.0f), bf16(0.0f));
        define(turn.weights, args({k, w, c, tt}), Vs(args({c * lanes + k, tt * lanes + w})));
        define(turn.part, args({k, d, tt}), 0.0f);
        turn.part(args({k, d, tt})) += f32(identity(r, d % lanes)) * f32(turn.weights(args({r, k, d / lanes, tt})));
        define(Vt, args({k, d, tt}), bf16(1.0f));
        Vt(args({k, columns, tt})) = bf16(turn.part(args({k, columns, tt})));
        if (shape_.mask) {
            if (keys_ % lanes != 0) define(Ms, args({k, i, tt}), select(tt * lanes + k < keys_, mask(args({min(tt * lanes + k, keys_ - 1), i}, &AttentionBatch::mask)), undef<BFloat>()));
            else define(Ms, args({k, i, tt}), mask(args({tt * lanes + k, i}, &AttentionBatch::mask)));
        }
    }

    // Tiles of keys whose scores are made alike: a stage for each tile of the depth, the first without an addition.
    struct Segment {
        Segment(const std::string &name, int first, int count, bool end, int depth_tiles) : tiles(first, count, name + "_tiles"), hides_end(end) {
            for (int c = 0; c < depth_tiles; c++) {
                const std::string stage = name + "_" + static_cast<char>('a' + c % 26) + (c < 26 ? "" : "_more");
                dots.emplace_back(stage);
                sums.emplace_back(stage + "_sum");
            }
        }
        RDom tiles;
        bool hides_end;   // the last tile, which is not full
        std::vector<Dot> dots;
        std::vector<Func> sums;   // of all depths but the last, which goes into the score
    };

    // A row of a product. Where some are left out, a step between them and what reads them keeps the condition away from the array.
    Expr row_of(Dot &dot, const std::vector<Expr> &place, const std::vector<Expr> &at) const {
        if (!skips_) return bf16(dot.part(own(at)));
        if (!dot.rounded.defined()) define(dot.rounded, own(place), bf16(dot.part(own(place))));
        return dot.rounded(own(at));
    }

    // The products of queries with one tile of keys, summed over the depth.
    Expr product(Segment &segment) {
        for (int n = 0; n < depth_tiles_; n++) {
            Dot &dot = segment.dots[static_cast<size_t>(n)];
            define(dot.weights, own({k, w, tt}), Ks(args({k, tt * lanes + w, n})));
            define(dot.part, own({j, i, tt}), 0.0f);
            dot.part(own({j, i, tt})) += f32(Qs(own({r, i, n}))) * f32(dot.weights(own({r, j, tt})));
            const Expr at = n + 1 < depth_tiles_ ? Expr(tt) : Expr(segment.tiles.x), term = row_of(dot, {j, i, tt}, {j, i, at});
            const Expr sum = n == 0 ? term : strict_float(segment.sums[static_cast<size_t>(n) - 1](own({j, i, at})) + term);
            if (n + 1 == depth_tiles_) return sum;
            define(segment.sums[static_cast<size_t>(n)], own({j, i, tt}), sum);
        }
        return {};
    }

    // What is added to scores: 0 where query i sees the key, else minus infinity.
    void define_penalties() {
        const Expr hidden = bf16(-INFINITY), seen = bf16(0.0f);
        behind(j) = select(j < keys_ % lanes, seen, hidden);
        // By the distance of the query from the first key of a tile.
        later(j, o) = seen;
        later(j, before) = hidden;
        later(j, diagonal) = select(j <= diagonal, seen, hidden);
    }

    void define_scores() {
        const int whole = keys_ / lanes;
        if (whole > 0) segments_.emplace_back("whole", 0, whole, false, depth_tiles_);
        if (whole < key_tiles_) segments_.emplace_back("last", whole, 1, true, depth_tiles_);
        define_penalties();
        if (skips_) {
            for (Segment &segment : segments_) segment.tiles.where(seen(segment.tiles.x));
            for (RDom *tiles : {&tile, &more, &visible}) tiles->where(seen(tiles->x));
        }
        define(X, own({j, i, tt}), undef<BFloat>());
        for (Segment &segment : segments_) {
            const Expr at = segment.tiles.x;
            Expr score = product(segment);
            if (shape_.scale != 1) score = strict_float(score * bf16(static_cast<float>(shape_.scale)));
            if (shape_.mask) score = strict_float(score + Ms(args({j, i, at})));
            if (segment.hides_end) score = strict_float(score + behind(j));
            if (shape_.causal) score = strict_float(score + later(j, (skips_ ? ib * rows_ + i : Expr(i)) - at * lanes));
            X(own({j, i, at})) = score;
        }
        // In float32, which Halide's JIT has a maximum of.
        define(largest_lanes, own({j, i}), lowest);
        largest_lanes(own({j, i})) = max(largest_lanes(own({j, i})), f32(X(own({j, i, tile}))));
        define(largest, own({i}), lowest);
        largest(own({i})) = max(largest(own({i})), largest_lanes(own({r, i})));
        define(M, own({j, i}), bf16(largest(own({i}))));
        define(p, own({j, i, tt}), undef<BFloat>());
        p(own({j, i, visible})) = machine_exp(strict_float(X(own({j, i, visible})) - M(own({j, i}))));
    }

    void define_result() {
        for (Dot *one : {&pv, &pv_rest}) {
            define(one->weights, own({k, w, c, tt}), Vt(args({k, c * lanes + w, tt})));
            define(one->part, own({d, i, c, tt}), 0.0f);
            one->part(own({d, i, c, tt})) += f32(p(own({r, i, tt}))) * f32(one->weights(own({r, d, c, tt})));
        }
        define(O, own({d, i, c}), bf16(pv.part(own({d, i, c, 0}))));
        if (key_tiles_ > 1) O(own({d, i, c})) = strict_float(O(own({d, i, c})) + row_of(pv_rest, {d, i, c, tt}, {d, i, c, more}));
        // At least 1, since the largest score gives exp(0), or 0 where all keys are hidden.
        const Expr sum = O(own({width_ % lanes, i, width_ / lanes}));
        define(inverse, own({i}), bf16(machine_rcp(select(strict_float(sum < bf16(1.0f)), bf16(1.0f), sum))));
        define(Y, own({d, i, c}), strict_float(O(own({d, i, c})) * inverse(own({i}))));
        std::vector<Expr> at = args({d % lanes, skips_ ? i % rows_ : Expr(i), d / lanes});
        if (skips_) at.push_back(i / rows_);
        define(out, batch_.tensor_args(d, i, nullptr, shape_.inside('o')), Y(at));
    }
    static Expr machine_rcp(Expr e) { return Internal::Call::make(Float(32), "atalla_rcp", {f32(std::move(e))}, Internal::Call::PureExtern); }

    // The weights of a product are loaded at `level` of `consumer`, whose innermost loop over rows is `row`.
    void schedule_dot(Dot &dot, Func consumer, VarOrRVar level, VarOrRVar row, Var lane) {
        dot.weights.compute_at(LoopLevel(consumer, level)).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(w, lanes);
        if (weight_unroll_ > 1) dot.weights.split(w, w, wi, weight_unroll_);
        dot.part.compute_at(LoopLevel(consumer, row)).vectorize(lane, lanes).update().reorder(r, lane).atomic().vectorize(lane, lanes).vectorize(r);
        in_registers({dot.weights, dot.part});
        if (!dot.rounded.defined()) return;
        dot.rounded.compute_at(LoopLevel(consumer, row)).vectorize(lane, lanes);
        in_registers({dot.rounded});
    }
    // Loops over lanes, rows and `outer`; the innermost loop over rows.
    template <class Scheduled>
    Var over_rows(Scheduled f, std::vector<VarOrRVar> order, const std::vector<VarOrRVar> &outer) {
        const VarOrRVar lane = order[0];
        if (row_unroll_ > 1) {
            f.split(i, i, iu, row_unroll_, TailStrategy::RoundUp);
            order.push_back(iu);
        }
        order.push_back(i);
        order.insert(order.end(), outer.begin(), outer.end());
        f.reorder(order).vectorize(lane, lanes);
        return row_unroll_ > 1 ? iu : i;
    }

    void schedule() {
        out.bound(d, 0, width_).bound(i, 0, queries_);
        Var io("io"), lane("lane"), column("column");
        out.split(d, column, lane, lanes, TailStrategy::GuardWithIf).split(i, io, ii, rows_, TailStrategy::ShiftInwards);
        std::vector<VarOrRVar> order = {lane, ii, column, io};
        batch_.add_loops(out, order);
        out.reorder(order);
        whole_loops(out);
        fix_shape(out.output_buffer(), shape_.out_extents());

        const auto at_block = [&](Func f) { f.compute_at(out, io).bound_extent(i, rows_).bound_storage(i, stored_rows()); };
        const int key_rows = key_tiles_ * lanes;
        // Keys and values stay for all queries of a head.
        const auto at_head = [&](Func f) {
            for (size_t b = 0; b < batch_.size(); b++)
                if (batch_.dim(b).keys) {
                    f.compute_at(out, batch_.var(b));
                    return;
                }
            f.compute_root();
        };
        identity.compute_root().bound(k, 0, lanes).bound(w, 0, lanes).vectorize(k, lanes);
        for (Func f : {Ks, Vs, Vt}) at_head(f);
        Ks.vectorize(k, lanes).bound_extent(t, key_rows).bound_extent(c, depth_tiles_);
        Vs.vectorize(d, lanes).bound_extent(t, key_rows).bound_extent(d, tiles_of(width_) * lanes);
        Vt.vectorize(k, lanes).bound_extent(d, width_tiles_ * lanes).bound_extent(tt, key_tiles_);
        Vt.update().split(columns.x, co, ci, lanes, TailStrategy::GuardWithIf);
        if (width_ % lanes == 0) Vt.update().split(ci, ci, cu, weight_unroll_).reorder(k, cu, ci, co, tt).vectorize(k, lanes);
        else Vt.update().reorder(k, ci, co, tt).vectorize(k, lanes);
        schedule_dot(turn, Vt, co, width_ % lanes == 0 ? cu : ci, k);

        Qs.vectorize(k, lanes);
        at_block(Qs);
        if (shape_.mask) {
            at_block(Ms);
            in_pads({Ms});
        }
        at_block(X);
        int update = 0;
        for (Segment &segment : segments_) {
            const Var row = over_rows(X.update(update++), {j}, {segment.tiles.x});
            schedule_dot(segment.dots.back(), X, segment.tiles.x, row, j);
            for (size_t n = 0; n + 1 < segment.dots.size(); n++) {
                Func sum = segment.sums[n];
                sum.compute_at(LoopLevel(X, segment.tiles.x)).bound_extent(i, rows_).bound_storage(i, stored_rows());
                schedule_dot(segment.dots[n], sum, tt, over_rows(sum, {j}, {tt}), j);
                in_pads({sum});
            }
        }
        if (keys_ % lanes != 0) {
            behind.compute_root().bound(j, 0, lanes).vectorize(j, lanes);
            in_pads({behind});
        }
        if (shape_.causal) {
            later.compute_root().bound(j, 0, lanes).vectorize(j, lanes);
            for (int u = 0; u < 2; u++) later.update(u).vectorize(j, lanes);
            in_pads({later});
        }

        // The largest score of some rows, in registers, and p of all their tiles.
        at_block(p);
        Stage exponentials = p.update();
        if (row_unroll_ > 1) exponentials.split(i, i, iu, row_unroll_, TailStrategy::RoundUp).reorder(j, iu, visible.x, i);
        else exponentials.reorder(j, visible.x, i);
        exponentials.vectorize(j, lanes);
        M.compute_at(p, i).bound_extent(j, lanes).vectorize(j, lanes);
        largest_lanes.compute_at(p, i).vectorize(j, lanes).update().reorder(j, i, tile.x).vectorize(j, lanes);
        largest.compute_at(p, i).update().atomic().vectorize(r);

        at_block(O);
        schedule_dot(pv, O, c, over_rows(O, {d}, {c}), d);
        if (key_tiles_ > 1) schedule_dot(pv_rest, O, c, over_rows(O.update(), {d}, {c, more.x}), d);
        at_block(Y);
        if (row_unroll_ > 1) Y.split(i, i, iu, row_unroll_, TailStrategy::RoundUp).reorder(d, c, iu, i);
        else Y.reorder(d, c, i);
        Y.bound_extent(c, tiles_of(width_)).unroll(c).vectorize(d, lanes);
        inverse.compute_at(Y, row_unroll_ > 1 ? iu : i);
        in_pads({Qs, Ks, Vs, Vt, identity, X, p, O, Y});
        in_registers({largest_lanes, largest, M, inverse});
    }
    int stored_rows() const {
        const int quantum = static_cast<int>(machine_.pad.count);
        return (rows_ + quantum - 1) / quantum * quantum;
    }

    KernelDefinition kernel() const {
        KernelDefinition kernel;
        kernel.pipeline = Pipeline(out);
        kernel.arguments = {q, key, value};
        kernel.inputs = {{"Q", shape_.q_extents()}, {"K", shape_.k_extents()}, {"V", shape_.v_extents()}};
        if (shape_.mask) {
            kernel.arguments.push_back(mask);
            kernel.inputs.push_back({"mask", shape_.mask_extents()});
        }
        kernel.outputs = {{"O", shape_.out_extents()}};
        return kernel;
    }

    const AttentionShape &shape_;
    const Machine &machine_;
    const Point &point_;
    const int queries_, keys_, depth_, width_, key_tiles_, depth_tiles_, width_tiles_, rows_, weight_unroll_;
    const int row_unroll_;
    const bool skips_;         // tiles that no query of a block sees
    const BatchVars<AttentionBatch> batch_{shape_.batch};

    ImageParam q = tensor("Q", shape_.q_extents()), key = tensor("K", shape_.k_extents()), value = tensor("V", shape_.v_extents()),
               mask = tensor("mask", shape_.mask_extents());
    Var d{"d"}, i{"i"}, j{"j"}, k{"k"}, w{"w"}, c{"c"}, t{"t"}, tt{"tt"}, ii{"ii"}, iu{"i_unroll"}, ib{"ib"}, o{"o"};
    Var wi{"w_unroll"};
    RVar co{"co"}, ci{"ci"}, cu{"c_unroll"};
    Func Qs{"Qs"}, Ks{"Ks"}, Vs{"Vs"}, Vt{"Vt"}, Ms{"Ms"}, identity{"identity"}, behind{"behind"}, later{"later"}, X{"X"}, largest_lanes{"largest_lanes"},
        largest{"largest"}, M{"M"}, p{"p"}, O{"O"}, inverse{"inverse"}, Y{"Y"}, out{"O_out"};
    Dot turn{"turn"}, pv{"pv"}, pv_rest{"pv_rest"};
    std::vector<Segment> segments_;
    RDom r{0, lanes, "r"}, columns{0, width_, "columns"}, tile{0, key_tiles_, "tile"}, more{1, std::max(key_tiles_ - 1, 1), "more"}, visible{0, key_tiles_, "visible"},
        before{-key_tiles_ * lanes, key_tiles_ * lanes, "before"}, diagonal{0, lanes - 1, "diagonal"};
};

}  // namespace

KernelDefinition attention(const AttentionShape &shape, const Machine &machine, const Point &point) {
    if (shape.queries < 1 || shape.keys < 1 || shape.depth < 1 || shape.width < 1 || shape.problems() < 1) throw Error("attention: sizes must be at least 1");
    return AttentionPipeline(shape, machine, point).build();
}

}  // namespace atalla
