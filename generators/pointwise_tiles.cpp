// Pointwise kernels by blocks of the innermost dimensions: of columns, rows and planes, or of the DRAM's pages.
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "generators/declared_operator.h"
#include "generators/pointwise_kernel.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

template <class Param>
void set_strides(Param param, const std::vector<int64_t> &strides) {
    for (size_t d = 1; d < strides.size(); d++) param.dim(static_cast<int>(d)).set_stride(static_cast<int>(strides[d]));
}

class PointwiseTiles : PointwiseKernel {
public:
    PointwiseTiles(const PointwiseAlgorithm &algorithm, const PointwiseBlocks &blocks, const Machine &machine,
                   const Point &point)
        : PointwiseKernel(algorithm, blocks, machine, point),
          paged_(point["parts"] == PointwiseBlocks::in_pages),
          all_(point["parts"] == PointwiseBlocks::all_in_pages),
          pages_(paged_ ? blocks.pages_of(machine, point["block"]) : PointwiseBlocks::Pages{}),
          nest_(paged_ ? pages_.nest
                : all_ ? blocks.halves_of_pages(machine)
                       : algorithm.nest),
          t_(paged_ ? blocks.pages_tiling(point["block"]) : blocks.tiling(machine, point)),
          rank_(nest_.dims.size()),
          half_page_(size(all_ ? blocks.half_of_page(machine) : 0)),
          vectors_(t_.stored_cols / lanes),
          pads_(point["pads"]),
          share_(paged_               ? vectors_ * 2 / pads_
                 : all_               ? vectors_
                 : point["parts"] > 0 ? blocks.part_of(t_, pads_)
                                      : 0),
          straight_(blocks.straight(machine, t_, point)) {
        for (size_t d = 0; d < rank_; d++) vars_.emplace_back(fmt::format("d{}_", d));
        n_ = vars_[0];
        rows_of_pads_ = all_ ? std::vector<Var>(vars_.begin(), vars_.begin() + 3) : vars_;
        tile_ = rank_ > 1 ? mo_ : no_;
        row_ = rank_ > 1 ? vars_[1] : n_;
    }

    KernelDefinition build() {
        for (size_t i = 0; i < algorithm_.names.size(); i++) bring(i);
        for (const PointwisePart &part : algorithm_.parts) compute(part);
        define_result();
        loop_over_blocks();
        loop_inside_block();
        hold_columns();
        place_parts();
        place_inputs();
        lay_out_pads();
        std::vector<int64_t> extents;
        for (const LoopNest::Dim &dim : nest_.dims) extents.push_back(dim.extent);
        KernelDefinition kernel = finish(out_, extents);
        if (paged_) set_strides(out_.output_buffer(), pages_.strides);
        return kernel;
    }

private:
    // Rows in the pads, of an input or of what a part is made of, and which input or dimension they are of.
    struct Rows {
        Func func;
        size_t of = 0;
    };
    // A number for each row is spread over a vector of equal lanes, so that the loop over rows is one: no vector has a lane
    // that varies.
    struct Column {
        Func spread, held;  // in the pads; in registers while its row is computed
        std::vector<Var> own;
    };

    // ---- algorithm

    // Halide realizes Funcs in the order of their names: transfers of blocks start in front of those of numbers of rows.
    std::string name_of_rows(size_t i) const {
        const std::string &name = algorithm_.names[i];
        return algorithm_.nest.is_present(i, 0) || algorithm_.nest.is_single(i) ? name + "_rows" : "z_" + name + "_numbers";
    }

    void bring(size_t i) {
        const std::string &name = algorithm_.names[i];
        std::vector<int64_t> extents = nest_.extents_of(i);
        const bool single = nest_.is_single(i);
        if (single) extents = {1};
        const ImageParam tensor = add_tensor(name, extents);
        std::vector<Var> own;
        std::vector<int64_t> strides;
        for (size_t d = 0; d < rank_; d++) {
            if (!nest_.is_present(i, d)) continue;
            own.push_back(vars_[d]);
            if (paged_) strides.push_back(pages_.strides[d]);
        }
        set_strides(tensor, strides);
        if (!is_read(name)) return;
        if (single) {
            values_[name] = row_of(name_of_rows(i), tensor, 1)(0);
            return;
        }
        std::vector<Expr> index(own.begin(), own.end());
        if (all_) {
            own = rows_of_pads_;
            index = {n_ % half_page_, own[1], own[2], n_ / half_page_};
        }
        Func rows(name_of_rows(i));
        // The innermost dimension's rows may end inside a vector.
        const int64_t inner = extents[0];
        if (nest_.is_present(i, 0) && t_.guarded) {
            index[0] = min(index[0], size(inner) - 1);
            rows(own) = select(own[0] < size(inner), tensor(index), undef<BFloat>());
        } else {
            rows(own) = tensor(index);
        }
        values_[name] = nest_.is_present(i, 0) ? Expr(rows(own)) : value_of_row(name, rows, own);
        inputs_.push_back({rows, i});
    }

