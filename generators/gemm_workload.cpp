#include "generators/gemm_workload.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "generators/gemm_draft.h"
#include "generators/gemm_epilogue.h"
#include "generators/gemm_host.h"
#include "generators/gemm_least_cycles.h"
#include "generators/gemm_prologue.h"
#include "generators/gemm_space.h"
#include "generators/lowered_cache.h"
#include "isa/error.h"

namespace atalla {

namespace {

// Elements of a tensor: what the generated loops count with 32 bits.
constexpr int64_t largest_tensor = (int64_t{1} << 31) - 1;
constexpr int64_t vector_elements = 32;

class GemmWorkload : public Workload {
public:
    GemmWorkload(const GemmShape &shape, GemmNames names) : shape_(shape), names_(std::move(names)) {
        for (auto [rows, columns] : {std::pair(shape.m, shape.k), std::pair(shape.n, shape.k), std::pair(shape.m, shape.n)})
            if (rows > largest_tensor / columns)
                throw Error(fmt::format("gemm {}: a tensor of {} x {} elements is larger than {}", this->shape(), rows, columns, largest_tensor));
        // The array keeps B and streams the rows of A. A B of one column would use one column of the array: A stays there instead,
        // and B is the single row of the transposed product, which has the same bytes.
        const bool matrices = std::all_of(shape.operands.begin(), shape.operands.end(), [](const GemmOperand &operand) { return operand.kind == GemmOperand::Matrix; });
        exchanged_ = shape.n == 1 && shape.m > 1 && !shape.bias && matrices && !shape.prologue;
        computed_ = shape;
        if (exchanged_) {
            std::swap(computed_.m, computed_.n);
            computed_.b_transposed = true;
            for (BatchDim &dim : computed_.batch) std::swap(dim.a, dim.b);
        }
    }

    std::vector<std::string> placing_parameters() const override { return {"b_block", "pads_split"}; }

    std::string text() const override {
        if (!names_.text.empty()) return names_.text;
        nlohmann::json text = {{"m", shape_.m}, {"n", shape_.n}, {"k", shape_.k}, {"type", "bf16"}, {"b", shape_.b_transposed ? "nk" : "kn"},
                               {"bias", shape_.bias}, {"relu", shape_.relu}, {"addend", shape_.addend}, {"alpha", shape_.alpha}, {"beta", shape_.beta}};
        if (shape_.blocked_sums) text["sums"] = "blocked";
        return text.dump();
    }
    std::string title() const override {
        if (!names_.title.empty()) return names_.title;
        std::string text = shape();
        if (!shape_.b_transposed) text += ", B [k][n]";
        if (shape_.alpha != 1) text += fmt::format(", alpha {}", shape_.alpha);
        if (shape_.bias) text += ", bias";
        if (shape_.addend) text += shape_.beta == 1 ? ", addend" : fmt::format(", addend, beta {}", shape_.beta);
        if (shape_.relu) text += ", relu";
        if (shape_.blocked_sums) text += ", blocked sums";
        return text;
    }
    std::string shape() const override { return !names_.shape.empty() ? names_.shape : fmt::format("{}x{}x{}", shape_.m, shape_.n, shape_.k); }

    std::vector<TensorSpec> inputs() const override {
        std::vector<TensorSpec> tensors = shape_.prologue ? shape_.prologue->inputs() : std::vector<TensorSpec>{{"A", shape_.a_extents()}};
        tensors.push_back({"B", shape_.b_extents()});
        if (shape_.bias) tensors.push_back({"bias", {shape_.n}});
        if (shape_.addend) tensors.push_back({"D", shape_.addend_extents()});
        for (const GemmOperand &operand : shape_.operands) tensors.push_back({operand.name, shape_.operand_extents(operand)});
        return in_operator_order(std::move(tensors));
    }
    std::vector<TensorSpec> outputs() const override {
        if (!names_.result) return {{"C", shape_.c_extents()}};
        return {{"C", std::vector<int64_t>(names_.result->rbegin(), names_.result->rend())}};
    }
    double flops() const override {
        const auto elements = static_cast<double>(shape_.m) * static_cast<double>(shape_.n) * static_cast<double>(shape_.products());
        return (shape_.prologue ? shape_.prologue->flops() : 0) + elements * (2 * static_cast<double>(shape_.k) + (shape_.alpha != 1) + shape_.bias + shape_.addend * (1 + (shape_.beta != 1)) + shape_.relu);
    }

