#include "generators/group_norm_contiguous.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "generators/deviation.h"
#include "generators/group_norm_workload.h"
#include "generators/pad_room.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// Vectors of a tile, all of which have as many.
int64_t members(int64_t vectors) {
    constexpr int64_t least = 16;
    for (int64_t part = lanes; part >= least; part--)
        if (vectors % part == 0) return part;
    return 0;
}

class ContiguousGroupNorm : public GroupNorm {
public:
    using GroupNorm::GroupNorm;

protected:
    bool in_parts() const override { return true; }
    Space whole_space(const Machine &machine) const override {
        constexpr int64_t most_unrolled = 32, most_share = 24;  // of the vectors that no result needs
        std::vector<int64_t> unrolls;
        for (int64_t unroll = 1; unroll <= std::min(all(), most_unrolled); unroll++)
            if ((round_up(all(), unroll) - all()) * most_share <= all()) unrolls.push_back(unroll);
        const std::vector<int64_t> weights = {4, 8, 16, 32};
        Space space;
        space.parameter("vector_unroll", "vectors of the result in straight-line code", unrolls)
            .parameter("sum_unroll", "vectors that become weights in straight-line code, where they are summed", weights)
            .parameter("square_unroll", "the same, of squares", weights);
        add_skewed(space, machine,
                   {{"vector_unroll", unrolls.front()}, {"sum_unroll", weights.front()}, {"square_unroll", weights.front()}});
        space.constraint("pads", {"vector_unroll", "skewed"},
                         "A group as it comes and goes, the rows of all channels and the sums of tiles fit the pads.",
                         [=, this](const Point &point) {
                             if (point["skewed"] != 0) return skewed_fits(machine, point);
                             const int64_t slots = machine.timed() && shape_.groups * shape_.images > 1 ? 2 : 1;
                             std::vector<PadUse> uses = {{slots * image_rows(point), round(machine, point)},
                                                         {slots * result_rows(point), round(machine, point)},
                                                         {tiles(), false},
                                                         {tiles(), false}};
                             for (const bool given : {shape_.weight, shape_.bias})
                                 if (given)
                                     uses.insert(uses.end(), {{shape_.spread_rows(), false},
                                                              {tiles_of(shape_.all_channels()), false},
                                                              {shape_.groups * result_rows(point), false}});
                             return fit_pads(machine, uses);
                         });
        return space;
    }
    std::string whole_words(const Point &point) const override {
        return fmt::format(
            "{} vectors of the result in straight-line code, {} where they are summed, {} where they are squared",
            point["vector_unroll"], point["sum_unroll"], point["square_unroll"]);
    }
    double whole_draft(const Machine &machine, const Point &point) const override {
        // Straight-line code beyond what the instruction cache keeps comes from memory for each group. A loop that fills a tile
        // waits for its sums.
        constexpr double start = 900, group_latency = 700, most_packets = 340, miss = 16, wait = 50, loop_cost = 12, tile = 75,
                         squared = 5, one_pad = 4, iteration = 20;
        const auto vectors = static_cast<double>(all()), unroll = static_cast<double>(point["vector_unroll"]);
        const auto sum_unroll = static_cast<double>(point["sum_unroll"]),
                   square_unroll = static_cast<double>(point["square_unroll"]);
        const auto filling = [&](double straight) { return straight < lanes ? wait + lanes / straight * loop_cost : 0; };
        const double packets = 130 + 10 * unroll + 2.5 * sum_unroll + 6 * square_unroll;
        const double sums =
            static_cast<double>(tiles()) * (2 * tile + lanes * squared + filling(sum_unroll) + filling(square_unroll));
        const double lane = static_cast<double>(machine.vec.ii) * std::max<double>(1 + shape_.bias, 1 + shape_.weight) +
                            (round(machine, point) ? 0 : one_pad);
        const double group = group_latency + sums + vectors * (lane + iteration / unroll) +
                             (machine.timed() ? miss * std::max(0.0, packets - most_packets) : 0);
        const double channels =
            static_cast<double>(shape_.weight + shape_.bias) *
            (16 * static_cast<double>(shape_.all_channels()) + 2 * static_cast<double>(shape_.groups) * vectors);
        return (machine.timed() ? start : 60) + static_cast<double>(shape_.groups * shape_.images) * group + channels;
    }
    KernelDefinition build_whole(const Machine &machine, const Point &point) const override;

