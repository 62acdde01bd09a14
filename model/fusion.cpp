#include "model/fusion.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "generators/epilogue_expression.h"
#include "generators/expression.h"
#include "generators/pointwise_operators.h"
#include "generators/product_expression.h"
#include "isa/error.h"
#include "model/attention_fusion.h"
#include "model/norm_fusion.h"
#include "model/padding_fusion.h"

namespace atalla {

namespace {

// Lane operations of what is behind a product or a convolution: with more, the code costs more than the kernel saves. Behind a
// product that has time for them beside it there may be some more.
constexpr int64_t most_operations = 24, most_beside_product = 96;
// Tensors of a kernel: Halide's JIT, which checks it, takes eight with the result.
constexpr size_t most_inputs = 7;

Shape shape_of(const Graph &graph, ValueId id) { return constant_sizes(graph.type(id).sizes); }

// What a workload was asked for: the shapes of its tensors, which weights that lie otherwise in memory keep, and its attributes
// as keywords of a call.
struct Asked {
    std::vector<Shape> shapes;
    std::map<std::string, std::string> words;

    explicit Asked(const Workload &workload) {
        const nlohmann::json request = nlohmann::json::parse(workload.text());
        for (const nlohmann::json &tensor : request.at("tensors")) shapes.push_back(tensor.at(1).get<Shape>());
        for (const auto &[name, value] : request.at("attributes").items())
            if (!value.is_null()) words[name] = value.is_string() ? value.get<std::string>() : value.dump();
    }
};

// A kernel while nodes join it: its expression over inputs t0, t1, ...
class Chain {
public:
    Chain(const Graph &graph, const std::vector<PlacedNode> &placed) : graph_(&graph), placed_(&placed) {}

    // Begins with a product and the norm that makes its first operand. False if they are not these.
    bool begin(int32_t norm, int32_t product) {
        const Node &node = graph_->nodes[static_cast<size_t>(product)];
        const PlacedNode &placed = at(product);
        if (!is_product(placed, node) || placed.inputs[0] != graph_->nodes[static_cast<size_t>(norm)].outputs[0]) return false;
        const std::optional<ExpressionNode> rows = rows_of(norm);
        if (!rows || !call_product(placed.op->name(), placed.inputs, placed.added, rows)) return false;
        nodes_ = {norm, product};
        result_ = node.outputs[0];
        return make();
    }

    // Begins with a node. False if its kernel is neither a product without factors nor pointwise, nor takes an epilogue.
    bool begin(int32_t node) {
        const PlacedNode &first = at(node);
        nodes_ = {node};
        result_ = graph_->nodes[static_cast<size_t>(node)].outputs[0];
        if (const std::vector<ValueId> tensors = product_of_places(first, graph_->nodes[static_cast<size_t>(node)]);
            !tensors.empty()) {
            if (!call_product("conv1x1", tensors, first.added)) return false;
            alone_ = make();
            return alone_;
        }
        if (const std::string expression = first.workload->expression(); !expression.empty()) {
            expression_ = named(parse_expression(expression), first, {}, {});
            pointwise_ = true;
        } else if (is_product(first, graph_->nodes[static_cast<size_t>(node)])) {
            return call_product(first.op->name(), first.inputs, first.added);
        } else if (takes_epilogue(first.op->name())) {
            const Asked asked(*first.workload);
            for (size_t i = 0; i < first.inputs.size(); i++) shapes_[first.inputs[i]] = asked.shapes.at(i);
            return call_operator(first.op->name(), first.inputs, asked.words);
        } else {
            return false;
        }
        return true;
    }

    // Takes the only user of the result in, if one kernel can be both.
    bool join(int32_t user) {
        const Node &node = graph_->nodes[static_cast<size_t>(user)];
        const PlacedNode &placed = at(user);
        if (placed.place == PlacedNode::View) {
            // Operands of pointwise operators broadcast by their dimensions, which a view changes.
            if (!has_product(expression_)) return false;
            nodes_.push_back(user);
            result_ = node.outputs[0];
            return true;
        }
        if (placed.place != PlacedNode::Device) return false;
        const Chain before = *this;
        if (!(is_product(placed, node) ? join_product(user) : join_pointwise(user))) {
            *this = before;
            return false;
        }
        return true;
    }

    // The kernel of all but trailing views; nothing if it would be a single node as it is.
    std::optional<Fusion> fusion() const {
        std::vector<int32_t> nodes = nodes_;
        while (!nodes.empty() && at(nodes.back()).place == PlacedNode::View) nodes.pop_back();
        if ((nodes.size() < 2 && !alone_) || !made_) return {};
        return Fusion{std::move(nodes), *made_, second_product_, long_};
    }

private:
    const PlacedNode &at(int32_t node) const { return (*placed_)[static_cast<size_t>(node)]; }

