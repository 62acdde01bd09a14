#include "tools/workload_options.h"

#include <fmt/format.h>

#include "generators/registry.h"

namespace atalla {

WorkloadOptions::WorkloadOptions(CLI::App &app, bool sizes) {
    app.add_option("--op", op_, "Operator: its name or an ATen schema")->capture_default_str();
    if (sizes) app.add_option("--shape", shape_, "All sizes at once, as 512x512x512: m, n and k for gemm");
    for (const Operator *op : operators()) {
        for (const WorkloadArgument &argument : op->arguments()) {
            if (argument.size && !sizes) continue;
            const std::string option = "--" + argument.name, group = op->name() + ": " + op->help();
            if (argument.flag && flags_.emplace(argument.name, false).second) app.add_flag(option, flags_[argument.name], argument.help)->group(group);
            if (!argument.flag && values_.emplace(argument.name, "").second) app.add_option(option, values_[argument.name], argument.help)->group(group);
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
