#include "graph_import/independence.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "graph_import/passes.h"
#include "isa/error.h"

namespace atalla {

namespace {

using Names = std::set<std::string_view>;

// Each element of the result is computed of the elements at its place in the operands, which repeat themselves as PyTorch has
// it.
// clang-format off
const Names element_wise = {
    "aten::add.Tensor", "aten::sub.Tensor", "aten::rsub.Scalar", "aten::mul.Tensor", "aten::div.Tensor", "aten::neg",
    "aten::abs", "aten::relu", "aten::relu6", "aten::gelu", "aten::silu", "aten::mish", "aten::elu", "aten::leaky_relu",
    "aten::tanh", "aten::sigmoid", "aten::softplus", "aten::hardswish", "aten::hardsigmoid", "aten::hardtanh", "aten::clamp",
    "aten::exp", "aten::log", "aten::sqrt", "aten::rsqrt", "aten::reciprocal", "aten::erf", "aten::sin", "aten::cos",
    "aten::pow.Tensor_Scalar", "aten::maximum", "aten::minimum", "aten::where.self", "aten::where.Scalar",
    "aten::where.ScalarSelf", "aten::where.ScalarOther", "aten::masked_fill.Scalar", "aten::_to_copy", "aten::lt.Tensor",
    "aten::le.Tensor", "aten::gt.Tensor", "aten::ge.Tensor", "aten::eq.Tensor", "aten::ne.Tensor", "aten::lt.Scalar",
    "aten::le.Scalar", "aten::gt.Scalar", "aten::ge.Scalar", "aten::eq.Scalar", "aten::ne.Scalar", "aten::__and__.Tensor",
    "aten::bitwise_and.Tensor", "aten::logical_and", "aten::__or__.Tensor", "aten::bitwise_or.Tensor", "aten::logical_or",
    "aten::bitwise_not", "aten::logical_not"};
// clang-format on
// The first dimension counts examples.
// clang-format off
const Names of_examples = {
    "aten::conv1d", "aten::conv2d", "aten::conv_transpose2d.input", "aten::max_pool2d", "aten::avg_pool2d",
    "aten::adaptive_avg_pool2d", "aten::batch_norm", "aten::group_norm", "aten::constant_pad_nd",
    "aten::upsample_nearest2d.vec", "aten::upsample_bilinear2d.vec"};
// clang-format on
// What works along the dimensions of an argument and treats the others alike.
// clang-format off
const Names along = {
    "aten::softmax.int", "aten::log_softmax.int", "aten::mean.dim", "aten::sum.dim_IntList", "aten::amax", "aten::amin",
    "aten::any.dim", "aten::cumsum", "aten::select.int", "aten::slice.Tensor", "aten::cat", "aten::split.Tensor",
    "aten::split_with_sizes", "aten::chunk"};
// clang-format on
// Arguments that are sizes of the result.
const Names sized = {"aten::view",         "aten::expand", "aten::full", "aten::arange.start_step",
                     "aten::arange.start", "aten::arange"};

bool mentions(const SymInt &size, const std::string &symbol) {
    std::set<std::string> names;
    size.collect_symbols(names);
    return names.contains(symbol);
}

class Analysis {
public:
    Analysis(const Graph &graph, const std::string &symbol) : graph_(graph), symbol_(symbol), size_(SymInt::symbol(symbol)) {}

    std::string run() {
        for (const GraphOutput &output : graph_.outputs)
            if (output.kind == GraphOutput::Kind::Mutation)
                return fmt::format("{} keeps its value for the next call",
                                   graph_.inputs[static_cast<size_t>(output.target)].name);
        for (const Value &value : graph_.values)
            if (const std::string why = odd(value); !why.empty()) return why;
        for (const GraphInput &input : graph_.inputs)
            if (input.value && !is_plain(input.value))
                return fmt::format("a size of {} is a multiple of {}", input.name, symbol_);
        for (const GraphOutput &output : graph_.outputs)
            if (const auto *id = std::get_if<ValueId>(&output.value); id != nullptr && *id && !is_plain(*id))
                return fmt::format("a size of {} is a multiple of {}", output.name, symbol_);
        for (const Node &node : graph_.nodes) {
            try {
                if (!keeps_apart(node))
                    return fmt::format("{}{} may mix what lies along {}", node.target,
                                       node.module.empty() ? "" : fmt::format(" in {}", node.module), symbol_);
            } catch (const Error &error) {
                return error.what();
            }
        }
        return "";
    }

private:
    // Why a value is not one with the size, or a multiple, in one dimension, or without it. A multiple's positions are blocks,
    // since views keep what is before them.
    std::string odd(const Value &value) const {
        if (value.kind != Value::Kind::Tensor) return "";
        int dimensions = 0;
        for (const SymInt &size : value.type.sizes) {
            if (!mentions(size, symbol_)) continue;
            dimensions++;
            if (!is_multiple(size)) return fmt::format("a size of {} is {}", value.name, size.text());
        }
        return dimensions > 1 ? fmt::format("{} has {} more than once", value.name, symbol_) : "";
    }

