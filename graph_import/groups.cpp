// Which nodes run as one kernel.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph_import/plan.h"
#include "graph_import/support.h"

namespace atalla {

namespace {

using Names = std::set<std::string_view>;

const Names products = {"aten::linear", "aten::mm", "aten::bmm", "aten::matmul", "aten::addmm", "aten::baddbmm"};
const Names windows = {"aten::conv1d", "aten::conv2d", "aten::conv2d.padding", "aten::convolution", "aten::conv_transpose2d.input"};
const Names pools = {"aten::max_pool2d", "aten::avg_pool2d"};
const Names norms = {"aten::layer_norm", "aten::rms_norm", "aten::group_norm", "aten::batch_norm", "aten::native_layer_norm"};
const Names element_wise = {
    "aten::add.Tensor", "aten::sub.Tensor", "aten::mul.Tensor", "aten::div.Tensor", "aten::neg", "aten::relu", "aten::relu6",
    "aten::gelu", "aten::silu", "aten::tanh", "aten::sigmoid", "aten::exp", "aten::sqrt", "aten::rsqrt", "aten::abs", "aten::erf",
    "aten::pow.Tensor_Scalar", "aten::hardswish", "aten::hardsigmoid", "aten::hardtanh", "aten::leaky_relu", "aten::elu",
    "aten::maximum", "aten::minimum", "aten::clamp", "aten::cos", "aten::sin", "aten::where.self", "aten::_to_copy"};

bool is_view(const std::string &target) { return target == "aten::view" || target == "aten::unsqueeze" || target == "aten::squeeze.dim"; }

std::string short_name(const std::string &target) {
    const size_t colons = target.find("::");
    const std::string name = colons == target.npos ? target : target.substr(colons + 2);
    return name.substr(0, name.find('.', 1));
}

class Grouper {
public:
    Grouper(const Graph &graph, const std::vector<const OperatorRegistry *> &registries)
        : graph_(graph), uses_(graph.uses()), group_of_(graph.nodes.size(), -1) {
        for (const Node &node : graph.nodes) sides_.push_back(side_of(node, registries));
    }

    std::vector<Group> run() {
        for (int32_t i = 0; i < static_cast<int32_t>(graph_.nodes.size()); i++) {
            if (group_of_[i] < 0) start(i);
        }
        for (Group &group : groups_) finish(group);
        // A group runs where its last node stands: all its operands are there by then, and no other node uses what is inside.
        std::stable_sort(groups_.begin(), groups_.end(), [](const Group &a, const Group &b) { return a.nodes.back() < b.nodes.back(); });
        return std::move(groups_);
    }

private:
    const std::string &target(int32_t node) const { return graph_.nodes[node].target; }

    struct Side {
        Placement placement = Placement::Unsupported;
        std::string reason;   // why not on the accelerator
    };

    Side side_of(const Node &node, const std::vector<const OperatorRegistry *> &registries) const {
        Side side;
        for (const OperatorRegistry *registry : registries) {
            const auto verdict = registry->query(graph_, node);
            if (verdict && verdict->supported) {
                side.placement = registry->placement();
                break;
            }
            if (side.reason.empty()) side.reason = fmt::format("{}: {}", node.target, verdict ? verdict->reason : "no such operator");
        }
        if (side.placement == Placement::Accelerator) side.reason.clear();
        return side;
    }

    // The only node that uses a node's only result, if it runs on the same side; -1 if there are more, or the graph
    // returns it.
    int32_t only_user(int32_t node) const {
        const auto &outputs = graph_.nodes[node].outputs;
        if (outputs.size() != 1 || !outputs[0] || graph_.is_output(outputs[0])) return -1;
        const auto &users = uses_[outputs[0].index];
        if (users.size() != 1 || group_of_[users[0]] >= 0) return -1;
        return is_view(target(users[0])) || sides_[users[0]].placement == sides_[node].placement ? users[0] : -1;
    }

    bool same_sizes(int32_t a, int32_t b) const {
        return graph_.type(graph_.nodes[a].outputs[0]).sizes == graph_.type(graph_.nodes[b].outputs[0]).sizes;
    }

    void take(Group &group, int32_t node) {
        group.nodes.push_back(node);
        group_of_[node] = static_cast<int>(groups_.size());
        if (!group.pattern.empty()) group.pattern += '+';
        group.pattern += short_name(target(node));
    }

    // Element-wise calls of the same size, one after the other.
    int32_t take_epilogue(Group &group, int32_t last) {
        for (int32_t next = only_user(last); next >= 0 && element_wise.contains(target(next)) && same_sizes(last, next); next = only_user(last)) {
            take(group, next);
            last = next;
        }
        return last;
    }

    // The nodes from a product of queries and keys to that with the values, or none.
    std::vector<int32_t> attention_from(int32_t first) const {
        std::vector<int32_t> nodes = {first};
        const auto is_product = [&](int32_t node) { return target(node) == "aten::matmul" || target(node) == "aten::bmm"; };
        if (!is_product(first)) return {};
        bool softmax = false;
        for (int32_t next = only_user(first); next >= 0; next = only_user(next)) {
            nodes.push_back(next);
            if (target(next) == "aten::softmax.int") {
                softmax = true;
            } else if (softmax && is_product(next)) {
                return nodes;
            } else if (!element_wise.contains(target(next)) && !is_view(target(next))) {
                return {};
            }
        }
        return {};
    }

