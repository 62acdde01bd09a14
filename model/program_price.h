// What the program of a graph takes, kernels with their neighbours: to compare ways to make it.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph_import/graph.h"
#include "model/kernels.h"
#include "model/placement.h"
#include "stitch/stitch.h"

namespace atalla {

class ProgramPrices {
public:
    struct Call {
        size_t kernel = 0;  // that the prices know
        std::vector<uint32_t> addresses;
        auto operator<=>(const Call &) const = default;
    };
    // Calls of the host, and how many times what each row of kernels takes, one behind the other, counts.
    struct Cost {
        int64_t host_calls = 0;
        std::map<std::vector<Call>, int64_t> rows;
    };

    explicit ProgramPrices(KernelSet &kernels) : kernels_(kernels) {}

    // Of nodes that are placed; those without a schedule are the host's. `whole`: the rows are the segments. Otherwise they are
    // each kernel behind a few others, less these by themselves, wherever their tensors lie, so that layers which repeat are
    // simulated once and long programs where they differ. Error if memory cannot hold the program.
    Cost cost(const Graph &graph, std::vector<PlacedNode> placed, bool whole);
    // Calls of the host, then cycles. Rows that both have are not simulated. A program of which that is not possible is not the
    // better one.
    bool takes_less(const Cost &one, const Cost &other);

private:
    size_t index_of(const PlacedNode &kernel);
    bool has_schedule(size_t kernel);
    std::vector<Call> moved(std::vector<Call> row) const;

    KernelSet &kernels_;
    std::vector<KernelSet::Asked> asked_;
    std::map<std::string, size_t> indices_;  // of asked_, by operator and workload
};

}  // namespace atalla
