// The matcher's fills: constants around what a copy brings to the pads, such as the zeros behind the last element of a row.
#include <algorithm>

#include <fmt/format.h>

#include "codegen/copy_nest.h"
#include "codegen/matcher.h"

namespace atalla::codegen {

using namespace Halide;
using namespace Halide::Internal;

namespace {

const FloatImm *filled_with(const Store *store) {
    const auto *splat = store->value.as<Broadcast>();
    return splat != nullptr ? splat->value.as<FloatImm>() : nullptr;
}

}  // namespace

// The values that the part of a place that depends on loops takes; nothing if there are very many.
std::optional<std::set<int64_t>> Matcher::all_places(const LinearForm &form) {
    if (form.is_constant()) return std::set<int64_t>{form.constant};
    if (form.terms.size() == 1) {
        // A ring slot.
        const auto [atom, coefficient] = *form.terms.begin();
        const auto *ring = kernel_.atoms[atom].expr.as<Mod>();
        const auto *count = ring != nullptr ? ring->b.as<IntImm>() : nullptr;
        if (count != nullptr) {
            std::set<int64_t> places;
            for (int64_t i = 0; i < count->value; i++) places.insert(form.constant + i * coefficient);
            return places;
        }
    }
    constexpr int64_t most = 256;
    for (size_t l = 0; l < kernel_.loops.size(); l++) {
        const bool used = std::any_of(form.terms.begin(), form.terms.end(), [&](const auto &term) {
            return expr_uses_var(kernel_.atoms[term.first].expr, kernel_.loops[l].name);
        });
        if (!used) continue;
        if (kernel_.loops[l].extent > most) return std::nullopt;
        std::set<int64_t> places;
        for (int64_t i = 0; i < kernel_.loops[l].extent; i++) {
            const auto some = all_places(scope_.at(form, static_cast<int>(l), i));
            if (!some) return std::nullopt;
            places.insert(some->begin(), some->end());
        }
        return places;
    }
    return std::nullopt;
}

// Notes how many lanes of each row a copy brings, and that the others of `filled` rows keep the constant they were filled
// with at the start. Where a row is to hold both, its Func is filled before each copy instead.
void Matcher::note_rows(const Copy &copy, const std::set<int64_t> &filled) {
    const Allocation &allocation = kernel_.allocations[copy.allocation];
    std::vector<int8_t> &brought = brought_[copy.allocation];
    brought.resize(static_cast<size_t>(allocation.rows), not_copied);
    const auto places = all_places(copy.pad_row);
    bool in_order = places.has_value();
    const auto note = [&](int64_t row, int8_t lanes) {
        for (int64_t place : *places) {
            if (place + row < 0 || place + row >= allocation.rows) throw Mismatch{"a copy leaves '" + allocation.name + "'"};
            int8_t &known = brought[static_cast<size_t>(place + row)];
            in_order = in_order && (known == not_copied || known == lanes);
            known = lanes;
        }
    };
    if (in_order) {
        std::set<int64_t> untouched = filled;
        for (const Box &box : copy.boxes)
            for_each_row(box, [&](int64_t row) {
                untouched.erase(row);
                note(row, static_cast<int8_t>(box.cols));
            });
        for (int64_t row : untouched) note(row, 0);
    }
    if (!in_order) fill_in_place(copy.allocation);
}

void Matcher::fill_in_place(int allocation) const {
    for (const auto &[name, index] : allocations_)
        if (index == allocation) throw FillInPlace{name};
    throw Mismatch{"a fill of an allocation that is not known"};
}

// Notes how many lanes of each row the copies of an allocation bring that is filled in place.
void Matcher::note_lanes(const std::string &name, const Copy &copy) {
    std::vector<int8_t> &most = brought_in_place_[name];
    most.resize(static_cast<size_t>(kernel_.allocations[copy.allocation].rows), 0);
    const auto places = all_places(copy.pad_row);
    if (!places) return std::fill(most.begin(), most.end(), static_cast<int8_t>(32));
    for (const Box &box : copy.boxes)
        for_each_row(box, [&](int64_t row) {
            for (int64_t place : *places) {
                if (place + row < 0 || place + row >= static_cast<int64_t>(most.size()))
                    throw Mismatch{"a copy leaves '" + kernel_.allocations[copy.allocation].name + "'"};
                int8_t &lanes = most[static_cast<size_t>(place + row)];
                lanes = std::max(lanes, static_cast<int8_t>(box.cols));
            }
        });
}

bool Matcher::learn(FillsInPlace &fills) const {
    bool more = false;
    for (const auto &[name, rows] : brought_in_place_) {
        std::vector<int8_t> &known = fills[name];
        known.resize(std::max(known.size(), rows.size()), 0);
        for (size_t row = 0; row < rows.size(); row++) {
            more = more || rows[row] > known[row];
            known[row] = std::max(known[row], rows[row]);
        }
    }
    return more;
}

// The copy that was just matched, with stores in front of it to rows of which it brings fewer lanes than others do; all rows
// hold the constant from the start. False, and without the copy, where the rows are not known, or so many that a loop over all
// of them is better.
bool Matcher::match_fill_in_place(const Store *fill, const std::set<int64_t> &rows, const LinearForm &base) {
    const Copy moved = *body_->back().copy;
    body_->pop_back();
    const auto places = all_places(base);
    if (!places || base.terms != moved.pad_row.terms || moved.first_of >= 0) return false;
    std::map<int64_t, int> brought;
    for (const Box &box : moved.boxes) for_each_row(box, [&](int64_t row) { brought[row] = box.cols; });
    const std::vector<int8_t> &most = fill_in_place_.at(fill->name);
    const auto lanes_of = [&](int64_t row) { return brought.count(row) ? brought.at(row) : 0; };
    std::vector<int64_t> stale, at_start;
    for (int64_t row : rows)
        if (std::any_of(places->begin(), places->end(), [&](int64_t place) {
                const auto at = static_cast<size_t>(place + row);
                return at < most.size() && most[at] > lanes_of(row);
            }))
            stale.push_back(row);
    constexpr size_t most_stores = 32;
    if (stale.size() > most_stores) return false;
    for (int64_t row : rows)
        for (int64_t place : *places)
            if (lanes_of(row) < 32 && filled_rows_.insert({moved.allocation, place + row}).second)
                at_start.push_back(place + row);
    const Reg value = constant_vector(static_cast<float>(filled_with(fill)->value));
    for (int64_t row : stale) {
        Op op;
        op.opcode = Opcode::vreg_st;
        op.access = PadAccess{moved.allocation, {row, base.terms}, {}};
        op.src = {Reg{}, Reg{}, value};
        op.imm = 31;
        op.source = moved.source;
        body_->push_back(op);
    }
    if (!at_start.empty()) fill_rows(moved, at_start, value);
    body_->push_back(moved);
    return true;
}

// Stores a constant to rows before everything else. Long series of rows become loops, a round of the pads an iteration.
void Matcher::fill_rows(const Copy &copy, const std::vector<int64_t> &rows, Reg value) {
    constexpr size_t shortest_loop = 16;
    const auto round = static_cast<size_t>(kernel_.machine->pad.count);
    const auto store = [&](LinearForm row, Body &body) {
        Op op;
        op.opcode = Opcode::vreg_st;
        op.access = PadAccess{copy.allocation, std::move(row), {}};
        op.src = {Reg{}, Reg{}, value};
        op.imm = 31;
        op.source = copy.source;
        body.push_back(op);
    };
    for (size_t first = 0; first < rows.size();) {
        size_t end = first + 1;
        const int64_t step = end < rows.size() ? rows[end] - rows[first] : 0;
        while (end < rows.size() && rows[end] - rows[end - 1] == step) end++;
        const size_t rounds = (end - first) / round;
        if (end - first >= shortest_loop) {
            Loop loop;
            loop.id = static_cast<int>(kernel_.loops.size());
            loop.extent = static_cast<int64_t>(rounds);
            loop.name = kernel_.allocations[copy.allocation].name + ".fill";
            loop.fill = true;
            kernel_.loops.push_back({fmt::format("{}#{}", loop.name, loop.id), loop.extent, -1, kernel_.scalar("fill")});
            const LinearForm variable = scope_.loop_variable(loop.id);
            for (size_t i = 0; i < round; i++) {
                LinearForm row = variable.scaled(step * static_cast<int64_t>(round));
                row.constant = rows[first + i];
                store(row, loop.body);
            }
            entry_.push_back(std::move(loop));
            first += rounds * round;
        }
        for (; first < end; first++) store({rows[first], {}}, entry_);
    }
}

// A fill with a constant followed by a copy over it. Only rows that the copy does not cover are filled, and, since a copy
// never touches the other lanes, once for all.
bool Matcher::match_filled_copy(const Block *block) {
    const Store *fill = lone_store(block->first);
    if (fill == nullptr || !allocations_.count(fill->name) || filled_with(fill) == nullptr) return false;
    // Other statements may follow.
    const auto *rest = block->rest.as<Block>();
    const Stmt copying = rest != nullptr ? rest->first : block->rest;
    const Store *copy = lone_store(copying);
    if (copy == nullptr || fill->name != copy->name || copy->value.as<Load>() == nullptr) return false;
    const size_t before = body_->size();
    if (!match_copy(copying)) return false;
    if (body_->size() == before) return false;  // nothing to move here

    // Where the copy runs in the first iteration of a loop alone and the fill in all, constants take the place of what it
    // brought.
    if (const Copy &matched = *body_->back().copy; matched.first_of != first_of_) {
        CopyNest alone(kernel_, scope_, fill->index, Expr());
        alone.first_only = first_of_;
        alone.collect(block->first);
        if (alone.first_only != matched.first_of) {
            if (!fill_in_place_.count(fill->name)) fill_in_place(matched.allocation);
            body_->pop_back();
            return false;
        }
    }

    CopyNest nest(kernel_, scope_, fill->index, Expr());
    nest.first_only = body_->back().copy->first_of;
    std::set<int64_t> rows;
    LinearForm base;
    for (const CopyLeaf &leaf : nest.collect(block->first)) {
        std::vector<Box> boxes;
        CopyLeaf rows_only = leaf;
        for (CopyDim &d : rows_only.dims)
            if (d.name.empty()) d.mem = 1;
        append_boxes(rows_only, fill->name, boxes);
        for (const Box &box : boxes) for_each_row(box, [&](int64_t row) { rows.insert(row); });
        base = outer_part(leaf.pad);
    }
    if (!base.divide(32)) fail("a fill does not start at a row of the pads", block->first);
    if (fill_in_place_.count(fill->name)) {
        if (!match_fill_in_place(fill, rows, base)) return false;
        if (rest != nullptr) visit(rest->rest);
        return true;
    }
    const Copy &moved = *body_->back().copy;
    if (computed_.count(moved.allocation)) fill_in_place(moved.allocation);
    if (base.terms != moved.pad_row.terms) fill_in_place(moved.allocation);  // the copy moves over the rows
    note_rows(moved, rows);
    for (const Box &box : moved.boxes)
        if (box.cols == 32) for_each_row(box, [&](int64_t row) { rows.erase(row); });
    const auto places = all_places(base);
    std::vector<int64_t> missing;
    for (int64_t place : *places)
        for (int64_t row : rows)
            if (filled_rows_.insert({moved.allocation, place + row}).second) missing.push_back(place + row);
    if (!missing.empty()) fill_rows(moved, missing, constant_vector(static_cast<float>(filled_with(fill)->value)));
    if (rest != nullptr) visit(rest->rest);
    return true;
}

}  // namespace atalla::codegen
