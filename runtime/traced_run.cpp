#include "runtime/traced_run.h"

#include <fmt/format.h>

#include "isa/error.h"
#include "simulator/profile/in_sequence.h"
#include "simulator/profile/perfetto.h"

namespace atalla {

namespace {

// The context tells an observer of its runs for as long as this lives.
class Watched {
public:
    Watched(Context &context, timing::Observer &observer) : context_(context), in_sequence_(observer) {
        before_ = context.set_device_run([this](Simulator &simulator, RunOptions options) {
            options.observer = &in_sequence_;
            RunResult result = simulator.run(options);
            in_sequence_.next_run(result.counters.cycles);
            return result;
        });
    }
    ~Watched() { context_.set_device_run(std::move(before_)); }

private:
    Context &context_;
    InSequence in_sequence_;
    Context::DeviceRun before_;
};

}  // namespace

void run_traced(Context &context, const std::filesystem::path &file) {
    const Model &model = context.model();
    if (!model.machine().timed())
        throw Error(fmt::format("machine '{}' has no timing, so there is nothing to trace", model.machine().name));
    const Model::Specialization &specialization = context.specialization();
    if (specialization.program.packets.empty())
        throw Error("nothing of the model runs on the accelerator, so there is nothing to trace");
    Recorder recorder(model.machine(), {});
    {
        const Watched watched(context, recorder);
        context.run();
    }
    write_perfetto(recorder.take(), specialization.program,
                   fmt::format("{} on {}", model.table().name()->str(), model.machine().name), file);
}

}  // namespace atalla
