// The C interface: checks pointers, turns exceptions into statuses, and leaves the rest to Model and Context.
#include "atalla.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <new>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "isa/error.h"
#include "runtime/context.h"
#include "runtime/describe.h"
#include "runtime/model.h"
#include "runtime/traced_run.h"
#include "runtime/user_kernel.h"

using namespace atalla;

struct atalla_model {
    std::shared_ptr<const Model> model;
    std::string json;
};

struct atalla_context {
    std::unique_ptr<Context> context;
    // What atalla_get_output() pointed at, by output, until the next run.
    mutable std::map<size_t, HostTensor> views;
    std::string json;
    mutable std::atomic_flag busy;  // a call is under way
};

struct atalla_call {
    const UserCall *call = nullptr;
    std::deque<HostTensor> operands;
    std::vector<HostTensor> results;
    std::string failure;
};

namespace {

thread_local std::string last_error;

// A wrong argument of the caller, as opposed to what goes wrong inside.
struct Misuse : Error {
    using Error::Error;
};

template <class Function>
atalla_status guarded(const Function &function) {
    try {
        function();
        return ATALLA_OK;
    } catch (const Misuse &error) {
        last_error = error.what();
        return ATALLA_INVALID_ARGUMENT;
    } catch (const std::bad_alloc &) {
        last_error = "out of memory";
        return ATALLA_OUT_OF_MEMORY;
    } catch (const std::exception &error) {
        last_error = error.what();
        return ATALLA_FAILED;
    } catch (...) {
        last_error = "a host kernel threw something that is no std::exception";
        return ATALLA_FAILED;
    }
}

template <class... Pointers>
void require(const char *function, const Pointers *...pointers) {
    if (((pointers == nullptr) || ...)) throw Misuse(fmt::format("{}: a null pointer", function));
}

// For functions without a status.
bool is_there(const char *function, const void *pointer) {
    return guarded([&] { require(function, static_cast<const char *>(pointer)); }) == ATALLA_OK;
}

// A context that a call has for itself.
class Use {
public:
    Use(const char *function, const atalla_context *context) : busy_(context->busy) {
        if (busy_.test_and_set())
            throw Misuse(
                fmt::format("{}: the context is busy: another thread uses it, or one of its own host kernels asks", function));
    }
    ~Use() { busy_.clear(); }
    Use(const Use &) = delete;
    Use &operator=(const Use &) = delete;

private:
    std::atomic_flag &busy_;
};

HostTensor view_of(const char *function, const atalla_tensor &tensor) {
    if (tensor.rank < 0 || tensor.rank > ATALLA_MAX_RANK)
        throw Misuse(fmt::format("{}: a tensor of rank {}", function, tensor.rank));
    if (tensor.rank > 0) require(function, tensor.sizes);
    HostTensor view;
    try {
        view.dtype = dtype_of_number(tensor.dtype);
    } catch (const Error &) {
        throw Misuse(fmt::format("{}: {} is no element type, see atalla_dtype", function, tensor.dtype));
    }
    view.sizes.assign(tensor.sizes, tensor.sizes + tensor.rank);
    for (int64_t size : view.sizes)
        if (size < 0 || size > int64_t{1} << 40) throw Misuse(fmt::format("{}: a size of {}", function, size));
    constexpr int64_t most_elements = int64_t{1} << 40,
                      farthest = int64_t{1} << 47;  // elements; bytes within the address space
    int64_t lowest = 0, highest = 0, most = 1;
    for (int64_t size : view.sizes) {
        if (size > 0 && most > most_elements / size) throw Misuse(fmt::format("{}: a tensor of too many elements", function));
        most *= std::max<int64_t>(size, 1);
    }
    const int64_t elements = std::ranges::find(view.sizes, 0) == view.sizes.end() ? most : 0;
    view.strides = tensor.strides != nullptr ? std::vector<int64_t>(tensor.strides, tensor.strides + tensor.rank)
                                             : dense_strides(view.sizes);
    if (elements > 0) require(function, static_cast<const char *>(tensor.data));
    const int64_t bytes = element_bytes(view.dtype),
                  before = std::min(farthest, static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor.data)));
    for (size_t d = 0; elements > 0 && d < view.sizes.size(); d++) {
        int64_t reach = 0;
        if (__builtin_mul_overflow(view.sizes[d] - 1, view.strides[d], &reach) || reach > farthest / bytes - highest ||
            reach < -before / bytes - lowest)
            throw Misuse(fmt::format("{}: a stride of {} leads out of the memory", function, view.strides[d]));
        (reach < 0 ? lowest : highest) += reach;
    }
    // The storage starts at the lowest element, which a negative stride puts before `data`.
    view.offset = -lowest;
    view.storage =
        std::make_shared<const Storage>(Storage{nullptr, static_cast<const std::byte *>(tensor.data) + lowest * bytes,
                                                elements > 0 ? (highest - lowest + 1) * bytes : 0});
    return view;
}

