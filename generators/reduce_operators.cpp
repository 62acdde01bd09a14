#include "generators/reduce_operators.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "generators/movement.h"
#include "generators/packed_row_sums.h"
#include "generators/pipeline_workload.h"
#include "generators/reduce_kernel.h"
#include "generators/row_sums.h"
#include "generators/second_look.h"
#include "isa/error.h"
#include "isa/vectors.h"

namespace atalla {

namespace {

class Reduce : public PipelineWorkload {
public:
    Reduce(const WorkloadRequest &request, const ReduceShape &shape, const Shape &result)
        : PipelineWorkload(request), shape_(shape) {
        inputs_ = {tensor_spec("x", request.shape("x"))};
        set_result("Y", result);
    }

    Space space(const Machine &machine) const override { return reduce_space(shape_, machine); }
    Point naive_point(const Machine &machine) const override { return reduce_naive_point(shape_, machine); }
    KernelDefinition build(const Machine &machine, const Point &point) const override {
        return named(reduce_kernel(shape_, machine, point));
    }
    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override {
        return {reduce_reference(shape_, inputs[0])};
    }
    double tolerance_ulps() const override { return reduce_tolerance_ulps(shape_); }
    double flops() const override { return static_cast<double>(shape_.elements()) * (shape_.kind == Reduction::Var ? 3 : 1); }
    double draft(const Machine &machine, const Point &point) const override {
        if (sums_packed_rows(shape_, machine)) return packed_row_sums_draft(shape_, machine, point);
        if (shape_.sums_side_by_side()) return row_sums_draft(shape_, machine, point);
        if (machine.timed() && shape_.along_lanes && shape_.kind != Reduction::Var && !shape_.extremum())
            return draft_of_row_sums(machine, point);
        if (machine.timed() && !shape_.along_lanes && shape_.extremum()) return draft_of_extrema_across(point);
        if (looks_again(point)) return draft_of_unchecked_rows(point);
        const auto steps =
            static_cast<double>(shape_.elements()) /
            (shape_.along_lanes ? static_cast<double>(shape_.length) / static_cast<double>(shape_.vectors()) : 32);
        const double per_step = shape_.kind == Reduction::Var || shape_.extremum() ? 6 : 3,
                     passes = shape_.kind == Reduction::Var ? 2 : 1;
        // As weights, the vectors of a part take a cycle each, and a gap of the array follows. The steps of an extremum beside
        // them count as they do below: more than they take.
        if (point["grouped"] != 0) {
            const double parts = static_cast<double>(shape_.results() * tiles_of(shape_.vectors())),
                         gap = (shape_.extremum() ? 186 : 36) + 60 / static_cast<double>(point["row_unroll"]);
            return 900 + passes * parts * (32 + gap) +
                   400 * static_cast<double>(shape_.results()) / static_cast<double>(point["rows"]) +
                   (reduction_streams(shape_, machine, point) ? 0 : 3 * static_cast<double>(point["rows"] * shape_.vectors()));
        }
        constexpr double sides = 4;
        const double together = shape_.along_lanes && shape_.extremum() ? sides_of(shape_) / sides : 1,
                     loop = 60 / (together * static_cast<double>(point["vector_unroll"] * point["row_unroll"]));
        const double few_rows = 300 * static_cast<double>(shape_.results()) / 32 / static_cast<double>(point["rows"]);
        const double parts = point["chunk"] > 0 ? 400 * steps / static_cast<double>(point["chunk"]) : 0;
        return (machine.timed() ? 900 + looped_extrema(point) : 60) + steps * passes * (per_step + loop) + few_rows + parts;
    }

protected:
    KernelWork work(const Machine &) const override {
        const int64_t per_lane = shape_.along_lanes ? 1 : 0;
        const int64_t rows = shape_.along_lanes ? shape_.kept * shape_.outer * shape_.other * shape_.vectors()
                                                : shape_.length * shape_.kept * shape_.other * shape_.outer * shape_.vectors();
        const int64_t results = shape_.along_lanes ? shape_.kept * shape_.outer : shape_.vectors() * shape_.kept * shape_.outer;
        KernelWork work;
        work.bytes = tensor_bytes();
        // Rows that end inside a vector may share vectors.
        work.rows_loaded = std::min(rows, tiles_of(shape_.elements()));
        work.rows_stored = tiles_of(shape_.results());
        // Along lanes the array sums, across lanes the adder does; an extremum compares either way. What finds NaN is
        // not counted: along lanes the array does, and how few lane operations do across lanes is not known.
        if (shape_.extremum()) {
            work.lanes.adds = std::max<int64_t>(0, rows - results);
            work.copies = work.lanes.adds;
            work.lanes.reductions = per_lane * results;
        } else if (shape_.kind == Reduction::Var) {
            work.lanes.adds = rows + (1 - per_lane) * 2 * (rows - results);
            work.lanes.muls = rows;
        } else {
            work.lanes.adds = (1 - per_lane) * (rows - results);
        }
        return work;
    }

private:
    // Fitted to all schedules of ten sums and means of 16 to 200 rows of 64 to 2,048 elements on ax01, the fastest ones most.
    double draft_of_row_sums(const Machine &machine, const Point &point) const {
        constexpr double start = 2280, block = 26, chunk = 400, first = 2, vector = 4.8, turn = 13.5, longer = 2.4,
                         loop_turn = 25, loop = 98, part_gap = 63.5, part_block = 95, first_parts = 3.3;
        constexpr int64_t most_overlapped = 28;
        const auto results = static_cast<double>(shape_.results()), blocks = results / static_cast<double>(point["rows"]);
        const int64_t vectors = shape_.other * shape_.vectors(), unrolled = point["row_unroll"] * point["vector_unroll"];
        const auto loaded = reduction_streams(shape_, machine, point) ? 0 : static_cast<double>(point["rows"] * vectors);
        // As weights, the vectors of a part take a cycle each, and a gap of the array follows.
        if (point["grouped"] != 0)
            return start +
                   results * static_cast<double>(shape_.other * tiles_of(shape_.vectors())) *
                       (static_cast<double>(std::min<int64_t>(shape_.vectors(), lanes)) + part_gap) +
                   part_block * blocks + first_parts * loaded;
        const double all = results * static_cast<double>(vectors), turns = all / static_cast<double>(unrolled);
        // Rows that are straight-line code overlap while it is short; loops over their vectors begin anew in each.
        const bool straight = point["vector_unroll"] >= vectors && point["chunk"] == 0;
        const double code =
            straight ? turns * (turn + longer * static_cast<double>(std::max<int64_t>(0, unrolled - most_overlapped)))
                     : loop_turn * turns + loop * results;
        return start + vector * all + code + block * blocks + (blocks > 1 ? first * loaded : 0) +
               (point["chunk"] > 0 ? chunk * all / static_cast<double>(point["chunk"]) : 0);
    }