    void compute(const PointwisePart &part) {
        const bool single = part.dim == PointwisePart::of_single_numbers;
        const Var v = single ? lane_ : vars_[part.dim];
        const int extent = single ? 1 : size(algorithm_.nest.dims[part.dim].extent);
        for (const std::string &name : part.inputs) {
            if (of_parts_.count(name)) continue;  // an input of parts has one dimension
            Func rows(name + "_of_part");
            rows(v) = select(v < extent, tensor_of(name)(min(v, extent - 1)), undef<BFloat>());
            of_parts_[name] = rows(v);
            inputs_of_parts_.push_back({rows, part.dim});
        }
        Func values(fmt::format("part_{}", computed_.size()));
        values(v) = Internal::substitute(of_parts_, part.value);
        values_[part.name] = single ? Expr(values(0)) : part.dim == 0 ? Expr(values(v)) : value_of_row(part.name, values, {v});
        computed_.push_back(values);
    }

    Expr value_of_row(const std::string &name, Func rows, const std::vector<Var> &own) {
        if (!machine_.timed()) return rows(own);
        Column column{Func(rows.name() + "_spread"), Func(rows.name() + "_held"), own};
        std::vector<Var> of_lane = {lane_};
        of_lane.insert(of_lane.end(), own.begin(), own.end());
        column.spread(of_lane) = rows(own);
        column.held(of_lane) = column.spread(of_lane);
        columns_.emplace(name, column);
        // Of a block that begins inside a vector of its row, lanes are not known.
        const bool aligned = t_.width <= t_.cols || t_.width % lanes == 0;
        std::vector<Expr> use(own.begin(), own.end());
        use.insert(use.begin(), aligned && !PointwiseBlocks::single_numbers(point_) ? n_ % size(lanes) : Expr(0));
        return column.held(use);
    }

    void define_result() {
        y_(rows_of_pads_) = result_of(values_);
        if (all_)
            out_(vars_) = y_(n_ + half_page_ * vars_[3], vars_[1], vars_[2]);
        else
            out_(vars_) = y_(vars_);
    }

    // ---- loops

    void loop_over_blocks() {
        for (size_t d = 0; d < rank_; d++) out_.bound(vars_[d], 0, size(nest_.dims[d].extent));
        if (all_) {
            y_.compute_root();
            return;
        }
        out_.split(n_, no_, ni_, size(t_.cols), TailStrategy::ShiftInwards);
        if (rank_ > 1) {
            std::vector<VarOrRVar> order = {ni_, mi_};
            out_.split(vars_[1], mo_, mi_, size(t_.rows), TailStrategy::ShiftInwards);
            if (t_.planes > 1) {
                out_.split(vars_[2], qo_, qi_, size(t_.planes), TailStrategy::ShiftInwards);
                order.emplace_back(qi_);
            }
            order.insert(order.end(), {mo_, no_});
            for (size_t d = 2; d < rank_; d++) order.emplace_back(over(d));
            out_.reorder(order);
        }
        y_.compute_at(out_, tile_);
    }
    // The loop over blocks of an outer dimension.
    Var over(size_t d) const { return d == 2 && t_.planes > 1 ? qo_ : vars_[d]; }

    // Straight-line code goes round all pads, so that the pad of each access is known.
    void loop_inside_block() {
        y_.bound_extent(n_, size(t_.stored_cols)).vectorize(n_, size(lanes));
        if (all_)
            go_through_halves_of_pages();
        else if (paged_)
            go_through_pages();
        else if (share_ > 0 && t_.planes > 1)
            go_through_parts_of_planes();
        else if (share_ > 0)
            go_through_parts_of_rows();
        else
            go_round_pads();
        if (has_slots()) y_.hoist_storage_root().ring_buffer(2);
        in_pads({y_});
    }

    // Vectors of a pad in straight-line code, of those that are its share.
    int64_t vectors_together() const {
        return largest_divisor(share_, std::clamp<int64_t>(point_["unroll"] / pads_, 1, share_));
    }

    void go_through_halves_of_pages() {
        const int64_t together = vectors_together();
        y_.bound(vars_[1], 0, size(t_.rows)).bound(vars_[2], 0, size(t_.planes)).rename(vars_[1], mu_).rename(vars_[2], qu_);
        if (together > 1)
            y_.split(n_, n_, vu_, size(together)).reorder(vu_, mu_, qu_, n_);
        else
            y_.reorder(mu_, qu_, n_);
        straight_ = {together, t_.rows, t_.planes};
    }