    bool has_second_product() const { return second_product_ >= 0; }
    bool join_pointwise(int32_t user) {
        const Node &node = graph_->nodes[static_cast<size_t>(user)];
        if (at(user).workload->expression().empty() || shape_of(*graph_, node.outputs[0]) != shape_of(*graph_, result_))
            return false;
        expression_ = named(parse_expression(at(user).workload->expression()), at(user), result_, expression_);
        nodes_.push_back(user);
        result_ = node.outputs[0];
        if (make()) return true;
        // In front of another product it has a loop of its own.
        made_.reset();
        return too_long_ && has_product(expression_) && !has_second_product();
    }
    // A product whose first operand is the result of the chain, which is a product itself.
    bool join_product(int32_t user) {
        const PlacedNode &placed = at(user);
        if (has_second_product() || !has_product(expression_) || !makes_rows_ || placed.inputs[0] != result_ ||
            std::ranges::count(placed.inputs, result_) != 1)
            return false;
        const ExpressionNode rows = expression_;
        if (!call_product(placed.op->name(), placed.inputs, placed.added, rows) || !makes_rows_) return false;
        nodes_.push_back(user);
        result_ = graph_->nodes[static_cast<size_t>(user)].outputs[0];
        second_product_ = user;
        return make();
    }

    static bool is_product(const PlacedNode &placed, const Node &node) {
        if (node.find("alpha") != nullptr) return false;
        const std::string name = placed.op->name();
        return name == "linear" || name == "mm" || name == "bmm" || name == "matmul";
    }

    // The tensors of a convolution that multiplies the channels of each place by one matrix, as it stands in the graph; none if
    // it is another node.
    std::vector<ValueId> product_of_places(const PlacedNode &placed, const Node &node) const {
        if ((node.target != "aten::conv2d" && node.target != "aten::conv1d") || placed.fused || node.integer("groups") != 1)
            return {};
        const auto all = [](const std::vector<int64_t> &list, int64_t wanted) {
            return std::ranges::all_of(list, [=](int64_t n) { return n == wanted; });
        };
        const Shape weight = shape_of(*graph_, node.tensor("weight"));
        if (!all({weight.begin() + 2, weight.end()}, 1) || !all(node.integers("stride"), 1) ||
            !all(node.integers("padding"), 0))
            return {};
        std::vector<ValueId> tensors = {node.tensor("weight"), node.tensor("input")};
        if (const ValueId bias = node.optional_tensor("bias")) tensors.push_back(bias);
        return tensors;
    }

    // `first`: what makes the first tensor, in place of it.
    bool call_product(const std::string &name, const std::vector<ValueId> &tensors,
                      const std::map<std::string, std::string> &keywords, const std::optional<ExpressionNode> &first = {}) {
        makes_rows_ = (name == "linear" || name == "mm") && shape_of(*graph_, tensors[1]).size() == 2;
        return call_operator(name, tensors, keywords, first);
    }
    bool call_operator(const std::string &name, const std::vector<ValueId> &tensors,
                       const std::map<std::string, std::string> &keywords, const std::optional<ExpressionNode> &first = {}) {
        const size_t before = names_.size();
        std::vector<ExpressionNode> arguments;
        for (const ValueId id : tensors)
            arguments.push_back(first && arguments.empty() ? *first : ExpressionNode::input(name_of(id, true)));
        expression_ = ExpressionNode::call(name, std::move(arguments), keywords);
        return names_.size() ==
               before + tensors.size() - first.has_value();  // a tensor that is given twice is no expression of an operator
    }

    // A norm over the last dimension, of tensors that are not fused with others; nothing if the node is another.
    std::optional<ExpressionNode> rows_of(int32_t node) {
        const Node &norm = graph_->nodes[static_cast<size_t>(node)];
        if ((norm.target != "aten::layer_norm" && norm.target != "aten::rms_norm") || norm.outputs.size() != 1 ||
            at(node).place != PlacedNode::Device || at(node).fused)
            return {};
        const ValueId weight = norm.optional_tensor("weight"),
                      bias = norm.target == "aten::layer_norm" ? norm.optional_tensor("bias") : ValueId();
        if (norm.integers("normalized_shape").size() != 1 || (bias && !weight)) return {};
        std::map<std::string, std::string> keywords;
        if (const Argument *eps = norm.find("eps"); eps != nullptr && !std::holds_alternative<std::monostate>(*eps))
            keywords["eps"] = fmt::format("{}", std::get<double>(*eps));
        std::vector<ExpressionNode> arguments;
        for (const ValueId id : {norm.tensor("input"), weight, bias})
            if (id) arguments.push_back(ExpressionNode::input(name_of(id, true)));
        if (names_.size() != arguments.size()) return {};
        return ExpressionNode::call(norm.target.substr(norm.target.rfind(':') + 1), std::move(arguments), std::move(keywords));
    }

