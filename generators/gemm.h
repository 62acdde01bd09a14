// Matrix products C = epilogue(A * B): one algorithm, scheduled by a point of the GEMM space.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "generators/expression.h"
#include "generators/kernel_definition.h"
#include "generators/pointwise_functions.h"
#include "isa/machine.h"
#include "schedules/point.h"

namespace atalla {

class RowWorkload;

// A dimension of independent products; a tensor that lacks it serves all of them.
struct BatchDim {
    int64_t extent = 1;
    bool a = true, b = true, addend = true;  // the tensor has it
};

// An operand of the expression behind a product: of the result's shape, a vector of n that serves all rows, or one of m that
// serves all columns (and all products).
struct GemmOperand {
    enum Kind { Matrix, Row, Column };
    std::string name;
    Kind kind = Matrix;
};
// What the expression calls the product.
inline constexpr const char *product_name = "product";

// C[m, n] = relu?(alpha * sum_k A[m, k] * B[.., ..] + bias[n] + beta * D[m, n]); all tensors bf16, row-major. Without D, beta
// is the bias's factor. Where there is an epilogue, that is the product, and C the epilogue's value.
struct GemmShape {
    int64_t m = 0, n = 0, k = 0;
    std::vector<BatchDim> batch;  // outermost first
    bool b_transposed = true;     // B is stored [n][k], as a linear layer's weight; otherwise [k][n]
    bool bias = false, relu = false, addend = false;
    double alpha = 1, beta = 1;
    std::optional<ExpressionNode> epilogue = {};  // pointwise, of `product_name` and the operands
    std::vector<GemmOperand> operands = {};
    LaneCount epilogue_work;  // of a vector of results: plan_epilogue()
    // The epilogue's rows are a loop behind those of the product, which wait in the pads, rather than straight-line code with
    // them: plan_epilogue().
    bool staged = false;
    std::shared_ptr<const RowWorkload> prologue = {};  // makes the rows of A of its own inputs, of one product
    std::shared_ptr<const GemmShape> inner = {};       // or a product does, whose result is A; no batch
    bool added_first = false;   // the operator has the bias or addend before A and B: addmm(input, mat1, mat2)
    bool b_first = false;       // the operator has B before A
    bool blocked_sums = false;  // over groups of k tiles, then over the groups: long sums keep more digits

    // The bias is what the sums begin with, so that the first k tile is as the others and the results need no addition. A small
    // product ends before a bias behind it is missed, and in a long sum, where its addition behind costs little, each of many
    // roundings would be one of the bias.
    bool starts_with_bias() const;
    // Tiles of 32 elements of k that the sums run over: whole groups of them. All are one group where sums are not blocked.
    int64_t k_tiles() const { return sum_groups() * sum_group(); }
    int64_t sum_group() const;
    int64_t sum_groups() const;
    int64_t products() const;
    int64_t b_matrices() const;                                                  // that the products use
    size_t a_tensors() const;                                                    // inputs that are A, or that it is made of
    size_t tensors() const;                                                      // all inputs
    bool makes_rows() const { return prologue != nullptr || inner != nullptr; }  // A is no input
    // Extents, innermost first.
    std::vector<int64_t> a_extents() const, b_extents() const, addend_extents() const, c_extents() const;
    std::vector<int64_t> operand_extents(const GemmOperand &operand) const;
};

// Sums run over blocks of 32 in float32, rounded to bf16, and over the blocks in bf16, ascending, from the bias on where it is
// not added to a multiple of the product; blocked, over those of a group and then over the groups, and the bias comes last.
// Inputs: A, or what it is made of, B, then bias and addend where the shape has them, and the operands; output C. Rows of A
// that are made stay in the pads.
//
// The array multiplies vectors along k, so B stored [k][n] is transposed first: 32 x 32 elements are the weights and the rows
// of the identity pass through them. That is exact for finite elements, except that -0 becomes +0; an infinity or NaN makes the
// other columns of its 32 x 32 block NaN too.
KernelDefinition gemm(const GemmShape &shape, const Machine &machine, const Point &point);

}  // namespace atalla
