#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "isa/error.h"
#include "runtime/context.h"
#include "runtime/model.h"
#include "simulator/profile/in_sequence.h"
#include "tools/model_tensors.h"
#include "tools/subject.h"

namespace atalla {

namespace {

std::vector<HostTensor> tensors_of(const Model &model, const std::vector<std::string> &given) {
    const Ports &ports = *model.table().inputs();
    const std::vector<std::filesystem::path> files = port_files(given, ports, "input");
    const Model::Specialization &first = model.specializations().front();
    std::vector<HostTensor> tensors;
    for (uint32_t index = 0; index < ports.size(); index++) {
        if (!files[index].empty()) {
            tensors.push_back(read_model_tensor(files[index]));
            continue;
        }
        const auto dtype = static_cast<DType>(ports.Get(index)->dtype());
        HostTensor zeros = make_tensor(dtype, first.sizes_of(first.table->inputs()->Get(index)));
        std::memset(mutable_data(zeros), 0, static_cast<size_t>(zeros.elements() * element_bytes(dtype)));
        tensors.push_back(std::move(zeros));
    }
    return tensors;
}

size_t specialization_for(const Model &model, const std::vector<HostTensor> &tensors) {
    std::vector<std::vector<int64_t>> sizes;
    for (const HostTensor &tensor : tensors) sizes.push_back(tensor.sizes);
    return choose_specialization(model, sizes).specialization;
}

void append(RunResult &all, const RunResult &one) {
    add(all.counters, one.counters);
    all.packet_issues.resize(one.packet_issues.size());
    all.packet_stalls.resize(one.packet_stalls.size());
    for (size_t packet = 0; packet < one.packet_issues.size(); packet++) {
        all.packet_issues[packet] += one.packet_issues[packet];
        for (size_t cause = 0; cause < one.packet_stalls[packet].size(); cause++)
            all.packet_stalls[packet][cause] += one.packet_stalls[packet][cause];
    }
}

// All segments of one call of the model; an observer is told of them one after the other.
RunResult run_segments(const std::shared_ptr<const Model> &model, const std::vector<HostTensor> &inputs,
                       const RunOptions &asked) {
    std::unique_ptr<InSequence> in_sequence;
    if (asked.observer != nullptr) in_sequence = std::make_unique<InSequence>(*asked.observer);
    RunResult all;
    Context context(model, asked.step_limit);
    context.set_device_run([&](Simulator &simulator, RunOptions options) {
        options.per_packet = asked.per_packet;
        options.observer = in_sequence.get();
        const RunResult result = simulator.run(options);
        append(all, result);
        if (in_sequence) in_sequence->next_run(result.counters.cycles);
        return result;
    });
    for (size_t index = 0; index < inputs.size(); index++) context.set_input(index, inputs[index]);
    context.run();
    all.ok = true;
    return all;
}

}  // namespace

Subject subject_of_model(const std::filesystem::path &file, const std::vector<std::string> &inputs) {
    const std::shared_ptr<const Model> model = Model::load(file);
    const std::vector<HostTensor> tensors = tensors_of(*model, inputs);
    const Model::Specialization &specialization = model->specializations()[specialization_for(*model, tensors)];
    if (specialization.program.packets.empty())
        throw Error(
            fmt::format("nothing of '{}' runs on the accelerator: ./atalla inspect {} says why", file.string(), file.string()));
    Subject subject{model->table().name()->str(), model->machine(), specialization.program, {}, {}, {}};
    if (const auto *calls = specialization.table->code()->calls())
        for (const auto *call : *calls) subject.calls.push_back({call->name()->str(), call->begin(), call->end()});
    // Packets that belong to no Func, such as those that wait for transfers, are those of their routine.
    if (const auto *routines = specialization.table->code()->routines())
        for (const auto *routine : *routines) subject.program.symbols.emplace(routine->name()->str(), routine->begin());
    subject.run = [model, tensors](const RunOptions &options) { return run_segments(model, tensors, options); };
    return subject;
}

}  // namespace atalla
