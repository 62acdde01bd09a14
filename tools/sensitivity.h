// How much each machine parameter moves a program: one changed at a time, by the plausible values of the machine file.
#pragma once

#include <string>
#include <vector>

#include "isa/machine_grid.h"
#include "tools/whatif_table.h"

namespace atalla {

// The machine as it is, then one variant for each plausible value of each parameter in the machine's file; combinations that
// contradict other values are left out. `base` is the machine to change: that of the file, perhaps with settings.
std::vector<MachineVariant> sensitivity_variants(const std::string &name_or_path, const Machine &base);

// Rows of sensitivity_variants(): parameter, value, alternative, cycles and change, largest change first. Markdown.
std::string sensitivity_text(const std::vector<WhatIf> &rows);

}  // namespace atalla
