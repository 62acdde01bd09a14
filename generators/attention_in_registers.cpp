// Attention on machines with small pads.
#include <algorithm>

#include "generators/attention_forms.h"
#include "generators/batch_vars.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// Vector registers that rows of the identity, a tile of keys or values, and what is on its way need.
constexpr int64_t registers_in_use = 140;

class RegisterAttentionPipeline {
public:
    RegisterAttentionPipeline(const AttentionShape &shape, const Machine &machine, const Point &point)
        : shape_(shape),
          machine_(machine),
          queries_(static_cast<int>(shape.queries)),
          keys_(static_cast<int>(shape.keys)),
          depth_(static_cast<int>(shape.depth)),
          width_(static_cast<int>(shape.width)),
          rows_(static_cast<int>(point["rows"])),
          pass_(static_cast<int>(point["pass"])) {}

    KernelDefinition build() {
        define_operands();
        define_scores();
        define_result();
        schedule();
        return attention_kernel(shape_, Pipeline(out), {q, key, value, mask});
    }

private:
    std::vector<Expr> args(std::vector<Expr> own, bool AttentionBatch::*has = nullptr) const {
        return batch_.args(std::move(own), has);
    }
    // One row through the array, with 32 vectors as weights.
    struct Dot {
        Func weights, part;
        explicit Dot(const std::string &name) : weights(name + "_weights"), part(name + "_part") {}
    };

    void define_operands() {
        const Expr at = c * lanes + k, row = tt * lanes + w;
        define_within(Qs, args({k, i, c}), at < depth_, q(tensor_args(shape_, batch_, 'q', min(at, depth_ - 1), i)));
        define_within(Kp, args({k, w, tt, c}), at < depth_ && row < keys_,
                      key(tensor_args(shape_, batch_, 'k', min(at, depth_ - 1), min(row, keys_ - 1))));
        define_within(Vp, args({k, w, tt, c}), at < width_ && row < keys_,
                      value(tensor_args(shape_, batch_, 'v', min(at, width_ - 1), min(row, keys_ - 1))));
        define(Ks, args({k, w, tt, c}), Kp(args({k, w, tt, c})));
        define(Vs, args({k, w, tt, c}), Vp(args({k, w, tt, c})));
        if (shape_.mask)
            define_within(Ms, args({j, i, tt}), tt * lanes + j < keys_,
                          mask(mask_args(batch_, {min(tt * lanes + j, keys_ - 1), i})));
        // V^T: its rows as weights and those of the identity through them.
        identity(k, w) = select(k == w, bf16(1.0f), bf16(0.0f));
        define(turn.weights, args({k, w, tt, c}), Vs(args({k, w, tt, c})));
        define(turn.part, args({k, w, tt, c}), 0.0f);
        turn.part(args({k, w, tt, c})) += f32(identity(r, w)) * f32(turn.weights(args({r, k, tt, c})));
        define(Vt, args({k, w, tt, c}), bf16(turn.part(args({k, w, tt, c}))));
    }

    void define_scores() {
        define(score.weights, args({k, w, tt, c}), Ks(args({k, w, tt, c})));
        define(score.part, args({j, i, tt, c}), 0.0f);
        score.part(args({j, i, tt, c})) += f32(Qs(args({r, i, c}))) * f32(score.weights(args({r, j, tt, c})));
        define(products, args({j, i, tt}), sum_start(machine_));
        products(args({j, i, over_depth.y})) =
            strict_float(products(args({j, i, over_depth.y})) + bf16(score.part(args({j, i, over_depth.y, over_depth.x}))));
        Expr e = products(args({j, i, tt}));
        if (shape_.scale != 1) e = strict_float(e * bf16(static_cast<float>(shape_.scale)));
        if (shape_.mask) e = strict_float(e + Ms(args({j, i, tt})));
        if (shape_.causal)
            e = select(j < min(i + 1, keys_) - tt * lanes, e, bf16(-infinity));
        else if (keys_ % lanes != 0)
            e = select(j < keys_ - tt * lanes, e, bf16(-infinity));
        define(X, args({j, i, tt}), e);
        // In float32, which Halide's JIT has a maximum of.
        define(largest_lanes, args({j, i}), lowest_score);
        largest_lanes(args({j, i})) = max(largest_lanes(args({j, i})), f32(X(args({j, i, tile}))));
        define(largest, args({i}), lowest_score);
        largest(args({i})) = max(largest(args({i})), largest_lanes(args({r, i})));
        define(M, args({j, i}), bf16(largest(args({i}))));
        define(p, args({j, i, tt}), machine_exp(strict_float(X(args({j, i, tt})) - M(args({j, i})))));
        define(sum_lanes, args({j, i}), p(args({j, i, 0})));
        if (key_tiles_ > 1) sum_lanes(args({j, i})) = strict_float(sum_lanes(args({j, i})) + p(args({j, i, more})));
        define(total, args({i}), 0.0f);
        total(args({i})) += f32(sum_lanes(args({r, i})));
    }