void describe_view(const HostTensor &tensor, atalla_tensor *out) {
    *out = {const_cast<std::byte *>(tensor.begin()), static_cast<int32_t>(tensor.dtype),
            static_cast<int32_t>(tensor.sizes.size()), tensor.sizes.data(), tensor.strides.data()};
}

void check_output(const char *function, const atalla_context &context, size_t index) {
    const size_t outputs = context.context->model().table().outputs()->size();
    if (index >= outputs) throw Misuse(fmt::format("{}: there is no output {}, only {}", function, index, outputs));
}

void describe_port(const char *function, const flatbuffers::Vector<flatbuffers::Offset<loadable::Port>> &ports, size_t index,
                   const char **name, int32_t *dtype, int32_t *rank, int64_t *sizes) {
    if (index >= ports.size()) throw Misuse(fmt::format("{}: there is no {}, only {}", function, index, ports.size()));
    const loadable::Port &port = *ports.Get(static_cast<uint32_t>(index));
    if (name != nullptr) *name = port.name()->c_str();
    if (dtype != nullptr) *dtype = static_cast<int32_t>(port.dtype());
    if (rank != nullptr) *rank = static_cast<int32_t>(port.dims()->size());
    if (sizes == nullptr) return;
    for (uint32_t d = 0; d < port.dims()->size() && d < ATALLA_MAX_RANK; d++) {
        const auto *dim = port.dims()->Get(d);
        sizes[d] = dim->expression() != nullptr && dim->expression()->size() != 0 ? -1 : dim->size();
    }
}

atalla_status take_model(const char *function, atalla_model **out, const std::function<std::shared_ptr<const Model>()> &load) {
    return guarded([&] {
        require(function, out);
        *out = nullptr;
        auto handle = std::make_unique<atalla_model>();
        handle->model = load();
        handle->json = describe(*handle->model).dump();
        *out = handle.release();
    });
}

}  // namespace

const char *atalla_last_error(void) { return last_error.c_str(); }
const char *atalla_version(void) { return ATALLA_VERSION; }

atalla_status atalla_model_load(const char *file, atalla_model **model) {
    return take_model("atalla_model_load", model, [&] {
        require("atalla_model_load", file);
        return Model::load(file);
    });
}

atalla_status atalla_model_load_memory(const void *bytes, size_t size, atalla_model **model) {
    return take_model("atalla_model_load_memory", model, [&] {
        require("atalla_model_load_memory", static_cast<const char *>(bytes));
        return Model::from_bytes({static_cast<const uint8_t *>(bytes), size}, "the model in memory");
    });
}

void atalla_model_release(atalla_model *model) { delete model; }

size_t atalla_model_inputs(const atalla_model *model) {
    return is_there("atalla_model_inputs", model) ? model->model->table().inputs()->size() : 0;
}
size_t atalla_model_outputs(const atalla_model *model) {
    return is_there("atalla_model_outputs", model) ? model->model->table().outputs()->size() : 0;
}

atalla_status atalla_model_input(const atalla_model *model, size_t index, const char **name, int32_t *dtype, int32_t *rank,
                                 int64_t *sizes) {
    return guarded([&] {
        require("atalla_model_input", model);
        describe_port("atalla_model_input", *model->model->table().inputs(), index, name, dtype, rank, sizes);
    });
}
atalla_status atalla_model_output(const atalla_model *model, size_t index, const char **name, int32_t *dtype, int32_t *rank,
                                  int64_t *sizes) {
    return guarded([&] {
        require("atalla_model_output", model);
        describe_port("atalla_model_output", *model->model->table().outputs(), index, name, dtype, rank, sizes);
    });
}

const char *atalla_model_json(const atalla_model *model) {
    return is_there("atalla_model_json", model) ? model->json.c_str() : "";
}

atalla_status atalla_context_create(const atalla_model *model, uint64_t step_limit, atalla_context **context) {
    return guarded([&] {
        require("atalla_context_create", model, context);
        *context = nullptr;
        auto handle = std::make_unique<atalla_context>();
        handle->context = std::make_unique<Context>(model->model, step_limit == 0 ? RunOptions().step_limit : step_limit);
        *context = handle.release();
    });
}
void atalla_context_release(atalla_context *context) { delete context; }

atalla_status atalla_set_input(atalla_context *context, size_t index, const atalla_tensor *tensor) {
    return guarded([&] {
        require("atalla_set_input", context, tensor);
        const Use use("atalla_set_input", context);
        const HostTensor view = view_of("atalla_set_input", *tensor);
        try {
            context->context->set_input(index, view);
        } catch (const Error &error) {
            throw Misuse(error.what());
        }
    });
}

atalla_status atalla_run(atalla_context *context) {
    return guarded([&] {
        require("atalla_run", context);
        const Use use("atalla_run", context);
        context->views.clear();
        context->context->run();
    });
}

atalla_status atalla_run_traced(atalla_context *context, const char *file) {
    return guarded([&] {
        require("atalla_run_traced", context, file);
        const Use use("atalla_run_traced", context);
        context->views.clear();
        run_traced(*context->context, file);
    });
}

