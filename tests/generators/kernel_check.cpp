#include "tests/generators/kernel_check.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "generators/host_jit.h"
#include "isa/error.h"
#include "isa/packet_checker.h"
#include "simulator/numerics.h"

namespace atalla {

TensorData random_tensor(const TensorSpec &tensor, std::mt19937 &random, int steps, float step) {
    std::uniform_int_distribution<int> distribution(-steps, steps);
    TensorData data(static_cast<size_t>(tensor.elements()));
    for (uint16_t &half : data) half = bf16_truncate(static_cast<float>(distribution(random)) * step);
    return data;
}

TensorData random_patterns(const TensorSpec &tensor, std::mt19937 &random) {
    static const std::vector<uint16_t> special = {0x0000, 0x8000, 0x0001, 0x8001, 0x007F, 0x0080,
                                                  0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0, 0x3F80};
    TensorData data(static_cast<size_t>(tensor.elements()));
    for (uint16_t &half : data) {
        const uint32_t bits = random();
        half = bits % 8 == 0 ? special[bits / 8 % special.size()] : static_cast<uint16_t>(bits >> 16);
        if ((half & 0x7FFF) > 0x7F80) half |= 0x0040;
    }
    return data;
}

namespace {

// The reference timing model runs every kernel of the tests too, unless it would take long.
void expect_models_agree(const KernelDefinition &kernel, const codegen::CompiledKernel &compiled, const Machine &machine,
                         const std::vector<TensorData> &inputs, const KernelRun &fast, const std::string &what) {
    constexpr uint64_t most_cycles = 200'000;
    if (!machine.timed() || fast.result.counters.cycles > most_cycles) return;
    const KernelRun reference =
        run_kernel(kernel, compiled, machine, inputs, {.model = TimingModel::Reference, .left_behind = left_by_others});
    EXPECT_TRUE(reference.result.ok) << what << " in the reference model: " << reference.result.error;
    EXPECT_EQ(reference.result.counters, fast.result.counters) << what << ": the timing models disagree";
    EXPECT_EQ(reference.outputs, fast.outputs) << what << ": the timing models disagree";
}

}  // namespace

std::vector<TensorData> run_checked(const KernelDefinition &kernel, const Machine &machine, bool optimize,
                                    const std::vector<TensorData> &inputs) {
    const std::string what = fmt::format("{} on {}, optimize {}", kernel.outputs[0].name, machine.name, optimize);
    try {
        codegen::CompileOptions options = kernel.compile_options();
        options.optimize = optimize;
        const codegen::CompiledKernel compiled = codegen::compile(kernel.pipeline, kernel.arguments, machine, options);
        for (const PlacedPacket &packet : compiled.program.packets)
            if (const auto broken = check_packet(packet.packet, machine)) {
                ADD_FAILURE() << what << ": packet at " << packet.address << ": " << *broken;
                return {};
            }
        const KernelRun run = run_kernel(kernel, compiled, machine, inputs, {.left_behind = left_by_others});
        EXPECT_TRUE(run.outside_untouched) << what << " writes outside its tensors";
        if (!run.result.ok) {
            ADD_FAILURE() << what << " is refused by rule " << run.result.rule << ": " << run.result.error;
            return {};
        }
        expect_models_agree(kernel, compiled, machine, inputs, run, what);
        return run.outputs;
    } catch (const Error &error) {
        ADD_FAILURE() << what << ": " << error.what();
        return {};
    }
}

void expect_equal(const KernelDefinition &kernel, const std::vector<TensorData> &actual,
                  const std::vector<TensorData> &expected, const std::string &what) {
    if (actual.empty()) return;  // has been reported
    ASSERT_EQ(actual.size(), expected.size()) << what;
    for (size_t i = 0; i < actual.size(); i++) {
        const size_t differences = count_differences(actual[i], expected[i]);
        if (differences == 0) continue;
        std::string first;
        for (size_t e = 0; e < actual[i].size() && first.empty(); e++)
            if (count_differences({actual[i][e]}, {expected[i][e]}) > 0)
                first = fmt::format("element {} is 0x{:04X}, not 0x{:04X}", e, actual[i][e], expected[i][e]);
        ADD_FAILURE() << what << ": " << differences << " of " << actual[i].size() << " elements of " << kernel.outputs[i].name
                      << " differ, the first: " << first;
    }
}

}  // namespace atalla
