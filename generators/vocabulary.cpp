#include "generators/vocabulary.h"

#include "isa/vectors.h"

namespace atalla::vocabulary {

using namespace Halide;

ImageParam tensor(const std::string &name, const std::vector<int64_t> &extents) {
    ImageParam param(Halide::BFloat(16), static_cast<int>(extents.size()), name);
    fix_shape(param, extents);
    return param;
}

void fix_shape(OutputImageParam param, const std::vector<int64_t> &extents) {
    int64_t stride = 1;
    for (size_t d = 0; d < extents.size(); d++) {
        param.dim(static_cast<int>(d)).set_bounds(0, static_cast<int>(extents[d]));
        if (d > 0) param.dim(static_cast<int>(d)).set_stride(static_cast<int>(stride));
        stride *= extents[d];
    }
}

void define(Func func, const std::vector<Expr> &all, Expr value) {
    std::vector<Var> vars;
    for (const Expr &arg : all) vars.emplace_back(arg.as<Internal::Variable>()->name);
    func(vars) = std::move(value);
}

void define_within(Func func, const std::vector<Expr> &all, Expr inside, Expr value) {
    define(func, all, bf16(0.0f));
    define(func, all, select(std::move(inside), std::move(value), undef<BFloat>()));
}

bool array_adds(const Machine &machine) { return machine.sa.psum_in && machine.timed(); }
Expr sum_start(const Machine &machine) { return bf16(array_adds(machine) ? 0.0f : -0.0f); }

void whole_loops(Func func) {
    func.never_partition_all();
    for (int update = 0; update < func.num_update_definitions(); update++) func.update(update).never_partition_all();
}

void in_pads(std::initializer_list<Func> funcs) {
    for (Func func : funcs) {
        func.store_in(MemoryType::VTCM);
        whole_loops(func);
    }
}

void in_registers(std::initializer_list<Func> funcs) {
    for (Func func : funcs) {
        func.store_in(MemoryType::Register);
        whole_loops(func);
    }
}

void as_array_row(Func sums, const Var &lane, const RVar &depth) {
    sums.vectorize(lane, lanes);
    sums.update().reorder(depth, lane).atomic().vectorize(lane, lanes).vectorize(depth);
}

Expr machine_rcp(Expr e) {
    return Internal::Call::make(Float(32), "atalla_rcp", {f32(std::move(e))}, Internal::Call::PureExtern);
}
Expr machine_sqrt(Expr e) {
    return Internal::Call::make(Float(32), "atalla_sqrt", {f32(std::move(e))}, Internal::Call::PureExtern);
}

Expr machine_exp(Expr e) {
    return bf16(Internal::Call::make(Float(32), "atalla_exp", {f32(std::move(e))}, Internal::Call::PureExtern));
}

}  // namespace atalla::vocabulary
