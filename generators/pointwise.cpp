#include "generators/pointwise.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "generators/movement.h"
#include "generators/pointwise_kernel.h"
#include "generators/pointwise_workload.h"
#include "isa/error.h"
#include "schedules/movement_bound.h"
#include "simulator/numerics.h"

namespace atalla {

using namespace Halide;

namespace {

// Cycles of a line that the instruction cache misses.
constexpr double line_miss_cycles = 35;

}  // namespace

PointwiseWorkload::PointwiseWorkload(const WorkloadRequest &request, ExpressionNode expression, Shape result)
    : PipelineWorkload(request), expression_(std::move(expression)), names_(expression_.inputs()), result_(std::move(result)) {
    std::vector<Shape> shapes;
    for (const WorkloadRequest::Tensor &tensor : request.tensors) {
        shapes.push_back(tensor.shape);
        inputs_.push_back(tensor_spec(tensor.name, tensor.shape));
    }
    if (shapes.size() != names_.size())
        throw Error(fmt::format("{}: {} has {} inputs, but {} shapes are given", request.op, expression_.text(), names_.size(),
                                shapes.size()));
    if (names_.empty()) throw Error(fmt::format("{}: {} has no input", request.op, expression_.text()));
    set_result("result", result_);
    nest_ = collapse(result_, shapes);
    if (nest_.dims.empty()) nest_.dims.push_back({1, std::vector<bool>(names_.size(), true)});
    rest_ = take_parts(
        lanes_of(expression_), [&](const std::set<std::string> &inputs) { return only_dim(inputs); }, parts_);
    count_ = count_lane_operations(rest_);
    const auto is_column = [&](const std::string &name) {
        const size_t i = input_of(name);
        return i < names_.size() && nest_.dims.size() > 1 && !nest_.is_present(i, 0) && !nest_.is_single(i);
    };
    const auto columns = std::ranges::count_if(inputs_of(rest_), is_column) +
                         std::ranges::count_if(parts_, [](const PointwisePart &part) { return part.dim == 1; });
    if (columns == 0 && parts_.empty()) nest_ = PointwiseBlocks::with_short_rows(std::move(nest_));
    blocks_ = PointwiseBlocks(nest_, static_cast<int64_t>(names_.size() + parts_.size()), static_cast<int64_t>(parts_.size()),
                              columns, columns > 0 ? rows_as_run(columns) : JoinedRows{});
    if (columns == 0) {
        const std::set<std::string> used = inputs_of(rest_);
        std::vector<bool> as_they_are;
        for (const std::string &name : names_) as_they_are.push_back(used.count(name) > 0);
        const auto of_rows = std::ranges::count_if(parts_, [](const PointwisePart &part) { return part.dim == 0; });
        blocks_.set_patterns(pattern_run(nest_, as_they_are, of_rows));
    }
}

// Each operand has all dimensions, or is a number for each row, or for all.
JoinedRows PointwiseWorkload::rows_as_run(int64_t numbers) const {
    JoinedRows run{nest_.dims[0].extent, nest_.dims[1].extent, 1, 0, 0, numbers, count_.shared()};
    for (size_t d = 2; d < nest_.dims.size(); d++) run.images *= nest_.dims[d].extent;
    for (size_t i = 0; i < names_.size(); i++) {
        if (nest_.is_single(i)) continue;
        const bool is_number = !nest_.is_present(i, 0);
        if (!nest_.is_present(i, 1) || nest_.extents_of(i).size() != (is_number ? 1 : nest_.dims.size())) return {};
        (is_number ? run.inputs : run.operands)++;
    }
    return run.suit() ? run : JoinedRows{};
}

std::string PointwiseWorkload::words(const Machine &machine, const Point &point) const {
    const Tiling t = blocks_.tiling(machine, point);
    return fmt::format("{} block{} of {}{} row{} of {}, {} vectors unrolled, a buffer {}in {} pad{}{}", t.blocks,
                       t.blocks == 1 ? "" : "s", t.planes > 1 ? fmt::format("{} times ", t.planes) : "", t.rows,
                       t.rows == 1 ? "" : "s", t.cols, point["unroll"], point["parts"] > 0 ? "in parts " : "", point["pads"],
                       point["pads"] == 1 ? "" : "s",
                       PointwiseBlocks::single_numbers(point) ? ", numbers of rows single values"
                       : blocks_.meets_patterns(point)        ? ", as a run that meets patterns"
                       : PointwiseBlocks::is_joined(point)    ? ", rows joined"
                                                              : "");
}

std::vector<Reference> PointwiseWorkload::reference(const std::vector<TensorData> &inputs) const {
    Reference reference;
    const int64_t count = outputs_[0].elements();
    std::vector<std::vector<int64_t>> strides(names_.size());
    for (size_t i = 0; i < names_.size(); i++) {
        int64_t stride = 1;
        for (const LoopNest::Dim &dim : nest_.dims) {
            strides[i].push_back(dim.present[i] ? stride : 0);
            if (dim.present[i]) stride *= dim.extent;
        }
    }
    std::map<std::string, double> values;
    for (int64_t at = 0; at < count; at++) {
        for (size_t i = 0; i < names_.size(); i++) {
            int64_t rest = at, index = 0;
            for (size_t d = 0; d < nest_.dims.size(); d++) {
                index += rest % nest_.dims[d].extent * strides[i][d];
                rest /= nest_.dims[d].extent;
            }
            values[names_[i]] = bf16_float(inputs[i][static_cast<size_t>(index)]);
        }
        double peak = 0;
        reference.values.push_back(exact_expression(expression_, values, peak));
        reference.peaks.push_back(peak);
    }
    return {reference};
}

// Fitted to all schedules of 35 kernels on ax01, the fastest ones most: relu, exp, gelu, silu, sums and products of equal
// shapes and of rows, numbers of rows and planes, from 100 to 393,216 elements.
double PointwiseWorkload::draft(const Machine &machine, const Point &point) const {
    if (blocks_.meets_patterns(point)) return draft_of_patterns(machine, point);
    if (blocks_.in_turns(point)) return draft_of_run(machine, point);
    const Tiling t = blocks_.tiling(machine, point);
    const PointwiseBlocks::Transfers of_block = blocks_.transfers(machine, point);
    constexpr double beats_of_vector = 2;
    const double tensors = operands_per_element(t, point) + 1, moved = tensors * beats_of_vector * of_block.slowdown;
    const StraightVectors straight = blocks_.straight(machine, t, point);
    const int64_t unrolled = nest_.dims.size() > 1 ? straight.all() : point["unroll"];
    // Straight-line code, some two operations a packet, is fetched anew every turn if it does not fit the instruction cache.
    const double code =
        static_cast<double>(unrolled * (count_.work.adds + count_.work.muls + 4) * machine.issue.packet_bytes) / 2;
    const double misses = machine.timed() && code > static_cast<double>(machine.icache.bytes)
                              ? line_miss_cycles * code / static_cast<double>(machine.icache.line)
                              : 0;
    // A loop's turn costs a few cycles beside its work, and more where it is too long to overlap with the next; still longer
    // code keeps its order, since masks are too few for another.
    constexpr int64_t most_overlapped = 200, most_reordered = 400;
    constexpr double start = 850, waits = 1.06, short_turn = 2.7, long_turn = 37, in_order = 1.4, loop_start = 31,
                     transfer = 27, code_of_transfer = 12, made_of_rows = 450;
    const int64_t operations = unrolled * count_.all();
    const double lane = waits * (operations > most_reordered ? in_order : 1) * static_cast<double>(count_.shared()) *
                        static_cast<double>(machine.vec.ii);
    const double turn = operations > most_overlapped ? long_turn : short_turn;
    // Of a row that is not straight-line code the loop starts anew in each row.
    const bool by_row = nest_.dims.size() > 1 && straight.across * lanes < t.stored_cols;
    const double loops = point["parts"] == PointwiseBlocks::in_pages ? 1
                         : by_row                 ? static_cast<double>(t.planes * t.rows / (straight.down * straight.deep))
                         : straight.down < t.rows ? static_cast<double>(t.planes / straight.deep)
                                                  : 1;
    // Single values want ports for scalars that the other operations need.
    constexpr double few_ports = 0.98, many_ports = 1.03;
    const double single = !PointwiseBlocks::single_numbers(point) ? 1 : count_.all() == 1 ? few_ports : many_ports;
    const auto vectors = static_cast<double>(t.vectors());
    const int64_t transfers = (blocks_.operands() + 1) * ceil_div(t.vectors(), point["pads"] * machine.sdma.max_rows);
    // What is made of a block's numbers of rows waits for itself.
    const auto made =
        t.rows < t.height ? std::ranges::count_if(parts_, [](const PointwisePart &part) { return part.dim == 1; }) : 0;
    // Transfers and lanes wait for each other the more the closer they are.
    const double block = single * vectors * std::hypot(lane + (turn + misses) / static_cast<double>(unrolled), moved) +
                         loop_start * (loops - 1) + transfer * static_cast<double>(transfers) +
                         code_of_transfer * tensors * static_cast<double>(of_block.more) +
                         made_of_rows * static_cast<double>(made);
    return start + static_cast<double>(t.blocks) * block;
}

// How many elements of operands come for one of the result.
double PointwiseWorkload::operands_per_element(const Tiling &t, const Point &point) const {
    // What pages share stays in the pads, as a whole.
    const bool stay = point["parts"] >= PointwiseBlocks::in_pages;
    const std::vector<int64_t> block{t.cols, t.rows, t.planes};
    double sum = 0;
    for (size_t i = 0; i < names_.size(); i++) {
        double shared_by = 1;
        for (size_t d = 0; d < nest_.dims.size(); d++)
            if (!nest_.is_present(i, d) && (stay || d < block.size()))
                shared_by *= static_cast<double>(stay ? nest_.dims[d].extent : std::min(block[d], nest_.dims[d].extent));
        sum += 1 / shared_by;
    }
    return sum;
}

// Turns of a loop, beside which transfers run, those of a lone block, too, where they are equal. Fitted to sums and products of
// rows and batch_norm on ax01.
double PointwiseWorkload::draft_of_run(const Machine &machine, const Point &point) const {
    constexpr double start = 1200, block_start = 250, waits = 1.08, turn_start = 8, spread = 8.5, beats_of_vector = 2.08,
                     half_the_pads = 0.3, waits_for_turn = 0.15;
    const int64_t pads = point["pads"], block = point["block"], of_pad = block / pads;
    const JoinedRows run = blocks_.run().in_blocks_of(block);
    const RowTurn turn = RowTurn::of(run, point["unroll"] / pads);
    const int64_t blocks = blocks_.run().blocks(block), together = run.rows_together(machine, pads, block);
    // Two moves for a number of two rows, on any unit.
    const int64_t vectors = turn.rows * turn.vectors, moves = run.elements % lanes == 0 ? 0 : 2 * run.numbers * turn.rows,
                  operations = std::max(vectors * count_.shared(), (vectors * count_.all() + moves) / 2);
    const double turn_cycles = waits * static_cast<double>(pads * operations * machine.vec.ii) + turn_start,
                 numbers = spread * static_cast<double>(run.numbers * blocks_.run().numbers_of_block(block)),
                 computed = static_cast<double>(turn.turns(of_pad)) * turn_cycles;
    const double moved = beats_of_vector * static_cast<double>((run.operands + 1) * run.vectors(block)) *
                         (1 + run.slowdown(machine, pads, together)) * (pads < machine.pad.count ? 1 + half_the_pads : 1);
    // Groups of transfers start in turns.
    const double late = waits_for_turn * turn_cycles *
                        static_cast<double>((run.operands + 1) * run.tiles(machine, together) * (of_pad / together));
    const auto beside = [](double a, double b) { return std::cbrt(a * a * a + b * b * b); };
    if (blocks == 1) {
        const bool jumps = together < of_pad, streams = pads == machine.pad.count && run.has_equal_tiles(machine, together) &&
                                                        (!jumps || moved > computed);
        return start + numbers + (streams ? beside(computed, moved) + late : computed + moved);
    }
    const bool own = blocks_.run().has_own_numbers(block);
    return start + (own ? 0 : numbers) + moved +
           static_cast<double>(blocks) * (block_start + late + beside(computed + (own ? numbers : 0), moved));
}

// As of a run without patterns, which come first: written to memory, read, and repeated. Fitted to 20 sums and products of rows
// on ax01; where the pads hold all of rows of whole vectors these are priced as high as rows apart are, which take less time
// than their draft says.
double PointwiseWorkload::draft_of_patterns(const Machine &machine, const Point &point) const {
    constexpr double start = 900, waits = 1.06, turn = 2.7, transfer = 8, beats_of_vector = 2, chain = 2000, by_vectors = 1000,
                     beats_written = 3, repeat = 1.1, quarter_of_page = 1.08, more_than_a_page = 1.49, half_the_pads = 0.19,
                     first = 2, lost = 1.08, as_apart = 1.25;
    const PatternRun &run = blocks_.patterns();
    const Tiling t = blocks_.tiling(machine, point);
    const int64_t pads = point["pads"], part = t.cols / pads, page = PointwiseBlocks::page_elements(machine);
    const double slowdown = (page < part       ? more_than_a_page
                             : page > 2 * part ? quarter_of_page
                                               : 1) *
                            (1 + half_the_pads * std::log2(static_cast<double>(machine.pad.count) / static_cast<double>(pads)));
    const double lane = waits * static_cast<double>(count_.shared()) * static_cast<double>(machine.vec.ii);
    // Rows of images begin inside beats.
    const bool inside = run.in_images() && run.elements % (machine.sdma.beat / 2) != 0;
    const double beats = (inside ? 3 : beats_of_vector) * static_cast<double>(run.operands + 1), moved = beats * slowdown;
    double patterns = 0;
    if (run.in_images())
        patterns = beats_of_vector * static_cast<double>(tiles_of(run.elements) * static_cast<int64_t>(run.periods.size())) +
                   beats * static_cast<double>(run.images);
    bool held = !inside && (run.operands + 1) * run.images * tiles_of(run.elements) <= machine.pad.count * machine.pad_rows();
    for (const int64_t elements : run.in_images() ? std::vector<int64_t>() : run.periods) {
        const Pattern pattern = run.pattern(machine, elements);
        patterns +=
            beats_of_vector * static_cast<double>(pattern.base()) + repeat * static_cast<double>(pattern.vectors(t.vectors()));
        if (elements % lanes == 0) continue;
        held = false;
        patterns += chain + (pattern.by_vectors() ? by_vectors : 0) +
                    beats_written * static_cast<double>(pattern.copies() * tiles_of(elements));
    }
    const auto vectors = static_cast<double>(t.vectors());
    const int64_t transfers = (run.operands + 1) * ceil_div(t.vectors(), pads * machine.sdma.max_rows);
    const double block = lost * vectors * std::hypot(lane + turn / static_cast<double>(point["unroll"]), moved) +
                         transfer * static_cast<double>(transfers);
    return (held ? as_apart : 1) * (start + patterns + first * vectors * beats + static_cast<double>(t.blocks) * block);
}

// Of operands without outer dimensions, the longest.
int64_t PointwiseWorkload::bytes_of_lanes(const Machine &machine) const {
    const int64_t all = outputs_[0].elements(), beat = machine.sdma.beat / 2;
    int64_t whole = 1, longest = 0, repeated = 0;
    for (size_t i = 0; i < names_.size(); i++) {
        int64_t own = 1;
        size_t dims = 0;  // from the innermost one on
        while (dims < nest_.dims.size() && nest_.is_present(i, dims)) own *= nest_.dims[dims++].extent;
        for (size_t d = dims; d < nest_.dims.size(); d++)
            if (nest_.is_present(i, d)) own = 0;
        if (own == all) {
            whole++;
        } else if (dims > 0 && own >= longest) {
            repeated = own == longest ? repeated + 1 : 1;
            longest = own;
        }
    }
    if (!machine.timed() || longest % beat == 0) return 0;
    return machine.sdma.beat * least_broadcast_beats(machine, longest, all / longest, whole, repeated) -
           2 * (whole * all + repeated * longest);
}

KernelWork PointwiseWorkload::work(const Machine &machine) const {
    KernelWork work;
    work.bytes = tensor_bytes() + std::max<int64_t>(0, bytes_of_lanes(machine));
    // What some inputs lack the dimensions of can be computed once for all elements along these.
    for (const auto &[inputs, count] : lane_operations_by_inputs(lanes_of(expression_))) {
        int64_t elements = 1;
        for (size_t d = 0; d < nest_.dims.size(); d++)
            if (std::ranges::any_of(inputs, [&](const std::string &name) { return nest_.is_present(input_of(name), d); }))
                elements *= nest_.dims[d].extent;
        const int64_t vectors = tiles_of(elements);
        work.lanes.adds += count.work.adds * vectors;
        work.lanes.muls += count.work.muls * vectors;
        work.lanes.exps += count.work.exps * vectors;
        work.copies += count.least_copies * vectors;
    }
    // What is only broadcast could stay in the pads.
    if (expression_.calls() > 0) work.rows_loaded = work.rows_stored = tiles_of(outputs_[0].elements());
    return work;
}

std::optional<size_t> PointwiseWorkload::only_dim(const std::set<std::string> &inputs) const {
    const bool single = std::ranges::all_of(inputs, [&](const std::string &name) { return nest_.is_single(input_of(name)); });
    if (single && !inputs.empty() && element_count(result_) > 1) return PointwisePart::of_single_numbers;
    if (nest_.dims.size() < 2) return {};
    std::optional<size_t> found;
    for (const std::string &name : inputs) {
        size_t dims = 0, last = 0;
        for (size_t d = 0; d < nest_.dims.size(); d++)
            if (nest_.is_present(input_of(name), d)) dims++, last = d;
        if (dims != 1 || last > 1 || (found && *found != last)) return {};
        found = last;
    }
    return found;
}

Expr PointwiseWorkload::lanes_of(const ExpressionNode &node) {
    std::map<std::string, Expr> values;
    for (const std::string &name : node.inputs()) values[name] = Internal::Variable::make(Halide::BFloat(16), name);
    return machine_expression(node, values);
}

KernelDefinition PointwiseWorkload::build(const Machine &machine, const Point &point) const {
    const PointwiseAlgorithm algorithm{names_, rest_, parts_, nest_};
    if (blocks_.meets_patterns(point)) return pointwise_of_patterns(algorithm, blocks_, machine, point);
    if (blocks_.in_turns(point)) return pointwise_of_rows(algorithm, blocks_, machine, point);
    return pointwise_of_tiles(algorithm, blocks_, machine, point);
}

std::unique_ptr<Workload> pointwise_workload(const WorkloadRequest &request, ExpressionNode expression) {
    std::vector<Shape> shapes;
    for (const WorkloadRequest::Tensor &tensor : request.tensors) shapes.push_back(tensor.shape);
    const Shape result = broadcast_shape(request.op, shapes);
    if (element_count(result) == 0) return constant_workload(request, result);
    return std::make_unique<PointwiseWorkload>(request, std::move(expression), result);
}

std::unique_ptr<Workload> broadcast_workload(const WorkloadRequest &request, const Shape &result) {
    return std::make_unique<PointwiseWorkload>(request, ExpressionNode::input(request.tensors.front().name), result);
}

}  // namespace atalla
