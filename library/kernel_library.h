// A kernel library in memory: tuned programs by operator and workload, with what they were made from and for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isa/machine.h"
#include "isa/program.h"

namespace atalla {

struct LibraryTensor {
    std::string name;
    std::vector<int64_t> extents;  // innermost first; bf16, dense
    int64_t elements() const;
    bool operator==(const LibraryTensor &) const = default;
};

struct LibraryKernel {
    std::string op, workload, point;
    int64_t cycles = 0, bound_cycles = 0;
    std::vector<LibraryTensor> inputs, outputs;
    // Independent parts of the tensors, contiguous in all outputs and in the inputs marked so: other numbers of them are runs
    // of this kernel. 0: not known to be independent.
    int64_t items = 0;
    std::vector<bool> sliced;
    uint32_t parameters = 0x3C;  // byte address of the parameter words
    Program program;             // packets from address 0 without gaps, and data; nothing else is kept
    std::string run;             // of the tuning database
    int64_t recorded = 0;        // milliseconds since 1970, UTC
};

struct KernelLibrary {
    Machine machine;
    std::string compiler;                // fingerprint
    std::vector<LibraryKernel> kernels;  // ordered by op, then workload

    // nullptr if there is none.
    const LibraryKernel *find(std::string_view op, std::string_view workload) const;
};

// The same library gives the same bytes. Kernels are put in order; Error if two have the same key, or a program has gaps.
std::vector<uint8_t> library_bytes(KernelLibrary library);
// Error for bytes that are no library, damaged, of another version, or whose machine contradicts its fingerprint.
KernelLibrary parse_library(std::span<const uint8_t> bytes);
// Error naming the file.
KernelLibrary read_library(const std::filesystem::path &file);

// A C header that lists the kernels: constants for fingerprints, and a macro over all of them. `name` begins its identifiers.
std::string library_header(const KernelLibrary &library, std::string_view name);

// What differs between two libraries, a line each: "+ gemm {...}: 1234 cycles". Empty if programs and provenance are equal.
std::vector<std::string> library_differences(const KernelLibrary &one, const KernelLibrary &other);

using Bf16 = std::vector<uint16_t>;  // bit patterns, row-major

struct LibraryRun {
    std::vector<Bf16> outputs;
    int64_t cycles = 0;
};

// Runs a kernel on the simulator. Error if the inputs have other sizes than the kernel's, or the program does not run.
LibraryRun run_kernel(const KernelLibrary &library, const LibraryKernel &kernel, const std::vector<Bf16> &inputs);

}  // namespace atalla
