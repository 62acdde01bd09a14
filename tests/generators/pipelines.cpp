#include "tests/generators/pipelines.h"

#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla::pipelines {

using namespace Halide;
using namespace vocabulary;

namespace {

Expr machine_call(const std::string &name, Expr e) {
    return Internal::Call::make(Float(32), name, {f32(std::move(e))}, Internal::Call::PureExtern);
}

// The variables and the loops over the rows that all planes share.
struct PlaneSchedule {
    Var n{"n"}, m{"m"}, mo, mi{"mi"};
    Plane plane;
    int padded;
    Func out;

    PlaneSchedule(const Plane &p, const std::string &name)
        : mo(p.unchecked ? "mo_unchecked" : "mo"), plane(p), padded(round_up(p.cols, lanes)), out(name) {}

    // Copies of input rows to the pads, up to the last whole vector; `beyond` fills the lanes after the last column.
    Func rows_of(ImageParam x, const std::string &name, std::optional<float> beyond = {}) {
        Func rows(name);
        if (plane.cols % lanes == 0) {
            rows(n, m) = x(n, m);
        } else {
            if (beyond) rows(n, m) = bf16(*beyond);
            rows(n, m) = select(n < plane.cols, x(min(n, plane.cols - 1), m), undef<BFloat>());
        }
        return rows;
    }
    // One row for all, such as a bias.
    Func row_of(ImageParam b, const std::string &name) {
        Func row(name);
        row(n) = plane.cols % lanes == 0 ? Expr(b(n)) : select(n < plane.cols, b(min(n, plane.cols - 1)), undef<BFloat>());
        row.compute_root().bound(n, 0, padded);
        in_pads({row});
        return row;
    }
    void inputs(Func rows) {
        rows.compute_at(out, mo).bound_extent(n, padded).bound_storage(m, plane.step);
        if (rows.num_update_definitions() > 0) rows.vectorize(n, lanes);
        in_pads({rows});
        if (plane.ring && plane.rows > plane.step) rows.hoist_storage_root().ring_buffer(2);
    }
    KernelDefinition finish(Func result, const std::vector<ImageParam> &arguments) {
        out(n, m) = result(n, m);
        out.bound(n, 0, plane.cols).bound(m, 0, plane.rows);
        out.split(m, mo, mi, plane.step, plane.guard ? TailStrategy::GuardWithIf : TailStrategy::ShiftInwards);
        result.compute_at(out, mo).bound_extent(n, padded).bound_storage(m, plane.step).vectorize(n, lanes);
        in_pads({result});
        if (plane.ring && plane.rows > plane.step) result.hoist_storage_root().ring_buffer(2);
        whole_loops(out);
        fix_shape(out.output_buffer(), {plane.cols, plane.rows});
        KernelDefinition kernel;
        kernel.pipeline = Pipeline(out);
        for (const ImageParam &argument : arguments) {
            kernel.arguments.push_back(argument);
            kernel.inputs.push_back({argument.name(), {plane.cols}});
            if (argument.dimensions() == 2) kernel.inputs.back().extents.push_back(plane.rows);
        }
        kernel.outputs = {{out.name(), {plane.cols, plane.rows}}};
        return kernel;
    }
};

}  // namespace

KernelDefinition relu(const Plane &plane) {
    PlaneSchedule s(plane, "Y");
    ImageParam x = tensor("X", {plane.cols, plane.rows});
    Func rows = s.rows_of(x, "Xs"), y("Ys");
    y(s.n, s.m) = select(strict_float(rows(s.n, s.m) < bf16(0.0f)), bf16(0.0f), rows(s.n, s.m));
    KernelDefinition kernel = s.finish(y, {x});
    s.inputs(rows);
    return kernel;
}

KernelDefinition at_least_one(const Plane &plane) {
    PlaneSchedule s(plane, "Y");
    ImageParam x = tensor("X", {plane.cols, plane.rows});
    Func rows = s.rows_of(x, "Xs"), y("Ys");
    const Expr element = rows(s.n, s.m);
    y(s.n, s.m) = select(strict_float(element != element), element, strict_float(max(element, bf16(1.0f))));
    KernelDefinition kernel = s.finish(y, {x});
    s.inputs(rows);
    return kernel;
}

KernelDefinition bias_add(const Plane &plane) {
    PlaneSchedule s(plane, "Y");
    ImageParam x = tensor("X", {plane.cols, plane.rows}), b = tensor("bias", {plane.cols});
    Func rows = s.rows_of(x, "Xs"), bias = s.row_of(b, "bs"), y("Ys");
    y(s.n, s.m) = strict_float(rows(s.n, s.m) + bias(s.n));
    KernelDefinition kernel = s.finish(y, {x, b});
    s.inputs(rows);
    return kernel;
}

