#include "generators/pointwise_parts.h"

#include <algorithm>

#include <fmt/format.h>

namespace atalla {

using namespace Halide;

namespace {

struct Inputs : Internal::IRGraphVisitor {
    std::set<std::string> found;
    using IRGraphVisitor::visit;
    void visit(const Internal::Variable *v) override { found.insert(v->name); }
};

class Parts : public Internal::IRGraphMutator {
public:
    Parts(const std::function<std::optional<size_t>(const std::set<std::string> &)> &only_dim,
          std::vector<PointwisePart> &parts)
        : only_dim_(only_dim), parts_(parts) {}

    using IRGraphMutator::mutate;
    Expr mutate(const Expr &e) override {
        const bool computes = e.as<Internal::Call>() != nullptr || e.as<Internal::Select>() != nullptr;
        if (!computes || !e.type().is_bfloat()) return IRGraphMutator::mutate(e);
        std::set<std::string> inputs = inputs_of(e);
        const std::optional<size_t> dim = only_dim_(inputs);
        if (!dim) return IRGraphMutator::mutate(e);
        auto part = std::ranges::find_if(parts_, [&](const PointwisePart &p) { return p.value.same_as(e); });
        if (part == parts_.end())
            part = parts_.insert(parts_.end(), {fmt::format("part {}", parts_.size()), e, std::move(inputs), *dim});
        return Internal::Variable::make(e.type(), part->name);
    }

private:
    const std::function<std::optional<size_t>(const std::set<std::string> &)> &only_dim_;
    std::vector<PointwisePart> &parts_;
};

}  // namespace

std::set<std::string> inputs_of(const Expr &e) {
    Inputs inputs;
    e.accept(&inputs);
    return std::move(inputs.found);
}

Expr take_parts(const Expr &e, const std::function<std::optional<size_t>(const std::set<std::string> &)> &only_dim,
                std::vector<PointwisePart> &parts) {
    // Equal parts become one node.
    const Expr graph = Internal::substitute_in_all_lets(Internal::common_subexpression_elimination(e, true));
    const Expr rest = Parts(only_dim, parts).mutate(graph);
    for (PointwisePart &part : parts) part.value = Internal::common_subexpression_elimination(part.value, true);
    return Internal::common_subexpression_elimination(rest, true);
}

}  // namespace atalla
