// The matcher's copies: loop nests that only move elements between a tensor and the pads.
#include <algorithm>
#include <utility>

#include "codegen/copy_nest.h"
#include "codegen/matcher.h"

namespace atalla::codegen {

using namespace Halide;
using namespace Halide::Internal;

bool Matcher::match_copy(const Stmt &s) {
    const Store *store = lone_store(s);
    const Load *load = store != nullptr ? store->value.as<Load>() : nullptr;
    if (load == nullptr || !is_const_one(store->predicate)) return false;
    const bool in = allocations_.count(store->name) && tensors_.count(load->name);
    const bool out = tensors_.count(store->name) && allocations_.count(load->name);
    if (!in && !out) return false;
    const std::string &pad_name = in ? store->name : load->name, &mem_name = in ? load->name : store->name;
    auto dense = [](const Expr &index) {
        const Ramp *r = index.as<Ramp>();
        return r == nullptr || is_const_one(r->stride);
    };
    if (!dense(store->index) || !dense(load->index)) fail("a copy between memory and the pads has a stride inside a vector", s);

    if (scratch_.count(mem_name) && (loop_ >= 0 || result_elements_ > 0))
        fail("scratch in memory lies in the place of a result: what uses it runs once, in front of what writes that", s);

    Copy copy;
    copy.load = in;
    copy.allocation = allocations_.at(pad_name);
    copy.tensor = tensors_.at(mem_name);
    CopyNest nest(kernel_, scope_, in ? store->index : load->index, in ? load->index : store->index);
    nest.first_only = first_of_;
    const std::vector<CopyLeaf> leaves = nest.collect(s);
    for (const CopyLeaf &leaf : leaves) {
        const LinearForm pad = outer_part(leaf.pad), mem = outer_part(leaf.mem);
        if (&leaf == &leaves.front()) {
            copy.pad_row = pad;
            copy.mem = mem;
        } else if (pad.terms != copy.pad_row.terms || mem.terms != copy.mem.terms) {
            fail("parts of one copy depend on different loops", s);
        }
        append_boxes(leaf, kernel_.allocations[copy.allocation].name, copy.boxes);
    }
    join_boxes(copy.boxes);
    copy.first_of = nest.first_only;
    if (!copy.pad_row.divide(32)) fail("a copy's place in the pads does not start at a row", s);
    copy.source = source_of({kernel_.allocations[copy.allocation].name, "copy", ""});
    if (in) forget_loads(copy.allocation);
    if (copy.boxes.empty()) return true;
    if (const auto scratch = scratch_.find(mem_name); scratch != scratch_.end()) {
        copy.scratch = true;
        copy.mem.constant += scratch->second;
    } else if (out && copy.tensor == first_result()) {
        note_result(copy);
    }
    if (in && fill_in_place_.count(pad_name)) {
        bool ring = false;
        for (auto [atom, rows] : copy.pad_row.terms) ring = ring || kernel_.atoms[atom].expr.as<Mod>() != nullptr;
        if (ring && optimize_)
            fail("'" + pad_name + "' is ring-buffered, and what surrounds its tiles changes from tile to tile", s);
        note_lanes(pad_name, copy);
    } else if (in && filled_names_.count(pad_name)) {
        note_rows(copy, {});
    }
    body_->push_back(std::move(copy));
    return true;
}

// How far the result reaches in memory.
void Matcher::note_result(const Copy &copy) {
    const auto limits = scope_.range(copy.mem);
    for (const Box &box : copy.boxes) {
        int64_t end = box.mem + box.cols + (limits ? limits->high : 0);
        for (const Box::Dim &dim : box.dims) end += std::max<int64_t>(0, (dim.extent - 1) * dim.mem_stride);
        result_elements_ = std::max(result_elements_, end);
    }
}

// A condition that holds in the first iteration of a loop alone: what is copied under it stays in the pads.
bool Matcher::match_first_iteration(const IfThenElse *branch, const LinearForm &condition) {
    if (branch->else_case.defined()) return false;
    struct OnlyCopies : IRVisitor {
        const Matcher &matcher;
        bool yes = true, any = false;
        explicit OnlyCopies(const Matcher &m) : matcher(m) {}
        using IRVisitor::visit;
        void visit(const Store *store) override {
            const auto *splat = store->value.as<Broadcast>();
            const bool fill =
                splat != nullptr && splat->value.as<FloatImm>() != nullptr && matcher.filled_names_.count(store->name);
            const auto *load = store->value.as<Load>();
            const bool copy = load != nullptr && matcher.tensors_.count(load->name);
            yes = yes && matcher.allocations_.count(store->name) && (fill || copy);
            any = any || copy;
        }
    } copies(*this);
    branch->then_case.accept(&copies);
    if (!copies.yes || !copies.any) return false;
    const int loop = scope_.first_iteration_only(condition);
    if (loop < 0) return false;
    const int outer = std::exchange(first_of_, loop);
    visit(branch->then_case);
    first_of_ = outer;
    return true;
}

}  // namespace atalla::codegen
