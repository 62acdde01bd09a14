// The pipeline of a matrix product while it is put together: gemm.cpp checks its point and names its tensors,
// gemm_algorithm.cpp says what is computed, gemm_schedule.cpp where and when.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <Halide.h>

#include "generators/batch_vars.h"
#include "generators/gemm.h"
#include "generators/gemm_plan.h"
#include "generators/row_kernel.h"
#include "generators/vocabulary.h"
#include "isa/machine.h"
#include "isa/vectors.h"
#include "schedules/point.h"

namespace atalla {

// W is a weight tile (32 vectors), P one 32-deep dot product in float32, C the bf16 sums over the tiles. As and Bs are the
// operands in the pads, a row of 32 elements of k for each m (n) and k tile.
//
// Where another product makes the rows of A, that is a pipeline of its own without a result in the memory: its blocks of
// columns are the k tiles of As, whose loops it is scheduled in. It is called the inner one, and this its reader.
class GemmPipeline {
public:
    GemmPipeline(const GemmShape &shape, const Machine &machine, const Point &point, const GemmPipeline *reader = nullptr);

    KernelDefinition build();

private:
    using Expr = Halide::Expr;
    using Func = Halide::Func;
    using LoopLevel = Halide::LoopLevel;
    using RDom = Halide::RDom;
    using RVar = Halide::RVar;
    using Var = Halide::Var;

    void define_result();
    void define_operands();
    void define_product();
    // The product with one k tile, whose weights and product have Funcs of their own.
    Expr one_tile(Func weights, Func product, int tile);
    void define_epilogue();
    Expr epilogue_of(const Expr &product);
    Expr bias_term() const;
    // What is past the last column keeps to its lanes.
    bool n_tail() const { return n_size_ < lanes || partial_tiles(); }
    Expr within_columns(Expr value) const;
    Expr column() const;
    std::vector<Expr> args(std::vector<Expr> own, bool BatchDim::*has = nullptr) const {
        return batch_.args(std::move(own), has);
    }
    // Rows of a k tile together, or (B) the k tiles of a row together: one transfer then brings up to 32 k tiles of one row.
    std::vector<Expr> ordered(Expr lane, Expr row, Expr tile, bool row_first) const;

    void schedule();
    void schedule_loops();
    // The operands of a block come whole, or (where the pads are small) so many k tiles at a time.
    void schedule_operands();
    // The rows of A as the inner product's blocks of columns.
    void make_rows();
    void schedule_product();
    // The sums over the k tiles, or over those between the first and the last.
    void schedule_updates();
    // The sums of all columns of a block of rows wait in the pads while blocks of k tiles pass, those of a visit in registers.
    void schedule_waiting_sums();
    // And where all columns pass for each k tile.
    void schedule_streamed_sums();
    void schedule_weights(Func weights);
    void schedule_rows(Func product, Func consumer);
    void schedule_tile(Func weights, Func product, Func consumer);
    void schedule_epilogue();
    void schedule_bias();
    // A vector of n that serves all rows: with its block of columns; all of it at once where that may not be whole.
    void schedule_row(Func row) const;
    // Two slots where transfers can run ahead: on a machine that takes time for them.
    void two_slots(Func f, int64_t blocks) const;
    // Where a block of columns, a block of rows and both together are computed.
    LoopLevel columns() const;
    LoopLevel block_of_rows() const { return {last().out, last().mo}; }
    LoopLevel block() const { return m_outer_ ? columns() : block_of_rows(); }

    // The tensors, and how the operands lie in the pads.
    void add_tensors(KernelDefinition &kernel) const;
    // The rows of a visit go round as many pads as divide them.
    void add_waiting_layouts(KernelDefinition &kernel) const;

