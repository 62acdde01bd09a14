#include "library/gemm_dispatch.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "isa/error.h"

namespace atalla {

namespace {

int64_t tiles(int64_t size, int64_t tile) { return (size + tile - 1) / tile; }

// Rows and columns from `row` and `column` of a matrix, those beyond its end as zeros.
Bf16 part(const Bf16 &matrix, int64_t rows, int64_t columns, int64_t row, int64_t wanted_rows, int64_t wanted_columns) {
    Bf16 result(static_cast<size_t>(wanted_rows * wanted_columns), 0);
    for (int64_t r = 0; r < std::min(wanted_rows, rows - row); r++)
        std::copy_n(matrix.begin() + (row + r) * columns, std::min(columns, wanted_columns),
                    result.begin() + r * wanted_columns);
    return result;
}

void demand(const Bf16 &tensor, int64_t elements, const char *name) {
    if (static_cast<int64_t>(tensor.size()) != elements)
        throw Error(fmt::format("{} has {} elements, but the sizes ask for {}", name, tensor.size(), elements));
}

}  // namespace

GemmDispatch::GemmDispatch(const KernelLibrary &library) : library_(library) {
    for (const LibraryKernel &kernel : library.kernels) {
        if (kernel.op != "gemm") continue;
        const nlohmann::json w = nlohmann::json::parse(kernel.workload, nullptr, false);
        if (!w.is_object() || !w.contains("m") || !w.contains("n") || !w.contains("k")) continue;
        // Kernels with more than the interface has are for whoever asks for them by name.
        if (w.value("b", "nk") != "nk" || w.value("addend", false) || w.value("alpha", 1.0) != 1.0 ||
            w.value("type", "bf16") != "bf16")
            continue;
        entries_.push_back({{w["m"], w["n"], w["k"], w.value("bias", false), w.value("relu", false)}, &kernel});
    }
}

std::optional<GemmChoice> GemmDispatch::choose(const GemmCall &call) const {
    std::optional<GemmChoice> best;
    for (const Entry &entry : entries_) {
        const GemmCall &has = entry.call;
        if (has.bias != call.bias || has.relu != call.relu || has.k < call.k) continue;
        const bool exact = has.m == call.m && has.n == call.n && has.k == call.k;
        GemmChoice choice{entry.kernel, has.m, has.n, has.k, tiles(call.m, has.m) * tiles(call.n, has.n), 0};
        choice.cycles = choice.tiles * entry.kernel->cycles;
        if (exact) return choice;
        if (!best || std::tie(choice.cycles, choice.kernel->workload) < std::tie(best->cycles, best->kernel->workload))
            best = choice;
    }
    return best;
}

Bf16 GemmDispatch::run(const GemmCall &call, const Bf16 &a, const Bf16 &b, const Bf16 &bias, GemmChoice *chosen) const {
    if (call.m < 1 || call.n < 1 || call.k < 1)
        throw Error(fmt::format("a product of {} x {} x {} has no elements", call.m, call.n, call.k));
    demand(a, call.m * call.k, "A");
    demand(b, call.n * call.k, "B");
    demand(bias, call.bias ? call.n : 0, "the bias");
    const std::optional<GemmChoice> choice = choose(call);
    if (!choice)
        throw Error(
            fmt::format("the library for machine {} has no gemm kernel{}{} that sums {} products or more: add one with `atalla "
                        "library build`",
                        library_.machine.name, call.bias ? " with bias" : "", call.relu ? " with relu" : "", call.k));
    Bf16 result(static_cast<size_t>(call.m * call.n));
    GemmChoice done = *choice;
    done.cycles = 0;
    for (int64_t row = 0; row < call.m; row += choice->m) {
        const Bf16 a_part = part(a, call.m, call.k, row, choice->m, choice->k);
        for (int64_t column = 0; column < call.n; column += choice->n) {
            std::vector<Bf16> inputs = {a_part, part(b, call.n, call.k, column, choice->n, choice->k)};
            if (call.bias) inputs.push_back(part(bias, call.n, 1, column, choice->n, 1));
            const LibraryRun run = run_kernel(library_, *choice->kernel, inputs);
            done.cycles += run.cycles;
            for (int64_t r = 0; r < std::min(choice->m, call.m - row); r++)
                std::copy_n(run.outputs.front().begin() + r * choice->n, std::min(choice->n, call.n - column),
                            result.begin() + (row + r) * call.n + column);
        }
    }
    if (chosen) *chosen = done;
    return result;
}

}  // namespace atalla
