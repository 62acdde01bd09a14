#include "generators/gemm_operator.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "generators/gemm.h"
#include "generators/gemm_host.h"
#include "generators/gemm_space.h"
#include "generators/registry.h"
#include "isa/error.h"

namespace atalla {

namespace {

// Elements of a tensor: what the generated loops count with 32 bits.
constexpr int64_t largest_tensor = (int64_t{1} << 31) - 1;

int64_t parse_size(const std::string &name, std::string_view text) {
    int64_t value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure != std::errc() || end != text.data() + text.size())
        throw Error(fmt::format("gemm: {} must be a whole number, not '{}'", name, text));
    if (value < 1) throw Error(fmt::format("gemm: {} is {}, but sizes must be at least 1", name, value));
    if (value > largest_tensor) throw Error(fmt::format("gemm: {} is {}, larger than {}", name, value, largest_tensor));
    return value;
}

double parse_factor(const std::string &name, const std::string &text) {
    char *end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !std::isfinite(value))
        throw Error(fmt::format("gemm: {} must be a finite number, not '{}'", name, text));
    return value;
}

class GemmWorkload : public Workload {
public:
    explicit GemmWorkload(const GemmShape &shape) : shape_(shape) {
        for (auto [rows, columns] : {std::pair(shape.m, shape.k), std::pair(shape.n, shape.k), std::pair(shape.m, shape.n)})
            if (rows > largest_tensor / columns)
                throw Error(fmt::format("gemm {}: a tensor of {} x {} elements is larger than {}", this->shape(), rows, columns, largest_tensor));
        // The array keeps B and streams the rows of A. A single row would pay for every weight alone, so B, whose layout is that
        // of A, streams instead: the product is then the single column of the transposed result, which has the same bytes.
        exchanged_ = shape.m == 1 && shape.n > 1 && shape.b_transposed && shape.batch.empty() && !(shape.bias && shape.addend);
        computed_ = shape;
        if (exchanged_) {
            std::swap(computed_.m, computed_.n);
            computed_.addend = shape.bias || shape.addend;
            computed_.bias = false;
        }
    }

    std::string text() const override {
        return nlohmann::json{{"m", shape_.m}, {"n", shape_.n}, {"k", shape_.k}, {"type", "bf16"}, {"b", shape_.b_transposed ? "nk" : "kn"},
                              {"bias", shape_.bias}, {"relu", shape_.relu}, {"addend", shape_.addend}, {"alpha", shape_.alpha}, {"beta", shape_.beta}}
            .dump();
    }
    std::string title() const override {
        std::string text = shape();
        if (!shape_.b_transposed) text += ", B [k][n]";
        if (shape_.alpha != 1) text += fmt::format(", alpha {}", shape_.alpha);
        if (shape_.bias) text += ", bias";
        if (shape_.addend) text += shape_.beta == 1 ? ", addend" : fmt::format(", addend, beta {}", shape_.beta);
        if (shape_.relu) text += ", relu";
        return text;
    }
    std::string shape() const override { return fmt::format("{}x{}x{}", shape_.m, shape_.n, shape_.k); }

    std::vector<TensorSpec> inputs() const override {
        std::vector<TensorSpec> tensors = {{"A", shape_.a_extents()}, {"B", shape_.b_extents()}};
        if (shape_.bias) tensors.push_back({"bias", {shape_.n}});
        if (shape_.addend) tensors.push_back({"D", shape_.addend_extents()});
        return tensors;
    }
    std::vector<TensorSpec> outputs() const override { return {{"C", shape_.c_extents()}}; }
    double flops() const override {
        const auto elements = static_cast<double>(shape_.m) * static_cast<double>(shape_.n);
        return elements * (2 * static_cast<double>(shape_.k) + (shape_.alpha != 1) + shape_.bias + shape_.addend * (1 + (shape_.beta != 1)) + shape_.relu);
    }

    Space space(const Machine &machine) const override { return gemm_space(computed_, machine); }
    Point naive_point(const Machine &machine) const override { return gemm_naive_point(computed_, machine); }
    KernelDefinition build(const Machine &machine, const Point &point) const override {
        KernelDefinition kernel = gemm(computed_, machine, point);
        if (exchanged_) {
            std::swap(kernel.arguments[0], kernel.arguments[1]);
            // The same bytes under the names and extents of the workload.
            kernel.inputs = inputs();
            kernel.outputs = outputs();
        }
        return kernel;
    }
    std::string words(const Machine &machine, const Point &point) const override {
        return exchanged_ ? "A stationary and B streamed; " + gemm_words(computed_, machine, point) : gemm_words(computed_, machine, point);
    }
    Bound bound(const Machine &machine) const override {
        GemmBoundOptions options;
        options.addend = (shape_.bias ? shape_.n : 0) + (shape_.addend ? shape_.m * shape_.n : 0);
        return gemm_bound(machine, shape_.m, shape_.n, shape_.k, options);
    }
    double draft(const Machine &machine, const Point &point) const override { return gemm_draft(computed_, machine, point); }

    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override { return {gemm_reference(shape_, inputs)}; }
    double tolerance_ulps() const override { return gemm_tolerance_ulps(shape_); }
    std::vector<TensorData> host_result(const Machine &machine, const std::vector<TensorData> &inputs) const override {
        return {gemm_host(shape_, machine, inputs)};
    }

private:
    GemmShape shape_;
    bool exchanged_ = false;   // A and B
    GemmShape computed_;       // what is computed then
};

