// In builds without Halide, which compiles them.
#include "runtime/host_kernels.h"

namespace atalla {

std::optional<std::vector<HostTensor>> run_host_kernel(const Node &, const std::function<const HostTensor &(ValueId)> &,
                                                       const std::vector<ResultType> &) {
    return std::nullopt;
}

}  // namespace atalla
