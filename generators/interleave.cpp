#include "generators/interleave.h"

#include <algorithm>

#include <fmt/format.h>

#include "generators/pad_room.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

constexpr int64_t most_apart = 16;

class InterleavingWorkload : public PipelineWorkload {
public:
    InterleavingWorkload(const WorkloadRequest &request, const Shape &result, Interleaving moved,
                         std::unique_ptr<Workload> by_element)
        : PipelineWorkload(request), moved_(std::move(moved)), by_element_(std::move(by_element)) {
        inputs_ = by_element_->inputs();
        set_result("result", result);
        if (moved_.dims.size() == 1) moved_.dims.push_back({1, 0, 0});
    }

    Space space(const Machine &machine) const override {
        if (!takes(machine)) return by_element_->space(machine);
        constexpr int64_t most_rows = 1024;
        std::vector<int64_t> rows;
        for (int64_t n = 1; n <= std::min(most_rows, moved_.dims[0].extent * moved_.dims[1].extent); n *= 2) rows.push_back(n);
        Space space;
        space.parameter("rows", "that come and go together", rows)
            .choice("unroll", "rows in straight-line code", {1, 8, 16, 32});
        space.constraint("pads", {"rows"}, "Two slots of the rows fit the pads.",
                         [this, machine](const Point &point) { return fits(machine, point["rows"]); });
        return space;
    }
    Point naive_point(const Machine &machine) const override {
        return takes(machine) ? PipelineWorkload::naive_point(machine) : by_element_->naive_point(machine);
    }
    std::string words(const Machine &machine, const Point &point) const override {
        return takes(machine)
                   ? fmt::format("{} rows of {} at a time, {} unrolled", point["rows"], moved_.count, point["unroll"])
                   : by_element_->words(machine, point);
    }
    double draft(const Machine &machine, const Point &point) const override {
        if (!takes(machine)) return by_element_->draft(machine, point);
        double rows = 1;
        for (const MovedBox::Dim &dim : moved_.dims) rows *= static_cast<double>(dim.extent);
        const auto [down, beside] = tile(point["rows"]);
        const double together = static_cast<double>(down * beside), products = static_cast<double>(moved_.sources.size());
        constexpr double start = 1500, weights = 150, latency = 50, transfer = 4;
        const double each =
            std::max(latency / static_cast<double>(std::min(point["unroll"], down)) * products, transfer * products);
        return start + rows / together * (products * weights + together * each) + together * transfer * (products + 1);
    }
    KernelDefinition build(const Machine &machine, const Point &point) const override {
        return takes(machine) ? by_products(machine, point) : by_element_->build(machine, point);
    }
    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override {
        return by_element_->reference(inputs);
    }
    double tolerance_ulps() const override { return 0; }
    Bound bound(const Machine &machine) const override { return by_element_->bound(machine); }

protected:
    KernelWork work(const Machine &) const override { return {}; }

private:
    // Of a tile: rows of the innermost dimension of rows, and of the next.
    std::pair<int64_t, int64_t> tile(int64_t rows) const {
        const int64_t down = std::min(rows, moved_.dims[0].extent);
        return {down, std::min(rows / down, moved_.dims[1].extent)};
    }
    bool fits(const Machine &machine, int64_t rows) const {
        const auto sources = static_cast<int64_t>(moved_.sources.size());
        std::vector<PadUse> uses(static_cast<size_t>(2 * sources), {2 * rows, false});
        uses.push_back({sources * lanes, false});
        return fit_pads(machine, uses);
    }
    bool takes(const Machine &machine) const { return machine.timed() && fits(machine, 1); }

