#include "generators/gemm_operator.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "generators/gemm_workload.h"
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
        throw Error(fmt::format("gemm has no argument '{}'{}", name,
                                nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
    }

private:
    WorkloadArguments rest_;
};

class GemmOperator : public Operator {
public:
    std::string name() const override { return "gemm"; }
    std::vector<std::string> schemas() const override { return {}; }
    std::string help() const override { return "C[m,n] = relu(alpha A[m,k] B + bias + beta D)"; }
    WorkloadArguments example() const override { return {{"shape", "512x512x512"}}; }

    std::vector<WorkloadArgument> arguments() const override {
        return {{"m", "rows of A and C", false, true},
                {"n", "columns of C", false, true},
                {"k", "elements that a product sums over", false, true},
                {"b-layout", "how B is stored: nk, as a linear layer's weight, or kn"},
                {"bias", "add a vector of n to each row", true, true},
                {"relu", "replace what is below zero by zero", true},
                {"addend", "add a matrix D of m x n", true, true},
                {"alpha", "factor of the product"},
                {"beta", "factor of the addend"},
                {"sums", "order of additions over k: ascending, or blocked, which keeps more digits of long sums"}};
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
        return gemm_workload(shape);
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
            shape.blocked_sums = json.value("sums", "ascending") == "blocked";
        } catch (const nlohmann::json::exception &error) {
            throw Error(fmt::format("'{}' is not the text of a gemm workload: {}", text, error.what()));
        }
        auto workload = gemm_workload(shape);
        if (workload->text() != text) throw Error(fmt::format("'{}' is not the text of a gemm workload", text));
        return workload;
    }

    std::vector<OperatorTensor> tensors() const override {
        return {{"a", "A, of m x k"},
                {"b", "B, of n x k; of k x n with --b-layout kn"},
                {"bias", "bias, of n", false},
                {"addend", "D, of m x n", false}};
    }

    OperatorCard card() const override {
        OperatorCard card;
        card.family = "matmul";
        card.algorithm = "sums over blocks of 32 in float32, rounded to bf16, added ascending, or in groups";
        card.space = "rows of a block, loop order, where sums and operands stay, unrolling";
        card.bound = "tiled programs: array, visits, additions, DRAM, pads, issue";
        card.reference = "float64";
        card.supports = "bf16, sizes of at least 1, B stored [n][k] or [k][n]";
        card.refuses = "empty tensors: nothing to compute";
        card.fuses = "bias, addend, alpha, beta, relu behind it";
        return card;
    }

    // The ATen operators are declared in matmul_operators.cpp.
    Resolution resolve(const AtenCall &call) const override {
        Resolution result;
        result.op = this;
        result.reason = fmt::format("gemm is no ATen operator, so it takes no call of {}", call.schema);
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
                throw Error(fmt::format("gemm: {} must have the shape {} to fit a of {} and b of {}, not {}", name,
                                        text_of(wanted), text_of(a), text_of(b), text_of(found->second)));
        };
        if (b[shape.b_transposed ? 1 : 0] != shape.k)
            throw Error(
                fmt::format("gemm: b of {} does not fit a of {}: stored as {} it must have {} {}{}", text_of(b), text_of(a),
                            shape.b_transposed ? "nk" : "kn", shape.k, shape.b_transposed ? "columns" : "rows",
                            b[shape.b_transposed ? 0 : 1] != shape.k
                                ? ""
                                : fmt::format("; stored as {0} it fits: --b-layout {0}", shape.b_transposed ? "kn" : "nk")));
        demand("bias", {shape.n});
        demand("addend", {shape.m, shape.n});
        shape.bias = shapes.contains("bias");
        shape.addend = shapes.contains("addend");
        for (int64_t size : {shape.m, shape.n, shape.k})
            if (size < 1) throw Error("gemm: a tensor is empty, but sizes must be at least 1");
        return gemm_workload(shape);
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
        const std::string sums = arguments.take("sums", "ascending");
        if (sums != "ascending" && sums != "blocked")
            throw Error(fmt::format("gemm: sums must be ascending or blocked, not '{}'", sums));
        shape.blocked_sums = sums == "blocked";
    }
};

}  // namespace

const Operator &gemm_operator() {
    static const GemmOperator one;
    return one;
}

}  // namespace atalla
