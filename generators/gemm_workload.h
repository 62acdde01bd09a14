// A matrix product, or a batch of them, as a workload.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "generators/gemm.h"
#include "generators/operator.h"

namespace atalla {

// How an operator calls a product, and the shape of its result as PyTorch has it; where it does not say, the product's own
// sizes do.
struct GemmNames {
    std::string text, title, shape;
    std::optional<Shape> result;
};

// Error if a tensor has more elements than a kernel can count.
std::unique_ptr<Workload> gemm_workload(const GemmShape &shape, GemmNames names = {});

}  // namespace atalla
