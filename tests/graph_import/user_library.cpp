// What a user's library of operators and passes looks like: docs/import.md shows it.
#include "graph_import/passes.h"
#include "graph_import/support.h"

namespace {

class Mine : public atalla::OperatorRegistry {
public:
    atalla::Placement placement() const override { return atalla::Placement::Host; }
    std::string name() const override { return "mine"; }
    std::optional<atalla::SupportVerdict> query(const atalla::Graph &, const atalla::Node &node) const override {
        if (node.target != "aten::mul.Tensor") return std::nullopt;
        return atalla::SupportVerdict{true, ""};
    }
};

int count_calls(atalla::Graph &graph) { return static_cast<int>(graph.nodes.size()); }

}  // namespace

extern "C" void atalla_register() {
    static const Mine mine;
    atalla::register_operators(&mine);
    atalla::register_pass({"my-pass", "counts the calls", count_calls});
}
