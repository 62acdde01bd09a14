#include "generators/gemm.h"

#include <algorithm>

#include "generators/batch_vars.h"
#include "generators/gemm_inner.h"
#include "generators/gemm_plan.h"
#include "generators/gemm_prologue.h"
#include "generators/pointwise_functions.h"
#include "generators/vocabulary.h"
#include "isa/error.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// The pipeline while it is put together. W is a weight tile (32 vectors), P one 32-deep dot product in float32, C the bf16
// sums over the tiles. As and Bs are the operands in the pads, a row of 32 elements of k for each m (n) and k tile.
//
// Where another product makes the rows of A, that is a pipeline of its own without a result in the memory: its blocks of
// columns are the k tiles of As, whose loops it is scheduled in. It is called the inner one, and this its reader.
class GemmPipeline {
public:
    GemmPipeline(const GemmShape &shape, const Machine &machine, const Point &point, const GemmPipeline *reader = nullptr)
        : reader_(reader),
          shape_(shape),
          machine_(machine),
          point_(point),
          plan_(shape, machine, point),
          m_size_(static_cast<int>(shape.m)),
          n_size_(static_cast<int>(shape.n)),
          k_size_(static_cast<int>(shape.k)),
          k_tiles_(static_cast<int>(shape.k_tiles())),
          group_(static_cast<int>(shape.sum_group())),
          rows_(static_cast<int>(std::min<int64_t>(point["rows"], shape.m))),
          cols_(std::min(lanes, n_size_)),
          row_blocks_(ceil_div(m_size_, rows_)),
          col_blocks_(ceil_div(n_size_, cols_)),
          k_block_(point.contains("k_block") && point["k_block"] > 0 ? std::min(static_cast<int>(point["k_block"]), k_tiles_)
                                                                     : k_tiles_),
          pass_(point.contains("row_pass") && point["row_pass"] > 0
                    ? static_cast<int>(std::min<int64_t>(point["row_pass"], rows_))
                    : rows_),
          whole_(k_block_ == k_tiles_),
          k_outer_(point.contains("k_outer") && point["k_outer"] != 0),
          streamed_(plan_.streamed),
          m_outer_(point["m_outer"] != 0),
          row_major_(point["b_row_major"] != 0),
          a_resident_(point.contains("a_resident") && point["a_resident"] != 0 && row_blocks_ > 1),
          b_resident_(point["b_resident"] != 0 && col_blocks_ > 1),
          c_whole_(plan_.c_whole) {
        const int quantum = static_cast<int>(machine.pad.count);
        if (shape.prologue) {
            if (!shape.batch.empty() || in_passes() || (!makes_all() && !m_outer_))
                throw Error("gemm: rows that are made belong to one product, whose columns pass within a block of them");
            prologue_.emplace(shape.prologue->row_shape(), machine, prologue_point(point), "A", "a_");
        }
        if (shape.inner) {
            if (!shape.batch.empty() || !shape.inner->batch.empty() || in_passes() || !m_outer_)
                throw Error("gemm: rows that a product makes belong to one product, whose columns pass within a block of them");
            inner_point_ = inner_point(point);
            inner_ = std::make_unique<GemmPipeline>(*shape.inner, machine, inner_point_, this);
        }
        stored_rows_ = round_up(pass_, quantum);
        waiting_rows_ = static_cast<int>(plan_.waiting_rows());
        if (shape.blocked_sums && (in_passes() || ends_apart() || (!whole_ && group_ % k_block_ != 0)))
            throw Error("gemm: sums in groups take the rows in one pass, and parts of k that divide a group");
        if (!whole_ && (k_tiles_ % k_block_ != 0 || b_resident_))
            throw Error("gemm: k_block must divide the k tiles, and B cannot stay in the pads with it");
        if (k_outer_ && (whole_ || !m_outer_ || !shape.batch.empty() || shape.makes_rows() || shape.blocked_sums ||
                         !shape.b_transposed || n_size_ % lanes != 0 || in_passes()))
            throw Error("gemm: only whole blocks of columns of one product, within a block of rows, wait for further k tiles");
        if (in_passes() && (rows_ % pass_ != 0 || point["sums_in_registers"] == 0))
            throw Error("gemm: row_pass must divide the rows, and needs the sums in registers");
        if (in_passes() && (staged_ || !shape.operands.empty()))
            throw Error("gemm: the rows of an epilogue with operands pass in one");
        if (c_whole_ && (shape.b_transposed || !b_resident_ || shape.addend || !shape.operands.empty() || staged_ ||
                         shape.blocked_sums || shape.makes_rows() || reader != nullptr))
            throw Error(
                "gemm: results of all columns leave together where all of B is transposed first and no other tensor "
                "comes with each block of them");
        for (const GemmOperand &operand : shape.operands) {
            operands_.emplace_back(operand.name + "_rows");
            operand_tensors_.push_back(tensor("in_" + operand.name, shape.operand_extents(operand)));
        }
    }

