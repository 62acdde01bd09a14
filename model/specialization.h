// One specialization of a model: its values, memory, program and steps.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph_import/graph.h"
#include "model/kernels.h"
#include "model/order.h"
#include "model/placement.h"
#include "model/plan.h"
#include "runtime/loadable_generated.h"

namespace atalla {

// The element type of a value as a loadable has it. Error naming a value of a type that no loadable holds, such as complex
// numbers.
loadable::DType loadable_type(const Graph &graph, ValueId id);

// The constants of all specializations, each once: tied tensors and those that several specializations use.
class ConstantPool {
public:
    // On the device alone it is kept as bf16.
    int32_t add(const std::string &name, const HostTensor &tensor, bool device_only);
    std::vector<std::unique_ptr<loadable::ConstantT>> take() { return std::move(constants_); }

private:
    struct Key {
        const std::byte *data;
        std::vector<int64_t> sizes, strides;
        DType dtype;
        bool device_only;
        auto operator<=>(const Key &) const = default;
    };
    std::map<Key, int32_t> known_;
    std::vector<std::unique_ptr<loadable::ConstantT>> constants_;
    std::vector<std::shared_ptr<const Storage>> kept_;  // so that no two keys have one address
};

// What the specialization is made of. Node by node; `kernel_of` is -1 for nodes that are not on the device.
struct SpecializationPlan {
    const Graph &graph;  // of constant sizes
    const std::vector<PlacedNode> &placed;
    const std::vector<int> &kernel_of;
    const std::vector<ChosenKernel> &kernels;
    std::map<int, int32_t> states;  // by the input's index
    bool one_by_one = false;        // a segment for each kernel
};

struct MadeSpecialization {
    std::unique_ptr<loadable::SpecializationT> table;
    ModelPlan plan;
};

MadeSpecialization make_specialization(const SpecializationPlan &plan, const Machine &machine, ConstantPool &constants);
// The calls that its program would have, with the addresses of their tensors; kernels need no code.
std::vector<Segment> planned_segments(const SpecializationPlan &plan, const Machine &machine);

}  // namespace atalla
