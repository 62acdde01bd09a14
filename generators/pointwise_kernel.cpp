#include "generators/pointwise_workload.h"

#include <functional>

#include <fmt/format.h>

#include "generators/vocabulary.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

template <class Param>
void set_strides(Param param, const std::vector<int64_t> &strides) {
    for (size_t d = 1; d < strides.size(); d++) param.dim(static_cast<int>(d)).set_stride(static_cast<int>(strides[d]));
}

}  // namespace

KernelDefinition PointwiseWorkload::build(const Machine &machine, const Point &point) const {
    if (blocks_.meets_patterns(point)) return build_of_patterns(machine, point);
    if (blocks_.in_turns(point)) return build_of_rows(machine, point);
    const bool paged = point["parts"] == PointwiseBlocks::in_pages;
    const bool all = point["parts"] == PointwiseBlocks::all_in_pages;  // each pad has half of every other page
    const PointwiseBlocks::Pages pages = paged ? blocks_.pages_of(machine, point["block"]) : PointwiseBlocks::Pages{};
    const LoopNest nest = paged ? pages.nest : all ? blocks_.halves_of_pages(machine) : nest_;
    const Tiling t = paged ? blocks_.pages_tiling(point["block"]) : blocks_.tiling(machine, point);
    const size_t rank = nest.dims.size();
    const bool many = t.blocks > 1 || paged;

    std::vector<Var> vars;
    for (size_t d = 0; d < rank; d++) vars.emplace_back(fmt::format("d{}_", d));
    Var n = vars[0], no("no"), ni("ni"), mo("mo"), mi("mi"), qo("qo"), qi("qi"), vu("v_unroll"), mu("m_unroll"), qu("q_unroll"),
        pu("p_unroll"), lane("lane");
    Func out("result"), y("y");
    // Where a pad has all of its halves of pages they follow each other in one dimension.
    const std::vector<Var> rows_of_pads = all ? std::vector<Var>(vars.begin(), vars.begin() + 3) : vars;
    const int half_page = size(all ? blocks_.half_of_page(machine) : 0);

    // ---- algorithm
    KernelDefinition kernel;
    std::map<std::string, Expr> values;
    std::vector<Func> staged;
    std::vector<ImageParam> tensors;
    // A number for each row is spread over a vector of equal lanes, so that the loop over rows is one: no vector has a lane
    // that varies.
    struct Column {
        Func spread, held;  // in the pads; in registers while its row is computed
        std::vector<Var> own;
    };
    std::map<std::string, Column> columns;
    // Of a block that begins inside a vector of its row, lanes are not known.
    const bool aligned = t.width <= t.cols || t.width % lanes == 0;
    const auto value_of_row = [&](const std::string &name, Func rows, const std::vector<Var> &own) -> Expr {
        if (!machine.timed()) return rows(own);
        Column column{Func(rows.name() + "_spread"), Func(rows.name() + "_held"), own};
        std::vector<Var> of_lane = {lane};
        of_lane.insert(of_lane.end(), own.begin(), own.end());
        column.spread(of_lane) = rows(own);
        column.held(of_lane) = column.spread(of_lane);
        columns.emplace(name, column);
        std::vector<Expr> use(own.begin(), own.end());
        use.insert(use.begin(), aligned && !PointwiseBlocks::single_numbers(point) ? n % size(lanes) : Expr(0));
        return column.held(use);
    };
    const std::set<std::string> used = inputs_of(rest_);
    // Halide realizes Funcs in the order of their names: transfers of blocks start in front of those of numbers of rows.
    const auto name_of_rows = [&](size_t i) {
        return nest_.is_present(i, 0) || nest_.is_single(i) ? names_[i] + "_rows" : "z_" + names_[i] + "_numbers";
    };
    for (size_t i = 0; i < names_.size(); i++) {
        std::vector<int64_t> extents = nest.extents_of(i);
        if (extents.empty()) extents = {1};
        ImageParam tensor = vocabulary::tensor("in_" + names_[i], extents);
        if (paged && !nest.is_single(i)) {
            std::vector<int64_t> strides;
            for (size_t d = 0; d < rank; d++)
                if (nest.is_present(i, d)) strides.push_back(pages.strides[d]);
            set_strides(tensor, strides);
        }
        tensors.push_back(tensor);
        kernel.add_input(names_[i], tensor);
        if (!used.count(names_[i])) {
            staged.emplace_back();
            continue;
        }
        Func rows(name_of_rows(i));
        if (nest.is_single(i)) {
            rows(lane) = select(lane < 1, tensor(min(lane, 0)), undef<BFloat>());
            values[names_[i]] = rows(0);
        } else {
            std::vector<Var> own;
            std::vector<Expr> index;
            for (size_t d = 0; d < rank; d++)
                if (nest.is_present(i, d)) {
                    own.push_back(vars[d]);
                    index.emplace_back(vars[d]);
                }
            const std::vector<Expr> use = all ? std::vector<Expr>(rows_of_pads.begin(), rows_of_pads.end()) : index;
            if (all) {
                own = rows_of_pads;
                index = {n % half_page, own[1], own[2], n / half_page};
            }
            // The innermost dimension's rows may end inside a vector.
            const int64_t inner = extents[0];
            if (nest.is_present(i, 0) && t.guarded) {
                index[0] = min(index[0], size(inner) - 1);
                rows(own) = select(own[0] < size(inner), tensor(index), undef<BFloat>());
            } else {
                rows(own) = tensor(index);
            }
            values[names_[i]] = nest.is_present(i, 0) ? Expr(rows(use)) : value_of_row(names_[i], rows, own);
        }
        staged.push_back(rows);
    }
    std::vector<std::pair<Func, size_t>> inputs_of_parts;  // with the dimension
    std::vector<Func> computed;
    std::map<std::string, Expr> own;  // an input of parts has one dimension
    for (const PointwisePart &part : parts_) {
        const bool single = part.dim == PointwisePart::of_single_numbers;
        const Var v = single ? lane : vars[part.dim];
        const int extent = single ? 1 : size(nest_.dims[part.dim].extent);
        for (const std::string &name : part.inputs) {
            if (own.count(name)) continue;
            Func rows(name + "_of_part");
            rows(v) = select(v < extent, tensors[input_of(name)](min(v, extent - 1)), undef<BFloat>());
            own[name] = rows(v);
            inputs_of_parts.emplace_back(rows, part.dim);
        }
        Func values_of_part(fmt::format("part_{}", computed.size()));
        values_of_part(v) = Internal::substitute(own, part.value);
        values[part.name] = single          ? Expr(values_of_part(0))
                            : part.dim == 0 ? Expr(values_of_part(v))
                                            : value_of_row(part.name, values_of_part, {v});
        computed.push_back(values_of_part);
    }
    // Parts that are used several times are named, or Halide would walk through each use.
    y(rows_of_pads) = Internal::common_subexpression_elimination(Internal::substitute(values, rest_), true);
    if (all)
        out(vars) = y(n + half_page * vars[3], vars[1], vars[2]);
    else
        out(vars) = y(vars);

    // ---- schedule
    for (size_t d = 0; d < rank; d++) out.bound(vars[d], 0, size(nest.dims[d].extent));
    std::vector<VarOrRVar> order = {ni};
    Var tile = no;
    if (!all) out.split(n, no, ni, size(t.cols), TailStrategy::ShiftInwards);
    if (rank > 1 && !all) {
        out.split(vars[1], mo, mi, size(t.rows), TailStrategy::ShiftInwards);
        order.emplace_back(mi);
        if (t.planes > 1) {
            out.split(vars[2], qo, qi, size(t.planes), TailStrategy::ShiftInwards);
            order.emplace_back(qi);
        }
        order.insert(order.end(), {mo, no});
        tile = mo;
        for (size_t d = 2; d < rank; d++) order.emplace_back(d == 2 && t.planes > 1 ? qo : vars[d]);
        out.reorder(order);
    }
    if (all)
        y.compute_root();
    else
        y.compute_at(out, tile);
    y.bound_extent(n, size(t.stored_cols)).vectorize(n, size(lanes));
    const int64_t vectors = t.stored_cols / lanes, unroll = point["unroll"];
    // Straight-line code goes round all pads, so that the pad of each access is known.
    auto [across, down, deep] = blocks_.straight(machine, t, point);
    Var row = rank > 1 ? vars[1] : n;  // the innermost loop over rows
    const int64_t pads = point["pads"], share = paged                ? vectors * 2 / pads
                                                : all                ? vectors
                                                : point["parts"] > 0 ? blocks_.part_of(t, pads)
                                                                     : 0;
    if (all) {
        const int64_t together = largest_divisor(share, std::clamp<int64_t>(unroll / pads, 1, share));
        y.bound(vars[1], 0, size(t.rows)).bound(vars[2], 0, size(t.planes)).rename(vars[1], mu).rename(vars[2], qu);
        if (together > 1)
            y.split(n, n, vu, size(together)).reorder(vu, mu, qu, n);
        else
            y.reorder(mu, qu, n);
        across = together;
        down = t.rows;
        deep = t.planes;
    } else if (paged) {
        const int64_t together = largest_divisor(share, std::clamp<int64_t>(unroll / pads, 1, share));
        y.rename(vars[1], mu);
        if (pads > 2)
            y.split(n, pu, n, size(share)).split(n, n, vu, size(together)).reorder(vu, pu, mu, n);
        else
            y.split(n, n, vu, size(together)).reorder(vu, mu, n);
        across = together * pads / 2;
        down = 2;
    } else if (share > 0 && t.planes > 1) {
        y.split(vars[2], pu, vars[2], size(share));
        std::vector<VarOrRVar> inner;
        if (across > 1) inner.emplace_back(vu);
        if (down > 1) inner.emplace_back(mu);
        inner.insert(inner.end(), {pu, n, vars[1], vars[2]});
        if (across > 1) y.split(n, n, vu, size(across));
        if (down > 1) y.split(vars[1], vars[1], mu, size(down));
        y.reorder(inner);
    } else if (share > 0) {
        const bool flat = rank == 1;
        const Var each = flat ? n : vars[1];
        const int64_t together = (flat ? across : down) / pads;
        y.split(each, pu, each, size(share));
        if (!flat && across > 1) y.split(n, n, vu, size(across));
        if (together > 1) y.split(each, each, mu, size(together));
        std::vector<VarOrRVar> inner;
        if (!flat && across > 1) inner.emplace_back(vu);
        if (!flat) inner.emplace_back(n);
        if (together > 1) inner.emplace_back(mu);
        inner.emplace_back(pu);
        inner.emplace_back(each);
        y.reorder(inner);
        row = together > 1 ? mu : pu;
    } else {
        if (across > 1) y.split(n, n, vu, size(across));
        if (down > 1) {
            y.split(vars[1], vars[1], mu, size(down));
            y.reorder(n, mu, vars[1]);
            row = mu;
        }
        if (deep > 1) y.split(vars[2], vars[2], qu, size(deep)).reorder(qu, vars[1], vars[2]);
    }
    // Two slots where transfers can run beside a loop that computes.
    const bool ring = many && machine.timed() && t.vectors() > across * down * deep;
    if (ring) y.hoist_storage_root().ring_buffer(2);
    in_pads({y});
    for (auto &[name, column] : columns) {
        column.held.compute_at(y, row).bound_extent(lane, size(lanes)).vectorize(lane, size(lanes));
        in_registers({column.held});
    }
    // Where the numbers of a column are, as many in straight-line code as a vector has lanes.
    const auto spread_at = [&](const std::string &name, const std::function<void(Func)> &place, int64_t rows) {
        const auto found = columns.find(name);
        if (found == columns.end()) return;
        Column &column = found->second;
        place(column.spread);
        column.spread.bound_extent(lane, size(lanes))
            .vectorize(lane, size(lanes))
            .split(column.own[0], column.own[0], mu, size(rows % lanes == 0 ? lanes : rows));
        in_pads({column.spread});
    };
    const auto by_tile = [&](size_t dim) { return dim == 0 ? t.width > t.cols : dim == 1 && t.rows < t.height; };
    const auto keep = [&](Func f, size_t dim) {
        const int64_t extent = round_up(dim == 0 ? t.stored_cols : dim == 1 ? t.rows : 1, lanes);
        const Var v = f.args().front();
        if (by_tile(dim))
            f.compute_at(out, dim == 0 ? no : tile).bound_extent(v, size(extent));
        else
            f.compute_root().bound(v, 0, size(extent));
        in_pads({f});
    };
    for (const auto &[rows, dim] : inputs_of_parts) keep(rows, dim);
    for (size_t i = 0; i < parts_.size(); i++) {
        const size_t dim = parts_[i].dim;
        keep(computed[i], dim);
        computed[i].vectorize(computed[i].args().front(), size(lanes));
        spread_at(
            parts_[i].name, [&](Func spread) { by_tile(dim) ? spread.compute_at(out, tile) : spread.compute_root(); },
            by_tile(dim) ? t.rows : t.height);
    }
    bool brings_rows = false;
    for (size_t i = 0; i < names_.size(); i++) brings_rows = brings_rows || (staged[i].defined() && nest.is_present(i, 0));
    for (size_t i = 0; i < names_.size(); i++) {
        Func rows = staged[i];
        if (!rows.defined()) continue;
        if (nest.is_single(i)) {
            rows.compute_root().bound(lane, 0, size(lanes));
        } else {
            // Where nothing it depends on changes further in, it stays.
            size_t level = rank;  // the loop over this dimension
            if (nest.is_present(i, 0) && t.width > t.cols) level = 0;
            for (size_t d = rank; d-- > 2;)
                if (nest.is_present(i, d)) level = std::min(level, d);
            const bool follows_rows = rank > 1 && nest.is_present(i, 1);
            const bool in_tile = rank == 1 || (follows_rows && t.rows < t.height);
            // Loops from outside: dimensions rank-1 .. 2, blocks of columns, blocks of rows.
            Var at = tile;
            bool root = all || (paged && !nest.is_present(i, rank - 1));
            if (!in_tile && !root) {
                if (nest.is_present(i, 0) && t.width > t.cols)
                    at = no;
                else if (level < rank && level >= 2)
                    at = level == 2 && t.planes > 1 ? qo : vars[level];
                else
                    root = true;
            }
            // Where blocks bring nothing else, numbers of all rows that one transfer brings stay. A block finds its own in the
            // same lanes as others.
            const bool same_lanes = machine.timed() && t.rows % lanes == 0 && t.height % t.rows == 0;
            const bool stays = !brings_rows && same_lanes && element_count(nest.extents_of(i)) <= machine.sdma.max_rows * lanes;
            if (root || stays)
                rows.compute_root();
            else
                rows.compute_at(out, at);
            if (all)
                rows.bound_extent(n, size(t.stored_cols)).split(n, no, ni, half_page);
            else if (nest.is_present(i, 0))
                rows.bound_extent(n, size(t.stored_cols));
            else
                rows.align_storage(rows.args().front(), size(lanes));
            if (!root && !stays && ring) rows.hoist_storage_root().ring_buffer(2);
            spread_at(
                names_[i], [&](Func spread) { root ? spread.compute_root() : spread.compute_at(out, at); },
                !follows_rows ? 1
                : in_tile     ? t.rows
                              : t.height);
        }
        in_pads({rows});
    }
    whole_loops(out);
    const int64_t rows_of_part = share * (rank == 1 || paged || all ? 1 : t.planes > 1 ? vectors * t.rows : vectors);
    for (size_t i = 0; i < names_.size(); i++) {
        const bool whole = nest.is_present(i, 0) && (rank == 1 || nest.is_present(i, 1)), plane = t.planes > 1 && !paged;
        // Of what has no rows a plane is one row.
        const int64_t of_planes = !plane || !nest.is_present(i, 2) ? 0
                                  : whole                          ? rows_of_part
                                  : nest.is_present(i, 0)          ? share * vectors
                                                                   : 0;
        kernel.layouts[name_of_rows(i)] = {size(pads), plane ? of_planes : whole ? rows_of_part : 0};
    }
    kernel.layouts["y"] = {size(pads), rows_of_part};
    std::vector<int64_t> extents;
    for (const LoopNest::Dim &dim : nest.dims) extents.push_back(dim.extent);
    fix_shape(out.output_buffer(), extents);
    if (paged) set_strides(out.output_buffer(), pages.strides);
    kernel.pipeline = Pipeline(out);
    kernel.outputs = {{"result", extents}};
    return kernel;
}

}  // namespace atalla
