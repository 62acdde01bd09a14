#include "tools/planned_model.h"

#include <filesystem>
#include <optional>

#include "db/default_path.h"
#include "isa/machine.h"
#include "model/compile_model.h"

namespace atalla {

PlannedModel planned_model(const Graph &graph, const std::string &machine_name, const std::set<std::string> &skipped_passes) {
    const Machine machine = find_machine(machine_name);
    CompileModelOptions options;
    options.passes.skipped = skipped_passes;
    std::optional<Database> database;
    if (std::filesystem::exists(default_database_path())) options.kernels.database = &database.emplace(default_database_path(), Database::Access::ReadOnly);
    std::optional<ScheduleCache> cache;
    if (const std::filesystem::path kept = default_schedule_cache(machine.fingerprint()); !kept.empty()) options.kernels.cache = &cache.emplace(kept);
    const ModelPlan plan = compile_model(graph, machine, options).plans.at(0);
    return {plan_text(plan), plan_svg(plan)};
}

}  // namespace atalla
