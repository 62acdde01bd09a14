// The command line options that say which operator at which shape and precision.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>

#include "generators/operator.h"

namespace atalla {

class WorkloadOptions {
public:
    // Adds --op, --precision and, for each operator of the registry, the options of its arguments; operators share those of
    // equal name. Where the command line names an operator, --help shows its example and only its arguments. Without `sizes`
    // only the arguments that are no sizes: where tensors give those. Set the footer of `app` before.
    WorkloadOptions(CLI::App &app, int argc, char **argv, bool sizes);

    const Operator &op() const;
    // Those that were given on the command line by their names.
    WorkloadArguments given() const;
    // The same with what --precision stands for. Error if that is nothing of the operator.
    WorkloadArguments arguments() const;
    bool high_precision() const { return high_precision_; }
    CLI::Option *precision_option() const { return precision_; }

private:
    void add_arguments(CLI::App &app, const Operator &op, bool sizes, const std::string &group);

    std::string op_ = "gemm";
    std::string shape_;
    bool high_precision_ = false;
    CLI::Option *precision_ = nullptr;
    std::map<std::string, std::string> values_;
    std::map<std::string, bool> flags_;
};

}  // namespace atalla
