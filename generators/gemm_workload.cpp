#include "generators/gemm_workload.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "generators/gemm_draft.h"
#include "generators/gemm_epilogue.h"
#include "generators/gemm_host.h"
#include "generators/gemm_inner.h"
#include "generators/gemm_least_cycles.h"
#include "generators/gemm_prologue.h"
#include "generators/gemm_space.h"
#include "generators/lowered_cache.h"
#include "isa/error.h"
#include "schedules/product_work.h"

namespace atalla {

namespace {

// Elements of a tensor: what the generated loops count with 32 bits.
constexpr int64_t largest_tensor = (int64_t{1} << 31) - 1;
constexpr int64_t vector_elements = 32, element_bytes = 2;

class GemmWorkload : public Workload {
public:
    GemmWorkload(const GemmShape &shape, GemmNames names) : shape_(shape), names_(std::move(names)) {
        for (auto [rows, columns] : {std::pair(shape.m, shape.k), std::pair(shape.n, shape.k), std::pair(shape.m, shape.n)})
            if (rows > largest_tensor / columns)
                throw Error(fmt::format("gemm {}: a tensor of {} x {} elements is larger than {}", this->shape(), rows, columns,
                                        largest_tensor));
        // The array keeps B and streams the rows of A. A B of one column would use one column of the array: A stays there
        // instead, and B is the single row of the transposed product, which has the same bytes.
        const bool matrices = std::all_of(shape.operands.begin(), shape.operands.end(),
                                          [](const GemmOperand &operand) { return operand.kind == GemmOperand::Matrix; });
        exchanged_ = shape.n == 1 && shape.m > 1 && !shape.bias && matrices && !shape.makes_rows();
        computed_ = shape;
        if (exchanged_) {
            std::swap(computed_.m, computed_.n);
            computed_.b_transposed = true;
            for (BatchDim &dim : computed_.batch) std::swap(dim.a, dim.b);
        }
    }

    std::vector<Arrangement> arrangements(const Machine &machine) const override {
        return names_.arrangements ? names_.arrangements(machine) : std::vector<Arrangement>{};
    }
    std::vector<std::string> placing_parameters() const override { return {"b_block", "pads_split"}; }

    std::string text() const override {
        if (!names_.text.empty()) return names_.text;
        nlohmann::json text = {{"m", shape_.m},
                               {"n", shape_.n},
                               {"k", shape_.k},
                               {"type", "bf16"},
                               {"b", shape_.b_transposed ? "nk" : "kn"},
                               {"bias", shape_.bias},
                               {"relu", shape_.relu},
                               {"addend", shape_.addend},
                               {"alpha", shape_.alpha},
                               {"beta", shape_.beta}};
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
    std::string shape() const override {
        return !names_.shape.empty() ? names_.shape : fmt::format("{}x{}x{}", shape_.m, shape_.n, shape_.k);
    }

    std::vector<TensorSpec> inputs() const override { return in_operator_order(tensors_of(shape_)); }
    std::vector<TensorSpec> outputs() const override {
        if (!names_.result) return {{"C", shape_.c_extents()}};
        return {{"C", std::vector<int64_t>(names_.result->rbegin(), names_.result->rend())}};
    }
    double flops() const override { return flops_of(shape_); }

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
        if (shape_.inner) {
            KernelWork work = work_of(shape_, machine);
            work.bytes = element_bytes * shape_.m * shape_.n;
            for (const TensorSpec &tensor : tensors_of(shape_)) work.bytes += element_bytes * tensor.elements();
            return kernel_bound(machine, work);
        }
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
        if (!shape_.prologue && !shape_.epilogue && !shape_.relu) return bound;
        // What is in front of the product and behind it is on the same units as the sums over the k tiles.
        const int64_t vectors = ceil_div(shape_.m * shape_.n * shape_.products(), vector_elements);
        const LaneWork sums = product_work(machine, m, n, shape_.k, shape_.bias || shape_.addend, true).lanes,
                       behind = shape_.epilogue_work.work,
                       before = shape_.prologue ? shape_.prologue->work(machine).lanes : LaneWork();
        return with_term(bound, "lanes",
                         lane_cycles(machine, {options.batch * sums.adds + vectors * (behind.adds + shape_.relu) + before.adds,
                                               vectors * behind.muls + before.muls, vectors * behind.exps + before.exps, 0}));
    }
    double draft(const Machine &machine, const Point &point) const override { return draft_of(computed_, machine, point); }
    int64_t least_cycles(const Machine &machine, const Point &point) const override {
        return gemm_least_cycles(computed_, machine, point);
    }

    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override {
        return {gemm_reference(shape_, in_product_order(inputs))};
    }
    double tolerance_ulps() const override { return gemm_tolerance_ulps(shape_); }
    std::vector<TensorData> host_result(const Machine &machine, const std::vector<TensorData> &inputs) const override {
        return {gemm_host(shape_, machine, in_product_order(inputs))};
    }

private:
    // In the kernel's order: A or what it is made of, B, bias or addend, operands.
    static std::vector<TensorSpec> tensors_of(const GemmShape &shape) {
        std::vector<TensorSpec> tensors = shape.prologue ? shape.prologue->inputs()
                                          : shape.inner  ? tensors_of(*shape.inner)
                                                         : std::vector<TensorSpec>{{"A", shape.a_extents()}};
        tensors.push_back({"B", shape.b_extents()});
        if (shape.bias) tensors.push_back({"bias", {shape.n}});
        if (shape.addend) tensors.push_back({"D", shape.addend_extents()});
        for (const GemmOperand &operand : shape.operands) tensors.push_back({operand.name, shape.operand_extents(operand)});
        return tensors;
    }
    static double flops_of(const GemmShape &shape) {
        const auto elements =
            static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.products());
        const double own = elements * (2 * static_cast<double>(shape.k) + (shape.alpha != 1) + shape.bias +
                                       shape.addend * (1 + (shape.beta != 1)) + shape.relu);
        return own + (shape.prologue ? shape.prologue->flops() : shape.inner ? flops_of(*shape.inner) : 0);
    }

