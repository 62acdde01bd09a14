// Where activations lie in one arena.
#include <algorithm>

#include "graph_import/arena.h"
#include "graph_import/plan.h"

namespace atalla {

namespace {

int64_t bytes_of(const Graph &graph, ValueId id) {
    const Value &value = graph.value(id);
    if (value.kind != Value::Kind::Tensor) return 8;
    return element_count(value.type.sizes).value() * element_bytes(value.type.dtype);
}

// Whether a group computes each element of its result from the same element of an operand of that size and nothing after it.
bool may_work_in_place(const Graph &graph, const Group &group, ValueId operand, ValueId result) {
    const std::string &anchor = graph.nodes[group.anchor].target;
    const bool element_wise = group.pattern.find("linear") == std::string::npos && group.pattern.find("conv") == std::string::npos &&
                              (anchor == "aten::add.Tensor" || anchor == "aten::mul.Tensor" || anchor == "aten::sub.Tensor" ||
                               anchor == "aten::relu" || anchor == "aten::gelu" || anchor == "aten::silu" || anchor == "aten::tanh" ||
                               anchor == "aten::sigmoid" || anchor == "aten::neg" || anchor == "aten::exp");
    return element_wise && graph.type(operand).dtype == graph.type(result).dtype && graph.type(operand).sizes == graph.type(result).sizes;
}

class Planner {
public:
    Planner(const Graph &graph, const std::vector<Group> &groups, int64_t alignment) : graph_(graph), groups_(groups) {
        plan_.alignment = alignment;
        index_.assign(graph.values.size(), -1);
    }

    MemoryPlan run() {
        collect();
        share();
        place();
        return std::move(plan_);
    }

private:
    void add(ValueId id, int32_t time, bool own_place) {
        if (index_[id.index] >= 0) return;
        index_[id.index] = static_cast<int>(plan_.tensors.size());
        plan_.tensors.push_back({id, -1, bytes_of(graph_, id), time, time, {}});
        fixed_.push_back(own_place);
    }

    void collect() {
        const auto end = static_cast<int32_t>(groups_.size());
        for (const GraphInput &input : graph_.inputs) {
            if (input.value) add(input.value, 0, true);
        }
        for (int32_t g = 0; g < end; g++) {
            for (ValueId id : groups_[g].inputs) plan_.tensors[index_[id.index]].last = g;
            for (ValueId id : groups_[g].outputs) add(id, g, graph_.is_output(id));
        }
        for (const GraphOutput &output : graph_.outputs) {
            for_each_value(output.value, [&](ValueId id) { plan_.tensors[index_[id.index]].last = end; });
        }
    }

    PlannedTensor &root(ValueId id) {
        PlannedTensor *tensor = &plan_.tensors[index_[id.index]];
        while (tensor->alias_of) tensor = &plan_.tensors[index_[tensor->alias_of.index]];
        return *tensor;
    }

    // Views, and results that may lie over an operand that nobody needs any more.
    void share() {
        for (size_t g = 0; g < groups_.size(); g++) {
            const Group &group = groups_[g];
            if (group.outputs.size() != 1) continue;
            const ValueId result = group.outputs[0];
            PlannedTensor &own = plan_.tensors[index_[result.index]];
            if (fixed_[index_[result.index]]) continue;
            for (ValueId operand : group.inputs) {
                PlannedTensor &whole = root(operand);
                if (fixed_[index_[whole.value.index]] && group.pattern != "view") continue;
                const bool view = group.pattern == "view" && operand == group.inputs[0];
                const bool dead = whole.last == static_cast<int32_t>(g);
                if (!view && !(dead && whole.bytes >= own.bytes && may_work_in_place(graph_, group, operand, result))) continue;
                own.alias_of = whole.value;
                whole.last = std::max(whole.last, own.last);
                break;
            }
        }
    }

    bool in_arena(size_t i) const { return !fixed_[i] && !plan_.tensors[i].alias_of; }

    void place() {
        std::vector<Buffer> buffers;
        std::vector<PlannedTensor *> owners;
        for (size_t i = 0; i < plan_.tensors.size(); i++) {
            PlannedTensor &tensor = plan_.tensors[i];
            if (!in_arena(i)) continue;
            buffers.push_back({tensor.bytes, tensor.first, tensor.last, -1});
            owners.push_back(&tensor);
        }
        const Arena arena = plan_arena(buffers, plan_.alignment);
        plan_.arena_bytes = arena.bytes;
        plan_.lower_bound = arena.bound;
        for (size_t i = 0; i < buffers.size(); i++) owners[i]->offset = buffers[i].offset;
        for (PlannedTensor &tensor : plan_.tensors)
            if (tensor.alias_of) tensor.offset = root(tensor.value).offset;
    }

    const Graph &graph_;
    const std::vector<Group> &groups_;
    MemoryPlan plan_;
    std::vector<int> index_;     // of a value among the planned tensors
    std::vector<bool> fixed_;    // has a place of its own
};

}  // namespace

MemoryPlan plan_memory(const Graph &graph, const std::vector<Group> &groups, int64_t alignment) {
    return Planner(graph, groups, alignment).run();
}

Plan make_plan(const Graph &graph, const std::vector<const OperatorRegistry *> &registries, int64_t alignment) {
    Plan plan;
    plan.groups = make_groups(graph, registries);
    plan.segments = order_groups(graph, plan.groups);
    plan.memory = plan_memory(graph, plan.groups, alignment);
    return plan;
}

}  // namespace atalla
