#include "generators/transpose.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "generators/pad_room.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

class TransposeWorkload : public PipelineWorkload {
public:
    TransposeWorkload(const WorkloadRequest &request, const Shape &result, const MovedBox &box,
                      std::unique_ptr<Workload> by_element)
        : PipelineWorkload(request), dims_(box.dims), by_element_(std::move(by_element)) {
        inputs_ = {tensor_spec(request.tensors[0].name, request.tensors[0].shape)};
        set_result("result", result);
        inner_ = static_cast<size_t>(
            std::find_if(dims_.begin(), dims_.end(), [](const MovedBox::Dim &dim) { return dim.from == 1; }) - dims_.begin());
    }

    Space space(const Machine &machine) const override {
        if (!turns(machine)) return by_element_->space(machine);
        // Blocks lie in the same places whatever the schedule, since a NaN spreads in its block: only the last one of a
        // dimension may begin elsewhere than at a multiple of 32, so that it is whole.
        const auto together = [](const MovedBox::Dim &dim) {
            constexpr int64_t most_together = 16;
            return divisors(std::max<int64_t>(1, dim.extent / lanes), most_together);
        };
        const MovedBox::Dim across = dims_[0], along = dims_[inner_];
        Space space;
        space
            .parameter("across", "blocks of 32 along the result's innermost dimension that come and go together",
                       together(across))
            .parameter("along", "blocks of 32 along the input's innermost dimension that come and go together", together(along))
            .choice("apart",
                    "1: the last block of a dimension that is no multiple of 32 has code of its own; 0: it is a tile like the "
                    "others",
                    has_rest(across) || has_rest(along) ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0})
            .choice("unroll", "rows of a block in straight-line code", {1, 8, 16, 32})
            .choice("whole", "1: all blocks are in the pads at a time; 0: two tiles of them",
                    machine.timed() ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0});
        space.constraint("last", {"across", "along", "apart"},
                         "A tile that begins where a dimension's last block does is that block alone.",
                         [across, along](const Point &point) {
                             const auto alone = [&](const MovedBox::Dim &dim, int64_t blocks) {
                                 return blocks == 1 || dim.extent % lanes == 0 || (point["apart"] == 1 && has_rest(dim));
                             };
                             return alone(across, point["across"]) && alone(along, point["along"]);
                         });
        int64_t others = 1;
        for (size_t d = 0; d < dims_.size(); d++) others *= d == 0 || d == inner_ ? 1 : dims_[d].extent;
        space.constraint("pads", {"across", "along", "apart", "whole"},
                         "Two slots of the blocks, or all of them, as they come and as they go, fit the pads.",
                         [across, along, machine, others](const Point &point) {
                             int64_t rows = 0;
                             for (const Tiles &ps : parts(across, point["across"], point["apart"] == 1))
                                 for (const Tiles &qs : parts(along, point["along"], point["apart"] == 1))
                                     rows += (point["whole"] == 1 ? ps.count * qs.count * others : 2) * ps.blocks * qs.blocks *
                                             lanes;
                             return fit_pads(machine, {{rows, false}, {rows, false}, {lanes, false}});
                         });
        space.constraint("beside", {"across", "along", "apart", "whole"},
                         "Where all blocks are in the pads no tile meets another, and one transfer of each pad has the rows of "
                         "blocks across, as the loops come to them.",
                         [across, along, machine](const Point &point) {
                             const auto exact = [&](const MovedBox::Dim &dim, int64_t blocks) {
                                 return std::ranges::all_of(parts(dim, blocks, point["apart"] == 1), &Tiles::exact);
                             };
                             return point["whole"] == 0 ||
                                    (exact(across, point["across"]) && exact(along, point["along"]) &&
                                     point["across"] * lanes <= machine.pad.count * machine.sdma.max_rows);
                         });
        return space;
    }
    Point naive_point(const Machine &machine) const override {
        return turns(machine) ? PipelineWorkload::naive_point(machine) : by_element_->naive_point(machine);
    }
    std::string words(const Machine &machine, const Point &point) const override {
        if (!turns(machine)) return by_element_->words(machine, point);
        return fmt::format("{} x {} blocks at a time{}{}, {} rows unrolled", point["across"], point["along"],
                           point["apart"] == 1 ? ", the last ones apart" : "", point["whole"] == 1 ? ", all in the pads" : "",
                           point["unroll"]);
    }
    // Fitted to all schedules of twelve transposes of 30 to 784 rows on ax01.
    double draft(const Machine &machine, const Point &point) const override {
        constexpr double start_of_nest = 1600, block = 160, loop_over_rows = 640, tile = 100, first_block = 100;
        // Where all blocks are in the pads: more code in front, and less time for each.
        constexpr double start_of_whole = 900, gain_of_whole = 6;
        if (!turns(machine)) return by_element_->draft(machine, point);
        double others = 1, cycles = 0;
        for (size_t d = 0; d < dims_.size(); d++)
            if (d != 0 && d != inner_) others *= static_cast<double>(dims_[d].extent);
        for (const Tiles &ps : parts(dims_[0], point["across"], point["apart"] == 1)) {
            for (const Tiles &qs : parts(dims_[inner_], point["along"], point["apart"] == 1)) {
                const auto together = static_cast<double>(ps.blocks * qs.blocks),
                           tiles = static_cast<double>(ps.count * qs.count) * others;
                const bool whole = point["whole"] == 1;
                cycles += start_of_nest + (whole ? start_of_whole : 0) +
                          tiles * (together * (block - (whole ? gain_of_whole : 0) +
                                               loop_over_rows / static_cast<double>(point["unroll"])) +
                                   tile) +
                          first_block * together;
            }
        }
        return cycles;
    }
    KernelDefinition build(const Machine &machine, const Point &point) const override {
        return turns(machine) ? turned(machine, point) : by_element_->build(machine, point);
    }
    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override {
        return by_element_->reference(inputs);
    }
    double tolerance_ulps() const override { return 0; }

