// The documentation page of a machine file.
#include <fmt/format.h>

#include "isa/machine_parameters.h"

namespace atalla {

namespace {

std::string value_text(const ParameterEntry &entry, int64_t value) {
    if (entry.flag) return value != 0 ? "true" : "false";
    return std::to_string(value);
}

std::string plausible_text(const ParameterEntry &entry, const std::vector<int64_t> &values) {
    std::string text;
    for (const int64_t value : values) text += (text.empty() ? "" : ", ") + value_text(entry, value);
    return text;
}

std::string possible_text(const ParameterEntry &entry) {
    if (entry.flag) return "true, false";
    if (entry.low == entry.high) return "fixed";
    return fmt::format("{}..{}", entry.low, entry.high);
}

}  // namespace

std::string describe_machine_markdown(const std::filesystem::path &file) {
    const Machine machine = load_machine(file);
    const std::vector<MachineParameter> parameters = machine_parameters(file);
    std::string page = fmt::format(R"(# Machine parameters

Everything the generator, the bounds and the simulator know about a machine comes from its file in `machines/`. This page is
written from `machines/{0}.json` (fingerprint `{1}`) by `describe_machine_markdown`; a test keeps it up to date.

A file gives every parameter, or names another file in `based_on` and gives only what differs. `L` is the latency from
the first execute cycle to the offered result, `ii` the initiation interval counted from issue. The possible values are
those that the simulator accepts, the plausible ones those that another source gives or a design might choose: what
`atalla whatif --sensitivity` tries. Rule numbers are those of the timing model (`simulator/timing/`), which follows them one by one.

Confidence of a value, in order of trust:

| class | meaning |
|---|---|
| M | measured upstream on RTL in a logic simulator |
| R | read off RTL, or off an upstream model that transcribes it |
| D | stated in an upstream document |
| T | assumed inside an upstream tool |
| X | assumed here, with a reason |
)",
                                   machine.name, machine.fingerprint());
    std::string_view group;
    for (size_t index = 0; index < parameters.size(); index++) {
        const ParameterEntry &entry = parameter_table()[index];
        const MachineParameter &parameter = parameters[index];
        if (entry.group() != group) {
            group = entry.group();
            page += fmt::format(
                "\n## {}\n\n| parameter | value | unit | possible | plausible | class | meaning | source |\n"
                "|---|---|---|---|---|---|---|---|\n",
                group);
        }
        page += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} | {} |\n", parameter.key, value_text(entry, parameter.value),
                            parameter.unit, possible_text(entry), plausible_text(entry, parameter.plausible),
                            parameter.confidence, parameter.meaning, parameter.source);
    }
    return page;
}

}  // namespace atalla
