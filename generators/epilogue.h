// Pointwise operators behind another operator's result, in its kernel: hardtanh(conv_depthwise_nhwc(x, weight)).
#pragma once

#include <map>
#include <optional>
#include <string>

#include "generators/expression.h"
#include "generators/operator.h"
#include "generators/pointwise_functions.h"

namespace atalla {

// What the result is called in an epilogue.
inline constexpr const char *result_name = "result";

// An expression of the result alone; none changes nothing.
class Epilogue {
public:
    Epilogue() = default;
    explicit Epilogue(ExpressionNode expression) : expression_(std::move(expression)) {}

    explicit operator bool() const { return expression_.has_value(); }
    // The expression with another one in place of the result.
    ExpressionNode of(const ExpressionNode &result) const {
        return expression_ ? expression_->with({{result_name, result}}) : result;
    }
    // Of a vector of results, in the machine's operations.
    Halide::Expr apply(Halide::Expr result) const;
    // For one vector.
    LaneCount operations() const;
    // Adds those behind so many vectors of results to a kernel's work.
    void add_to(KernelWork &work, int64_t vectors) const;
    // Of results that may be so many units in the last place away.
    Reference reference(Reference results, double ulps) const;
    // Units in the last place that the expression adds to the results' tolerance.
    double tolerance_ulps() const { return expression_ ? 3.0 * expression_->calls() : 0; }

private:
    std::optional<ExpressionNode> expression_;
};

// The exact value of an expression, with a peak that counts how an error of one of its inputs, `name`, grows in it: `value`
// with its peak, up to so many units in the last place away. `others` are the values of the other inputs.
struct Grown {
    double value = 0, peak = 0;
};
Grown exact_of_rounded(const ExpressionNode &expression, std::map<std::string, double> &others, const std::string &name,
                       double value, double peak, double ulps);

}  // namespace atalla
