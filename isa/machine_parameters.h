// The table behind struct Machine: key, unit, possible range and accessors of every parameter.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "isa/machine.h"

namespace atalla {

struct ParameterEntry {
    std::string_view key;   // "vec.ii"
    std::string_view unit;  // "cycles", "bytes", ...; "true or false" for a flag
    int64_t low, high;      // what the simulator supports, both inclusive
    bool flag;              // a boolean member
    int64_t (*get)(const Machine &);
    void (*set)(Machine &, int64_t);

    std::string_view group() const { return key.substr(0, key.find('.')); }
    std::string_view member() const { return key.substr(key.find('.') + 1); }
};

// The file of a shipped machine, or the path itself, as find_machine() reads it.
std::filesystem::path find_machine_file(const std::string &name_or_path);

// Every parameter, in the order of struct Machine.
std::span<const ParameterEntry> parameter_table();
// nullptr if there is no such key.
const ParameterEntry *find_parameter(std::string_view key);
// ": did you mean vec.ii?" or nothing, to end a sentence about an unknown key.
std::string parameter_hint(std::string_view key);
// "1..64 cycles"
std::string range_text(const ParameterEntry &entry);

}  // namespace atalla
