#include "generators/kernel_run.h"

namespace atalla {

namespace {

constexpr uint8_t guard = 0xA5;

std::vector<TensorSpec> all_tensors(const KernelDefinition &kernel) {
    std::vector<TensorSpec> tensors = kernel.inputs;
    tensors.insert(tensors.end(), kernel.outputs.begin(), kernel.outputs.end());
    return tensors;
}

std::span<const uint8_t> bytes_of(const TensorData &data) {
    return {reinterpret_cast<const uint8_t *>(data.data()), data.size() * 2};
}

}  // namespace

std::vector<uint64_t> place_tensors(const KernelDefinition &kernel, const Machine &machine) {
    std::vector<uint64_t> bytes;
    for (const TensorSpec &tensor : all_tensors(kernel)) bytes.push_back(static_cast<uint64_t>(tensor.elements()) * 2);
    return place_tensors(bytes, machine);
}

KernelRun run_kernel(const KernelDefinition &kernel, const codegen::CompiledKernel &compiled, const Machine &machine,
                     const std::vector<TensorData> &inputs, const RunOptions &options) {
    const std::vector<uint64_t> addresses = place_tensors(kernel, machine);
    const std::vector<TensorSpec> tensors = all_tensors(kernel);
    Simulator simulator(machine);
    Program program = compiled.program;
    for (size_t i = 0; i < addresses.size(); i++)
        program.data[static_cast<uint32_t>(0x3C + 4 * i)] = static_cast<uint32_t>(addresses[i]);
    simulator.load(program);
    const std::vector<uint8_t> fence(tensor_guard_bytes, guard);
    for (size_t i = 0; i < tensors.size(); i++) {
        const uint64_t bytes = static_cast<uint64_t>(tensors[i].elements()) * 2;
        simulator.write_memory(addresses[i] - tensor_guard_bytes, fence);
        if (i < inputs.size()) simulator.write_memory(addresses[i], bytes_of(inputs[i]));
        simulator.write_memory(addresses[i] + bytes, fence);
    }
    KernelRun run;
    run.result = simulator.run(options);
    if (!run.result.ok) return run;
    std::vector<uint8_t> around(tensor_guard_bytes);
    for (size_t i = 0; i < tensors.size(); i++) {
        const uint64_t bytes = static_cast<uint64_t>(tensors[i].elements()) * 2;
        for (uint64_t address : {addresses[i] - tensor_guard_bytes, addresses[i] + bytes}) {
            simulator.read_memory(address, around);
            run.outside_untouched = run.outside_untouched && around == fence;
        }
        if (i < kernel.inputs.size()) continue;
        TensorData data(static_cast<size_t>(tensors[i].elements()));
        simulator.read_memory(addresses[i], {reinterpret_cast<uint8_t *>(data.data()), data.size() * 2});
        run.outputs.push_back(std::move(data));
    }
    return run;
}

}  // namespace atalla