// Takes arguments one by one; what is left at the end nobody knows.
class Arguments {
public:
    explicit Arguments(WorkloadArguments arguments) : rest_(std::move(arguments)) {}

    std::string take(const std::string &name, const std::string &otherwise = {}) {
        const auto found = rest_.find(name);
        if (found == rest_.end()) return otherwise;
        std::string value = found->second;
        rest_.erase(found);
        return value;
    }
    bool flag(const std::string &name) { return take(name) == "true"; }
    void finish(const std::vector<WorkloadArgument> &known) const {
        if (rest_.empty()) return;
        std::vector<std::string> names = {"shape"};
        for (const WorkloadArgument &argument : known) names.push_back(argument.name);
        const std::string &name = rest_.begin()->first, nearest = nearest_name(name, names);
        throw Error(fmt::format("gemm has no argument '{}'{}", name, nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
    }

private:
    WorkloadArguments rest_;
};

class GemmOperator : public Operator {
public:
    std::string name() const override { return "gemm"; }
    std::vector<std::string> schemas() const override { return {"mm", "addmm", "linear", "matmul"}; }
    std::string help() const override { return "C[m,n] = relu(alpha A[m,k] B + bias + beta D); --op gemm --shape 512x512x512 --bias"; }

    std::vector<WorkloadArgument> arguments() const override {
        return {{"m", "rows of A and C", false, true},
                {"n", "columns of C", false, true},
                {"k", "elements that a product sums over", false, true},
                {"b-layout", "how B is stored: nk, as a linear layer's weight, or kn"},
                {"bias", "add a vector of n to each row", true, true},
                {"relu", "replace what is below zero by zero", true},
                {"addend", "add a matrix D of m x n", true, true},
                {"alpha", "factor of the product"},
                {"beta", "factor of the addend"}};
    }

    std::unique_ptr<Workload> workload(const WorkloadArguments &given) const override {
        Arguments arguments(given);
        GemmShape shape;
        shape.m = shape.n = shape.k = 512;
        if (const std::string text = arguments.take("shape"); !text.empty()) {
            const size_t first = text.find('x'), second = text.find('x', first == std::string::npos ? first : first + 1);
            if (first == std::string::npos || second == std::string::npos)
                throw Error(fmt::format("gemm: a shape is MxNxK, such as 512x512x512, not '{}'", text));
            shape.m = parse_size("m", std::string_view(text).substr(0, first));
            shape.n = parse_size("n", std::string_view(text).substr(first + 1, second - first - 1));
            shape.k = parse_size("k", std::string_view(text).substr(second + 1));
        }
        for (auto [name, size] : {std::pair("m", &shape.m), std::pair("n", &shape.n), std::pair("k", &shape.k)})
            if (const std::string text = arguments.take(name); !text.empty()) *size = parse_size(name, text);
        read_epilogue(arguments, shape);
        arguments.finish(this->arguments());
        return std::make_unique<GemmWorkload>(shape);
    }

    std::unique_ptr<Workload> parse(std::string_view text) const override {
        GemmShape shape;
        try {
            const nlohmann::json json = nlohmann::json::parse(text);
            shape.m = json.at("m");
            shape.n = json.at("n");
            shape.k = json.at("k");
            shape.b_transposed = json.at("b") == "nk";
            shape.bias = json.at("bias");
            shape.relu = json.at("relu");
            shape.addend = json.at("addend");
            shape.alpha = json.at("alpha");
            shape.beta = json.at("beta");
        } catch (const nlohmann::json::exception &error) {
            throw Error(fmt::format("'{}' is not the text of a gemm workload: {}", text, error.what()));
        }
        auto workload = std::make_unique<GemmWorkload>(shape);
        if (workload->text() != text) throw Error(fmt::format("'{}' is not the text of a gemm workload", text));
        return workload;
    }

    std::vector<OperatorTensor> tensors() const override {
        return {{"a", "A, of m x k"}, {"b", "B, of n x k; of k x n with --b-layout kn"}, {"bias", "bias, of n", false}, {"addend", "D, of m x n", false}};
    }

    OperatorCard card() const override {
        OperatorCard card;
        card.family = "matmul";
        card.algorithm = "sums over blocks of 32 in float32, rounded to bf16, added ascending";
        card.space = "rows of a block, loop order, where sums and operands stay, unrolling";
        card.bound = "tiled programs: array, visits, additions, DRAM, pads, issue";
        card.reference = "float64";
        card.supports = "bf16, sizes of at least 1";
        card.refuses = "B stored [k][n]: needs a transpose";
        card.fuses = "bias, addend, alpha, beta, relu behind it";
        return card;
    }

    // mm, addmm and linear, where the second matrix is a weight stored [n][k].
    Resolution resolve(const AtenCall &call) const override {
        Resolution result;
        result.op = this;
        try {
            TensorList shapes;
            WorkloadArguments arguments;
            size_t position = 0;
            for (const AtenArgument &argument : call.arguments) {
                if (argument.tensors.empty()) {
                    if (argument.value.is_number() && (argument.name == "alpha" || argument.name == "beta")) arguments[argument.name] = argument.value.dump();
                    else if (!argument.value.is_null()) throw Error(fmt::format("gemm: the argument '{}' is not supported", argument.name));
                    continue;
                }
                if (plain_schema(call.schema) != "linear") throw Error("gemm: B stored [k][n] needs a transpose, which is not available yet; pass B as [n][k]");
                const std::string name = argument.name == "input" ? "a" : argument.name == "weight" ? "b" : "bias";
                for (const TensorMeta &tensor : argument.tensors) {
                    if (!is_floating(tensor.type)) throw Error(fmt::format("gemm: {} is {}, but the accelerator computes in bf16", argument.name, element_type_name(tensor.type)));
                    Shape shape = tensor.shape;
                    // Leading dimensions are rows.
                    if (name == "a" && shape.size() != 2) {
                        int64_t rows = 1;
                        for (size_t d = 0; d + 1 < shape.size(); d++) rows *= shape[d];
                        shape = {rows, shape.empty() ? 1 : shape.back()};
                    }
                    shapes.emplace_back(name, shape);
                    result.inputs.push_back(position++);
                }
            }
            result.workload = workload_of(shapes, arguments);
            result.place = Resolution::Accelerator;
        } catch (const Error &error) {
            result.inputs.clear();
            result.reason = error.what();
        }
        return result;
    }

    std::unique_ptr<Workload> workload_of(const TensorList &tensors, const WorkloadArguments &given) const override {
        const std::map<std::string, Shape> shapes(tensors.begin(), tensors.end());
        Arguments arguments(given);
        GemmShape shape;
        read_epilogue(arguments, shape);
        arguments.finish(this->arguments());
        const auto matrix = [&](const char *name) -> const std::vector<int64_t> & {
            const std::vector<int64_t> &extents = shapes.at(name);
            if (extents.size() != 2) throw Error(fmt::format("gemm: {} must have 2 dimensions, not {}", name, extents.size()));
            return extents;
        };
        const std::vector<int64_t> &a = matrix("a"), &b = matrix("b");
        shape.m = a[0];
        shape.k = a[1];
        shape.n = b[shape.b_transposed ? 0 : 1];
        const auto demand = [&](const char *name, const std::vector<int64_t> &wanted) {
            if (const auto found = shapes.find(name); found != shapes.end() && found->second != wanted)
                throw Error(fmt::format("gemm: {} must have the shape {} to fit a of {} and b of {}, not {}", name, text_of(wanted), text_of(a), text_of(b), text_of(found->second)));
        };
        demand("b", shape.b_transposed ? std::vector<int64_t>{shape.n, shape.k} : std::vector<int64_t>{shape.k, shape.n});
        demand("bias", {shape.n});
        demand("addend", {shape.m, shape.n});
        shape.bias = shapes.contains("bias");
        shape.addend = shapes.contains("addend");
        for (int64_t size : {shape.m, shape.n, shape.k})
            if (size < 1) throw Error("gemm: a tensor is empty, but sizes must be at least 1");
        return std::make_unique<GemmWorkload>(shape);
    }

private:
    static std::string text_of(const std::vector<int64_t> &shape) {
        return shape.empty() ? "a single element" : fmt::format("{}", fmt::join(shape, "x"));
    }

    static void read_epilogue(Arguments &arguments, GemmShape &shape) {
        const std::string layout = arguments.take("b-layout", "nk");
        if (layout != "nk" && layout != "kn") throw Error(fmt::format("gemm: b-layout must be nk or kn, not '{}'", layout));
        shape.b_transposed = layout == "nk";
        shape.bias = arguments.flag("bias");
        shape.relu = arguments.flag("relu");
        shape.addend = arguments.flag("addend");
        shape.alpha = parse_factor("alpha", arguments.take("alpha", "1"));
        shape.beta = parse_factor("beta", arguments.take("beta", "1"));
        // Without an addend its factor has no effect, and equal workloads must have equal texts.
        if (!shape.addend) shape.beta = 1;
    }
};

}  // namespace

const Operator &gemm_operator() {
    static const GemmOperator one;
    return one;
}

}  // namespace atalla
