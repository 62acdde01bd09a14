// Gradient-boosted regression trees: a small regression that is trained in seconds and evaluated in microseconds.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

namespace atalla {

struct TreeSample {
    std::vector<double> features;
    double target = 0;
    double weight = 1;
    // The true target is at least this large: predictions above it are no error.
    bool at_least = false;
};

struct TreeOptions {
    int trees = 150;
    int leaves = 16;             // of a tree
    double rate = 0.1;           // share of a tree's correction that is taken over
    int64_t least_samples = 12;  // in a leaf
    double ridge = 1;            // weight of an imaginary sample without error in every leaf
};

class BoostedTrees {
public:
    BoostedTrees() = default;
    // Equal samples in equal order give equal trees. All samples have as many features.
    BoostedTrees(const std::vector<TreeSample> &samples, const TreeOptions &options);

    double predict(std::span<const double> features) const;

    nlohmann::json json() const;
    // Error if this is no such JSON, or asks for a feature beyond `features`.
    static BoostedTrees from_json(const nlohmann::json &json, size_t features);

private:
    // A leaf has no feature; a split goes left where the feature is at most the value.
    struct Node {
        int feature = -1, left = 0, right = 0;
        double value = 0;
    };
    using Tree = std::vector<Node>;
    friend class TreeGrower;
    std::vector<Tree> trees_;
};

}  // namespace atalla
