#include "generators/kernel_definition.h"

namespace atalla {

void KernelDefinition::add_input(std::string name, const Halide::ImageParam &tensor) {
    std::vector<int64_t> extents;
    for (int d = 0; d < tensor.dimensions(); d++)
        extents.push_back(Halide::Internal::as_const_int(tensor.parameter().extent_constraint(d)).value());
    add_input({std::move(name), std::move(extents)}, tensor);
}

void KernelDefinition::add_input(TensorSpec outside, const Halide::ImageParam &tensor) {
    arguments.push_back(tensor);
    inputs.push_back(std::move(outside));
}

codegen::CompileOptions KernelDefinition::compile_options(codegen::CompileOptions options) const {
    options.layouts = layouts;
    options.choices = choices;
    return options;
}

void KernelDefinition::lay_out(const Halide::Func &func, const codegen::PadLayout &layout) {
    layouts[func.name().substr(0, func.name().find('$'))] = layout;
}

}  // namespace atalla