    // Fitted to all schedules of nine shapes of 24 to 2,000 steps on ax01. A result's loop fills and drains, and a block of
    // several results waits for its transfers, the less the more there are, or for all if there is one block. Elements that are
    // looked at again for NaN alone pass faster, and more stands around a result's loop.
    double draft_of_extrema_across(const Point &point) const {
        constexpr double start = 900, vector = 4.6, vector_without_nan = 3.2, second_look = 140, result = 100, straight = 55,
                         turn = 2.5, block = 18, only_block = 2.2, chunk = 400;
        const auto results = static_cast<double>(shape_.vectors() * shape_.kept * shape_.outer),
                   unroll = static_cast<double>(point["vector_unroll"]);
        const bool unchecked = looks_again(point);
        const double vectors = results * static_cast<double>(shape_.count()), steps = vectors / sides_of(shape_);
        const bool one_block = point["rows"] >= shape_.vectors() && shape_.kept * shape_.outer == 1;
        const double waits = point["rows"] == 1 ? 0 : one_block ? only_block : block / static_cast<double>(point["rows"]);
        return start + ((unchecked ? vector_without_nan : vector) + waits) * vectors +
               (result + (unchecked ? second_look : 0) + straight * unroll) * results + turn * steps / unroll +
               (point["chunk"] > 0 ? chunk * steps / static_cast<double>(point["chunk"]) : 0);
    }

    // A loop over the vectors of each row, which fills and drains and leads to the reduction unit twice; turns of fewer than 32
    // vectors wait for the weights of the array.
    double draft_of_unchecked_rows(const Point &point) const {
        constexpr double start = 1200, vector = 3.2, row = 350, weights = 68, first = 3;
        const auto rows = static_cast<double>(shape_.results());
        const int64_t vectors = shape_.vectors_in_pads(), turn = point["vector_unroll"] * sides_of(shape_);
        const double turns = static_cast<double>(vectors) / static_cast<double>(turn),
                     of_turn = std::max(vector * static_cast<double>(turn), weights * static_cast<double>(tiles_of(turn)));
        return start + rows * (row + turns * of_turn) + first * static_cast<double>(point["rows"] * vectors);
    }

    // Loops over the vectors of a row, one for its extremum and one that looks for NaN: where the instruction cache does not
    // hold those of all unrolled rows, they are fetched anew each time; one after the other in a block, rows cost more than
    // alone.
    double looped_extrema(const Point &point) const {
        constexpr double code_of_row = 57, code_of_vector = 10.75, cached_packets = 409, miss = 11, row_in_block = 120;
        const int64_t straight = point["vector_unroll"] * sides_of(shape_);
        if (!shape_.extremum() || !shape_.along_lanes || point["chunk"] != 0 || straight >= shape_.vectors_in_pads()) return 0;
        const auto results = static_cast<double>(shape_.results()), unrolled = static_cast<double>(point["row_unroll"]);
        const double missing = unrolled * (code_of_row + code_of_vector * static_cast<double>(straight)) - cached_packets;
        return results / unrolled * miss * std::max(0.0, missing) + (point["rows"] > 1 ? row_in_block * results : 0);
    }

