#include "tools/loadable_view.h"

#include <algorithm>
#include <set>

#include "runtime/context.h"
#include "runtime/describe.h"

namespace atalla {

namespace {

using Json = nlohmann::ordered_json;

// Values that a step uses or makes.
std::vector<int32_t> touched(const loadable::Step &step) {
    std::vector<int32_t> values;
    if (const auto *device = step.work_as_DeviceCall()) {
        values.assign(device->reads()->begin(), device->reads()->end());
        values.insert(values.end(), device->writes()->begin(), device->writes()->end());
        return values;
    }
    const auto *host = step.work_as_HostCall();
    values.assign(host->results()->begin(), host->results()->end());
    for (const auto *argument : *host->arguments()) {
        const bool tensors =
            argument->kind() == loadable::ArgumentKind_Tensor || argument->kind() == loadable::ArgumentKind_Tensors;
        if (!tensors || argument->ints() == nullptr) continue;
        for (int64_t value : *argument->ints()) values.push_back(static_cast<int32_t>(value));
    }
    return values;
}

// Each value of the device's memory with its place and the steps between which it is needed.
Json memory_json(const Model::Specialization &specialization) {
    const loadable::Specialization &table = *specialization.table;
    const auto last_step = static_cast<int64_t>(table.steps()->size()) - 1;
    std::vector<std::pair<int64_t, int64_t>> life(table.values()->size(), {last_step + 1, -1});
    for (int64_t step = 0; step <= last_step; step++) {
        for (int32_t value : touched(*table.steps()->Get(static_cast<uint32_t>(step)))) {
            if (value < 0) continue;
            auto &[first, last] = life[static_cast<size_t>(value)];
            first = std::min(first, step);
            last = std::max(last, step);
        }
    }
    const std::set<int32_t> inputs(table.inputs()->begin(), table.inputs()->end()),
        outputs(table.outputs()->begin(), table.outputs()->end());
    Json memory = Json::array();
    for (uint32_t index = 0; index < table.values()->size(); index++) {
        const loadable::Value &value = *table.values()->Get(index);
        if (value.address() < 0) continue;
        const auto number = static_cast<int32_t>(index);
        int64_t bytes = 2;  // whatever the device holds is bf16
        for (int64_t size : specialization.sizes_of(number)) bytes *= size;
        auto [first, last] = life[index];
        const bool constant = value.constant() >= 0, state = value.state() >= 0;
        if (constant || state || first > last) {
            first = 0;
            last = last_step;
        }
        if (inputs.contains(number)) first = 0;
        if (outputs.contains(number)) last = last_step;
        const char *kind = constant                   ? "constant"
                           : state                    ? "state"
                           : inputs.contains(number)  ? "input"
                           : outputs.contains(number) ? "output"
                                                      : "computed";
        memory.push_back({{"name", value.name()->str()},
                          {"kind", kind},
                          {"address", value.address()},
                          {"bytes", bytes},
                          {"first", first},
                          {"last", last}});
    }
    return memory;
}

// The steps, those of the accelerator with the kernels that they call.
Json steps_json(const Model::Specialization &specialization) {
    const loadable::Specialization &table = *specialization.table;
    std::vector<uint32_t> entries;
    for (const auto *step : *table.steps())
        if (const auto *device = step->work_as_DeviceCall()) entries.push_back(device->entry());
    std::sort(entries.begin(), entries.end());
    Json steps = Json::array();
    for (const auto *step : *table.steps()) {
        Json row = {{"node", step->node() == nullptr ? "" : step->node()->str()}, {"kernels", Json::array()}};
        if (const auto *device = step->work_as_DeviceCall()) {
            row["on"] = "accelerator";
            const auto next = std::upper_bound(entries.begin(), entries.end(), device->entry());
            for (const auto *call : *table.code()->calls()) {
                if (call->begin() < device->entry() || (next != entries.end() && call->begin() >= *next)) continue;
                row["kernels"].push_back(
                    {{"node", call->name()->str()}, {"kernel", table.code()->routines()->Get(call->routine())->name()->str()}});
            }
        } else {
            row["on"] = "host";
            row["target"] = step->work_as_HostCall()->target()->str();
        }
        steps.push_back(std::move(row));
    }
    return steps;
}

void run_once(const std::shared_ptr<const Model> &model, const Model::Specialization &specialization, Json &view) {
    try {
        Context context(model);
        size_t index = 0;
        for (int32_t value : *specialization.table->inputs())
            context.set_input(index++, make_tensor(specialization.dtype_of(value), specialization.sizes_of(value)));
        context.run();
        view["cycles"] = context.counters().last.cycles;
        view["stalls"] = describe_run(context).at("counters").at("stalls");
        view["packets"] = context.counters().last.packets;
        for (size_t step = 0; step < context.profile().size() && step < view["steps"].size(); step++)
            view["steps"][step]["cycles"] = context.profile()[step].cycles;
    } catch (const std::exception &error) {
        view["problem"] = error.what();
    }
}

}  // namespace

nlohmann::ordered_json loadable_view(const std::filesystem::path &file) {
    const std::shared_ptr<const Model> model = Model::load(file);
    const Json description = describe(*model);
    const Model::Specialization &specialization = model->specializations().front();
    const loadable::Specialization &table = *specialization.table;
    Json view = {{"name", description.at("name")},
                 {"machine", description.at("machine")},
                 {"machine_fingerprint", description.at("machine_fingerprint")},
                 {"compiler", description.at("compiler")},
                 {"inputs", description.at("inputs")},
                 {"outputs", description.at("outputs")},
                 {"sizes", description.at("specializations").at(0).at("inputs")},
                 {"operators", description.at("operators")},
                 {"specializations", model->specializations().size()},
                 {"cycles", nullptr},
                 {"problem", ""}};
    view["steps"] = steps_json(specialization);
    view["memory"] = memory_json(specialization);
    view["memory_bytes"] = table.memory_bytes();
    view["arena_bytes"] = table.arena_bytes();
    view["arena_bound"] = table.arena_bound();
    run_once(model, specialization, view);
    return view;
}

}  // namespace atalla