    KernelDefinition build() {
        define_result();
        if (sums_leave()) {
            define(out, {n, m}, C(n % lanes, n / lanes, m));
        } else if (streamed_) {
            define(Es, {k, kt, m}, E(kt * lanes + k, m));
            define(out, {n, m}, Es(n % lanes, n / lanes, m));
        } else if (c_whole_) {
            define(Es, args({k, m, kt}), E(args({kt * lanes + k, m})));
            define(out, args({n, m}), Es(args({n % lanes, m, n / lanes})));
        } else {
            define(out, args({n, m}), result()(args({n, m})));
        }
        schedule_loops();
        schedule();
        KernelDefinition kernel;
        kernel.pipeline = Pipeline(out);
        add_tensors(kernel);
        kernel.outputs = {{"C", shape_.c_extents()}};
        return kernel;
    }

private:
    void define_result() {
        define_operands();
        define_product();
        define_epilogue();
    }
    void schedule() {
        schedule_operands();
        schedule_product();
        schedule_epilogue();
    }
    // Is nothing left to be done to the sums of all columns?
    bool sums_leave() const {
        return streamed_ && !shape_.epilogue && !shape_.relu && shape_.alpha == 1 &&
               (!shape_.bias || shape_.starts_with_bias());
    }
    Func result() const { return staged_ ? F : E; }

    // The product whose result leaves.
    const GemmPipeline &last() const { return reader_ != nullptr ? reader_->last() : *this; }
    // Where a block of columns, a block of rows and both together are computed.
    LoopLevel columns() const {
        if (streamed_) return {out, mo};
        if (stages_all() || c_whole_) return {Es, kt};
        return reader_ == nullptr ? LoopLevel(out, no) : LoopLevel(reader_->As, reader_->kt);
    }
    LoopLevel block_of_rows() const { return {last().out, last().mo}; }
    LoopLevel block() const { return m_outer_ ? columns() : block_of_rows(); }
    // Of an inner product, all columns are in the pads before its epilogue begins.
    bool stages_all() const { return staged_ && point_.contains("stage_all") && point_["stage_all"] != 0; }
    // A Func's name in the kernel.
    std::string named(const char *name) const { return reader_ != nullptr ? reader_->named("inner_") + name : name; }

    // Tiles of columns stay where they are, so that the last one may have some alone.
    bool partial_tiles() const { return (reader_ != nullptr || c_whole_) && n_size_ % lanes != 0; }
    // All rows of A are made before the product.
    bool makes_all() const { return shape_.prologue && point_["prologue_rows"] > 0; }
    // Rows of A and of the result pass through the pads in parts of a block.
    bool in_passes() const { return pass_ < rows_; }
    // Sums in the pads start with the first k tile and become results with the last. (Those in registers start so by
    // themselves, since their values are known.)
    bool ends_apart() const {
        return whole_ && point_["sums_in_registers"] == 0 && point_.contains("k_ends_apart") && point_["k_ends_apart"] != 0;
    }
    bool has_sums() const { return !ends_apart() || k_tiles_ > 1; }
    bool has_updates() const { return !ends_apart() || k_tiles_ > 2; }
    std::vector<Expr> args(std::vector<Expr> own, bool BatchDim::*has = nullptr) const {
        return batch_.args(std::move(own), has);
    }
    // Rows of a k tile together, or (B) the k tiles of a row together: one transfer then brings up to 32 k tiles of one row.
    std::vector<Expr> ordered(Expr lane, Expr row, Expr tile, bool row_first) const {
        return args(row_first ? std::vector<Expr>{std::move(lane), std::move(tile), std::move(row)}
                              : std::vector<Expr>{std::move(lane), std::move(row), std::move(tile)});
    }

