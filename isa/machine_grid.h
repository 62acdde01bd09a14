// Machines around a machine: with some values changed, and grids of them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "isa/machine.h"

namespace atalla {

struct Setting {
    std::string key;
    int64_t value = 0;  // flags are 0 and 1
};

struct Sweep {
    std::string key;
    std::vector<int64_t> values;
};

// "vec.ii=2" or "sa.psum_in=true". Error naming what is wrong: no such key (with the nearest), no value, not a possible one.
Setting parse_setting(const std::string &text);
// "sa.credits=16,43" or "vec.ii=1..4". Error as above, also for a sweep without values and a range that runs backwards.
Sweep parse_sweep(const std::string &text);
// "vec.ii=2"
std::string setting_text(const Setting &setting);

struct MachineVariant {
    Machine machine;                // named after the base and its settings: "ax01 vec.ii=2"
    std::vector<Setting> settings;  // those of the sweeps, in their order
};

// The base with the fixed settings, then every combination of the sweeps' values, the last sweep fastest. Each is checked
// like a machine file: Error naming the combination that is impossible. Error if a key is given twice, or if there are more
// than 10,000 combinations.
std::vector<MachineVariant> machine_grid(const Machine &base, const std::vector<Setting> &fixed,
                                         const std::vector<Sweep> &sweeps);

}  // namespace atalla
