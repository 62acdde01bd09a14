#include "graph_import/support.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "graph_import/interpret.h"
#include "graph_import/passes.h"
#include "isa/error.h"

namespace atalla {

namespace {

class InterpreterRegistry : public OperatorRegistry {
public:
    Placement placement() const override { return Placement::Host; }
    std::string name() const override { return "host"; }
    std::optional<SupportVerdict> query(const Graph &graph, const Node &node) const override {
        if (!can_interpret(node.target)) return std::nullopt;
        for (ValueId output : node.outputs) {
            if (output && graph.value(output).kind == Value::Kind::Tensor && is_complex(graph.type(output).dtype)) {
                return SupportVerdict{false, "complex numbers are not computed with"};
            }
        }
        return SupportVerdict{true, ""};
    }
};

std::vector<const OperatorRegistry *> &registered() {
    static std::vector<const OperatorRegistry *> all;
    return all;
}

// Composite operators that PyTorch can take apart into ones that are known.
// clang-format off
const std::set<std::string_view> decomposable = {
    "aten::lstm.input", "aten::gru.input", "aten::rnn_tanh.input", "aten::multi_head_attention", "aten::cross_entropy_loss",
    "aten::nll_loss", "aten::smooth_l1_loss", "aten::cosine_similarity", "aten::kron", "aten::tensordot", "aten::nan_to_num",
    "aten::rot90", "aten::addr", "aten::triplet_margin_loss"};
// clang-format on

bool is_view(std::string_view target) {
    return target == "aten::view" || target == "aten::_unsafe_view" || target == "aten::unsqueeze" ||
           target.starts_with("aten::squeeze") || target == "aten::alias" || target == "aten::detach" ||
           target == "aten::reshape" || target == "aten::flatten.using_ints";
}

// Only integers that are known as expressions, or nothing at all.
bool is_bookkeeping(const Graph &graph, const Node &node) {
    return std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
        return !output ||
               (graph.value(output).kind == Value::Kind::Int && graph.value(output).symbolic.op() != SymInt::Op::Unknown &&
                node.target != "aten::item" && node.target != "aten::_local_scalar_dense");
    });
}

SupportFinding find(const Graph &graph, const Node &node, const Registries &registries) {
    SupportFinding finding;
    finding.target = node.target;
    if (is_bookkeeping(graph, node) || is_view(node.target)) {
        finding.kind = SupportKind::View;
        return finding;
    }
    std::vector<std::string> reasons;
    for (const OperatorRegistry *registry : registries) {
        const auto verdict = registry->query(graph, node);
        if (verdict && verdict->supported) {
            finding.kind = registry->placement() == Placement::Accelerator ? SupportKind::Accelerator : SupportKind::Host;
            finding.registry = registry->name();
            break;
        }
        const std::string why = verdict ? verdict->reason : "no such operator";
        reasons.push_back(fmt::format("{}: {}", registry->name(), why));
    }
    finding.reason = fmt::format("{}", fmt::join(reasons, "; "));
    if (finding.registry.empty() && decomposable.contains(node.target)) finding.kind = SupportKind::Decomposition;
    return finding;
}

// Of each node whether the pass decompose puts other calls in its place.
std::vector<bool> taken_apart(const Graph &graph) {
    Graph after = clone(graph);
    decompose(after);
    std::vector<bool> apart;
    for (const Node &node : graph.nodes) {
        const int32_t producer = node.outputs.empty() || !node.outputs[0] ? -1 : after.value(node.outputs[0]).producer;
        apart.push_back(producer >= 0 && after.nodes[static_cast<size_t>(producer)].target != node.target);
    }
    return apart;
}

int severity(SupportKind kind) {
    switch (kind) {
        case SupportKind::Unsupported:
            return 0;
        case SupportKind::Decomposition:
            return 1;
        case SupportKind::Host:
            return 2;
        case SupportKind::Parts:
            return 3;
        case SupportKind::Accelerator:
            return 4;
        case SupportKind::View:
            return 5;
    }
    return 6;
}

