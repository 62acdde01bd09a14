#include "tools/workload_options.h"

#include <string_view>

#include <fmt/format.h>

#include "generators/registry.h"
#include "isa/error.h"
#include "tools/precision.h"

namespace atalla {

namespace {

// The operator that a command line names by --op, before it is parsed; null if it names none or one that does not exist.
const Operator *named_operator(int argc, char **argv) {
    const std::string_view option = "--op", assignment = "--op=";
    std::string name;
    for (int i = 1; i < argc; i++) {
        const std::string_view word = argv[i];
        if (word == option && i + 1 < argc)
            name = argv[i + 1];
        else if (word.starts_with(assignment))
            name = word.substr(assignment.size());
    }
    if (name.empty()) return nullptr;
    try {
        return &find_operator(name);
    } catch (const Error &) {
        return nullptr;  // op() says what is wrong
    }
}

}  // namespace

WorkloadOptions::WorkloadOptions(CLI::App &app, int argc, char **argv, bool sizes) {
    app.add_option("--op", op_, "Operator: a name of ./atalla ops, or an ATen schema")->capture_default_str();
    if (sizes) app.add_option("--shape", shape_, "Sizes of the tensors as PyTorch has them, 128x64,64; of gemm: MxNxK");
    precision_ = add_precision(app, high_precision_);
    const Operator *named = named_operator(argc, argv);
    if (named != nullptr) {
        add_arguments(app, *named, sizes, fmt::format("Arguments of {}", named->name()));
        app.footer(fmt::format("{}: {}\n  {}\n\n{}", named->name(), named->help(), example_line(*named), app.get_footer()));
    }
    // With a named operator those of the others are known, so that a misplaced one gets a good message, but not listed.
    for (const Operator *op : operators()) add_arguments(app, *op, sizes, named == nullptr ? "Arguments of operators" : "");
}

void WorkloadOptions::add_arguments(CLI::App &app, const Operator &op, bool sizes, const std::string &group) {
    for (const WorkloadArgument &argument : op.arguments()) {
        if (argument.size && !sizes) continue;
        const std::string option = fmt::format("--{}", argument.name);
        if (app.get_option_no_throw(option) != nullptr) continue;  // another operator's of the same name
        if (argument.flag)
            app.add_flag(option, flags_[argument.name], argument.help)->group(group);
        else
            app.add_option(option, values_[argument.name], argument.help)->group(group);
    }
}

const Operator &WorkloadOptions::op() const { return find_operator(op_); }

WorkloadArguments WorkloadOptions::arguments() const {
    WorkloadArguments all = given();
    if (!high_precision_) return all;
    const Operator &named = op();
    if (!takes_argument(named, "sums"))
        throw Error(fmt::format("{} adds in one order only: --precision high is for matrix products", named.name()));
    all.try_emplace("sums", "blocked");
    return all;
}

WorkloadArguments WorkloadOptions::given() const {
    WorkloadArguments given;
    if (!shape_.empty()) given["shape"] = shape_;
    for (const auto &[name, value] : values_)
        if (!value.empty()) given[name] = value;
    for (const auto &[name, value] : flags_)
        if (value) given[name] = "true";
    return given;
}

}  // namespace atalla
