#include "tools/verify_database.h"

#include <map>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "autotune/operator_task.h"
#include "autotune/verify.h"
#include "generators/registry.h"
#include "isa/error.h"

namespace atalla {

namespace {

// Evaluates stored trials with the machines known here; keeps the inputs of a workload while its trials last.
class Reevaluation {
public:
    explicit Reevaluation(const std::vector<Machine> &machines) {
        for (const Machine &machine : machines) machines_.emplace(machine.fingerprint(), machine);
    }

    std::optional<Trial> operator()(const StoredTrial &stored) {
        const auto machine = machines_.find(stored.key.machine);
        if (stored.key.compiler != compiler_ || machine == machines_.end()) return std::nullopt;
        if (stored.key != key_) {
            evaluator_ = std::make_unique<Evaluator>(find_operator(stored.key.op).parse(stored.key.workload), machine->second);
            key_ = stored.key;
        }
        return trial_of(stored.trial.point, evaluator_->evaluate(stored.trial.point));
    }

private:
    std::map<std::string, Machine> machines_;
    const std::string compiler_ = compiler_fingerprint();
    TrialKey key_;
    std::unique_ptr<Evaluator> evaluator_;
};

std::vector<Machine> machines_to_check(const std::string &only) {
    if (!only.empty()) return {find_machine(only)};
    std::vector<Machine> machines;
    for (const std::string &name : shipped_machines()) machines.push_back(find_machine(name));
    return machines;
}

}  // namespace

void verify_database_file(const VerifyDatabaseOptions &options, std::ostream &out) {
    const std::vector<Machine> machines = machines_to_check(options.machine);
    const Database database(options.file, Database::Access::ReadOnly);
    VerifyOptions check;
    if (!options.machine.empty()) check.filter.machine = machines.front().fingerprint();
    check.filter.op = options.op;
    check.filter.workload = options.workload;
    check.sample = options.sample;
    check.seed = options.seed;
    check.winners_only = options.winners_only;
    auto reevaluation = std::make_shared<Reevaluation>(machines);
    const VerifyReport report = verify_database(
        database, [reevaluation](const StoredTrial &stored) { return (*reevaluation)(stored); }, check);
    if (options.json) {
        nlohmann::ordered_json json = {{"checked", report.checked},
                                       {"equal", report.equal},
                                       {"skipped", report.skipped},
                                       {"different", nlohmann::json::array()}};
        for (const VerifyMismatch &mismatch : report.mismatches)
            json["different"].push_back({{"op", mismatch.stored.key.op},
                                         {"workload", mismatch.stored.key.workload},
                                         {"point", nlohmann::json(mismatch.stored.trial.point)},
                                         {"what", mismatch.what}});
        out << json.dump(2) << '\n';
    } else {
        out << report.text();
    }
    if (!report.ok())
        throw Error(fmt::format("{} of {} stored trials do not repeat", report.mismatches.size(), report.checked));
}

}  // namespace atalla