    Space space(const Machine &machine) const override { return gemm_space(computed_, machine); }
    Point naive_point(const Machine &machine) const override { return gemm_naive_point(computed_, machine); }
    KernelDefinition build(const Machine &machine, const Point &point) const override {
        KernelDefinition kernel = gemm(computed_, machine, point);
        if (exchanged_) std::swap(kernel.arguments[0], kernel.arguments[1]);
        kernel.arguments = in_operator_order(std::move(kernel.arguments));
        // The same bytes under the names and extents of the workload.
        kernel.inputs = inputs();
        kernel.outputs = outputs();
        return kernel;
    }
    std::string words(const Machine &machine, const Point &point) const override {
        return exchanged_ ? "A stationary; " + gemm_words(computed_, machine, point) : gemm_words(computed_, machine, point);
    }
    Bound bound(const Machine &machine) const override {
        // Dimensions that only one operand has make it longer.
        int64_t m = shape_.m, n = shape_.n, addends = shape_.m * shape_.n;
        GemmBoundOptions options;
        for (const BatchDim &dim : shape_.batch) {
            (dim.a && dim.b ? options.batch : dim.a ? m : n) *= dim.extent;
            if (dim.addend) addends *= dim.extent;
        }
        options.addend = (shape_.bias ? shape_.n : 0) + (shape_.addend ? addends : 0);
        for (const GemmOperand &operand : shape_.operands) {
            int64_t elements = 1;
            for (const int64_t extent : shape_.operand_extents(operand)) elements *= extent;
            options.addend += elements;
        }
        const Bound bound = gemm_bound(machine, m, n, shape_.k, options);
        const int64_t vectors = ceil_div(shape_.m * shape_.n * shape_.products(), vector_elements);
        LaneWork lanes = epilogue_work(shape_).work;
        lanes = {lanes.adds * vectors, lanes.muls * vectors, lanes.exps * vectors, 0};
        if (shape_.prologue) {
            // These lane operations and the sums over the k tiles are on the same units.
            const LaneWork rows = shape_.prologue->work(machine).lanes;
            lanes = {lanes.adds + rows.adds, lanes.muls + rows.muls, lanes.exps + rows.exps, 0};
            if (!machine.sa.psum_in) lanes.adds += vectors * (tiles_of(shape_.k) - 1);
            return with_term(bound, "lanes", lane_cycles(machine, lanes));
        }
        return shape_.epilogue ? with_term(bound, "epilogue", lane_cycles(machine, lanes)) : bound;
    }
    double draft(const Machine &machine, const Point &point) const override {
        const double rows = shape_.prologue ? shape_.prologue->draft(machine, prologue_point(point)) : 0;
        return rows + gemm_draft(computed_, machine, point);
    }
    int64_t least_cycles(const Machine &machine, const Point &point) const override { return gemm_least_cycles(computed_, machine, point); }

    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override { return {gemm_reference(shape_, in_product_order(inputs))}; }
    double tolerance_ulps() const override { return gemm_tolerance_ulps(shape_); }
    std::vector<TensorData> host_result(const Machine &machine, const std::vector<TensorData> &inputs) const override {
        return {gemm_host(shape_, machine, in_product_order(inputs))};
    }

private:
    // A, B, bias or addend, operands; or, as the operator has them, bias or addend, A, B, operands.
    template <class T>
    std::vector<T> in_operator_order(std::vector<T> list) const {
        const auto added = list.begin() + static_cast<ptrdiff_t>(shape_.a_tensors()) + 1;
        if (names_.added_first) std::rotate(list.begin(), added, added + 1);
        return list;
    }
    std::vector<TensorData> in_product_order(std::vector<TensorData> list) const {
        if (names_.added_first) std::rotate(list.begin(), list.begin() + 1, list.begin() + static_cast<ptrdiff_t>(shape_.a_tensors()) + 2);
        return list;
    }

    GemmShape shape_;
    GemmNames names_;
    bool exchanged_ = false;   // A and B
    GemmShape computed_;       // what is computed then
};

}  // namespace

std::unique_ptr<Workload> gemm_workload(const GemmShape &shape, GemmNames names) { return std::make_unique<GemmWorkload>(shape, std::move(names)); }

}  // namespace atalla
