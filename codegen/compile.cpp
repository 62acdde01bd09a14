#include "codegen/compile.h"

#include <chrono>
#include <functional>

#include "codegen/cold_order.h"
#include "codegen/defer.h"
#include "codegen/hand_over.h"
#include "codegen/loop_plans.h"
#include "codegen/lowered.h"
#include "codegen/masks.h"
#include "codegen/match.h"
#include "codegen/nest_lines.h"
#include "codegen/passes.h"
#include "codegen/promote.h"
#include "codegen/second_look.h"
#include "codegen/separate_registers.h"
#include "codegen/share_rows.h"
#include "codegen/skew.h"
#include "isa/error.h"

namespace atalla::codegen {

namespace {

// Halide reports through one global object; warnings about idioms that we use on purpose are not for our users.
class QuietReporter : public Halide::CompileTimeErrorReporter {
public:
    void warning(const char *) override {}
    void error(const char *message) override { throw Error(std::string("Halide refuses the schedule: ") + message); }
};

// Installed when the program starts: definitions warn too, long before anything is compiled.
QuietReporter reporter;
[[maybe_unused]] const bool reporter_installed = (Halide::set_custom_compile_time_error_reporter(&reporter), true);

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Lets the long iterations of a loop overlap less: two of them, then none. False if none do.
bool overlap_less(PackOptions &options, size_t loop) {
    const auto [most, first] = options.overlap_of_loop.try_emplace(loop, OverlapIterations::LongInPairs);
    if (!first && most->second == OverlapIterations::Short) return false;
    if (!first) most->second = OverlapIterations::Short;
    return true;
}

// Whether loops were turned or overlap that are not to, so that they are packed again.
bool make_choices(const Kernel &kernel, const Packed &result, PackOptions &options) {
    const bool no_turns = result.turned && kernel.takes(Choice::NeverTurn),
               in_pairs =
                   options.overlap == OverlapIterations::Long && result.overlapped > 2 && kernel.takes(Choice::OverlapInPairs),
               shorter = result.long_overlapped && kernel.takes(Choice::OverlapShort);
    if (no_turns) options.turn = false;
    if (in_pairs) options.overlap = OverlapIterations::LongInPairs;
    if (shorter) options.overlap = OverlapIterations::Short;
    return no_turns || in_pairs || shorter;
}

// Loops that turn, stages that idle and iterations that overlap take more registers and more code: where registers are too few,
// fewer do, and where a nest would leave the instruction cache stages run idle, or else no more than two long iterations
// overlap, or none. Where straight code alone takes too many registers, it keeps its order, masks that are constants are made
// again, and other constants where they are read.
void pack_and_allocate(Kernel &kernel, Blocks &blocks, bool optimize, const std::function<void()> &packed) {
    Blocks unpacked = blocks;
    const std::vector<RegInfo> registers = kernel.registers;
    LoopPlans plans;
    for (PackOptions options;;) {
        const Packed result = pack(kernel, blocks, optimize, options, plans);
        const bool turns = options.turn && result.turned,
                   overlaps = options.overlap != OverlapIterations::WithoutMasks && result.overlapped > 0;
        const bool idles = options.idle && result.idle, joins = options.join && result.joined;
        bool again = false;  // from the start, with other masks and constants
        bool shorter = make_choices(kernel, result, options);
        if (!shorter && overlaps && options.overlap == OverlapIterations::Long)
            for (const size_t b : result.unfit) shorter |= options.idle_loops.insert(b).second || overlap_less(options, b);
        if (!shorter && (result.turned_fit || !turns)) {
            packed();
            try {
                return allocate(kernel, blocks);
            } catch (const Error &) {
                const bool simplest = !turns && !overlaps && !idles && !joins && (!optimize || options.in_order);
                again = simplest && (make_masks_again(kernel, unpacked) || make_constants_before_use(kernel, unpacked));
                if (simplest && !again) throw;
            }
        }
        if (again) {
            options = {};
            plans = {};
        } else if (!shorter && joins)
            options.join = false;
        else if (!shorter && idles)
            options.idle = false;
        else if (!shorter && turns)
            options.turn = false;
        else if (!shorter && !overlaps)
            options.in_order = true;
        else if (!shorter)
            options.overlap =
                options.overlap > OverlapIterations::Short ? OverlapIterations::Short : OverlapIterations::WithoutMasks;
        blocks = unpacked;
        for (size_t r = 0; r < kernel.registers.size(); r++)
            kernel.registers[r].physical = r < registers.size() ? registers[r].physical : int16_t{-1};
    }
}

}  // namespace

const std::vector<std::string> &pass_names() {
    static const std::vector<std::string> names = {"lower",   "match",     "skew",   "coalesce", "place",
                                                   "overlap", "addresses", "blocks", "pack",     "allocate"};
    return names;
}

namespace {

// What a kernel spends registers on.
struct Spending {
    MakeConstants constants = MakeConstants::AtStart;
    bool ahead = true;         // transfers run ahead of their use, with registers until they are waited for
    bool clears_early = true;  // sums are cleared where those before are stored, and keep their registers until they begin
};

CompiledKernel generate(const LoweredPipeline &lowered, const Machine &machine, const CompileOptions &options,
                        const Spending &spending) {
    const auto dump = [&](const std::string &pass, const auto &text) {
        if (options.dump && (options.dump_after == pass || options.dump_after == "all")) options.dump(pass, text());
    };
    CompiledKernel result;
    result.lower_seconds = lowered.seconds;
    dump("lower", [&] {
        std::ostringstream text;
        text << lowered.function.body;
        return text.str();
    });

    const auto generate_start = std::chrono::steady_clock::now();
    Kernel kernel = match(lowered.function, machine, options.optimize);
    kernel.parameter_block = static_cast<int32_t>(options.parameter_block);
    kernel.choices = options.choices;
    if (options.routine) kernel.make_routine();
    share_rows(kernel);
    if (options.optimize && machine.timed()) {
        promote_sums(kernel);
        look_again(kernel);
    }
    dump("match", [&] { return to_string(kernel); });
    if (options.optimize && machine.timed()) {
        defer(kernel);
        skew(kernel, options.layouts);
    }
    dump("skew", [&] { return to_string(kernel); });
    if (options.optimize) {
        coalesce(kernel);
        if (spending.clears_early) clear_behind(kernel);
    }
    dump("coalesce", [&] { return to_string(kernel); });
    if (options.optimize && machine.timed()) expand(kernel);
    place(kernel, options.layouts);
    aim_rotations(kernel);
    dump("place", [&] { return to_string(kernel); });
    overlap(kernel, options.optimize && spending.ahead);
    if (options.routine && machine.timed()) hand_over_transfers(kernel, options.optimize);
    dump("overlap", [&] { return to_string(kernel); });
    lower_addresses(kernel, options.optimize);
    dump("addresses", [&] { return to_string(kernel); });
    Blocks blocks = make_blocks(kernel, !options.optimize, spending.constants);
    separate_registers(kernel, blocks);
    dump("blocks", [&] { return to_string(kernel, blocks); });
    if (options.optimize) assign_banks(kernel, blocks);
    pack_and_allocate(kernel, blocks, options.optimize, [&] { dump("pack", [&] { return to_string(kernel, blocks); }); });
    dump("allocate", [&] { return to_string(kernel, blocks); });
    if (options.optimize) {
        order_cold_code(kernel, blocks);
        fit_nests_to_lines(kernel, blocks);
    }
    result.program = emit(kernel, blocks);
    result.open = kernel.open;
    for (const Tensor &tensor : kernel.tensors) result.tensors.push_back(tensor.name);
    result.generate_seconds = seconds_since(generate_start);
    return result;
}

}  // namespace

CompiledKernel generate(const LoweredPipeline &lowered, const Machine &machine, const CompileOptions &options) {
    constexpr Spending usual, constants_late{.constants = MakeConstants::InBlocks}, clears_late{.clears_early = false},
        least{.constants = MakeConstants::InBlocks, .ahead = false, .clears_early = false};
    for (const Spending &spending : {usual, constants_late, clears_late}) {
        try {
            return generate(lowered, machine, options, spending);
        } catch (const TooFewRegisters &) {
            continue;
        }
    }
    return generate(lowered, machine, options, least);
}

CompiledKernel compile(const Halide::Pipeline &pipeline, const std::vector<Halide::Argument> &arguments, const Machine &machine,
                       const CompileOptions &options) {
    return generate(lower(pipeline, arguments), machine, options);
}

}  // namespace atalla::codegen