    bool is_multiple(const SymInt &size) const {
        if (size == size_) return true;
        if (size.op() != SymInt::Op::Mul) return false;
        const std::vector<SymInt> &factors = size.arguments();
        return std::count(factors.begin(), factors.end(), size_) == 1 &&
               std::count_if(factors.begin(), factors.end(), [&](const SymInt &factor) { return mentions(factor, symbol_); }) ==
                   1;
    }
    bool is_plain(ValueId id) const {
        return graph_.value(id).kind != Value::Kind::Tensor || dimension(id) < 0 ||
               graph_.type(id).sizes[static_cast<size_t>(dimension(id))] == size_;
    }

    // The dimension of a value that is the symbol's, or -1.
    int64_t dimension(ValueId id) const {
        const Sizes &sizes = graph_.type(id).sizes;
        for (size_t d = 0; d < sizes.size(); d++)
            if (mentions(sizes[d], symbol_)) return static_cast<int64_t>(d);
        return -1;
    }
    int64_t rank(ValueId id) const { return static_cast<int64_t>(graph_.type(id).sizes.size()); }
    // Counted from the last dimension, 1 for it; 0 for none.
    int64_t from_the_end(ValueId id) const { return dimension(id) < 0 ? 0 : rank(id) - dimension(id); }

    bool is_in_arguments(const Node &node) const {
        return std::any_of(node.arguments.begin(), node.arguments.end(), [&](const NamedArgument &argument) {
            if (const auto *one = std::get_if<SymInt>(&argument.value)) return mentions(*one, symbol_);
            const auto *list = std::get_if<Sizes>(&argument.value);
            return list != nullptr &&
                   std::any_of(list->begin(), list->end(), [&](const SymInt &size) { return mentions(size, symbol_); });
        });
    }

    bool keeps_apart(const Node &node) {
        if (std::none_of(node.outputs.begin(), node.outputs.end(), [](ValueId id) { return static_cast<bool>(id); }))
            return true;
        const bool tensors = std::all_of(node.outputs.begin(), node.outputs.end(),
                                         [&](ValueId id) { return !id || graph_.value(id).kind == Value::Kind::Tensor; });
        if (!tensors) return node.target == "aten::sym_size.int" || node.target.starts_with("_operator.");
        bool used = false;
        for_each_value(node, [&](ValueId id) { used = used || dimension(id) >= 0; });
        const bool made =
            std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) { return id && dimension(id) >= 0; });
        if (!sized.contains(node.target) && is_in_arguments(node)) return false;
        if (!used && !made && !is_in_arguments(node)) return true;
        return keeps_apart_along(node);
    }

    bool keeps_apart_along(const Node &node) {
        const std::string &target = node.target;
        const ValueId result =
            *std::find_if(node.outputs.begin(), node.outputs.end(), [](ValueId id) { return static_cast<bool>(id); });
        if (element_wise.contains(target)) {
            bool same = true;
            for_each_value(node,
                           [&](ValueId id) { same = same && (dimension(id) < 0 || from_the_end(id) == from_the_end(result)); });
            if (same && target == "aten::_to_copy" && counts_.contains(node.tensor("self"))) counts_.insert(result);
            return same;
        }
        if (target == "aten::full") return !mentions_in(node, "fill_value");
        if (target.starts_with("aten::arange")) {
            if (mentions_in(node, "start") || mentions_in(node, "step")) return false;
            const bool from_zero = (node.find("start") == nullptr || node.integer("start") == 0) &&
                                   (node.find("step") == nullptr || node.integer("step") == 1);
            if (from_zero && dimension(result) == 0 && is_plain(result)) counts_.insert(result);
            return dimension(result) == 0;
        }
        if (of_examples.contains(target))
            return only_the_first(node) && dimension(first(node)) == 0 &&
                   (node.find("training") == nullptr || !node.flag("training"));
        if (target == "aten::linear") return only_the_first(node) && from_the_end(first(node)) != 1;
        if (target == "aten::addmm") {
            const ValueId added = node.tensor("self"), rows = node.tensor("mat1");
            return dimension(rows) == 0 && dimension(node.tensor("mat2")) < 0 &&
                   (dimension(added) < 0 || from_the_end(added) == 2);
        }
        if (target == "aten::layer_norm" || target == "aten::rms_norm")
            return only_the_first(node) &&
                   from_the_end(first(node)) > static_cast<int64_t>(node.sizes("normalized_shape").size());
        if (target == "aten::matmul" || target == "aten::bmm" || target == "aten::mm") return product(node);
        if (target == "aten::scaled_dot_product_attention") return attention(node);
        if (target == "aten::embedding") return dimension(node.tensor("weight")) < 0;
        if (target == "aten::index.Tensor") return index(node);
        if (target == "aten::view") return view(node.tensor("self"), result);
        if (target == "aten::expand") {
            if (counts_.contains(node.tensor("self"))) counts_.insert(result);
            return dimension(node.tensor("self")) < 0 || from_the_end(node.tensor("self")) == from_the_end(result);
        }
        if (target == "aten::permute") {
            const std::vector<int64_t> dims = node.integers("dims");
            const int64_t from = dims.at(static_cast<size_t>(dimension(result)));
            return (from < 0 ? from + rank(result) : from) == dimension(node.tensor("self"));
        }
        if (along.contains(target)) return apart_from_dimensions(node);
        return false;
    }

