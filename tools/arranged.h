// Inputs that are constants of a model, such as the weights of a convolution: commands take them in the order that kernels
// read best, as compiled models do, unless the command line says how they lie.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "generators/operator.h"

namespace atalla {

struct ArrangedWorkload {
    std::shared_ptr<const Workload> workload;
    std::optional<Arrangement> arrangement;  // of the workload that was asked for; nothing: it is as it was asked for
    std::string note;                        // for people: what was arranged and how to have it otherwise

    // The inputs of the workload that was asked for, as `workload` takes them.
    std::vector<TensorData> inputs(std::vector<TensorData> asked) const;
};

// Of the orders that an input may have the one whose kernels take the fewest cycles: those of stored winners, or of the first
// schedules that the draft proposes. `given`: what the command line says. `database` may be empty: the default file.
ArrangedWorkload arranged(const Operator &op, std::shared_ptr<const Workload> workload, const WorkloadArguments &given,
                          const Machine &machine, const std::filesystem::path &database);

}  // namespace atalla