    void define_operands() {
        const bool k_tail = k_tiles_ * lanes > k_size_;
        const Expr depth = kt * lanes + k, last_k = min(depth, k_size_ - 1), last_n = min(n, n_size_ - 1),
                   row = whole_rounds_ ? min(m, m_size_ - 1) : Expr(m);
        if (inner_) inner_->define_result();
        if (shape_.makes_rows()) {
            // They are zeros where a row ends, whatever the tensors that make them have there.
            const Expr made = inner_ ? inner_->result()(depth, m)
                                     : Internal::substitute(prologue_->n.name(), depth, shape_.prologue->element(*prologue_));
            define(As, ordered(k, m, kt, false), k_tail ? select(depth < k_size_, made, bf16(0.0f)) : made);
        } else if (k_tail)
            define_within(As, ordered(k, m, kt, false), whole_rounds_ ? depth < k_size_ && m < m_size_ : depth < k_size_,
                          a(args({last_k, row}, &BatchDim::a)));
        else if (whole_rounds_)
            define(As, ordered(k, m, kt, false), select(m < m_size_, a(args({depth, row}, &BatchDim::a)), undef<BFloat>()));
        else
            define(As, ordered(k, m, kt, false), a(args({depth, m}, &BatchDim::a)));

        const std::vector<Expr> place = ordered(k, n, kt, row_major_);
        if (!shape_.b_transposed) {
            const Expr column = nt * lanes + n;
            if (k_tail || n_size_ % lanes != 0)
                define_within(Bk, args({n, k, kt, nt}), depth < k_size_ && column < n_size_,
                              b(args({min(column, n_size_ - 1), last_k}, &BatchDim::b)));
            else
                define(Bk, args({n, k, kt, nt}), b(args({column, depth}, &BatchDim::b)));
            // Its rows as weights, and the rows of the identity through them.
            identity(k, i) = select(k == (machine_.timed() ? Expr(i) : i % lanes), bf16(1.0f), bf16(0.0f));
            define(Wt, args({k, w, kt, nt}), Bk(args({k, w, kt, nt})));
            define(Pt, args({k, n, kt}), 0.0f);
            Pt(args({k, n, kt})) +=
                f32(identity(q, machine_.timed() ? n % lanes : Expr(n))) * f32(Wt(args({q, k, kt, n / lanes})));
            define(Bs, place, bf16(Pt(args({k, n, kt}))));
        } else if (k_tail || partial_tiles()) {
            define_within(Bs, place, depth < k_size_ && n < n_size_, b(args({last_k, last_n}, &BatchDim::b)));
        } else if (n_size_ < lanes) {
            // The columns that are not there keep to their lanes, and those are not stored.
            define(Bs, place, select(n < n_size_, b(args({depth, last_n}, &BatchDim::b)), undef<BFloat>()));
        } else {
            define(Bs, place, b(args({depth, n}, &BatchDim::b)));
        }
        define(W, args({k, w, kt}), Bs(ordered(k, w, kt, row_major_)));
    }

    // What is past the last column keeps to its lanes.
    bool n_tail() const { return n_size_ < lanes || partial_tiles(); }
    Expr within_columns(Expr value) const { return n_tail() ? select(n < n_size_, std::move(value), undef<BFloat>()) : value; }
    Expr column() const { return n_tail() ? min(n, n_size_ - 1) : Expr(n); }
    Expr bias_term() const {
        return shape_.beta != 1 && !shape_.addend ? strict_float(bs(n) * bf16(static_cast<float>(shape_.beta))) : Expr(bs(n));
    }

    void define_product() {
        define(P, args({n, m, kb}), 0.0f);
        P(args({n, m, kb})) += f32(As(ordered(q, m, kb, false))) * f32(W(args({q, n, kb})));
        if (shape_.bias) bs(n) = within_columns(bias(column()));
        const Expr start = shape_.starts_with_bias() ? bias_term() : sum_start(machine_);
        if (shape_.blocked_sums) {
            G(args({n, m, kg})) = start;
            G(args({n, m, kg})) = strict_float(G(args({n, m, kg})) + bf16(P(args({n, m, kg * group_ + r}))));
            C(args({n, m})) = bf16(-0.0f);
            C(args({n, m})) = strict_float(C(args({n, m})) + G(args({n, m, rg})));
            sums_ = C(args({n, m}));
            return;
        }
        if (streamed_) {
            // Rows of the result follow each other in the pads.
            C(n, nb, m) = Internal::substitute(n.name(), nb * lanes + n, start);
            C(n, nb, m) = strict_float(C(n, nb, m) + bf16(P(nb * lanes + n, m, r)));
            sums_ = C(n % lanes, n / lanes, m);
            return;
        }
        if (k_outer_) {
            C(n, m, nb) = start;
            C(n, m, nb) = strict_float(C(n, m, nb) + bf16(P(nb * lanes + n, m, r)));
            sums_ = C(n % lanes, m, n / lanes);
            return;
        }
        if (!ends_apart()) {
            C(args({n, m})) = start;
            C(args({n, m})) = strict_float(C(args({n, m})) + bf16(P(args({n, m, r}))));
            sums_ = C(args({n, m}));
            return;
        }
        // -0 + x is x. (It must not be written: Halide takes -0 and the 0 of a ReLU for equal and keeps one of them.)
        sums_ = one_tile(W0, P0, 0);
        if (shape_.starts_with_bias() || array_adds(machine_)) sums_ = strict_float(start + sums_);
        if (k_tiles_ == 1) return;
        define(C, args({n, m}), sums_);
        if (k_tiles_ > 2) C(args({n, m})) = strict_float(C(args({n, m})) + bf16(P(args({n, m, r}))));
        sums_ = strict_float(C(args({n, m})) + one_tile(W1, P1, k_tiles_ - 1));
    }
    // The product with one k tile, whose weights and product have Funcs of their own.
    Expr one_tile(Func weights, Func product, int tile) {
        define(weights, args({k, w}), Bs(ordered(k, w, tile, row_major_)));
        define(product, args({n, m}), 0.0f);
        product(args({n, m})) += f32(As(ordered(q, m, tile, false))) * f32(weights(args({q, n})));
        return bf16(product(args({n, m})));
    }