KernelDefinition exponential_chain(const Plane &plane) {
    PlaneSchedule s(plane, "Y");
    ImageParam x = tensor("X", {plane.cols, plane.rows});
    Func rows = s.rows_of(x, "Xs"), grown("grown"), y("Ys");
    grown(s.n, s.m) = machine_exp(strict_float(min(rows(s.n, s.m), bf16(2.0f)) * bf16(0.5f)));
    y(s.n, s.m) = strict_float(grown(s.n, s.m) - rows(s.n, s.m) / bf16(4.0f));
    KernelDefinition kernel = s.finish(y, {x});
    s.inputs(rows);
    grown.compute_at(y, s.n).vectorize(s.n, lanes);
    in_registers({grown});
    return kernel;
}

namespace {

// Weights of one, with which the array sums rows: every lane of the result has the sum.
struct Ones {
    Var k{"k"}, w{"w"};
    Func weights{"ones"};

    Ones() { weights(k, w) = bf16(1.0f); }
    void schedule(Func out, Var mo) {
        weights.compute_at(out, mo).vectorize(k, lanes).bound_extent(k, lanes).bound_extent(w, lanes);
        in_registers({weights});
    }
};

struct RowSum {
    Var l{"l"}, b{"b"};
    RDom q, r;
    Func part, total;

    RowSum(const std::string &name, const Ones &ones, Func values, Var m, int padded)
        : q(0, lanes, name + "_q"), r(0, padded / lanes, name + "_r"), part(name + "_part"), total(name) {
        part(l, m, b) = 0.0f;
        part(l, m, b) += f32(values(b * lanes + q, m)) * f32(ones.weights(q, l));
        total(l, m) = bf16(0.0f);
        total(l, m) = strict_float(total(l, m) + bf16(part(l, m, r)));
    }
    void schedule(Func at, Var m) {
        total.compute_at(at, m).bound_extent(l, lanes).vectorize(l, lanes);
        total.update().reorder(l, r).vectorize(l, lanes);
        as_array_row(part.compute_at(total, r), l, q);
        in_registers({part, total});
    }
};

}  // namespace

KernelDefinition softmax(const Plane &plane) {
    PlaneSchedule s(plane, "Y");
    const float lowest = -0x1p127f;  // a bf16 number
    ImageParam x = tensor("X", {plane.cols, plane.rows});
    Func rows = s.rows_of(x, "Xs", lowest), largest("largest"), e("e"), inverse("inverse"), y("Ys");
    RDom r(0, s.padded, "r");
    RVar ro("ro"), ri("ri");
    // In float32: Halide's JIT has no maximum of bf16 lanes.
    largest(s.m) = lowest;
    largest(s.m) = max(largest(s.m), f32(rows(r, s.m)));
    e(s.n, s.m) = machine_exp(strict_float(rows(s.n, s.m) - bf16(largest(s.m))));
    Ones ones;
    RowSum sum("total", ones, e, s.m, s.padded);
    inverse(s.m) = bf16(machine_call("atalla_rcp", sum.total(0, s.m)));
    y(s.n, s.m) = strict_float(e(s.n, s.m) * inverse(s.m));
    KernelDefinition kernel = s.finish(y, {x});
    s.inputs(rows);
    largest.compute_at(y, s.m).update().split(r, ro, ri, lanes).atomic().vectorize(ri);
    e.compute_at(y, s.m).vectorize(s.n, lanes);
    ones.schedule(s.out, s.mo);
    sum.schedule(y, s.m);
    inverse.compute_at(y, s.m);
    in_pads({e});
    in_registers({largest, inverse});
    return kernel;
}

