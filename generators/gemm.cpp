#include "generators/gemm_pipeline.h"

#include <algorithm>

#include "generators/gemm_inner.h"
#include "generators/gemm_prologue.h"
#include "generators/vocabulary.h"
#include "isa/error.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

GemmPipeline::GemmPipeline(const GemmShape &shape, const Machine &machine, const Point &point, const GemmPipeline *reader)
    : reader_(reader),
      shape_(shape),
      machine_(machine),
      point_(point),
      plan_(shape, machine, point),
      m_size_(static_cast<int>(shape.m)),
      n_size_(static_cast<int>(shape.n)),
      k_size_(static_cast<int>(shape.k)),
      k_tiles_(static_cast<int>(shape.k_tiles())),
      group_(static_cast<int>(shape.sum_group())),
      rows_(static_cast<int>(std::min<int64_t>(point["rows"], shape.m))),
      cols_(std::min(lanes, n_size_)),
      row_blocks_(ceil_div(m_size_, rows_)),
      col_blocks_(ceil_div(n_size_, cols_)),
      k_block_(point.contains("k_block") && point["k_block"] > 0 ? std::min(static_cast<int>(point["k_block"]), k_tiles_)
                                                                 : k_tiles_),
      pass_(point.contains("row_pass") && point["row_pass"] > 0 ? static_cast<int>(std::min<int64_t>(point["row_pass"], rows_))
                                                                : rows_),
      whole_(k_block_ == k_tiles_),
      k_outer_(point.contains("k_outer") && point["k_outer"] != 0),
      streamed_(plan_.streamed),
      m_outer_(point["m_outer"] != 0),
      row_major_(point["b_row_major"] != 0),
      a_resident_(point.contains("a_resident") && point["a_resident"] != 0 && row_blocks_ > 1),
      b_resident_(point["b_resident"] != 0 && col_blocks_ > 1),
      c_whole_(plan_.c_whole) {
    const int quantum = static_cast<int>(machine.pad.count);
    if (shape.prologue) {
        if (!shape.batch.empty() || in_passes() || (!makes_all() && !m_outer_))
            throw Error("gemm: rows that are made belong to one product, whose columns pass within a block of them");
        prologue_.emplace(shape.prologue->row_shape(), machine, prologue_point(point), "A", "a_");
    }
    if (shape.inner) {
        if (!shape.batch.empty() || !shape.inner->batch.empty() || in_passes() || !m_outer_)
            throw Error("gemm: rows that a product makes belong to one product, whose columns pass within a block of them");
        inner_point_ = inner_point(point);
        inner_ = std::make_unique<GemmPipeline>(*shape.inner, machine, inner_point_, this);
    }
    stored_rows_ = round_up(pass_, quantum);
    waiting_rows_ = static_cast<int>(plan_.waiting_rows());
    if (shape.blocked_sums && (in_passes() || ends_apart() || (!whole_ && group_ % k_block_ != 0)))
        throw Error("gemm: sums in groups take the rows in one pass, and parts of k that divide a group");
    if (!whole_ && (k_tiles_ % k_block_ != 0 || b_resident_))
        throw Error("gemm: k_block must divide the k tiles, and B cannot stay in the pads with it");
    if (k_outer_ && (whole_ || !m_outer_ || !shape.batch.empty() || shape.makes_rows() || shape.blocked_sums ||
                     !shape.b_transposed || n_size_ % lanes != 0 || in_passes()))
        throw Error("gemm: only whole blocks of columns of one product, within a block of rows, wait for further k tiles");
    if (in_passes() && (rows_ % pass_ != 0 || point["sums_in_registers"] == 0))
        throw Error("gemm: row_pass must divide the rows, and needs the sums in registers");
    if (in_passes() && (staged_ || !shape.operands.empty()))
        throw Error("gemm: the rows of an epilogue with operands pass in one");
    if (c_whole_ && (shape.b_transposed || !b_resident_ || shape.addend || !shape.operands.empty() || staged_ ||
                     shape.blocked_sums || shape.makes_rows() || reader != nullptr))
        throw Error(
            "gemm: results of all columns leave together where all of B is transposed first and no other tensor "
            "comes with each block of them");
    for (const GemmOperand &operand : shape.operands) {
        operands_.emplace_back(operand.name + "_rows");
        operand_tensors_.push_back(tensor("in_" + operand.name, shape.operand_extents(operand)));
    }
}

KernelDefinition GemmPipeline::build() {
    define_result();
    if (sums_leave()) {
        define(out, {n, m}, C(n % lanes, n / lanes, m));
    } else if (streamed_) {
        define(Es, {k, kt, m}, E(kt * lanes + k, m));
        define(out, {n, m}, Es(n % lanes, n / lanes, m));
    } else if (c_whole_) {
        define(Es, args({k, m, kt}), E(args({kt * lanes + k, m})));
        define(out, args({n, m}), Es(args({n % lanes, m, n / lanes})));
    } else {
        define(out, args({n, m}), result()(args({n, m})));
    }
    schedule_loops();
    schedule();
    KernelDefinition kernel;
    kernel.pipeline = Pipeline(out);
    add_tensors(kernel);
    kernel.outputs = {{"C", shape_.c_extents()}};
    return kernel;
}

void GemmPipeline::add_tensors(KernelDefinition &kernel) const {
    if (prologue_) {
        kernel.arguments = prologue_->arguments();
        kernel.inputs = shape_.prologue->inputs();
    } else if (inner_) {
        inner_->add_tensors(kernel);
    } else {
        kernel.add_input("A", a);
    }
    kernel.add_input("B", b);
    if (shape_.bias) kernel.add_input("bias", bias);
    if (shape_.addend) kernel.add_input("D", d);
    for (size_t i = 0; i < operands_.size(); i++) kernel.add_input(shape_.operands[i].name, operand_tensors_[i]);
    for (const char *name : {"As", "Bs", "Bk"}) kernel.layouts[named(name)].even = true;
    if (streamed_)
        for (const char *name : {"C", "Es"}) kernel.layouts[name].block = col_blocks_;
    if (plan_.deferred) add_waiting_layouts(kernel);
    if (point_.contains("pads_split") && point_["pads_split"] != 0)
        for (const char *name : {"As", "Bs"}) kernel.layouts[named(name)].pads = 2;
    // Rows of B that stay in one pad: neighbours share a page of the DRAM, and the pads' transfers together are faster on
    // several. And what is transposed into the pads with the k tiles of a row one behind the other: each row is in one, so that
    // rows go round them.
    if (point_["b_block"] > 1 || (b_resident_ && row_major_ && !shape_.b_transposed))
        kernel.layouts[named("Bs")].block = point_["b_block"] * (row_major_ ? k_block_ : 1);
}

void GemmPipeline::add_waiting_layouts(KernelDefinition &kernel) const {
    int pads = static_cast<int>(machine_.pad.count);
    while (plan_.deferred_rows() % pads != 0) pads--;
    kernel.layouts["E"].pads = kernel.layouts["F"].pads = pads;
    for (size_t i = 0; i < operands_.size(); i++)
        if (shape_.operands[i].kind != GemmOperand::Row) kernel.layouts[shape_.operands[i].name + "_rows"].pads = pads;
}

KernelDefinition gemm(const GemmShape &shape, const Machine &machine, const Point &point) {
    if (shape.m < 1 || shape.n < 1 || shape.k < 1 || shape.products() < 1) throw Error("gemm: sizes must be at least 1");
    return GemmPipeline(shape, machine, point).build();
}

}  // namespace atalla
