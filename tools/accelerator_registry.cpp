#include "tools/accelerator_registry.h"

#include "generators/registry.h"
#include "isa/error.h"
#include "model/aten_call.h"

namespace atalla {

namespace {

class AcceleratorRegistry : public OperatorRegistry {
public:
    Placement placement() const override { return Placement::Accelerator; }
    std::string name() const override { return "accelerator"; }

    std::optional<SupportVerdict> query(const Graph &graph, const Node &node) const override {
        try {
            const Resolution found = resolve(aten_call(graph, node).call);
            return SupportVerdict{found.place == Resolution::Accelerator, found.reason};
        } catch (const Error &error) {
            return SupportVerdict{false, error.what()};
        }
    }
};

}  // namespace

const OperatorRegistry *accelerator_registry() {
    static const AcceleratorRegistry registry;
    return &registry;
}

}  // namespace atalla