    KernelDefinition by_products(const Machine &machine, const Point &point) const {
        const auto [down, beside] = tile(point["rows"]);
        const int sources = size(static_cast<int64_t>(moved_.sources.size())), unroll = size(std::min(point["unroll"], down));
        // Each pad has a part of the rows, whose transfers walk through pages of the DRAM of their own.
        const int64_t pads = machine.pad.count;
        const bool parts = down % unroll == 0 && unroll % pads == 0;
        const auto tiles = [](const MovedBox::Dim &dim, int64_t rows) { return Range(0, size(ceil_div(dim.extent, rows))); };
        // The last tile ends where the dimension does.
        const auto begin = [](const MovedBox::Dim &dim, int64_t rows, const Expr &tile) {
            return min(tile * size(rows), size(dim.extent - rows));
        };
        const int64_t span = (moved_.count - 1) * moved_.in_step + 1, width = (moved_.count - 1) * moved_.out_step + sources;

        std::vector<ImageParam> images;
        for (const TensorSpec &input : inputs_) images.push_back(tensor("in_" + input.name, {input.elements()}));
        Var i("i"), k("k"), l("l"), y("y"), z("z"), yo("yo"), zo("zo"), j("j");
        std::vector<Var> outer = {yo, zo};
        Region ranges = {Range(0, size(width)), Range(0, size(down)), Range(0, size(beside)), tiles(moved_.dims[0], down),
                         tiles(moved_.dims[1], beside)};
        for (size_t d = 2; d < moved_.dims.size(); d++) {
            outer.emplace_back(fmt::format("c{}", d));
            ranges.push_back(Range(0, size(moved_.dims[d].extent)));
        }
        const RDom r(ranges, "r"), q(0, size(lanes), "q");
        constexpr int tile_at = 3;  // in `r`
        const auto with = [&](std::vector<Var> first) { return followed_by(std::move(first), outer); };
        const auto exprs = [&](std::vector<Expr> first) { return followed_by(std::move(first), outer); };
        // An element in the input (`from`) or in the result, of rows that lie as these say.
        const auto place = [&](int64_t base, int64_t MovedBox::Dim::*stride, const Expr &in_row, const std::vector<Expr> &at) {
            Expr index = size(base) + in_row + (begin(moved_.dims[0], down, at[2]) + at[0]) * size(moved_.dims[0].*stride) +
                         (begin(moved_.dims[1], beside, at[3]) + at[1]) * size(moved_.dims[1].*stride);
            for (size_t d = 2; d < moved_.dims.size(); d++) index += at[d + 2] * size(moved_.dims[d].*stride);
            return index;
        };

        Func table("table"), out("result");
        const RDom each(0, size(moved_.count), 0, sources, "each");
        const Expr place_in_row = k - each.x * size(moved_.in_step);
        table(k, l, j) = bf16(0.0f);
        table(k, each.x * size(moved_.out_step) + each.y, each.y) =
            select(place_in_row >= 0 && place_in_row < 1, bf16(1.0f), bf16(0.0f));
        std::vector<Func> raw, weights, part, rows;
        for (int source = 0; source < sources; source++) {
            const Interleaving::Source &from = moved_.sources[static_cast<size_t>(source)];
            for (auto &[funcs, name] :
                 {std::pair(&raw, "raw"), std::pair(&weights, "weights"), std::pair(&part, "part"), std::pair(&rows, "rows")})
                funcs->emplace_back(fmt::format("{}_{}_", name, source));
            const Expr element = images[static_cast<size_t>(from.input)](
                place(from.from, &MovedBox::Dim::from, min(k, size(span) - 1), exprs({y, z})));
            if (span < lanes) raw[source](with({k, y, z})) = bf16(0.0f);
            raw[source](with({k, y, z})) = span < lanes ? select(k < size(span), element, undef<BFloat>()) : element;
            weights[source](k, l) = table(k, l, source);
            part[source](with({l, y, z})) = 0.0f;
            part[source](with({l, y, z})) += f32(raw[source](exprs({q, y, z}))) * f32(weights[source](q, l));
            const Expr product = bf16(part[source](exprs({l, y, z})));
            rows[source](with({l, y, z})) = source == 0 ? product : strict_float(rows[source - 1](exprs({l, y, z})) + product);
        }
        std::vector<Expr> at;
        for (int d = 1; d < static_cast<int>(ranges.size()); d++) at.emplace_back(r[d]);
        out(i) = undef<BFloat>();
        std::vector<Expr> used = {r[0]};
        used.insert(used.end(), at.begin(), at.end());
        out(place(moved_.to, &MovedBox::Dim::to, r[0], at)) = rows.back()(used);

        out.bound(i, 0, size(outputs_[0].elements()));
        whole_loops(out);
        fix_shape(out.output_buffer(), {outputs_[0].elements()});
        table.compute_root()
            .vectorize(k, size(lanes))
            .bound(k, 0, size(lanes))
            .bound(l, 0, size(lanes))
            .bound(j, 0, sources)
            .update()
            .vectorize(k, size(lanes));
        const RVar each_tile(r[tile_at]);
        const bool several = moved_.dims.size() > 2 || moved_.dims[0].extent > down || moved_.dims[1].extent > beside;
        for (int source = 0; source < sources; source++) {
            const Var yu("y_unroll"), pu("pad_unroll"), once("once"), lu("l_unroll");
            Func in = raw[source], of = rows[source], by = part[source], matrix = weights[source];
            in.compute_at(out, each_tile)
                .vectorize(k, size(lanes))
                .bound_extent(k, size(lanes))
                .bound_extent(y, size(down))
                .bound_extent(z, size(beside));
            of.compute_at(out, each_tile)
                .vectorize(l, size(lanes))
                .bound_extent(l, size(lanes))
                .bound_extent(y, size(down))
                .bound_extent(z, size(beside));
            if (several) in.hoist_storage_root().ring_buffer(2);
            if (several && source + 1 == sources) of.hoist_storage_root().ring_buffer(2);
            of.split(z, once, z, size(beside));
            if (parts)
                of.split(y, pu, y, size(down / pads)).split(y, y, yu, size(unroll / pads)).reorder(l, pu, yu, y, z, once);
            else
                of.split(y, y, yu, unroll);
            matrix.compute_at(of, once)
                .vectorize(k, size(lanes))
                .bound_extent(k, size(lanes))
                .bound_extent(l, size(lanes))
                .split(l, l, lu, size(lanes));
            as_array_row(by.compute_at(of, parts ? pu : yu), l, q);
            in_registers({matrix, by});
            in_pads({in, of});
        }
        in_pads({table});

        KernelDefinition kernel;
        if (parts)
            for (int source = 0; source < sources; source++)
                for (Func f : {raw[source], rows[source]}) kernel.lay_out(f, {0, down / pads});
        kernel.pipeline = Pipeline(out);
        for (size_t input = 0; input < inputs_.size(); input++) {
            kernel.add_input(inputs_[input].name, images[input]);
        }
        kernel.outputs = {{"result", {outputs_[0].elements()}}};
        return kernel;
    }

