#include "tools/sensitivity.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "isa/error.h"
#include "isa/machine_parameters.h"
#include "simulator/report.h"

namespace atalla {

namespace {

// Where no other value is plausible more than others: the double, or what is possible.
std::vector<int64_t> doubled(const ParameterEntry &entry, int64_t value) {
    if (entry.low == entry.high) return {};
    if (value == entry.high) return {std::max(entry.low, value / 2)};
    return {std::min(entry.high, std::max<int64_t>(1, 2 * value))};
}

}  // namespace

std::vector<MachineVariant> sensitivity_variants(const std::string &name_or_path, const Machine &base) {
    std::vector<MachineVariant> variants = {{base, {}}};
    for (const MachineParameter &parameter : machine_parameters(find_machine_file(name_or_path))) {
        const ParameterEntry &entry = *find_parameter(parameter.key);
        const int64_t usual = entry.get(base);
        for (const int64_t value : parameter.plausible.empty() ? doubled(entry, usual) : parameter.plausible) {
            if (value == usual) continue;
            try {
                variants.push_back(machine_grid(base, {}, {{parameter.key, {value}}}).front());
            } catch (const Error &) {
                // Only together with another parameter is this value possible.
            }
        }
    }
    return variants;
}

std::string sensitivity_text(const std::vector<WhatIf> &rows) {
    const WhatIf &base = rows.front();
    if (base.cycles == 0) throw Error(fmt::format("nothing to compare with: {}", base.problem));
    std::vector<const WhatIf *> changed;
    for (const WhatIf &row : rows)
        if (!row.variant.settings.empty()) changed.push_back(&row);
    const auto change = [&](const WhatIf &row) {
        return 100.0 * (static_cast<double>(row.cycles) / static_cast<double>(base.cycles) - 1);
    };
    std::ranges::stable_sort(changed, std::greater(),
                             [&](const WhatIf *row) { return row->cycles == 0 ? INFINITY : std::abs(change(*row)); });
    std::string text = fmt::format(
        "\n{} cycles as it is, bound by {}\n\n| parameter | value | instead | cycles | change |\n|---|---|---|---|---|\n",
        grouped(static_cast<uint64_t>(base.cycles)), base.limit);
    for (const WhatIf *row : changed) {
        const Setting &setting = row->variant.settings.front();
        const int64_t usual = find_parameter(setting.key)->get(base.variant.machine);
        const auto value = [&](int64_t of) { return setting_text({setting.key, of}).substr(setting.key.size() + 1); };
        text += fmt::format("| `{}` | {} | {} | {} |\n", setting.key, value(usual), value(setting.value),
                            row->cycles == 0
                                ? fmt::format("refused: {} |", row->problem)
                                : fmt::format("{} | {:+.2f} %", grouped(static_cast<uint64_t>(row->cycles)), change(*row)));
    }
    return text;
}

}  // namespace atalla
