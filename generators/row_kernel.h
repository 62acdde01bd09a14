// What kernels that work along the rows of a matrix share: rows in the pads, blocks of them, sums through the array.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <Halide.h>

#include "generators/kernel_definition.h"
#include "generators/row_space.h"
#include "isa/machine.h"
#include "schedules/point.h"

namespace atalla {

// Builds the pipeline: an operator declares its tensors, its steps and the sums and extrema between them, then finishes, or
// another kernel has the rows made for it.
class RowKernel {
public:
    // The result's name, and what the names of tensors begin with.
    RowKernel(const RowShape &shape, const Machine &machine, const Point &point, std::string name, std::string prefix = {});

    Halide::Var n{"n"}, m{"m"};
    int length() const { return length_; }
    int vectors() const { return vectors_; }
    int padded() const { return 32 * vectors_; }
    bool whole_vectors() const { return length_ == padded(); }
    // Are all vectors of a row in straight-line code, so that what is made of them can stay in registers?
    bool unrolled() const { return vector_unroll_ >= vectors_; }

    // Do rows come in parts, for each pass over them? What is read of them behind a sum or an extremum is read anew then, and
    // has to be made anew.
    bool in_parts() const { return part_ > 0; }

    // The rows of a tensor, in the pads; of those that come in parts the ones of this pass. `beyond` stands behind the last
    // element of each.
    Halide::Func rows_of(const std::string &name, std::optional<float> beyond = {});
    // One row for all, such as a bias: stays in the pads.
    Halide::Func row_of(const std::string &name);

    // An element-wise step, in registers where the rows are unrolled, else in the pads.
    void each(Halide::Func step);
    // One that takes less than a store and a load: where the vectors of a row are loops and weights of the array, each reader
    // makes it itself.
    void each_light(Halide::Func step);
    // One that a later pass reads, too: in the pads where all passes are one loop, else each reader makes it.
    void each_waiting(Halide::Func step) {
        if (skewed_) each(std::move(step));
    }
    // Something of a row: one value, or 32 lanes of them.
    void single(Halide::Func step);
    void lanes_of(Halide::Func step, Halide::Var lane);

    // One that is in the pads where numbers of rows are made beside each other, which are between its two readers; else each
    // reader makes it.
    void each_before(Halide::Func step);
    // What lanes make of a number of each row, for element n of row m: in all lanes of a vector for each row, or beside each
    // other, each row's in a lane of its own.
    Halide::Expr in_lanes(const std::string &name, Halide::Func number,
                          const std::function<Halide::Expr(const Halide::Expr &)> &made);

    // The sum of a row of bf16 values in float32: 32 at a time through the array or the reduction unit, with the same result,
    // rounded to bf16, these in float32. Of rows that fill the array, up to 32 of these are first added in float32 and rounded.
    Halide::Func sum(const std::string &name, Halide::Func values);
    // The largest of a row (NaN are passed over), the smallest.
    Halide::Func largest(const std::string &name, Halide::Func values);

    // The weights of the array that sum rows, from the start on where neither rows are weights nor the reduction unit sums.
    const Halide::Func &ones() const { return ones_; }

    // The kernel that stores `result`, a step that is in the pads.
    KernelDefinition finish(Halide::Func result);

