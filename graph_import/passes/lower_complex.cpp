// Complex numbers become pairs of real ones, and Fourier transforms products with constant matrices.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "graph_import/passes.h"
#include "graph_import/passes/rewriter.h"

namespace atalla {

namespace {

struct Pair {
    ValueId real, imaginary;
};

using Names = std::set<std::string_view>;

// What does the same to both parts: views, parts, transposes, sums.
// clang-format off
const Names linear_in_parts = {
    "aten::view", "aten::_unsafe_view", "aten::reshape", "aten::flatten.using_ints", "aten::unsqueeze", "aten::squeeze",
    "aten::squeeze.dim", "aten::squeeze.dims", "aten::permute", "aten::transpose.int", "aten::t", "aten::mT", "aten::expand",
    "aten::slice.Tensor", "aten::select.int", "aten::cat", "aten::stack", "aten::split.Tensor", "aten::split_with_sizes",
    "aten::unbind.int", "aten::roll", "aten::flip", "aten::repeat", "aten::index.Tensor", "aten::index_select", "aten::clone",
    "aten::alias", "aten::contiguous", "aten::neg", "aten::sum.dim_IntList", "aten::mean.dim", "aten::cumsum"};
// clang-format on
const Names products = {"aten::mul.Tensor", "aten::mm", "aten::bmm", "aten::matmul"};
// clang-format off
const Names others = {
    "aten::view_as_complex", "aten::view_as_real", "aten::polar", "aten::complex", "aten::real", "aten::imag", "aten::abs",
    "aten::angle", "aten::add.Tensor", "aten::sub.Tensor", "aten::div.Tensor", "aten::_conj", "aten::_conj_physical",
    "aten::conj", "aten::conj_physical", "aten::resolve_conj", "aten::_to_copy", "aten::_fft_r2c", "aten::_fft_c2c",
    "aten::_fft_c2r"};
// clang-format on

// Larger matrices cost more than a transform in steps would.
constexpr int64_t longest = 1024;

DType part_of(DType dtype) {
    return dtype == DType::Complex32 ? DType::Float16 : dtype == DType::Complex128 ? DType::Float64 : DType::Float32;
}

class Lowering {
public:
    explicit Lowering(Graph &graph) : graph_(graph), rewriter_(graph) {}

    int run() {
        if (!is_possible()) return 0;
        return rewriter_.sweep([&](Node &node) {
            if (!touches_complex(node)) return;
            lower(node);
            node.target.clear();
            rewriter_.count();
        });
    }

private:
    bool is_complex_value(ValueId id) const {
        return graph_.value(id).kind == Value::Kind::Tensor && is_complex(graph_.type(id).dtype);
    }

    bool touches_complex(const Node &node) const {
        bool found = false;
        for_each_value(node, [&](ValueId id) { found = found || is_complex_value(id); });
        for (ValueId output : node.outputs) found = found || (output && is_complex_value(output));
        return found;
    }

    // All of a graph, or nothing: whoever runs the rest names what is left.
    bool is_possible() const {
        bool any = false;
        for (const Node &node : graph_.nodes) {
            if (!touches_complex(node)) continue;
            any = true;
            if (!linear_in_parts.contains(node.target) && !products.contains(node.target) && !others.contains(node.target))
                return false;
            if (node.target.starts_with("aten::_fft") && !is_known_transform(node)) return false;
            if (node.target == "aten::div.Tensor" &&
                (node.find("other") == nullptr ||
                 (std::holds_alternative<ValueId>(*node.find("other")) && is_complex_value(node.tensor("other")))))
                return false;
            for (const NamedArgument &argument : node.arguments)
                if (std::holds_alternative<Complex>(argument.value)) return false;
        }
        for (const GraphInput &input : graph_.inputs)
            if (input.value && is_complex_value(input.value) && graph_.constant_data(input.value) == nullptr) return false;
        for (const GraphOutput &output : graph_.outputs)
            if (const auto *id = std::get_if<ValueId>(&output.value); id != nullptr && *id && is_complex_value(*id))
                return false;
        return any;
    }

    bool is_known_transform(const Node &node) const {
        const Sizes &sizes = graph_.type(node.tensor("self")).sizes;
        if (!is_constant(sizes) || !is_constant(graph_.type(node.outputs.at(0)).sizes)) return false;
        for (int64_t dim : node.integers("dim"))
            if (sizes.at(static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(sizes.size()) : dim)).value() > longest)
                return false;
        return node.target != "aten::_fft_c2r" || node.integer("last_dim_size") <= longest;
    }

