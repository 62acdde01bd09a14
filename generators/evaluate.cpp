#include "generators/evaluate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "generators/lowered_cache.h"
#include "generators/source_digest.h"
#include "isa/error.h"
#include "schedules/random.h"
#include "simulator/numerics.h"
#include "simulator/report.h"

namespace atalla {

namespace {

// Above this many multiplications the unoptimized program takes minutes, and the host computes its results instead.
constexpr double most_naive_flops = 8e9;
// What a functional machine names when a scalar operation overflows.
constexpr const char *overflow_rule = "isa 4.3";
// A program this many times slower than the bound is of no interest.
constexpr uint64_t hopeless = 64, always_allowed = 10'000'000;

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

uint16_t bf16_of(double value) { return bf16_truncate(bf16_round(static_cast<float>(value))); }

// Uniform in (0, 1].
double unit(Random &random) { return static_cast<double>((random.next() >> 11) + 1) * 0x1p-53; }

double normal(Random &random) {
    const double radius = std::sqrt(-2 * std::log(unit(random)));
    return radius * std::cos(2 * M_PI * unit(random));
}

// In each tensor, six of sixteen rows of the outermost extents get a kind each; the others stay almost normal, since one
// NaN spreads to a row or column of the results.
void make_special(TensorData &data, int64_t row_length, Random &random, bool largest) {
    const int64_t rows = static_cast<int64_t>(data.size()) / row_length;
    const auto sprinkle = [&](int64_t row, uint64_t one_in, std::initializer_list<uint16_t> patterns) {
        for (int64_t at = row * row_length; at < (row + 1) * row_length; at++)
            if (random.below(one_in) == 0) data[static_cast<size_t>(at)] = patterns.begin()[random.below(patterns.size())];
    };
    const auto place = [&](int64_t row, uint16_t pattern) {
        data[static_cast<size_t>(row * row_length) + random.below(static_cast<uint64_t>(row_length))] = pattern;
    };
    constexpr uint16_t zero = 0x0000, minus = 0x8000, infinity = 0x7F80, nan = 0x7FC0;
    const uint64_t first = random.below(16);
    for (int64_t row = 0; row < rows; row++) {
        switch ((first + static_cast<uint64_t>(row)) % 16) {
            case 0:
                sprinkle(row, 1, {zero, minus});
                break;
            case 1:
                sprinkle(row, 2, {0x0001, 0x8001, 0x007F, 0x807F, 0x0080});
                break;
            case 2:
                if (largest) sprinkle(row, 3, {0x7F7F, 0xFF7F});
                break;
            case 3:
                place(row, infinity);
                break;
            case 4:
                place(row, infinity | minus);
                break;
            case 5:
                place(row, nan);
                break;
            default:
                sprinkle(row, 5, {zero, minus});
                break;
        }
    }
}

bool is_nan(uint16_t pattern) { return (pattern & 0x7FFF) > 0x7F80; }

double ulp_of(double magnitude) {
    constexpr int fraction_bits = 7, least_exponent = -126;
    return std::ldexp(1, std::max(magnitude > 0 ? std::ilogb(magnitude) : least_exponent, least_exponent) - fraction_bits);
}

std::string index_text(const TensorSpec &tensor, int64_t at) {
    std::vector<int64_t> index;
    for (int64_t extent : tensor.extents) {
        index.insert(index.begin(), at % extent);
        at /= extent;
    }
    return fmt::format("{}", fmt::join(index, ", "));
}

}  // namespace

std::string compiler_fingerprint() {
    return fmt::format("{:.10}-halide{}.{}.{}", ATALLA_SOURCE_DIGEST, HALIDE_VERSION_MAJOR, HALIDE_VERSION_MINOR,
                       HALIDE_VERSION_PATCH);
}

std::vector<TensorData> random_inputs(const std::vector<TensorSpec> &tensors, DataSet set, uint64_t seed) {
    Random random(seed);
    std::vector<TensorData> inputs;
    for (const TensorSpec &tensor : tensors) {
        TensorData data(static_cast<size_t>(tensor.elements()));
        for (uint16_t &value : data) value = bf16_of(normal(random));
        if (set != DataSet::Normal && !data.empty())
            make_special(data, tensor.extents.front(), random, set == DataSet::Special);
        inputs.push_back(std::move(data));
    }
    return inputs;
}

bool shows_little(const std::vector<TensorData> &results) {
    int64_t elements = 0, finite = 0;
    for (const TensorData &result : results) {
        elements += static_cast<int64_t>(result.size());
        finite += std::ranges::count_if(result, [](uint16_t pattern) { return (pattern & 0x7FFF) < 0x7F80; });
    }
    return 2 * finite < elements;
}

std::string difference(const TensorSpec &tensor, const TensorData &one, const TensorData &other) {
    int64_t first = -1, count = 0;
    for (size_t at = 0; at < one.size(); at++) {
        if (one[at] == other[at] || (is_nan(one[at]) && is_nan(other[at]))) continue;
        if (count++ == 0) first = static_cast<int64_t>(at);
    }
    if (count == 0) return "";
    const auto at = static_cast<size_t>(first);
    return fmt::format("{} of {} elements of {} differ, the first at [{}]: {:#06x} ({}) instead of {:#06x} ({})", count,
                       one.size(), tensor.name, index_text(tensor, first), one[at], bf16_float(one[at]), other[at],
                       bf16_float(other[at]));
}

double largest_error_ulps(const TensorData &result, const Reference &reference) {
    double largest = 0;
    for (size_t at = 0; at < result.size(); at++) {
        if (!std::isfinite(reference.values[at])) continue;
        const double error =
            std::abs(static_cast<double>(bf16_float(result[at])) - reference.values[at]) / ulp_of(reference.peaks[at]);
        largest = std::isnan(error) ? INFINITY : std::max(largest, error);
    }
    return largest;
}

Evaluator::Evaluator(std::shared_ptr<const Workload> workload, const Machine &machine, uint64_t data_seed)
    : workload_(std::move(workload)), machine_(machine), data_seed_(data_seed) {
    KernelDefinition tensors;
    tensors.inputs = workload_->inputs();
    tensors.outputs = workload_->outputs();
    place_tensors(tensors, machine_);
    lowered_ = std::make_shared<LoweredCache>(workload_->placing_parameters());
    step_limit_ = always_allowed + hopeless * static_cast<uint64_t>(workload_->bound(machine_).cycles);
}

codegen::CompiledKernel Evaluator::compile(const Point &point, const codegen::CompileOptions &options) const {
    const KernelDefinition kernel = kernel_of(*workload_, machine_, point);
    return codegen::compile(kernel.pipeline, kernel.arguments, machine_, kernel.compile_options(options));
}

Evaluator::Candidate Evaluator::candidate(const Point &point) const {
    Candidate made{.optimized = !point.contains(unoptimized_mark)};
    const auto start = std::chrono::steady_clock::now();
    try {
        made.kernel = kernel_of(*workload_, machine_, point);
        codegen::CompileOptions how;
        how.optimize = made.optimized;
        made.compiled = codegen::generate(lowered_->lower(point, made.kernel), machine_, made.kernel.compile_options(how));
    } catch (const std::exception &error) {
        made.error = error.what();
    }
    made.seconds = seconds_since(start);
    return made;
}

codegen::Choices Evaluator::open_choices(const Point &point) const {
    const Candidate made = candidate(point);
    return made.compiled ? made.compiled->open : codegen::Choices();
}

Evaluation Evaluator::evaluate(const Point &point, int64_t cycle_limit) const {
    return run(candidate(point), DataSet::Normal, nullptr, cycle_limit);
}

Evaluation Evaluator::run(const Candidate &candidate, DataSet set, std::vector<TensorData> *outputs,
                          int64_t cycle_limit) const {
    Evaluation evaluation;
    evaluation.seconds_lower = candidate.seconds;
    evaluation.reason = candidate.error;
    if (!candidate.compiled) return evaluation;
    const std::vector<TensorData> &data = inputs(set);
    const auto start = std::chrono::steady_clock::now();
    try {
        RunOptions options;
        if (candidate.optimized) options.step_limit = step_limit_;
        // The array takes longer over NaNs on the host, so what is computed for a search starts from clear pads.
        if (set != DataSet::Normal) options.left_behind = left_by_others;
        if (outputs == nullptr && machine_.timed() && may_skip_lanes(candidate.compiled->program))
            options.lanes = LaneValues::Skipped;
        if (cycle_limit > 0) options.cycle_limit = static_cast<uint64_t>(cycle_limit);
        KernelRun run = run_kernel(candidate.kernel, *candidate.compiled, machine_, data, options);
        evaluation.seconds_simulate = seconds_since(start);
        evaluation.cycles = static_cast<int64_t>(run.result.counters.cycles);
        evaluation.counters = counters_json(run.result.counters);
        evaluation.reason = run.result.error;
        evaluation.rule = run.result.rule;
        if (outputs != nullptr) *outputs = std::move(run.outputs);
        if (run.result.ok && run.outside_untouched)
            evaluation.status = Evaluation::Ok;
        else if (run.result.ok)
            evaluation.reason = "the program wrote outside its tensors";
        else if (run.result.rule == "step limit")
            evaluation.status = Evaluation::TimedOut, evaluation.cycles = 0;
        else
            evaluation.status = run.result.rule == "cycle limit" ? Evaluation::TimedOut : Evaluation::Refused;
    } catch (const std::exception &error) {
        evaluation.reason = error.what();
    }
    return evaluation;
}

std::string Evaluator::verify(const Point &point) const {
    // The unoptimized program takes long, so it runs beside the other two.
    std::future<const Expected *> reference = std::async(std::launch::async, [this] { return &expected(); });
    const std::vector<TensorSpec> tensors = workload_->outputs();
    std::vector<TensorData> normal, special;
    const Candidate made = candidate(point);
    if (const Evaluation with = run(made, DataSet::Normal, &normal); with.status != Evaluation::Ok) return with.reason;
    const std::vector<Reference> float64 = workload_->reference(inputs(DataSet::Normal));
    for (size_t i = 0; i < tensors.size(); i++)
        if (const double ulps = largest_error_ulps(normal[i], float64[i]); ulps > workload_->tolerance_ulps())
            return fmt::format("{} is {:.1f} units in the last place from float64, more than {:.1f}", tensors[i].name, ulps,
                               workload_->tolerance_ulps());
    const Expected &wanted = *reference.get();
    if (wanted.run && wanted.run->status != Evaluation::Ok)
        return fmt::format("the unoptimized program did not run: {}", wanted.run->reason);
    if (const Evaluation with = run(made, wanted.set, &special); with.status != Evaluation::Ok)
        return fmt::format("with special values, {}", with.reason);
    for (size_t i = 0; i < tensors.size(); i++) {
        std::string differs = difference(tensors[i], special[i], wanted.outputs[i]);
        if (differs.empty() && !wanted.of_normal.empty()) differs = difference(tensors[i], normal[i], wanted.of_normal[i]);
        if (!differs.empty())
            return fmt::format("against the {}, {}", wanted.run ? "unoptimized program" : "host's result", differs);
    }
    return "";
}

Point Evaluator::unoptimized_point() const {
    Point point = workload_->naive_point(machine_);
    point.set(unoptimized_mark, 1);
    return point;
}

std::optional<Evaluation> Evaluator::unoptimized() const { return expected().run; }

const std::vector<TensorData> &Evaluator::inputs(DataSet set) const {
    const std::scoped_lock lock(mutex_);
    auto found = inputs_.find(set);
    if (found == inputs_.end())
        found = inputs_.emplace(set, random_inputs(workload_->inputs(), set, data_seed_ * 2 + (set != DataSet::Normal))).first;
    return found->second;
}

void Evaluator::forget_tensors() const {
    const std::scoped_lock lock(mutex_);
    inputs_.clear();
    expected_.reset();
    lowered_->clear();
}

const Evaluator::Expected &Evaluator::expected() const {
    {
        const std::scoped_lock lock(mutex_);
        if (expected_) return *expected_;
    }
    // Made outside the lock, which the inputs need; if two threads make it, the results are equal.
    Expected made;
    std::optional<Candidate> unoptimized;
    if (workload_->flops() <= most_naive_flops) {
        unoptimized = candidate(unoptimized_point());
        made.run = run(*unoptimized, made.set, &made.outputs);
        if (made.run->rule == overflow_rule) {
            made.set = DataSet::Bounded;
            made.run = run(*unoptimized, made.set, &made.outputs);
        }
        // Without optimization there are more rows in one pad, and more registers in use.
        if (made.run->status == Evaluation::Failed) made = {};
    }
    if (!made.run) made.outputs = workload_->host_result(machine_, inputs(made.set));
    if (shows_little(made.outputs)) {
        if (!made.run)
            made.of_normal = workload_->host_result(machine_, inputs(DataSet::Normal));
        else if (Evaluation with = run(*unoptimized, DataSet::Normal, &made.of_normal); with.status != Evaluation::Ok)
            made.run = std::move(with);  // verify() says so
    }
    const std::scoped_lock lock(mutex_);
    if (!expected_) expected_ = std::move(made);
    return *expected_;
}

}  // namespace atalla
