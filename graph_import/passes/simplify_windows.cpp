// Padding joins the convolution behind it, and adaptive pooling becomes the pooling or the mean that it is.
#include <algorithm>

#include "graph_import/padding.h"
#include "graph_import/passes.h"
#include "graph_import/passes/rewriter.h"

namespace atalla {

namespace {

// conv(pad(x)) with as much on either side is conv with more padding.
bool join_padding(const Rewriter &rewriter, Node &node) {
    if (node.target != "aten::conv2d" && node.target != "aten::conv1d") return false;
    const Node *before = rewriter.producer(node.tensor("input"));
    if (before == nullptr || !is_padding(*before) || !pads_with_zeros(*before)) return false;
    const size_t dims = node.target == "aten::conv2d" ? 2 : 1;
    const std::vector<int64_t> added = padding_of(*before);
    if (added.empty() || added.size() > 2 * dims) return false;
    std::vector<int64_t> padding = node.integers("padding");
    if (padding.size() == 1) padding.resize(dims, padding[0]);
    for (size_t d = 0; 2 * d < added.size(); d++) {
        if (added[2 * d] != added[2 * d + 1] || added[2 * d] < 0) return false;
        padding[dims - 1 - d] += added[2 * d];
    }
    const ValueId source = before->tensor("self");
    for (NamedArgument &argument : node.arguments) {
        if (argument.name == "input") argument.value = source;
        if (argument.name == "padding") argument.value = Sizes(padding.begin(), padding.end());
    }
    return true;
}

// Windows that tile the image are those of an average; one window is the mean.
bool unify_adaptive(const Graph &graph, Node &node) {
    const bool one = node.target == "aten::adaptive_avg_pool1d";
    if (!one && node.target != "aten::adaptive_avg_pool2d" && node.target != "aten::_adaptive_avg_pool2d") return false;
    const size_t dims = one ? 1 : 2;
    const Sizes &in = graph.type(node.tensor("self")).sizes, &out = graph.type(node.outputs[0]).sizes;
    const Sizes windows(out.end() - static_cast<ptrdiff_t>(dims), out.end()),
        image(in.end() - static_cast<ptrdiff_t>(dims), in.end());
    const Argument self = *node.find("self");
    if (std::all_of(windows.begin(), windows.end(), [](const SymInt &n) { return n == SymInt(1); })) {
        const Sizes mean_of = one ? Sizes{-1} : Sizes{-2, -1};
        node = make_call("aten::mean.dim", {{"self", self}, {"dim", mean_of}, {"keepdim", true}}, node);
        return true;
    }
    if (one || !is_constant(windows) || !is_constant(image)) return false;
    Sizes size;
    for (size_t d = 0; d < dims; d++) {
        if (image[d].value() % windows[d].value() != 0) return false;
        size.emplace_back(image[d].value() / windows[d].value());
    }
    node = make_call("aten::avg_pool2d", {{"self", self}, {"kernel_size", size}, {"stride", size}}, node);
    return true;
}

bool changes_nothing(const Graph &graph, const Node &node) {
    const bool adaptive = node.target.find("adaptive_avg_pool") != node.target.npos;
    if (!adaptive && !is_padding(node)) return false;
    const std::vector<int64_t> padding = adaptive ? std::vector<int64_t>{} : padding_of(node);
    return std::ranges::all_of(padding, [](int64_t n) { return n == 0; }) &&
           graph.type(node.tensor("self")).sizes == graph.type(node.outputs[0]).sizes;
}

}  // namespace

int simplify_windows(Graph &graph) {
    Rewriter rewriter(graph);
    return rewriter.sweep([&](Node &node) {
        if (changes_nothing(graph, node)) {
            rewriter.replace(node.outputs[0], node.tensor("self"));
            node.target.clear();
        } else if (join_padding(rewriter, node) || unify_adaptive(graph, node)) {
            rewriter.count();
        }
    });
}

}  // namespace atalla
