// Products with a constant matrix become `linear`, whose weight is stored one output a row, as the array loads it; the
// transposition happens now, once.
#include "graph_import/passes.h"
#include "graph_import/passes/rewriter.h"

namespace atalla {

namespace {

struct Arranger {
    Graph &graph;
    Rewriter &rewriter;
    std::map<ValueId, ValueId> transposed;  // constants that were arranged, each once

    // The weight of a linear that computes x @ matrix, or none if the matrix is not constant.
    ValueId weight_of(ValueId matrix) {
        const Node *producer = rewriter.producer(matrix);
        if (producer && producer->target == "aten::permute" && graph.type(matrix).sizes.size() == 2) {
            const ValueId source = producer->tensor("self");
            if (graph.constant_data(source)) return source;
        }
        if (const auto known = transposed.find(matrix); known != transposed.end()) return known->second;
        const HostTensor *data = graph.constant_data(matrix);
        if (!data || data->sizes.size() != 2) return {};
        HostTensor turned = *data;
        std::swap(turned.sizes[0], turned.sizes[1]);
        std::swap(turned.strides[0], turned.strides[1]);
        const std::string name = graph.value(matrix).name + "_arranged";
        return transposed[matrix] = graph.add_constant(name, turned.is_dense() ? turned : dense_copy(turned));
    }

    void product(Node &node, const char *left, const char *right, ValueId bias) {
        const Argument *x = node.find(left);
        const auto *matrix = std::get_if<ValueId>(node.find(right));
        const auto *input = std::get_if<ValueId>(x);
        if (!matrix || !input || graph.type(*input).sizes.empty()) return;
        if (graph.constant_data(*input) && !graph.constant_data(*matrix)) return;
        const ValueId weight = weight_of(*matrix);
        if (!weight) return;
        std::vector<NamedArgument> arguments = {{"input", *x}, {"weight", weight}};
        if (bias) arguments.push_back({"bias", bias});
        node = make_call("aten::linear", std::move(arguments), node);
        rewriter.count();
    }

    void added_product(Node &node) {
        if (node.number("alpha") != 1 || node.number("beta") != 1) return;
        const auto *bias = std::get_if<ValueId>(node.find("self"));
        // Only a vector of one element for each output is a linear's bias.
        if (!bias || graph.type(*bias).sizes.size() != 1 ||
            !(graph.type(*bias).sizes[0] == graph.type(node.outputs[0]).sizes.back()))
            return;
        product(node, "mat1", "mat2", *bias);
    }

    // linear(view(x)) with view(linear) around it is one linear over all of x's leading dimensions.
    void view_of_linear(Node &node) {
        const ValueId inner = node.tensor("self");
        const Node *linear = rewriter.producer(inner);
        if (!linear || linear->target != "aten::linear") return;
        const Node *flattened = rewriter.producer(linear->tensor("input"));
        if (!flattened || flattened->target != "aten::view") return;
        const ValueId source = flattened->tensor("self");
        Sizes expected = graph.type(source).sizes;
        if (expected.empty() || !(expected.back() == graph.type(linear->tensor("input")).sizes.back())) return;
        expected.back() = graph.type(inner).sizes.back();
        if (!(expected == graph.type(node.outputs[0]).sizes)) return;
        std::vector<NamedArgument> arguments = linear->arguments;
        for (NamedArgument &argument : arguments) {
            if (argument.name == "input") argument.value = source;
        }
        node = make_call("aten::linear", std::move(arguments), node);
        rewriter.count();
    }
};

}  // namespace

int arrange_weights(Graph &graph) {
    Rewriter rewriter(graph);
    Arranger arranger{graph, rewriter, {}};
    return rewriter.sweep([&](Node &node) {
        if (node.target == "aten::mm")
            arranger.product(node, "self", "mat2", {});
        else if (node.target == "aten::matmul")
            arranger.product(node, "self", "other", {});
        else if (node.target == "aten::addmm")
            arranger.added_product(node);
        else if (node.target == "aten::view")
            arranger.view_of_linear(node);
    });
}

}  // namespace atalla
