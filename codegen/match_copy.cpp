// The matcher's copies: loop nests that only move elements between a tensor and the pads.
#include <algorithm>
#include <set>

#include "codegen/halide_loops.h"
#include "codegen/matcher.h"
#include "isa/error.h"

namespace atalla::codegen {

using namespace Halide;
using namespace Halide::Internal;

namespace {

struct CopyDim {
    std::string name;
    int64_t extent = 1;
    int64_t pad = 0, mem = 0;   // elements per step
};

// The store at the bottom of a nest of loops and lets, if that is all there is.
const Store *lone_store(const Stmt &s) {
    if (const auto *loop = s.as<For>()) return lone_store(loop->body);
    if (const auto *let = s.as<LetStmt>()) return let->value.type().is_scalar() && let->value.type().is_int() ? lone_store(let->body) : nullptr;
    return s.as<Store>();
}

bool uses_variable(const Expr &e, const std::string &name) {
    struct Uses : IRVisitor {
        const std::string &name;
        bool found = false;
        explicit Uses(const std::string &n) : name(n) {}
        using IRVisitor::visit;
        void visit(const Variable *v) override { found |= v->name == name; }
    } visitor(name);
    e.accept(&visitor);
    return visitor.found;
}

// Collects a nest as boxes with constant strides. Loops that inner extents or non-linear indices depend on are enumerated.
class NestCollector {
public:
    struct Leaf {
        LinearForm pad, mem;            // elements; without the dimensions
        std::vector<CopyDim> dims;
    };

    NestCollector(Kernel &kernel, IndexScope &scope, bool memory_side) : kernel_(kernel), scope_(scope), memory_side_(memory_side) {}

    std::vector<Leaf> collect(const Stmt &s, const Expr &pad_index, const Expr &mem_index) {
        pad_index_ = pad_index;
        mem_index_ = mem_index;
        for (;;) {
            leaves_.clear();
            dims_.clear();
            retry_ = false;
            walk(s);
            if (!retry_) return leaves_;
        }
    }

    // The loop in whose first iteration alone the nest does anything, -1: none. Halide makes such nests where what was
    // copied before is still there.
    int first_only = -1;

private:
    // A loop around the nest that makes an extent 0 from its second iteration on.
    int loop_left_after_first(const LinearForm &extent) {
        for (auto [atom, coefficient] : extent.terms)
            for (size_t l = 0; l < kernel_.loops.size(); l++) {
                if (!uses_variable(kernel_.atoms[atom].expr, kernel_.loops[l].name)) continue;
                const LinearForm later = scope_.at(extent, static_cast<int>(l), 1), now = scope_.at(extent, static_cast<int>(l), 0);
                if (later.is_constant() && later.constant <= 0 && now.is_constant() && now.constant > 0) return static_cast<int>(l);
            }
        return -1;
    }

    void walk(const Stmt &s) {
        if (retry_) return;
        if (const auto *let = s.as<LetStmt>()) {
            scope_.bind(let->name, scope_.linear(let->value));
            walk(let->body);
            scope_.unbind(let->name);
        } else if (const auto *loop = s.as<For>()) {
            const LoopShape shape = loop_shape(loop);
            LinearForm first = scope_.linear(shape.first), extent = scope_.linear(shape.extent);
            if (first_only < 0) first_only = loop_left_after_first(extent);
            if (first_only >= 0) {
                first = scope_.at(first, first_only, 0);
                extent = scope_.at(extent, first_only, 0);
            }
            if (!enumerate_dependences(first) || !enumerate_dependences(extent)) return;
            if (!first.is_constant() || !extent.is_constant())
                throw Error("cannot generate code: the bounds of copy loop '" + loop->name + "' depend on a loop outside the copy");
            if (enumerated_.count(loop->name)) {
                for (int64_t i = 0; i < extent.constant && !retry_; i++) {
                    scope_.bind(loop->name, {first.constant + i, {}});
                    walk(loop->body);
                }
            } else if (extent.constant > 0) {
                LinearForm variable = dimension_variable(loop->name);
                variable.constant = first.constant;
                scope_.bind(loop->name, variable);
                dims_.push_back({loop->name, extent.constant, 0, 0});
                walk(loop->body);
                dims_.pop_back();
            }
            scope_.unbind(loop->name);
        } else {
            leaf();
        }
    }

    LinearForm dimension_variable(const std::string &name) {
        auto [it, inserted] = loops_.try_emplace(name, static_cast<int>(kernel_.loops.size()));
        if (inserted) kernel_.loops.push_back({name, 0, -1, Reg{}});
        return scope_.loop_variable(it->second);
    }

