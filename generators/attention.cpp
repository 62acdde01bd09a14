#include "generators/attention.h"

#include <algorithm>
#include <string>

#include "generators/attention_forms.h"
#include "generators/vocabulary.h"
#include "isa/error.h"
#include "isa/vectors.h"

namespace atalla {

namespace {

std::vector<int64_t> with_batch(int64_t element, int64_t rows, const std::vector<AttentionBatch> &batch,
                                bool AttentionBatch::*has, size_t inside) {
    std::vector<int64_t> extents = {element};
    for (size_t d = 0; d <= batch.size(); d++) {
        if (d == std::min(inside, batch.size())) extents.push_back(rows);
        if (d == batch.size()) break;
        const AttentionBatch &dim = batch[batch.size() - 1 - d];
        if (has == nullptr || dim.*has) extents.push_back(has == &AttentionBatch::mask ? dim.masks : dim.extent);
    }
    return extents;
}

}  // namespace

void AttentionBatch::join(const AttentionBatch &inside) {
    extent *= inside.extent;
    if (mask && !inside.mask) {
        sharers *= inside.extent;
        return;
    }
    masks = mask ? masks * inside.masks : inside.masks;
    sharers = inside.sharers;
    mask = inside.mask;
}

int64_t AttentionShape::problems() const {
    int64_t n = 1;
    for (const AttentionBatch &dim : batch) n *= dim.extent;
    return n;
}
std::vector<int64_t> AttentionShape::q_extents() const { return with_batch(depth, queries, batch, nullptr, inside('q')); }
std::vector<int64_t> AttentionShape::k_extents() const {
    return with_batch(depth, keys, batch, &AttentionBatch::keys, inside('k'));
}
std::vector<int64_t> AttentionShape::v_extents() const {
    return with_batch(width, keys, batch, &AttentionBatch::keys, inside('v'));
}
std::vector<int64_t> AttentionShape::mask_extents() const { return with_batch(keys, queries, batch, &AttentionBatch::mask, 0); }
std::vector<int64_t> AttentionShape::out_extents() const { return with_batch(width, queries, batch, nullptr, inside('o')); }

int64_t AttentionShape::passing_rows(const Machine &machine, const Point &point) const {
    if (!whole_rows() || skips_hidden(block_rows(point))) return lanes;
    const int64_t all = block_rows(point) * blocks_together(point), round = machine.pad.count;
    int64_t rows = 1;
    for (int64_t more = 2; more <= streamed(point); more++)
        if (all % more == 0 && (more % round == 0 || rows % round != 0)) rows = more;
    return rows;
}

KernelDefinition attention(const AttentionShape &shape, const Machine &machine, const Point &point) {
    if (shape.queries < 1 || shape.keys < 1 || shape.depth < 1 || shape.width < 1 || shape.problems() < 1)
        throw Error("attention: sizes must be at least 1");
    if (AttentionShape::streamed(point) > 0 && !shape.whole_rows()) return attention_streamed(shape, machine, point);
    return shape.whole_rows() ? attention_of_whole_rows(shape, machine, point) : attention_by_tiles(shape, machine, point);
}

const AttentionForm &attention_form(const AttentionShape &shape, const Machine &machine) {
    for (const AttentionForm *form : {&attention_of_one_query, &attention_in_registers})
        if (form->takes(shape, machine)) return *form;
    return attention_in_pads;
}

std::vector<Halide::Expr> tensor_args(const AttentionShape &shape, const BatchVars<AttentionBatch> &batch, char tensor,
                                      Halide::Expr element, const Halide::Expr &row) {
    const bool of_keys = tensor == 'k' || tensor == 'v';
    return batch.tensor_args(std::move(element), row, of_keys ? &AttentionBatch::keys : nullptr, shape.inside(tensor));
}

std::vector<Halide::Expr> mask_args(const BatchVars<AttentionBatch> &batch, std::vector<Halide::Expr> own) {
    for (size_t d = 0; d < batch.size(); d++)
        if (batch.dim(d).mask) own.push_back(batch.dim(d).mask_of(Halide::Expr(batch.var(d))));
    return own;
}

void loop_over_batch(Halide::Func out, const BatchVars<AttentionBatch> &batch, std::vector<Halide::VarOrRVar> inside,
                     const Halide::Var &block, const Halide::Var &head, int heads) {
    if (heads > 1) {
        out.split(batch.var(0), batch.var(0), head, heads, Halide::TailStrategy::GuardWithIf);
        inside.emplace_back(head);
    }
    inside.emplace_back(block);
    batch.add_loops(out, inside);
    out.reorder(inside);
    vocabulary::whole_loops(out);
}

KernelDefinition attention_kernel(const AttentionShape &shape, Halide::Pipeline pipeline,
                                  const std::array<Halide::ImageParam, 4> &inputs) {
    KernelDefinition kernel;
    kernel.pipeline = std::move(pipeline);
    const auto &[q, k, v, mask] = inputs;
    kernel.add_input("Q", q);
    kernel.add_input("K", k);
    kernel.add_input("V", v);
    if (shape.mask) kernel.add_input("mask", mask);
    kernel.outputs = {{"O", shape.out_extents()}};
    return kernel;
}

}  // namespace atalla