    void define_epilogue() {
        Expr e = sums_;
        if (shape_.alpha != 1) e = strict_float(e * bf16(static_cast<float>(shape_.alpha)));
        if (shape_.bias && !shape_.starts_with_bias()) e = strict_float(e + bias_term());
        if (shape_.addend) {
            define(Ds, args({n, m}), within_columns(d(args({column(), m}, &BatchDim::addend))));
            const Expr term = Ds(args({n, m}));
            e = strict_float(e + (shape_.beta != 1 ? strict_float(term * bf16(static_cast<float>(shape_.beta))) : term));
        }
        if (shape_.relu) e = select(strict_float(e < bf16(0.0f)), bf16(0.0f), e);
        if (!shape_.epilogue) {
            define(E, args({n, m}), e);
        } else if (!staged_) {
            define(E, args({n, m}), epilogue_of(e));
        } else {
            define(E, args({n, m}), e);
            if (stages_all()) define(Es, {k, m, kt}, E(kt * lanes + k, m));
            define(F, args({n, m}), epilogue_of(stages_all() ? Es(n % lanes, m, n / lanes) : E(args({n, m}))));
        }
    }

    Expr epilogue_of(const Expr &product) {
        std::map<std::string, Expr> values = {{product_name, product}};
        for (size_t i = 0; i < operands_.size(); i++) {
            const GemmOperand &operand = shape_.operands[i];
            if (operand.kind == GemmOperand::Matrix) {
                define(operands_[i], args({n, m}), within_columns(operand_tensors_[i](args({column(), m}))));
                values[operand.name] = operands_[i](args({n, m}));
            } else if (operand.kind == GemmOperand::Row) {
                operands_[i](n) = within_columns(operand_tensors_[i](column()));
                values[operand.name] = operands_[i](n);
            } else {
                // Each element in a row of the pads, whose first lane serves all others.
                operands_[i](u, m) = operand_tensors_[i](m);
                values[operand.name] = operands_[i](0, m);
            }
        }
        return Internal::common_subexpression_elimination(machine_expression(*shape_.epilogue, values), true);
    }

    void schedule_loops() {
        out.bound(n, 0, n_size_).bound(m, 0, m_size_);
        // A transposed tile starts at a multiple of 32 columns, and so do blocks of results that leave together; others may
        // begin earlier at the end.
        out.split(n, no, ni, cols_,
                  shape_.b_transposed || (b_resident_ && !c_whole_ && n_size_ % static_cast<int>(machine_.pad.count) == 0)
                      ? TailStrategy::ShiftInwards
                      : TailStrategy::GuardWithIf);
        out.split(m, mo, mi, rows_, TailStrategy::ShiftInwards);
        std::vector<VarOrRVar> order = {ni, mi};
        if (in_passes()) {
            out.split(mi, mp, mi, pass_);
            order.push_back(mp);
        }
        if (m_outer_)
            order.insert(order.end(), {no, mo});
        else
            order.insert(order.end(), {mo, no});
        batch_.add_loops(out, order);
        out.reorder(order);
        whole_loops(out);
        fix_shape(out.output_buffer(), shape_.c_extents());
    }

    // Two slots where transfers can run ahead: on a machine that takes time for them.
    void two_slots(Func f, int64_t blocks) const {
        if (blocks * shape_.products() > 1 && machine_.timed() && !one_slot_ && (reader_ == nullptr || !partial_tiles()))
            f.hoist_storage_root().ring_buffer(2);
    }

