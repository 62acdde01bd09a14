// One user's calls of a model: inputs in, run, outputs out. For one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/model.h"
#include "runtime/user_kernel.h"
#include "simulator/simulator.h"

namespace atalla {

// Kernels that take precedence over the built-in ones, by target. Thread-safe; contexts made later see them.
void register_host_kernel(const std::string &target, UserKernel kernel);

// What the calls of a context did so far, and the last one.
struct ContextCounters {
    uint64_t runs = 0;
    uint64_t programs_loaded = 0;               // grows with new sizes only: a second call with the same ones loads nothing
    Counters last;                              // of the accelerator, all segments of the last run together
    uint64_t device_calls = 0, host_calls = 0;  // of the last run
    uint64_t bytes_to_device = 0, bytes_from_device = 0;  // of the last run, constants not counted
};

// Who computed a step of the host.
enum class HostKernel { Interpreter, Compiled, Registered };

// One step of the last run.
struct StepProfile {
    std::string node, target;  // target "segment" on the accelerator
    bool device = false;
    HostKernel by = HostKernel::Interpreter;  // on the host
    uint64_t cycles = 0;                      // on the accelerator
    double seconds = 0;                       // of the host's clock
};

class Context {
public:
    explicit Context(std::shared_ptr<const Model> model, uint64_t step_limit = RunOptions().step_limit);
    ~Context();

    const Model &model() const { return *model_; }

    // Copies the elements, whatever the strides. Error, naming the input, for another element type or number of dimensions.
    void set_input(size_t index, const HostTensor &tensor);
    // Error if an input is missing or a size fits no specialization, or what a kernel or the simulator refuses.
    void run();
    // That the inputs fit, or are filled up to. Error if an input is missing or a size fits none.
    const Model::Specialization &specialization() const { return model_->specializations()[chosen().specialization]; }
    // Dense, valid until the next run. Error before the first.
    HostTensor output(size_t index) const;

    // Runs the program of the accelerator, which is loaded: Simulator::run, unless somebody looks on.
    using DeviceRun = std::function<RunResult(Simulator &simulator, const RunOptions &options)>;
    DeviceRun set_device_run(DeviceRun run) { return std::exchange(device_run_, std::move(run)); }  // the one before

    // States as they were when the model was compiled.
    void reset_states();
    // Those of a context whose model is the same one, compiled for other sizes. Error if they differ in number, types or sizes.
    void take_states(const Context &other);

    const ContextCounters &counters() const { return counters_; }
    const std::vector<StepProfile> &profile() const { return profile_; }

private:
    struct Slot {
        HostTensor host;
        bool on_host = false, on_device = false;
    };
    // A specialization that has run: a machine with its program and constants, and where every value is.
    struct Prepared {
        const Model::Specialization *specialization = nullptr;
        std::unique_ptr<Simulator> simulator;
        std::vector<Slot> slots;
    };

    Choice chosen() const;
    Prepared &prepare(size_t specialization);
    const HostTensor &on_host(Prepared &prepared, int32_t value);
    void put_on_device(Prepared &prepared, int32_t value);
    void run_host(Prepared &prepared, const Model::Step &step);
    void run_device(Prepared &prepared, const Model::Step &step);
    // By a registered kernel, else by a compiled one, else by the interpreter, as PyTorch does.
    std::vector<HostTensor> compute(Prepared &prepared, const Node &node, const std::vector<ResultType> &types);

    std::shared_ptr<const Model> model_;
    uint64_t step_limit_;
    DeviceRun device_run_ = [](Simulator &simulator, const RunOptions &options) { return simulator.run(options); };
    UserKernels kernels_;  // registered ones
    std::vector<std::optional<HostTensor>> inputs_;
    std::vector<HostTensor> states_, outputs_;
    std::map<size_t, Prepared> prepared_;
    ContextCounters counters_;
    std::vector<StepProfile> profile_;
};

// Sums of all counters.
void add(Counters &to, const Counters &other);

}  // namespace atalla
