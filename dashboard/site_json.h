// The data of the dashboard's pages; web/*.js reads these objects.
#pragma once

#include <nlohmann/json.hpp>

#include "dashboard/kernel_record.h"
#include "dashboard/site.h"

namespace atalla {

// A row of the page of all kernels.
nlohmann::ordered_json kernel_summary_json(const KernelRecord &kernel, const KernelNotes &notes);
// A kernel's own page.
nlohmann::ordered_json kernel_detail_json(const KernelRecord &kernel, const KernelNotes &notes);
// A machine of the database with its peak rates, if one of `known` has its fingerprint.
nlohmann::ordered_json machine_json(const std::string &fingerprint, const std::string &name, const std::vector<Machine> &known);
nlohmann::ordered_json models_json(const std::vector<SiteModel> &models);
nlohmann::ordered_json benchmarks_json(const SiteBenchmarks &benchmarks, const CompareOptions &options);

}  // namespace atalla
