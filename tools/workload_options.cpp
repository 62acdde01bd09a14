#include "tools/workload_options.h"

#include <fmt/format.h>

#include "generators/registry.h"

namespace atalla {

WorkloadOptions::WorkloadOptions(CLI::App &app, bool sizes) {
    app.add_option("--op", op_, "Operator: a name of ./atalla ops, or an ATen schema")->capture_default_str();
    if (sizes) app.add_option("--shape", shape_, "Sizes of the tensors as PyTorch has them, 128x64,64; of gemm: MxNxK");
    for (const Operator *op : operators()) {
        for (const WorkloadArgument &argument : op->arguments()) {
            if (argument.size && !sizes) continue;
            const std::string option = fmt::format("--{}", argument.name), group = "Arguments of operators";
            if (app.get_option_no_throw(option) != nullptr) continue;   // another operator's of the same name
            if (argument.flag) app.add_flag(option, flags_[argument.name], argument.help)->group(group);
            else app.add_option(option, values_[argument.name], argument.help)->group(group);
        }
    }
}

const Operator &WorkloadOptions::op() const { return find_operator(op_); }

WorkloadArguments WorkloadOptions::arguments() const {
    WorkloadArguments given;
    if (!shape_.empty()) given["shape"] = shape_;
    for (const auto &[name, value] : values_)
        if (!value.empty()) given[name] = value;
    for (const auto &[name, value] : flags_)
        if (value) given[name] = "true";
    return given;
}

}  // namespace atalla
