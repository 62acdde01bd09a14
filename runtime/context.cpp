#include "runtime/context.h"

#include <chrono>
#include <cstring>
#include <mutex>

#include <fmt/format.h>

#include "graph_import/interpret.h"
#include "isa/error.h"
#include "runtime/bf16.h"
#include "runtime/host_kernels.h"
#include "stitch/stitch.h"

namespace atalla {

namespace {

std::mutex registered_mutex;
UserKernels &registered_kernels() {
    static UserKernels kernels;
    return kernels;
}

// The tensor, and behind it in each dimension its first position again: numbers that the model can compute with.
HostTensor filled_up(const HostTensor &tensor, const std::vector<int64_t> &sizes) {
    HostTensor result = tensor;
    for (size_t d = 0; d < sizes.size(); d++) {
        if (result.sizes[d] == sizes[d]) continue;
        std::vector<int64_t> grown = result.sizes;
        grown[d] = sizes[d];
        HostTensor larger = make_tensor(result.dtype, grown);
        const int64_t bytes = element_bytes(result.dtype);
        int64_t row = bytes, rows = 1;
        for (size_t e = d + 1; e < sizes.size(); e++) row *= result.sizes[e];
        for (size_t e = 0; e < d; e++) rows *= result.sizes[e];
        for (int64_t r = 0; r < rows; r++) {
            const std::byte *from = result.begin() + r * result.sizes[d] * row;
            std::byte *to = mutable_data(larger) + r * sizes[d] * row;
            std::memcpy(to, from, static_cast<size_t>(result.sizes[d] * row));
            for (int64_t position = result.sizes[d]; position < sizes[d]; position++)
                std::memcpy(to + position * row, from, static_cast<size_t>(row));
        }
        result = std::move(larger);
    }
    return result;
}

std::span<const uint8_t> bytes_of(const std::vector<uint16_t> &elements) {
    return {reinterpret_cast<const uint8_t *>(elements.data()), elements.size() * 2};
}

}  // namespace

void register_host_kernel(const std::string &target, UserKernel kernel) {
    const std::scoped_lock lock(registered_mutex);
    registered_kernels()[target] = std::move(kernel);
}

void add(Counters &to, const Counters &other) {
    to.cycles += other.cycles;
    to.packets += other.packets;
    to.operations += other.operations;
    for (size_t i = 0; i < to.stalls.size(); i++) to.stalls[i] += other.stalls[i];
    for (size_t i = 0; i < to.unit_operations.size(); i++) to.unit_operations[i] += other.unit_operations[i];
    for (size_t i = 0; i < to.pad_load_bytes.size(); i++) {
        to.pad_load_bytes[i] += other.pad_load_bytes[i];
        to.pad_store_bytes[i] += other.pad_store_bytes[i];
        to.dma_load_bytes[i] += other.dma_load_bytes[i];
        to.dma_store_bytes[i] += other.dma_store_bytes[i];
        to.pad_reads[i] += other.pad_reads[i];
        to.pad_writes[i] += other.pad_writes[i];
    }
    to.dram_beats += other.dram_beats;
    to.dram_busy += other.dram_busy;
    to.array_rows += other.array_rows;
    to.weight_loads += other.weight_loads;
    to.icache_misses += other.icache_misses;
    to.dcache_misses += other.dcache_misses;
    to.branch_mispredicts += other.branch_mispredicts;
}

Context::Context(std::shared_ptr<const Model> model, uint64_t step_limit)
    : model_(std::move(model)), step_limit_(step_limit), inputs_(model_->table().inputs()->size()) {
    {
        const std::scoped_lock lock(registered_mutex);
        kernels_ = registered_kernels();
    }
    reset_states();
}
Context::~Context() = default;

void Context::reset_states() {
    states_.clear();
    if (model_->table().states() != nullptr)
        for (const auto *state : *model_->table().states())
            states_.push_back(model_->constant(static_cast<size_t>(state->initial())));
}

void Context::take_states(const Context &other) {
    const auto same = [](const HostTensor &a, const HostTensor &b) { return a.dtype == b.dtype && a.sizes == b.sizes; };
    if (!std::ranges::equal(states_, other.states_, same))
        throw Error("the states of the two contexts differ in number, types or sizes: they are of different models");
    states_ = other.states_;
}

void Context::set_input(size_t index, const HostTensor &tensor) {
    if (index >= inputs_.size()) throw Error(fmt::format("there is no input {}: the model has {}", index, inputs_.size()));
    const auto &port = *model_->table().inputs()->Get(static_cast<uint32_t>(index));
    if (static_cast<int>(tensor.dtype) != static_cast<int>(port.dtype()))
        throw Error(fmt::format("input '{}' holds {}, but the model takes {}", port.name()->str(), dtype_name(tensor.dtype),
                                dtype_name(static_cast<DType>(port.dtype()))));
    if (tensor.sizes.size() != port.dims()->size())
        throw Error(fmt::format("input '{}' has {} dimensions, but the model takes {}", port.name()->str(), tensor.sizes.size(),
                                port.dims()->size()));
    check_elements(*model_, index, tensor.sizes);
    inputs_[index] = dense_copy(tensor);
}

HostTensor Context::output(size_t index) const {
    if (index >= model_->table().outputs()->size())
        throw Error(fmt::format("there is no output {}: the model has {}", index, model_->table().outputs()->size()));
    if (outputs_.empty()) throw Error("there are no outputs yet: run the model first");
    return outputs_[index];
}

Context::Prepared &Context::prepare(size_t index) {
    const auto found = prepared_.find(index);
    if (found != prepared_.end()) return found->second;
    const Model::Specialization &specialization = model_->specializations()[index];
    Prepared prepared;
    prepared.specialization = &specialization;
    prepared.slots.resize(specialization.table->values()->size());
    if (!specialization.program.packets.empty()) {
        prepared.simulator = std::make_unique<Simulator>(model_->machine());
        prepared.simulator->load(specialization.program);
        counters_.programs_loaded++;
    }
    for (size_t v = 0; v < prepared.slots.size(); v++) {
        const auto &value = *specialization.table->values()->Get(static_cast<uint32_t>(v));
        if (value.constant() < 0) continue;
        prepared.slots[v].host = model_->constant(static_cast<size_t>(value.constant()));
        prepared.slots[v].on_host = true;
        if (value.address() >= 0 && prepared.simulator) {
            prepared.simulator->write_memory(static_cast<uint64_t>(value.address()),
                                             bytes_of(bf16_elements(prepared.slots[v].host)));
            prepared.slots[v].on_device = true;
        }
    }
    return prepared_.emplace(index, std::move(prepared)).first->second;
}

const HostTensor &Context::on_host(Prepared &prepared, int32_t value) {
    Slot &slot = prepared.slots[static_cast<size_t>(value)];
    const auto &table = *prepared.specialization->table->values()->Get(static_cast<uint32_t>(value));
    if (slot.on_host) return slot.host;
    if (!slot.on_device) throw Error(fmt::format("value '{}' is used before it is computed", table.name()->str()));
    const std::vector<int64_t> sizes = prepared.specialization->sizes_of(value);
    const ResultType type{prepared.specialization->dtype_of(value), sizes};
    std::vector<uint16_t> elements(static_cast<size_t>(type.elements()));
    prepared.simulator->read_memory(static_cast<uint64_t>(table.address()),
                                    {reinterpret_cast<uint8_t *>(elements.data()), elements.size() * 2});
    slot.host = tensor_of_bf16(type.dtype, sizes, elements);
    slot.on_host = true;
    counters_.bytes_from_device += elements.size() * 2;
    return slot.host;
}

void Context::put_on_device(Prepared &prepared, int32_t value) {
    Slot &slot = prepared.slots[static_cast<size_t>(value)];
    if (slot.on_device) return;
    const std::vector<uint16_t> elements = bf16_elements(on_host(prepared, value));
    prepared.simulator->write_memory(
        static_cast<uint64_t>(prepared.specialization->table->values()->Get(static_cast<uint32_t>(value))->address()),
        bytes_of(elements));
    slot.on_device = true;
    counters_.bytes_to_device += elements.size() * 2;
}

std::vector<HostTensor> Context::compute(Prepared &prepared, const Node &node, const std::vector<ResultType> &types) {
    const auto operand = [&](ValueId id) -> const HostTensor & { return on_host(prepared, id.index); };
    if (const auto found = kernels_.find(node.target); found != kernels_.end()) {
        profile_.back().by = HostKernel::Registered;
        std::vector<HostTensor> results = found->second(UserCall(node, operand, types));
        if (results.size() < types.size())
            throw Error(
                fmt::format("host kernel '{}' gave {} results instead of {}", node.target, results.size(), types.size()));
        for (size_t i = 0; i < types.size(); i++)
            if (node.outputs[i] && (results[i].dtype != types[i].dtype || results[i].sizes != types[i].sizes))
                throw Error(fmt::format("host kernel '{}' gave result {} with another type or other sizes than the model says",
                                        node.target, i));
        return results;
    }
    if (std::optional<std::vector<HostTensor>> results = run_host_kernel(node, operand, types)) {
        profile_.back().by = HostKernel::Compiled;
        return *std::move(results);
    }
    if (!can_interpret(node.target))
        throw Error(fmt::format("there is no host kernel '{}': register one before the context is created", node.target));
    return interpret_node(prepared.specialization->values, node, operand);
}

void Context::run_host(Prepared &prepared, const Model::Step &step) {
    const Node &node = step.host->node;
    std::vector<ResultType> types;
    for (ValueId id : node.outputs)
        types.push_back(
            id ? ResultType{prepared.specialization->dtype_of(id.index), prepared.specialization->sizes_of(id.index)}
               : ResultType{});
    std::vector<HostTensor> results = compute(prepared, node, types);
    for (size_t i = 0; i < node.outputs.size(); i++)
        if (node.outputs[i]) prepared.slots[static_cast<size_t>(node.outputs[i].index)] = {std::move(results[i]), true, false};
    counters_.host_calls++;
}

void Context::run_device(Prepared &prepared, const Model::Step &step) {
    const Model::DeviceWork &work = *step.device;
    for (int32_t v : work.reads) put_on_device(prepared, v);
    prepared.simulator->write_memory(segment_word, {reinterpret_cast<const uint8_t *>(&work.entry), sizeof work.entry});
    RunOptions options;
    options.step_limit = step_limit_;
    const RunResult result = device_run_(*prepared.simulator, options);
    if (!result.ok) throw Error(fmt::format("the program was refused: {}", result.error));
    add(counters_.last, result.counters);
    profile_.back().cycles = result.counters.cycles;
    for (int32_t v : work.writes) {
        prepared.slots[static_cast<size_t>(v)].on_device = true;
        prepared.slots[static_cast<size_t>(v)].on_host = false;
    }
    counters_.device_calls++;
}

Choice Context::chosen() const {
    std::vector<std::vector<int64_t>> sizes;
    for (size_t i = 0; i < inputs_.size(); i++) {
        if (!inputs_[i])
            throw Error(
                fmt::format("input '{}' is not set", model_->table().inputs()->Get(static_cast<uint32_t>(i))->name()->str()));
        sizes.push_back(inputs_[i]->sizes);
    }
    return choose_specialization(*model_, sizes);
}

void Context::run() {
    const Choice choice = chosen();
    Prepared &prepared = prepare(choice.specialization);
    const loadable::Specialization &table = *prepared.specialization->table;
    counters_.last = {};
    counters_.device_calls = counters_.host_calls = counters_.bytes_to_device = counters_.bytes_from_device = 0;
    profile_.clear();
    outputs_.clear();
    for (size_t v = 0; v < prepared.slots.size(); v++) {
        const auto &value = *table.values()->Get(static_cast<uint32_t>(v));
        if (value.constant() >= 0) continue;
        prepared.slots[v] = {};
        if (value.state() >= 0) prepared.slots[v] = {states_[static_cast<size_t>(value.state())], true, false};
    }
    for (size_t i = 0; i < inputs_.size(); i++) {
        const int32_t value = table.inputs()->Get(static_cast<uint32_t>(i));
        prepared.slots[static_cast<size_t>(value)] = {filled_up(*inputs_[i], prepared.specialization->sizes_of(value)), true,
                                                      false};
    }
    for (const Model::Step &step : prepared.specialization->steps) {
        const auto start = std::chrono::steady_clock::now();
        profile_.push_back(
            {step.node, step.host ? step.host->node.target : "segment", step.device != nullptr, HostKernel::Interpreter, 0, 0});
        if (step.host)
            run_host(prepared, step);
        else
            run_device(prepared, step);
        profile_.back().seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    std::vector<HostTensor> outputs;
    for (uint32_t o = 0; o < table.outputs()->size(); o++) {
        HostTensor whole = on_host(prepared, table.outputs()->Get(o));
        whole.sizes = sizes_in_call(*model_->table().outputs()->Get(o), whole.sizes, choice.filled);
        outputs.push_back(dense_copy(whole));
    }
    if (table.mutations() != nullptr) {
        // All are read before any is written: one may be another's state.
        std::vector<HostTensor> written;
        for (const auto *mutation : *table.mutations())
            written.push_back(dense_copy(on_host(prepared, static_cast<int32_t>(mutation->value()))));
        for (uint32_t m = 0; m < table.mutations()->size(); m++)
            states_[table.mutations()->Get(m)->state()] = std::move(written[m]);
    }
    outputs_ = std::move(outputs);
    counters_.runs++;
}

}  // namespace atalla
