// Rows that the pads do not hold: each pass over them, a sum, an extremum or the result, brings them again, a part at a time.
#include <algorithm>

#include "generators/row_kernel.h"
#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

// Two parts where the next one, as long, comes meanwhile.
void RowKernel::hold_part(Func rows, const LoopLevel &at) {
    rows.compute_at(at).bound_extent(n, lanes * part_);
    if (machine_.timed() && length_ % (lanes * part_) == 0) rows.hoist_storage_root().ring_buffer(2);
    in_pads({rows});
}

void RowKernel::schedule_in_parts(Func result) {
    const Var mo("mo"), mi("mi"), part("part"), inside("inside"), no("no"), ni("ni");
    out_(n, m) = result(n, m);
    out_.bound(n, 0, length_)
        .bound(m, 0, rows_)
        .split(m, mo, mi, 1)
        .split(n, part, inside, lanes * part_, TailStrategy::GuardWithIf)
        .reorder({inside, mi, part, mo});
    const LoopLevel row(out_, mo), of_result(out_, part);
    hold_part(result, of_result);
    over_vectors(result);
    for (Func step : single_) step.compute_at(row).store_in(MemoryType::Register);
    for (auto &[step, lane] : lanes_) step.compute_at(row).vectorize(lane, lanes).store_in(MemoryType::Register);
    if (sums_with_ones()) {
        ones_.vectorize(k_, lanes).bound(k_, 0, lanes).bound(w_, 0, lanes);
        in_registers({ones_});
    }
    std::vector<LoopLevel> passes(pass() + 1, of_result);
    const RVar outer("ro"), unrolled("r_unroll");
    for (Sum &s : sums_) {
        passes[s.pass] = LoopLevel(s.total, s.blocks);
        s.total.compute_at(row);
        s.group.compute_at(passes[s.pass]).update().split(s.members, outer, unrolled, vector_unroll_);
        const LoopLevel vector(s.group, unrolled);
        schedule_parts(s, vector);
        const bool read =
            std::ranges::any_of(inputs_, [&](const Input &input) { return input.rows.name() == s.values.name(); });
        if (read) continue;
        s.values.compute_at(vector).bound_extent(n, lanes).vectorize(n, lanes);
        in_registers({s.values});
    }
    for (Extremum &x : extrema_) {
        passes[x.pass] = LoopLevel(x.lanes, x.rest.y);
        x.value.compute_at(row).update().atomic().vectorize(x.all, lanes);
        x.lanes.compute_at(row).bound_extent(x.lane, lanes).bound_extent(x.side, x.sides).vectorize(x.lane, lanes);
        x.lanes.update()
            .split(x.rest.x, outer, unrolled, vector_unroll_ / x.sides)
            .reorder({x.lane, x.side, unrolled, outer, x.rest.y})
            .vectorize(x.lane, lanes);
        in_registers({x.lanes, x.value});
    }
    for (Input &input : inputs_) {
        hold_part(input.rows, input.one_row ? of_result : passes[input.pass]);
        if (input.rows.num_update_definitions() > 0) input.rows.vectorize(n, lanes);
    }
}

}  // namespace atalla