    // Of a product and all that are in front of it. What these make need not pass between pads and registers.
    static KernelWork work_of(const GemmShape &shape, const Machine &machine) {
        KernelWork work = product_work(machine, shape.m, shape.n, shape.k, shape.bias || shape.addend, !shape.inner);
        const auto add = [&](const LaneWork &more, int64_t times) {
            work.lanes.adds += times * more.adds;
            work.lanes.muls += times * more.muls;
            work.lanes.exps += times * more.exps;
        };
        add(shape.epilogue_work.work, ceil_div(shape.m * shape.n, vector_elements));
        if (shape.prologue) add(shape.prologue->work(machine).lanes, 1);
        if (!shape.inner) return work;
        const KernelWork inner = work_of(*shape.inner, machine);
        add(inner.lanes, 1);
        work.rows_loaded += inner.rows_loaded;
        work.array_rows += inner.array_rows;
        work.array_loads += inner.array_loads;
        work.array_tiles += inner.array_tiles;
        return work;
    }
    static double draft_of(const GemmShape &shape, const Machine &machine, const Point &point) {
        const double rows = shape.prologue ? shape.prologue->draft(machine, prologue_point(point))
                            : shape.inner  ? inner_draft(shape, machine, point)
                                           : 0;
        return rows + gemm_draft(shape, machine, point);
    }
    static double inner_draft(const GemmShape &shape, const Machine &machine, const Point &point) {
        // An epilogue that is a loop of its own comes back into the instruction cache with each of them.
        constexpr double epilogue_loop = 300;
        const Point inner = inner_point(point);
        const double loops =
            shape.inner->staged ? epilogue_loop * static_cast<double>(inner["stage_all"] != 0 ? 1 : shape.k_tiles()) : 0;
        return draft_of(*shape.inner, machine, inner) + (machine.timed() ? loops : 0);
    }

    // Where the kernel has what the operator has: as the operator is called, B may come before A, and the bias or addend before
    // both.
    static std::vector<size_t> places_of(const GemmShape &shape) {
        std::vector<size_t> places(shape.tensors());
        std::iota(places.begin(), places.end(), size_t{0});
        if (shape.inner) std::ranges::copy(places_of(*shape.inner), places.begin());
        const auto added = places.begin() + static_cast<ptrdiff_t>(shape.a_tensors()) + 1;
        if (shape.b_first) std::rotate(places.begin(), added - 1, added);
        if (shape.added_first) std::rotate(places.begin(), added, added + 1);
        return places;
    }
    template <class T>
    std::vector<T> in_operator_order(std::vector<T> list) const {
        std::vector<T> ordered;
        for (const size_t place : places_of(shape_)) ordered.push_back(std::move(list[place]));
        return ordered;
    }
    std::vector<TensorData> in_product_order(std::vector<TensorData> list) const {
        const std::vector<size_t> places = places_of(shape_);
        std::vector<TensorData> ordered(list.size());
        for (size_t i = 0; i < list.size(); i++) ordered[places[i]] = std::move(list[i]);
        return ordered;
    }

    GemmShape shape_;
    GemmNames names_;
    bool exchanged_ = false;  // A and B
    GemmShape computed_;      // what is computed then
};

}  // namespace

std::unique_ptr<Workload> gemm_workload(const GemmShape &shape, GemmNames names) {
    return std::make_unique<GemmWorkload>(shape, std::move(names));
}

}  // namespace atalla