    // For a kernel that reads the rows: `result`, over a lane, m and a vector, is in the pads, made for each block of rows at
    // `block` of `consumer`; or all rows before anything else, a block after the other.
    void make_rows(Halide::Func result, const Halide::Var &lane, const Halide::Var &vector, Halide::Func consumer,
                   const Halide::Var &block);
    void make_all_rows(Halide::Func result, const Halide::Var &lane, const Halide::Var &vector);
    // The tensors, in the order in which they were declared.
    std::vector<Halide::Argument> arguments() const;

private:
    struct Sum;
    Halide::Func grouped_sum(const std::string &name, Halide::Func values);
    static void schedule_parts(Sum &s, const Halide::LoopLevel &at);
    void schedule_sum(Sum &s, const Halide::LoopLevel &row);
    void hold_block(Halide::Func rows, Halide::Func consumer, const Halide::Var &block);
    void schedule_inputs(Halide::Func consumer, const Halide::Var &block);
    void over_vectors(Halide::Func step);
    void schedule_rows(Halide::Func result);
    void schedule_beside(Halide::Func result);
    Halide::Func schedule_columns(const Halide::Func &result);
    void over_rows(Halide::Func result, const Halide::Var &lane, const Halide::Var &vector, const Halide::Var &row,
                   const std::vector<Halide::VarOrRVar> &around);
    void schedule_made(Halide::Func result, const Halide::Var &lane, const Halide::Var &vector,
                       const std::vector<Halide::VarOrRVar> &around);
    // Do readers make light steps?
    bool makes_again() const { return grouped_ && !unrolled(); }
    // Passes of one loop take as many vectors of each part at a time, or neighbours where the parts are not told apart.
    int parts_in_turn() const { return grouped_ ? 1 : std::max(1, parts_); }
    // Do the vectors that passes of one loop take at a time not go round the pads, while the parts of a single row do?
    bool parts_go_round() const {
        const int pads = static_cast<int>(machine_.pad.count);
        return skewed_ && !grouped_ && block_ == 1 && parts_ >= pads && vector_unroll_ / parts_ % pads != 0;
    }
    // The elements of a row of vectors that lie in columns: of `columns`, over a lane, m and a vector.
    Halide::Func by_element(const std::string &name, const Halide::Func &columns) const;
    // Where a row in the pads is in the tensors, and the other way round.
    Halide::Expr row_of_tensor(const Halide::Expr &row) const;
    Halide::Expr row_in_pads(const Halide::Expr &row) const;
    bool sums_with_ones() const { return !sums_.empty() && !reduced_ && !grouped_; }
    void schedule_steps(const Halide::LoopLevel &row);
    void schedule_extrema(const Halide::LoopLevel &row);
    // Rows in parts.
    size_t pass() const { return in_parts() ? sums_.size() + extrema_.size() : 0; }
    void schedule_in_parts(Halide::Func result);
    void hold_part(Halide::Func rows, const Halide::LoopLevel &at);
    struct Sum {
        Halide::Func part, block, total;
        Halide::Var lane;
        Halide::RDom depth, blocks;
        Halide::Func weights, group;  // of rows that fill the array
        Halide::RDom members;
        Halide::Func values;  // that are summed
        size_t pass = 0;
    };
    struct Extremum {
        Halide::Func lanes, value;
        Halide::Var lane, side;  // which of the running maxima
        Halide::RDom rest, all;
        int sides = 1;
        size_t pass = 0;
    };
    struct Input {
        Halide::ImageParam param;
        Halide::Func rows;
        bool one_row = false;
        size_t pass = 0;
        Halide::Func elements;  // what readers see of `rows`
    };

    const Machine &machine_;
    int rows_, length_, vectors_, block_, row_unroll_, vector_unroll_;
    bool reduced_;  // the reduction unit sums
    bool stored_;   // steps of straight-line rows are in the pads
    bool grouped_;  // the array sums, with the rows as weights
    bool skewed_;   // passes over a row are one loop, each on another row
    bool apart_;    // rows in straight-line code come from all pads
    bool streams_;  // all rows are in the pads, and come and go beside the loop over them
    // Rows that end inside a vector: each vector of all rows of a block lies beside that of the next row in a pad, so that one
    // transfer has that of many rows. As rows lie, the last vector of each is a transfer of its own.
    bool columns_;
    int spare_;       // rows of the pads behind those of a block
    int beside_;      // rows whose numbers are made beside each other; 0: each row's by itself
    bool spread_;     // each of those numbers is in all lanes of a vector in the pads
    int neighbours_;  // rows of a tensor that follow each other in a pad, where others of the tensor are in the next pads; 0:
                      // all
    int parts_;       // of a row that fills the array, each rounded; 0 of others
    int part_;        // vectors of a part of rows that come in parts; 0 of others
    std::string prefix_;
    Halide::Func out_;
    Halide::Func ones_{"ones"};
    Halide::Var k_{"k"}, w_{"w"}, v_{"v"}, unrolled_row_{"m_unroll"}, unrolled_vector_{"n_unroll"};
    std::vector<Input> inputs_;
    std::vector<Halide::Func> each_, single_;
    std::vector<std::pair<Halide::Func, Halide::Var>> lanes_;
    std::vector<Halide::Func> before_;
    Halide::Func numbers_of_rows_, numbers_, made_, spread_made_;  // of rows beside each other
    Halide::RDom rows_beside_;
    std::vector<Sum> sums_;
    std::vector<Extremum> extrema_;
};

}  // namespace atalla
