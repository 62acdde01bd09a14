// The schedule vocabulary: the idioms of which every Atalla schedule is made.
#pragma once

#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include <Halide.h>

#include "isa/machine.h"

namespace atalla::vocabulary {

using BFloat = Halide::bfloat16_t;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float lowest_number = -3.38953139e38f;  // of bf16

// An extent or index in Halide's type.
inline int size(int64_t n) { return static_cast<int>(n); }

inline Halide::Expr f32(Halide::Expr e) { return Halide::cast<float>(std::move(e)); }
inline Halide::Expr bf16(Halide::Expr e) { return Halide::cast<BFloat>(std::move(e)); }
inline Halide::Expr bf16(float value) { return Halide::Internal::make_const(Halide::BFloat(16), value); }

// A bf16 tensor argument, dense and of constant shape, innermost extent first.
Halide::ImageParam tensor(const std::string &name, const std::vector<int64_t> &extents);
void fix_shape(Halide::OutputImageParam param, const std::vector<int64_t> &extents);

// A definition over all of these, which are variables; zeros where it is not inside, which is where a tensor ends.
void define(Halide::Func func, const std::vector<Halide::Expr> &all, Halide::Expr value);
void define_within(Halide::Func func, const std::vector<Halide::Expr> &all, Halide::Expr inside, Halide::Expr value);

// Does the array add its products to sums?
bool array_adds(const Machine &machine);
// What sums of products begin with: -0, which is neutral; where the array adds, the first sum is the +0 of v0.
Halide::Expr sum_start(const Machine &machine);

// In the pads, or in registers; with no loop ever partitioned.
void in_pads(std::initializer_list<Halide::Func> funcs);
void in_registers(std::initializer_list<Halide::Func> funcs);
void whole_loops(Halide::Func func);

// Sums of products over `depth`, which has 32 values, in 32 lanes: a row through the array at a time.
void as_array_row(Halide::Func sums, const Halide::Var &lane, const Halide::RVar &depth);

// exp as the machine computes it.
Halide::Expr machine_exp(Halide::Expr e);
// Reciprocal and square root of single values, as the scalar unit computes them: in float32.
Halide::Expr machine_rcp(Halide::Expr e);
Halide::Expr machine_sqrt(Halide::Expr e);

}  // namespace atalla::vocabulary
