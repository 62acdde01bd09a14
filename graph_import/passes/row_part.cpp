#include "graph_import/passes/row_part.h"

#include <algorithm>

#include "graph_import/passes/rewriter.h"
#include "graph_import/passes/row_slice.h"

namespace atalla {

Places::Places(const Sizes &sizes) {
    SymInt stride = 1;
    for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
        axes_.push_back({*size, stride});
        stride = stride * *size;
    }
    std::ranges::reverse(axes_);
}

// Axes are joined where one step of the outer is all of the inner, and each of the joined ones is divided among sizes of the
// view.
bool Places::view_as(const Sizes &sizes) {
    std::vector<Axis> joined;  // from the innermost
    for (auto axis = axes_.rbegin(); axis != axes_.rend(); ++axis) {
        if (axis->size == SymInt(1)) continue;
        if (!joined.empty() && axis->stride == joined.back().stride * joined.back().size)
            joined.back().size = joined.back().size * axis->size;
        else
            joined.push_back(*axis);
    }
    std::vector<Axis> viewed;
    auto from = joined.begin();
    SymInt taken = 1;
    for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
        if (*size == SymInt(1)) {
            viewed.push_back({1, 1});
            continue;
        }
        if (from == joined.end()) return false;
        viewed.push_back({*size, from->stride * taken});
        taken = taken * *size;
        if (taken == from->size) ++from, taken = 1;
    }
    if (from != joined.end()) return false;
    std::ranges::reverse(viewed);
    axes_ = std::move(viewed);
    return true;
}

std::optional<Places> Places::after(const Node &node, const Sizes &result) const {
    Places left = *this;
    if (node.target == "aten::view") return left.view_as(result) ? std::optional(left) : std::nullopt;
    if (node.target == "aten::permute") {
        const std::vector<int64_t> dims = permutation(node);
        for (size_t i = 0; i < dims.size(); i++) left.axes_[i] = axes_.at(static_cast<size_t>(dims[i]));
        return left;
    }
    const bool select = node.target == "aten::select.int";
    if (!select && node.target != "aten::slice.Tensor") return {};
    const int64_t rank = static_cast<int64_t>(axes_.size()), dim = node.integer("dim");
    const auto at = left.axes_.begin() + (dim < 0 ? dim + rank : dim);
    if (!at->size.is_constant()) return {};
    const int64_t size = at->size.value();
    if (select) {
        const int64_t index = node.integer("index");
        left.offset_ = left.offset_ + at->stride * SymInt(index < 0 ? index + size : index);
        left.axes_.erase(at);
        return left;
    }
    const RowSlice slice = slice_of(node, size);
    if (slice.step != 1) return {};
    left.offset_ = left.offset_ + at->stride * SymInt(slice.start);
    at->size = slice.end - slice.start;
    return left;
}

std::optional<RowPart> Places::part_of_rows(const Sizes &whole) const {
    if (!offset_.is_constant() || !whole.back().is_constant()) return {};
    const SymInt row = whole.back();
    std::optional<SymInt> part;  // known once an axis steps from row to row
    SymInt stride = 1;           // of the next axis, if elements follow each other
    for (auto axis = axes_.rbegin(); axis != axes_.rend(); ++axis) {
        if (axis->size == SymInt(1)) continue;
        if (!part && axis->stride == row) part = stride, stride = row;
        if (!(axis->stride == stride)) return {};
        stride = stride * axis->size;
    }
    if (!part) part = stride, stride = row;  // a single row
    if (!part->is_constant() || !(stride == element_count(whole))) return {};
    const RowPart found{offset_.value(), offset_.value() + part->value()};
    return found.start < found.end && found.end <= row.value() ? std::optional(found) : std::nullopt;
}

}  // namespace atalla
