// Attention of a single query for each head.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "generators/attention_forms.h"
#include "generators/batch_vars.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// Tiles of keys whose scores are straight-line code in the softmax: they divide all.
int64_t tiles_of_step(const AttentionShape &shape) {
    constexpr int64_t most = 8;
    int64_t step = std::min(most, tiles_of(shape.keys));
    while (tiles_of(shape.keys) % step != 0) step--;
    return step;
}

// Rows of all pads together: two slots of the keys and of a column of the values; scores, weights and a mask, queries, results,
// and what each head has of its own.
bool fits(const AttentionShape &shape, const Machine &machine, const Point &point) {
    const int64_t depth = tiles_of(shape.depth),
                  of_head = (shape.mask ? 3 : 2) * tiles_of(shape.keys) + depth + tiles_of(shape.width) + 2;
    return 2 * point["tiles"] * lanes * (depth + 1) + point["heads"] * of_head + machine.pad.count <=
           machine.pad.count * machine.pad_rows() * 15 / 16;
}

class OneQueryAttention {
public:
    OneQueryAttention(const AttentionShape &shape, const Point &point)
        : shape_(shape),
          heads_(size(point["heads"])),
          tiles_(size(point["tiles"])),
          depth_together_(size(point["depth"])),
          step_(size(tiles_of_step(shape))),
          steps(0, key_tiles_ / step_, "steps"),
          summed(0, key_tiles_, "summed_alike") {}

    KernelDefinition build() {
        define_scores();
        define_softmax();
        define_result();
        schedule_scores();
        schedule_softmax();
        schedule_result();
        return attention_kernel(shape_, Pipeline(out), {q, key, value, mask});
    }

private:
    std::vector<Expr> args(std::vector<Expr> own) const { return batch_.args(std::move(own)); }
    // Two and two joined, until one is left.
    static Expr tree(std::vector<Expr> all, Expr (*join)(const Expr &, const Expr &)) {
        while (all.size() > 1) {
            const size_t half = (all.size() + 1) / 2;
            for (size_t n = 0; half + n < all.size(); n++) all[n] = join(all[n], all[half + n]);
            all.resize(half);
        }
        return all[0];
    }
    static Expr larger(const Expr &a, const Expr &b) { return strict_float(max(a, b)); }
    static Expr added(const Expr &a, const Expr &b) { return strict_float(a + b); }
    Expr scaled(const Expr &e) const {
        return shape_.scale == 1 ? e : strict_float(e * bf16(static_cast<float>(shape_.scale)));
    }
    // The tiles of a step of the softmax.
    std::vector<Expr> of_step(const Func &f) const {
        std::vector<Expr> all;
        for (int n = 0; n < step_; n++) all.push_back(f(args({j, steps * step_ + n})));
        return all;
    }

    // The sum over the depth, one tile of it after the other; the last may also scale and hide.
    void define_scores() {
        for (int n = 0; n < depth_tiles_; n++) {
            const std::string name = "_" + std::to_string(n);
            const Func &queries = Qs.emplace_back("Qs" + name), &keys = Ks.emplace_back("Ks" + name);
            const Expr at = n * lanes + k, inside = min(at, depth_ - 1), row = min(t, keys_ - 1);
            define_rows(queries, {k}, at < depth_, depth_ % lanes == 0, q(tensor_args(shape_, batch_, 'q', at, 0)),
                        q(tensor_args(shape_, batch_, 'q', inside, 0)));
            define_rows(keys, {k, t}, at < depth_ && t < keys_, depth_ % lanes == 0 && keys_ % lanes == 0,
                        key(tensor_args(shape_, batch_, 'k', at, t)), key(tensor_args(shape_, batch_, 'k', inside, row)));
            const Func &weights = weights_.emplace_back("weights" + name), &part = parts_.emplace_back("part" + name);
            define(weights, args({k, w, tt}), keys(args({k, tt * lanes + w})));
            define(part, args({j, tt}), 0.0f);
            Func sum = part;
            sum(args({j, tt})) += f32(queries(args({r}))) * f32(weights(args({r, j, tt})));
        }
        if (shape_.mask) {
            const Expr at = tt * lanes + k;
            define_rows(Ms, {k, tt}, at < keys_, keys_ % lanes == 0, mask(mask_args(batch_, {at, 0})),
                        mask(mask_args(batch_, {min(at, keys_ - 1), 0})));
        }
        define(X, args({j, tt}), undef<BFloat>());
        Expr score;
        for (int n = 0; n < depth_tiles_; n++) {
            const bool last = n + 1 == depth_tiles_, ends_pass = last || (n + 1) % depth_together_ == 0;
            Expr product = bf16(parts_[static_cast<size_t>(n)](args({j, tt})));
            if (!ends_pass) {
                // In front of the weights of the next tile: Halide realizes in the order of names what is read together.
                const Func &rounded = rounded_.emplace_back("dot_" + std::to_string(n));
                define(rounded, args({j, tt}), product);
                product = rounded(args({j, tt}));
            }
            const bool begins_pass = n % depth_together_ == 0;
            score = n == 0 ? product : strict_float((begins_pass ? X(args({j, tt})) : score) + product);
            if (last && !scales_late_) score = scaled(score);
            if (last && shape_.mask) score = strict_float(score + Ms(args({j, tt})));
            if (ends_pass) X(args({j, tt})) = score;
        }
        if (keys_ % lanes == 0) return;
        behind(j) = select(j < keys_ % lanes, bf16(0.0f), bf16(-infinity));
        X(args({j, key_tiles_ - 1})) = strict_float(X(args({j, key_tiles_ - 1})) + behind(j));
    }
    void define_rows(const Func &rows, std::vector<Expr> own, const Expr &inside, bool whole, const Expr &all,
                     const Expr &some) {
        if (whole)
            define(rows, args(std::move(own)), all);
        else
            define_within(rows, args(std::move(own)), inside, some);
    }

