#include "codegen/copy_nest.h"

#include <algorithm>

#include "codegen/halide_loops.h"

namespace atalla::codegen {

using namespace Halide;
using namespace Halide::Internal;

const Store *lone_store(const Stmt &s) {
    if (const auto *loop = s.as<For>()) return lone_store(loop->body);
    if (const auto *let = s.as<LetStmt>())
        return let->value.type().is_scalar() && let->value.type().is_int() ? lone_store(let->body) : nullptr;
    if (const auto *branch = s.as<IfThenElse>()) return branch->else_case.defined() ? nullptr : lone_store(branch->then_case);
    return s.as<Store>();
}

std::vector<CopyLeaf> CopyNest::collect(const Stmt &s) {
    for (;;) {
        leaves_.clear();
        dims_.clear();
        retry_ = false;
        walk(s);
        if (!retry_) return leaves_;
    }
}

void CopyNest::walk(const Stmt &s) {
    if (retry_) return;
    if (const auto *let = s.as<LetStmt>()) {
        scope_.bind(let->name, scope_.linear(let->value));
        walk(let->body);
        scope_.unbind(let->name);
    } else if (const auto *loop = s.as<For>()) {
        walk_loop(loop);
    } else if (const auto *branch = s.as<IfThenElse>()) {
        for (const Expr &part : conjuncts(branch->condition)) {
            LinearForm condition = scope_.linear(select(part, 1, 0));
            if (first_only < 0 && (first_only = scope_.first_iteration_only(condition)) >= 0) retry_ = true;
            if (first_only >= 0) condition = scope_.at(condition, first_only, 0);
            if (!enumerate_dependences(condition)) return;
            if (!condition.is_constant()) throw Mismatch{"a condition inside a copy depends on a loop outside the copy"};
            if (condition.constant == 0) return;
        }
        walk(branch->then_case);
    } else {
        leaf();
    }
}

void CopyNest::walk_loop(const For *loop) {
    const LoopShape shape = loop_shape(loop);
    LinearForm first = scope_.linear(shape.first), extent = scope_.linear(shape.extent);
    if (first_only < 0 && (first_only = scope_.first_iteration_only(extent)) >= 0) retry_ = true;
    if (first_only >= 0) {
        first = scope_.at(first, first_only, 0);
        extent = scope_.at(extent, first_only, 0);
    }
    if (!enumerate_dependences(first) || !enumerate_dependences(extent)) return;
    if (!first.is_constant() || !extent.is_constant())
        throw Mismatch{"the bounds of copy loop '" + loop->name + "' depend on a loop outside the copy"};
    if (enumerated_.count(loop->name)) {
        for (int64_t i = 0; i < extent.constant && !retry_; i++) {
            scope_.bind(loop->name, {first.constant + i, {}});
            walk(loop->body);
        }
    } else if (extent.constant > 0) {
        LinearForm variable = dimension_variable(loop->name, extent.constant);
        variable.constant = first.constant;
        scope_.bind(loop->name, variable);
        dims_.push_back({loop->name, extent.constant, 0, 0});
        walk(loop->body);
        dims_.pop_back();
    }
    scope_.unbind(loop->name);
}

LinearForm CopyNest::dimension_variable(const std::string &name, int64_t extent) {
    auto [it, inserted] = loops_.try_emplace(name, static_cast<int>(kernel_.loops.size()));
    if (inserted) kernel_.loops.push_back({name, extent, -1, Reg{}});
    kernel_.loops[static_cast<size_t>(it->second)].extent = extent;
    return scope_.loop_variable(it->second);
}

// True if the form does not depend on a dimension; otherwise the dimensions it depends on will be enumerated.
bool CopyNest::enumerate_dependences(const LinearForm &form) {
    for (auto [atom, coefficient] : form.terms)
        for (const CopyDim &dim : dims_)
            if (expr_uses_var(kernel_.atoms[atom].expr, dim.name)) {
                enumerated_.insert(dim.name);
                retry_ = true;
            }
    return !retry_;
}

// Moves the dimensions' linear terms out of `form` into the strides.
bool CopyNest::split_dims(LinearForm &form, std::vector<CopyDim> &dims, int64_t CopyDim::*stride) {
    for (auto it = form.terms.begin(); it != form.terms.end();) {
        const Atom &atom = kernel_.atoms[it->first];
        auto dim =
            std::find_if(dims.begin(), dims.end(), [&](const CopyDim &d) { return atom.is_loop && atom.text == d.name; });
        if (dim != dims.end()) {
            (*dim).*stride = it->second;
            it = form.terms.erase(it);
        } else {
            ++it;
        }
    }
    return enumerate_dependences(form);
}

void CopyNest::leaf() {
    CopyLeaf leaf;
    leaf.dims = dims_;
    auto side = [&](const Expr &index, LinearForm &form, int64_t CopyDim::*stride) {
        const Ramp *ramp = index.as<Ramp>();
        form = scope_.linear(ramp ? ramp->base : index);
        if (first_only >= 0) form = scope_.at(form, first_only, 0);
        return split_dims(form, leaf.dims, stride);
    };
    if (const Ramp *ramp = pad_index_.as<Ramp>()) leaf.dims.push_back({"", ramp->lanes, 1, 1});
    if (!side(pad_index_, leaf.pad, &CopyDim::pad)) return;
    if (mem_index_.defined() && !side(mem_index_, leaf.mem, &CopyDim::mem)) return;
    leaves_.push_back(std::move(leaf));
}

LinearForm outer_part(const LinearForm &form) {
    LinearForm result = form;
    result.constant = 0;
    return result;
}

void append_boxes(const CopyLeaf &leaf, const std::string &what, std::vector<Box> &boxes) {
    int64_t cols = 1;
    std::vector<Box::Dim> dims;
    for (const CopyDim &d : leaf.dims) {
        if (d.extent == 1) continue;
        if (d.pad == 1 && d.mem == 1 && cols == 1) {
            cols = d.extent;
        } else if (d.pad % 32 == 0) {
            dims.push_back({d.extent, d.pad / 32, d.mem});
        } else {
            throw Mismatch{"the copy of '" + what + "' does not move rows of neighbouring elements (a transpose by DMA)"};
        }
    }
    if (leaf.pad.constant % 32 != 0) throw Mismatch{"the copy of '" + what + "' starts inside a row of the pads"};
    const int64_t row = leaf.pad.constant / 32, mem = leaf.mem.constant, whole = cols / 32;
    if (whole > 0) {
        Box box{row, mem, 32, dims};
        if (whole > 1) box.dims.push_back({whole, 1, 32});
        boxes.push_back(std::move(box));
    }
    if (cols % 32 != 0) boxes.push_back({row + whole, mem + whole * 32, static_cast<int>(cols % 32), dims});
}

void join_boxes(std::vector<Box> &boxes) {
    const auto alike = [](const Box &a, const Box &b) {
        return a.cols == b.cols &&
               std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end(), [](const Box::Dim &c, const Box::Dim &d) {
                   return c.extent == d.extent && c.row_stride == d.row_stride && c.mem_stride == d.mem_stride;
               });
    };
    std::vector<Box> joined;
    for (size_t first = 0; first < boxes.size();) {
        size_t end = first + 1;
        Box::Dim step;
        for (; end < boxes.size() && alike(boxes[first], boxes[end]); end++) {
            const Box::Dim next = {1, boxes[end].row - boxes[end - 1].row, boxes[end].mem - boxes[end - 1].mem};
            if (end == first + 1)
                step = next;
            else if (next.row_stride != step.row_stride || next.mem_stride != step.mem_stride)
                break;
        }
        joined.push_back(boxes[first]);
        step.extent = static_cast<int64_t>(end - first);
        if (step.extent > 1) joined.back().dims.push_back(step);
        first = end;
    }
    boxes = std::move(joined);
}

void for_each_row(const Box &box, const std::function<void(int64_t)> &visit) {
    const std::function<void(size_t, int64_t)> enumerate = [&](size_t dim, int64_t row) {
        if (dim == box.dims.size()) return visit(row);
        for (int64_t i = 0; i < box.dims[dim].extent; i++) enumerate(dim + 1, row + i * box.dims[dim].row_stride);
    };
    enumerate(0, box.row);
}

}  // namespace atalla::codegen
