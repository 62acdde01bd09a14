// Operators on the host, in float32 and in integers as PyTorch computes them: for whatever the accelerator does not take.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "host/call.h"

namespace atalla {

// Results in the order of the node's outputs, of the types that the call says. Throws Error.
using HostKernel = std::function<std::vector<HostTensor>(const HostCall &)>;
using HostKernels = std::map<std::string, HostKernel, std::less<>>;

// All of them, by the target of their nodes: "aten::add.Tensor".
const HostKernels &host_kernels();

// One family each, added to the table by host_kernels().
void add_elementwise_kernels(HostKernels &kernels);
void add_shape_kernels(HostKernels &kernels);
void add_index_kernels(HostKernels &kernels);
void add_creation_kernels(HostKernels &kernels);
void add_reduction_kernels(HostKernels &kernels);
void add_normalization_kernels(HostKernels &kernels);
void add_matrix_kernels(HostKernels &kernels);
void add_convolution_kernels(HostKernels &kernels);
void add_pooling_kernels(HostKernels &kernels);

}  // namespace atalla
