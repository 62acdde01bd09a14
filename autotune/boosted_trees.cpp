#include "autotune/boosted_trees.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "isa/error.h"

namespace atalla {

namespace {

constexpr size_t most_bins = 48;  // places where a feature can be split, at quantiles of its values

// What the file keeps of a number: the trees in memory are those of the file.
double shortened(double value) { return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr); }

}  // namespace

// Grows trees on residuals. Features are binned once, so that a split is found by one pass over the samples of a leaf.
class TreeGrower {
public:
    TreeGrower(const std::vector<TreeSample> &samples, const TreeOptions &options) : samples_(samples), options_(options) {
        const size_t features = samples.front().features.size();
        for (size_t feature = 0; feature < features; feature++) {
            std::vector<double> values;
            for (const TreeSample &sample : samples) {
                values.push_back(sample.features[feature]);
            }
            bin(values);
        }
    }

    BoostedTrees::Tree grow(const std::vector<double> &residuals, const std::vector<double> &weights) {
        residuals_ = &residuals;
        weights_ = &weights;
        tree_ = {{}};
        std::vector<Leaf> leaves;
        std::vector<uint32_t> all(samples_.size());
        for (size_t i = 0; i < all.size(); i++) {
            all[i] = static_cast<uint32_t>(i);
        }
        leaves.push_back(leaf(0, std::move(all)));
        while (std::ssize(leaves) < options_.leaves) {
            const auto best = std::max_element(leaves.begin(), leaves.end(), [](const Leaf &one, const Leaf &other) {
                return one.split.gain < other.split.gain;
            });
            if (best->split.gain <= 0) {
                break;
            }
            auto [left, right] = divide(std::move(*best));
            *best = std::move(left);
            leaves.push_back(std::move(right));
        }
        for (const Leaf &leaf : leaves) {
            tree_[leaf.node].value = shortened(options_.rate * leaf.total.residual / (leaf.total.weight + options_.ridge));
        }
        return std::move(tree_);
    }

private:
    struct Sum {
        double residual = 0, weight = 0;
        int64_t count = 0;
        void add(double r, double w, int64_t n) { residual += r, weight += w, count += n; }
    };
    struct Split {
        double gain = 0;
        size_t feature = 0, bin = 0;
    };
    struct Leaf {
        size_t node;
        std::vector<uint32_t> samples;
        Sum total;
        Split split;
    };

    void bin(const std::vector<double> &values) {
        std::vector<double> sorted = values;
        std::sort(sorted.begin(), sorted.end());
        std::vector<double> distinct = sorted;
        distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
        std::vector<double> edges;
        const auto edge = [&](double below, double above) {
            const double middle = shortened((below + above) / 2);
            // A rounded middle outside the gap would divide the samples differently in the file.
            if (middle >= below && middle < above && (edges.empty() || middle > edges.back())) {
                edges.push_back(middle);
            }
        };
        for (size_t i = 1; i < distinct.size() && distinct.size() <= most_bins; i++) {
            edge(distinct[i - 1], distinct[i]);
        }
        for (size_t part = 1; part < most_bins && distinct.size() > most_bins; part++) {
            const double at = sorted[part * sorted.size() / most_bins];
            const auto next = std::upper_bound(distinct.begin(), distinct.end(), at);
            if (next != distinct.end()) {
                edge(at, *next);
            }
        }
        std::vector<uint8_t> bins;
        for (const double value : values) {
            bins.push_back(static_cast<uint8_t>(std::lower_bound(edges.begin(), edges.end(), value) - edges.begin()));
        }
        edges_.push_back(std::move(edges));
        bins_.push_back(std::move(bins));
    }

    double score(const Sum &sum) const { return sum.residual * sum.residual / (sum.weight + options_.ridge); }

    Leaf leaf(size_t node, std::vector<uint32_t> samples) const {
        Leaf leaf{node, std::move(samples), {}, {}};
        for (const uint32_t i : leaf.samples) {
            leaf.total.add((*weights_)[i] * (*residuals_)[i], (*weights_)[i], 1);
        }
        for (size_t feature = 0; feature < edges_.size(); feature++) {
            look_for_split(leaf, feature);
        }
        return leaf;
    }