    // The operands of a block come whole, or (where the pads are small) so many k tiles at a time.
    void schedule_operands() {
        As.bound_storage(m,
                         makes_all() || a_resident_ ? round_up(m_size_, static_cast<int>(machine_.pad.count)) : stored_rows_);
        if (!prologue_) As.vectorize(k, lanes);
        Func loaded = shape_.b_transposed ? Bs : Bk;
        loaded.vectorize(shape_.b_transposed ? k : n, lanes);
        if (!streamed_ && (!b_resident_ || !shape_.b_transposed)) loaded.bound_extent(n, lanes);
        if (makes_all())
            prologue_->make_all_rows(As, k, kt);
        else if (prologue_)
            prologue_->make_rows(As, k, kt, last().out, last().mo);
        else if (inner_)
            make_rows();
        else if (a_resident_)
            As.compute_root();
        else if (in_passes())
            As.compute_at(C, mp);
        else if (whole_)
            As.compute_at(block_of_rows());
        else
            As.compute_at(sums(), ro);
        if (turns_inside_)
            Bs.compute_at(sums(), r);
        else if (streamed_)
            Bs.compute_root();
        else if (whole_ && (shape_.b_transposed || !b_resident_))
            Bs.compute_at(columns());
        else if (k_outer_)
            Bs.compute_at(C, nb).hoist_storage(C, ro).ring_buffer(2);
        else if (!whole_)
            Bs.compute_at(sums(), ro);
        if (whole_ && !in_passes() && !shape_.makes_rows() && !a_resident_) two_slots(As, row_blocks_);
        if (shape_.b_transposed) {
            if (b_resident_ && (row_blocks_ == 1 || n_size_ % lanes != 0))
                Bs.compute_root();
            else if (b_resident_)
                Bs.store_root();
            else if (whole_ && !streamed_)
                two_slots(Bs, col_blocks_);
        } else {
            // Where the pads are small, the tile and the identity pass through registers.
            if (machine_.timed()) {
                // Its rows go round the pads where the pad of each is known.
                identity.compute_root().bound(i, 0, lanes);
                if (lanes % machine_.pad.count == 0) identity.split(i, i, iu, static_cast<int>(machine_.pad.count));
            }
            identity.bound(k, 0, lanes).vectorize(k, lanes);
            Bs.vectorize(k, lanes);
            if (b_resident_) {
                Bs.compute_root().bound(n, 0, col_blocks_ * lanes).split(n, nb, n, lanes).reorder(k, n, kt, nb);
                if (!c_whole_)
                    Bk.compute_at(Bs, nb);
                else if (batch_.size() > 0)
                    Bk.compute_at(Bs, batch_.var(0));
                else
                    Bk.compute_root();
            } else {
                Bs.bound_extent(n, lanes).reorder(k, n, kt);
                if (whole_)
                    Bk.compute_at(columns());
                else
                    Bk.compute_at(sums(), ro);
            }
            if (whole_ && (n_size_ % lanes == 0 || c_whole_)) two_slots(Bk, c_whole_ ? 1 : col_blocks_);
            const int weight_unroll = static_cast<int>(point_["weight_unroll"]);
            Wt.vectorize(k, lanes).bound_extent(k, lanes).bound_extent(w, lanes).split(w, w, wi, weight_unroll);
            if (turns_inside_) {
                Wt.compute_at(sums(), r);
                Bs.bound_extent(kt, 1).unroll(n);
            } else {
                Wt.compute_at(Bs, kt);
                Bs.split(n, n, wi, weight_unroll);
            }
            if (!machine_.timed()) identity.compute_at(Bs, wi);
            as_array_row(Pt.compute_at(Bs, turns_inside_ ? n : wi), k, q);
            in_registers({Wt, Pt});
            in_pads({Bk});
        }
        in_pads({As});
        if (shape_.b_transposed) {
            in_pads({Bs});
        } else if (turns_inside_) {
            in_registers({Bs});
            in_pads({identity});
        } else if (machine_.timed()) {
            in_pads({Bs, identity});
        } else {
            in_registers({Bs, identity});
        }
    }

    // The rows of A as the inner product's blocks of columns.
    void make_rows() {
        As.compute_at(block_of_rows()).bound_extent(kt, k_tiles_);
        inner_->schedule();
        int unroll = 1;
        if (inner_->staged_)
            unroll = static_cast<int>(machine_.pad.count);
        else if (inner_->point_["sums_in_registers"] == 0)
            unroll = static_cast<int>(inner_->point_["row_unroll"]);
        if (unroll > 1 && rows_ % unroll == 0) As.split(m, m, mu, unroll);
        // One loop, as long as there are rows.
        if (inner_->stages_all() && unroll > 1 && rows_ % unroll == 0 && k_size_ % lanes == 0)
            As.bound_extent(m, rows_).fuse(m, kt, m);
    }

