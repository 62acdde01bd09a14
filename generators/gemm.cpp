#include "generators/gemm.h"

#include <algorithm>

#include "generators/vocabulary.h"
#include "isa/error.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

// The machine's product of one row with one weight tile: W is the tile (32 vectors), P one 32-deep dot product in float32, C
// the bf16 sums over the tiles. As and Bs are the operands in the pads, a row of 32 elements of k for each m (n) and k tile.
KernelDefinition gemm(const GemmShape &shape, const Machine &machine, const Point &point) {
    if (!shape.b_transposed) throw Error("gemm: B stored [k][n] needs a transpose, which is not available yet; pass B as [n][k]");
    if (shape.m < 1 || shape.n < 1 || shape.k < 1) throw Error("gemm: sizes must be at least 1");
    const int lanes = 32;
    const int m_size = static_cast<int>(shape.m), n_size = static_cast<int>(shape.n), k_size = static_cast<int>(shape.k);
    const int k_tiles = (k_size + lanes - 1) / lanes;
    const int rows = static_cast<int>(std::min<int64_t>(point["rows"], shape.m)), cols = std::min(lanes, n_size);
    const int row_blocks = (m_size + rows - 1) / rows, col_blocks = (n_size + cols - 1) / cols;
    const bool sums_in_registers = point["sums_in_registers"] != 0;
    const int pads_quantum = static_cast<int>(machine.pad.count);
    const int stored_rows = (rows + pads_quantum - 1) / pads_quantum * pads_quantum;

    ImageParam a = tensor("A", {shape.k, shape.m}), b = tensor("B", {shape.k, shape.n}), bias = tensor("bias", {shape.n}), d = tensor("D", {shape.n, shape.m});
    Var n("n"), m("m"), k("k"), kt("kt"), kb("kb"), no("no"), ni("ni"), mo("mo"), mi("mi"), w("w"), wi("w_unroll"), mu("m_unroll"), l("l");
    Func As("As"), Bs("Bs"), bs("bs"), Ds("Ds"), W("W"), P("P"), C("C"), E("E"), out("C_out");
    RDom q(0, lanes, "q"), r(0, k_tiles, "r");

    const bool k_tail = k_size % lanes != 0, n_tail = n_size < lanes;
    const auto guarded = [](Func f, const std::vector<Expr> &args, Expr inside, Expr value) {
        std::vector<Var> vars;
        for (const Expr &arg : args) vars.emplace_back(arg.as<Internal::Variable>()->name);
        f(vars) = bf16(0.0f);
        f(vars) = select(std::move(inside), std::move(value), undef<BFloat>());
    };
    const auto copied = [](Func f, const std::vector<Expr> &args, Expr value) {
        std::vector<Var> vars;
        for (const Expr &arg : args) vars.emplace_back(arg.as<Internal::Variable>()->name);
        f(vars) = std::move(value);
    };
    // Rows of a k tile together, or (B) the k tiles of a row together: one transfer then brings up to 32 k tiles of one row.
    const bool row_major = point["b_row_major"] != 0, b_resident = point["b_resident"] != 0 && col_blocks > 1;
    const auto ordered = [&](Expr lane, Expr row, Expr tile, bool row_first) {
        return row_first ? std::vector<Expr>{std::move(lane), std::move(tile), std::move(row)} : std::vector<Expr>{std::move(lane), std::move(row), std::move(tile)};
    };
    const Expr depth = kt * lanes + k;
    if (k_tail) {
        guarded(As, ordered(k, m, kt, false), depth < k_size, a(min(depth, k_size - 1), m));
    } else {
        copied(As, ordered(k, m, kt, false), a(depth, m));
    }
    if (n_tail && !k_tail) {
        // The columns that are not there keep to their lanes, and those are not stored.
        copied(Bs, ordered(k, n, kt, row_major), select(n < n_size, b(depth, min(n, n_size - 1)), undef<BFloat>()));
    } else if (k_tail) {
        guarded(Bs, ordered(k, n, kt, row_major), depth < k_size && n < n_size, b(min(depth, k_size - 1), min(n, n_size - 1)));
    } else {
        copied(Bs, ordered(k, n, kt, row_major), b(depth, n));
    }
    W(k, w, kt) = Bs(ordered(k, w, kt, row_major));
    P(n, m, kb) = 0.0f;
    P(n, m, kb) += f32(As(ordered(q, m, kb, false))) * f32(W(q, n, kb));
    // -0 is the neutral start; where the array adds the partial sums itself, the first one is the +0 of v0.
    C(n, m) = bf16(machine.sa.psum_in && machine.timed() ? 0.0f : -0.0f);
    C(n, m) = strict_float(C(n, m) + bf16(P(n, m, r)));

    Expr e = C(n, m);
    if (shape.alpha != 1) e = strict_float(e * bf16(static_cast<float>(shape.alpha)));
    if (shape.bias) {
        bs(n) = n_tail ? select(n < n_size, bias(min(n, n_size - 1)), undef<BFloat>()) : bias(n);
        e = strict_float(e + bs(n));
    }
    if (shape.addend) {
        Ds(n, m) = n_tail ? select(n < n_size, d(min(n, n_size - 1), m), undef<BFloat>()) : d(n, m);
        e = strict_float(e + (shape.beta != 1 ? strict_float(Ds(n, m) * bf16(static_cast<float>(shape.beta))) : Expr(Ds(n, m))));
    }
    if (shape.relu) e = select(strict_float(e < bf16(0.0f)), bf16(0.0f), e);
    E(n, m) = e;
    out(n, m) = E(n, m);

    out.bound(n, 0, n_size).bound(m, 0, m_size);
    const bool m_outer = point["m_outer"] != 0;
    out.split(n, no, ni, cols, TailStrategy::ShiftInwards).split(m, mo, mi, rows, TailStrategy::ShiftInwards);
    if (m_outer) out.reorder(ni, mi, no, mo);
    else out.reorder(ni, mi, mo, no);
    const Var inner = m_outer ? no : mo;
    // Two slots where transfers can run ahead: on a machine that takes time for them.
    const int row_slots = row_blocks > 1 && machine.timed() ? 2 : 1, col_slots = col_blocks > 1 && machine.timed() ? 2 : 1;
    const bool many_blocks = (m_outer ? col_blocks : row_blocks) > 1 && machine.timed();

    // The operands of a block come whole, or (where the pads are small) so many k tiles at a time.
    const int k_block = point.contains("k_block") ? static_cast<int>(point["k_block"]) : 0;
    const bool whole = k_block == 0 || k_block >= k_tiles;
    RVar ro("ro"), ri("ri");
    if (!whole && (k_tiles % k_block != 0 || b_resident)) throw Error("gemm: k_block must divide the k tiles, and B cannot stay in the pads with it");
    As.vectorize(k, lanes).bound_storage(m, stored_rows);
    Bs.vectorize(k, lanes);
    if (!b_resident) Bs.bound_extent(n, lanes);
    if (whole) {
        As.compute_at(out, mo);
        Bs.compute_at(out, no);
    } else {
        As.compute_at(C, ro);
        Bs.compute_at(C, ro);
    }
    if (row_slots == 2 && whole) As.hoist_storage_root().ring_buffer(2);
    if (b_resident) Bs.store_root();
    else if (col_slots == 2 && whole) Bs.hoist_storage_root().ring_buffer(2);
    E.compute_at(out, inner).vectorize(n, lanes).bound_extent(n, lanes).bound_storage(m, stored_rows);
    if (many_blocks) E.hoist_storage_root().ring_buffer(2);
    if (shape.bias) {
        bs.compute_at(out, no).bound_extent(n, lanes);
        if (!n_tail) bs.vectorize(n, lanes);
        if (col_slots == 2) bs.hoist_storage_root().ring_buffer(2);
        in_pads({bs});
    }
    if (shape.addend) {
        Ds.compute_at(out, inner).bound_extent(n, lanes).bound_storage(m, stored_rows);
        if (many_blocks) Ds.hoist_storage_root().ring_buffer(2);
        in_pads({Ds});
    }
    C.compute_at(out, inner).vectorize(n, lanes).bound_extent(n, lanes);
    if (whole) {
        C.update().reorder(n, m, r).vectorize(n, lanes);
        W.compute_at(C, r);
    } else {
        C.update().split(r, ro, ri, k_block).reorder(n, m, ri, ro).vectorize(n, lanes);
        W.compute_at(C, ri);
    }
    P.compute_at(C, m).vectorize(n).update().reorder(q, n).atomic().vectorize(n).vectorize(q);
    W.vectorize(k, lanes).bound_extent(w, lanes);
    const int weight_unroll = static_cast<int>(point["weight_unroll"]);
    if (weight_unroll > 1) W.split(w, w, wi, weight_unroll);
    const int row_unroll = static_cast<int>(point["row_unroll"]);
    if (!sums_in_registers && row_unroll > 1 && rows % row_unroll == 0) {
        C.split(m, m, mu, row_unroll);
        C.update().split(m, m, mu, row_unroll);
        E.split(m, m, mu, row_unroll);
    }
    in_pads({As, Bs, E});
    in_registers({W, P});
    if (sums_in_registers) {
        in_registers({C});
    } else {
        C.bound_storage(m, stored_rows);
        in_pads({C});
    }
    whole_loops(out);
    fix_shape(out.output_buffer(), {shape.n, shape.m});

    KernelDefinition kernel;
    kernel.pipeline = Pipeline(out);
    kernel.arguments = {a, b};
    kernel.inputs = {{"A", {shape.k, shape.m}}, {"B", {shape.k, shape.n}}};
    if (shape.bias) {
        kernel.arguments.push_back(bias);
        kernel.inputs.push_back({"bias", {shape.n}});
    }
    if (shape.addend) {
        kernel.arguments.push_back(d);
        kernel.inputs.push_back({"D", {shape.n, shape.m}});
    }
    kernel.outputs = {{"C", {shape.n, shape.m}}};
    return kernel;
}

}  // namespace atalla
