// Who can run an operator: registries that are asked in order, and a report of all findings at once.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph_import/graph.h"

namespace atalla {

enum class Placement { Accelerator, Host };

// A registry's answer for one call.
struct SupportVerdict {
    bool supported = false;
    std::string reason;  // why not, a clause: "only float32 and bfloat16 are supported, this is int64"
};

// Operators that somebody can run: the accelerator's kernels, the host's, or a user's own.
class OperatorRegistry {
public:
    virtual ~OperatorRegistry() = default;
    virtual Placement placement() const = 0;
    virtual std::string name() const = 0;
    // Nothing if the registry has no such operator; otherwise whether it takes this call, by types, shapes and arguments.
    virtual std::optional<SupportVerdict> query(const Graph &graph, const Node &node) const = 0;
};

using Registries = std::vector<const OperatorRegistry *>;  // in the order in which they are asked

// The operators that interpret.h computes.
const OperatorRegistry &host_registry();

// A user's own registry, asked before the others; it must live as long as the program.
void register_operators(const OperatorRegistry *registry);
const Registries &registered_operators();

// Parts: the pass decompose makes other calls of it. Decomposition: PyTorch can take the operator apart into ones that are
// known. View: nothing is computed.
enum class SupportKind { Accelerator, Parts, Host, Decomposition, View, Unsupported };
std::string_view support_name(SupportKind kind);

struct SupportFinding {
    std::string target;
    SupportKind kind = SupportKind::Unsupported;
    std::string registry;        // that takes it
    std::string reason;          // why not the registries before
    std::vector<int32_t> nodes;  // all calls with the same finding
    std::string first_module;    // where the first of them is
};

struct SupportReport {
    std::vector<SupportFinding> findings;  // unsupported first, then by number of calls
    bool runnable() const;
    int count(SupportKind kind) const;  // of nodes
};

SupportReport support_report(const Graph &graph, const Registries &registries);
// Error with all unsupported operators, their counts, modules and what to do, unless the report is runnable.
void require_supported(const Graph &graph, const SupportReport &report);

}  // namespace atalla
