#include "generators/convolution_product.h"

#include "generators/gemm_epilogue.h"
#include "generators/matmul_operators.h"

namespace atalla {

std::unique_ptr<Workload> convolution_as_product(const WorkloadRequest &request, const ConvolutionShape &shape, Shape result,
                                                 std::shared_ptr<const Workload> turned) {
    GemmShape product;
    product.k = shape.in;
    const int64_t places = shape.height * shape.width;
    ExpressionNode value = ExpressionNode::input(product_name);
    if (shape.channels_last) {
        product.m = shape.images * places;
        product.n = shape.out;
        product.bias = shape.bias;
    } else {
        product.m = shape.out;
        product.n = places;
        product.b_transposed = false;
        product.b_first = true;
        product.batch = {{shape.images, false, true, true}};
        if (shape.bias) {
            product.operands = {{"bias", GemmOperand::Column}};
            value = ExpressionNode::call("add", {value, ExpressionNode::input("bias")});
        }
    }
    value = shape.epilogue.of(value);
    if (value.kind == ExpressionNode::Call) product.epilogue = value;
    plan_epilogue(product);
    const auto better = [turned, planes = !shape.channels_last](const Machine &machine) {
        return planes ? turned->arrangements(machine) : std::vector<Arrangement>{};
    };
    return matmul_workload(request, product, std::move(result), better);
}

}  // namespace atalla
