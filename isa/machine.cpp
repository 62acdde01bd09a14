// Machine files: found, read and checked.
#include "isa/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "isa/error.h"
#include "isa/machine_parameters.h"
#include "isa/read_file.h"

namespace atalla {

namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// A file, with what it is based on already applied: parameters in table order.
struct MachineFile {
    std::string name;
    MachineModel model = MachineModel::Hardware;
    std::vector<MachineParameter> parameters;
};

[[noreturn]] void fail(const fs::path &file, const std::string &sentence) {
    throw Error(fmt::format("{}: {}", file.string(), sentence));
}

Json parse_file(const fs::path &file) {
    std::ifstream stream = open_to_read(file);
    try {
        Json json = Json::parse(stream);
        if (!json.is_object()) fail(file, "a machine file must be a JSON object");
        return json;
    } catch (const nlohmann::json::parse_error &error) {
        fail(file, fmt::format("not valid JSON near byte {}", error.byte));
    } catch (const nlohmann::json::out_of_range &) {
        fail(file, "not valid JSON: it holds a number that is too large");
    }
}

std::string text_field(const fs::path &file, const Json &object, const std::string &where, const std::string &key) {
    const auto found = object.find(key);
    if (found == object.end()) fail(file, fmt::format("{}{} is missing", where, key));
    if (!found->is_string() || found->get_ref<const std::string &>().empty()) {
        fail(file, fmt::format("{}{} must be a text", where, key));
    }
    return found->get<std::string>();
}

void check_known_keys(const fs::path &file, const Json &object, const std::string &where,
                      const std::vector<std::string> &known) {
    for (const auto &[key, value] : object.items()) {
        if (std::ranges::find(known, key) == known.end()) {
            const std::string nearest = nearest_name(key, known);
            fail(file, fmt::format("{}{} is not a key of a machine file{}", where, key,
                                   nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)));
        }
    }
}

int64_t checked_value(const fs::path &file, const Json &given, const ParameterEntry &entry) {
    if (entry.flag) {
        if (!given.is_boolean()) fail(file, fmt::format("{} is {}, but it must be true or false", entry.key, given.dump()));
        return given.get<bool>();
    }
    const bool fits =
        given.is_number_integer() && !(given.is_number_unsigned() && given.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX));
    if (!fits) fail(file, fmt::format("{} is {}, but it must be a whole number of {}", entry.key, given.dump(), entry.unit));
    const int64_t value = given.get<int64_t>();
    if (value < entry.low || value > entry.high) {
        fail(file, fmt::format("{} is {}, but it must be {}", entry.key, value, range_text(entry)));
    }
    return value;
}

int64_t value_field(const fs::path &file, const Json &object, const ParameterEntry &entry) {
    const auto found = object.find("value");
    if (found == object.end()) fail(file, fmt::format("{} has no value", entry.key));
    return checked_value(file, *found, entry);
}

std::vector<int64_t> plausible_field(const fs::path &file, const Json &object, const ParameterEntry &entry) {
    std::vector<int64_t> values;
    const auto found = object.find("plausible");
    if (found == object.end()) return values;
    if (!found->is_array()) fail(file, fmt::format("{}.plausible must be a list of values", entry.key));
    for (const Json &value : *found) values.push_back(checked_value(file, value, entry));
    return values;
}

// One parameter as the file gives it. A file that is based on another one inherits unit and meaning.
void read_parameter(const fs::path &file, const ParameterEntry &entry, const Json &object, bool inherits,
                    MachineParameter &parameter) {
    if (!object.is_object()) {
        fail(file, fmt::format("{} must be an object with value, unit, meaning, source and confidence", entry.key));
    }
    const std::string where = fmt::format("{}.", entry.key);
    check_known_keys(file, object, where, {"value", "unit", "meaning", "source", "confidence", "plausible"});
    parameter.key = entry.key;
    parameter.value = value_field(file, object, entry);
    parameter.plausible = plausible_field(file, object, entry);
    parameter.source = text_field(file, object, where, "source");
    parameter.confidence = text_field(file, object, where, "confidence");
    if (parameter.confidence.size() != 1 || std::string_view("MRDTX").find(parameter.confidence[0]) == std::string_view::npos) {
        fail(file, fmt::format("{}confidence is \"{}\", but it must be M, R, D, T or X", where, parameter.confidence));
    }
    if (!inherits || object.contains("unit")) parameter.unit = text_field(file, object, where, "unit");
    if (!inherits || object.contains("meaning")) parameter.meaning = text_field(file, object, where, "meaning");
    if (parameter.unit != entry.unit) {
        fail(file, fmt::format("{} is counted in \"{}\", not in \"{}\"", entry.key, entry.unit, parameter.unit));
    }
}

