#include "runtime/check.h"

#include <cstdint>
#include <set>
#include <string>

#include <fmt/format.h>

#include "graph_import/dtype.h"
#include "isa/error.h"
#include "isa/machine_parameters.h"
#include "isa/program.h"
#include "runtime/model.h"

namespace atalla {

namespace {

constexpr int64_t largest_tensor = int64_t{1} << 40;  // bytes

template <class Vector>
size_t length(const Vector *vector) {
    return vector == nullptr ? 0 : vector->size();
}

class Checker {
public:
    Checker(const loadable::Model &model, const Machine &machine) : model_(model), machine_(machine) {}

    void run() {
        for (const auto *constant : *model_.constants()) check_constant(*constant);
        if (model_.states() != nullptr)
            for (const auto *state : *model_.states()) {
                const int64_t bytes = bytes_of(state->dtype(), *state->sizes(), state->name()->str());
                index(state->initial(), model_.constants()->size(), "the initial value of a state");
                const auto &initial = *model_.constants()->Get(static_cast<uint32_t>(state->initial()));
                if (initial.dtype() != state->dtype() || static_cast<int64_t>(initial.data()->size()) != bytes)
                    fail(fmt::format("state {} and its initial value differ", state->name()->str()));
            }
        for (const auto *ports : {model_.inputs(), model_.outputs()})
            for (const auto *port : *ports) check_type(port->dtype(), port->name()->str());
        if (model_.specializations()->size() == 0) fail("it has no specialization");
        for (const auto *specialization : *model_.specializations()) check(*specialization);
    }

private:
    [[noreturn]] static void fail(const std::string &what) { throw Error(fmt::format("the loadable is damaged: {}", what)); }
    static void index(int64_t value, size_t count, const char *what, bool may_be_none = false) {
        if (value < (may_be_none ? -1 : 0) || value >= static_cast<int64_t>(count))
            fail(fmt::format("{} is number {} of {}", what, value, count));
    }
    // FlatBuffers' verifier looks at where a vector begins, not at where its elements do.
    template <class T>
    static void check_alignment(const flatbuffers::Vector<T> *vector, size_t alignment, const std::string &name) {
        if (vector != nullptr && vector->size() > 0 && reinterpret_cast<uintptr_t>(vector->Data()) % alignment != 0)
            fail(fmt::format("numbers of {} are not aligned", name));
    }
    static void check_type(loadable::DType type, const std::string &name) {
        switch (type) {
            case loadable::DType_UInt8:
            case loadable::DType_Int8:
            case loadable::DType_Int16:
            case loadable::DType_Int32:
            case loadable::DType_Int64:
            case loadable::DType_Float16:
            case loadable::DType_Float32:
            case loadable::DType_Float64:
            case loadable::DType_Bool:
            case loadable::DType_BFloat16:
                return;
            default:
                fail(fmt::format("{} has element type {}", name, static_cast<int>(type)));
        }
    }
    static int64_t bytes_of(loadable::DType type, const flatbuffers::Vector<int64_t> &sizes, const std::string &name) {
        check_type(type, name);
        int64_t bytes = element_bytes(static_cast<DType>(type));
        check_alignment(&sizes, sizeof(int64_t), name);
        if (sizes.size() > 64) fail(fmt::format("{} has {} dimensions", name, sizes.size()));
        for (int64_t size : sizes) {
            if (size < 0 || size > largest_tensor || (size > 0 && bytes > largest_tensor / size))
                fail(fmt::format("{} has size {}", name, size));
            bytes *= size;
        }
        return bytes;
    }

    static void check_constant(const loadable::Constant &constant) {
        const std::string name = constant.name()->str();
        if (bytes_of(constant.dtype(), *constant.sizes(), name) != static_cast<int64_t>(constant.data()->size()))
            fail(fmt::format("constant {} has {} bytes, which do not fit its sizes", name, constant.data()->size()));
        check_alignment(constant.data(), static_cast<size_t>(element_bytes(static_cast<DType>(constant.dtype()))), name);
    }

