// Where and when a matrix product is computed.
#include "generators/gemm_pipeline.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

void GemmPipeline::schedule() {
    schedule_operands();
    schedule_product();
    schedule_epilogue();
}

LoopLevel GemmPipeline::columns() const {
    if (streamed_) return {out, mo};
    if (stages_all() || c_whole_) return {Es, kt};
    return reader_ == nullptr ? LoopLevel(out, no) : LoopLevel(reader_->As, reader_->kt);
}

void GemmPipeline::schedule_loops() {
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

void GemmPipeline::two_slots(Func f, int64_t blocks) const {
    if (blocks * shape_.products() > 1 && machine_.timed() && !one_slot_ && (reader_ == nullptr || !partial_tiles()))
        f.hoist_storage_root().ring_buffer(2);
}

void GemmPipeline::schedule_operands() {
    As.bound_storage(m, makes_all() || a_resident_ ? round_up(m_size_, static_cast<int>(machine_.pad.count)) : stored_rows_);
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

void GemmPipeline::make_rows() {
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

void GemmPipeline::schedule_product() {
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

void GemmPipeline::schedule_waiting_sums() {
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

void GemmPipeline::schedule_streamed_sums() {
    C.compute_at(block_of_rows()).vectorize(n, lanes).bound_extent(n, lanes).bound_storage(m, stored_rows_);
    C.split(m, m, mu, rows_).reorder({n, mu, nb, m});
    schedule_weights(W);
    schedule_rows(P, C);
    in_registers({W, P});
    W.compute_at(C, nb);
    C.update().split(m, m, mu, rows_).reorder({n, mu, m, nb, r}).vectorize(n, lanes);
    in_pads({C});
}

void GemmPipeline::schedule_weights(Func weights) {
    weights.vectorize(k, lanes).bound_extent(w, lanes);
    const int weight_unroll = static_cast<int>(point_["weight_unroll"]);
    if (weight_unroll > 1) weights.split(w, w, wi, weight_unroll);
}

void GemmPipeline::schedule_rows(Func product, Func consumer) {
    product.compute_at(consumer, k_outer_ || streamed_ ? mu : m)
        .vectorize(n)
        .update()
        .reorder(q, n)
        .atomic()
        .vectorize(n)
        .vectorize(q);
}

void GemmPipeline::schedule_tile(Func weights, Func product, Func consumer) {
    schedule_weights(weights);
    weights.compute_at(block());
    schedule_rows(product, consumer);
    in_registers({weights, product});
}

void GemmPipeline::schedule_updates() {
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

void GemmPipeline::schedule_epilogue() {
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

void GemmPipeline::schedule_bias() {
    if (!shape_.bias) return;
    if (plan_.bias_at_once && reader_ == nullptr)
        bs.compute_root().vectorize(n, lanes);
    else
        schedule_row(bs);
    in_pads({bs});
}

void GemmPipeline::schedule_row(Func row) const {
    if (reader_ != nullptr || leaves_whole()) {
        row.compute_root().bound(n, 0, col_blocks_ * lanes);
        return;
    }
    row.compute_at(out, no).bound_extent(n, lanes);
    if (n_size_ >= lanes) row.vectorize(n, lanes);
    if (col_blocks_ > 1) two_slots(row, col_blocks_);
}

}  // namespace atalla