    void schedule_product() {
        if (ends_apart()) schedule_tile(W0, P0, k_tiles_ > 1 ? C : ending());
        if (k_outer_) return schedule_waiting_sums();
        if (streamed_) return schedule_streamed_sums();
        if (!has_sums()) return;
        C.compute_at(block()).vectorize(n, lanes).bound_extent(n, lanes);
        if (has_updates()) schedule_updates();
        if (ends_apart()) schedule_tile(W1, P1, ending());
        if (shape_.blocked_sums) {
            C.update().reorder(n, m, rg).vectorize(n, lanes);
            G.compute_at(C, rg).vectorize(n, lanes).bound_extent(n, lanes);
            C.bound_storage(m, stored_rows_);
            in_pads({C});
        }
        if (point_["sums_in_registers"] != 0) {
            in_registers({sums()});
        } else {
            sums().bound_storage(m, stored_rows_);
            in_pads({sums()});
        }
    }

    // The sums of all columns of a block of rows wait in the pads while blocks of k tiles pass, those of a visit in registers.
    void schedule_waiting_sums() {
        const int quantum = static_cast<int>(machine_.pad.count);
        C.compute_at(block_of_rows()).vectorize(n, lanes).bound_extent(n, lanes).bound_storage(m, stored_rows_);
        if (rows_ % quantum == 0) C.split(m, m, mu, quantum);
        schedule_weights(W);
        schedule_rows(P, C);
        in_registers({W, P});
        W.compute_at(C, ri);
        C.update().split(r, ro, ri, k_block_).split(m, m, mu, rows_).reorder({n, mu, m, ri, nb, ro}).vectorize(n, lanes);
        in_pads({C});
    }
    // And where all columns pass for each k tile.
    void schedule_streamed_sums() {
        C.compute_at(block_of_rows()).vectorize(n, lanes).bound_extent(n, lanes).bound_storage(m, stored_rows_);
        C.split(m, m, mu, rows_).reorder({n, mu, nb, m});
        schedule_weights(W);
        schedule_rows(P, C);
        in_registers({W, P});
        W.compute_at(C, nb);
        C.update().split(m, m, mu, rows_).reorder({n, mu, m, nb, r}).vectorize(n, lanes);
        in_pads({C});
    }

    void schedule_weights(Func weights) {
        weights.vectorize(k, lanes).bound_extent(w, lanes);
        const int weight_unroll = static_cast<int>(point_["weight_unroll"]);
        if (weight_unroll > 1) weights.split(w, w, wi, weight_unroll);
    }
    void schedule_rows(Func product, Func consumer) {
        product.compute_at(consumer, k_outer_ || streamed_ ? mu : m)
            .vectorize(n)
            .update()
            .reorder(q, n)
            .atomic()
            .vectorize(n)
            .vectorize(q);
    }
    void schedule_tile(Func weights, Func product, Func consumer) {
        schedule_weights(weights);
        weights.compute_at(block());
        schedule_rows(product, consumer);
        in_registers({weights, product});
    }

    // What the last k tile makes.
    Func ending() const { return leaves_whole() ? Es : E; }
    // Results of all columns of a block of rows leave together.
    bool leaves_whole() const { return c_whole_ || streamed_; }
    // What is added to with each k tile.
    Func sums() const { return shape_.blocked_sums ? G : C; }

    // The sums over the k tiles, or over those between the first and the last.
    void schedule_updates() {
        schedule_weights(W);
        schedule_rows(P, sums());
        in_registers({W, P});
        std::vector<VarOrRVar> order = {n, m};
        if (in_passes()) {
            C.update().split(m, mp, m, pass_);
            order.push_back(mp);
        }
        if (whole_) {
            order.push_back(r);
            W.compute_at(sums(), r);
        } else {
            sums().update().split(r, ro, ri, k_block_);
            order.insert(order.end(), {ri, ro});
            W.compute_at(sums(), ri);
        }
        sums().update().reorder(order).vectorize(n, lanes);
    }