    // True if the form does not depend on a dimension; otherwise the dimensions it depends on will be enumerated.
    bool enumerate_dependences(const LinearForm &form) {
        for (auto [atom, coefficient] : form.terms)
            for (const CopyDim &dim : dims_)
                if (uses_variable(kernel_.atoms[atom].expr, dim.name)) {
                    enumerated_.insert(dim.name);
                    retry_ = true;
                }
        return !retry_;
    }

    // Moves the dimensions' linear terms out of `form` into the strides.
    bool split_dims(LinearForm &form, std::vector<CopyDim> &dims, int64_t CopyDim::*stride) {
        for (auto it = form.terms.begin(); it != form.terms.end();) {
            const Atom &atom = kernel_.atoms[it->first];
            auto dim = std::find_if(dims.begin(), dims.end(), [&](const CopyDim &d) { return atom.is_loop && atom.text == d.name; });
            if (dim != dims.end()) {
                (*dim).*stride = it->second;
                it = form.terms.erase(it);
            } else {
                ++it;
            }
        }
        return enumerate_dependences(form);
    }

    void leaf() {
        Leaf leaf;
        leaf.dims = dims_;
        auto side = [&](const Expr &index, LinearForm &form, int64_t CopyDim::*stride) {
            const Ramp *ramp = index.as<Ramp>();
            form = scope_.linear(ramp ? ramp->base : index);
            if (first_only >= 0) form = scope_.at(form, first_only, 0);
            return split_dims(form, leaf.dims, stride);
        };
        if (const Ramp *ramp = pad_index_.as<Ramp>()) leaf.dims.push_back({"", ramp->lanes, 1, 1});
        if (!side(pad_index_, leaf.pad, &CopyDim::pad)) return;
        if (memory_side_ && !side(mem_index_, leaf.mem, &CopyDim::mem)) return;
        leaves_.push_back(std::move(leaf));
    }

