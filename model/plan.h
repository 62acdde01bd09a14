// How a specialization runs: which kernels and host operators, in which order and on which side, and where its tensors lie.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace atalla {

// A kernel or a host operator.
struct PlannedCall {
    int32_t time = 0;
    size_t segment = 0;  // neighbours on one side
    bool device = false;
    std::string what;    // the kernel with its sizes, or the host's operator
    std::string result;  // name of what it makes
    std::string reason;  // why not on the accelerator
};

// A tensor of the accelerator that is no weight: in the arena that all of them share.
struct PlannedTensor {
    std::string name;
    int64_t bytes = 0, offset = 0;
    int32_t first = 0, last = 0;  // times at which it is alive, both included
};

struct ModelPlan {
    std::vector<PlannedCall> calls;  // in the order of execution
    std::vector<PlannedTensor> tensors;
    int64_t arena_bytes = 0;
    int64_t arena_bound = 0;  // most bytes alive at a time: no plan is smaller

    size_t segments() const { return calls.empty() ? 0 : calls.back().segment + 1; }
};

std::string plan_text(const ModelPlan &plan);
nlohmann::ordered_json plan_json(const ModelPlan &plan);
// Time from left to right, addresses upwards, a box for each tensor; the bytes that are alive as a line.
std::string plan_svg(const ModelPlan &plan);

}  // namespace atalla
