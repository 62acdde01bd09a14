// The host's operators that models have around the accelerator, compiled with the library: token tables, masks, caches.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "runtime/user_kernel.h"

namespace atalla {

// The results of interpret_node(). Nothing for calls that no compiled kernel takes: another operator, element type or number of
// dimensions, or an index outside its dimension.
std::optional<std::vector<HostTensor>> run_host_kernel(const Node &node,
                                                       const std::function<const HostTensor &(ValueId)> &operands,
                                                       const std::vector<ResultType> &results);

}  // namespace atalla
