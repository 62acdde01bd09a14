// A matrix product, or a batch of them, as a workload.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "generators/gemm.h"
#include "generators/operator.h"

namespace atalla {

// How an operator calls a product, and the shape of its result as PyTorch has it; where it does not say, the product's own
// sizes do. And the orders of its inputs for which it has better kernels, if any.
struct GemmNames {
    std::string text, title, shape;
    std::optional<Shape> result;
    std::function<std::vector<Arrangement>(const Machine &)> arrangements = {};
};

// Error if a tensor has more elements than a kernel can count.
std::unique_ptr<Workload> gemm_workload(const GemmShape &shape, GemmNames names = {});

}  // namespace atalla
