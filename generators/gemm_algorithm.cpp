// What a matrix product computes: operands in the pads, their product, and what is behind it.
#include "generators/gemm_pipeline.h"
#include "generators/gemm_prologue.h"
#include "generators/pointwise_functions.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

void GemmPipeline::define_result() {
    define_operands();
    define_product();
    define_epilogue();
}

std::vector<Expr> GemmPipeline::ordered(Expr lane, Expr row, Expr tile, bool row_first) const {
    return args(row_first ? std::vector<Expr>{std::move(lane), std::move(tile), std::move(row)}
                          : std::vector<Expr>{std::move(lane), std::move(row), std::move(tile)});
}

void GemmPipeline::define_operands() {
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
        Pt(args({k, n, kt})) += f32(identity(q, machine_.timed() ? n % lanes : Expr(n))) * f32(Wt(args({q, k, kt, n / lanes})));
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

Expr GemmPipeline::within_columns(Expr value) const {
    return n_tail() ? select(n < n_size_, std::move(value), undef<BFloat>()) : value;
}

Expr GemmPipeline::column() const { return n_tail() ? min(n, n_size_ - 1) : Expr(n); }

Expr GemmPipeline::bias_term() const {
    return shape_.beta != 1 && !shape_.addend ? strict_float(bs(n) * bf16(static_cast<float>(shape_.beta))) : Expr(bs(n));
}

void GemmPipeline::define_product() {
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

Expr GemmPipeline::one_tile(Func weights, Func product, int tile) {
    define(weights, args({k, w}), Bs(ordered(k, w, tile, row_major_)));
    define(product, args({n, m}), 0.0f);
    product(args({n, m})) += f32(As(ordered(q, m, tile, false))) * f32(weights(args({q, n})));
    return bf16(product(args({n, m})));
}

void GemmPipeline::define_epilogue() {
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

Expr GemmPipeline::epilogue_of(const Expr &product) {
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

}  // namespace atalla