    ValueId call(const Node &origin, const std::string &target, std::vector<NamedArgument> arguments, Sizes sizes,
                 DType dtype) {
        const ValueId named = origin.outputs.at(0);
        return rewriter_.insert(make_call(target, std::move(arguments), origin),
                                fmt::format("{}_part", graph_.value(named).name), dense_type(dtype, std::move(sizes)));
    }
    ValueId both(const Node &origin, const char *target, ValueId a, ValueId b) {
        const Sizes sizes = broadcast(graph_.type(a).sizes, graph_.type(b).sizes);
        return call(origin, target, {{"self", a}, {"other", b}}, sizes, graph_.type(a).dtype);
    }
    ValueId each(const Node &origin, const char *target, ValueId x) {
        return call(origin, target, {{"self", x}}, graph_.type(x).sizes, graph_.type(x).dtype);
    }

    // The parts of an operand; a real one has no imaginary part.
    Pair parts(ValueId id) {
        if (!is_complex_value(id)) return {id, {}};
        if (const auto known = pairs_.find(id); known != pairs_.end()) return known->second;
        const HostTensor data = dense_copy(*graph_.constant_data(id));
        const DType dtype = part_of(data.dtype);
        HostTensor halves[2] = {make_tensor(dtype, data.sizes), make_tensor(dtype, data.sizes)};
        HostTensor words = data;  // pairs of real numbers
        words.dtype = dtype;
        for (int64_t i = 0; i < data.elements(); i++)
            for (int part = 0; part < 2; part++)
                store_double(mutable_data(halves[part]) + i * element_bytes(dtype), dtype,
                             element_as_double(words, 2 * i + part));
        const std::string name = graph_.value(id).name;
        return pairs_[id] = {graph_.add_constant(name + "_real", std::move(halves[0])),
                             graph_.add_constant(name + "_imaginary", std::move(halves[1]))};
    }

    void set(const Node &node, Pair pair, size_t index = 0) { pairs_[node.outputs.at(index)] = pair; }
    void give(const Node &node, ValueId real) { rewriter_.replace(node.outputs.at(0), real); }

    ValueId zeros(const Node &origin, const Sizes &sizes, DType dtype) {
        return call(origin, "aten::full", {{"size", sizes}, {"fill_value", 0.0}, {"dtype", dtype}}, sizes, dtype);
    }
    // With an imaginary part, if need be of zeros.
    Pair whole(const Node &origin, Pair pair) {
        if (!pair.imaginary) pair.imaginary = zeros(origin, graph_.type(pair.real).sizes, graph_.type(pair.real).dtype);
        return pair;
    }

    void lower(Node &node) {
        const std::string &target = node.target;
        if (target.starts_with("aten::_fft")) return transform(node);
        if (linear_in_parts.contains(target)) return apart(node);
        if (products.contains(target)) return multiply(node);
        if (target == "aten::polar") {
            const ValueId length = node.tensor("abs"), angle = node.tensor("angle");
            return set(node, {both(node, "aten::mul.Tensor", length, each(node, "aten::cos", angle)),
                              both(node, "aten::mul.Tensor", length, each(node, "aten::sin", angle))});
        }
        if (target == "aten::complex") return set(node, {node.tensor("real"), node.tensor("imag")});
        const ValueId self = node.tensor("self");
        if (target == "aten::view_as_complex") {
            const auto part = [&](int64_t index) {
                return call(node, "aten::select.int", {{"self", self}, {"dim", SymInt(-1)}, {"index", SymInt(index)}},
                            graph_.type(node.outputs[0]).sizes, graph_.type(self).dtype);
            };
            return set(node, {part(0), part(1)});
        }
        const Pair x = parts(self);
        if (target == "aten::view_as_real") {
            const std::vector<ValueId> halves = {x.real, whole(node, x).imaginary};
            return give(node, call(node, "aten::stack", {{"tensors", halves}, {"dim", SymInt(-1)}},
                                   graph_.type(node.outputs[0]).sizes, graph_.type(x.real).dtype));
        }
        if (target == "aten::real") return give(node, x.real);
        if (target == "aten::imag") return give(node, whole(node, x).imaginary);
        if (target == "aten::angle") return give(node, both(node, "aten::atan2", whole(node, x).imaginary, x.real));
        if (target == "aten::abs") {
            const ValueId squares = both(node, "aten::add.Tensor", both(node, "aten::mul.Tensor", x.real, x.real),
                                         both(node, "aten::mul.Tensor", whole(node, x).imaginary, whole(node, x).imaginary));
            return give(node, each(node, "aten::sqrt", squares));
        }
        if (target == "aten::_to_copy") {
            if (!is_complex_value(node.outputs[0])) return give(node, x.real);
            const DType dtype = part_of(graph_.type(node.outputs[0]).dtype);
            const auto converted = [&](ValueId part) {
                return graph_.type(part).dtype == dtype
                           ? part
                           : call(node, "aten::_to_copy", {{"self", part}, {"dtype", dtype}}, graph_.type(part).sizes, dtype);
            };
            const Pair pair = whole(node, x);
            return set(node, {converted(pair.real), converted(pair.imaginary)});
        }
        if (target == "aten::resolve_conj") return set(node, x);
        if (target.find("conj") != target.npos) return set(node, {x.real, each(node, "aten::neg", whole(node, x).imaginary)});
        combine(node, x);
    }