    void go_through_pages() {
        const int64_t together = vectors_together();
        y_.rename(vars_[1], mu_);
        if (pads_ > 2)
            y_.split(n_, pu_, n_, size(share_)).split(n_, n_, vu_, size(together)).reorder(vu_, pu_, mu_, n_);
        else
            y_.split(n_, n_, vu_, size(together)).reorder(vu_, mu_, n_);
        straight_.across = together * pads_ / 2;
        straight_.down = 2;
    }

    void go_through_parts_of_planes() {
        y_.split(vars_[2], pu_, vars_[2], size(share_));
        std::vector<VarOrRVar> inner;
        if (straight_.across > 1) inner.emplace_back(vu_);
        if (straight_.down > 1) inner.emplace_back(mu_);
        inner.insert(inner.end(), {pu_, n_, vars_[1], vars_[2]});
        if (straight_.across > 1) y_.split(n_, n_, vu_, size(straight_.across));
        if (straight_.down > 1) y_.split(vars_[1], vars_[1], mu_, size(straight_.down));
        y_.reorder(inner);
    }

    void go_through_parts_of_rows() {
        const bool flat = rank_ == 1;
        const Var each = flat ? n_ : vars_[1];
        const int64_t together = (flat ? straight_.across : straight_.down) / pads_;
        y_.split(each, pu_, each, size(share_));
        if (!flat && straight_.across > 1) y_.split(n_, n_, vu_, size(straight_.across));
        if (together > 1) y_.split(each, each, mu_, size(together));
        std::vector<VarOrRVar> inner;
        if (!flat && straight_.across > 1) inner.emplace_back(vu_);
        if (!flat) inner.emplace_back(n_);
        if (together > 1) inner.emplace_back(mu_);
        inner.emplace_back(pu_);
        inner.emplace_back(each);
        y_.reorder(inner);
        row_ = together > 1 ? mu_ : pu_;
    }

    void go_round_pads() {
        if (straight_.across > 1) y_.split(n_, n_, vu_, size(straight_.across));
        if (straight_.down > 1) {
            y_.split(vars_[1], vars_[1], mu_, size(straight_.down));
            y_.reorder(n_, mu_, vars_[1]);
            row_ = mu_;
        }
        if (straight_.deep > 1) y_.split(vars_[2], vars_[2], qu_, size(straight_.deep)).reorder(qu_, vars_[1], vars_[2]);
    }

    // Two of them where transfers can run beside a loop that computes.
    bool has_slots() const { return (t_.blocks > 1 || paged_) && machine_.timed() && t_.vectors() > straight_.all(); }

    // ---- places

    // Inside of this loop over blocks, or in front of all of them.
    void place(Func func, const std::optional<Var> &loop) {
        if (loop)
            func.compute_at(out_, *loop);
        else
            func.compute_root();
    }

    void hold_columns() {
        for (auto &[name, column] : columns_) {
            column.held.compute_at(y_, row_).bound_extent(lane_, size(lanes)).vectorize(lane_, size(lanes));
            in_registers({column.held});
        }
    }

    // The numbers of a column, if it is one, of so many rows; as many in straight-line code as a vector has lanes.
    void place_column(const std::string &name, const std::optional<Var> &loop, int64_t rows) {
        const auto found = columns_.find(name);
        if (found == columns_.end()) return;
        Column &column = found->second;
        place(column.spread, loop);
        column.spread.bound_extent(lane_, size(lanes))
            .vectorize(lane_, size(lanes))
            .split(column.own[0], column.own[0], mu_, size(rows % lanes == 0 ? lanes : rows));
        in_pads({column.spread});
    }

    // The loop whose blocks are of this dimension.
    std::optional<Var> loop_of_part(size_t dim) const {
        if (dim == 0 && t_.width > t_.cols) return no_;
        if (dim == 1 && t_.rows < t_.height) return tile_;
        return {};
    }
    void place_part(Func func, size_t dim) {
        const int64_t extent = round_up(dim == 0 ? t_.stored_cols : dim == 1 ? t_.rows : 1, lanes);
        const Var v = func.args().front();
        const std::optional<Var> loop = loop_of_part(dim);
        place(func, loop);
        if (loop)
            func.bound_extent(v, size(extent));
        else
            func.bound(v, 0, size(extent));
        in_pads({func});
    }
    void place_parts() {
        for (const Rows &rows : inputs_of_parts_) place_part(rows.func, rows.of);
        for (size_t i = 0; i < computed_.size(); i++) {
            const size_t dim = algorithm_.parts[i].dim;
            place_part(computed_[i], dim);
            computed_[i].vectorize(computed_[i].args().front(), size(lanes));
            const std::optional<Var> loop = loop_of_part(dim);
            place_column(algorithm_.parts[i].name, loop, loop ? t_.rows : t_.height);
        }
    }

