#include "tests/generators/random_workloads.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "generators/declared_operator.h"

namespace atalla {

int64_t RandomSizes::size(int64_t largest) {
    constexpr std::array<int64_t, 16> edges = {1, 1, 2, 3, 5, 7, 13, 17, 31, 32, 33, 37, 61, 64, 65, 97};
    return std::min(largest, often() ? edges[random_.below(edges.size())] : between(1, largest));
}

Shape RandomSizes::shape(int64_t rank, int64_t most) {
    for (;;) {
        Shape shape;
        for (int64_t d = 0; d < rank; d++) shape.push_back(size(128));
        if (element_count(shape) <= (small_ ? most / 2 : most)) return shape;
    }
}

namespace {

std::string text(const std::vector<Shape> &shapes) {
    std::string all;
    for (const Shape &shape : shapes) {
        if (!all.empty()) all += ',';
        all += shape_text(shape);
    }
    return all;
}
std::string text(int64_t number) { return std::to_string(number); }
std::string list(const std::vector<int64_t> &numbers) { return fmt::format("[{}]", fmt::join(numbers, ",")); }

constexpr int64_t few_elements = 8000;

// ---- products

struct Product {
    int64_t m, n, k, b, c;
};
Product product(RandomSizes &s) {
    const int64_t largest = s.small() ? 40 : 100;
    return {s.size(largest), s.size(largest), s.size(largest), s.between(1, 3), s.between(1, 3)};
}

WorkloadArguments gemm(RandomSizes &s) {
    const Product p = product(s);
    WorkloadArguments arguments = {{"m", text(p.m)}, {"n", text(p.n)}, {"k", text(p.k)}, {"b-layout", s.often() ? "nk" : "kn"}};
    for (const char *flag : {"bias", "relu"})
        if (s.often()) arguments[flag] = "true";
    return arguments;
}

WorkloadArguments addmm(RandomSizes &s) {
    const Product p = product(s);
    WorkloadArguments arguments = {{"shape", text({s.often() ? Shape{p.n} : Shape{p.m, p.n}, {p.m, p.k}, {p.k, p.n}})}};
    if (s.often()) arguments.insert({{"beta", "0.5"}, {"alpha", "2"}});
    return arguments;
}

WorkloadArguments matmul(RandomSizes &s) {
    const Product p = product(s);
    switch (s.below(4)) {
        case 0:
            return {{"shape", text({{p.b, 1, p.m, p.k}, {p.c, p.k, p.n}})}};
        case 1:
            return {{"shape", text({{p.k}, {p.c, p.k, p.n}})}};
        case 2:
            return {{"shape", text({{p.c, p.m, p.k}, {p.k}})}};
        default:
            return {{"shape", text({{p.m, p.k}, {p.k, p.n}})}};
    }
}

WorkloadArguments linear(RandomSizes &s) {
    const Product p = product(s);
    std::vector<Shape> shapes = {s.often() ? Shape{p.m, p.k} : Shape{p.b, p.m, p.k}, {p.n, p.k}};
    if (s.often()) shapes.push_back({p.n});
    return {{"shape", text(shapes)}};
}

WorkloadArguments conv1x1(RandomSizes &s) {
    const int64_t out = s.size(s.small() ? 40 : 70), in = s.size(s.small() ? 40 : 70), height = s.between(1, 7),
                  width = s.between(1, 9);
    std::vector<Shape> shapes = {{out, in, 1, 1},
                                 s.often() ? Shape{in, height, width} : Shape{s.between(1, 3), in, height, width}};
    if (s.often()) shapes.push_back({out});
    return {{"shape", text(shapes)}};
}

WorkloadArguments attention(RandomSizes &s) {
    const int64_t heads = s.between(1, 2), group = s.between(1, 2), most = s.small() ? 50 : 80;
    const int64_t queries = s.size(most), keys = s.size(most), depth = s.size(70), width = s.size(70);
    std::vector<Shape> shapes = {{heads * group, queries, depth}, {heads, keys, depth}, {heads, keys, width}};
    WorkloadArguments arguments = {{"enable-gqa", "true"}};
    if (s.often()) arguments["scale"] = "0.3";
    if (const int64_t mask = s.below(3); mask == 1)
        arguments["is-causal"] = "true";
    else if (mask == 2)
        shapes.push_back({queries, keys});
    if (s.often()) arguments["key-block"] = "64";
    arguments["shape"] = text(shapes);
    return arguments;
}

// ---- convolution

WorkloadArguments convolution(RandomSizes &s, int64_t rank, bool same) {
    const bool depthwise = s.seldom();
    const int64_t groups = depthwise ? s.between(2, 5) : s.between(1, 2), in = depthwise ? 1 : s.size(s.small() ? 12 : 40),
                  out = depthwise ? 1 : s.size(36);
    Shape image = {s.between(1, 2), groups * in}, weight = {groups * out, in};
    const int64_t dilation = s.between(1, 2);
    for (int64_t d = 0; d < rank; d++) {
        weight.push_back(s.between(1, 4));
        image.push_back(dilation * (weight.back() - 1) + 1 + s.below(s.small() ? 5 : rank == 1 ? 40 : 9));
    }
    // Machines with small pads have kernels of arranged weights, of planes or with channels innermost.
    const bool places = s.small() && s.often();
    if (places) std::rotate(image.begin() + 1, image.begin() + 2, image.end());
    std::vector<Shape> shapes = {image, weight};
    if (s.often()) shapes.push_back({groups * out});
    WorkloadArguments arguments = {{"shape", text(shapes)}, {"groups", text(groups)}, {"dilation", text(dilation)}};
    if (places) arguments["layout"] = "nhwc";
    if (same)
        arguments["padding"] = s.often() ? "same" : "valid";
    else
        arguments.insert({{"stride", text(s.between(1, 3))}, {"padding", text(s.below(3))}});
    if (s.small()) arguments["weight-layout"] = places ? "packed" : "banded";
    return arguments;
}

WorkloadArguments depthwise_of_places(RandomSizes &s) {
    const int64_t height = s.between(1, 4), width = s.between(1, 4), channels = s.size(s.small() ? 40 : 100),
                  padding = s.below(2);
    std::vector<Shape> shapes = {
        {s.between(1, 2), height + s.below(s.small() ? 4 : 9), width + s.below(s.small() ? 4 : 9), channels},
        {height, width, channels}};
    if (s.often()) shapes.push_back({channels});
    return {{"shape", text(shapes)}, {"stride", text(s.between(1, 3))}, {"padding", text(padding)}};
}

// ---- rows

WorkloadArguments softmax(RandomSizes &s) {
    // Whole columns are in the pads, whole rows need not be.
    if (s.seldom())
        return {{"shape", text({{s.between(1, 3), s.size(s.small() ? 40 : 100), s.size(s.small() ? 40 : 100)}})},
                {"dim", s.often() ? "1" : "0"}};
    return {{"shape", text({{s.between(1, 3), s.size(20), s.size(s.small() ? 200 : 500)}})}, {"dim", "-1"}};
}

WorkloadArguments normalization(RandomSizes &s, bool bias) {
    const int64_t length = s.size(s.small() ? 200 : 500);
    std::string shape = text({{s.size(30), length}});
    const bool weight = s.often(), add = bias && s.often();
    if (weight || add) shape += weight ? "," + text(length) : ",-";
    if (add) shape += "," + text(length);
    return {{"shape", shape}, {"eps", "0.001"}};
}

WorkloadArguments batch_norm(RandomSizes &s) {
    const int64_t channels = s.size(40);
    Shape image = {s.between(1, 3), channels};
    if (!s.seldom()) image.insert(image.end(), {s.between(1, 8), s.size(40)});
    std::string shape = text({image, {channels}, {channels}});
    if (s.often()) shape += s.often() ? fmt::format(",{},{}", channels, channels) : fmt::format(",-,{}", channels);
    return {{"shape", shape}, {"eps", "6"}};
}

WorkloadArguments group_norm(RandomSizes &s) {
    const int64_t groups = s.between(1, 4), channels = groups * s.size(13);
    Shape image = {s.between(1, 2), channels};
    if (!s.seldom()) image.insert(image.end(), {s.between(1, 5), s.size(40)});
    std::string shape = text({image});
    if (s.often())
        shape += s.often() ? fmt::format(",{},{}", channels, channels) : fmt::format(",-,{}", channels);
    else if (s.often())
        shape += fmt::format(",{}", channels);
    return {{"shape", shape}, {"num-groups", text(groups)}, {"eps", "0.001"}};
}

WorkloadArguments reduction(RandomSizes &s, bool variance) {
    const int64_t rank = s.between(1, 4);
    WorkloadArguments arguments = {{"shape", text({s.shape(rank, few_elements)})}};
    std::vector<int64_t> dims;
    for (int64_t d = 0; d < rank; d++)
        if (s.often()) dims.push_back(s.often() ? d : d - rank);
    if (!dims.empty()) arguments["dim"] = list(dims);
    if (s.often()) arguments["keepdim"] = "true";
    // With a single element there is nothing to divide by.
    if (variance) arguments["correction"] = "0";
    return arguments;
}

// ---- pooling

WorkloadArguments pooling(RandomSizes &s, int64_t rank, bool average) {
    const int64_t kernel = s.between(1, 4);
    const bool channels_last = s.small() || s.often();
    Shape image = {s.between(1, 2)};
    for (int64_t d = 0; d < rank; d++) image.push_back(kernel + s.below(s.small() ? 8 : 20));
    image.insert(channels_last ? image.end() : image.begin() + 1, s.size(70));
    WorkloadArguments arguments = {{"shape", text({image})},
                                   {"kernel-size", text(kernel)},
                                   {"stride", text(s.between(1, 3))},
                                   {"padding", text(s.below(kernel / 2 + 1))}};
    if (s.often()) arguments["ceil-mode"] = "true";
    if (channels_last) arguments["layout"] = "nhwc";
    if (average && s.often()) arguments["count-include-pad"] = "false";
    return arguments;
}

WorkloadArguments adaptive_pooling(RandomSizes &s, int64_t rank) {
    WorkloadArguments arguments;
    Shape image = {s.between(1, 2)};
    std::vector<int64_t> sizes;
    const bool channels_last = s.small() || s.often();
    for (int64_t d = 0; d < rank; d++) {
        sizes.push_back(s.between(1, 5));
        // Parts of one size where channels are innermost.
        image.push_back(channels_last ? sizes.back() * s.between(1, 3) : s.between(1, 20));
    }
    image.insert(channels_last ? image.end() : image.begin() + 1, s.size(70));
    arguments["shape"] = text({image});
    arguments["output-size"] = list(sizes);
    if (channels_last) arguments["layout"] = "nhwc";
    return arguments;
}

// ---- data movement

struct Moved {
    Shape shape;
    int64_t rank = 0, dim = 0;
};
Moved moved(RandomSizes &s) {
    const int64_t rank = s.between(1, 4);
    return {s.shape(rank, 2 * few_elements), rank, s.below(rank)};
}
int64_t &extent(Moved &m) { return m.shape[static_cast<size_t>(m.dim)]; }

WorkloadArguments permute(RandomSizes &s) {
    const Moved m = moved(s);
    std::vector<int64_t> order;
    for (int64_t d = 0; d < m.rank; d++) order.insert(order.begin() + static_cast<ptrdiff_t>(s.below(d + 1)), d);
    WorkloadArguments arguments = {{"shape", text({m.shape})}, {"dims", list(order)}};
    if (s.seldom()) arguments["exact"] = "true";
    return arguments;
}
WorkloadArguments perhaps_by_the_array(RandomSizes &s, WorkloadArguments arguments) {
    if (s.below(2) == 0) arguments["exact"] = "false";
    return arguments;
}
WorkloadArguments slice(RandomSizes &s) {
    Moved m = moved(s);
    // One element of each row would be single elements next to each other, which is refused.
    const int64_t least = m.dim + 1 == m.rank ? std::min<int64_t>(2, extent(m)) : 1, start = s.below(extent(m) - least + 1);
    return perhaps_by_the_array(s, {{"shape", text({m.shape})},
                                    {"dim", text(m.dim)},
                                    {"start", text(start)},
                                    {"end", text(start + least + s.below(extent(m) - start - least + 1))},
                                    {"step", text(s.between(1, 3))}});
}
WorkloadArguments select(RandomSizes &s) {
    Moved m = moved(s);
    if (m.shape.back() == 1) m.shape.back() = 9;  // else single elements next to each other
    return perhaps_by_the_array(s, {{"shape", text({m.shape})}, {"dim", text(m.dim)}, {"index", text(s.below(extent(m)))}});
}
WorkloadArguments cat(RandomSizes &s) {
    Moved m = moved(s);
    const Shape first = m.shape;
    extent(m) = s.between(1, 40);
    return perhaps_by_the_array(s, {{"shape", text({first, m.shape, first})}, {"dim", text(m.dim)}});
}
WorkloadArguments stack(RandomSizes &s) {
    const Moved m = moved(s);
    return perhaps_by_the_array(s, {{"shape", text({m.shape, m.shape})}, {"dim", text(m.dim)}});
}
WorkloadArguments pad(RandomSizes &s) {
    const Moved m = moved(s);
    std::vector<int64_t> widths = {s.below(4), s.below(4)};
    if (m.rank > 1) widths.insert(widths.end(), {s.below(3), s.below(3)});
    return {{"shape", text({m.shape})}, {"pad", list(widths)}, {"value", "-1.5"}};
}
WorkloadArguments expand(RandomSizes &s) {
    Moved m = moved(s);
    Shape result = m.shape;
    result.insert(result.begin(), s.between(1, 3));
    extent(m) = 1;
    return {{"shape", text({m.shape})}, {"size", list(result)}};
}
WorkloadArguments transpose(RandomSizes &s) {
    const Moved m = moved(s);
    return {{"shape", text({m.shape})}, {"dim0", text(m.dim)}, {"dim1", text(s.below(m.rank))}};
}
WorkloadArguments roll(RandomSizes &s) {
    const Moved m = moved(s);
    return {{"shape", text({m.shape})}, {"shifts", list({s.below(200) - 100})}, {"dims", list({m.dim})}};
}

// ---- products of rows that are made

WorkloadArguments linear_of_rows(RandomSizes &s) {
    const Product p = product(s);
    return {{"shape", text({s.often() ? Shape{p.m, p.k} : Shape{p.b, p.m, p.k}, {p.k}, {p.k}, {p.n, p.k}, {p.n}})}};
}
WorkloadArguments mm_of_rows(RandomSizes &s) {
    const Product p = product(s);
    return {{"shape", text({{p.m, p.k}, {p.k}, {p.k, p.n}})}};
}
WorkloadArguments addmm_of_rows(RandomSizes &s) {
    const Product p = product(s);
    return {{"shape", text({s.often() ? Shape{p.n} : Shape{p.m, p.n}, {p.m, p.k}, {p.k, p.n}})}};
}
WorkloadArguments residual_of_rows(RandomSizes &s) {
    const Product p = product(s);
    return {{"shape", text({{p.m, p.k}, {p.n, p.k}, {p.m, p.n}})}};
}

}  // namespace

WorkloadArguments pointwise_arguments(const Operator &op, RandomSizes &s) {
    const bool power = op.name() == "pow";  // its exponent is a number
    const Shape shape = s.shape(s.below(5), few_elements);
    std::vector<Shape> shapes(power ? 1 : op.tensors().size(), shape);
    // Operands lack some dimensions: of size 1, or not there.
    for (size_t t = 1; t < shapes.size(); t++) {
        for (int64_t &extent : shapes[t])
            if (s.below(3) == 0) extent = 1;
        while (!shapes[t].empty() && shapes[t].front() == 1 && s.often()) shapes[t].erase(shapes[t].begin());
    }
    WorkloadArguments arguments = {{"shape", text(shapes)}};
    if (power) arguments["exponent"] = s.often() ? "2" : "0.5";
    return arguments;
}

const std::map<std::string, ArgumentsOf> &random_product_expressions() {
    static const std::map<std::string, ArgumentsOf> table = {
        {"linear(layer_norm(x, g, h), w, b)", linear_of_rows},
        {"mm(rms_norm(x, g, eps=0.001), y)", mm_of_rows},
        {"addmm(c, layer_norm(x), y, alpha=2)", addmm_of_rows},
        {"gelu(add(linear(softmax(x), w), r))", residual_of_rows},
    };
    return table;
}

const std::map<std::string, ArgumentsOf> &random_arguments() {
    static const std::map<std::string, ArgumentsOf> table = {
        {"gemm", gemm},
        {"mm",
         [](RandomSizes &s) -> WorkloadArguments {
             const Product p = product(s);
             return {{"shape", text({{p.m, p.k}, {p.k, p.n}})}};
         }},
        {"addmm", addmm},
        {"bmm",
         [](RandomSizes &s) -> WorkloadArguments {
             const Product p = product(s);
             return {{"shape", text({{p.b, p.m, p.k}, {p.b, p.k, p.n}})}};
         }},
        {"baddbmm",
         [](RandomSizes &s) -> WorkloadArguments {
             const Product p = product(s);
             return {{"shape", text({{p.m, p.n}, {p.b, p.m, p.k}, {p.b, p.k, p.n}})}};
         }},
        {"linear", linear},
        {"matmul", matmul},
        {"conv1x1", conv1x1},
        {"scaled_dot_product_attention", attention},
        {"conv2d", [](RandomSizes &s) { return convolution(s, 2, false); }},
        {"conv1d", [](RandomSizes &s) { return convolution(s, 1, false); }},
        {"convolution", [](RandomSizes &s) { return convolution(s, s.between(1, 2), false); }},
        {"conv2d_padding", [](RandomSizes &s) { return convolution(s, 2, true); }},
        {"conv_depthwise_nhwc", depthwise_of_places},
        {"softmax", softmax},
        {"log_softmax", softmax},
        {"layer_norm", [](RandomSizes &s) { return normalization(s, true); }},
        {"rms_norm", [](RandomSizes &s) { return normalization(s, false); }},
        {"group_norm", group_norm},
        {"batch_norm", batch_norm},
        {"sum", [](RandomSizes &s) { return reduction(s, false); }},
        {"mean", [](RandomSizes &s) { return reduction(s, false); }},
        {"amax", [](RandomSizes &s) { return reduction(s, false); }},
        {"amin", [](RandomSizes &s) { return reduction(s, false); }},
        {"var", [](RandomSizes &s) { return reduction(s, true); }},
        {"max_pool2d", [](RandomSizes &s) { return pooling(s, 2, false); }},
        {"avg_pool2d", [](RandomSizes &s) { return pooling(s, 2, true); }},
        {"max_pool1d", [](RandomSizes &s) { return pooling(s, 1, false); }},
        {"avg_pool1d", [](RandomSizes &s) { return pooling(s, 1, true); }},
        {"adaptive_avg_pool2d", [](RandomSizes &s) { return adaptive_pooling(s, 2); }},
        {"adaptive_avg_pool1d", [](RandomSizes &s) { return adaptive_pooling(s, 1); }},
        {"permute", permute},
        {"transpose", transpose},
        {"slice", slice},
        {"select", select},
        {"expand", expand},
        {"cat", cat},
        {"stack", stack},
        {"pad", pad},
        {"roll", roll},
    };
    return table;
}

}  // namespace atalla
