// One form for each meaning, so that later passes and whoever compiles the graph need to know fewer operators.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "graph_import/passes.h"
#include "graph_import/passes/rewriter.h"

namespace atalla {

namespace {

using Names = std::set<std::string_view>;

// What only checks, or only gives integers that are known as expressions.
bool is_check(std::string_view target) {
    return target.starts_with("aten::_assert_") || target.starts_with("aten::sym_constrain_range") ||
           target == "higher_order::_export_tracepoint";
}

const Names aliases = {"aten::alias",           "aten::detach",     "aten::clone", "aten::contiguous",
                       "aten::lift_fresh_copy", "aten::lift_fresh", "aten::lift"};
const Names conversions = {"aten::_to_copy",  "aten::to.dtype", "aten::to.dtype_layout",
                           "aten::to.device", "aten::to.other", "aten::type_as"};
const Names views = {"aten::_unsafe_view", "aten::reshape", "aten::flatten.using_ints", "aten::unflatten.int",
                     "aten::view_as",      "aten::squeeze", "aten::squeeze.dim",        "aten::squeeze.dims",
                     "aten::unsqueeze",    "aten::view"};
const Names expansions = {"aten::expand", "aten::expand_as", "aten::broadcast_to"};
// Tensors of one number whose sizes and type the result has anyway.
const std::map<std::string_view, int64_t> constants = {{"aten::zeros", 0}, {"aten::zeros_like", 0}, {"aten::new_zeros", 0},
                                                       {"aten::ones", 1},  {"aten::ones_like", 1},  {"aten::new_ones", 1}};
const Names fills = {"aten::full", "aten::full_like", "aten::new_full", "aten::fill.Scalar"};
const Names transposes = {"aten::t", "aten::mT", "aten::numpy_T", "aten::transpose.int", "aten::permute"};

bool is_used(const Graph &graph, const std::vector<bool> &used, ValueId id) {
    return id && (used[id.index] || graph.is_output(id));
}

std::vector<int64_t> dims_of(const Graph &graph, const Node &node) {
    const auto rank = static_cast<int64_t>(graph.type(node.tensor("self")).sizes.size());
    std::vector<int64_t> dims(rank);
    for (int64_t i = 0; i < rank; i++) dims[i] = i;
    const auto settle = [&](int64_t d) { return d < 0 ? d + rank : d; };
    if (node.target == "aten::permute") {
        const std::vector<int64_t> given = node.integers("dims");
        for (int64_t i = 0; i < rank; i++) dims[i] = settle(given.at(i));
    } else if (node.target == "aten::numpy_T") {
        std::reverse(dims.begin(), dims.end());
    } else if (node.target == "aten::transpose.int") {
        if (rank > 0) std::swap(dims.at(settle(node.integer("dim0"))), dims.at(settle(node.integer("dim1"))));
    } else if (rank >= 2) {
        std::swap(dims[rank - 2], dims[rank - 1]);
    }
    return dims;
}

// Does a transpose leave the order of all elements as it is? Not asked of constants: they are transposed once anyway.
bool moves_ones_only(const Graph &graph, const Node &node, std::vector<int64_t> dims) {
    const ValueId self = node.tensor("self");
    if (graph.constant_data(self) != nullptr) return false;
    std::erase_if(dims, [&](int64_t dim) { return graph.type(self).sizes[static_cast<size_t>(dim)] == SymInt(1); });
    return std::is_sorted(dims.begin(), dims.end());
}

// `1 - x` and scalar overloads: sub.Tensor and the like take numbers too.
void unify_arithmetic(Node &node) {
    if (node.target == "aten::rsub.Scalar" || node.target == "aten::rsub.Tensor") {
        const Argument self = *node.find("self"), other = *node.find("other"), alpha = *node.find("alpha");
        if (alpha == Argument(SymInt(1))) node = make_call("aten::sub.Tensor", {{"self", other}, {"other", self}}, node);
        return;
    }
    for (const char *name : {"add", "sub", "mul", "div"}) {
        if (node.target != std::string("aten::") + name + ".Scalar") continue;
        std::vector<NamedArgument> arguments = node.arguments;
        node = make_call(std::string("aten::") + name + ".Tensor", std::move(arguments), node);
    }
}

// The norm of each channel of each image.
void unify_instance_norm(const Graph &graph, Node &node) {
    if (node.target != "aten::instance_norm") return;
    std::vector<NamedArgument> arguments;
    for (const char *name : {"input", "weight", "bias", "eps"}) arguments.push_back({name, *node.find(name)});
    if (node.flag("use_input_stats")) {
        arguments.push_back({"num_groups", graph.type(node.tensor("input")).sizes.at(1)});
        node = make_call("aten::group_norm", std::move(arguments), node);
        return;
    }
    for (const char *name : {"running_mean", "running_var", "momentum"}) arguments.push_back({name, *node.find(name)});
    arguments.push_back({"training", false});
    arguments.push_back({"cudnn_enabled", false});
    node = make_call("aten::batch_norm", std::move(arguments), node);
}

// Operators whose further results nobody uses, as the one that has only the first.
void drop_results(const Graph &graph, Node &node) {
    const auto first_only = [&](const char *target, std::vector<NamedArgument> arguments) {
        Node replaced = make_call(target, std::move(arguments), node);
        replaced.outputs.resize(1);
        node = std::move(replaced);
    };
    const auto keep = [&](std::initializer_list<const char *> names) {
        std::vector<NamedArgument> arguments;
        for (const char *name : names) arguments.push_back({name, *node.find(name)});
        return arguments;
    };
    if (node.target == "aten::native_layer_norm") {
        first_only("aten::layer_norm", keep({"input", "normalized_shape", "weight", "bias", "eps"}));
    } else if (node.target == "aten::_native_batch_norm_legit_no_training") {
        auto arguments = keep({"input", "weight", "bias", "running_mean", "running_var", "momentum", "eps"});
        arguments.push_back({"training", false});
        arguments.push_back({"cudnn_enabled", false});
        first_only("aten::batch_norm", std::move(arguments));
    } else if (node.target == "aten::max_pool2d_with_indices") {
        first_only("aten::max_pool2d", keep({"self", "kernel_size", "stride", "padding", "dilation", "ceil_mode"}));
    } else if ((node.target == "aten::max.dim" || node.target == "aten::min.dim") &&
               is_floating(graph.type(node.outputs[0]).dtype)) {
        first_only(node.target == "aten::max.dim" ? "aten::amax" : "aten::amin",
                   {{"self", *node.find("self")}, {"dim", Sizes{node.integer("dim")}}, {"keepdim", node.flag("keepdim")}});
    } else if (node.target == "aten::max_pool1d_with_indices") {
        first_only("aten::max_pool1d", keep({"self", "kernel_size", "stride", "padding", "dilation", "ceil_mode"}));
    } else if (node.target == "aten::max_pool3d_with_indices") {
        first_only("aten::max_pool3d", keep({"self", "kernel_size", "stride", "padding", "dilation", "ceil_mode"}));
    } else if (node.target == "aten::adaptive_max_pool1d" || node.target == "aten::adaptive_max_pool2d" ||
               node.target == "aten::adaptive_max_pool3d") {
        // One window is the maximum; windows that tile the image are those of a pooling.
        const ptrdiff_t dims = node.target[node.target.size() - 2] - '0';
        const Sizes &from = graph.type(node.tensor("self")).sizes, &to = graph.type(node.outputs[0]).sizes;
        const Sizes extents(from.end() - dims, from.end()), counts(to.end() - dims, to.end());
        Sizes all, window;
        bool whole = true, tiles = is_constant(extents) && is_constant(counts);
        for (size_t d = 0; d < counts.size(); d++) {
            all.emplace_back(static_cast<int64_t>(d) - static_cast<int64_t>(counts.size()));
            whole = whole && counts[d] == SymInt(1);
            tiles = tiles && counts[d].value() > 0 && extents[d].value() % counts[d].value() == 0;
            if (tiles) window.emplace_back(extents[d].value() / counts[d].value());
        }
        if (whole)
            first_only("aten::amax", {{"self", *node.find("self")}, {"dim", all}, {"keepdim", true}});
        else if (tiles)
            first_only(fmt::format("aten::max_pool{}d", dims).c_str(),
                       {{"self", *node.find("self")}, {"kernel_size", window}, {"stride", window}});
    } else if (node.target.find("embedding_bag") != node.target.npos) {
        std::fill(node.outputs.begin() + 1, node.outputs.end(), ValueId{});
    } else if (node.target == "aten::native_group_norm") {
        std::vector<NamedArgument> arguments = keep({"input", "weight", "bias", "eps"});
        arguments.push_back({"num_groups", *node.find("group")});
        first_only("aten::group_norm", std::move(arguments));
    } else if (node.target == "aten::_native_batch_norm_legit.no_stats" && node.flag("training")) {
        // With the statistics of a batch of one image, those of this image.
        const Sizes &sizes = graph.type(node.tensor("input")).sizes;
        if (sizes.size() < 2 || !(sizes[0] == SymInt(1))) return;
        std::vector<NamedArgument> arguments = keep({"input", "weight", "bias", "eps"});
        arguments.push_back({"num_groups", sizes[1]});
        first_only("aten::group_norm", std::move(arguments));
    }
}

// beta * self + alpha * batch1 @ batch2, where self has other sizes than the product.
void take_apart_product(const Graph &graph, Rewriter &rewriter, Node &node) {
    if (node.target != "aten::baddbmm" || !is_floating(graph.type(node.outputs[0]).dtype)) return;
    const TensorType type = graph.type(node.outputs[0]);  // a copy: values that are added move the others
    const double beta = node.number("beta"), alpha = node.number("alpha");
    if (graph.type(node.tensor("self")).sizes == type.sizes || beta == 0) return;
    const std::string name = graph.value(node.outputs[0]).name;
    ValueId product =
        rewriter.insert(make_call("aten::bmm", {{"self", *node.find("batch1")}, {"mat2", *node.find("batch2")}}, node),
                        name + "_product", type);
    if (alpha != 1)
        product =
            rewriter.insert(make_call("aten::mul.Tensor", {{"self", product}, {"other", alpha}}, node), name + "_scaled", type);
    node = make_call("aten::add.Tensor", {{"self", product}, {"other", *node.find("self")}, {"alpha", beta}}, node);
}

// Variance and mean of the same elements, or a deviation.
void take_apart_moments(const Graph &graph, Rewriter &rewriter, Node &node) {
    const bool root = node.target.starts_with("aten::std_mean");
    if (!root && !node.target.starts_with("aten::var_mean")) return;
    const bool all = node.find("dim") == nullptr || node.is_none("dim") || node.sizes("dim").empty();
    const auto rank = static_cast<int64_t>(graph.type(node.tensor("self")).sizes.size());
    Sizes dims = all ? Sizes{} : node.sizes("dim");
    for (int64_t d = 0; all && d < rank; d++) dims.emplace_back(d);
    const double correction = node.find("correction") != nullptr ? node.optional_number("correction").value_or(1)
                              : node.flag("unbiased")            ? 1
                                                                 : 0;
    const bool keeps = node.find("keepdim") != nullptr && node.flag("keepdim");
    const std::vector<NamedArgument> over = {{"self", *node.find("self")}, {"dim", dims}, {"keepdim", keeps}};
    if (const ValueId mean = node.outputs.at(1); mean) {
        const TensorType type = graph.type(mean);  // a copy: values that are added move the others
        const std::string name = graph.value(mean).name;
        rewriter.replace(mean, rewriter.insert(make_call("aten::mean.dim", over, node), name + "_mean", type));
    }
    std::vector<NamedArgument> arguments = over;
    arguments.push_back({"correction", correction});
    node = make_call(root ? "aten::std.correction" : "aten::var.correction", std::move(arguments), node);
    node.outputs.resize(1);
}

void unify_softmax(Node &node) {
    const bool logarithm = node.target == "aten::_log_softmax";
    if (!logarithm && node.target != "aten::_softmax") return;
    std::vector<NamedArgument> arguments = {{"self", *node.find("self")}, {"dim", *node.find("dim")}};
    if (node.flag("half_to_float")) arguments.push_back({"dtype", DType::Float32});
    node = make_call(logarithm ? "aten::log_softmax.int" : "aten::softmax.int", std::move(arguments), node);
}

// convolution, as the conv1d, conv2d or conv_transpose2d that it is.
void unify_convolution(const Graph &graph, Node &node) {
    if (node.target != "aten::convolution") return;
    const size_t rank = graph.type(node.tensor("weight")).sizes.size();
    const bool transposed = node.flag("transposed");
    if (rank != 3 && rank != 4) return;
    std::vector<NamedArgument> arguments;
    for (const char *name : {"input", "weight", "bias", "stride", "padding", "dilation", "groups"}) {
        arguments.push_back({name, *node.find(name)});
    }
    if (transposed) {
        if (rank != 4) return;
        arguments.push_back({"output_padding", *node.find("output_padding")});
    }
    node = make_call(transposed  ? "aten::conv_transpose2d.input"
                     : rank == 3 ? "aten::conv1d"
                                 : "aten::conv2d",
                     std::move(arguments), node);
}

}  // namespace

int canonicalize(Graph &graph) {
    std::vector<bool> used(graph.values.size());
    for (const Node &node : graph.nodes) for_each_value(node, [&](ValueId id) { used[id.index] = true; });

    Rewriter rewriter(graph);
    return rewriter.sweep([&](Node &node) {
        const auto erase = [&] {
            node.target.clear();
            rewriter.count();
        };
        // Keeps the results' type, which is the same by definition, and hands on the operand.
        const auto hand_on = [&](std::string_view operand) {
            rewriter.replace(node.outputs.at(0), node.tensor(operand));
            node.target.clear();
        };
        const auto rewrite = [&](const char *target, std::vector<NamedArgument> arguments) {
            Node made = make_call(target, std::move(arguments), node);
            if (made.target != node.target || made.arguments.size() != node.arguments.size()) rewriter.count();
            node = std::move(made);
        };
        if (is_check(node.target)) return erase();
        if (node.outputs.empty()) return;
        const TensorType &type = graph.type(node.outputs[0]);
        if (aliases.contains(node.target)) return hand_on("self");
        if (node.target == "aten::dropout" && !node.flag("train")) return hand_on("input");
        if (conversions.contains(node.target)) {
            if (graph.type(node.tensor("self")).dtype == type.dtype) return hand_on("self");
            return rewrite("aten::_to_copy", {{"self", *node.find("self")}, {"dtype", type.dtype}});
        }
        if (views.contains(node.target)) {
            if (graph.type(node.tensor("self")).sizes == type.sizes) return hand_on("self");
            return rewrite("aten::view", {{"self", *node.find("self")}, {"size", type.sizes}});
        }
        if (expansions.contains(node.target)) {
            if (graph.type(node.tensor("self")).sizes == type.sizes) return hand_on("self");
            return rewrite("aten::expand", {{"self", *node.find("self")}, {"size", type.sizes}});
        }
        if (transposes.contains(node.target)) {
            const std::vector<int64_t> dims = dims_of(graph, node);
            if (std::is_sorted(dims.begin(), dims.end())) return hand_on("self");
            if (moves_ones_only(graph, node, dims))
                return rewrite("aten::view", {{"self", *node.find("self")}, {"size", type.sizes}});
            return rewrite("aten::permute", {{"self", *node.find("self")}, {"dims", Sizes(dims.begin(), dims.end())}});
        }
        if (const auto constant = constants.find(node.target); constant != constants.end()) {
            return rewrite("aten::full",
                           {{"size", type.sizes}, {"fill_value", SymInt(constant->second)}, {"dtype", type.dtype}});
        }
        if (fills.contains(node.target)) {
            const char *value = node.target == "aten::fill.Scalar" ? "value" : "fill_value";
            return rewrite("aten::full", {{"size", type.sizes}, {"fill_value", *node.find(value)}, {"dtype", type.dtype}});
        }
        const std::string before = node.target;
        unify_arithmetic(node);
        unify_softmax(node);
        unify_convolution(graph, node);
        unify_instance_norm(graph, node);
        take_apart_product(graph, rewriter, node);
        take_apart_moments(graph, rewriter, node);
        const bool first_only =
            std::none_of(node.outputs.begin() + 1, node.outputs.end(), [&](ValueId id) { return is_used(graph, used, id); });
        if (first_only && node.outputs.size() > 1) drop_results(graph, node);
        if (node.target != before) rewriter.count();
    });
}

}  // namespace atalla