    // The product whose result leaves.
    const GemmPipeline &last() const { return reader_ != nullptr ? reader_->last() : *this; }
    // A Func's name in the kernel.
    std::string named(const char *name) const { return reader_ != nullptr ? reader_->named("inner_") + name : name; }
    Func result() const { return staged_ ? F : E; }
    // What is added to with each k tile.
    Func sums() const { return shape_.blocked_sums ? G : C; }
    // What the last k tile makes.
    Func ending() const { return leaves_whole() ? Es : E; }
    // Is nothing left to be done to the sums of all columns?
    bool sums_leave() const {
        return streamed_ && !shape_.epilogue && !shape_.relu && shape_.alpha == 1 &&
               (!shape_.bias || shape_.starts_with_bias());
    }
    // Results of all columns of a block of rows leave together.
    bool leaves_whole() const { return c_whole_ || streamed_; }
    // Of an inner product, all columns are in the pads before its epilogue begins.
    bool stages_all() const { return staged_ && point_.contains("stage_all") && point_["stage_all"] != 0; }
    // Tiles of columns stay where they are, so that the last one may have some alone.
    bool partial_tiles() const { return (reader_ != nullptr || c_whole_) && n_size_ % lanes != 0; }
    // All rows of A are made before the product.
    bool makes_all() const { return shape_.prologue && point_["prologue_rows"] > 0; }
    // Rows of A and of the result pass through the pads in parts of a block.
    bool in_passes() const { return pass_ < rows_; }
    // Sums in the pads start with the first k tile and become results with the last. (Those in registers start so by
    // themselves, since their values are known.)
    bool ends_apart() const {
        return whole_ && point_["sums_in_registers"] == 0 && point_.contains("k_ends_apart") && point_["k_ends_apart"] != 0;
    }
    bool has_sums() const { return !ends_apart() || k_tiles_ > 1; }
    bool has_updates() const { return !ends_apart() || k_tiles_ > 2; }

    const GemmPipeline *const reader_;  // of the rows, where they are no result of the kernel
    const GemmShape &shape_;
    const Machine &machine_;
    const Point &point_;
    const GemmPlan plan_;
    const int m_size_, n_size_, k_size_, k_tiles_, group_, rows_, cols_, row_blocks_, col_blocks_, k_block_, pass_;
    const bool whole_, k_outer_, streamed_, m_outer_, row_major_, a_resident_, b_resident_, c_whole_;
    const bool staged_ = shape_.staged;
    // Loops over rows end behind the last one, where that makes whole rounds of the pads: those are of no result.
    const bool whole_rounds_ = plan_.whole_rounds;
    int stored_rows_ = 0, waiting_rows_ = 0;
    const BatchVars<BatchDim> batch_{shape_.batch};

    Halide::ImageParam a = vocabulary::tensor(named("A"), shape_.a_extents()),
                       b = vocabulary::tensor(named("B"), shape_.b_extents()),
                       bias = vocabulary::tensor(named("bias"), {shape_.n}),
                       d = vocabulary::tensor(named("D"), shape_.addend_extents());
    const bool one_slot_ = point_.contains("slots") && point_["slots"] == 1;
    // Tiles of B are transposed in the loop that multiplies with them: one body for all k tiles, which is long.
    const bool turns_inside_ = point_.contains("b_turned") && point_["b_turned"] != 0;
    const bool k_alike_ = turns_inside_ || (point_.contains("k_alike") && point_["k_alike"] != 0);
    const bool straight_ = point_.contains("blocks_unrolled") && point_["blocks_unrolled"] != 0;
    Expr sums_;
    Var n{"n"}, m{"m"}, k{"k"}, kt{"kt"}, kb{"kb"}, kg{"kg"}, nb{"nb"}, no{straight_ ? "no_unroll" : "no"}, ni{"ni"},
        mo{straight_ ? "mo_unroll" : "mo"}, mi{"mi"}, mp{"mp"}, w{"w"}, wi{"w_unroll"}, mu{"m_unroll"}, fu{"f_unroll"}, i{"i"},
        iu{"i_unroll"}, nt{"nt"}, u{"u"};
    RVar ro{"ro"}, ri{"ri"};
    Func As{named("As")}, Bs{named("Bs")}, Bk{named("Bk")}, identity{named("identity")}, Wt{named("Wt")}, Pt{named("Pt")},
        bs{named("bs")}, Ds{named("Ds")}, W{named("W")}, P{named("P")}, W0{named("W0")}, P0{named("P0")}, W1{named("W1")},
        P1{named("P1")}, G{named("G")}, C{named("C")}, E{named("E")}, Es{named("Es")}, F{named("F")}, out{named("C_out")};
    std::optional<RowKernel> prologue_;  // makes As
    Point inner_point_;
    std::unique_ptr<GemmPipeline> inner_;  // or this does
    std::vector<Func> operands_;
    std::vector<Halide::ImageParam> operand_tensors_;
    RDom q{0, lanes, "q"}, r{ends_apart() ? 1 : 0, has_updates() ? group_ - 2 * ends_apart() : 1, k_alike_ ? "r_alike" : "r"},
        rg{0, k_tiles_ / group_, "rg"};
};

}  // namespace atalla
