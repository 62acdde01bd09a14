#include "model/compile_model.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "generators/evaluate.h"
#include "graph_import/independence.h"
#include "graph_import/interpret.h"
#include "graph_import/passes.h"
#include "isa/error.h"
#include "isa/machine_parameters.h"
#include "model/arrangement.h"
#include "model/channels_fusion.h"
#include "model/fusion.h"
#include "model/program_price.h"
#include "model/specialization.h"
#include "runtime/checksum.h"
#include "runtime/model.h"

namespace atalla {

namespace {

std::unique_ptr<loadable::PortT> port_of(const Graph &graph, ValueId id, const std::string &name) {
    auto port = std::make_unique<loadable::PortT>();
    port->name = name;
    port->dtype = loadable_type(graph, id);
    for (const SymInt &size : graph.type(id).sizes) {
        auto dim = std::make_unique<loadable::DimT>();
        if (size.is_constant())
            dim->size = size.value();
        else
            dim->expression = size.text();
        port->dims.push_back(std::move(dim));
    }
    return port;
}

// Inputs that keep their value between calls: those that an output mutates.
std::map<int, int32_t> find_states(const Graph &graph) {
    std::map<int, int32_t> states;
    for (const GraphOutput &output : graph.outputs)
        if (output.kind == GraphOutput::Kind::Mutation &&
            graph.inputs[static_cast<size_t>(output.target)].kind != GraphInput::Kind::User)
            states.try_emplace(output.target, static_cast<int32_t>(states.size()));
    return states;
}

void require_weights(const Graph &graph) {
    for (const GraphInput &input : graph.inputs)
        if (input.kind != GraphInput::Kind::User && input.kind != GraphInput::Kind::Fixed && !input.data)
            throw Error(fmt::format("the value of {} is not in the archive: {}", input.name, input.missing));
}

void check_sizes(const Graph &graph, const Bindings &bindings) {
    for (const auto &[name, symbol] : graph.symbols) {
        const auto found = bindings.find(name);
        if (found == bindings.end()) throw Error(fmt::format("no size is given for {}", name));
        if (found->second < symbol.least || (symbol.most && found->second > *symbol.most))
            throw Error(fmt::format("{} = {} is out of the range of the export, [{}, {}]", name, found->second, symbol.least,
                                    symbol.most ? fmt::format("{}", *symbol.most) : "infinity"));
    }
    for (const auto &[name, value] : bindings)
        if (!graph.symbols.contains(name)) throw Error(fmt::format("the model has no size '{}'", name));
}

bool are_close(int64_t cycles, int64_t others, double share) {
    return std::abs(static_cast<double>(cycles) - static_cast<double>(others)) <
           share * static_cast<double>(std::max(cycles, others));
}
bool are_close_kernels(int64_t cycles, int64_t others) { return are_close(cycles, others, 0.1); }
// Calls of the host and cycles of models.
bool are_close_models(const std::pair<int64_t, int64_t> &cost, const std::pair<int64_t, int64_t> &other) {
    return cost.first == other.first && are_close(cost.second, other.second, 0.2);
}
// Prices of alternatives: quick ones where they are not close.
template <typename One, typename Other, typename Close>
auto compared(const One &one, const Other &other, const Close &close) {
    const std::pair quick{one(Effort::Quick), other(Effort::Quick)};
    return close(quick.first, quick.second) ? std::pair{one(Effort::Full), other(Effort::Full)} : quick;
}

class ModelCompiler {
public:
    ModelCompiler(const Graph &graph, const Machine &machine, const CompileModelOptions &options)
        : graph_(graph), machine_(machine), options_(options), kernels_(machine, options.kernels) {}