KernelDefinition layernorm(const Plane &plane) {
    PlaneSchedule s(plane, "Y");
    ImageParam x = tensor("X", {plane.cols, plane.rows}), g = tensor("gain", {plane.cols}), b = tensor("bias", {plane.cols});
    Func rows = s.rows_of(x, "Xs", 0.0f), gain = s.row_of(g, "gs"), bias = s.row_of(b, "bs");
    Func mean("mean"), centred("centred"), square("square"), scale("scale"), y("Ys");
    const Expr share = bf16(1.0f / static_cast<float>(plane.cols)), epsilon = bf16(1e-5f);
    Ones ones;
    RowSum sum("total", ones, rows, s.m, s.padded);
    mean(s.m) = strict_float(sum.total(0, s.m) * share);
    centred(s.n, s.m) = strict_float(rows(s.n, s.m) - mean(s.m));
    if (plane.cols % lanes != 0) centred(s.n, s.m) = select(s.n < plane.cols, centred(s.n, s.m), bf16(0.0f));
    square(s.n, s.m) = strict_float(centred(s.n, s.m) * centred(s.n, s.m));
    RowSum squares("squares", ones, square, s.m, s.padded);
    scale(s.m) =
        bf16(machine_call("atalla_rcp", machine_call("atalla_sqrt", strict_float(squares.total(0, s.m) * share + epsilon))));
    y(s.n, s.m) = strict_float(centred(s.n, s.m) * scale(s.m) * gain(s.n) + bias(s.n));
    KernelDefinition kernel = s.finish(y, {x, g, b});
    s.inputs(rows);
    ones.schedule(s.out, s.mo);
    sum.schedule(y, s.m);
    squares.schedule(y, s.m);
    centred.compute_at(y, s.m).vectorize(s.n, lanes);
    if (centred.num_update_definitions() > 0) centred.update().vectorize(s.n, lanes);
    square.compute_at(y, s.m).vectorize(s.n, lanes);
    mean.compute_at(y, s.m);
    scale.compute_at(y, s.m);
    in_pads({centred, square});
    in_registers({mean, scale});
    return kernel;
}

KernelDefinition spread(const Plane &plane) {
    PlaneSchedule s(plane, "Y");
    ImageParam x = tensor("X", {plane.cols, plane.rows});
    Func rows = s.rows_of(x, "Xs", 0.0f), smallest("smallest"), part("part"), total("total"), inverse("inverse"), y("Ys");
    RDom r(0, s.padded, "r"), q(0, lanes, "q"), b(0, s.padded / lanes, "b");
    RVar ro("ro"), ri("ri");
    Var block("block");
    smallest(s.m) = 0.0f;
    smallest(s.m) = min(smallest(s.m), f32(rows(r, s.m)));
    part(s.m, block) = 0.0f;
    part(s.m, block) += f32(rows(block * lanes + q, s.m));
    total(s.m) = bf16(0.0f);
    total(s.m) = strict_float(total(s.m) + bf16(part(s.m, b)));
    inverse(s.m) = bf16(machine_call("atalla_rcp", total(s.m)));
    y(s.n, s.m) = strict_float((rows(s.n, s.m) - bf16(smallest(s.m))) * inverse(s.m));
    KernelDefinition kernel = s.finish(y, {x});
    s.inputs(rows);
    smallest.compute_at(y, s.m).update().split(r, ro, ri, lanes).atomic().vectorize(ri);
    total.compute_at(y, s.m);
    part.compute_at(total, b).update().atomic().vectorize(q);
    inverse.compute_at(y, s.m);
    in_registers({smallest, part, total, inverse});
    return kernel;
}

KernelDefinition product(const Product &p) {
    const int k_blocks = tiles_of(p.k), cols = std::min(p.n, lanes);
    ImageParam a = tensor("A", {p.k, p.m}), b = tensor("B", {p.k, p.n});
    Var n("n"), m("m"), k("k"), kb("kb"), no("no"), ni("ni"), mo("mo"), mi("mi"), w("w");
    Func As("As"), Bs("Bs"), W("W"), P("P"), C("C"), E("E"), out("C_out");
    RDom q(0, lanes, "q"), r(0, k_blocks, "r");
    As(k, m) = bf16(0.0f);
    As(k, m) = select(k < p.k, a(min(k, p.k - 1), m), undef<BFloat>());
    Bs(k, n) = bf16(0.0f);
    Bs(k, n) = select(k < p.k && n < p.n, b(min(k, p.k - 1), min(n, p.n - 1)), undef<BFloat>());
    W(k, w, kb) = Bs(kb * lanes + k, w);
    P(n, m, kb) = 0.0f;
    P(n, m, kb) += f32(As(kb * lanes + q, m)) * f32(W(q, n, kb));
    C(n, m) = bf16(0.0f);
    C(n, m) = strict_float(C(n, m) + bf16(P(n, m, r)));
    E(n, m) = C(n, m);
    out(n, m) = E(n, m);
    out.bound(n, 0, p.n)
        .bound(m, 0, p.m)
        .split(n, no, ni, cols, TailStrategy::ShiftInwards)
        .split(m, mo, mi, p.step, TailStrategy::ShiftInwards);
    out.reorder(ni, mi, mo, no);
    As.compute_at(out, mo).vectorize(k, lanes).bound_extent(k, k_blocks * lanes);
    Bs.compute_at(out, no).vectorize(k, lanes).bound_extent(k, k_blocks * lanes).bound_extent(n, lanes);
    if (p.ring && p.m > p.step) As.hoist_storage_root().ring_buffer(2);
    E.compute_at(out, mo).vectorize(n, lanes).bound_extent(n, lanes);
    if (p.ring && p.m > p.step) E.hoist_storage_root().ring_buffer(2);
    C.compute_at(out, mo).vectorize(n, lanes).bound_extent(n, lanes).update().reorder(n, m, r).vectorize(n, lanes);
    P.compute_at(C, m).vectorize(n).update().reorder(q, n).atomic().vectorize(n).vectorize(q);
    W.compute_at(C, r).vectorize(k, lanes).bound_extent(w, lanes);
    in_pads({As, Bs, E});
    in_registers({W, P});
    if (p.sums_in_registers)
        in_registers({C});
    else
        in_pads({C});
    whole_loops(out);
    fix_shape(out.output_buffer(), {p.n, p.m});

    KernelDefinition kernel;
    kernel.pipeline = Pipeline(out);
    kernel.arguments = {a, b};
    kernel.inputs = {{"A", {p.k, p.m}}, {"B", {p.k, p.n}}};
    kernel.outputs = {{"C", {p.n, p.m}}};
    for (const char *name : {"As", "Bs", "C", "E"}) kernel.layouts[name].pads = p.pads;
    return kernel;
}

