#include "model/kernels.h"

#include <fmt/format.h>

#include "autotune/draft.h"
#include "autotune/operator_task.h"
#include "isa/error.h"

namespace atalla {

namespace {

Routine compile_routine(const Operator &op, const Workload &workload, const Machine &machine, const Point &point) {
    const KernelDefinition kernel = workload.build(machine, point);
    codegen::CompileOptions options;
    options.layouts = kernel.layouts;
    options.routine = true;
    codegen::CompiledKernel compiled = codegen::compile(kernel.pipeline, kernel.arguments, machine, options);
    // A branch that reaches too far is found when its packet is encoded.
    for (const PlacedPacket &packet : compiled.program.packets)
        for (const Instruction &slot : packet.packet) encode(slot);
    return {fmt::format("{} {}", op.name(), workload.title()), std::move(compiled.program), compiled.tensors.size()};
}

}  // namespace

size_t KernelSet::add(const Operator &op, const std::shared_ptr<const Workload> &workload) {
    const auto [entry, is_new] = known_.try_emplace(op.name() + " " + workload->text(), kernels_.size());
    if (is_new) {
        try {
            kernels_.push_back(choose(op, workload));
        } catch (...) {
            known_.erase(entry);
            throw;
        }
    }
    return entry->second;
}

ChosenKernel KernelSet::choose(const Operator &op, const std::shared_ptr<const Workload> &workload) const {
    ChosenKernel chosen;
    chosen.bound_cycles = workload->bound(machine_).cycles;
    const TrialKey key = {op.name(), workload->text(), machine_.fingerprint(), compiler_fingerprint()};
    if (options_.database != nullptr) {
        if (const std::optional<StoredTrial> stored = options_.database->winner(key)) {
            chosen.point = stored->trial.point;
            chosen.from = "winner";
            chosen.routine = compile_routine(op, *workload, machine_, chosen.point);
            return chosen;
        }
    }
    const TuningTask task = tuning_task(op, std::make_shared<const Evaluator>(workload, machine_));
    if (options_.tune) {
        const TuneResult result = tune(task, options_.database, options_.how);
        if (result.interrupted) throw Error("interrupted; the same command goes on from here");
        if (result.verified) {
            chosen.point = result.best;
            chosen.from = "tuned";
            chosen.routine = compile_routine(op, *workload, machine_, chosen.point);
            return chosen;
        }
    }
    constexpr uint64_t drafted = 4000, tried = 8;
    std::string failure = "its schedule space has no point";
    for (const PricedPoint &priced : rank_by_draft(task, drafted, tried, 1, 1).points) {
        try {
            chosen.routine = compile_routine(op, *workload, machine_, priced.point);
            chosen.point = priced.point;
            chosen.from = "draft";
            return chosen;
        } catch (const Error &error) {
            failure = error.what();
        }
    }
    try {
        chosen.point = workload->naive_point(machine_);
        chosen.from = "naive";
        chosen.routine = compile_routine(op, *workload, machine_, chosen.point);
        return chosen;
    } catch (const Error &) {
        throw Error(fmt::format("{} {}: no schedule compiles: {}", op.name(), workload->title(), failure));
    }
}

}  // namespace atalla
