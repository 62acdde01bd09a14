#include "generators/kernel_run.h"

#include <fmt/format.h>

#include "isa/error.h"

namespace atalla {

namespace {

constexpr uint64_t first_address = 0x1000, alignment = 0x800, guard_bytes = 64, few_pages = 8;
constexpr uint8_t guard = 0xA5;

std::vector<TensorSpec> all_tensors(const KernelDefinition &kernel) {
    std::vector<TensorSpec> tensors = kernel.inputs;
    tensors.insert(tensors.end(), kernel.outputs.begin(), kernel.outputs.end());
    return tensors;
}

std::span<const uint8_t> bytes_of(const TensorData &data) { return {reinterpret_cast<const uint8_t *>(data.data()), data.size() * 2}; }

uint64_t rounded_up(uint64_t at, uint64_t to) { return (at + to - 1) / to * to; }

}  // namespace

// Neighbouring pages of the DRAM are in different bank groups, which take turns at twice the rate of one. Transfers of a tensor of few
// pages are all under way together: both groups have work from its first row to its last.
uint64_t tensor_start(uint64_t at, uint64_t bytes, const Machine &machine) {
    const auto page = static_cast<uint64_t>(machine.timed() ? machine.dram.row_bytes : 0);
    if (page < 2 * alignment || bytes < page || bytes > few_pages * page) return rounded_up(at, alignment);
    return rounded_up(at + page / 2, page) - page / 2;
}

std::vector<uint64_t> place_tensors(const KernelDefinition &kernel, const Machine &machine) {
    std::vector<uint64_t> addresses;
    uint64_t at = first_address;
    for (const TensorSpec &tensor : all_tensors(kernel)) {
        const uint64_t bytes = static_cast<uint64_t>(tensor.elements()) * 2;
        addresses.push_back(tensor_start(at, bytes, machine));
        at = addresses.back() + bytes + 2 * guard_bytes;
    }
    if (at > static_cast<uint64_t>(machine.memory.bytes))
        throw Error(fmt::format("the tensors need {} bytes, but machine '{}' has {} bytes of memory", at, machine.name, machine.memory.bytes));
    return addresses;
}

KernelRun run_kernel(const KernelDefinition &kernel, const codegen::CompiledKernel &compiled, const Machine &machine,
                     const std::vector<TensorData> &inputs, const RunOptions &options) {
    const std::vector<uint64_t> addresses = place_tensors(kernel, machine);
    const std::vector<TensorSpec> tensors = all_tensors(kernel);
    Simulator simulator(machine);
    Program program = compiled.program;
    for (size_t i = 0; i < addresses.size(); i++) program.data[static_cast<uint32_t>(0x3C + 4 * i)] = static_cast<uint32_t>(addresses[i]);
    simulator.load(program);
    const std::vector<uint8_t> fence(guard_bytes, guard);
    for (size_t i = 0; i < tensors.size(); i++) {
        const uint64_t bytes = static_cast<uint64_t>(tensors[i].elements()) * 2;
        simulator.write_memory(addresses[i] - guard_bytes, fence);
        if (i < inputs.size()) simulator.write_memory(addresses[i], bytes_of(inputs[i]));
        simulator.write_memory(addresses[i] + bytes, fence);
    }
    KernelRun run;
    run.result = simulator.run(options);
    if (!run.result.ok) return run;
    std::vector<uint8_t> around(guard_bytes);
    for (size_t i = 0; i < tensors.size(); i++) {
        const uint64_t bytes = static_cast<uint64_t>(tensors[i].elements()) * 2;
        for (uint64_t address : {addresses[i] - guard_bytes, addresses[i] + bytes}) {
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
