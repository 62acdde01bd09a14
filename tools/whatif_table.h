// The answers of `atalla whatif`: as a table, as JSON, as a plot.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "isa/machine_grid.h"
#include "schedules/bounds.h"

namespace atalla {

// One machine of the grid.
struct WhatIf {
    MachineVariant variant;
    int64_t cycles = 0;          // 0 if it does not run
    std::string problem;         // why it does not run
    std::optional<Bound> bound;  // of an operator
    std::string limit;           // what the run was bound by (Profile::bound_by)
    double limit_share = 0;      // of the cycles
    std::string schedule;        // of an operator
};

// A column for each setting, then cycles, their change against the first row that runs, lower bound, and what bound the run.
std::string whatif_text(const std::vector<WhatIf> &rows);
nlohmann::ordered_json whatif_json(const std::vector<WhatIf> &rows);
// Bars of cycles with the lower bound in each and what binds beside it, as SVG.
std::string whatif_svg(const std::string &title, const std::vector<WhatIf> &rows);

}  // namespace atalla