    void define_softmax() {
        // Where a mask hides all keys, no distance from minus infinity would be a number.
        define(largest_lanes, args({j}), bf16(lowest_score));
        largest_lanes(args({j})) = larger(largest_lanes(args({j})), tree(of_step(X), larger));
        define(largest, args({}), -infinity);
        largest(args({})) = max(largest(args({})), f32(largest_lanes(args({r}))));
        define(M, args({j}), bf16(largest(args({}))));
        const Expr distance = strict_float(X(args({j, tt})) - M(args({j})));
        define(p, args({j, tt}), machine_exp(scales_late_ ? scaled(distance) : distance));
        define(sum_lanes, args({j}), bf16(-0.0f));
        sum_lanes(args({j})) = added(sum_lanes(args({j})), tree(of_step(p), added));
        ones(k, w) = bf16(1.0f);
        define(total_part, args({j}), 0.0f);
        total_part(args({j})) += f32(sum_lanes(args({r}))) * f32(ones(r, j));
        define(total, args({j}), bf16(total_part(args({j}))));
        // At least 1, since the largest score gives exp(0), or 0 where a mask hides all keys.
        const Expr sum = total(args({0}));
        define(inverse, args({}),
               bf16(machine_rcp(shape_.mask ? select(strict_float(sum < bf16(1.0f)), bf16(1.0f), sum) : sum)));
    }

    void define_result() {
        const Expr at = c * lanes + d;
        define_rows(Vs, {d, t, c}, at < width_ && t < keys_, width_ % lanes == 0 && keys_ % lanes == 0,
                    value(tensor_args(shape_, batch_, 'v', at, t)),
                    value(tensor_args(shape_, batch_, 'v', min(at, width_ - 1), min(t, keys_ - 1))));
        std::vector<Expr> products;
        for (int n = 0; n < lanes; n++)
            products.push_back(strict_float(Vs(args({d, summed * lanes + n, c})) * p(args({n, summed}))));
        define(sums, args({d, c}), bf16(-0.0f));
        sums(args({d, c})) = added(sums(args({d, c})), tree(products, added));
        define(Y, args({d, c}), strict_float(sums(args({d, c})) * inverse(args({}))));
        define(out, tensor_args(shape_, batch_, 'o', d, i), Y(args({d % lanes, d / lanes})));
    }

    // ---- the schedule

    // Computed for the heads that go through each step together.
    void at_heads(Func f) const {
        f.compute_at(out, i);
        if (batch_.size() > 0) f.bound_extent(batch_.var(0), heads_);
    }
    // Rows of keys or values come while those before them are gone through, where all of these are alike.
    void come_ahead(Func f, const LoopLevel &level) const {
        f.compute_at(level).bound_extent(t, tiles_ * lanes);
        if (heads_ * (key_tiles_ / tiles_) > 1 && (tiles_ == key_tiles_ || keys_ % lanes == 0))
            f.hoist_storage(out, i).ring_buffer(2);
    }