atalla_status atalla_get_output(const atalla_context *context, size_t index, atalla_tensor *tensor) {
    return guarded([&] {
        require("atalla_get_output", context, tensor);
        const Use use("atalla_get_output", context);
        check_output("atalla_get_output", *context, index);
        describe_view(context->views.try_emplace(index, context->context->output(index)).first->second, tensor);
    });
}

atalla_status atalla_copy_output(const atalla_context *context, size_t index, const atalla_tensor *tensor) {
    return guarded([&] {
        require("atalla_copy_output", context, tensor);
        const Use use("atalla_copy_output", context);
        check_output("atalla_copy_output", *context, index);
        const HostTensor target = view_of("atalla_copy_output", *tensor), output = context->context->output(index);
        if (target.dtype != output.dtype || target.sizes != output.sizes)
            throw Misuse("atalla_copy_output: the tensor has not the element type and sizes of the output");
        const auto bytes = static_cast<size_t>(element_bytes(output.dtype));
        std::vector<int64_t> at(output.sizes.size(), 0);
        for (int64_t i = 0; i < output.elements(); i++) {
            int64_t offset = 0;
            for (size_t d = 0; d < at.size(); d++) offset += at[d] * target.strides[d];
            std::memcpy(static_cast<std::byte *>(tensor->data) + offset * static_cast<int64_t>(bytes),
                        output.begin() + i * static_cast<int64_t>(bytes), bytes);
            for (size_t d = at.size(); d-- > 0;) {
                if (++at[d] < output.sizes[d]) break;
                at[d] = 0;
            }
        }
    });
}

atalla_status atalla_reset_states(atalla_context *context) {
    return guarded([&] {
        require("atalla_reset_states", context);
        const Use use("atalla_reset_states", context);
        context->context->reset_states();
    });
}

atalla_status atalla_take_states(atalla_context *context, const atalla_context *from) {
    return guarded([&] {
        require("atalla_take_states", context, from);
        if (context == from) return;
        const Use use("atalla_take_states", context), other("atalla_take_states", from);
        context->context->take_states(*from->context);
    });
}

atalla_status atalla_get_counters(const atalla_context *context, atalla_counters *counters) {
    return guarded([&] {
        require("atalla_get_counters", context, counters);
        const Use use("atalla_get_counters", context);
        const ContextCounters &c = context->context->counters();
        *counters = {c.runs,         c.programs_loaded, c.last.cycles,     c.last.packets,
                     c.device_calls, c.host_calls,      c.bytes_to_device, c.bytes_from_device};
    });
}

const char *atalla_profile_json(atalla_context *context) {
    const atalla_status status = guarded([&] {
        require("atalla_profile_json", context);
        const Use use("atalla_profile_json", context);
        context->json = describe_run(*context->context).dump();
    });
    return status == ATALLA_OK ? context->json.c_str() : "";
}

atalla_status atalla_register_kernel(const char *target, atalla_kernel kernel, void *user) {
    return guarded([&] {
        require("atalla_register_kernel", target);
        if (kernel == nullptr) throw Misuse("atalla_register_kernel: a null pointer");
        register_host_kernel(target, [name = std::string(target), kernel, user](const UserCall &call) {
            atalla_call handle;
            handle.call = &call;
            for (size_t i = 0; i < call.results(); i++)
                handle.results.push_back(make_tensor(call.result(i).dtype, call.result(i).sizes));
            if (kernel(&handle, user) != ATALLA_OK)
                throw Error(fmt::format("host kernel '{}' failed: {}", name,
                                        handle.failure.empty() ? "it gave no reason" : handle.failure));
            return handle.results;
        });
    });
}

atalla_status atalla_call_operand(const atalla_call *call, const char *name, atalla_tensor *tensor) {
    return guarded([&] {
        require("atalla_call_operand", call, name, tensor);
        auto &operands = const_cast<atalla_call *>(call)->operands;
        operands.push_back(call->call->tensor(name));
        describe_view(operands.back(), tensor);
    });
}
atalla_status atalla_call_integer(const atalla_call *call, const char *name, int64_t *value) {
    return guarded([&] {
        require("atalla_call_integer", call, name, value);
        *value = call->call->node().integer(name);
    });
}
atalla_status atalla_call_number(const atalla_call *call, const char *name, double *value) {
    return guarded([&] {
        require("atalla_call_number", call, name, value);
        *value = call->call->node().number(name);
    });
}
atalla_status atalla_call_result(atalla_call *call, size_t index, atalla_tensor *tensor) {
    return guarded([&] {
        require("atalla_call_result", call, tensor);
        if (index >= call->results.size())
            throw Misuse(fmt::format("atalla_call_result: there is no result {}, only {}", index, call->results.size()));
        describe_view(call->results[index], tensor);
    });
}
size_t atalla_call_results(const atalla_call *call) { return is_there("atalla_call_results", call) ? call->results.size() : 0; }
atalla_status atalla_call_fail(atalla_call *call, const char *sentence) {
    if (call != nullptr && sentence != nullptr) call->failure = sentence;
    return ATALLA_FAILED;
}
