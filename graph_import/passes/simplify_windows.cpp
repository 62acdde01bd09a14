// Padding joins the convolution behind it, adaptive pooling becomes the pooling or the mean that it is, and what keeps the order of elements goes behind the
// maxima of windows.
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
    const Sizes windows(out.end() - static_cast<ptrdiff_t>(dims), out.end()), image(in.end() - static_cast<ptrdiff_t>(dims), in.end());
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

// max_pool(relu(x)) is relu(max_pool(x)), of fewer elements. Of few it would only leave the kernel of what is in front of it.
void take_maxima_first(Graph &graph, Rewriter &rewriter, const std::vector<std::vector<int32_t>> &uses, Node &node) {
    constexpr int64_t many = 1 << 14;
    if (node.target != "aten::max_pool2d") return;
    const ValueId image = node.tensor("self"), result = node.outputs[0];
    const Node *before = rewriter.producer(image);
    if (before == nullptr || (before->target != "aten::relu" && before->target != "aten::hardtanh") || uses[static_cast<size_t>(image.index)].size() != 1 || graph.is_output(image)) return;
    const Sizes &all = graph.type(image).sizes, &few = graph.type(result).sizes;
    if (!is_constant(all) || !is_constant(few)) return;
    if (const int64_t elements = element_count(all).value(); elements < many || elements < 2 * element_count(few).value()) return;
    Node pool = node, behind = *before;
    for (NamedArgument &argument : pool.arguments)
        if (argument.name == "self") argument.value = before->tensor("self");
    const ValueId largest = rewriter.insert(std::move(pool), graph.value(result).name + "_largest", graph.type(result));
    for (NamedArgument &argument : behind.arguments)
        if (argument.name == "self") argument.value = largest;
    node = make_call(behind.target, std::move(behind.arguments), node);
    rewriter.count();
}

bool changes_nothing(const Graph &graph, const Node &node) {
    const bool adaptive = node.target.find("adaptive_avg_pool") != node.target.npos;
    if (!adaptive && !is_padding(node)) return false;
    const std::vector<int64_t> padding = adaptive ? std::vector<int64_t>{} : padding_of(node);
    return std::ranges::all_of(padding, [](int64_t n) { return n == 0; }) && graph.type(node.tensor("self")).sizes == graph.type(node.outputs[0]).sizes;
}

}  // namespace

int simplify_windows(Graph &graph) {
    Rewriter rewriter(graph);
    const auto uses = graph.uses();
    return rewriter.sweep([&](Node &node) {
        if (changes_nothing(graph, node)) {
            rewriter.replace(node.outputs[0], node.tensor("self"));
            node.target.clear();
        } else if (join_padding(rewriter, node) || unify_adaptive(graph, node)) {
            rewriter.count();
        } else {
            take_maxima_first(graph, rewriter, uses, node);
        }
    });
}

}  // namespace atalla