    void define_result() {
        define(pv.weights, args({k, w, tt, c}), Vt(args({k, w, tt, c})));
        define(pv.part, args({d, i, tt, c}), 0.0f);
        pv.part(args({d, i, tt, c})) += f32(p(args({r, i, tt}))) * f32(pv.weights(args({r, d, tt, c})));
        define(O, args({d, i, c}), sum_start(machine_));
        O(args({d, i, over_keys.y})) =
            strict_float(O(args({d, i, over_keys.y})) + bf16(pv.part(args({d, i, over_keys.x, over_keys.y}))));
        // At least 1, since the largest score gives exp(0), or 0 where all keys are hidden.
        define(sum, args({i}), bf16(total(args({i}))));
        define(inverse, args({i}),
               bf16(machine_rcp(select(strict_float(sum(args({i})) < bf16(1.0f)), bf16(1.0f), sum(args({i}))))));
        define(Y, args({d, i, c}), strict_float(O(args({d, i, c})) * inverse(args({i}))));
        define(out, tensor_args(shape_, batch_, 'o', d, i), Y(args({d % lanes, i, d / lanes})));
    }

    // Weights that are loaded at `level` of `consumer`, whose innermost loop over rows is `row`.
    static void schedule_dot(Dot &dot, Func consumer, const VarOrRVar &level, const VarOrRVar &row, const Var &lane,
                             const RDom &r, const Var &k, const Var &w) {
        dot.weights.compute_at(LoopLevel(consumer, level)).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(w, lanes);
        as_array_row(dot.part.compute_at(LoopLevel(consumer, row)), lane, r);
        in_registers({dot.weights, dot.part});
    }
    // A tile of keys or values, which passes through the pads in parts.
    void schedule_tile(Func registers, Func pads, Func consumer, const RVar &level) const {
        Var part("part");
        registers.compute_at(LoopLevel(std::move(consumer), level))
            .vectorize(k, lanes)
            .bound_extent(w, lanes)
            .split(w, part, w, pass_);
        pads.compute_at(registers, part).vectorize(k, lanes).bound_extent(k, lanes).bound_storage(w, pass_);
        in_registers({registers});
        in_pads({pads});
    }

    void schedule() {
        out.bound(d, 0, width_).bound(i, 0, queries_);
        Var io("io"), ip("ip"), lane("lane"), column("column");
        out.split(d, column, lane, lanes, TailStrategy::GuardWithIf)
            .split(i, io, ii, rows_, TailStrategy::ShiftInwards)
            .split(ii, ip, ii, pass_, TailStrategy::GuardWithIf);
        std::vector<VarOrRVar> order = {lane, ii, column, ip, io};
        batch_.add_loops(out, order);
        out.reorder(order);
        whole_loops(out);
        fix_shape(out.output_buffer(), shape_.out_extents());

        identity.compute_root().bound(k, 0, lanes).bound(w, 0, lanes).vectorize(k, lanes);
        const auto in_block = [&](Func f, const Var &vector) {
            f.compute_at(out, io).bound_extent(i, rows_).bound_extent(vector, lanes).vectorize(vector, lanes);
        };
        in_block(products, j);
        Var part("part");
        products.update()
            .split(i, part, i, pass_, TailStrategy::GuardWithIf)
            .reorder(j, i, part, over_depth.x, over_depth.y)
            .vectorize(j, lanes);
        Qs.compute_at(products, part).vectorize(k, lanes).bound_extent(k, lanes).bound_storage(i, pass_);
        schedule_dot(score, products, over_depth.x, i, j, r, k, w);
        schedule_tile(Ks, Kp, products, over_depth.x);

        in_block(X, j);
        X.split(i, part, i, pass_, TailStrategy::GuardWithIf).reorder(j, i, tt, part);
        if (shape_.mask) {
            Ms.compute_at(X, tt).vectorize(j, lanes).bound_extent(j, lanes).bound_storage(i, pass_);
            in_pads({Ms});
        }
        in_block(p, j);
        p.reorder(j, tt, i);
        M.compute_at(p, i).bound_extent(j, lanes).vectorize(j, lanes);
        largest_lanes.compute_at(p, i).vectorize(j, lanes).update().reorder(j, i, tile.x).vectorize(j, lanes);
        largest.compute_at(p, i).update().atomic().vectorize(r);

        in_block(O, d);
        O.update().reorder(d, i, over_keys.x, over_keys.y).vectorize(d, lanes);
        schedule_dot(pv, O, over_keys.x, i, d, r, k, w);
        Vt.compute_at(O, over_keys.x).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(w, lanes);
        schedule_dot(turn, Vt, w, w, k, r, k, w);
        turn.weights.compute_at(O, over_keys.x);
        schedule_tile(Vs, Vp, O, over_keys.x);

        for (Func f : {inverse, sum}) f.compute_at(out, io).bound_extent(i, rows_);
        sum_lanes.compute_at(sum, i).bound_extent(j, lanes).vectorize(j, lanes);
        if (key_tiles_ > 1) sum_lanes.update().vectorize(j, lanes);
        total.compute_at(sum, i).update().atomic().vectorize(r);
        Y.compute_at(out, column).vectorize(d, lanes).bound_extent(d, lanes).bound_storage(i, pass_);
        in_registers({identity, products, X, p, M, largest_lanes, largest, sum_lanes, total, sum, inverse, Vt, O});
        in_pads({Qs, Y});
    }

