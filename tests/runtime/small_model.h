// A loadable made by hand: y = relu(x) + c on the host, with a counter that keeps its value between calls.
#pragma once

#include <cstring>
#include <vector>

#include "isa/machine.h"
#include "isa/machine_parameters.h"
#include "runtime/checksum.h"
#include "runtime/loadable_generated.h"
#include "runtime/model.h"

namespace atalla {

template <class T>
std::unique_ptr<loadable::ConstantT> constant_table(const std::string &name, loadable::DType dtype, std::vector<int64_t> sizes,
                                                    const std::vector<T> &values) {
    auto constant = std::make_unique<loadable::ConstantT>();
    constant->name = name;
    constant->dtype = dtype;
    constant->sizes = std::move(sizes);
    constant->data.resize(values.size() * sizeof(T));
    std::memcpy(constant->data.data(), values.data(), constant->data.size());
    return constant;
}

inline std::unique_ptr<loadable::PortT> port_table(const std::string &name, std::vector<int64_t> sizes) {
    auto port = std::make_unique<loadable::PortT>();
    port->name = name;
    port->dtype = loadable::DType_Float32;
    for (int64_t size : sizes) {
        port->dims.push_back(std::make_unique<loadable::DimT>());
        port->dims.back()->size = size;
    }
    return port;
}

inline std::unique_ptr<loadable::ValueT> value_table(const std::string &name, std::vector<int64_t> sizes, int constant = -1,
                                                     int state = -1) {
    auto value = std::make_unique<loadable::ValueT>();
    value->name = name;
    value->dtype = loadable::DType_Float32;
    value->sizes = std::move(sizes);
    value->constant = constant;
    value->state = state;
    return value;
}

// target(self, other) or target(self), results a value.
inline std::unique_ptr<loadable::StepT> host_step(const std::string &target, std::vector<int64_t> operands, int32_t result) {
    loadable::HostCallT call;
    call.target = target;
    call.results = {result};
    const char *names[] = {"self", "other"};
    for (size_t i = 0; i < operands.size(); i++) {
        auto argument = std::make_unique<loadable::ArgumentT>();
        argument->name = names[i];
        argument->kind = loadable::ArgumentKind_Tensor;
        argument->ints = {operands[i]};
        call.arguments.push_back(std::move(argument));
    }
    auto step = std::make_unique<loadable::StepT>();
    step->node = target;
    step->work.Set(std::move(call));
    return step;
}

// Inputs x[2, 3]; outputs y[2, 3] = relu(x) + c and the number of calls so far.
inline loadable::ModelT small_model() {
    const Machine machine = find_machine("ax01");
    loadable::ModelT model;
    model.major = loadable_major;
    model.minor = loadable_minor;
    model.name = "small";
    model.compiler = "test";
    model.machine = machine.name;
    model.machine_fingerprint = machine.fingerprint();
    for (const ParameterEntry &entry : parameter_table()) {
        model.parameters.push_back(std::make_unique<loadable::ParameterT>());
        model.parameters.back()->key = std::string(entry.key);
        model.parameters.back()->value = entry.get(machine);
    }
    model.inputs.push_back(port_table("x", {2, 3}));
    model.outputs.push_back(port_table("y", {2, 3}));
    model.outputs.push_back(port_table("count", {1}));
    model.constants.push_back(constant_table<float>("c", loadable::DType_Float32, {3}, {10, 20, 30}));
    model.constants.push_back(constant_table<float>("one", loadable::DType_Float32, {1}, {1}));
    model.constants.push_back(constant_table<float>("zero", loadable::DType_Float32, {1}, {0}));
    model.states.push_back(std::make_unique<loadable::StateT>());
    model.states[0]->name = "count";
    model.states[0]->dtype = loadable::DType_Float32;
    model.states[0]->sizes = {1};
    model.states[0]->initial = 2;

    auto s = std::make_unique<loadable::SpecializationT>();
    s->values.push_back(value_table("x", {2, 3}));        // 0
    s->values.push_back(value_table("c", {3}, 0));        // 1
    s->values.push_back(value_table("relu", {2, 3}));     // 2
    s->values.push_back(value_table("y", {2, 3}));        // 3
    s->values.push_back(value_table("old", {1}, -1, 0));  // 4
    s->values.push_back(value_table("one", {1}, 1));      // 5
    s->values.push_back(value_table("count", {1}));       // 6
    s->inputs = {0};
    s->outputs = {3, 6};
    s->steps.push_back(host_step("aten::relu", {0}, 2));
    s->steps.push_back(host_step("aten::add.Tensor", {2, 1}, 3));
    s->steps.push_back(host_step("aten::add.Tensor", {4, 5}, 6));
    s->mutations.push_back(std::make_unique<loadable::MutationT>());
    s->mutations[0]->state = 0;
    s->mutations[0]->value = 6;
    model.specializations.push_back(std::move(s));
    return model;
}

}  // namespace atalla
