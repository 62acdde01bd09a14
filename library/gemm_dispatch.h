// Matrix products of any shape with the kernels of a library: the exact one, or the best of those that can be made to fit.
#pragma once

#include <optional>
#include <string>

#include "library/kernel_library.h"

namespace atalla {

// C[m,n] = A[m,k] B[n,k]^T (+ bias[n]), then relu.
struct GemmCall {
    int64_t m = 0, n = 0, k = 0;
    bool bias = false, relu = false;
};

struct GemmChoice {
    const LibraryKernel *kernel = nullptr;
    int64_t m = 0, n = 0, k = 0;  // of the kernel
    int64_t tiles = 1;            // runs of the kernel
    int64_t cycles = 0;           // of all runs
    bool exact() const { return tiles == 1; }
};

// The gemm kernels of a library by shape.
class GemmDispatch {
public:
    // The library must outlive it.
    explicit GemmDispatch(const KernelLibrary &library);

    // The kernel of just this shape if there is one. Otherwise the result is cut into tiles of a kernel with the same epilogue
    // that sums at least as many products, at its edges filled with zeros; of those the one whose runs take the fewest cycles.
    // Nothing if no kernel can do it.
    std::optional<GemmChoice> choose(const GemmCall &call) const;

    // Runs it. The result has the bits of a kernel for the shape itself, but that a sum of -0 may be +0 where k was
    // filled up: x + 0 is x for every other x. Error if nothing fits, or a size is wrong.
    Bf16 run(const GemmCall &call, const Bf16 &a, const Bf16 &b, const Bf16 &bias, GemmChoice *chosen = nullptr) const;

private:
    struct Entry {
        GemmCall call;
        const LibraryKernel *kernel;
    };
    const KernelLibrary &library_;
    std::vector<Entry> entries_;
};

}  // namespace atalla