    CompiledModel run() {
        require_weights(graph_);
        describe();
        const std::map<int, int32_t> states = add_states();
        std::vector<Bindings> sizes = options_.sizes;
        if (sizes.empty()) sizes.push_back(example_sizes(graph_));
        for (const Bindings &bindings : sizes) add_specialization(bindings, states);
        model_.constants = pool_.take();
        return write();
    }

private:
    void describe() {
        model_.major = loadable_major;
        model_.minor = loadable_minor;
        model_.name = options_.name.empty() ? graph_.name : options_.name;
        model_.compiler = compiler_fingerprint();
        model_.machine = machine_.name;
        model_.machine_fingerprint = machine_.fingerprint();
        model_.functional = !machine_.timed();
        for (const ParameterEntry &entry : parameter_table()) {
            auto parameter = std::make_unique<loadable::ParameterT>();
            parameter->key = std::string(entry.key);
            parameter->value = entry.get(machine_);
            model_.parameters.push_back(std::move(parameter));
        }
        for (const GraphInput &input : graph_.inputs)
            if (input.kind == GraphInput::Kind::User && input.value) {
                if (graph_.value(input.value).kind != Value::Kind::Tensor)
                    throw Error(
                        fmt::format("input {} is a number; only tensors can be inputs of a compiled model", input.name));
                model_.inputs.push_back(port_of(graph_, input.value, input.name));
            }
        for (const GraphOutput &output : graph_.outputs) {
            const auto *id = std::get_if<ValueId>(&output.value);
            if (id == nullptr || !*id || graph_.value(*id).kind != Value::Kind::Tensor) continue;
            if (output.kind == GraphOutput::Kind::User)
                model_.outputs.push_back(port_of(graph_, *id, output.name));
            else if (const GraphInput &target = graph_.inputs[static_cast<size_t>(output.target)];
                     target.kind == GraphInput::Kind::User)
                model_.outputs.push_back(port_of(graph_, *id, fmt::format("{} (mutated)", target.name)));
        }
        for (const auto &[name, symbol] : graph_.symbols) {
            auto made = std::make_unique<loadable::SymbolT>();
            made->name = name;
            made->least = symbol.least;
            made->most = symbol.most.value_or(INT64_MAX);
            made->filled = options_.fill;
            if (options_.fill)
                if (const std::string why = dependence(graph_, name); !why.empty())
                    throw Error(
                        fmt::format("calls cannot be filled up to a larger {}: {}; compile each size by itself", name, why));
            model_.symbols.push_back(std::move(made));
        }
        model_.guards = graph_.guards;
    }

    std::map<int, int32_t> add_states() {
        const std::map<int, int32_t> states = find_states(graph_);
        model_.states.resize(states.size());
        for (const auto &[input, state] : states) {
            const GraphInput &from = graph_.inputs[static_cast<size_t>(input)];
            auto made = std::make_unique<loadable::StateT>();
            made->name = from.name;
            made->dtype = static_cast<loadable::DType>(from.data->dtype);
            made->sizes = from.data->sizes;
            made->initial = pool_.add(from.name, *from.data, false);
            model_.states[static_cast<size_t>(state)] = std::move(made);
        }
        return states;
    }

    void add_specialization(const Bindings &bindings, const std::map<int, int32_t> &states) {
        check_sizes(graph_, bindings);
        auto [prepared, kernel_of] = verified(bindings);
        const Graph &graph = *prepared.graph;
        const std::vector<PlacedNode> &placed = prepared.placed;
        if (model_.specializations.empty()) report(graph, placed);
        used_.insert(kernel_of.begin(), kernel_of.end());
        auto [made, plan] =
            make_specialization({graph, placed, kernel_of, kernels_.kernels(), states, options_.one_by_one}, machine_, pool_);
        for (const auto &[name, value] : bindings) {
            auto symbol = std::make_unique<loadable::SymbolValueT>();
            symbol->name = name;
            symbol->value = value;
            made->symbols.push_back(std::move(symbol));
        }
        for (const auto &[kernel, fusion] : prepared.fusions)
            made->fusions.push_back(std::make_unique<loadable::FusionT>(fusion));
        model_.specializations.push_back(std::move(made));
        plans_.push_back(std::move(plan));
    }

