#include "tools/model_options.h"

#include <fmt/format.h>

#include "graph_import/schema.h"
#include "isa/error.h"
#include "tools/precision.h"

namespace atalla {

namespace {

// "s77=1,batch=8".
Bindings parse_sizes(const std::string &text) {
    Bindings bindings;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find(',', at), text.size()), equals = text.find('=', at);
        size_t used = 0;
        int64_t value = 0;
        try {
            if (equals >= end) throw std::invalid_argument("");
            value = std::stoll(text.substr(equals + 1, end - equals - 1), &used);
        } catch (const std::exception &) {
            used = 0;
        }
        if (used == 0 || used != end - equals - 1) throw Error(fmt::format("--sizes takes NAME=NUMBER,..., not '{}'", text));
        bindings[text.substr(at, equals - at)] = value;
        at = end + 1;
    }
    return bindings;
}

// Names of ATen's operators are known; others may be of a library of the caller.
std::string known_operator(const std::string &target) {
    if (target.find("::") == std::string::npos) return fmt::format("'{}' has no namespace: write aten::{}", target, target);
    return target.starts_with("aten::") && find_schema(target) == nullptr ? fmt::format("ATen has no operator {}", target) : "";
}

}  // namespace

std::vector<CLI::Option *> add_model_options(CLI::App &app, ModelOptions &options) {
    return {
        app.add_option("--machine", options.machine, "A machine's name or file")->capture_default_str(),
        app.add_option_function<std::vector<std::string>>(
               "--sizes",
               [&options](const std::vector<std::string> &texts) {
                   for (const std::string &text : texts) options.sizes.push_back(parse_sizes(text));
               },
               "Values of the symbolic sizes, NAME=NUMBER,...; once for each specialization (default: those of the export)")
            ->allow_extra_args(false),
        add_precision(app, options.high_precision),
        app.add_flag("--no-fuse", options.no_fuse, "A kernel for every operator"),
        app.add_option("--on-host", options.on_host,
                       "An operator that is to run on the host, such as aten::softmax.int; may be repeated")
            ->allow_extra_args(false)
            ->check(known_operator),
        app.add_option("--host-kernel", options.registered,
                       "An operator whose host kernel the program registers before it runs the model; may be repeated")
            ->allow_extra_args(false)
            ->check(known_operator),
        app.add_option("--db", options.database,
                       "Database file (default: $ATALLA_DB, or atalla-tune/atalla.db in the user's data folder)"),
    };
}

}  // namespace atalla
