// What the registry and the code generator add to a row of the database, for the dashboard.
#pragma once

#include <string>
#include <vector>

#include "dashboard/site.h"
#include "isa/machine.h"

namespace atalla {

// Machines that ship with atalla-tune.
std::vector<Machine> known_machines();

// Title, bound and operations of a kernel whose operator and machine are known here; words and program of the winner too,
// these only if it was made by this compiler.
DescribeKernel kernel_describer(std::vector<Machine> machines);

// The layers of files of shapes (examples/shapes/*.json).
SiteModel site_model(const std::filesystem::path &shapes_file);

}  // namespace atalla
