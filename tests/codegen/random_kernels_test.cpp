// Random kernels: element-wise expressions in stages that live in registers or pads, at random sizes and tiles. Each program
// keeps the packet contract, is not refused, and gives the host's answer bit for bit, optimized or not.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <random>

#include "generators/host_jit.h"
#include "generators/vocabulary.h"
#include "isa/machine.h"
#include "tests/generators/kernel_check.h"
#include "tests/generators/pipelines.h"

namespace atalla {
namespace {

using namespace Halide;
using namespace vocabulary;

class RandomKernel {
public:
    explicit RandomKernel(uint32_t seed) : random_(seed) {}

    KernelDefinition make() {
        const int cols = one_of({1, 20, 32, 33, 64, 70}), rows = 1 + below(9), step = 1 + below(std::min(rows, 4)),
                  padded = (cols + 31) / 32 * 32;
        const int inputs = 1 + below(2);
        const bool ring = rows > step && below(3) == 0;
        std::vector<ImageParam> tensors;
        std::vector<Func> loaded;
        for (int i = 0; i < inputs; i++) {
            tensors.push_back(tensor(fmt::format("X{}in", i), {cols, rows}));
            Func rows_of(fmt::format("rows{}of", i));
            rows_of(n, m) =
                cols % 32 == 0 ? Expr(tensors[i](n, m)) : select(n < cols, tensors[i](min(n, cols - 1), m), undef<BFloat>());
            loaded.push_back(rows_of);
            values_.push_back(rows_of);
        }
        std::vector<Func> stages;
        const int count = 1 + below(3);
        for (int s = 0; s < count; s++) {
            Func stage(fmt::format("stage{}of", s));
            stage(n, m) = expression(1 + below(3));
            stages.push_back(stage);
            values_.push_back(stage);
        }
        Func out("Y");
        out(n, m) = stages.back()(n, m);
        out.bound(n, 0, cols).bound(m, 0, rows).split(m, mo, mi, step, TailStrategy::ShiftInwards);
        for (Func f : loaded) {
            f.compute_at(out, mo).bound_extent(n, padded);
            if (ring) f.hoist_storage_root().ring_buffer(2);
            in_pads({f});
        }
        for (Func f : stages) {
            const bool last = f.name() == stages.back().name();
            const bool in_register = !last && below(2) == 0;
            if (in_register) {
                f.compute_at(stages.back(), n).vectorize(n, 32);
                in_registers({f});
            } else {
                f.compute_at(out, mo).bound_extent(n, padded).vectorize(n, 32);
                in_pads({f});
            }
            if (last && ring) f.hoist_storage_root().ring_buffer(2);
        }
        whole_loops(out);
        fix_shape(out.output_buffer(), {cols, rows});
        KernelDefinition kernel;
        kernel.pipeline = Pipeline(out);
        for (const ImageParam &t : tensors) {
            kernel.arguments.push_back(t);
            kernel.inputs.push_back({t.name(), {cols, rows}});
        }
        kernel.outputs = {{"Y", {cols, rows}}};
        return kernel;
    }

private:
    int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
    int one_of(std::initializer_list<int> values) { return *(values.begin() + below(static_cast<int>(values.size()))); }

    Expr constant() {
        static const float values[] = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 3.0f, -0.3125f, 100.0f};
        return bf16(values[below(8)]);
    }
    Expr expression(int depth) {
        if (depth == 0)
            return below(4) == 0 ? constant() : values_[static_cast<size_t>(below(static_cast<int>(values_.size())))](n, m);
        const Expr a = expression(depth - 1), b = expression(depth - 1);
        switch (below(9)) {
            case 0:
                return strict_float(a + b);
            case 1:
                return strict_float(a - b);
            case 2:
                return strict_float(a * b);
            case 3:
                return strict_float(min(a, b));
            case 4:
                return strict_float(max(a, b));
            case 5:
                return select(strict_float(a < b), a, expression(depth - 1));
            case 6:
                return select(strict_float(a <= b) || strict_float(b == bf16(1.0f)), b, a);
            case 7:
                return strict_float(a / bf16(8.0f));
            default:
                return machine_exp(strict_float(a * bf16(0.25f)));
        }
    }

    std::mt19937 random_;
    std::vector<Func> values_;
    Var n{"n"}, m{"m"}, mo{"mo"}, mi{"mi"};
};

TEST(RandomKernels, EqualTheHost) {
    constexpr int kernels = 40;
    const std::vector<Machine> machines = {find_machine("ax01"), find_machine("ax01-psum"), find_machine("fsim")};
    for (uint32_t seed = 0; seed < kernels; seed++) {
        SCOPED_TRACE(fmt::format("kernel {}", seed));
        const KernelDefinition kernel = RandomKernel(seed).make();
        std::mt19937 random(seed);
        std::vector<TensorData> inputs;
        for (const TensorSpec &tensor : kernel.inputs) inputs.push_back(random_patterns(tensor, random));
        const std::vector<TensorData> expected = run_on_host(kernel, inputs);
        const Machine &machine = machines[seed % machines.size()];
        for (bool optimize : {false, true})
            expect_equal(kernel, run_checked(kernel, machine, optimize, inputs), expected,
                         fmt::format("{}, optimize {}", machine.name, optimize));
    }
}

}  // namespace
}  // namespace atalla
