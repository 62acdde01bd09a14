#include "generators/gemm_epilogue.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "generators/epilogue.h"
#include "generators/host_jit.h"
#include "generators/vocabulary.h"
#include "simulator/numerics.h"

namespace atalla {

using namespace Halide;

namespace {

// Lane operations of a row that straight-line code of all rows of a block bears.
constexpr int64_t most_in_line = 6;

// The operands are the last inputs.
const TensorData &operand_data(const GemmShape &shape, const std::vector<TensorData> &inputs, size_t operand) {
    return inputs[inputs.size() - shape.operands.size() + operand];
}

}  // namespace

void plan_epilogue(GemmShape &shape) {
    std::map<std::string, Expr> values = {{product_name, Internal::Variable::make(Halide::BFloat(16), product_name)}};
    for (const GemmOperand &operand : shape.operands)
        values[operand.name] = Internal::Variable::make(Halide::BFloat(16), operand.name);
    if (shape.epilogue) shape.epilogue_work = count_lane_operations(machine_expression(*shape.epilogue, values));
    // Rows of operands would wait in registers, all of a block at once.
    shape.staged =
        shape.epilogue_work.all() > most_in_line ||
        std::ranges::any_of(shape.operands, [](const GemmOperand &operand) { return operand.kind != GemmOperand::Row; });
}

TensorData epilogue_on_host(const GemmShape &shape, TensorData product, const std::vector<TensorData> &inputs) {
    if (!shape.epilogue) return product;
    const int64_t rows = shape.m * shape.products();
    Var n("n"), m("m");
    KernelDefinition kernel;
    std::vector<TensorData> data = {std::move(product)};
    const ImageParam whole = vocabulary::tensor(product_name, {shape.n, rows});
    kernel.add_input(product_name, whole);
    std::map<std::string, Expr> values = {{product_name, whole(n, m)}};
    for (size_t i = 0; i < shape.operands.size(); i++) {
        const GemmOperand &operand = shape.operands[i];
        const bool matrix = operand.kind == GemmOperand::Matrix, row = operand.kind == GemmOperand::Row;
        const std::vector<int64_t> extents = matrix ? std::vector{shape.n, rows} : std::vector{row ? shape.n : shape.m};
        const ImageParam tensor = vocabulary::tensor("in_" + operand.name, extents);
        kernel.add_input(operand.name, tensor);
        values[operand.name] = matrix ? tensor(n, m) : row ? tensor(n) : tensor(m % static_cast<int>(shape.m));
        data.push_back(operand_data(shape, inputs, i));
    }
    Func result("result");
    result(n, m) = Internal::common_subexpression_elimination(machine_expression(*shape.epilogue, values), true);
    vocabulary::fix_shape(result.output_buffer(), {shape.n, rows});
    kernel.pipeline = Pipeline(result);
    kernel.outputs = {{"result", {shape.n, rows}}};
    return run_on_host(kernel, data).at(0);
}

Reference epilogue_reference(const GemmShape &shape, const Reference &product, double product_ulps,
                             const std::vector<TensorData> &inputs) {
    if (!shape.epilogue) return product;
    Reference reference;
    std::map<std::string, double> values;
    for (size_t at = 0; at < product.values.size(); at++) {
        for (size_t i = 0; i < shape.operands.size(); i++) {
            const TensorData &data = operand_data(shape, inputs, i);
            const auto kind = shape.operands[i].kind;
            const auto n = static_cast<size_t>(shape.n), m = static_cast<size_t>(shape.m);
            values[shape.operands[i].name] = bf16_float(data[kind == GemmOperand::Matrix ? at
                                                             : kind == GemmOperand::Row  ? at % n
                                                                                         : at / n % m]);
        }
        const Grown grown =
            exact_of_rounded(*shape.epilogue, values, product_name, product.values[at], product.peaks[at], product_ulps);
        reference.values.push_back(grown.value);
        reference.peaks.push_back(grown.peak);
    }
    return reference;
}

double epilogue_tolerance_ulps(const GemmShape &shape) { return shape.epilogue ? 3.0 * shape.epilogue->calls() : 0; }

}  // namespace atalla
