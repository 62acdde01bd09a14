// Workloads of rows, reductions and windows at random shapes and schedules on one machine.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "generators/evaluate.h"
#include "generators/registry.h"
#include "schedules/random.h"
#include "simulator/numerics.h"
#include "tests/generators/sampled_point.h"
#include "tests/support/settings.h"

namespace atalla {

// A few random shapes each, and more behind --long.
inline const int rounds = test_rounds(2);

class Rows : public testing::Test {
protected:
    const Machine machine = find_machine(test_machine());
    Random random{20261121 + test_seed()};

    int64_t size(int64_t largest) {
        constexpr std::array<int64_t, 9> edges = {1, 2, 31, 32, 33, 64, 65, 96, 97};
        return std::min(largest, random.below(2) == 0 ? edges[random.below(edges.size())]
                                                      : 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(largest))));
    }
    int64_t below(int64_t end) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(end))); }

    void check(const std::string &name, const WorkloadArguments &arguments, uint64_t seed) {
        std::string text;
        for (const auto &[key, value] : arguments) text += fmt::format(" --{} {}", key, value);
        SCOPED_TRACE(fmt::format("{}{}", name, text));
        const Operator &op = find_operator(name);
        const std::shared_ptr<const Workload> workload = op.workload(arguments);
        EXPECT_EQ(op.parse(workload->text())->text(), workload->text());
        const Evaluator evaluator(workload, machine, seed);
        const std::optional<Point> point = check_sampled_point(*workload, machine, evaluator, random);
        if (!point) return;
        EXPECT_GT(workload->draft(machine, *point), 0);
        EXPECT_FALSE(workload->words(machine, *point).empty());
    }

    // The results for these values, at the first schedule of the space.
    std::vector<double> results(const std::string &name, const WorkloadArguments &arguments,
                                const std::vector<double> &values) {
        const auto workload = find_operator(name).workload(arguments);
        const Point point = *sample(workload->space(machine), random);
        const KernelDefinition kernel = workload->build(machine, point);
        TensorData data;
        for (double value : values) data.push_back(bf16_truncate(static_cast<float>(value)));
        const KernelRun run = run_kernel(kernel, codegen::compile(kernel.pipeline, kernel.arguments, machine), machine,
                                         std::vector<TensorData>(workload->inputs().size(), data));
        EXPECT_TRUE(run.result.ok) << run.result.error;
        std::vector<double> out;
        for (uint16_t one : run.outputs.at(0)) out.push_back(static_cast<double>(bf16_float(one)));
        return out;
    }
};

}  // namespace atalla