    void check_value(const loadable::Value &value, uint64_t memory) const {
        const std::string name = value.name()->str();
        const int64_t bytes = bytes_of(value.dtype(), *value.sizes(), name);
        index(value.constant(), model_.constants()->size(), "a value's constant", true);
        index(value.state(), length(model_.states()), "a value's state", true);
        if (value.constant() >= 0) {
            const auto &constant = *model_.constants()->Get(static_cast<uint32_t>(value.constant()));
            if (constant.sizes()->size() != value.sizes()->size() ||
                !std::equal(constant.sizes()->begin(), constant.sizes()->end(), value.sizes()->begin()))
                fail(fmt::format("{} and its constant have different sizes", name));
        }
        if (value.address() == -1) return;
        const int64_t on_device = bytes / element_bytes(static_cast<DType>(value.dtype())) * 2;
        if (value.address() < 0 || value.address() % 2 != 0 || static_cast<uint64_t>(on_device) > memory ||
            static_cast<uint64_t>(value.address()) > memory - static_cast<uint64_t>(on_device))
            fail(fmt::format("{} at address {} lies outside the device's memory", name, value.address()));
    }

    void check(const loadable::Specialization &s) const {
        if (s.memory_bytes() > static_cast<uint64_t>(machine_.memory.bytes))
            fail(fmt::format("it needs {} bytes of memory, but machine '{}' has {}", s.memory_bytes(), machine_.name,
                             machine_.memory.bytes));
        const size_t values = s.values()->size();
        for (const auto *value : *s.values()) check_value(*value, s.memory_bytes());
        if (s.inputs()->size() != model_.inputs()->size()) fail("a specialization has another number of inputs than the model");
        if (s.outputs()->size() != model_.outputs()->size())
            fail("a specialization has another number of outputs than the model");
        for (const auto *list : {s.inputs(), s.outputs()})
            for (size_t i = 0; i < list->size(); i++) {
                const int32_t v = list->Get(static_cast<uint32_t>(i));
                index(v, values, "an input or output");
                const auto *port = (list == s.inputs() ? model_.inputs() : model_.outputs())->Get(static_cast<uint32_t>(i));
                const auto &value = *s.values()->Get(static_cast<uint32_t>(v));
                if (port->dtype() != value.dtype() || port->dims()->size() != value.sizes()->size())
                    fail(fmt::format("{} has another type in a specialization", port->name()->str()));
            }
        if (s.mutations() != nullptr)
            for (const auto *mutation : *s.mutations()) {
                index(mutation->state(), length(model_.states()), "the state of a mutation");
                index(mutation->value(), values, "the value of a mutation");
                const auto &state = *model_.states()->Get(mutation->state());
                const auto &value = *s.values()->Get(mutation->value());
                if (state.dtype() != value.dtype() ||
                    !std::equal(state.sizes()->begin(), state.sizes()->end(), value.sizes()->begin(), value.sizes()->end()))
                    fail(fmt::format("state {} gets a value of another type", state.name()->str()));
            }
        if (s.code() != nullptr) check_code(*s.code());
        for (const auto *step : *s.steps()) check_step(*step, s);
    }

    static void check_code(const loadable::Code &code) {
        const size_t bytes = code.packets()->size();
        if (bytes % packet_bytes != 0 || bytes == 0) fail(fmt::format("the code has {} bytes, which are no packets", bytes));
        const size_t packets = bytes / packet_bytes;
        if (length(code.sources()) != 0 && length(code.sources()) != packets) fail("the source map is of another code");
        if (code.sources() != nullptr)
            for (int32_t source : *code.sources()) index(source, length(code.places()), "a source", true);
        for (const auto *ranges : {code.routines(), code.calls()})
            if (ranges != nullptr)
                for (const auto *range : *ranges) index(range->routine(), length(code.routines()), "a routine");
    }

    void check_step(const loadable::Step &step, const loadable::Specialization &s) const {
        const size_t values = s.values()->size();
        if (const auto *call = step.work_as_DeviceCall()) {
            if (s.code() == nullptr) fail("a device call without code");
            if (call->entry() % packet_bytes != 0 || call->entry() >= s.code()->packets()->size())
                fail(fmt::format("there is no code at entry {}", call->entry()));
            for (const auto *list : {call->reads(), call->writes()})
                for (int32_t v : *list) {
                    index(v, values, "a value of a device call");
                    if (s.values()->Get(static_cast<uint32_t>(v))->address() < 0)
                        fail("a device call uses a value that has no address");
                }
        } else if (const auto *host = step.work_as_HostCall()) {
            for (int32_t v : *host->results()) index(v, values, "a result", true);
            for (const auto *argument : *host->arguments()) check_argument(*argument, values);
        } else {
            fail("a step of an unknown kind");
        }
    }

