// The matrix products of ATen as declarations: linear, mm, addmm, bmm, baddbmm, matmul.
#pragma once

#include <functional>
#include <vector>

#include "generators/declared_operator.h"
#include "generators/gemm.h"

namespace atalla {

std::vector<OperatorDeclaration> matmul_operators();

// The product that a request of one of them asks for, its leading dimensions as they are given. Error as from the operator.
GemmShape matmul_shape(const WorkloadRequest &request);
// The shape of its result as PyTorch gives it.
Shape matmul_result(const WorkloadRequest &request, const GemmShape &shape);
// Dimensions of one are none; neighbours that all tensors share, or that one lacks, are one; rows of A that only A has are
// rows.
void join_batch(GemmShape &shape);
// Whether a tensor of a call of one of them streams through the array, row by row.
bool streams(const ExpressionNode &call, const DeclaredTensor &tensor);
// The workload of such a product under the request's names, with a result of that shape, and GemmNames::arrangements. Error if
// a tensor is empty.
std::unique_ptr<Workload> matmul_workload(const WorkloadRequest &request, GemmShape shape, Shape result,
                                          std::function<std::vector<Arrangement>(const Machine &)> arrangements = {});

}  // namespace atalla
