#include "host/kernels.h"

namespace atalla {

const HostKernels &host_kernels() {
    static const HostKernels kernels = [] {
        HostKernels all;
        add_elementwise_kernels(all);
        add_shape_kernels(all);
        add_index_kernels(all);
        add_creation_kernels(all);
        add_reduction_kernels(all);
        add_normalization_kernels(all);
        add_matrix_kernels(all);
        add_convolution_kernels(all);
        add_pooling_kernels(all);
        return all;
    }();
    return kernels;
}

}  // namespace atalla
