// Any operator of a library by name and shapes: its own kernel, or runs of one over independent parts of the tensors.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "library/kernel_library.h"

namespace atalla {

struct CallTensor {
    std::vector<int64_t> shape;  // outermost extent first
    const uint16_t *data = nullptr;
};

struct OperatorCall {
    std::string op;
    std::string attributes = "{}";  // JSON object, as in the workload
    std::vector<CallTensor> inputs;
};

struct OperatorChoice {
    const LibraryKernel *kernel = nullptr;
    int64_t items = 0;  // independent parts of this call; 0: the kernel's own shape
    int64_t runs = 1;
    int64_t cycles = 0;  // of all runs
    bool exact() const { return items == 0; }
};

// The kernels of a library that were made from tensors with names and attributes, as all operators but gemm have them.
class OperatorDispatch {
public:
    // The library must outlive it.
    explicit OperatorDispatch(const KernelLibrary &library);

    // The kernel of just these shapes if there is one. Otherwise one whose tensors consist of independent items of the same
    // shape: it runs as often as the items of the call ask for, the last time filled up with zeros; the one whose runs take
    // the fewest cycles. Nothing if no kernel can do it. Data are not looked at.
    std::optional<OperatorChoice> choose(const OperatorCall &call) const;

    // The results have the bits of a kernel for the shapes themselves. Error naming what fits nothing.
    std::vector<Bf16> run(const OperatorCall &call, OperatorChoice *chosen = nullptr) const;

private:
    struct Entry {
        const LibraryKernel *kernel;
        std::vector<std::vector<int64_t>> shapes;  // of the inputs
    };
    std::optional<OperatorChoice> fit(const Entry &entry, const OperatorCall &call) const;

    const KernelLibrary &library_;
    std::map<std::pair<std::string, std::string>, std::vector<Entry>> entries_;  // by operator and attributes
};

}  // namespace atalla
