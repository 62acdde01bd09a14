#include "tools/planned_model.h"

#include <optional>

#include <nlohmann/json.hpp>

#include "isa/machine.h"
#include "tools/compile_options.h"

namespace atalla {

PlannedModel planned_model(const Graph &graph, const ModelOptions &how, const std::set<std::string> &skipped_passes) {
    const Machine machine = find_machine(how.machine);
    CompileModelOptions options = compile_options(how);
    options.passes.skipped = skipped_passes;
    std::optional<Database> database = open_database(how, false);
    options.kernels.verify = false;  // nothing runs
    options.kernels.database = database ? &*database : nullptr;
    std::optional<ScheduleCache> cache;
    if (const std::filesystem::path kept = default_schedule_cache(machine.fingerprint()); !kept.empty())
        options.kernels.cache = &cache.emplace(kept);
    const ModelPlan plan = compile_model(graph, machine, options).plans.at(0);
    return {plan_text(plan), plan_json(plan).dump(2) + "\n", plan_svg(plan)};
}

}  // namespace atalla