    static void check_argument(const loadable::Argument &argument, size_t values) {
        check_alignment(argument.ints(), sizeof(int64_t), argument.name()->str());
        check_alignment(argument.floats(), sizeof(double), argument.name()->str());
        const size_t ints = length(argument.ints()), floats = length(argument.floats());
        const auto one = [&](size_t count) {
            if (count != 1) fail(fmt::format("argument {} has {} values instead of one", argument.name()->str(), count));
        };
        switch (argument.kind()) {
            case loadable::ArgumentKind_Tensor:
                one(ints);
                [[fallthrough]];
            case loadable::ArgumentKind_Tensors:
                for (size_t i = 0; i < ints; i++)
                    index(argument.ints()->Get(static_cast<uint32_t>(i)), values, "an argument", true);
                break;
            case loadable::ArgumentKind_Int:
            case loadable::ArgumentKind_Bool:
                one(ints);
                break;
            case loadable::ArgumentKind_Type:
                one(ints);
                check_type(static_cast<loadable::DType>(argument.ints()->Get(0)), argument.name()->str());
                break;
            case loadable::ArgumentKind_Float:
                one(floats);
                break;
            case loadable::ArgumentKind_String:
                if (argument.text() == nullptr) fail(fmt::format("argument {} has no text", argument.name()->str()));
                break;
            case loadable::ArgumentKind_None:
            case loadable::ArgumentKind_Ints:
            case loadable::ArgumentKind_Floats:
            case loadable::ArgumentKind_Bools:
                break;
            default:
                fail(fmt::format("argument {} is of kind {}", argument.name()->str(), static_cast<int>(argument.kind())));
        }
    }

    const loadable::Model &model_;
    const Machine &machine_;
};

}  // namespace

const loadable::Model *verified_table(std::span<const uint8_t> bytes) {
    constexpr size_t smallest = 16;
    if (bytes.size() < smallest || !loadable::ModelBufferHasIdentifier(bytes.data()))
        throw Error("this is not a loadable: its identifier is missing");
    constexpr size_t deepest = 32, most_tables = 100'000'000;
    flatbuffers::Verifier verifier(bytes.data(), bytes.size(), deepest, most_tables);
    // The version first: another one may have another layout.
    if (!loadable::VerifyModelBuffer(verifier))
        throw Error("the loadable is damaged: its structure does not hold, the file may be truncated");
    const loadable::Model *model = loadable::GetModel(bytes.data());
    if (model->major() != loadable_major)
        throw Error(
            fmt::format("the loadable has format version {}.{}, but this runtime reads version {}; compile the model again",
                        model->major(), model->minor(), loadable_major));
    return model;
}

Machine machine_of(const loadable::Model &model) {
    Machine machine;
    machine.name = model.machine()->str();
    machine.model = model.functional() ? MachineModel::Functional : MachineModel::Hardware;
    std::set<std::string> given;
    for (const auto *parameter : *model.parameters()) {
        const std::string key = parameter->key()->str();
        if (find_parameter(key) == nullptr)
            throw Error(
                fmt::format("the loadable is for a machine with the parameter '{}', which this runtime does not know; use the "
                            "runtime that belongs to its compiler, or compile the model again",
                            key));
        given.insert(key);
        set_parameter(machine, key, parameter->value());
    }
    for (const ParameterEntry &entry : parameter_table())
        if (!given.contains(std::string(entry.key)))
            throw Error(fmt::format(
                "the loadable says nothing of the machine parameter '{}', which came after it; compile the model again",
                entry.key));
    check_machine(machine);
    if (machine.fingerprint() != model.machine_fingerprint()->str())
        throw Error(fmt::format(
            "the loadable is for a machine '{}' with fingerprint {}, but its values have {}; compile the model again",
            machine.name, model.machine_fingerprint()->str(), machine.fingerprint()));
    return machine;
}

void check_contents(const loadable::Model &model, const Machine &machine) { Checker(model, machine).run(); }

}  // namespace atalla