    bool follows_rows(size_t input) const { return rank_ > 1 && nest_.is_present(input, 1); }
    // Does each block have others of its rows?
    bool changes_in_tile(size_t input) const { return rank_ == 1 || (follows_rows(input) && t_.rows < t_.height); }
    // The loop over blocks in which an input's rows come. Where nothing they depend on changes further in, they stay. Loops
    // from outside: dimensions rank-1 .. 2, blocks of columns, blocks of rows.
    std::optional<Var> loop_of(size_t input) const {
        if (all_ || (paged_ && !nest_.is_present(input, rank_ - 1))) return {};
        if (changes_in_tile(input)) return tile_;
        if (nest_.is_present(input, 0) && t_.width > t_.cols) return no_;
        for (size_t d = 2; d < rank_; d++)
            if (nest_.is_present(input, d)) return over(d);
        return {};
    }
    // Where blocks bring nothing else, numbers of all rows that one transfer brings stay. A block finds its own in the same
    // lanes as others.
    bool stays(size_t input) const {
        const bool same_lanes = machine_.timed() && t_.rows % lanes == 0 && t_.height % t_.rows == 0;
        const auto brings_rows = [&](const Rows &rows) { return nest_.is_present(rows.of, 0); };
        return same_lanes && std::ranges::none_of(inputs_, brings_rows) &&
               element_count(nest_.extents_of(input)) <= machine_.sdma.max_rows * lanes;
    }
    void place_inputs() {
        for (Rows &input : inputs_) {
            Func rows = input.func;
            const bool has_columns = nest_.is_present(input.of, 0);
            const std::optional<Var> loop = loop_of(input.of), loop_of_rows = stays(input.of) ? std::nullopt : loop;
            place(rows, loop_of_rows);
            if (all_)
                rows.bound_extent(n_, size(t_.stored_cols)).split(n_, no_, ni_, half_page_);
            else if (has_columns)
                rows.bound_extent(n_, size(t_.stored_cols));
            else
                rows.align_storage(rows.args().front(), size(lanes));
            if (loop_of_rows && has_slots()) rows.hoist_storage_root().ring_buffer(2);
            place_column(algorithm_.names[input.of], loop,
                         !follows_rows(input.of)     ? 1
                         : changes_in_tile(input.of) ? t_.rows
                                                     : t_.height);
            in_pads({rows});
        }
    }

    void lay_out_pads() {
        const int64_t rows_of_part = share_ * (rank_ == 1 || paged_ || all_ ? 1
                                               : t_.planes > 1              ? vectors_ * t_.rows
                                                                            : vectors_);
        for (size_t i = 0; i < algorithm_.names.size(); i++) {
            const bool whole = nest_.is_present(i, 0) && (rank_ == 1 || nest_.is_present(i, 1)),
                       plane = t_.planes > 1 && !paged_;
            // Of what has no rows a plane is one row.
            const int64_t of_planes = !plane || !nest_.is_present(i, 2) ? 0
                                      : whole                           ? rows_of_part
                                      : nest_.is_present(i, 0)          ? share_ * vectors_
                                                                        : 0;
            kernel_.layouts[name_of_rows(i)] = {size(pads_), plane ? of_planes : whole ? rows_of_part : 0};
        }
        kernel_.lay_out(y_, {size(pads_), rows_of_part});
    }

    const bool paged_, all_;  // `all_`: each pad has half of every other page
    const PointwiseBlocks::Pages pages_;
    const LoopNest nest_;
    const Tiling t_;
    const size_t rank_;
    const int half_page_;
    const int64_t vectors_, pads_;  // of a row; that a buffer goes round
    const int64_t share_;           // of a pad, where a block lies in parts: vectors of a row, rows or planes
    StraightVectors straight_;

    std::vector<Var> vars_;
    Var n_, no_{"no"}, ni_{"ni"}, mo_{"mo"}, mi_{"mi"}, qo_{"qo"}, qi_{"qi"}, vu_{"v_unroll"}, mu_{"m_unroll"}, qu_{"q_unroll"},
        pu_{"p_unroll"}, lane_{"lane"};
    Var tile_;  // the innermost loop over blocks
    Var row_;   // the innermost loop over rows
    // Where a pad has all of its halves of pages they follow each other in one dimension.
    std::vector<Var> rows_of_pads_;

    Func out_{"result"}, y_{"y"};
    std::map<std::string, Expr> values_, of_parts_;  // what elements meet, and what parts are made of
    std::vector<Rows> inputs_, inputs_of_parts_;
    std::vector<Func> computed_;  // parts
    std::map<std::string, Column> columns_;
};

}  // namespace

KernelDefinition pointwise_of_tiles(const PointwiseAlgorithm &algorithm, const PointwiseBlocks &blocks, const Machine &machine,
                                    const Point &point) {
    return PointwiseTiles(algorithm, blocks, machine, point).build();
}

}  // namespace atalla