    KernelWork work(const Machine &machine) const override {
        KernelWork work = GroupNorm::work(machine);
        const int64_t vectors = tiles_of(outputs_[0].elements());
        work.array_rows = work.array_tiles = 2 * ceil_div(vectors, lanes);
        work.array_loads = 2 * vectors;
        return work;
    }

private:
    struct Total {
        Func weights, part, block, group, total;
        RDom depth, members, tiles;
    };
    Total total(const std::string &name, const std::function<Expr(const Expr &)> &value) const;
    void schedule_total(Total &t, const LoopLevel &at, int unroll) const;

    int64_t all() const { return shape_.length() / lanes; }
    int64_t tiles() const { return all() / members(all()); }
    int64_t result_rows(const Point &point) const { return round_up(all(), point["vector_unroll"]); }
    // A tile is 32 vectors, of which only members count.
    int64_t image_rows(const Point &point) const { return std::max(result_rows(point), all() + lanes - members(all())); }
    // Do the vectors go round the pads?
    bool round(const Machine &machine, const Point &point) const {
        return point["vector_unroll"] % machine.pad.count == 0 && members(all()) % machine.pad.count == 0;
    }

    Var n_{"n"}, g_{"g"}, i_{"i"}, k_{"k"}, w_{"w"}, l_{"l"}, t_{"t"}, s_{"s"};
};

// Lane w is the sum of vector w, rounded to bf16. The reduction unit adds those of a tile; tiles are added in float32.
ContiguousGroupNorm::Total ContiguousGroupNorm::total(const std::string &name,
                                                      const std::function<Expr(const Expr &)> &value) const {
    const int part = static_cast<int>(members(all()));
    Total s{Func(name + "_weights"),
            Func(name + "_part"),
            Func(name + "_block"),
            Func(name + "_group"),
            Func(name),
            RDom(0, lanes, name + "_q"),
            RDom(0, lanes, name + "_g"),
            RDom(0, static_cast<int>(tiles()), name + "_r")};
    s.weights(k_, w_, t_, g_, i_) = value((t_ * part + w_) * lanes + k_);
    s.part(l_, t_, g_, i_) = 0.0f;
    s.part(l_, t_, g_, i_) += f32(s.weights(s.depth, l_, t_, g_, i_));
    s.block(l_, t_, g_, i_) = bf16(s.part(l_, t_, g_, i_));
    const Expr sum = s.block(s.members, t_, g_, i_);
    s.group(t_, g_, i_) = 0.0f;
    s.group(t_, g_, i_) += f32(part == lanes ? sum : select(s.members < part, sum, bf16(0.0f)));
    s.total(g_, i_) = -0.0f;
    s.total(g_, i_) = strict_float(s.total(g_, i_) + f32(bf16(s.group(s.tiles, g_, i_))));
    return s;
}

// What leaves the array goes to the pads: a loop that waited for the sums of its tiles would not overlap.
void ContiguousGroupNorm::schedule_total(Total &s, const LoopLevel &at, int unroll) const {
    s.block.compute_at(at).bound_extent(l_, lanes).bound_extent(t_, static_cast<int>(tiles())).vectorize(l_, lanes);
    as_array_row(s.part.compute_at(s.block, t_).bound_extent(l_, lanes), l_, s.depth);
    s.weights.compute_at(s.block, t_)
        .bound_extent(k_, lanes)
        .bound_extent(w_, lanes)
        .split(w_, w_, Var("w_unroll"), unroll)
        .vectorize(k_);
    s.total.compute_at(at);
    const RVar ro("ro"), ru("r_unroll");
    s.total.update().split(s.tiles, ro, ru, largest_divisor(static_cast<int>(tiles())));
    s.group.compute_at(s.total, ru).update().atomic().vectorize(s.members, lanes);
    in_pads({s.block});
    in_registers({s.weights, s.part, s.group, s.total});
}