    void schedule_scores() {
        at_heads(X);
        Var chunk("chunk");
        X.bound_extent(tt, key_tiles_).vectorize(j, lanes);
        for (int n = 0; n < depth_tiles_; n++) {
            const auto index = static_cast<size_t>(n);
            if (n % depth_together_ == 0) X.update(n / depth_together_).split(tt, chunk, tt, tiles_).vectorize(j, lanes);
            at_heads(Qs[index]);
            Qs[index].vectorize(k, lanes);
            come_ahead(Ks[index], LoopLevel(X, chunk));
            Ks[index].vectorize(k, lanes);
            weights_[index].compute_at(X, tt).bound_extent(k, lanes).bound_extent(w, lanes).vectorize(k, lanes);
            weights_[index].split(w, w, wi, lanes);
            schedule_part(parts_[index], LoopLevel(X, tt));
            in_pads({Qs[index], Ks[index]});
            in_registers({weights_[index], parts_[index]});
        }
        for (Func f : rounded_) {
            f.compute_at(X, tt).bound_extent(j, lanes).vectorize(j, lanes);
            in_registers({f});
        }
        if (shape_.mask) {
            at_heads(Ms);
            Ms.vectorize(k, lanes);
            in_pads({Ms});
        }
        if (keys_ % lanes != 0) {
            X.update(ceil_div(depth_tiles_, depth_together_)).vectorize(j, lanes);
            behind.compute_root().bound(j, 0, lanes).vectorize(j, lanes);
            in_pads({behind});
        }
        in_pads({X});
    }
    void schedule_part(Func part, const LoopLevel &level) const {
        as_array_row(part.compute_at(level).bound_extent(j, lanes), j, r);
    }

    void schedule_softmax() {
        for (Func f : {M, total}) {
            at_heads(f);
            f.bound_extent(j, lanes).vectorize(j, lanes);
        }
        over_steps(largest_lanes, of_head(M));
        largest.compute_at(of_head(M)).update().atomic().vectorize(r);
        over_steps(sum_lanes, of_head(total));
        schedule_part(total_part, of_head(total));
        ones.compute_at(total, Var::outermost()).bound(k, 0, lanes).bound(w, 0, lanes).vectorize(k, lanes);
        at_heads(p);
        Var step("step"), one("tt_unroll");
        p.bound_extent(tt, key_tiles_).split(tt, step, one, step_).vectorize(j, lanes);
        std::vector<VarOrRVar> order = {j, one};
        if (batch_.size() > 0) order.push_back(batch_.var(0));
        order.push_back(step);
        p.reorder(order);
        in_pads({M, total, p});
        in_registers({largest_lanes, largest, sum_lanes, total_part, ones});
    }
    void over_steps(Func f, const LoopLevel &level) const {
        f.compute_at(level).bound_extent(j, lanes).vectorize(j, lanes);
        f.update().reorder(j, steps.x).vectorize(j, lanes);
    }
    LoopLevel of_head(Func f) const { return batch_.size() > 0 ? LoopLevel(f, batch_.var(0)) : LoopLevel(f, Var::outermost()); }

    void schedule_result() {
        at_heads(Y);
        Y.bound_extent(c, width_tiles_).vectorize(d, lanes);
        inverse.compute_at(Y, c);
        sums.compute_at(Y, c).vectorize(d, lanes);
        RVar chunk("chunk_alike");
        sums.update().split(summed.x, chunk, summed.x, tiles_).reorder(d, summed.x, chunk, c).vectorize(d, lanes);
        come_ahead(Vs, LoopLevel(sums, chunk));
        Vs.vectorize(d, lanes).bound_extent(c, 1);
        in_pads({Vs, Y});
        in_registers({inverse, sums});

        out.bound(d, 0, width_).bound(i, 0, 1);
        Var lane("lane"), column("column");
        out.split(d, column, lane, lanes, TailStrategy::GuardWithIf);
        loop_over_batch(out, batch_, {lane, column}, i, Var("head"), heads_);
        fix_shape(out.output_buffer(), shape_.out_extents());
    }

