// Loop nests that only move elements, as boxes with constant strides.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <Halide.h>

#include "codegen/index.h"
#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// The store at the bottom of a nest of loops, integer lets and conditions, if that is all there is; otherwise nullptr.
const Halide::Internal::Store *lone_store(const Halide::Internal::Stmt &s);

// A loop of a nest.
struct CopyDim {
    std::string name;
    int64_t extent = 1;
    int64_t pad = 0, mem = 0;  // elements per step
};

// Part of a nest: where it starts on both sides, in elements, and its loops.
struct CopyLeaf {
    LinearForm pad, mem;
    std::vector<CopyDim> dims;
};

// Collects the leaves of a nest. Loops that inner bounds or non-linear indices depend on are enumerated.
class CopyNest {
public:
    // Without a memory index the nest is a fill.
    CopyNest(Kernel &kernel, IndexScope &scope, Halide::Expr pad_index, Halide::Expr mem_index)
        : kernel_(kernel), scope_(scope), pad_index_(std::move(pad_index)), mem_index_(std::move(mem_index)) {}

    std::vector<CopyLeaf> collect(const Halide::Internal::Stmt &s);

    // The loop in whose first iteration alone the nest does anything, -1: none.
    int first_only = -1;

private:
    void walk(const Halide::Internal::Stmt &s);
    void walk_loop(const Halide::Internal::For *loop);
    void leaf();
    LinearForm dimension_variable(const std::string &name, int64_t extent);
    bool enumerate_dependences(const LinearForm &form);
    bool split_dims(LinearForm &form, std::vector<CopyDim> &dims, int64_t CopyDim::*stride);

    Kernel &kernel_;
    IndexScope &scope_;
    Halide::Expr pad_index_, mem_index_;
    std::vector<CopyDim> dims_;
    std::vector<CopyLeaf> leaves_;
    std::set<std::string> enumerated_;
    std::map<std::string, int> loops_;
    bool retry_ = false;
};

// The part of a form that depends on loops.
LinearForm outer_part(const LinearForm &form);
// Cuts one leaf of a copy of `what` into boxes of whole rows.
void append_boxes(const CopyLeaf &leaf, const std::string &what, std::vector<Box> &boxes);
// Boxes that are alike and follow each other at one distance are one.
void join_boxes(std::vector<Box> &boxes);
// Calls `visit` with every row of a box.
void for_each_row(const Box &box, const std::function<void(int64_t)> &visit);

}  // namespace atalla::codegen
