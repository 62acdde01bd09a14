// Tensors of floats to and from the device's bf16 elements.
#pragma once

#include <cstdint>
#include <vector>

#include "graph_import/tensor.h"

namespace atalla {

// Row-major bf16 patterns, rounded to nearest, ties to even; a NaN stays one, and what is finite stays finite. Error for a
// tensor that does not hold floats.
std::vector<uint16_t> bf16_elements(const HostTensor &tensor);
// A dense tensor of a floating type from them, exactly.
HostTensor tensor_of_bf16(DType dtype, const std::vector<int64_t> &sizes, const std::vector<uint16_t> &elements);

}  // namespace atalla