    struct Prepared {
        std::shared_ptr<Graph> graph;  // of all ways to fuse its operators
        std::vector<PlacedNode> placed;
        std::map<std::string, loadable::FusionT> fusions;  // what was tried, by kernel
        std::vector<PlacedNode> parts;                     // as placed was before operators were fused
        std::set<std::string> taken;                       // kernels of fusions of these
        // Kernels whose cycles and those of their parts, each run alone, are so close that the program decides.
        std::set<std::string> undecided;
    };
    // Kernels of fusions, by title, that are taken wherever they can be (true), or nowhere.
    using Decisions = std::map<std::string, bool>;

    struct Verified {
        Prepared prepared;
        std::vector<int> kernel_of;  // by node, -1: none
    };

    // With kernels that give right results. A schedule that does not gives way to another, with which another layout or fusion
    // may be better.
    Verified verified(const Bindings &bindings) {
        while (true) {
            Prepared prepared = faster_layout(bindings);
            if (options_.fuse && options_.price_programs) decide_in_program(prepared);
            std::vector<int> kernel_of = add_kernels(prepared);
            if (kernels_.verify(kernel_of)) return {std::move(prepared), std::move(kernel_of)};
        }
    }
    // What has no kernel goes to the host.
    std::vector<int> add_kernels(Prepared &prepared) {
        const Graph &graph = *prepared.graph;
        std::vector<PlacedNode> &placed = prepared.placed;
        std::vector<int> kernel_of(graph.nodes.size(), -1);
        kernels_.search_ahead(placed, Effort::Full);
        for (size_t n = 0; n < placed.size(); n++) {
            if (placed[n].place != PlacedNode::Device) continue;
            try {
                kernel_of[n] = static_cast<int>(kernels_.add(*placed[n].op, placed[n].workload));
            } catch (const Error &error) {
                if (!can_interpret(graph.nodes[n].target)) throw;
                placed[n].place = PlacedNode::Host;
                placed[n].reason = error.what();
            }
        }
        return kernel_of;
    }

    // Of the layouts of images, the last of which is PyTorch's; of equal ones the later.
    Prepared faster_layout(const Bindings &bindings) {
        std::optional<Prepared> best;
        bool changed = true;
        for (auto skipped = image_layouts().begin(); changed; ++skipped) {
            PassOptions passes = options_.passes;
            passes.skipped.insert(skipped->begin(), skipped->end());
            changed = false;
            passes.after = [&](const Pass &pass, int changes, const Graph &graph) {
                changed = changed || (image_layouts().back().contains(pass.name) && changes > 0);
                if (options_.passes.after) options_.passes.after(pass, changes, graph);
            };
            Graph graph = passed(bindings, passes);
            try {
                Prepared prepared = prepare(std::move(graph));
                if (!best && !changed) return prepared;
                if (best && !costs_no_more(prepared, *best)) continue;
                best = std::move(prepared);
            } catch (const Error &) {
                if (!changed && !best) throw;  // otherwise something that only another layout has a kernel for
            }
        }
        return std::move(*best);
    }
    Graph passed(const Bindings &bindings, const PassOptions &passes) const {
        Graph graph = bindings.empty() ? clone(graph_) : specialize(graph_, bindings);
        run_passes(graph, passes);
        return graph;
    }
    Prepared prepare(Graph graph) {
        Prepared prepared;
        prepared.graph = std::make_shared<Graph>(std::move(graph));
        prepared.placed = place_nodes(*prepared.graph, options_.placement);
        require_placed(*prepared.graph, prepared.placed);
        if (options_.fuse) fuse(prepared, find_padding_fusions, true);
        if (options_.fuse) fuse(prepared, find_channels_fusions, true);
        arrange(prepared);
        prepared.parts = prepared.placed;
        if (options_.fuse) fuse_operators(prepared, {});
        return prepared;
    }
    // Calls of the host, then cycles of the kernels.
    std::pair<int64_t, int64_t> cost(const Prepared &prepared, Effort effort) {
        std::pair<int64_t, int64_t> sum;
        kernels_.search_ahead(prepared.placed, effort);
        for (const PlacedNode &node : prepared.placed) {
            sum.first += node.place == PlacedNode::Host;
            if (node.place != PlacedNode::Device) continue;
            try {
                sum.second += kernels_.cycles(*node.op, node.workload, effort);
            } catch (const Error &) {
                sum.first++;  // no schedule of it compiles
            }
        }
        return sum;
    }