KernelDefinition ContiguousGroupNorm::build_whole(const Machine &machine, const Point &point) const {
    const int length = size(shape_.length()), groups = size(shape_.groups), images = size(shape_.images),
              vector_unroll = size(point["vector_unroll"]);
    const ImageParam image = tensor("X", {length, groups, images});
    KernelDefinition kernel;
    kernel.arguments = {image};

    Func ones("ones"), xs("X_rows"), mean("mean"), scale("scale"), result("result"), out("Y");
    ones(k_, w_) = bf16(1.0f);
    xs(n_, g_, i_) = image(n_, g_, i_);
    const auto share = static_cast<float>(1 / static_cast<double>(length));
    Total sum = total("total", [&](const Expr &at) -> Expr { return xs(at, g_, i_); });
    mean(g_, i_) = strict_float(sum.total(g_, i_) * share);
    const auto centred = [&](const Expr &at) -> Expr { return strict_float(xs(at, g_, i_) - bf16(mean(g_, i_))); };
    Total squares = total("squares", [&](const Expr &at) -> Expr { return strict_float(centred(at) * centred(at)); });
    scale(g_, i_) = inverse_deviation(squares.total(g_, i_), length, shape_.epsilon);
    const Expr value = strict_float(centred(n_) * bf16(scale(g_, i_)));
    result(n_, g_, i_) = with_numbers(kernel, value, ones, false, size(result_rows(point)), 1, n_, g_);
    out(n_, g_, i_) = result(n_, g_, i_);

    // ---- schedule: a group at a time
    const Var no("no"), ni("ni"), nu("n_unroll");
    out.bound(n_, 0, length).bound(g_, 0, groups).bound(i_, 0, images);
    for (Func f : {xs, result}) {
        f.compute_at(out, g_);
        if (machine.timed() && groups * images > 1) f.hoist_storage_root().ring_buffer(2);
        in_pads({f});
    }
    xs.bound_extent(n_, size(image_rows(point)) * lanes);
    result.bound_extent(n_, size(result_rows(point)) * lanes).split(n_, no, ni, lanes).vectorize(ni);
    if (vector_unroll > 1) result.split(no, no, nu, vector_unroll);
    for (Func f : {mean, scale}) {
        f.compute_at(out, g_);
        in_registers({f});
    }
    schedule_total(sum, LoopLevel(out, g_), size(point["sum_unroll"]));
    schedule_total(squares, LoopLevel(out, g_), size(point["square_unroll"]));
    if (shape_.weight || shape_.bias) {
        ones.compute_root().vectorize(k_, lanes).bound(k_, 0, lanes).bound(w_, 0, lanes);
        in_registers({ones});
    }
    whole_loops(out);
    fix_shape(out.output_buffer(), {length, groups, images});

    kernel.pipeline = Pipeline(out);
    return named(std::move(kernel));
}

}  // namespace

bool suits_contiguous_groups(const GroupShape &shape) {
    constexpr int64_t least_tiles = 2;
    if (shape.whole_vectors() || !shape.has_vector_rows()) return false;
    const int64_t vectors = shape.length() / lanes, part = members(vectors);
    return part > 0 && vectors / part >= least_tiles;
}

std::unique_ptr<Workload> contiguous_group_norm(const WorkloadRequest &request, const GroupShape &shape) {
    return std::make_unique<ContiguousGroupNorm>(request, shape);
}

}  // namespace atalla
