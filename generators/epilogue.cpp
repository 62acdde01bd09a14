#include "generators/epilogue.h"

#include <algorithm>
#include <cmath>

namespace atalla {

using namespace Halide;

Expr Epilogue::apply(Expr result) const {
    if (!expression_) return result;
    return Internal::common_subexpression_elimination(machine_expression(*expression_, {{result_name, std::move(result)}}),
                                                      true);
}

LaneCount Epilogue::operations() const {
    if (!expression_) return {};
    return count_lane_operations(
        machine_expression(*expression_, {{result_name, Internal::Variable::make(BFloat(16), result_name)}}));
}

void Epilogue::add_to(KernelWork &work, int64_t vectors) const {
    const LaneCount each = operations();
    work.lanes.adds += vectors * each.work.adds;
    work.lanes.muls += vectors * each.work.muls;
    work.lanes.exps += vectors * each.work.exps;
    work.copies += vectors * each.least_copies;
}

Reference Epilogue::reference(Reference results, double ulps) const {
    if (!expression_) return results;
    std::map<std::string, double> values;
    for (size_t at = 0; at < results.values.size(); at++) {
        const Grown grown = exact_of_rounded(*expression_, values, result_name, results.values[at], results.peaks[at], ulps);
        results.values[at] = grown.value;
        results.peaks[at] = grown.peak;
    }
    return results;
}

Grown exact_of_rounded(const ExpressionNode &expression, std::map<std::string, double> &others, const std::string &name,
                       double value, double peak, double ulps) {
    constexpr double ulp = 1.0 / 256;  // of bf16, relative
    double &of = others[name];
    of = value;
    Grown grown;
    grown.value = exact_expression(expression, others, grown.peak);
    double ignored = 0;
    for (const double part : {-1.0, -0.5, -0.25, 0.25, 0.5, 1.0}) {
        of = value + part * peak * ulp * ulps;
        if (const double growth = std::abs(exact_expression(expression, others, ignored) - grown.value) / (ulp * ulps);
            std::isfinite(growth))
            grown.peak = std::max(grown.peak, growth);
    }
    return grown;
}

}  // namespace atalla
