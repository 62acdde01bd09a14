#include "generators/host_jit.h"

#include <cstring>
#include <utility>

#include <Halide.h>

#include "isa/error.h"
#include "simulator/numerics.h"

namespace atalla {

namespace {

using Buffer = Halide::Buffer<>;

// The oldest x86-64 has no fused multiply-add and no bf16 instructions of its own, so the answer is the same everywhere.
Halide::Target host_target() {
    Halide::Target target = Halide::get_host_target();
    if (target.arch == Halide::Target::X86)
        target = Halide::Target(target.os, Halide::Target::X86, 64, {Halide::Target::SSE41});
    // Without strict floats LLVM adds in another order, in which other sums overflow.
    return target.with_feature(Halide::Target::NoAsserts).with_feature(Halide::Target::StrictFloat);
}

// Warnings about idioms that are used on purpose are for nobody.
class QuietReporter : public Halide::CompileTimeErrorReporter {
public:
    void warning(const char *) override {}
    void error(const char *message) override { throw Error(std::string("Halide refuses the pipeline: ") + message); }
};

constexpr size_t most_buffers = 8;

template <size_t... index>
int call_with(Halide::Callable &callable, std::vector<Buffer> &buffers, std::index_sequence<index...>) {
    return callable(buffers[index]...);
}

template <size_t count = 1>
int call(Halide::Callable &callable, std::vector<Buffer> &buffers) {
    if (buffers.size() == count) return call_with(callable, buffers, std::make_index_sequence<count>());
    if constexpr (count < most_buffers) return call<count + 1>(callable, buffers);
    throw Error("the host runs pipelines of at most 8 tensors");
}

Buffer make_buffer(const TensorSpec &tensor) {
    return Buffer(Halide::BFloat(16), std::vector<int>(tensor.extents.begin(), tensor.extents.end()), tensor.name);
}

}  // namespace

void silence_halide() {
    static QuietReporter reporter;
    Halide::set_custom_compile_time_error_reporter(&reporter);
}

std::vector<TensorData> run_on_host(const KernelDefinition &kernel, const std::vector<TensorData> &inputs) {
    silence_halide();
    Halide::Pipeline pipeline = kernel.pipeline;
    pipeline.set_jit_externs({{"atalla_exp", Halide::JITExtern(atalla_exp)},
                              {"atalla_rcp", Halide::JITExtern(atalla_rcp)},
                              {"atalla_sqrt", Halide::JITExtern(atalla_sqrt)}});
    Halide::Callable callable = pipeline.compile_to_callable(kernel.arguments, host_target());
    std::vector<Buffer> buffers;
    for (size_t i = 0; i < kernel.inputs.size(); i++) {
        buffers.push_back(make_buffer(kernel.inputs[i]));
        std::memcpy(buffers.back().data(), inputs[i].data(), inputs[i].size() * sizeof(uint16_t));
    }
    for (const TensorSpec &tensor : kernel.outputs) buffers.push_back(make_buffer(tensor));
    if (call(callable, buffers) != 0) throw Error("the pipeline fails on the host");
    std::vector<TensorData> outputs;
    for (size_t i = 0; i < kernel.outputs.size(); i++) {
        outputs.emplace_back(static_cast<size_t>(kernel.outputs[i].elements()));
        std::memcpy(outputs.back().data(), buffers[kernel.inputs.size() + i].data(), outputs.back().size() * sizeof(uint16_t));
    }
    return outputs;
}

size_t count_differences(const TensorData &a, const TensorData &b) {
    if (a.size() != b.size()) return std::max(a.size(), b.size());
    const auto is_nan = [](uint16_t half) { return is_nan_bits(uint32_t{half} << 16); };
    size_t differences = 0;
    for (size_t i = 0; i < a.size(); i++) differences += a[i] != b[i] && !(is_nan(a[i]) && is_nan(b[i]));
    return differences;
}

}  // namespace atalla