    void schedule_epilogue() {
        const int blocks = m_outer_ ? col_blocks_ : row_blocks_;
        const LoopLevel epilogue = in_passes() ? LoopLevel(out, mp) : block();
        // The last step of an inner product makes the rows of A themselves.
        std::vector<Func> steps = {E};
        if (staged_) steps.push_back(F);
        if (reader_ != nullptr || leaves_whole()) steps.pop_back();
        if (sums_leave()) return schedule_bias();
        if (stages_all() || leaves_whole())
            Es.compute_at(block_of_rows())
                .vectorize(k, lanes)
                .bound_extent(k, lanes)
                .bound_extent(kt, col_blocks_)
                .bound_storage(m, stored_rows_);
        else
            for (Func step : steps)
                step.compute_at(epilogue).vectorize(n, lanes).bound_extent(n, lanes).bound_storage(m, waiting_rows_);
        // Where k tiles are alike to have little code, so is what stores results: it stands in one place, and they leave as
        // soon as they are made.
        if (leaves_whole())
            two_slots(Es, row_blocks_);
        else if (reader_ == nullptr && blocks > 1 && !in_passes() && (!k_alike_ || plan_.deferred))
            two_slots(steps.back(), blocks);
        if (staged_ && reader_ == nullptr) {
            const int quantum = static_cast<int>(machine_.pad.count);
            if (plan_.deferred)
                F.rename(m, Var("m_deferred"));
            else if ((in_passes() ? pass_ : rows_) % quantum == 0)
                F.split(m, m, fu, quantum);
            in_pads({F});
        }
        for (size_t i = 0; i < operands_.size(); i++) {
            Func operand = operands_[i];
            if (shape_.operands[i].kind == GemmOperand::Matrix) {
                operand.compute_at(epilogue).bound_extent(n, lanes).bound_storage(m, waiting_rows_);
                if (blocks > 1 && !in_passes()) two_slots(operand, blocks);
            } else if (shape_.operands[i].kind == GemmOperand::Column) {
                operand.compute_at(block_of_rows()).bound_extent(u, 1).align_storage(u, lanes).bound_storage(m, waiting_rows_);
                if (row_blocks_ > 1) two_slots(operand, row_blocks_);
            } else {
                schedule_row(operand);
            }
            in_pads({operand});
        }
        schedule_bias();
        if (shape_.addend) {
            Ds.compute_at(epilogue).bound_extent(n, lanes).bound_storage(m, stored_rows_);
            if (blocks > 1 && !in_passes()) two_slots(Ds, blocks);
            in_pads({Ds});
        }
        const int row_unroll = static_cast<int>(point_["row_unroll"]);
        // Sums that wait go round the pads.
        if (streamed_)
            Es.split(m, m, mu, rows_).reorder({k, mu, kt, m});
        else if (const int quantum = static_cast<int>(machine_.pad.count); k_outer_ && rows_ % quantum == 0)
            E.split(m, m, mu, quantum);
        else if (point_["sums_in_registers"] == 0 && row_unroll > 1 && (rows_ % row_unroll == 0 || whole_rounds_)) {
            const TailStrategy tail = whole_rounds_ ? TailStrategy::RoundUp : TailStrategy::Auto;
            for (Func f : shape_.blocked_sums ? std::vector<Func>{G, C} : std::vector<Func>{C}) {
                if (has_sums()) f.split(m, m, mu, row_unroll, tail);
                if (has_updates()) f.update().split(m, m, mu, row_unroll, tail);
            }
            if (stages_all() || leaves_whole())
                Es.split(m, m, mu, row_unroll, tail);
            else if (reader_ == nullptr || staged_)
                E.split(m, m, mu, row_unroll, tail);
        }
        if (stages_all() || leaves_whole())
            in_pads({Es});
        else if (reader_ == nullptr || staged_)
            in_pads({E});
    }
    void schedule_bias() {
        if (!shape_.bias) return;
        if (plan_.bias_at_once && reader_ == nullptr)
            bs.compute_root().vectorize(n, lanes);
        else
            schedule_row(bs);
        in_pads({bs});
    }
    // A vector of n that serves all rows: with its block of columns; all of it at once where that may not be whole.
    void schedule_row(Func row) const {
        if (reader_ != nullptr || leaves_whole()) {
            row.compute_root().bound(n, 0, col_blocks_ * lanes);
            return;
        }
        row.compute_at(out, no).bound_extent(n, lanes);
        if (n_size_ >= lanes) row.vectorize(n, lanes);
        if (col_blocks_ > 1) two_slots(row, col_blocks_);
    }

    // The tensors, and how the operands lie in the pads.
    void add_tensors(KernelDefinition &kernel) const {
        const auto add = [&](const ImageParam &param, std::string name, std::vector<int64_t> extents) {
            kernel.arguments.push_back(param);
            kernel.inputs.push_back({std::move(name), std::move(extents)});
        };
        if (prologue_) {
            kernel.arguments = prologue_->arguments();
            kernel.inputs = shape_.prologue->inputs();
        } else if (inner_) {
            inner_->add_tensors(kernel);
        } else {
            add(a, "A", shape_.a_extents());
        }
        add(b, "B", shape_.b_extents());
        if (shape_.bias) add(bias, "bias", {shape_.n});
        if (shape_.addend) add(d, "D", shape_.addend_extents());
        for (size_t i = 0; i < operands_.size(); i++)
            add(operand_tensors_[i], shape_.operands[i].name, shape_.operand_extents(shape_.operands[i]));
        for (const char *name : {"As", "Bs", "Bk"}) kernel.layouts[named(name)].even = true;
        if (streamed_)
            for (const char *name : {"C", "Es"}) kernel.layouts[name].block = col_blocks_;
        if (plan_.deferred) add_waiting_layouts(kernel);
        if (point_.contains("pads_split") && point_["pads_split"] != 0)
            for (const char *name : {"As", "Bs"}) kernel.layouts[named(name)].pads = 2;
        // Rows of B that stay in one pad: neighbours share a page of the DRAM, and the pads' transfers together are faster on
        // several.
        if (point_["b_block"] > 1) kernel.layouts[named("Bs")].block = point_["b_block"] * (row_major_ ? k_block_ : 1);
    }