    bool costs_no_more(const Prepared &prepared, const Prepared &other) {
        const auto [cost_of_one, cost_of_other] =
            compared([&](Effort effort) { return cost(prepared, effort); }, [&](Effort effort) { return cost(other, effort); },
                     are_close_models);
        return cost_of_one <= cost_of_other;
    }

    // Weights in another order, where that takes fewer cycles.
    void arrange(Prepared &prepared) {
        const auto cycles = [&](const Operator &op, const std::shared_ptr<const Workload> &workload, Effort effort) {
            try {
                return kernels_.cycles(op, workload, effort);
            } catch (const Error &) {
                return int64_t{INT64_MAX};  // no schedule of it compiles
            }
        };
        std::map<const PlacedNode *, std::shared_ptr<const Workload>> best;
        arrange_constants(*prepared.graph, prepared.placed, machine_,
                          [&](const PlacedNode &node, const Arrangement &arrangement) {
                              std::shared_ptr<const Workload> &so_far = best.try_emplace(&node, node.workload).first->second;
                              loadable::FusionT found;
                              found.kernel = fmt::format("{} {}", node.op->name(), arrangement.workload->title());
                              std::tie(found.cycles, found.apart) =
                                  compared([&](Effort effort) { return cycles(*node.op, arrangement.workload, effort); },
                                           [&](Effort effort) { return cycles(*node.op, so_far, effort); }, are_close_kernels);
                              if (found.cycles == INT64_MAX) return false;
                              found.chosen = found.cycles < found.apart;
                              prepared.fusions.try_emplace(found.kernel, found).first->second.calls++;
                              if (found.chosen) so_far = arrangement.workload;
                              return found.chosen;
                          });
    }

    // Of a kernel; `arranged`: with its constant weights in the order that arrange() will give them. Error if no schedule of it
    // compiles.
    int64_t cycles_of(const Graph &graph, const PlacedNode &node, bool arranged, Effort effort) {
        std::vector<std::shared_ptr<const Workload>> workloads = {node.workload};
        if (arranged)
            for (const Arrangement &arrangement : node.workload->arrangements(machine_))
                if (graph.constant_data(node.inputs.at(arrangement.input)) != nullptr)
                    workloads.push_back(arrangement.workload);
        std::optional<int64_t> least;
        std::string failure;
        for (const std::shared_ptr<const Workload> &workload : workloads) {
            try {
                const int64_t cycles = kernels_.cycles(*node.op, workload, effort);
                least = std::min(cycles, least.value_or(cycles));
            } catch (const Error &error) {
                failure = error.what();
            }
        }
        if (!least) throw Error(failure);
        return *least;
    }

