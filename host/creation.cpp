// Tensors from nothing: ranges and constants.
#include "host/kernels.h"

namespace atalla {

namespace {

void add_constant(HostKernels &kernels, std::initializer_list<const char *> names, double value) {
    for (const char *name : names)
        kernels[std::string("aten::") + name] = [value](const HostCall &call) {
            return std::vector{tensor_of_values(call.result(), std::vector<double>(static_cast<size_t>(call.result().elements()), value))};
        };
}

}  // namespace

void add_creation_kernels(HostKernels &kernels) {
    add_constant(kernels, {"zeros", "new_zeros", "zeros_like", "empty.memory_format", "new_empty", "empty_like"}, 0);
    add_constant(kernels, {"ones", "new_ones", "ones_like"}, 1);
    for (const char *name : {"full", "full_like", "new_full", "scalar_tensor", "fill.Scalar", "fill.Tensor"})
        kernels[std::string("aten::") + name] = [](const HostCall &call) {
            const HostTensor value = call.tensor_of({"fill_value", "value", "s"});
            if (is_floating(call.result().dtype)) return std::vector{tensor_of_values(call.result(), values_of<double>(value, call.result().sizes))};
            return std::vector{tensor_of_values(call.result(), values_of<int64_t>(value, call.result().sizes))};
        };
    for (const char *name : {"arange", "arange.start", "arange.start_step"})
        kernels[std::string("aten::") + name] = [](const HostCall &call) {
            const double start = call.number("start", 0), step = call.number("step", 1);
            std::vector<double> values(static_cast<size_t>(call.result().elements()));
            for (size_t i = 0; i < values.size(); i++) values[i] = start + step * static_cast<double>(i);
            return std::vector{tensor_of_values(call.result(), values)};
        };
}

}  // namespace atalla