// Where shipped machines are looked for, first match wins: ATALLA_MACHINES, an installed tree, the source tree.
std::vector<fs::path> machine_folders() {
    std::vector<fs::path> folders;
    if (const char *chosen = std::getenv("ATALLA_MACHINES"); chosen != nullptr && *chosen != '\0') folders.emplace_back(chosen);
    std::error_code ignored;
    const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
    if (!program.empty()) folders.push_back(program.parent_path().parent_path() / "share" / "atalla-tune" / "machines");
    folders.emplace_back(ATALLA_MACHINES_FOLDER);
    return folders;
}

// The file of a machine by its name, an empty path if there is none.
fs::path file_of_machine(const std::string &name) {
    for (const fs::path &folder : machine_folders()) {
        fs::path file = folder / (name + ".json");
        if (fs::exists(file)) return file;
    }
    return {};
}

MachineFile read_file(const fs::path &file, int depth) {
    constexpr int longest_chain = 8;
    if (depth > longest_chain) fail(file, fmt::format("\"based_on\" leads through more than {} files", longest_chain));
    const Json json = parse_file(file);
    check_known_keys(file, json, "", {"name", "model", "description", "based_on", "parameters"});

    MachineFile result;
    const bool inherits = json.contains("based_on");
    if (inherits) {
        const std::string base = text_field(file, json, "", "based_on");
        if (base.find('/') != std::string::npos)
            fail(file, fmt::format("\"based_on\" is \"{}\", but it must be a name, not a path", base));
        fs::path base_file = file.parent_path() / (base + ".json");
        if (!fs::exists(base_file)) base_file = file_of_machine(base);
        if (base_file.empty())
            fail(file,
                 fmt::format("it is based on \"{0}\", but there is no {0}.json beside it and no machine of that name", base));
        result = read_file(base_file, depth + 1);
    } else {
        result.parameters.resize(parameter_table().size());
    }
    result.name = text_field(file, json, "", "name");
    if (!inherits || json.contains("model")) {
        const std::string model = text_field(file, json, "", "model");
        if (model != "hardware" && model != "functional") {
            fail(file, fmt::format("model is \"{}\", but it must be \"hardware\" or \"functional\"", model));
        }
        result.model = model == "hardware" ? MachineModel::Hardware : MachineModel::Functional;
    }

    const auto parameters = json.find("parameters");
    if (parameters == json.end() || !parameters->is_object()) fail(file, "it has no object \"parameters\"");
    for (const auto &[group, members] : parameters->items()) {
        if (!members.is_object()) fail(file, fmt::format("parameters.{} must be an object of parameters", group));
        for (const auto &[member, object] : members.items()) {
            const std::string key = fmt::format("{}.{}", group, member);
            const ParameterEntry *entry = find_parameter(key);
            if (entry == nullptr) fail(file, fmt::format("{} is not a machine parameter{}", key, parameter_hint(key)));
            read_parameter(file, *entry, object, inherits, result.parameters[entry - parameter_table().data()]);
        }
    }
    for (size_t index = 0; index < result.parameters.size(); index++) {
        if (result.parameters[index].key.empty()) {
            const std::string key(parameter_table()[index].key), unit = key.substr(0, key.find('.'));
            fail(file, fmt::format("{} is missing; a machine file gives every parameter or names another in \"based_on\"",
                                   parameters->contains(unit) ? key : "the unit " + unit));
        }
    }
    return result;
}

}  // namespace

Machine load_machine(const std::filesystem::path &file) {
    const MachineFile read = read_file(file, 0);
    Machine machine;
    machine.name = read.name;
    machine.model = read.model;
    for (size_t index = 0; index < read.parameters.size(); index++) {
        parameter_table()[index].set(machine, read.parameters[index].value);
    }
    try {
        check_machine(machine);
    } catch (const Error &error) {
        fail(file, error.what());
    }
    return machine;
}

std::vector<MachineParameter> machine_parameters(const std::filesystem::path &file) { return read_file(file, 0).parameters; }

std::vector<std::string> shipped_machines() {
    std::vector<std::string> names;
    for (const fs::path &folder : machine_folders()) {
        std::error_code ignored;
        for (const fs::directory_entry &entry : fs::directory_iterator(folder, ignored)) {
            if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
        }
    }
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
}

Machine find_machine(const std::string &name_or_path) { return load_machine(find_machine_file(name_or_path)); }

std::filesystem::path find_machine_file(const std::string &name_or_path) {
    if (name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json")) return name_or_path;
    if (const fs::path file = file_of_machine(name_or_path); !file.empty()) return file;
    const std::vector<std::string> names = shipped_machines();
    const std::string nearest = nearest_name(name_or_path, names);
    throw Error(fmt::format("there is no machine \"{}\" among {}{}", name_or_path, fmt::join(names, ", "),
                            nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)));
}

}  // namespace atalla