KernelDefinition convolution(const Image &image) {
    const int ci_padded = round_up(image.ci, lanes), co_padded = round_up(image.co, lanes), ci_blocks = ci_padded / lanes;
    ImageParam xs = tensor("X", {image.ci, image.width, image.height}), ws = tensor("F", {image.ci, image.co, 3, 3});
    Var c("c"), o("o"), x("x"), y("y"), u("u"), v("v"), b("b"), w("w"), ot("ot"), ol("ol");
    Func pixels("pixels"), taps("taps"), weights("weights"), part("part"), sums("sums"), out("Y");
    RDom q(0, lanes, "q"), r(0, 3, 0, 3, 0, ci_blocks, "r");

    pixels(c, x, y) = bf16(0.0f);
    pixels(c, x, y) =
        select(c < image.ci && x >= 1 && x <= image.width && y >= 1 && y <= image.height,
               xs(min(c, image.ci - 1), clamp(x - 1, 0, image.width - 1), clamp(y - 1, 0, image.height - 1)), undef<BFloat>());
    taps(c, o, u, v) = bf16(0.0f);
    taps(c, o, u, v) =
        select(c < image.ci && o < image.co, ws(min(c, image.ci - 1), min(o, image.co - 1), u, v), undef<BFloat>());
    weights(c, o, u, v) = taps(c, o, u, v);
    part(o, x, y, u, v, b) = 0.0f;
    part(o, x, y, u, v, b) += f32(pixels(b * lanes + q, x + u, y + v)) * f32(weights(b * lanes + q, o, u, v));
    sums(o, x, y) = bf16(0.0f);
    sums(o, x, y) = strict_float(sums(o, x, y) + bf16(part(o, x, y, r.x, r.y, r.z)));
    out(o, x, y) = sums(o, x, y);

    out.bound(o, 0, image.co).bound(x, 0, image.width).bound(y, 0, image.height);
    pixels.compute_root().bound(c, 0, ci_padded).bound(x, 0, image.width + 2).bound(y, 0, image.height + 2).vectorize(c, lanes);
    sums.compute_root().bound(o, 0, co_padded).vectorize(o, lanes);
    sums.update().split(o, ot, ol, lanes).reorder(ol, x, y, r.x, r.y, r.z, ot).vectorize(ol);
    part.compute_at(sums, x).vectorize(o).update().reorder(q, o).atomic().vectorize(o).vectorize(q);
    weights.compute_at(sums, r.x).vectorize(c, lanes).bound_extent(c, lanes).bound_extent(o, lanes);
    taps.compute_at(sums, r.x).vectorize(c, lanes).bound_extent(c, lanes).bound_extent(o, lanes).hoist_storage_root();
    in_pads({pixels, taps, sums});
    in_registers({weights, part});
    whole_loops(out);
    fix_shape(out.output_buffer(), {image.co, image.width, image.height});

    KernelDefinition kernel;
    kernel.pipeline = Pipeline(out);
    kernel.arguments = {xs, ws};
    kernel.inputs = {{"X", {image.ci, image.width, image.height}}, {"F", {image.ci, image.co, 3, 3}}};
    kernel.outputs = {{"Y", {image.co, image.width, image.height}}};
    return kernel;
}

}  // namespace atalla::pipelines