protected:
    KernelWork work(const Machine &) const override {
        KernelWork work;
        work.bytes = tensor_bytes();
        return work;
    }

private:
    // Do a block as it comes, a block as it goes and the identity fit the pads?
    static bool turns(const Machine &machine) {
        return fit_pads(machine, {{2 * lanes, false}, {2 * lanes, false}, {lanes, false}});
    }

    // A part of a dimension: the elements of a block, the blocks of a tile, and how many tiles there are.
    struct Tiles {
        // The last tile ends where the part does, and moves some elements of the one before again.
        Expr begin(const Expr &index) const {
            if (count == 1) return Expr(size(from));
            return exact() ? size(from) + index * size(tile()) : min(index * size(tile()), size(from + extent - tile()));
        }
        bool exact() const { return extent == count * tile(); }
        int64_t tile() const { return blocks * block; }
        int64_t from, extent, block, blocks, count;
    };
    static Tiles tiles(int64_t from, int64_t extent, int64_t blocks) {
        const int64_t block = std::min<int64_t>(lanes, extent);
        return {from, extent, block, blocks, ceil_div(extent, blocks * block)};
    }
    static bool has_rest(const MovedBox::Dim &dim) { return dim.extent > 2 * lanes && dim.extent % lanes != 0; }
    // The blocks that begin at multiples of 32, and the last one of those that are no multiple where that is `apart`.
    static std::vector<Tiles> parts(const MovedBox::Dim &dim, int64_t blocks, bool apart) {
        if (!apart || !has_rest(dim)) return {tiles(0, dim.extent, blocks)};
        return {tiles(0, dim.extent / lanes * lanes, blocks), tiles(dim.extent - lanes, lanes, 1)};
    }

    KernelDefinition turned(const Machine &machine, const Point &point) const {
        const size_t rank = dims_.size();
        // The input's dimensions, innermost first, are the result's in the order of their strides.
        std::vector<size_t> order(rank);
        for (size_t at = 0; at < rank; at++) order[at] = at;
        std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return dims_[a].from < dims_[b].from; });
        std::vector<int64_t> in_extents, out_extents;
        for (size_t at : order) in_extents.push_back(dims_[at].extent);
        for (const MovedBox::Dim &dim : dims_) out_extents.push_back(dim.extent);
        const ImageParam image = tensor("in_x", in_extents);

        const Var k("k"), i("i");
        std::vector<Var> d;
        for (size_t at = 0; at < rank; at++) d.emplace_back(fmt::format("d{}", at));
        Func identity("identity"), out("result");
        identity(k, i) = select(k == i, bf16(1.0f), bf16(0.0f));
        out(d) = undef<BFloat>();
        for (size_t at = 0; at < rank; at++) out.bound(d[at], 0, size(dims_[at].extent));
        identity.compute_root().bound(k, 0, size(lanes)).bound(i, 0, size(lanes)).vectorize(k, size(lanes));
        if (point["unroll"] == lanes) {
            identity.unroll(i);
            in_registers({identity});
        } else {
            in_pads({identity});
        }
        for (const Tiles &ps : parts(dims_[0], point["across"], point["apart"] == 1))
            for (const Tiles &qs : parts(dims_[inner_], point["along"], point["apart"] == 1))
                turn(machine, size(point["unroll"]), point["whole"] == 1, ps, qs, order, image, identity, out);
        whole_loops(out);
        fix_shape(out.output_buffer(), out_extents);
        return kernel(Pipeline(out), {image});
    }

    // Tiles of the result's innermost dimension, `ps`, by those of the input's, for all places of the others.
    void turn(const Machine &machine, int unroll, bool whole, const Tiles &ps, const Tiles &qs,
              const std::vector<size_t> &order, const ImageParam &image, const Func &identity, Func &out) const {
        const int across = size(ps.blocks), along = size(qs.blocks);
        const size_t rank = dims_.size();
        const Var k("k"), w("w"), l("l"), i("i"), qt("qt"), pt("pt"), qo("qo"), po("po");
        std::vector<Var> d, outer = {po, qo};
        for (size_t at = 0; at < rank; at++) d.emplace_back(fmt::format("d{}", at));
        Region ranges = {Range(0, size(ps.block)), Range(0, size(qs.block)), Range(0, across),
                         Range(0, along),          Range(0, size(ps.count)), Range(0, size(qs.count))};
        for (size_t at = 0; at < rank; at++) {
            if (at == 0 || at == inner_) continue;
            outer.push_back(d[at]);
            ranges.push_back(Range(0, size(dims_[at].extent)));
        }
        const std::string part_of = out.num_update_definitions() == 0 ? "" : fmt::format("_{}", out.num_update_definitions());
        const RDom r(ranges, "r" + part_of);
        constexpr int po_at = 4, qo_at = 5;  // in `r`: which tile
        const auto with = [&](std::vector<Var> first) { return followed_by(std::move(first), outer); };
        const auto exprs = [&](std::vector<Expr> first) { return followed_by(std::move(first), outer); };
        std::vector<Expr> index, to, from = {r[0], r[1], r[3], r[2]};
        for (size_t at : order)
            index.push_back(at == 0        ? ps.begin(po) + pt * size(lanes) + min(w, size(ps.block) - 1)
                            : at == inner_ ? qs.begin(qo) + qt * size(lanes) + min(k, size(qs.block) - 1)
                                           : Expr(d[at]));
        int other = qo_at + 1;
        for (size_t at = 0; at < rank; at++)
            to.push_back(at == 0        ? ps.begin(r[po_at]) + r[2] * size(lanes) + r[0]
                         : at == inner_ ? qs.begin(r[qo_at]) + r[3] * size(lanes) + r[1]
                                        : Expr(r[other++]));
        for (int at = po_at; at < static_cast<int>(ranges.size()); at++) from.emplace_back(r[at]);

        Func raw("raw" + part_of), weights("weights" + part_of), part("part" + part_of), finished("finished" + part_of);
        const RDom depth(0, size(lanes), "depth" + part_of);
        // Lanes that nothing comes to are zeros, which add nothing to a sum.
        if (ps.block < lanes || qs.block < lanes) {
            raw(with({k, w, qt, pt})) = bf16(0.0f);
            raw(with({k, w, qt, pt})) = select(w < size(ps.block) && k < size(qs.block), image(index), undef<BFloat>());
        } else {
            raw(with({k, w, qt, pt})) = image(index);
        }
        weights(with({k, w, qt, pt})) = raw(exprs({k, w, qt, pt}));
        part(with({l, i, qt, pt})) = 0.0f;
        part(with({l, i, qt, pt})) += f32(identity(depth, i)) * f32(weights(exprs({depth, l, qt, pt})));
        finished(with({l, i, qt, pt})) = bf16(part(exprs({l, i, qt, pt})));
        out(to) = finished(from);

        const Var iu("i_unroll"), wu("w_unroll");
        const bool ring = machine.timed() && !whole && (ps.count * qs.count > 1 || rank > 2);
        const RVar each_tile(r[po_at]);
        if (whole) {
            raw.compute_root();
            finished.compute_root();
        } else {
            raw.compute_at(out, each_tile);
            finished.compute_at(out, each_tile);
        }
        raw.vectorize(k, size(lanes))
            .bound_extent(k, size(lanes))
            .bound_extent(w, size(lanes))
            .bound_extent(qt, along)
            .bound_extent(pt, across);
        finished.vectorize(l, size(lanes))
            .bound_extent(l, size(lanes))
            .bound_extent(i, size(lanes))
            .bound_extent(qt, along)
            .bound_extent(pt, across);
        // Rows of blocks beside each other follow each other in the pads, as they do in memory: a transfer has rows of several.
        raw.reorder_storage(with({k, w, pt, qt}));
        if (ring) {
            raw.hoist_storage_root().ring_buffer(2);
            finished.hoist_storage_root().ring_buffer(2);
        }
        weights.compute_at(finished, qt).vectorize(k, size(lanes)).bound_extent(k, size(lanes)).bound_extent(w, size(lanes));
        if (unroll > 1) finished.split(i, i, iu, unroll);
        if (unroll > 1) weights.split(w, w, wu, unroll);
        as_array_row(part.compute_at(finished, unroll > 1 ? iu : i), l, depth);
        in_registers({weights, part});
        in_pads({raw, finished});
    }

    std::vector<MovedBox::Dim> dims_;  // of the result, innermost first
    size_t inner_ = 0;                 // the one that is innermost in the input
    std::unique_ptr<Workload> by_element_;
};

}  // namespace

bool is_transpose(const MovedBox &box, int64_t elements) {
    int64_t count = 1, largest = 1;
    bool inner = false;
    for (const MovedBox::Dim &dim : box.dims) {
        count *= dim.extent;
        largest += (dim.extent - 1) * dim.from;
        inner = inner || dim.from == 1;
        if (dim.from == 0) return false;
    }
    return box.input == 0 && box.from == 0 && inner && box.dims[0].from != 1 && count == elements && largest == elements;
}

std::unique_ptr<Workload> transpose_workload(const WorkloadRequest &request, const Shape &result, const MovedBox &box,
                                             std::unique_ptr<Workload> by_element) {
    return std::make_unique<TransposeWorkload>(request, result, box, std::move(by_element));
}

}  // namespace atalla