    ReduceShape shape_;
};

OperatorDeclaration reduce_row(const std::string &name, Reduction kind, std::vector<std::string> schemas,
                               const std::string &what) {
    OperatorDeclaration row;
    row.name = name;
    row.schemas = std::move(schemas);
    row.help = what + " over axes";
    row.card.family = "reduction";
    const bool extremum = kind == Reduction::Amax || kind == Reduction::Amin;
    row.card.algorithm = extremum ? "compares and masked copies of vectors, then one reduction a result where the innermost "
                                    "axis is reduced; NaN spread"
                                  : "innermost axis reduced: blocks of 32 through the array (fp32, rounded to bf16) added in "
                                    "fp32, from 12 on in parts of up to 32 that are rounded likewise, those of several planes, "
                                    "or two or three of many rows, in bf16, and so those of rows of up to ten that "
                                    "end inside one, which are what vectors in memory have of a row; else bf16 sums, eight "
                                    "side by side, long ones in "
                                    "groups, then these in pairs";
    row.card.space = "results and steps in the pads at a time, results and steps in straight-line code";
    row.card.bound =
        extremum
            ? "dram, and lanes: a compare and a masked copy a vector, a reduction a result where the innermost axis is reduced"
            : "dram, and lanes: the additions of vectors";
    row.card.reference = extremum ? "exact" : "float64, relative to the sum of magnitudes";
    row.card.supports = "any sizes, any axes that alternate at most four times between kept and reduced";
    row.card.fuses = "nothing yet";
    row.tensors = {{"x", {"self", "input"}, "the tensor"}};
    row.attributes = {{"dim", "axes; all if none are given", std::vector<int64_t>{}},
                      {"keepdim", "keep reduced axes with size 1", false}};
    if (kind == Reduction::Var)
        row.attributes.push_back({"correction", "subtracted from the number of elements that the sum is divided by", 1.0});
    row.example = {{"shape", "1024x1024"}, {"dim", "1"}};
    row.ignored = {"dtype"};
    row.make = [kind](const WorkloadRequest &request) -> std::unique_ptr<Workload> {
        const Shape &shape = request.shape("x");
        const auto rank = static_cast<int64_t>(shape.size());
        const std::vector<int64_t> dims = request.given("dim") ? request.integers("dim") : std::vector<int64_t>{};
        std::vector<bool> reduced(shape.size(), dims.empty());
        for (int64_t dim : dims) {
            const int64_t d = wrap_dim(request.op, dim, rank);
            if (shape.empty()) continue;
            if (reduced[static_cast<size_t>(d)])
                throw Error(fmt::format("{}: dim {} appears multiple times in the list of dims", request.op, d));
            reduced[static_cast<size_t>(d)] = true;
        }
        Shape result;
        double count = 1;
        for (size_t d = 0; d < shape.size(); d++) {
            if (!reduced[d])
                result.push_back(shape[d]);
            else if (request.flag("keepdim"))
                result.push_back(1);
            if (reduced[d]) count *= static_cast<double>(shape[d]);
        }
        if (count == 0 && (kind == Reduction::Amax || kind == Reduction::Amin))
            throw Error(fmt::format("{}: expected reduction dims to have non-zero size, but {} is reduced to {}", request.op,
                                    shape_text(shape), shape_text(result)));
        // A sum of nothing is 0, a mean of nothing no number.
        if (element_count(shape) == 0) return constant_workload(request, result, kind == Reduction::Sum ? 0 : std::nan(""));
        double divisor = 1;
        if (kind == Reduction::Mean) divisor = count;
        if (kind == Reduction::Var) divisor = std::max(0.0, count - request.number("correction"));
        if (divisor == 0)
            throw Error(
                fmt::format("{}: {} elements and the correction leave nothing to divide by; the result is NaN everywhere",
                            request.op, count));
        return std::make_unique<Reduce>(request, reduce_shape(kind, shape, reduced, divisor), result);
    };
    return row;
}

}  // namespace

std::unique_ptr<Workload> trailing_mean(const WorkloadRequest &request, size_t axes) {
    const Shape &shape = request.shape("x");
    std::vector<bool> reduced(shape.size());
    Shape result = shape;
    double count = 1;
    for (size_t d = shape.size() - axes; d < shape.size(); d++) {
        reduced[d] = true;
        result[d] = 1;
        count *= static_cast<double>(shape[d]);
    }
    if (element_count(result) == 0) return constant_workload(request, result);
    return std::make_unique<Reduce>(request, reduce_shape(Reduction::Mean, shape, reduced, count), result);
}

std::vector<OperatorDeclaration> reduce_operators() {
    return {reduce_row("sum", Reduction::Sum, {"sum", "sum.dim_IntList"}, "the sum"),
            reduce_row("mean", Reduction::Mean, {"mean", "mean.dim"}, "the mean"),
            reduce_row("amax", Reduction::Amax, {"amax"}, "the largest element"),
            reduce_row("amin", Reduction::Amin, {"amin"}, "the smallest element"),
            reduce_row("var", Reduction::Var, {"var.correction"}, "the variance")};
}

}  // namespace atalla