    void look_for_split(Leaf &leaf, size_t feature) const {
        if (edges_[feature].empty()) {
            return;
        }
        std::vector<Sum> sums(edges_[feature].size() + 1);
        for (const uint32_t i : leaf.samples) {
            sums[bins_[feature][i]].add((*weights_)[i] * (*residuals_)[i], (*weights_)[i], 1);
        }
        Sum left;
        for (size_t bin = 0; bin + 1 < sums.size(); bin++) {
            left.add(sums[bin].residual, sums[bin].weight, sums[bin].count);
            Sum right = leaf.total;
            right.add(-left.residual, -left.weight, -left.count);
            if (left.count < options_.least_samples || right.count < options_.least_samples) {
                continue;
            }
            const double gain = score(left) + score(right) - score(leaf.total);
            if (gain > leaf.split.gain) {
                leaf.split = {gain, feature, bin};
            }
        }
    }

    std::pair<Leaf, Leaf> divide(Leaf parent) {
        const Split &split = parent.split;
        std::vector<uint32_t> left, right;
        for (const uint32_t i : parent.samples) {
            (bins_[split.feature][i] <= split.bin ? left : right).push_back(i);
        }
        const size_t at = tree_.size();
        tree_.resize(at + 2);
        tree_[parent.node] = {static_cast<int>(split.feature), static_cast<int>(at), static_cast<int>(at + 1),
                              edges_[split.feature][split.bin]};
        return {leaf(at, std::move(left)), leaf(at + 1, std::move(right))};
    }

    const std::vector<TreeSample> &samples_;
    const TreeOptions &options_;
    std::vector<std::vector<double>> edges_;                               // by feature
    std::vector<std::vector<uint8_t>> bins_;                               // by feature, then sample
    const std::vector<double> *residuals_ = nullptr, *weights_ = nullptr;  // of the tree that grows, by sample
    BoostedTrees::Tree tree_;
};

BoostedTrees::BoostedTrees(const std::vector<TreeSample> &samples, const TreeOptions &options) {
    if (samples.empty()) {
        return;
    }
    TreeGrower grower(samples, options);
    std::vector<double> predicted(samples.size(), 0), residuals(samples.size()), weights(samples.size());
    for (int round = 0; round < options.trees; round++) {
        for (size_t i = 0; i < samples.size(); i++) {
            const double residual = samples[i].target - predicted[i];
            // A sample that is only known to be larger than it is predicted to be says nothing.
            const bool silent = samples[i].at_least && residual <= 0;
            residuals[i] = silent ? 0 : residual;
            weights[i] = silent ? 0 : samples[i].weight;
        }
        BoostedTrees one;
        one.trees_.push_back(grower.grow(residuals, weights));
        for (size_t i = 0; i < samples.size(); i++) {
            predicted[i] += one.predict(samples[i].features);
        }
        trees_.push_back(std::move(one.trees_.front()));
    }
}

double BoostedTrees::predict(std::span<const double> features) const {
    double sum = 0;
    for (const Tree &tree : trees_) {
        const Node *node = &tree.front();
        while (node->feature >= 0) {
            node = &tree[static_cast<size_t>(features[static_cast<size_t>(node->feature)] <= node->value ? node->left
                                                                                                         : node->right)];
        }
        sum += node->value;
    }
    return sum;
}

nlohmann::json BoostedTrees::json() const {
    nlohmann::json trees = nlohmann::json::array();
    for (const Tree &tree : trees_) {
        nlohmann::json nodes = nlohmann::json::array();
        for (const Node &node : tree) {
            if (node.feature < 0) {
                nodes.push_back(node.value);
            } else {
                nodes.push_back({node.feature, node.value, node.left, node.right});
            }
        }
        trees.push_back(std::move(nodes));
    }
    return trees;
}

BoostedTrees BoostedTrees::from_json(const nlohmann::json &json, size_t features) {
    BoostedTrees result;
    try {
        for (const nlohmann::json &nodes : json) {
            Tree tree;
            for (const nlohmann::json &one : nodes) {
                Node node;
                if (one.is_number()) {
                    node.value = one.get<double>();
                } else {
                    node = {one.at(0).get<int>(), one.at(2).get<int>(), one.at(3).get<int>(), one.at(1).get<double>()};
                    // Children come after their parent, so that every walk ends.
                    const auto is_later = [&](int child) { return child > std::ssize(tree) && child < std::ssize(nodes); };
                    if (node.feature < 0 || static_cast<size_t>(node.feature) >= features || !is_later(node.left) ||
                        !is_later(node.right)) {
                        throw Error("a tree has a split that leads nowhere");
                    }
                }
                tree.push_back(node);
            }
            if (tree.empty()) {
                throw Error("a tree has no node");
            }
            result.trees_.push_back(std::move(tree));
        }
    } catch (const nlohmann::json::exception &error) {
        throw Error(fmt::format("the trees are not as they should be: {}", error.what()));
    }
    return result;
}

}  // namespace atalla