    // Of a tensor of the product, or of an operand behind it: those are apart even if they are the same value.
    std::string name_of(ValueId id, bool of_product) {
        const auto [entry, is_new] = names_.try_emplace({of_product, id}, fmt::format("t{}", inputs_.size()));
        if (is_new) inputs_.push_back(id);
        return entry->second;
    }

    // A node's expression over the chain's inputs, with `value` in place of `result`.
    ExpressionNode named(const ExpressionNode &expression, const PlacedNode &placed, ValueId result,
                         const ExpressionNode &value) {
        std::map<std::string, ExpressionNode> values;
        const std::vector<std::string> names = expression.inputs();
        for (size_t i = 0; i < names.size(); i++)
            values[names[i]] =
                result && placed.inputs[i] == result ? value : ExpressionNode::input(name_of(placed.inputs[i], false));
        return expression.with(values);
    }

    // The kernel of the nodes so far. False if there is none.
    bool make() {
        too_long_ = false;
        if (inputs_.size() > most_inputs) return false;
        try {
            PlacedNode kernel;
            kernel.place = PlacedNode::Device;
            kernel.op = &expression_operator(expression_.text());
            TensorList tensors;
            std::map<std::string, ValueId> values;
            for (const auto &[key, name] : names_) values[name] = key.second;
            // The operator's order is that of its expression.
            for (const OperatorTensor &tensor : kernel.op->tensors()) {
                const ValueId id = values.at(tensor.name);
                const auto own = shapes_.find(id);
                tensors.emplace_back(tensor.name, own != shapes_.end() ? own->second : shape_of(*graph_, id));
                kernel.inputs.push_back(id);
            }
            kernel.workload = kernel.op->workload_of(tensors, {});
            const int64_t operations = pointwise_ ? 0 : lane_operations(expression_);
            long_ = operations > most_operations;
            too_long_ = long_ && (operations > most_beside_product || !has_product(expression_) || has_second_product());
            if (too_long_ || kernel.workload->outputs()[0].elements() != element_count(shape_of(*graph_, result_)))
                return false;
            made_ = std::move(kernel);
            return true;
        } catch (const Error &) {
            return false;
        }
    }