    Kernel &kernel_;
    IndexScope &scope_;
    bool memory_side_;
    Expr pad_index_, mem_index_;
    std::vector<CopyDim> dims_;
    std::vector<Leaf> leaves_;
    std::set<std::string> enumerated_;
    std::map<std::string, int> loops_;
    bool retry_ = false;
};

LinearForm outer_part(const LinearForm &form) {
    LinearForm result = form;
    result.constant = 0;
    return result;
}

// Cuts one leaf of a copy into boxes of whole rows.
void append_boxes(const NestCollector::Leaf &leaf, const std::string &what, std::vector<Box> &boxes) {
    int64_t cols = 1;
    std::vector<Box::Dim> dims;
    for (const CopyDim &d : leaf.dims) {
        if (d.extent == 1) continue;
        if (d.pad == 1 && d.mem == 1 && cols == 1) {
            cols = d.extent;
        } else if (d.pad % 32 == 0) {
            dims.push_back({d.extent, d.pad / 32, d.mem});
        } else {
            throw Error("cannot generate code: the copy of '" + what + "' does not move rows of neighbouring elements (a transpose by DMA)");
        }
    }
    if (leaf.pad.constant % 32 != 0) throw Error("cannot generate code: the copy of '" + what + "' starts inside a row of the pads");
    const int64_t row = leaf.pad.constant / 32, mem = leaf.mem.constant, whole = cols / 32;
    if (whole > 0) {
        Box box{row, mem, 32, dims};
        if (whole > 1) box.dims.push_back({whole, 1, 32});
        boxes.push_back(std::move(box));
    }
    if (cols % 32 != 0) boxes.push_back({row + whole, mem + whole * 32, static_cast<int>(cols % 32), dims});
}

void for_each_row(const Box &box, size_t dim, int64_t row, const std::function<void(int64_t)> &visit) {
    if (dim == box.dims.size()) {
        visit(row);
        return;
    }
    for (int64_t i = 0; i < box.dims[dim].extent; i++) for_each_row(box, dim + 1, row + i * box.dims[dim].row_stride, visit);
}

}  // namespace

bool Matcher::match_copy(const Stmt &s) {
    const Store *store = lone_store(s);
    const Load *load = store != nullptr ? store->value.as<Load>() : nullptr;
    if (load == nullptr || !is_const_one(store->predicate)) return false;
    const bool in = allocations_.count(store->name) && tensors_.count(load->name);
    const bool out = tensors_.count(store->name) && allocations_.count(load->name);
    if (!in && !out) return false;
    const std::string &pad_name = in ? store->name : load->name, &mem_name = in ? load->name : store->name;
    auto dense = [](const Expr &index) { const Ramp *r = index.as<Ramp>(); return r == nullptr || is_const_one(r->stride); };
    if (!dense(store->index) || !dense(load->index)) fail("a copy between memory and the pads has a stride inside a vector", s);

    Copy copy;
    copy.load = in;
    copy.allocation = allocations_.at(pad_name);
    copy.tensor = tensors_.at(mem_name);
    NestCollector collector(kernel_, scope_, true);
    const auto leaves = collector.collect(s, in ? store->index : load->index, in ? load->index : store->index);
    for (const NestCollector::Leaf &leaf : leaves) {
        const LinearForm pad = outer_part(leaf.pad), mem = outer_part(leaf.mem);
        if (&leaf == &leaves.front()) {
            copy.pad_row = pad;
            copy.mem = mem;
        } else if (pad.terms != copy.pad_row.terms || mem.terms != copy.mem.terms) {
            fail("parts of one copy depend on different loops", s);
        }
        append_boxes(leaf, kernel_.allocations[copy.allocation].name, copy.boxes);
    }
    copy.first_of = collector.first_only;
    if (!copy.pad_row.divide(32)) fail("a copy's place in the pads does not start at a row", s);
    const SourceLocation location{kernel_.allocations[copy.allocation].name, "copy", ""};
    const auto found = std::find(kernel_.sources.begin(), kernel_.sources.end(), location);
    copy.source = static_cast<int32_t>(found - kernel_.sources.begin());
    if (found == kernel_.sources.end()) kernel_.sources.push_back(location);
    if (in) forget_loads(copy.allocation);
    body_->push_back(std::move(copy));
    return true;
}

// A fill with a constant followed by a copy over it: only rows that the copy does not cover are filled, and, since a copy
// never touches the other lanes, once for all.
bool Matcher::match_filled_copy(const Block *block) {
    const Store *fill = lone_store(block->first), *copy = lone_store(block->rest);
    if (fill == nullptr || copy == nullptr || fill->name != copy->name || !allocations_.count(fill->name)) return false;
    const auto *splat = fill->value.as<Broadcast>();
    if (splat == nullptr || splat->value.as<FloatImm>() == nullptr || copy->value.as<Load>() == nullptr) return false;
    if (!match_copy(block->rest)) return false;

    NestCollector collector(kernel_, scope_, false);
    const int allocation = allocations_.at(fill->name);
    std::set<int64_t> rows;
    LinearForm base;
    for (const NestCollector::Leaf &leaf : collector.collect(block->first, fill->index, Expr())) {
        std::vector<Box> boxes;
        NestCollector::Leaf rows_only = leaf;
        for (CopyDim &d : rows_only.dims)
            if (d.name.empty()) d.mem = 1;
        append_boxes(rows_only, fill->name, boxes);
        for (const Box &box : boxes) for_each_row(box, 0, box.row, [&](int64_t row) { rows.insert(row); });
        base = outer_part(leaf.pad);
    }
    if (!base.divide(32)) fail("a fill does not start at a row of the pads", block->first);
    const Copy &moved = *body_->back().copy;
    if (base.terms != moved.pad_row.terms) fail("a fill and the copy over it are placed differently", block->first);
    for (const Box &box : moved.boxes)
        if (box.cols == 32) for_each_row(box, 0, box.row, [&](int64_t row) { rows.erase(row); });
    if (rows.empty()) return true;

    std::vector<int64_t> slots = {0};
    for (auto [atom, coefficient] : base.terms) {
        const auto *ring = kernel_.atoms[atom].expr.as<Mod>();
        const auto *count = ring != nullptr ? ring->b.as<IntImm>() : nullptr;
        if (count == nullptr || base.terms.size() > 1) fail("the place of a fill depends on a loop", block->first);
        slots.clear();
        for (int64_t i = 0; i < count->value; i++) slots.push_back(i * coefficient);
    }
    const Reg value = constant_vector(static_cast<float>(splat->value.as<FloatImm>()->value));
    for (int64_t slot : slots)
        for (int64_t row : rows) {
            Op op;
            op.opcode = Opcode::vreg_st;
            op.access = PadAccess{allocation, {slot + row, {}}, {}};
            op.src = {Reg{}, Reg{}, value};
            op.imm = 31;
            op.source = moved.source;
            entry_.push_back(op);
        }
    return true;
}

}  // namespace atalla::codegen