    const AttentionShape &shape_;
    const int heads_, tiles_;   // that go through each step, and come, together
    const int depth_together_;  // tiles of the depth in one pass over the keys
    const int step_;            // tiles in straight-line code of the softmax
    const int keys_ = size(shape_.keys), depth_ = size(shape_.depth), width_ = size(shape_.width);
    const int key_tiles_ = size(tiles_of(keys_)), depth_tiles_ = size(tiles_of(depth_)), width_tiles_ = size(tiles_of(width_));
    const bool scales_late_ =
        shape_.scale > 0 && !shape_.mask;  // the distance from the largest score, where lanes have nothing else to multiply
    const BatchVars<AttentionBatch> batch_{shape_.batch};

    ImageParam q = tensor("Q", shape_.q_extents()), key = tensor("K", shape_.k_extents()),
               value = tensor("V", shape_.v_extents()), mask = tensor("mask", shape_.mask_extents());
    Var d{"d"}, i{"i"}, j{"j"}, k{"k"}, w{"w"}, c{"c"}, t{"t"}, tt{"tt"}, wi{"w_unroll"};
    Func X{"X"}, largest_lanes{"largest_lanes"}, largest{"largest"}, M{"M"}, p{"p_over_X"}, sum_lanes{"sum_lanes"},
        ones{"ones"}, total_part{"total_part"}, total{"total"}, inverse{"inverse"}, Vs{"Vs"}, Ms{"Ms"}, behind{"behind"},
        sums{"sums"}, Y{"Y"}, out{"O_out"};
    std::vector<Func> Qs, Ks, weights_, parts_;  // of each tile of the depth
    std::vector<Func> rounded_;                  // products
    RDom r{0, lanes, "r"}, steps, summed;
};

Point naive_point_of(const AttentionShape &, const Machine &) { return {{"heads", 1}, {"tiles", 1}, {"depth", 1}}; }

bool takes(const AttentionShape &shape, const Machine &machine) {
    return machine.timed() && shape.queries == 1 && !shape.causal && shape.key_tiles == 0 &&
           std::all_of(shape.batch.begin(), shape.batch.end(), [](const AttentionBatch &dim) { return dim.keys; }) &&
           fits(shape, machine, naive_point_of(shape, machine));
}

Space space_of(const AttentionShape &shape, const Machine &machine) {
    std::vector<int64_t> heads, tiles, depth = {1};
    if (tiles_of(shape.depth) > 1) depth.push_back(2);
    const int64_t all_heads = shape.batch.empty() ? 1 : shape.batch.back().extent, all_tiles = tiles_of(shape.keys);
    for (int64_t n = all_heads; n > 0; n--)
        if (all_heads % n == 0 && (n == 1 || shape.batch.back().masks_in_a_row(n))) heads.push_back(n);
    for (int64_t n = all_tiles; n > 0; n--)
        if (all_tiles % n == 0) tiles.push_back(n);
    Space space;
    space.parameter("heads", "heads that go through each step together", heads)
        .parameter("tiles", "tiles of 32 keys or values that come at a time", tiles)
        .parameter("depth", "tiles of the depth in one pass over the keys", depth);
    space.constraint("pads", {"heads", "tiles"}, "Keys and values that come and the scores fit the pads together.",
                     [shape, machine](const Point &point) { return fits(shape, machine, point); });
    return space;
}

double draft_of(const AttentionShape &shape, const Machine &, const Point &point) {
    const auto problems = static_cast<double>(shape.problems()), tiles = static_cast<double>(tiles_of(shape.keys)),
               together = static_cast<double>(point["tiles"]), depth = static_cast<double>(tiles_of(shape.depth)),
               width = static_cast<double>(tiles_of(shape.width)), of_pass = static_cast<double>(point["depth"]);
    // The first tiles are waited for, and each loop over those that come together fills and drains. Two tiles of the depth wait
    // for each other's transfers.
    const double waited_for = shape.keys % lanes != 0 && together < tiles ? 2 * problems * tiles : 0;
    constexpr double start = 4000, cold_group = 3000, first = 130, ends = 125, visit = 66, waits = 10, products = 98;
    return start + problems / static_cast<double>(point["heads"]) * (cold_group + first * together) + waited_for * first +
           problems * (tiles / together * ends * (std::ceil(depth / of_pass) + width) +
                       tiles * (depth * visit + std::floor(depth / 2) * (of_pass - 1) * waits + width * products));
}

}  // namespace

const AttentionForm attention_of_one_query = {
    takes, space_of, naive_point_of, draft_of,
    [](const AttentionShape &shape, const Machine &, const Point &point) { return OneQueryAttention(shape, point).build(); }};

}  // namespace atalla