    void start(int32_t node) {
        Group group;
        group.anchor = node;
        if (const std::vector<int32_t> attention = attention_from(node); !attention.empty()) {
            for (int32_t member : attention) take(group, member);
            group.pattern = "attention";
        } else if (products.contains(target(node)) || windows.contains(target(node))) {
            take(group, node);
            const int32_t last = take_epilogue(group, node);
            const int32_t next = only_user(last);
            if (next >= 0 && windows.contains(target(node)) && pools.contains(target(next))) take(group, next);
        } else if (norms.contains(target(node)) || element_wise.contains(target(node))) {
            take(group, node);
            take_epilogue(group, node);
        } else {
            take(group, node);
            if (is_view(target(node))) group.pattern = "view";
            if (target(node) == "aten::scaled_dot_product_attention") group.pattern = "attention";
        }
        groups_.push_back(std::move(group));
    }

    void place(Group &group) const {
        group.placement = Placement::Accelerator;
        for (int32_t node : group.nodes) {
            if (is_view(target(node))) continue;
            group.placement = std::max(group.placement, sides_[node].placement);
            if (group.reason.empty()) group.reason = sides_[node].reason;
        }
    }

    void finish(Group &group) const {
        std::set<ValueId> made, seen;
        const std::set<int32_t> members(group.nodes.begin(), group.nodes.end());
        for (int32_t node : group.nodes) {
            for_each_value(graph_.nodes[node], [&](ValueId id) {
                if (!made.contains(id) && seen.insert(id).second) group.inputs.push_back(id);
            });
            for (ValueId output : graph_.nodes[node].outputs) {
                if (!output) continue;
                made.insert(output);
                const auto &users = uses_[output.index];
                const bool outside = std::any_of(users.begin(), users.end(), [&](int32_t user) { return !members.contains(user); });
                if (outside || graph_.is_output(output)) group.outputs.push_back(output);
            }
        }
        if (group.pattern != "view") place(group);
    }

    const Graph &graph_;
    std::vector<std::vector<int32_t>> uses_;
    std::vector<Side> sides_;   // of each node
    std::vector<int> group_of_;
    std::vector<Group> groups_;
};

// Views belong to the side of what they view.
void settle_views(const Graph &graph, std::vector<Group> &groups) {
    std::vector<Placement> side(graph.values.size(), Placement::Accelerator);
    for (Group &group : groups) {
        if (group.pattern == "view") group.placement = group.inputs.empty() ? Placement::Host : side[group.inputs[0].index];
        for (ValueId output : group.outputs) side[output.index] = group.placement;
    }
}

}  // namespace

std::vector<Group> make_groups(const Graph &graph, const std::vector<const OperatorRegistry *> &registries) {
    std::vector<Group> groups = Grouper(graph, registries).run();
    settle_views(graph, groups);
    return groups;
}

// As many groups of one side as are ready, then as many of the other; of the two sides to begin with, the one that gives
// fewer segments.
std::vector<PlanSegment> order_groups(const Graph &graph, std::vector<Group> &groups) {
    const auto order_from = [&](Placement side) {
        std::vector<int> producer(graph.values.size(), -1);
        for (size_t g = 0; g < groups.size(); g++) {
            for (ValueId output : groups[g].outputs) producer[output.index] = static_cast<int>(g);
        }
        std::vector<std::vector<int32_t>> segments;
        std::vector<bool> done(groups.size());
        for (size_t left = groups.size(); left > 0;) {
            std::vector<int32_t> run;
            for (bool progress = true; progress;) {
                progress = false;
                for (size_t g = 0; g < groups.size(); g++) {
                    if (done[g] || (groups[g].placement == Placement::Accelerator) != (side == Placement::Accelerator)) continue;
                    const bool ready = std::all_of(groups[g].inputs.begin(), groups[g].inputs.end(), [&](ValueId id) {
                        return producer[id.index] < 0 || producer[id.index] == static_cast<int>(g) || done[producer[id.index]];
                    });
                    if (!ready) continue;
                    done[g] = progress = true;
                    run.push_back(static_cast<int32_t>(g));
                    left--;
                }
            }
            if (!run.empty()) segments.push_back(std::move(run));
            side = side == Placement::Accelerator ? Placement::Host : Placement::Accelerator;
        }
        return segments;
    };
    const auto a = order_from(Placement::Accelerator), b = order_from(Placement::Host);
    const auto &chosen = b.size() < a.size() ? b : a;
    std::vector<Group> ordered;
    std::vector<PlanSegment> segments;
    for (const std::vector<int32_t> &run : chosen) {
        PlanSegment segment{groups[run[0]].placement, {}};
        for (int32_t g : run) {
            segment.groups.push_back(static_cast<int32_t>(ordered.size()));
            segment.placement = std::max(segment.placement, groups[g].placement);
            ordered.push_back(groups[g]);
        }
        segments.push_back(std::move(segment));
    }
    groups = std::move(ordered);
    return segments;
}

}  // namespace atalla
