#include "tools/arranged.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "autotune/draft.h"
#include "autotune/operator_task.h"
#include "db/database.h"
#include "db/default_path.h"
#include "isa/error.h"

namespace atalla {

namespace {

constexpr int64_t no_kernel = std::numeric_limits<int64_t>::max();

// What a kernel takes, at most `limit` (0: no limit): the winner's cycles, or the fewest of a few schedules.
int64_t cycles_of(const Operator &op, const std::shared_ptr<const Workload> &workload, const Machine &machine,
                  const std::optional<Database> &database, int64_t limit) {
    const TuningTask task = tuning_task(op, std::make_shared<const Evaluator>(workload, machine));
    if (database)
        if (const std::optional<StoredTrial> stored = database->winner(task.key())) return stored->trial.cycles;
    constexpr uint64_t drafted = 1000, proposed = 8, seed = 1;
    constexpr int tried = 2;
    int64_t fewest = no_kernel;
    int ran = 0;
    for (const PricedPoint &priced : rank_by_draft(task, drafted, proposed, seed, 0).points) {
        const Trial trial = task.evaluate(priced.point, limit);
        if (trial.status == Trial::Ok) fewest = std::min(fewest, trial.cycles);
        ran += trial.status == Trial::Ok || trial.status == Trial::TimedOut;
        if (ran == tried) break;
    }
    return fewest;
}

}  // namespace

std::vector<TensorData> ArrangedWorkload::inputs(std::vector<TensorData> asked) const {
    if (!arrangement) return asked;
    TensorData &input = asked.at(arrangement->input);
    TensorData result;
    for (const int64_t element : arrangement->elements)
        result.push_back(element < 0 ? uint16_t{0} : input[static_cast<size_t>(element)]);
    input = std::move(result);
    return asked;
}

ArrangedWorkload arranged(const Operator &op, std::shared_ptr<const Workload> workload, const WorkloadArguments &given,
                          const Machine &machine, const std::filesystem::path &file) {
    std::vector<Arrangement> arrangements = workload->arrangements(machine);
    std::erase_if(arrangements, [&](const Arrangement &one) { return given.contains(one.argument); });
    ArrangedWorkload best{std::move(workload), {}, {}};
    if (arrangements.empty()) return best;
    const std::filesystem::path path = file.empty() ? default_database_path() : file;
    std::optional<Database> database;
    if (std::filesystem::exists(path)) database.emplace(path);
    int64_t fewest = no_kernel;
    const std::shared_ptr<const Workload> as_asked = best.workload;
    for (const Arrangement &one : arrangements) {
        const int64_t cycles = cycles_of(op, one.workload, machine, database, fewest == no_kernel ? 0 : fewest);
        if (best.arrangement && cycles >= fewest) continue;
        fewest = cycles;
        best = {one.workload, one,
                fmt::format("{} is arranged before the program runs, as constants of models are; --{} says how it lies",
                            op.tensors().at(one.input).name, one.argument)};
    }
    const bool has_schedules = count(as_asked->space(machine), 1) > 0;
    if (has_schedules && cycles_of(op, as_asked, machine, database, fewest == no_kernel ? 0 : fewest) < fewest)
        best = {as_asked, {}, {}};
    return best;
}

}  // namespace atalla
