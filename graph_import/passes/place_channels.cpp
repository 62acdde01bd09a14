// Images with channels innermost from one convolution of places to the next: with a kernel of one element it is a linear layer
// over the channels then, and no vector of channels is taken apart.
#include <algorithm>
#include <map>

#include "graph_import/passes.h"
#include "graph_import/passes/rewriter.h"

namespace atalla {

namespace {

const Sizes to_inside = {0, 2, 3, 1}, to_outside = {0, 3, 1, 2};

class ChannelsInside {
public:
    // `windows`: of convolutions with larger kernels and of pooling, too.
    ChannelsInside(Graph &graph, Rewriter &rewriter, bool windows) : graph_(graph), rewriter_(rewriter), windows_(windows) {}

    void visit(Node &node) {
        if (node.outputs.size() != 1 || !node.outputs[0] || graph_.value(node.outputs[0]).kind != Value::Kind::Tensor) return;
        if (node.target == "aten::conv2d")
            convolution(node);
        else if (node.target == "aten::max_pool2d" || node.target == "aten::avg_pool2d")
            pooling(node);
        else if (node.target == "aten::cat")
            cat(node);
        else if (node.target == "aten::mean.dim")
            mean(node);
        else if (node.target == "aten::add.Tensor" || node.target == "aten::mul.Tensor")
            of_two(node);
        else if (is_element_wise(node.target))
            of_one(node);
    }

private:
    // The value with channels innermost; none if it is not there.
    ValueId inside(ValueId id) const {
        if (const auto found = inside_.find(id); found != inside_.end()) return found->second;
        const Node *producer = rewriter_.producer(id);
        const bool turned = producer != nullptr && producer->target == "aten::permute" &&
                            producer->integers("dims") == constant_sizes(to_outside);
        return turned ? producer->tensor("self") : ValueId{};
    }
    const Sizes &sizes(ValueId id) const { return graph_.type(id).sizes; }
    TensorType inside_type(ValueId image) const {
        const Sizes &all = sizes(image);
        return dense_type(graph_.type(image).dtype, {all[0], all[2], all[3], all[1]});
    }
    ValueId turned_in(ValueId image, const Node &origin) {
        return rewriter_.insert(make_call("aten::permute", {{"self", image}, {"dims", to_inside}}, origin),
                                graph_.value(image).name + "_places", inside_type(image));
    }
    // The node's result is that of `value`, with channels innermost.
    void become(Node &node, ValueId value) {
        inside_[node.outputs[0]] = value;
        node = make_call("aten::permute", {{"self", value}, {"dims", to_outside}}, node);
        rewriter_.count();
    }
    ValueId insert(Node call, const Node &of) {
        return rewriter_.insert(std::move(call), graph_.value(of.outputs[0]).name + "_places", inside_type(of.outputs[0]));
    }

    void convolution(Node &node) {
        const ValueId image = node.tensor("input"), weight = node.tensor("weight");
        const HostTensor *data = graph_.constant_data(weight);
        if (data == nullptr || sizes(image).size() != 4) return;
        const auto all = [&](const char *name, int64_t wanted) {
            return std::ranges::all_of(node.integers(name), [&](int64_t n) { return n == wanted; });
        };
        if (node.integer("groups") == 1 && data->sizes[2] * data->sizes[3] == 1 && all("stride", 1) && all("padding", 0)) {
            if (!windows_) linear(node, image, *data);
            return;
        }
        // Where every channel has a kernel of its own, what is around the convolution makes it one of channels innermost.
        if (data->sizes[1] != 1 || node.integer("groups") != data->sizes[0] || node.integer("groups") == 1) {
            // An image that is not there yet is not worth turning, but the result is.
            if (windows_ && (inside(image) || data->sizes[1] >= least_channels)) stand_between(node);
            return;
        }
        if (!all("dilation", 1)) return;
        const Node *before = rewriter_.producer(image);
        const bool padded = before != nullptr && (before->target == "aten::pad" || before->target == "aten::constant_pad_nd");
        if (!inside(padded ? before->tensor("self") : image)) return;
        stand_between(node);
    }

    void pooling(Node &node) {
        const ValueId image = node.tensor("self");
        if (!windows_ || sizes(image).size() != 4) return;
        if (inside(image)) return stand_between(node);
        // A chain may begin behind it.
        const SymInt &channels = sizes(image)[1];
        if (!channels.is_constant() || channels.value() < least_channels) return;
        const Node *before = rewriter_.producer(image);
        const bool alone = uses_[static_cast<size_t>(image.index)].size() == 1 && !graph_.is_output(image);
        if (node.target != "aten::max_pool2d" || before == nullptr || !alone ||
            (before->target != "aten::relu" && before->target != "aten::hardtanh"))
            return stand_between(node);
        // What keeps the order of elements is that of fewer, and there, behind the maxima.
        const Node behind = *before;  // what is inserted may move it
        const ValueId largest = rewriter_.insert(call_on(behind.tensor("self"), node, node),
                                                 graph_.value(node.outputs[0]).name + "_planes", graph_.type(node.outputs[0]));
        become(node, insert(call_on(turned_in(largest, node), behind, node), node));
    }
    // A call between the transpose that made its image and one behind it: one kernel with these.
    void stand_between(Node &node) {
        const ValueId result = rewriter_.insert(make_call(node.target, node.arguments, node),
                                                graph_.value(node.outputs[0]).name + "_planes", graph_.type(node.outputs[0]));
        become(node, turned_in(result, node));
    }