    // What one kernel computes in fewer cycles than several, or what was decided. Returns the titles of what it takes.
    using FindFusions = std::function<std::vector<Fusion>(Graph &, const std::vector<PlacedNode> &, const FusionSavings &)>;
    std::set<std::string> fuse(Prepared &prepared, const FindFusions &find, bool arranged, const Decisions &decided = {},
                               const std::function<void(const Fusion &, const loadable::FusionT &)> &priced = {}) {
        auto &placed = prepared.placed;
        promised_.clear();
        std::map<std::string, uint32_t> calls;
        constexpr int64_t decided_savings = std::numeric_limits<int64_t>::max() / 4;
        const auto saves = [&](const Fusion &fusion) -> int64_t {
            loadable::FusionT found;
            found.kernel = title_of(fusion.kernel);
            if (const auto decision = decided.find(found.kernel); decision != decided.end())
                return decision->second ? decided_savings : 0;
            if (fusion.second_product >= 0 && !may_save(fusion, placed)) return 0;
            if (fusion.long_epilogue && !promises(fusion, placed)) return 0;
            const auto together = [&](Effort effort) { return cycles_of(*prepared.graph, fusion.kernel, arranged, effort); };
            const auto apart = [&](Effort effort) {
                try {
                    int64_t sum = 0;
                    for (const int32_t node : fusion.nodes) {
                        const PlacedNode &part = placed[static_cast<size_t>(node)];
                        if (part.place == PlacedNode::Device) sum += cycles_of(*prepared.graph, part, arranged, effort);
                    }
                    return sum;
                } catch (const Error &) {
                    return int64_t{INT64_MAX};  // only together on the accelerator
                }
            };
            try {
                std::tie(found.cycles, found.apart) = compared(together, apart, are_close_kernels);
            } catch (const Error &) {
                return 0;  // no schedule of it compiles
            }
            loadable::FusionT &noted = prepared.fusions.try_emplace(found.kernel, found).first->second;
            noted.calls = std::max(noted.calls, ++calls[found.kernel]);
            if (priced) priced(fusion, found);
            return found.apart - found.cycles;
        };
        kernels_.search_ahead(placed, Effort::Quick);
        std::set<std::string> taken;
        for (const Fusion &fusion : find(*prepared.graph, placed, saves)) {
            const std::string title = title_of(fusion.kernel);
            prepared.fusions.at(title).chosen = true;
            taken.insert(title);
            apply(fusion, placed);
        }
        return taken;
    }

    // From its parts.
    void fuse_operators(Prepared &prepared, const Decisions &decided) {
        prepared.placed = prepared.parts;
        // Cycles that a boundary between kernels hides or adds at most.
        constexpr int64_t most_hidden = 2000;
        const auto is_undecided = [&](const Fusion &fusion, const loadable::FusionT &found) {
            const auto parts = std::ranges::count_if(fusion.nodes, [&](int32_t node) {
                return prepared.parts[static_cast<size_t>(node)].place == PlacedNode::Device;
            });
            if (std::abs(found.apart - found.cycles) <= most_hidden * std::max<int64_t>(parts - 1, 1))
                prepared.undecided.insert(found.kernel);
        };
        for (const std::string &title : prepared.taken) prepared.fusions.at(title).chosen = false;
        prepared.taken = fuse(prepared, find_fusions, false, decided, is_undecided);
    }

    // A kernel that is run alone begins with nothing before it and ends when its last result has left. In a program it overlaps
    // with its neighbours, and finds its code in the instruction cache or not. Fusions that are close alone are taken or not by
    // what the program takes, all of one kernel at once.
    void decide_in_program(Prepared &best) {
        constexpr int64_t most_whole = 1'000'000;  // cycles
        const bool whole = cost(best, Effort::Quick).second <= most_whole;
        ProgramPrices prices(kernels_);
        ProgramPrices::Cost least = prices.cost(*best.graph, best.placed, whole);
        Decisions decided;
        for (bool changed = true; changed;) {
            changed = false;
            for (const std::string &title : std::set(best.undecided)) {
                Prepared other = best;
                Decisions others = decided;
                others[title] = !best.taken.contains(title);
                fuse_operators(other, others);
                try {
                    ProgramPrices::Cost cost = prices.cost(*other.graph, other.placed, whole);
                    if (!prices.takes_less(cost, least)) continue;
                    least = std::move(cost);
                } catch (const Error &) {
                    continue;  // memory does not hold it
                }
                best = std::move(other);
                decided = std::move(others);
                changed = true;
            }
        }
    }

