#include "model/kernels.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "autotune/draft.h"
#include "autotune/operator_task.h"
#include "generators/kernel_run.h"
#include "generators/lowered_cache.h"
#include "isa/error.h"
#include "simulator/simulator.h"

namespace atalla {

namespace {

constexpr uint32_t first_parameter = 0x100;  // the address of parameter words

// `lowered`: of this workload.
Routine compile_routine(const Operator &op, const Workload &workload, const Machine &machine, const Point &point,
                        LoweredCache &lowered) {
    const KernelDefinition kernel = kernel_of(workload, machine, point);
    codegen::CompileOptions options = kernel.compile_options();
    options.routine = true;
    codegen::CompiledKernel compiled = codegen::generate(lowered.lower(point, kernel), machine, options);
    // A branch that reaches too far is found when its packet is encoded.
    for (const PlacedPacket &packet : compiled.program.packets)
        for (const Instruction &slot : packet.packet) encode(slot);
    return {fmt::format("{} {}", op.name(), workload.title()), std::move(compiled.program), compiled.tensors.size()};
}

Routine compile_routine(const Operator &op, const Workload &workload, const Machine &machine, const Point &point) {
    LoweredCache lowered(workload.placing_parameters());
    return compile_routine(op, workload, machine, point, lowered);
}

// Error for a run that takes `limit` or more (0: no limit).
int64_t simulated_cycles(const StitchPlan &plan, const Machine &machine, int64_t limit = 0) {
    const Program program = stitch(plan).program;
    Simulator simulator(machine);
    simulator.load(program);
    RunOptions options;
    if (machine.timed() && may_skip_lanes(program)) options.lanes = LaneValues::Skipped;
    if (limit > 0) (machine.timed() ? options.cycle_limit : options.step_limit) = static_cast<uint64_t>(limit);
    const RunResult result = simulator.run(options);
    if (!result.ok) throw Error(fmt::format("{}: {}", plan.routines.front().name, result.error));
    return static_cast<int64_t>(machine.timed() ? result.counters.cycles : result.counters.packets);
}

int64_t cycles_alone(const Routine &routine, const Workload &workload, const Machine &machine, int64_t limit = 0) {
    KernelCall call{0, {}, routine.name};
    uint64_t at = 2 * first_parameter;
    for (const std::vector<TensorSpec> &tensors : {workload.inputs(), workload.outputs()})
        for (const TensorSpec &tensor : tensors) {
            const auto bytes = static_cast<uint64_t>(2 * tensor.elements());
            call.addresses.push_back(static_cast<uint32_t>(tensor_start(at, bytes, machine)));
            at = call.addresses.back() + bytes;
        }
    return simulated_cycles({{routine}, {{{std::move(call)}}}, first_parameter}, machine, limit);
}

// What every program of the workload gives: the unoptimized one says, or the host where that is sooner done. (The host's own
// compiler takes a second or more for most operators, so long as the simulator takes for ten million cycles.)
std::vector<TensorData> right_results(const Workload &workload, const Machine &machine, const std::vector<TensorData> &inputs,
                                      RunOptions options) {
    constexpr double most_flops = 2e8;
    constexpr uint64_t most_cycles = 20'000'000;
    if (workload.flops() <= most_flops) {
        const KernelDefinition kernel = workload.build(machine, workload.naive_point(machine));
        codegen::CompileOptions how = kernel.compile_options();
        how.optimize = false;
        options.cycle_limit = most_cycles;
        KernelRun run =
            run_kernel(kernel, codegen::compile(kernel.pipeline, kernel.arguments, machine, how), machine, inputs, options);
        if (run.result.ok) return std::move(run.outputs);
    }
    return workload.host_result(machine, inputs);
}

// What is wrong with the results of a run on random values with special ones among them, and on normal ones where those show
// little, or "". Error if nobody can say what is right.
std::string wrong_results(const Routine &routine, const Workload &workload, const Machine &machine) {
    constexpr uint32_t parameters = 0x400;  // behind the words that run_kernel() writes, which routines do not read
    constexpr uint64_t data_seed = 1;
    KernelDefinition tensors;
    tensors.inputs = workload.inputs();
    tensors.outputs = workload.outputs();
    KernelCall call{0, {}, routine.name};
    for (const uint64_t address : place_tensors(tensors, machine)) call.addresses.push_back(static_cast<uint32_t>(address));
    codegen::CompiledKernel compiled;
    compiled.program = stitch({{routine}, {{{std::move(call)}}}, parameters}).program;
    RunOptions options;
    options.left_behind = left_by_others;
    // A functional machine aborts where a scalar operation overflows.
    for (const DataSet set : {machine.timed() ? DataSet::Special : DataSet::Bounded, DataSet::Normal}) {
        const std::vector<TensorData> inputs = random_inputs(tensors.inputs, set, data_seed);
        const KernelRun run = run_kernel(tensors, compiled, machine, inputs, options);
        if (!run.result.ok) return run.result.error;
        if (!run.outside_untouched) return "the program wrote outside its tensors";
        const std::vector<TensorData> wanted = right_results(workload, machine, inputs, options);
        for (size_t i = 0; i < wanted.size(); i++)
            if (std::string differs = difference(tensors.outputs[i], run.outputs[i], wanted[i]); !differs.empty())
                return differs;
        if (!shows_little(wanted)) break;
    }
    return "";
}

std::string key_of(const Operator &op, const Workload &workload) { return op.name() + " " + workload.text(); }
std::string cache_key(const Operator &op, const Workload &workload, uint64_t measured) {
    return fmt::format("{}: {}", measured, key_of(op, workload));
}

}  // namespace

size_t KernelSet::add(const Operator &op, const std::shared_ptr<const Workload> &workload) {
    const std::string key = key_of(op, *workload);
    if (const auto entry = known_.find(key); entry != known_.end()) return entry->second;
    if (const auto entry = failed_.find(key); entry != failed_.end()) throw Error(entry->second);
    try {
        kernels_.push_back(choose(op, workload));
    } catch (const Error &error) {
        failed_.emplace(key, error.what());
        throw;
    }
    asked_.push_back({&op, workload});
    known_.emplace(key, kernels_.size() - 1);
    return kernels_.size() - 1;
}

uint64_t KernelSet::schedules(Effort effort) const {
    constexpr uint64_t few = 2;
    const uint64_t measured = std::max<uint64_t>(options_.measured, 1);
    return effort == Effort::Quick && !options_.tune ? std::min(few, measured) : measured;
}

int64_t KernelSet::cycles(const Operator &op, const std::shared_ptr<const Workload> &workload, Effort effort) {
    const std::string key = key_of(op, *workload);
    const bool quick = schedules(effort) < schedules(Effort::Full);
    if (const auto found = full_.find(key); found != full_.end()) return found->second;
    if (const auto found = quick_.find(key); quick && found != quick_.end()) return found->second;
    const int64_t cycles = quick ? measured_quickly(op, workload) : measured(op, workload);
    (quick ? quick_ : full_).emplace(key, cycles);
    return cycles;
}

int64_t KernelSet::measured_quickly(const Operator &op, const std::shared_ptr<const Workload> &workload) {
    if (const std::optional<StoredTrial> stored = winner(op, *workload)) return stored->trial.cycles;
    if (const KeptSchedule *schedule = kept(op, *workload, Effort::Quick); schedule != nullptr && schedule->cycles > 0)
        return schedule->cycles;
    if (failed_.contains(key_of(op, *workload))) return measured(op, workload);
    Search &found = search_of(op, workload);
    search(found, op, *workload, schedules(Effort::Quick));
    if (found.best.from.empty()) return measured(op, workload);
    keep(op, *workload, Effort::Quick, {found.best.from, found.best.point, found.best.cycles, "", false});
    return found.best.cycles;
}

int64_t KernelSet::measured(const Operator &op, const std::shared_ptr<const Workload> &workload) {
    if (!known_.contains(key_of(op, *workload))) {
        if (const std::optional<StoredTrial> stored = winner(op, *workload)) return stored->trial.cycles;
        if (const KeptSchedule *schedule = kept(op, *workload, Effort::Full); schedule != nullptr && schedule->cycles > 0)
            return schedule->cycles;
    }
    ChosenKernel &chosen = kernels_[add(op, workload)];
    if (chosen.cycles == 0) chosen.cycles = cycles_alone(chosen.routine, *workload, machine_);
    return chosen.cycles;
}

Point KernelSet::schedule(const Operator &op, const std::shared_ptr<const Workload> &workload) {
    const std::string key = key_of(op, *workload);
    if (!known_.contains(key) && !failed_.contains(key)) {
        if (const std::optional<StoredTrial> stored = winner(op, *workload)) return stored->trial.point;
        if (const KeptSchedule *schedule = kept(op, *workload, Effort::Full); schedule != nullptr && !schedule->from.empty())
            return schedule->point;
    }
    return kernels_[add(op, workload)].point;
}

int64_t KernelSet::cycles_in_a_row(const std::vector<Call> &calls) {
    const auto named = [&] {
        std::map<std::string, std::string> schedules;
        std::string text;
        for (const auto &[kernel, addresses] : calls) {
            const std::string key = key_of(*kernel.op, *kernel.workload);
            const auto [entry, is_new] = schedules.try_emplace(key);
            if (is_new) entry->second = schedule(*kernel.op, kernel.workload).text();
            text += fmt::format("{} {} {}\n", key, entry->second, fmt::join(addresses, " "));
        }
        return text;
    };
    const std::string program = named();
    if (const auto found = rows_.find(program); found != rows_.end()) return found->second;
    std::optional<int64_t> cycles = options_.cache != nullptr ? options_.cache->cycles(program) : std::nullopt;
    if (!cycles) {
        StitchPlan plan{{}, {{}}, first_parameter};
        std::map<size_t, size_t> routines;
        for (const auto &[kernel, addresses] : calls) {
            const size_t chosen = add(*kernel.op, kernel.workload);
            const auto [entry, is_new] = routines.try_emplace(chosen, plan.routines.size());
            if (is_new) plan.routines.push_back(kernels_[chosen].routine);
            plan.segments[0].calls.push_back({entry->second, addresses, kernels_[chosen].routine.name});
        }
        cycles = simulated_cycles(plan, machine_);
        // A damaged line's schedule has given way to another.
        if (options_.cache != nullptr) options_.cache->keep_cycles(named(), *cycles);
    }
    rows_.emplace(program, *cycles);
    return *cycles;
}

std::optional<double> KernelSet::drafted(const Operator &op, const std::shared_ptr<const Workload> &workload) const {
    if (const std::optional<StoredTrial> stored = winner(op, *workload)) return workload->draft(machine_, stored->trial.point);
    constexpr uint64_t few = 200;
    const std::vector<PricedPoint> best =
        rank_by_draft(tuning_task(op, std::make_shared<const Evaluator>(workload, machine_)), few, 1, 1, 1).points;
    return best.empty() ? std::nullopt : std::optional(best.front().predicted);
}

std::optional<StoredTrial> KernelSet::winner(const Operator &op, const Workload &workload) const {
    if (options_.database == nullptr) return std::nullopt;
    return options_.database->winner({op.name(), workload.text(), machine_.fingerprint(), compiler_fingerprint()});
}

const KeptSchedule *KernelSet::kept(const Operator &op, const Workload &workload, Effort effort) const {
    if (options_.cache == nullptr || options_.tune) return nullptr;
    const KeptSchedule *schedule = options_.cache->find(cache_key(op, workload, schedules(effort)));
    return schedule != nullptr && !is_refused(key_of(op, workload), schedule->point) ? schedule : nullptr;
}

void KernelSet::keep(const Operator &op, const Workload &workload, Effort effort, const KeptSchedule &schedule) const {
    if (options_.cache != nullptr) options_.cache->keep(cache_key(op, workload, schedules(effort)), schedule);
}

bool KernelSet::is_refused(const std::string &key, const Point &point) const {
    const auto refused = refused_.find(key);
    return refused != refused_.end() &&
           std::ranges::any_of(refused->second, [&](const auto &one) { return one.first == point; });
}

bool KernelSet::verify(const std::vector<int> &kernels) {
    if (!options_.verify) return true;
    std::set<size_t> unverified;
    for (const int kernel : kernels)
        if (kernel >= 0 && !kernels_[static_cast<size_t>(kernel)].verified) unverified.insert(static_cast<size_t>(kernel));
    const std::vector<size_t> list(unverified.begin(), unverified.end());
    std::vector<std::string> wrong(list.size()), unknown(list.size());
#pragma omp parallel for schedule(dynamic, 1)
    for (size_t i = 0; i < list.size(); i++) {
        try {
            wrong[i] = wrong_results(kernels_[list[i]].routine, *asked_[list[i]].workload, machine_);
        } catch (const std::exception &error) {
            unknown[i] = error.what();
        }
    }
    bool right = true;
    for (size_t i = 0; i < list.size(); i++) {
        ChosenKernel &kernel = kernels_[list[i]];
        const auto &[op, workload] = asked_[list[i]];
        if (!unknown[i].empty()) {
            notes_.push_back(fmt::format("{}: its results cannot be verified: {}", kernel.routine.name, unknown[i]));
            continue;
        }
        kernel.verified = wrong[i].empty();
        if (kernel.verified) {
            keep(*op, *workload, Effort::Full, {kernel.from, kernel.point, kernel.cycles, "", true});
            continue;
        }
        right = false;
        const std::string key = key_of(*op, *workload);
        refused_[key].emplace_back(kernel.point, wrong[i]);
        known_.erase(key);
        quick_.erase(key);
        full_.erase(key);
        searches_.erase(key);
        notes_.push_back(fmt::format("{}: the schedule {} gives wrong results and is passed over: {}", kernel.routine.name,
                                     kernel.point.assignments(), wrong[i]));
    }
    return right;
}

ChosenKernel KernelSet::choose(const Operator &op, const std::shared_ptr<const Workload> &workload) {
    ChosenKernel chosen;
    chosen.bound_cycles = workload->bound(machine_).steady;  // a call runs behind others, often from a warm cache
    if (const std::optional<StoredTrial> stored = winner(op, *workload)) {
        chosen.point = stored->trial.point;
        chosen.from = "winner";
        chosen.routine = compile_routine(op, *workload, machine_, chosen.point);
        chosen.cycles = stored->trial.cycles;
        chosen.verified = true;
        return chosen;
    }
    if (options_.tune) {
        const TuneResult result =
            tune(tuning_task(op, std::make_shared<const Evaluator>(workload, machine_)), options_.database, options_.how);
        if (result.interrupted) throw Error("interrupted; the same command goes on from here");
        if (result.verified) {
            chosen.point = result.best;
            chosen.from = "tuned";
            chosen.routine = compile_routine(op, *workload, machine_, chosen.point);
            chosen.verified = true;
            return chosen;
        }
    }
    if (const KeptSchedule *schedule = kept(op, *workload, Effort::Full)) {
        if (schedule->from.empty()) throw Error(schedule->failure);
        try {
            return {compile_routine(op, *workload, machine_, schedule->point),
                    schedule->point,
                    schedule->from,
                    chosen.bound_cycles,
                    schedule->cycles,
                    schedule->verified};
        } catch (const std::exception &) {
            // A damaged line: chosen anew.
        }
    }
    try {
        ChosenKernel drafted = choose_by_draft(op, workload);
        keep(op, *workload, Effort::Full, {drafted.from, drafted.point, drafted.cycles, "", false});
        return drafted;
    } catch (const Error &error) {
        keep(op, *workload, Effort::Full, {"", {}, 0, error.what(), false});
        throw;
    }
}

std::vector<PricedPoint> KernelSet::draft(const Operator &op, const std::shared_ptr<const Workload> &workload) const {
    constexpr uint64_t drafted = 4000, tried = 8;
    std::vector<PricedPoint> points = rank_by_draft(tuning_task(op, std::make_shared<const Evaluator>(workload, machine_)),
                                                    drafted, schedules(Effort::Full) + tried, 1, 0)
                                          .points;
    const std::string key = key_of(op, *workload);
    std::erase_if(points, [&](const PricedPoint &priced) { return is_refused(key, priced.point); });
    return points;
}

KernelSet::Search &KernelSet::search_of(const Operator &op, const std::shared_ptr<const Workload> &workload) {
    const std::string key = key_of(op, *workload);
    const auto found = searches_.find(key);
    return found != searches_.end() ? found->second : searches_.emplace(key, Search{draft(op, workload)}).first->second;
}

void KernelSet::search_ahead(const std::vector<PlacedNode> &kernels, Effort effort) {
    if (options_.tune) return;  // which does the same for a kernel at a time
    std::map<std::string, const PlacedNode *> unknown;
    for (const PlacedNode &kernel : kernels) {
        if (kernel.place != PlacedNode::Device) continue;
        const std::string key = key_of(*kernel.op, *kernel.workload);
        const bool is_known = known_.contains(key) || failed_.contains(key) ||
                              (effort == Effort::Quick && (quick_.contains(key) || full_.contains(key)));
        if (!is_known && !unknown.contains(key) && !winner(*kernel.op, *kernel.workload) &&
            kept(*kernel.op, *kernel.workload, effort) == nullptr)
            unknown.emplace(key, &kernel);
    }
    const std::vector<std::pair<std::string, const PlacedNode *>> list(unknown.begin(), unknown.end());
    std::vector<std::optional<Search>> done(list.size());
#pragma omp parallel for schedule(dynamic, 1) if (list.size() > 1)
    for (size_t i = 0; i < list.size(); i++) {
        const auto &[key, kernel] = list[i];
        try {
            const auto begun = searches_.find(key);
            Search made = begun == searches_.end() ? Search{draft(*kernel->op, kernel->workload)} : begun->second;
            search(made, *kernel->op, *kernel->workload, schedules(effort));
            done[i] = std::move(made);
        } catch (const std::exception &) {
            // Whoever asks for it hears why.
        }
    }
    for (size_t i = 0; i < list.size(); i++)
        if (done[i]) searches_[list[i].first] = std::move(*done[i]);
}

void KernelSet::search(Search &search, const Operator &op, const Workload &workload, uint64_t enough) const {
    struct Candidate {
        std::optional<Routine> routine;  // that compiled
        std::optional<int64_t> cycles;   // of its run, where that is not longer than another's
        std::string failure;
    };
    std::atomic<int64_t> least{search.best.from.empty() ? std::numeric_limits<int64_t>::max() - 1 : search.best.cycles};
    const bool runs = schedules(Effort::Full) > 1;
    LoweredCache lowered(workload.placing_parameters());
    while (search.compiled < enough && search.next < search.points.size()) {
        std::vector<Candidate> batch(std::min(enough - search.compiled, search.points.size() - search.next));
#pragma omp parallel for schedule(dynamic, 1)
        for (size_t i = 0; i < batch.size(); i++) {
            try {
                batch[i].routine = compile_routine(op, workload, machine_, search.points[search.next + i].point, lowered);
                // A run as long as the best so far goes on, so that the choice among equals is the draft's, whoever ends first.
                batch[i].cycles = runs ? cycles_alone(*batch[i].routine, workload, machine_, least + 1) : 0;
                for (int64_t best = least; *batch[i].cycles < best && !least.compare_exchange_weak(best, *batch[i].cycles);) {
                }
            } catch (const std::exception &error) {
                batch[i].failure = error.what();
            }
        }
        for (Candidate &candidate : batch) {
            const PricedPoint &priced = search.points[search.next++];
            search.compiled += candidate.routine.has_value();
            if (!candidate.failure.empty()) search.failure = candidate.failure;
            if (candidate.cycles && (search.best.from.empty() || *candidate.cycles < search.best.cycles))
                search.best = {std::move(*candidate.routine),   priced.point,      "draft",
                               workload.bound(machine_).steady, *candidate.cycles, false};
        }
    }
}

ChosenKernel KernelSet::choose_by_draft(const Operator &op, const std::shared_ptr<const Workload> &workload) {
    const std::string key = key_of(op, *workload);
    Search &found = search_of(op, workload);
    search(found, op, *workload, schedules(Effort::Full));
    const Search ended = std::move(found);
    searches_.erase(key);
    if (!ended.best.from.empty()) return ended.best;
    if (is_refused(key, workload->naive_point(machine_)))
        throw Error(fmt::format("{} {}: no schedule gives right results: {}", op.name(), workload->title(),
                                refused_.at(key).back().second));
    try {
        const Point naive = workload->naive_point(machine_);
        return {compile_routine(op, *workload, machine_, naive), naive, "naive", workload->bound(machine_).steady};
    } catch (const Error &) {
        throw Error(fmt::format("{} {}: no schedule compiles: {}", op.name(), workload->title(), ended.failure));
    }
}

}  // namespace atalla