    void cat(Node &node) {
        if (!windows_ || sizes(node.outputs[0]).size() != 4 || (node.integer("dim") + 4) % 4 != 1) return;
        std::vector<ValueId> parts = node.tensors("tensors");
        for (ValueId &part : parts) {
            part = inside(part);
            if (!part) return;
        }
        become(node, insert(make_call("aten::cat", {{"tensors", parts}, {"dim", SymInt(3)}}, node), node));
    }

    void linear(Node &node, ValueId image, const HostTensor &weight) {
        HostTensor matrix = weight;
        matrix.sizes.resize(2);
        matrix.strides.resize(2);
        const ValueId constant = graph_.add_constant(graph_.value(node.tensor("weight")).name + "_matrix",
                                                     matrix.is_dense() ? matrix : dense_copy(matrix));
        const ValueId known = inside(image), input = known ? known : turned_in(image, node);
        inside_[image] = input;
        std::vector<NamedArgument> arguments = {{"input", input}, {"weight", constant}};
        if (const ValueId bias = node.optional_tensor("bias")) arguments.push_back({"bias", bias});
        become(node, insert(make_call("aten::linear", std::move(arguments), node), node));
    }

    void of_one(Node &node) {
        const ValueId self = inside(node.tensor("self"));
        if (!self) return;
        become(node, insert(call_on(self, node, node), node));
    }

    void of_two(Node &node) {
        std::vector<NamedArgument> arguments = node.arguments;
        std::vector<ValueId *> operands;
        int known = 0;
        for (NamedArgument &argument : arguments) {
            if (argument.name != "self" && argument.name != "other") continue;
            auto *id = std::get_if<ValueId>(&argument.value);
            if (id == nullptr || sizes(*id) != sizes(node.outputs[0])) return;
            known += static_cast<bool>(inside(*id));
            operands.push_back(id);
        }
        // Of two images one may be turned, so that what is behind them stays there.
        if (known < (windows_ ? 1 : 2)) return;
        for (ValueId *id : operands) {
            ValueId there = inside(*id);
            if (!there) there = inside_[*id] = turned_in(*id, node);
            *id = there;
        }
        become(node, insert(make_call(node.target, std::move(arguments), node), node));
    }

    // Over all places.
    void mean(Node &node) {
        const ValueId self = inside(node.tensor("self"));
        if (!self || node.optional_dtype("dtype")) return;
        std::vector<int64_t> dims = node.integers("dim");
        for (int64_t &dim : dims) dim = dim < 0 ? dim + 4 : dim;
        std::ranges::sort(dims);
        if (dims != std::vector<int64_t>{2, 3}) return;
        const Sizes &all = sizes(self);
        Node call = make_call("aten::mean.dim", {{"self", self}, {"dim", Sizes{1, 2}}, {"keepdim", false}}, node);
        rewriter_.count();
        if (!node.flag("keepdim")) {
            node = std::move(call);
            return;
        }
        const ValueId result = rewriter_.insert(std::move(call), graph_.value(node.outputs[0]).name + "_places",
                                                dense_type(graph_.type(self).dtype, {all[0], all[3]}));
        node = make_call("aten::view", {{"self", result}, {"size", sizes(node.outputs[0])}}, node);
    }

    static constexpr int64_t least_channels = 32;  // fewer fill few lanes

    Graph &graph_;
    Rewriter &rewriter_;
    const bool windows_;
    const std::vector<std::vector<int32_t>> uses_ = graph_.uses();  // before anything changed
    std::map<ValueId, ValueId> inside_;                             // of images, by the values that hold them as PyTorch does
};

}  // namespace

static int place(Graph &graph, bool windows) {
    Rewriter rewriter(graph);
    ChannelsInside channels(graph, rewriter, windows);
    const int changes = rewriter.sweep([&](Node &node) { channels.visit(node); });
    // Between two such convolutions transposes cancel.
    return changes + (changes ? reduce_strength(graph) : 0);
}

int place_channels(Graph &graph) { return place(graph, false); }
int place_channels_of_windows(Graph &graph) { return place(graph, true); }

}  // namespace atalla