    // The rows of a visit go round as many pads as divide them.
    void add_waiting_layouts(KernelDefinition &kernel) const {
        int pads = static_cast<int>(machine_.pad.count);
        while (plan_.deferred_rows() % pads != 0) pads--;
        kernel.layouts["E"].pads = kernel.layouts["F"].pads = pads;
        for (size_t i = 0; i < operands_.size(); i++)
            if (shape_.operands[i].kind != GemmOperand::Row) kernel.layouts[shape_.operands[i].name + "_rows"].pads = pads;
    }

    const GemmPipeline *const reader_;  // of the rows, where they are no result of the kernel
    const GemmShape &shape_;
    const Machine &machine_;
    const Point &point_;
    const GemmPlan plan_;
    const int m_size_, n_size_, k_size_, k_tiles_, group_, rows_, cols_, row_blocks_, col_blocks_, k_block_, pass_;
    const bool whole_, k_outer_, streamed_, m_outer_, row_major_, a_resident_, b_resident_, c_whole_;
    const bool staged_ = shape_.staged;
    // Loops over rows end behind the last one, where that makes whole rounds of the pads: those are of no result.
    const bool whole_rounds_ = plan_.whole_rounds;
    int stored_rows_ = 0, waiting_rows_ = 0;
    const BatchVars<BatchDim> batch_{shape_.batch};

    ImageParam a = tensor(named("A"), shape_.a_extents()), b = tensor(named("B"), shape_.b_extents()),
               bias = tensor(named("bias"), {shape_.n}), d = tensor(named("D"), shape_.addend_extents());
    const bool one_slot_ = point_.contains("slots") && point_["slots"] == 1;
    // Tiles of B are transposed in the loop that multiplies with them: one body for all k tiles, which is long.
    const bool turns_inside_ = point_.contains("b_turned") && point_["b_turned"] != 0;
    const bool k_alike_ = turns_inside_ || (point_.contains("k_alike") && point_["k_alike"] != 0);
    const bool straight_ = point_.contains("blocks_unrolled") && point_["blocks_unrolled"] != 0;
    Expr sums_;
    Var n{"n"}, m{"m"}, k{"k"}, kt{"kt"}, kb{"kb"}, kg{"kg"}, nb{"nb"}, no{straight_ ? "no_unroll" : "no"}, ni{"ni"},
        mo{straight_ ? "mo_unroll" : "mo"}, mi{"mi"}, mp{"mp"}, w{"w"}, wi{"w_unroll"}, mu{"m_unroll"}, fu{"f_unroll"}, i{"i"},
        iu{"i_unroll"}, nt{"nt"}, u{"u"};
    RVar ro{"ro"}, ri{"ri"};
    Func As{named("As")}, Bs{named("Bs")}, Bk{named("Bk")}, identity{named("identity")}, Wt{named("Wt")}, Pt{named("Pt")},
        bs{named("bs")}, Ds{named("Ds")}, W{named("W")}, P{named("P")}, W0{named("W0")}, P0{named("P0")}, W1{named("W1")},
        P1{named("P1")}, G{named("G")}, C{named("C")}, E{named("E")}, Es{named("Es")}, F{named("F")}, out{named("C_out")};
    std::optional<RowKernel> prologue_;  // makes As
    Point inner_point_;
    std::unique_ptr<GemmPipeline> inner_;  // or this does
    std::vector<Func> operands_;
    std::vector<ImageParam> operand_tensors_;
    RDom q{0, lanes, "q"}, r{ends_apart() ? 1 : 0, has_updates() ? group_ - 2 * ends_apart() : 1, k_alike_ ? "r_alike" : "r"},
        rg{0, k_tiles_ / group_, "rg"};
};

}  // namespace

KernelDefinition gemm(const GemmShape &shape, const Machine &machine, const Point &point) {
    if (shape.m < 1 || shape.n < 1 || shape.k < 1 || shape.products() < 1) throw Error("gemm: sizes must be at least 1");
    return GemmPipeline(shape, machine, point).build();
}

}  // namespace atalla