    const AttentionShape &shape_;
    const Machine &machine_;
    const int queries_, keys_, depth_, width_, rows_, pass_;
    const int key_tiles_ = tiles_of(keys_), depth_tiles_ = tiles_of(depth_), width_tiles_ = tiles_of(width_);
    const BatchVars<AttentionBatch> batch_{shape_.batch};

    ImageParam q = tensor("Q", shape_.q_extents()), key = tensor("K", shape_.k_extents()),
               value = tensor("V", shape_.v_extents()), mask = tensor("mask", shape_.mask_extents());
    Var d{"d"}, i{"i"}, j{"j"}, k{"k"}, w{"w"}, c{"c"}, tt{"tt"}, ii{"ii"};
    Func Qs{"Qs"}, Kp{"Kp"}, Ks{"Ks"}, Vp{"Vp"}, Vs{"Vs"}, Vt{"Vt"}, Ms{"Ms"}, identity{"identity"}, products{"products"},
        X{"X"}, largest_lanes{"largest_lanes"}, largest{"largest"}, M{"M"}, p{"p"}, sum_lanes{"sum_lanes"}, total{"total"},
        sum{"sum"}, inverse{"inverse"}, O{"O"}, Y{"Y"}, out{"O_out"};
    Dot turn{"turn"}, score{"score"}, pv{"pv"};
    RDom r{0, lanes, "r"}, over_depth{0, depth_tiles_, 0, key_tiles_, "over_depth"},
        over_keys{0, key_tiles_, 0, width_tiles_, "over_keys"}, tile{0, key_tiles_, "tile"},
        more{1, std::max(key_tiles_ - 1, 1), "more"};
};

Space space_of(const AttentionShape &shape, const Machine &machine) {
    std::vector<int64_t> rows, passes;
    const int64_t tiles = tiles_of(shape.keys) + tiles_of(shape.width);
    for (int64_t blocks = 1; blocks <= shape.queries; blocks++) {
        const int64_t block = ceil_div(shape.queries, blocks);
        if (block <= 64 && (rows.empty() || rows.back() != block)) rows.push_back(block);
    }
    std::reverse(rows.begin(), rows.end());
    for (int64_t pass = machine.pad.count; pass <= lanes / 2; pass *= 2) passes.push_back(pass);
    Space space;
    space.parameter("rows", "queries that one load of the keys and values serves", rows)
        .parameter("pass", "rows of each tensor that pass through the pads at once", passes);
    space.constraint(
        "registers", {"rows"}, "The scores of a block of queries and its results fit the register file.",
        [=, limit = machine.regs.vector - registers_in_use](const Point &point) { return point["rows"] * tiles <= limit; });
    space.constraint("pads", {"pass"}, "The parts of all tensors fit the pads together.",
                     [=, room = machine.pad.count * machine.pad_rows()](const Point &point) {
                         return point["pass"] * (4 + shape.mask) <= room;
                     });
    return space;
}

Point naive_point_of(const AttentionShape &shape, const Machine &machine) {
    const int64_t rows =
        shape.queries % 4 == 0 && 4 * (tiles_of(shape.keys) + tiles_of(shape.width)) <= machine.regs.vector - registers_in_use
            ? 4
            : 1;
    return {{"rows", rows}, {"pass", machine.pad.count}};
}

double draft_of(const AttentionShape &shape, const Machine &, const Point &point) {
    const auto rows = static_cast<double>(point["rows"]), passes = lanes / static_cast<double>(point["pass"]);
    const double blocks = static_cast<double>(ceil_div(shape.queries, point["rows"])),
                 transfers = 4 * (passes + static_cast<double>(ceil_div(point["rows"], point["pass"])));
    const double tile = static_cast<double>(tiles_of(shape.depth)) * (lanes + rows + transfers) +
                        static_cast<double>(tiles_of(shape.width)) * (3 * lanes + rows + transfers);
    return 60 + static_cast<double>(shape.problems()) * blocks * static_cast<double>(tiles_of(shape.keys)) * (tile + 4 * rows);
}

}  // namespace

const AttentionForm attention_in_registers = {[](const AttentionShape &, const Machine &machine) { return !machine.timed(); },
                                              space_of, naive_point_of, draft_of,
                                              [](const AttentionShape &shape, const Machine &machine, const Point &point) {
                                                  return RegisterAttentionPipeline(shape, machine, point).build();
                                              }};

}  // namespace atalla