    bool mentions_in(const Node &node, std::string_view name) const {
        const Argument *argument = node.find(name);
        const auto *one = argument == nullptr ? nullptr : std::get_if<SymInt>(argument);
        return one != nullptr && mentions(*one, symbol_);
    }

    static ValueId first(const Node &node) { return std::get<ValueId>(node.arguments.at(0).value); }
    bool only_the_first(const Node &node) const {
        bool alone = dimension(first(node)) >= 0;
        for_each_value(node, [&](ValueId id) { alone = alone && (id == first(node) || dimension(id) < 0); });
        return alone;
    }

    // Not along what is summed over, and in one place of both.
    bool product(const Node &node) const {
        const ValueId a = first(node), b = std::get<ValueId>(node.arguments.at(1).value);
        if (rank(a) < 2 || rank(b) < 2) return false;
        const int64_t in_a = from_the_end(a), in_b = from_the_end(b);
        if (in_a == 1 || in_b == 2) return false;
        if (in_a != 0 && in_b != 0) return in_a > 2 && in_a == in_b;
        return true;
    }

    bool attention(const Node &node) const {
        bool apart = true;
        for_each_value(node, [&](ValueId id) {
            const int64_t at = from_the_end(id);
            apart = apart && (at == 0 || (at > 2 && at == from_the_end(node.outputs[0])));
        });
        return apart;
    }

    // x[first, second...], where the first index is the place itself.
    bool index(const Node &node) const {
        const ValueId x = node.tensor("self");
        const std::vector<ValueId> indices = node.tensors("indices");
        const auto behind = rank(x) - static_cast<int64_t>(indices.size());  // dimensions that are not indexed
        if (dimension(x) > 0 || (dimension(x) == 0 && !(is_plain(x) && counts_.contains(indices.at(0))))) return false;
        return std::all_of(indices.begin(), indices.end(), [&](ValueId id) {
            return id && (dimension(id) < 0 || from_the_end(id) + behind == from_the_end(node.outputs[0]));
        });
    }

    // The same number of elements before the dimension, and so behind it.
    bool view(ValueId from, ValueId to) {
        const auto before = [&](ValueId id) {
            SymInt elements = 1;
            for (int64_t d = 0; d < dimension(id); d++) elements = elements * graph_.type(id).sizes[static_cast<size_t>(d)];
            return elements;
        };
        const auto alone = [&](ValueId id) {
            return std::all_of(graph_.type(id).sizes.begin(), graph_.type(id).sizes.end(),
                               [&](const SymInt &size) { return size == size_ || size == SymInt(1); });
        };
        if (counts_.contains(from) && alone(to)) counts_.insert(to);
        return dimension(from) >= 0 && dimension(to) >= 0 && before(from) == before(to);
    }

    bool apart_from_dimensions(const Node &node) const {
        std::vector<ValueId> operands;
        for_each_value(node, [&](ValueId id) { operands.push_back(id); });
        const int64_t dimension_of_all = dimension(operands.at(0));
        if (node.is_none("dim")) return false;  // all of them
        for (const int64_t d : node.integers("dim"))
            if ((d < 0 ? d + rank(operands[0]) : d) == dimension_of_all) return false;
        return !node.integers("dim").empty() &&
               std::all_of(operands.begin(), operands.end(), [&](ValueId id) { return dimension(id) == dimension_of_all; });
    }

    const Graph &graph_;
    const std::string &symbol_;
    const SymInt size_;
    std::set<ValueId> counts_;  // whose elements along the dimension are 0, 1, 2...
};

}  // namespace

std::string dependence(const Graph &given, const std::string &symbol) {
    Graph graph = clone(given);
    canonicalize(graph);
    return Analysis(graph, symbol).run();
}

}  // namespace atalla
