// Tunes many workloads with one budget: those of a file of shapes, or every operator at its default size.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autotune/scheduler.h"
#include "tools/tuned.h"

namespace atalla {

struct ListedWorkload {
    const Operator *op = nullptr;
    std::shared_ptr<const Workload> workload;
    std::string name;       // what it is in its model; the operator and the shape otherwise
    int64_t count = 1;      // how often it occurs
    std::string note = {};  // what people should know of the workload, if anything
};

// What is to be tuned, each workload once, and what cannot be, with the reason.
struct WorkloadList {
    std::vector<ListedWorkload> workloads;
    std::vector<std::string> problems;
    // Adds to the count of an equal workload, or a new entry.
    void add(ListedWorkload listed);
};

// The products of a file of shapes (tools/shapes.h).
WorkloadList workloads_of_shapes(const std::filesystem::path &file);
// Every operator of the registry at its example, constants arranged for the machine (tools/arranged.h).
WorkloadList workloads_of_all_operators(const Machine &machine, const std::filesystem::path &database);

// Tunes the list, and calls `done` with each winner. What fails joins the problems. With `again` what is stored is forgotten
// first.
ScheduleResult tune_list(WorkloadList &list, const Machine &machine, Database &database, ScheduleOptions options, bool again,
                         const std::function<void(const ListedWorkload &, const Tuned &)> &done);

// "tuned 12 of 12 workloads with 384 trials in 40 s: 8,123,456 cycles, 1.31 times as fast as the draft's first choices".
std::string gain_text(const WorkloadList &list, const ScheduleResult &result);

}  // namespace atalla