    // Priced once, since layers repeat.
    std::optional<double> drafted(const PlacedNode &kernel) {
        const auto [entry, is_new] = drafted_.try_emplace(title_of(kernel));
        if (is_new) entry->second = kernels_.drafted(*kernel.op, kernel.workload);
        return entry->second;
    }
    // Whether a kernel of two products is worth its runs. Large ones never were: both products' code shares the instruction
    // cache, which the draft does not know. It has to promise more than another kernel of theirs.
    bool may_save(const Fusion &fusion, const std::vector<PlacedNode> &placed) {
        if (!machine_.timed()) return false;  // its pads have no room for the rows
        const double apart = drafted_apart(fusion, placed);
        if (apart > large_product) return false;
        const std::optional<double> together = drafted(fusion.kernel);
        if (!together || *together > apart) return false;
        double &most = promised_[fusion.second_product];
        if (apart - *together <= most) return false;
        most = apart - *together;
        return true;
    }

    double drafted_apart(const Fusion &fusion, const std::vector<PlacedNode> &placed) {
        double apart = 0;
        for (const int32_t node : fusion.nodes) {
            const PlacedNode &part = placed[static_cast<size_t>(node)];
            if (part.place == PlacedNode::Device) apart += drafted(part).value_or(std::numeric_limits<double>::infinity());
        }
        return apart;
    }
    // Whether a kernel with a long epilogue is worth its runs: a large one, whose epilogue has the time of many blocks, which
    // the draft expects to take less than its parts.
    bool promises(const Fusion &fusion, const std::vector<PlacedNode> &placed) {
        const double apart = drafted_apart(fusion, placed);
        return machine_.timed() && apart > large_product &&
               drafted(fusion.kernel).value_or(std::numeric_limits<double>::infinity()) < apart;
    }
    static constexpr double large_product = 50'000;  // cycles

    static std::string title_of(const PlacedNode &kernel) {
        return fmt::format("{} {}", kernel.op->name(), kernel.workload->title());
    }

    void report(const Graph &graph, const std::vector<PlacedNode> &placed) {
        std::map<std::tuple<bool, std::string, std::string>, uint32_t> calls;
        for (size_t n = 0; n < placed.size(); n++) {
            const bool device = placed[n].place == PlacedNode::Device || placed[n].fused;
            if (device || placed[n].place == PlacedNode::Host)
                calls[{!device, graph.nodes[n].target, device ? "" : placed[n].reason}]++;
        }
        for (const auto &[key, count] : calls) {
            auto finding = std::make_unique<loadable::FindingT>();
            finding->accelerator = !std::get<0>(key);
            finding->target = std::get<1>(key);
            finding->reason = std::get<2>(key);
            finding->calls = count;
            model_.findings.push_back(std::move(finding));
        }
    }

    CompiledModel write() {
        constexpr uint64_t largest = uint64_t{2'000'000'000};
        uint64_t bytes = 0;
        for (const auto &constant : model_.constants) bytes += constant->data.size();
        if (bytes > largest)
            throw Error(fmt::format("the model's constants take {} bytes, but a loadable holds at most {}", bytes, largest));
        CompiledModel result;
        result.bytes = loadable_bytes(model_);
        for (auto &constant : model_.constants) constant->data.clear();
        result.tables = std::move(model_);
        result.plans = std::move(plans_);
        result.notes = kernels_.notes();
        for (const int kernel : used_)
            if (kernel >= 0) result.kernels.push_back(kernels_.kernels()[static_cast<size_t>(kernel)]);
        return result;
    }

    const Graph &graph_;
    const Machine &machine_;
    const CompileModelOptions &options_;
    KernelSet kernels_;
    std::set<int> used_;                                    // of kernels_
    std::map<std::string, std::optional<double>> drafted_;  // of kernels of two products and their parts, by title
    std::map<int32_t, double> promised_;                    // cycles, by the second product of kernels of two
    ConstantPool pool_;
    loadable::ModelT model_;
    std::vector<ModelPlan> plans_;
};

}  // namespace

Bindings example_sizes(const Graph &graph) {
    Bindings bindings;
    for (const auto &[name, symbol] : graph.symbols) bindings[name] = symbol.hint.value_or(std::max<int64_t>(symbol.least, 1));
    return bindings;
}

CompiledModel compile_model(const Graph &graph, const Machine &machine, const CompileModelOptions &options) {
    return ModelCompiler(graph, machine, options).run();
}

}  // namespace atalla