    Interleaving moved_;
    std::unique_ptr<Workload> by_element_;
};

// As many of `extent` elements as fit a row of the pads, `apart` from each other with those of all `sources` beside them, each
// row equally many; 1 where they do not divide.
int64_t elements_of_row(int64_t extent, int64_t apart, int64_t sources) {
    int64_t count = std::min(extent, (lanes - sources) / apart + 1);
    while (extent % count != 0) count--;
    return count;
}

// Rows of the dimension that is `apart` on one side.
std::optional<Interleaving> in_rows(Interleaving moved, const MovedBox::Dim &dim, std::vector<MovedBox::Dim> others) {
    constexpr int64_t least = 4;  // elements of a row
    moved.count = elements_of_row(dim.extent, moved.apart(), static_cast<int64_t>(moved.sources.size()));
    if (moved.count < std::min(least, lanes / moved.apart())) return {};
    moved.dims = std::move(others);
    if (moved.count < dim.extent || moved.dims.empty())
        moved.dims.insert(moved.dims.begin(), {dim.extent / moved.count, moved.count * dim.from, moved.count * dim.to});
    return moved;
}

}  // namespace

std::optional<Interleaving> interleaving_of(const std::vector<MovedBox> &boxes) {
    const MovedBox &box = boxes.front();
    if (box.dims.empty() || std::any_of(boxes.begin(), boxes.end(), [](const MovedBox &b) { return b.input < 0; })) return {};
    const MovedBox::Dim &inner = box.dims[0];
    const std::vector<MovedBox::Dim> others(box.dims.begin() + 1, box.dims.end());
    Interleaving moved;
    moved.to = box.to;
    if (boxes.size() == 1 && inner.to == 1 && inner.from > 1 && inner.from <= most_apart) {
        moved.sources = {{box.input, box.from}};
        moved.in_step = inner.from;
        return in_rows(moved, inner, others);
    }
    const auto apart = static_cast<int64_t>(boxes.size() > 1 ? boxes.size() : static_cast<size_t>(inner.extent));
    moved.out_step = apart;
    if (apart < 2 || apart > most_apart) return {};
    if (boxes.size() > 1 && inner.to == apart && inner.from == 1) {
        for (const MovedBox &b : boxes) {
            const bool alike = b.dims.size() == box.dims.size() &&
                               std::equal(b.dims.begin(), b.dims.end(), box.dims.begin(), [](const auto &a, const auto &c) {
                                   return a.extent == c.extent && a.from == c.from && a.to == c.to;
                               });
            if (!alike || b.to != box.to + (&b - boxes.data())) return {};
            moved.sources.push_back({b.input, b.from});
        }
        return in_rows(moved, inner, others);
    }
    if (boxes.size() > 1 || inner.to != 1 || inner.from <= 1 || others.empty() || others[0].from != 1 || others[0].to != apart)
        return {};
    for (int64_t j = 0; j < apart; j++) moved.sources.push_back({box.input, box.from + j * inner.from});
    return in_rows(moved, others[0], {others.begin() + 1, others.end()});
}

std::unique_ptr<Workload> interleaving_workload(const WorkloadRequest &request, const Shape &result, const Interleaving &moved,
                                                std::unique_ptr<Workload> by_element) {
    return std::make_unique<InterleavingWorkload>(request, result, moved, std::move(by_element));
}

}  // namespace atalla