std::string python_name(const std::string &target) {
    const size_t colons = target.find("::");
    std::string name = colons == target.npos ? target : target.substr(0, colons) + '.' + target.substr(colons + 2);
    if (target.find('.') == target.npos) name += ".default";
    return "torch.ops." + name;
}

}  // namespace

const OperatorRegistry &host_registry() {
    static const InterpreterRegistry registry;
    return registry;
}

void register_operators(const OperatorRegistry *registry) { registered().push_back(registry); }

const Registries &registered_operators() { return registered(); }

bool SupportReport::runnable() const {
    return std::none_of(findings.begin(), findings.end(), [](const SupportFinding &finding) {
        return finding.kind == SupportKind::Unsupported || finding.kind == SupportKind::Decomposition;
    });
}

int SupportReport::count(SupportKind kind) const {
    int total = 0;
    for (const SupportFinding &finding : findings) total += finding.kind == kind ? static_cast<int>(finding.nodes.size()) : 0;
    return total;
}

SupportReport support_report(const Graph &graph, const Registries &registries) {
    const std::vector<bool> apart = taken_apart(graph);
    std::map<std::tuple<std::string, SupportKind, std::string>, SupportFinding> together;
    for (size_t i = 0; i < graph.nodes.size(); i++) {
        SupportFinding finding = find(graph, graph.nodes[i], registries);
        if (apart[i] && finding.kind != SupportKind::Accelerator) {
            finding.kind = SupportKind::Parts;
            finding.registry.clear();
            finding.reason = "calls of other operators take its place (pass decompose)";
        }
        auto &known = together.try_emplace({finding.target, finding.kind, finding.reason}, finding).first->second;
        if (known.nodes.empty()) known.first_module = graph.nodes[i].module;
        known.nodes.push_back(static_cast<int32_t>(i));
    }
    SupportReport report;
    for (auto &[key, finding] : together) report.findings.push_back(std::move(finding));
    std::stable_sort(report.findings.begin(), report.findings.end(), [](const SupportFinding &a, const SupportFinding &b) {
        const auto rank = [](const SupportFinding &f) {
            return std::pair(severity(f.kind), -static_cast<int>(f.nodes.size()));
        };
        return rank(a) < rank(b);
    });
    return report;
}

std::string_view support_name(SupportKind kind) {
    switch (kind) {
        case SupportKind::Accelerator:
            return "accelerator";
        case SupportKind::Parts:
            return "in parts";
        case SupportKind::Host:
            return "host";
        case SupportKind::Decomposition:
            return "decompose";
        case SupportKind::View:
            return "no work";
        case SupportKind::Unsupported:
            return "unsupported";
    }
    return "";
}

void require_supported(const Graph &graph, const SupportReport &report) {
    std::vector<std::string> lines, composites;
    for (const SupportFinding &finding : report.findings) {
        if (finding.kind != SupportKind::Unsupported && finding.kind != SupportKind::Decomposition) continue;
        if (finding.kind == SupportKind::Decomposition) composites.push_back(python_name(finding.target));
        lines.push_back(fmt::format("{} ({} call{}{}): {}", finding.target, finding.nodes.size(),
                                    finding.nodes.size() == 1 ? "" : "s",
                                    finding.first_module.empty() ? "" : ", first in " + finding.first_module, finding.reason));
    }
    if (lines.empty()) return;
    const std::string remedy =
        composites.empty() ? "register a kernel for them, or change the model"
                           : fmt::format("take them apart with run_decompositions(torch._decomp.get_decompositions([{}]))",
                                         fmt::join(composites, ", "));
    throw Error(fmt::format("{}: operators that nothing here runs: {}; {}", graph.name, fmt::join(lines, "; "), remedy));
}

}  // namespace atalla
