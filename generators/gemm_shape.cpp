// What a matrix product's tensors and sums are: extents, how often it is made, and in which groups k is summed.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "generators/gemm.h"
#include "generators/gemm_inner.h"
#include "generators/gemm_prologue.h"
#include "isa/vectors.h"

namespace atalla {

namespace {

std::vector<int64_t> with_batch(std::vector<int64_t> extents, const std::vector<BatchDim> &batch, bool BatchDim::*has) {
    for (size_t d = batch.size(); d-- > 0;)
        if (has == nullptr || batch[d].*has) extents.push_back(batch[d].extent);
    return extents;
}

}  // namespace

int64_t GemmShape::products() const {
    int64_t n = 1;
    for (const BatchDim &dim : batch) n *= dim.extent;
    return n;
}
int64_t GemmShape::b_matrices() const {
    int64_t n = 1;
    for (const BatchDim &dim : batch)
        if (dim.b) n *= dim.extent;
    return n;
}
bool GemmShape::starts_with_bias() const {
    constexpr int64_t few_tiles = 2, many_tiles = 64;
    return bias && alpha == 1 && !blocked_sums && (m >= lanes || tiles_of(k) > few_tiles) && tiles_of(k) <= many_tiles;
}
size_t GemmShape::a_tensors() const { return prologue ? prologue->inputs().size() : inner ? inner->tensors() : 1; }
size_t GemmShape::tensors() const { return a_tensors() + 1 + bias + addend + operands.size(); }
int64_t GemmShape::sum_group() const {
    const int64_t tiles = tiles_of(k);
    if (!blocked_sums) return tiles;
    // Groups end in code of their own, so there are few, as far as sums of three times the square root allow; and as few tiles
    // beyond the last one as possible.
    const auto cost = [tiles](int64_t group) { return std::pair(ceil_div(tiles, group) * group, ceil_div(tiles, group)); };
    std::optional<int64_t> best;
    for (int64_t group = 1; group <= tiles; group++) {
        const int64_t rounds = group + ceil_div(tiles, group);
        if (rounds * rounds <= std::max<int64_t>(9 * tiles, 16) && (!best || cost(group) < cost(*best))) best = group;
    }
    return *best;
}
int64_t GemmShape::sum_groups() const { return ceil_div(tiles_of(k), sum_group()); }
std::vector<int64_t> GemmShape::a_extents() const { return with_batch({k, m}, batch, &BatchDim::a); }
std::vector<int64_t> GemmShape::b_extents() const {
    return with_batch(b_transposed ? std::vector{k, n} : std::vector{n, k}, batch, &BatchDim::b);
}
std::vector<int64_t> GemmShape::addend_extents() const { return with_batch({n, m}, batch, &BatchDim::addend); }
std::vector<int64_t> GemmShape::c_extents() const { return with_batch({n, m}, batch, nullptr); }
std::vector<int64_t> GemmShape::operand_extents(const GemmOperand &operand) const {
    return operand.kind == GemmOperand::Matrix ? c_extents() : std::vector{operand.kind == GemmOperand::Row ? n : m};
}

}  // namespace atalla
