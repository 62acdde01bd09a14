#include "codegen/pointer_steps.h"

#include <algorithm>
#include <string>
#include <vector>

#include "codegen/index.h"

namespace atalla::codegen {

namespace {

bool depends_on(const Kernel &kernel, int atom, const Loop &loop) {
    return kernel.atoms[static_cast<size_t>(atom)].loop == loop.id;
}

// Bytes of the terms that depend on the loop in one of its iterations; nothing if they depend on others, too.
std::optional<int64_t> bytes_in(const Kernel &kernel, const std::map<int, int64_t> &terms, const Loop &loop,
                                int64_t iteration) {
    const std::map<std::string, int64_t> at = {{kernel.loops[static_cast<size_t>(loop.id)].name, iteration}};
    int64_t bytes = 0;
    for (const auto &[atom, coefficient] : terms) {
        if (!depends_on(kernel, atom, loop)) continue;
        const auto value = value_at(kernel.atoms[static_cast<size_t>(atom)].expr, at);
        if (!value) return std::nullopt;
        bytes += coefficient * *value;
    }
    return bytes;
}

}  // namespace

std::optional<PointerSteps> pointer_steps(const Kernel &kernel, const std::map<int, int64_t> &terms, const Loop &loop,
                                          bool may_jump) {
    PointerSteps steps;
    bool linear = true;
    for (const auto &[atom, coefficient] : terms) {
        if (!depends_on(kernel, atom, loop)) continue;
        if (kernel.atoms[static_cast<size_t>(atom)].is_loop)
            steps.usual = coefficient;
        else
            linear = false;
    }
    if (linear) return steps;
    if (!may_jump) return std::nullopt;
    std::vector<int64_t> bytes;
    for (int64_t i = 0; i < loop.extent; i++) {
        const auto here = bytes_in(kernel, terms, loop, i);
        if (!here) return std::nullopt;
        bytes.push_back(*here);
    }
    steps = {bytes[0], bytes[1] - bytes[0], 0, 0};
    for (int64_t i = 1; i < loop.extent; i++) {
        const int64_t step = bytes[static_cast<size_t>(i)] - bytes[static_cast<size_t>(i) - 1];
        if (steps.period == 0 && step != steps.usual) steps.jump = step, steps.period = i;
        if (step != (steps.period > 0 && i % steps.period == 0 ? steps.jump : steps.usual)) return std::nullopt;
    }
    return steps;
}

std::optional<int64_t> first_of_quotients(const Kernel &kernel, const std::map<int, int64_t> &terms, const Loop &loop) {
    const auto is_plain = [&](const auto &term) {
        const Atom &atom = kernel.atoms[static_cast<size_t>(term.first)];
        const auto *quotient = atom.expr.template as<Halide::Internal::Div>();
        return !depends_on(kernel, term.first, loop) || atom.is_loop ||
               (quotient != nullptr && quotient->a.template as<Halide::Internal::Variable>() != nullptr);
    };
    return std::ranges::all_of(terms, is_plain) ? bytes_in(kernel, terms, loop, 0) : std::nullopt;
}

bool sums_visit(const Kernel &kernel, const Loop &loop) {
    const auto straight = [](const Node &node) { return node.op.has_value(); };
    const auto has = [&](Opcode opcode) {
        return std::ranges::any_of(loop.body, [&](const Node &node) { return node.op->opcode == opcode; });
    };
    const LoopInfo &info = kernel.loops[static_cast<size_t>(loop.id)];
    return kernel.machine->timed() && loop.begin == 0 && loop.extent > 1 && info.parent >= 0 && !info.varies() &&
           std::ranges::all_of(loop.body, straight) && has(Opcode::lw_vi) && has(Opcode::gemm_vv) && !has(Opcode::add_vv);
}

}  // namespace atalla::codegen
