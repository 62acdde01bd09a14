// The programs in tests/graph_import/fixtures, with PyTorch's inputs and outputs.
#pragma once

#include <string>
#include <vector>

#include "graph_import/archive.h"
#include "graph_import/import.h"

namespace atalla {

struct Fixture {
    std::string name;
    std::vector<HostTensor> inputs, outputs;
};

class Fixtures {
public:
    // "scenarios" or "models"; from the folder $ATALLA_FIXTURES if that is set.
    explicit Fixtures(const std::string &archive);
    const std::vector<Fixture> &all() const { return fixtures_; }
    const Fixture &find(const std::string &name) const;
    ImportedModel import(const Fixture &fixture) const;
    // The bytes of its .pt2 file.
    std::string file(const std::string &name) const;

private:
    std::shared_ptr<const Archive> archive_;
    std::vector<Fixture> fixtures_;
};

// The largest difference between elements, relative to the larger of 1 and the largest element; infinity if types, sizes
// or non-finite elements differ.
double difference(const HostTensor &a, const HostTensor &b);

}  // namespace atalla
