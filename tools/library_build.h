// Compiles the winners of the tuning database to a kernel library, and checks libraries against the compiler.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "db/database.h"
#include "library/kernel_library.h"
#include "tools/tune_list.h"

namespace atalla {

// What a listed workload has no winner for, with the reason: "gemm 64x64x64: tuned by compiler 0123, this is 4567; tune it
// again".
struct BuiltLibrary {
    KernelLibrary library;
    std::vector<std::string> missing;
};

// `progress` is called with the number of kernels compiled so far, from any thread; it may be empty.
BuiltLibrary build_library(const WorkloadList &list, const Machine &machine, const Database &database,
                           const std::function<void(int64_t)> &progress = {});

// All workloads that have a winner on the machine, made by this compiler or by another. What cannot be read any more joins the
// problems.
WorkloadList workloads_of_database(const Database &database, const Machine &machine);

// Runs a kernel on random tensors and compares with the host's result bit for bit, and the cycles with the library's. Empty if
// they agree, otherwise what differs.
std::string check_kernel(const KernelLibrary &library, const LibraryKernel &kernel);

}  // namespace atalla