    // The same call for each part. Real operands, such as indices, are those of both.
    void apart(Node &node) {
        std::vector<ValueId> results[2];
        for (int part = 0; part < 2; part++) {
            Node copy = node;
            for (NamedArgument &argument : copy.arguments)
                for_each_value(argument.value, [&](ValueId &id) {
                    if (is_complex_value(id)) id = part == 0 ? parts(id).real : whole(node, parts(id)).imaginary;
                });
            if (copy.outputs.size() == 1) {
                results[part] = {call_again(copy, graph_.type(node.outputs[0]))};
                continue;
            }
            for (ValueId &output : copy.outputs) {
                if (!output) continue;
                const TensorType &type = graph_.type(output);
                output = graph_.add_value(graph_.value(output).name + "_part", dense_type(part_of(type.dtype), type.sizes));
            }
            results[part] = copy.outputs;
            rewriter_.insert_whole(std::move(copy));
        }
        for (size_t i = 0; i < node.outputs.size(); i++)
            if (node.outputs[i]) set(node, {results[0][i], results[1][i]}, i);
    }
    ValueId call_again(Node copy, TensorType type) {
        const std::string name = fmt::format("{}_part", graph_.value(copy.outputs.at(0)).name);
        return rewriter_.insert(std::move(copy), name, dense_type(part_of(type.dtype), type.sizes));
    }

    // (a + bi)(c + di).
    void multiply(Node &node) {
        const char *second = node.find("mat2") != nullptr ? "mat2" : "other";
        const Sizes sizes = graph_.type(node.outputs[0]).sizes;
        const DType dtype = part_of(graph_.type(node.outputs[0]).dtype);
        const Argument by = *node.find(second);
        const Pair x = parts(node.tensor("self"));
        const auto product = [&](ValueId a, Argument b) {
            return call(node, node.target, {{"self", a}, {second, std::move(b)}}, sizes, dtype);
        };
        const auto *id = std::get_if<ValueId>(&by);
        if (id == nullptr) return set(node, {product(x.real, by), x.imaginary ? product(x.imaginary, by) : ValueId{}});
        const Pair y = parts(*id);
        if (!x.imaginary) return set(node, {product(x.real, y.real), product(x.real, y.imaginary)});
        if (!y.imaginary) return set(node, {product(x.real, y.real), product(x.imaginary, y.real)});
        set(node, {both(node, "aten::sub.Tensor", product(x.real, y.real), product(x.imaginary, y.imaginary)),
                   both(node, "aten::add.Tensor", product(x.real, y.imaginary), product(x.imaginary, y.real))});
    }

    // Sums, differences, and quotients by real numbers.
    void combine(Node &node, const Pair &x) {
        const Argument by = *node.find("other");
        const Sizes sizes = graph_.type(node.outputs[0]).sizes;
        const DType dtype = part_of(graph_.type(node.outputs[0]).dtype);
        const auto again = [&](ValueId a, Argument b) {
            std::vector<NamedArgument> arguments = {{"self", a}, {"other", std::move(b)}};
            if (const Argument *alpha = node.find("alpha")) arguments.push_back({"alpha", *alpha});
            return call(node, node.target, std::move(arguments), sizes, dtype);
        };
        const auto *id = std::get_if<ValueId>(&by);
        const Pair full = whole(node, x);
        if (node.target == "aten::div.Tensor") return set(node, {again(full.real, by), again(full.imaginary, by)});
        if (id == nullptr) return set(node, {again(full.real, by), again(full.imaginary, 0.0)});
        const Pair y = whole(node, parts(*id));
        set(node, {again(full.real, y.real), again(full.imaginary, y.imaginary)});
    }

    // ---- Fourier transforms

    struct Axis {
        int64_t dim, from, to;  // elements along it, before and after
        double scale;
        bool forward;
        bool halved = false;  // what comes in is the first half of numbers whose second half is its mirror image
    };

