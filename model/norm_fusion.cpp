#include "model/norm_fusion.h"

#include <algorithm>
#include <utility>

#include "generators/registry.h"
#include "model/aten_call.h"

namespace atalla {

namespace {

// Additions of two tensors of one shape, one behind the other, from the last to the first.
class Additions {
public:
    Additions(const Graph &graph, const std::vector<PlacedNode> &placed, const std::vector<std::vector<int32_t>> &uses,
              ValueId sum)
        : graph_(graph), placed_(placed), uses_(uses), sum_(sum) {}

    // Takes in the addition that makes what is summed so far; false if nothing but the norm's chain may read that, or it is
    // none.
    bool extend() {
        const int32_t node = addition(sum_);
        if (node < 0) return false;
        const ValueId self = graph_.nodes[static_cast<size_t>(node)].tensor("self"),
                      other = graph_.nodes[static_cast<size_t>(node)].tensor("other");
        const bool goes_on_in_other = addition(self) < 0 && addition(other) >= 0;
        nodes_.insert(nodes_.begin(), node);
        addends_.insert(addends_.begin(), goes_on_in_other ? self : other);
        sum_ = goes_on_in_other ? other : self;
        return true;
    }
    ValueId first() const { return sum_; }
    const std::vector<ValueId> &addends() const { return addends_; }  // behind the first, in order
    const std::vector<int32_t> &nodes() const { return nodes_; }

private:
    // The node that makes a value if it is such an addition and the value is read once; else -1.
    int32_t addition(ValueId id) const {
        const int32_t producer = graph_.value(id).producer;
        if (producer < 0 || graph_.is_output(id) || uses_[static_cast<size_t>(id.index)].size() != 1) return -1;
        const Node &node = graph_.nodes[static_cast<size_t>(producer)];
        if (placed_[static_cast<size_t>(producer)].place != PlacedNode::Device || node.target != "aten::add.Tensor") return -1;
        for (const char *name : {"self", "other"}) {
            const Argument *operand = node.find(name);
            const auto *given = operand != nullptr ? std::get_if<ValueId>(operand) : nullptr;
            if (given == nullptr || graph_.value(*given).kind != Value::Kind::Tensor ||
                constant_sizes(graph_.type(*given).sizes) != constant_sizes(graph_.type(id).sizes))
                return -1;
        }
        const Argument *alpha = node.find("alpha");
        const auto *factor = alpha != nullptr ? std::get_if<SymInt>(alpha) : nullptr;
        return alpha == nullptr || (factor != nullptr && *factor == SymInt(1)) ? producer : -1;
    }

    const Graph &graph_;
    const std::vector<PlacedNode> &placed_;
    const std::vector<std::vector<int32_t>> &uses_;
    ValueId sum_;
    std::vector<ValueId> addends_;
    std::vector<int32_t> nodes_;
};

}  // namespace

std::vector<Fusion> norm_fusions(const Graph &graph, const std::vector<PlacedNode> &placed,
                                 const std::vector<std::vector<int32_t>> &uses, int32_t node) {
    const Node &norm = graph.nodes[static_cast<size_t>(node)];
    if ((norm.target != "aten::layer_norm" && norm.target != "aten::rms_norm") || norm.outputs.size() != 1) return {};
    std::vector<Fusion> fusions;
    Additions additions(graph, placed, uses, norm.tensor("input"));
    while (additions.extend()) {
        NodeCall call = aten_call(graph, norm);
        AtenArgument addends;
        addends.name = "addends";
        for (const ValueId id : additions.addends())
            addends.tensors.push_back({constant_sizes(graph.type(id).sizes), element_type(graph.type(id).dtype)});
        call.call.arguments.push_back(std::move(addends));
        std::replace(call.tensors.begin(), call.tensors.end(), norm.tensor("input"), additions.first());
        call.tensors.insert(call.tensors.end(), additions.addends().begin(), additions.addends().end());
        const Resolution found = resolve(call.call);
        if (found.place != Resolution::Accelerator) break;
        Fusion fusion;
        fusion.nodes = additions.nodes();
        fusion.nodes.push_back(node);
        fusion.kernel.place = PlacedNode::Device;
        fusion.kernel.op = found.op;
        fusion.kernel.workload = found.workload;
        for (const size_t at : found.inputs) fusion.kernel.inputs.push_back(call.tensors.at(at));
        fusions.push_back(std::move(fusion));
    }
    return fusions;
}

}  // namespace atalla
