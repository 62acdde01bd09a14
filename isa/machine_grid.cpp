#include "isa/machine_grid.h"

#include <fmt/format.h>

#include <charconv>
#include <set>

#include "isa/error.h"
#include "isa/machine_parameters.h"

namespace atalla {

namespace {

constexpr size_t most_machines = 10'000;

// The key of "key=rest"; what a text without it should look like is `example`.
std::pair<const ParameterEntry *, std::string> split(const std::string &text, const char *example) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) throw Error(fmt::format("'{}' has no value: write it as {}", text, example));
    if (equals == 0) throw Error(fmt::format("'{}' names no machine parameter: write it as {}", text, example));
    const std::string key = text.substr(0, equals);
    const ParameterEntry *entry = find_parameter(key);
    if (entry == nullptr) throw Error(fmt::format("{} is not a machine parameter{}", key, parameter_hint(key)));
    return {entry, text.substr(equals + 1)};
}

int64_t parse_value(const ParameterEntry &entry, const std::string &text) {
    if (entry.flag && (text == "true" || text == "false")) return text == "true";
    int64_t value = 0;
    const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || failure != std::errc() || stop != text.data() + text.size() || value < entry.low ||
        value > entry.high) {
        throw Error(fmt::format("{} cannot be '{}': it must be {}", entry.key, text, range_text(entry)));
    }
    return value;
}

std::string value_text(const Setting &setting) {
    if (find_parameter(setting.key)->flag) return setting.value != 0 ? "true" : "false";
    return std::to_string(setting.value);
}

}  // namespace

Setting parse_setting(const std::string &text) {
    const auto [entry, value] = split(text, "vec.ii=2");
    return {std::string(entry->key), parse_value(*entry, value)};
}

Sweep parse_sweep(const std::string &text) {
    const auto [entry, values] = split(text, "vec.ii=1,2,3 or vec.ii=1..3");
    Sweep sweep{std::string(entry->key), {}};
    if (values.empty())
        throw Error(fmt::format("the sweep over {} has no values: write it as {}=1,2,3 or {}=1..3", entry->key, entry->key,
                                entry->key));
    if (const size_t dots = values.find(".."); dots != std::string::npos) {
        const int64_t first = parse_value(*entry, values.substr(0, dots)), last = parse_value(*entry, values.substr(dots + 2));
        if (first > last) throw Error(fmt::format("the sweep {} is empty: {} is larger than {}", text, first, last));
        if (static_cast<uint64_t>(last - first) >= most_machines)
            throw Error(fmt::format("the sweep {} has more than {} values", text, most_machines));
        for (int64_t value = first; value <= last; value++) sweep.values.push_back(value);
        return sweep;
    }
    for (size_t begin = 0; begin <= values.size();) {
        const size_t end = std::min(values.find(',', begin), values.size());
        sweep.values.push_back(parse_value(*entry, values.substr(begin, end - begin)));
        begin = end + 1;
    }
    return sweep;
}

std::string setting_text(const Setting &setting) { return fmt::format("{}={}", setting.key, value_text(setting)); }

std::vector<MachineVariant> machine_grid(const Machine &base, const std::vector<Setting> &fixed,
                                         const std::vector<Sweep> &sweeps) {
    std::set<std::string> keys;
    const auto take_key = [&](const std::string &key) {
        if (!keys.insert(key).second) throw Error(fmt::format("{} is given twice", key));
    };
    size_t total = 1;
    for (const Setting &setting : fixed) take_key(setting.key);
    for (const Sweep &sweep : sweeps) {
        take_key(sweep.key);
        if (sweep.values.empty()) throw Error(fmt::format("the sweep over {} has no values", sweep.key));
        total *= sweep.values.size();
        if (total > most_machines) throw Error(fmt::format("the sweeps have more than {} combinations", most_machines));
    }
    std::vector<MachineVariant> variants;
    for (size_t number = 0; number < total; number++) {
        MachineVariant variant{base, {}};
        size_t rest = number;
        for (auto sweep = sweeps.rbegin(); sweep != sweeps.rend(); ++sweep) {
            variant.settings.insert(variant.settings.begin(), {sweep->key, sweep->values[rest % sweep->values.size()]});
            rest /= sweep->values.size();
        }
        for (const auto &settings : {fixed, variant.settings}) {
            for (const Setting &setting : settings) {
                set_parameter(variant.machine, setting.key, setting.value);
                variant.machine.name += ' ' + setting_text(setting);
            }
        }
        check_machine(variant.machine);
        variants.push_back(std::move(variant));
    }
    return variants;
}

}  // namespace atalla
