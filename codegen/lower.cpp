// Lowers with Halide's passes, in Halide's order and with the same result. Passes for what the machine has not (threads, a GPU,
// prefetches) and for what we do not ask for (memoization, traces, profiles) are not run. What bounds inference defines in
// vain goes before the passes that would look at it, which makes lowering 1.6 to 2.6 times as fast.
#include <chrono>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "codegen/lets.h"
#include "codegen/lowered.h"
#include "isa/error.h"

namespace atalla::codegen {

using namespace Halide::Internal;

namespace {

const Halide::Target &lowering_target() {
    static const Halide::Target target("x86-64-linux-no_asserts-no_bounds_query-no_runtime");
    return target;
}

class ForOneThread : public IRVisitor {
public:
    bool is = true;

private:
    using IRVisitor::visit;
    void visit(const For *op) override {
        is &= !op->is_unordered_parallel();
        IRVisitor::visit(op);
    }
    void visit(const Fork *) override { is = false; }
};

// What the schedule says, before any loop is made of it.
struct Schedule {
    std::vector<Function> outputs;
    std::map<std::string, Function> functions;
    std::vector<std::string> order;
    std::vector<std::vector<std::string>> groups;  // that share loops
    FuncValueBounds values;

    explicit Schedule(const Halide::Pipeline &pipeline) {
        std::vector<Function> originals;
        for (const Halide::Func &output : pipeline.outputs()) originals.push_back(output.function());
        std::tie(outputs, functions) = deep_copy(originals, build_environment(originals));
        strictify_float(functions, lowering_target());
        for (const Function &output : outputs) Halide::Func(output).compute_root().store_root();
        for (auto &[name, function] : functions) function.lock_loop_levels();
        functions = wrap_func_calls(functions);
        std::tie(order, groups) = realization_order(outputs, functions);
        simplify_specializations(functions);
        values = compute_function_value_bounds(order, functions);
    }
};

// Loops over multi-dimensional realizations, whose bounds are inferred.
Stmt make_loops(const Schedule &schedule) {
    const auto &[outputs, functions, order, groups, values] = schedule;
    const Halide::Target &target = lowering_target();
    bool memoized = false;
    Stmt s = schedule_functions(outputs, groups, functions, target, memoized);
    if (memoized) throw Error("cannot generate code: the schedule memoizes a Func, which needs a runtime");
    FuncValueBounds bounds = values;
    s = clamp_unsafe_accesses(s, functions, bounds);
    s = bounds_inference(s, outputs, order, groups, functions, bounds, target);
    s = add_split_factor_checks(s, functions);
    s = remove_extern_loops(s);
    s = sliding_window(s, functions);
    s = remove_dead_lets(s, LoopBounds::Keep);
    s = uniquify_variable_names(s);
    s = substitute_lets(s);
    s = remove_dead_lets(s, LoopBounds::Keep);
    s = simplify(s, false);
    s = remove_dead_lets(s, LoopBounds::Keep);
    s = simplify_correlated_differences(s);
    s = define_loop_bounds(s);
    s = allocation_bounds_inference(s, functions, bounds);
    s = add_image_checks(s, outputs, target, order, functions, bounds, false);
    s = remove_undef(s);
    s = storage_folding(s, functions);
    s = remove_dead_lets(s, LoopBounds::Remove);
    s = lower_safe_promises(s);
    s = skip_stages(s, outputs, groups, functions);
    s = fork_async_producers(s, functions);
    s = split_tuples(s, functions);
    s = simplify_correlated_differences(s);
    return bound_small_allocations(s);
}

// Loads and stores of vectors.
Stmt flatten(const Schedule &schedule, Stmt s) {
    s = storage_flattening(s, schedule.outputs, schedule.functions, lowering_target());
    s = unpack_buffers(s);
    s = simplify(s);
    s = unify_duplicate_lets(s);
    s = simplify_correlated_differences(s);
    s = bound_constant_extent_loops(s);
    s = unroll_loops(s);
    s = vectorize_loops(s, schedule.functions);
    s = simplify(s);
    s = rewrite_interleavings(s);
    return simplify(s);
}

// Loops that do no more than they have to.
Stmt trim(Stmt s) {
    s = partition_loops(s);
    s = simplify(s);
    s = stage_strided_loads(s);
    s = trim_no_ops(s);
    s = rebase_loops_to_zero(s);
    s = hoist_loop_invariant_if_statements(s);
    s = inject_early_frees(s);
    s = simplify_correlated_differences(s);
    s = bound_small_allocations(s);
    s = common_subexpression_elimination(s);
    s = lower_unsafe_promises(s, lowering_target());
    s = flatten_nested_ramps(s);
    s = remove_dead_allocations(s);
    s = simplify(s);
    s = hoist_loop_invariant_values(s);
    s = hoist_loop_invariant_if_statements(s);
    s = find_intrinsics(s);
    return strip_asserts(s);
}

std::vector<Halide::Argument> with_outputs(std::vector<Halide::Argument> arguments, const Schedule &schedule) {
    for (const Function &output : schedule.outputs)
        for (const Halide::Parameter &buffer : output.output_buffers())
            arguments.emplace_back(buffer.name(), Halide::Argument::OutputBuffer, buffer.type(), buffer.dimensions(),
                                   buffer.get_argument_estimates());
    return arguments;
}

}  // namespace

LoweredPipeline lower(const Halide::Pipeline &pipeline, const std::vector<Halide::Argument> &arguments) {
    const auto start = std::chrono::steady_clock::now();
    const Schedule schedule(pipeline);
    const Stmt body = trim(flatten(schedule, make_loops(schedule)));
    ForOneThread one_thread;
    body.accept(&one_thread);
    if (!one_thread.is)
        throw Error("cannot generate code: the schedule has parallel or asynchronous loops, but the machine runs one thread");
    const LoweredFunc function("kernel", with_outputs(arguments, schedule), body, Halide::LinkageType::External);
    return {function, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

}  // namespace atalla::codegen