    const Graph *graph_;
    const std::vector<PlacedNode> *placed_;
    ExpressionNode expression_;
    std::map<std::pair<bool, ValueId>, std::string> names_;
    std::vector<ValueId> inputs_;
    std::map<ValueId, Shape> shapes_;  // of inputs that have another one in the graph
    std::vector<int32_t> nodes_;
    ValueId result_;
    std::optional<PlacedNode> made_;
    bool alone_ = false;       // the first node by itself is another kernel than it was
    bool pointwise_ = false;   // no product
    bool long_ = false;        // more lane operations behind the product than run as fast in a kernel of their own
    bool too_long_ = false;    // and more than a kernel of it alone may have
    bool makes_rows_ = false;  // the last dimension of the product's result is that of its columns
    int32_t second_product_ = -1;
};

// The place in the list; nothing if none saves anything.
std::optional<size_t> best_of(const std::vector<Fusion> &candidates, const FusionSavings &saves) {
    if (!saves) {
        const auto last =
            std::ranges::find_if(candidates.rbegin(), candidates.rend(), std::logical_not(), &Fusion::long_epilogue);
        return last == candidates.rend() ? std::optional<size_t>() : candidates.rend() - last - 1;
    }
    std::optional<size_t> best;
    int64_t most = 0;
    for (size_t i = 0; i < candidates.size(); i++)
        if (const int64_t saved = saves(candidates[i]); saved > most) {
            most = saved;
            best = i;
        }
    return best;
}

}  // namespace

std::vector<Fusion> find_fusions(const Graph &graph, const std::vector<PlacedNode> &placed, const FusionSavings &saves) {
    const auto uses = graph.uses();
    std::vector<bool> taken(graph.nodes.size(), false);
    std::vector<Fusion> fusions;
    // What begins at a second product is asked for before its own turn.
    std::map<std::pair<std::vector<int32_t>, std::string>, int64_t> saved;
    const auto saves_once = [&](const Fusion &fusion) {
        const auto [entry, is_new] = saved.try_emplace({fusion.nodes, fusion.kernel.op->name()}, 0);
        if (is_new) entry->second = saves(fusion);
        return entry->second;
    };
    const FusionSavings alone = saves ? FusionSavings(saves_once) : FusionSavings();
    // Of candidates that grow.
    const auto choose = [&](std::vector<Fusion> candidates, const FusionSavings &gains) {
        const std::optional<size_t> best = best_of(candidates, gains);
        if (!best) return;
        for (const int32_t member : candidates[*best].nodes) taken[static_cast<size_t>(member)] = true;
        fusions.push_back(std::move(candidates[*best]));
    };
    for (int32_t node = 0; node < static_cast<int32_t>(graph.nodes.size()); node++) {
        if (placed[static_cast<size_t>(node)].place != PlacedNode::Device) continue;
        choose(attention_fusions(graph, placed, uses, node), alone);
        choose(norm_fusions(graph, placed, uses, node), alone);
    }
    // The node that makes a value which nothing but one node reads; else -1.
    const auto producer_of_one = [&](ValueId id) {
        return uses[static_cast<size_t>(id.index)].size() == 1 && !graph.is_output(id) ? graph.value(id).producer : -1;
    };
    // Longer and longer ones from a node on.
    const auto candidates_from = [&](int32_t node, bool products) {
        std::vector<Fusion> candidates;
        const auto grow = [&](Chain chain) {
            std::optional<Fusion> fusion = chain.fusion();
            size_t nodes = 0;
            for (int32_t last = node;;) {
                if (fusion && nodes < fusion->nodes.size()) {
                    nodes = fusion->nodes.size();
                    candidates.push_back(std::move(*fusion));
                }
                const ValueId result = graph.nodes[static_cast<size_t>(last)].outputs[0];
                const auto &users = uses[static_cast<size_t>(result.index)];
                if (users.size() != 1 || graph.is_output(result) || taken[static_cast<size_t>(users[0])] ||
                    !chain.join(users[0]))
                    break;
                last = users[0];
                fusion = chain.fusion();
            }
        };
        if (Chain chain(graph, placed); chain.begin(node)) grow(std::move(chain));
        if (const int32_t norm = products ? producer_of_one(placed[static_cast<size_t>(node)].inputs[0]) : -1;
            norm >= 0 && !taken[static_cast<size_t>(norm)])
            if (Chain chain(graph, placed); chain.begin(norm, node)) grow(std::move(chain));
        return candidates;
    };
    // Products before chains: what is behind one is worth more there than in a chain of its own.
    for (const bool products : {true, false}) {
        for (int32_t node = 0; node < static_cast<int32_t>(graph.nodes.size()); node++) {
            const PlacedNode &first = placed[static_cast<size_t>(node)];
            if (taken[static_cast<size_t>(node)] || first.place != PlacedNode::Device ||
                first.workload->expression().empty() != products)
                continue;
            if (graph.nodes[static_cast<size_t>(node)].outputs.size() != 1) continue;
            // Of two products, the second one would have had a kernel with what is behind it.
            const auto beside_second = [&](const Fusion &fusion) {
                int64_t other = 0;
                if (fusion.second_product >= 0)
                    for (const Fusion &candidate : candidates_from(fusion.second_product, true))
                        if (candidate.second_product < 0) other = std::max(other, saves_once(candidate));
                return saves_once(fusion) - other;
            };
            choose(candidates_from(node, products), saves ? FusionSavings(beside_second) : FusionSavings());
        }
    }
    return fusions;
}

std::vector<Fusion> find_padding_fusions(const Graph &graph, const std::vector<PlacedNode> &placed,
                                         const FusionSavings &saves) {
    const auto uses = graph.uses();
    std::vector<Fusion> fusions;
    for (int32_t node = 0; node < static_cast<int32_t>(graph.nodes.size()); node++)
        if (std::optional<Fusion> fusion = padding_fusion(graph, placed, uses, node); fusion && best_of({*fusion}, saves))
            fusions.push_back(std::move(*fusion));
    return fusions;
}

void apply(const Fusion &fusion, std::vector<PlacedNode> &placed) {
    for (int32_t node : fusion.nodes) {
        PlacedNode &member = placed[static_cast<size_t>(node)];
        member.fused = member.place == PlacedNode::Device;
        member.place = PlacedNode::Dropped;
    }
    PlacedNode &last = placed[static_cast<size_t>(fusion.nodes.back())];
    last = fusion.kernel;
    last.fused = true;
}

}  // namespace atalla
