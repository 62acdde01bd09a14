#include "generators/numerics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "generators/evaluate.h"
#include "generators/pointwise_operators.h"
#include "isa/error.h"
#include "schedules/random.h"
#include "simulator/numerics.h"

namespace atalla {

namespace {

constexpr int64_t all_patterns = 65536;

double ulp_at(double magnitude) {
    constexpr int fraction_bits = 7, least_exponent = -126, largest_exponent = 127;
    const int exponent = magnitude > 0 ? std::clamp(std::ilogb(magnitude), least_exponent, largest_exponent) : least_exponent;
    return std::ldexp(1.0, exponent - fraction_bits);
}

// What a bf16 result of this exact value may be at the ends of its range: infinity from half an ulp beyond the largest on.
bool rounds_to_infinity(double value) { return std::isinf(bf16_round(static_cast<float>(value))); }

std::vector<TensorData> sample(size_t operands, const std::vector<bool> &conditions) {
    std::vector<TensorData> data(operands);
    if (operands == 1) {
        for (int64_t pattern = 0; pattern < all_patterns; pattern++) data[0].push_back(static_cast<uint16_t>(pattern));
        return data;
    }
    const std::vector<uint16_t> special = {0x0000, 0x8000, 0x3F80, 0xBF80, 0x7F80, 0xFF80, 0x7FC0, 0x0001,
                                           0x8001, 0x007F, 0x0080, 0x7F7F, 0xFF7F, 0x3FC0, 0x4040, 0x0100};
    Random random(1);
    const size_t pairs = special.size() * special.size();
    for (size_t at = 0; at < all_patterns; at++)
        for (size_t i = 0; i < operands; i++) {
            size_t digit = at;
            for (size_t before = 0; before < i; before++) digit /= special.size();
            uint16_t pattern = at < pairs ? special[digit % special.size()] : static_cast<uint16_t>(random.next() >> 48);
            // Half of the rest is near one, where operands of models are.
            if (at >= pairs && at % 2 == 1) pattern = static_cast<uint16_t>((pattern & 0x83FF) | 0x3C00);
            if (conditions[i]) pattern = pattern % 2 == 0 ? 0 : 0x3F80;
            data[i].push_back(pattern);
        }
    return data;
}

}  // namespace

std::vector<std::string> numerics_expressions() {
    std::vector<std::string> list;
    for (const PointwiseFunction &function : pointwise_functions()) {
        if (function.name == "pow") {
            for (const char *exponent : {"2", "3", "0.5", "-0.5", "-1", "-2"})
                list.push_back(std::string("pow(x, ") + exponent + ")");
        } else if (function.name == "where" || function.name == "masked_fill") {
            list.push_back(function.name == "where" ? "where(x, y, z)" : "masked_fill(x, y, 2)");
        } else {
            list.push_back(function.operands == 1 ? function.name + "(x)" : function.name + "(x, y)");
        }
        if (function.name == "gelu") list.emplace_back("gelu(x, approximate=tanh)");
        if (function.name == "clamp") list.back() = "clamp(x, max=2, min=-1)";
        if (function.name == "div") list.emplace_back("div(x, 3)");
    }
    return list;
}

NumericsRow measure_numerics(const std::string &expression, const Machine &machine) {
    const Operator &op = expression_operator(expression);
    ExpressionNode node = parse_expression(expression);
    check_pointwise(node);
    const std::vector<std::string> names = node.inputs();
    std::vector<bool> conditions;
    for (const std::string &name : names)
        conditions.push_back((node.name == "where" && name == "x") || (node.name == "masked_fill" && name == "y"));
    const std::vector<TensorData> data = sample(names.size(), conditions);
    TensorList tensors;
    for (const std::string &name : names) tensors.emplace_back(name, Shape{all_patterns});
    const std::shared_ptr<const Workload> workload = op.workload_of(tensors, {});
    // The unoptimized program: every schedule gives the same bits.
    const KernelDefinition kernel = workload->build(machine, workload->naive_point(machine));
    codegen::CompileOptions plain;
    plain.optimize = false;
    const KernelRun run = run_kernel(
        kernel, codegen::compile(kernel.pipeline, kernel.arguments, machine, kernel.compile_options(plain)), machine, data);
    if (!run.result.ok) throw Error(run.result.error);

    NumericsRow row;
    row.expression = expression;
    row.inputs = all_patterns;
    std::map<std::string, Halide::Expr> values;
    for (const std::string &name : names) values[name] = Halide::Internal::Variable::make(Halide::BFloat(16), name);
    row.work = count_lane_operations(machine_expression(node, values));
    for (size_t at = 0; at < all_patterns; at++) {
        std::map<std::string, double> operands;
        std::vector<double> list;
        for (size_t i = 0; i < names.size(); i++) list.push_back(operands[names[i]] = bf16_float(data[i][at]));
        double peak = 0;
        const double exact = exact_expression(node, operands, peak), result = bf16_float(run.outputs[0][at]);
        const bool overflows = std::isfinite(exact) && rounds_to_infinity(exact);
        bool special = std::isnan(exact) != std::isnan(result);
        if (!special && !std::isnan(exact) && (std::isinf(exact) || exact == 0))
            special = result != exact || std::signbit(result) != std::signbit(exact);
        if (special) {
            if (row.wrong_special++ == 0) row.wrong_at = list;
            continue;
        }
        if (!std::isfinite(exact) || (overflows && std::isinf(result))) continue;
        const double error = std::abs(std::clamp(result, -0x1p128, 0x1p128) - exact) / ulp_at(std::abs(exact));
        row.over_one += error > 1;
        if (error > row.worst_ulps) {
            row.worst_ulps = error;
            row.worst_at = list;
        }
    }
    return row;
}

}  // namespace atalla