    // One factor for each result and each element: cos and sin of their product's share of a turn.
    ValueId matrix(const Node &origin, const Axis &axis, bool sine, DType dtype) {
        const int64_t turn = axis.halved ? axis.to : axis.from;
        HostTensor data = make_tensor(dtype, {axis.to, axis.from});
        std::byte *at = mutable_data(data);
        for (int64_t k = 0; k < axis.to; k++)
            for (int64_t j = 0; j < axis.from; j++, at += element_bytes(dtype)) {
                const double angle = 2 * M_PI * static_cast<double>(k * j % turn) / static_cast<double>(turn);
                const bool alone = !axis.halved || j == 0 || 2 * j == turn;
                store_double(
                    at, dtype,
                    (sine ? std::sin(angle) * (axis.forward ? -1 : 1) : std::cos(angle)) * axis.scale * (alone ? 1 : 2));
            }
        return graph_.add_constant(fmt::format("{}_{}", graph_.value(origin.outputs.at(0)).name, sine ? "sines" : "cosines"),
                                   std::move(data));
    }

    ValueId along(const Node &origin, ValueId x, ValueId factors, const Axis &axis) {
        const Sizes own = graph_.type(x).sizes;
        const auto rank = static_cast<int64_t>(own.size());
        const DType dtype = graph_.type(x).dtype;
        Sizes order, moved, made;
        for (int64_t d = 0; d < rank; d++)
            if (d != axis.dim) order.emplace_back(d);
        order.emplace_back(axis.dim);
        for (const SymInt &d : order) moved.push_back(own[static_cast<size_t>(d.value())]);
        const bool last = axis.dim == rank - 1;
        if (!last) x = call(origin, "aten::permute", {{"self", x}, {"dims", order}}, moved, dtype);
        made = moved;
        made.back() = axis.to;
        x = call(origin, "aten::linear", {{"input", x}, {"weight", factors}}, made, dtype);
        if (last) return x;
        Sizes back, sizes = own;
        sizes[static_cast<size_t>(axis.dim)] = axis.to;
        for (int64_t d = 0; d < rank; d++) back.emplace_back(d < axis.dim ? d : d == axis.dim ? rank - 1 : d - 1);
        return call(origin, "aten::permute", {{"self", x}, {"dims", back}}, sizes, dtype);
    }

    Pair transformed(const Node &origin, const Pair &x, const Axis &axis) {
        const DType dtype = graph_.type(x.real).dtype;
        const ValueId cosines = matrix(origin, axis, false, dtype), sines = matrix(origin, axis, true, dtype);
        if (!x.imaginary) return {along(origin, x.real, cosines, axis), along(origin, x.real, sines, axis)};
        const ValueId real =
            both(origin, "aten::sub.Tensor", along(origin, x.real, cosines, axis), along(origin, x.imaginary, sines, axis));
        if (axis.halved) return {real, {}};
        return {real, both(origin, "aten::add.Tensor", along(origin, x.real, sines, axis),
                           along(origin, x.imaginary, cosines, axis))};
    }

    void transform(Node &node) {
        Pair x = parts(node.tensor("self"));
        const Sizes own = graph_.type(node.tensor("self")).sizes;
        const auto rank = static_cast<int64_t>(own.size());
        std::vector<int64_t> dims = node.integers("dim");
        for (int64_t &dim : dims) dim += dim < 0 ? rank : 0;
        const int64_t normalization =
            node.integer("normalization");  // 0: none, 1: by the root of the number of elements, 2: by it
        const bool to_real = node.target == "aten::_fft_c2r", from_real = node.target == "aten::_fft_r2c";
        const bool forward = !to_real && (from_real || node.flag("forward"));
        std::vector<Axis> axes;
        for (int64_t dim : dims) {
            const int64_t size = own[static_cast<size_t>(dim)].value();
            axes.push_back({dim, size, size, 1, forward});
        }
        // The last one is halved, on the way to complex numbers first and on the way back last.
        Axis &half = axes.back();
        if (from_real && node.flag("onesided")) half.to = half.from / 2 + 1;
        if (to_real) {
            half.to = node.integer("last_dim_size");
            half.from = half.to / 2 + 1;
            half.halved = true;
        }
        for (Axis &axis : axes) {
            const auto elements = static_cast<double>(axis.halved ? axis.to : axis.from);
            axis.scale = normalization == 0 ? 1 : normalization == 1 ? 1 / std::sqrt(elements) : 1 / elements;
        }
        if (from_real) std::rotate(axes.begin(), axes.end() - 1, axes.end());
        for (const Axis &axis : axes) x = transformed(node, x, axis);
        if (to_real)
            give(node, x.real);
        else
            set(node, x);
    }

    Graph &graph_;
    Rewriter rewriter_;
    std::map<ValueId, Pair> pairs_;
};

}  // namespace

int lower_complex(Graph &graph) { return Lowering(graph).run(); }

}  // namespace atalla
