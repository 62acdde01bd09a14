#include "generators/pointwise.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "generators/broadcast.h"
#include "generators/movement.h"
#include "generators/pointwise_functions.h"
#include "generators/vocabulary.h"
#include "isa/error.h"
#include "isa/vectors.h"
#include "simulator/numerics.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// Elements of a row that one tile takes on a machine with large pads; longer rows are cut.
constexpr int64_t longest_row = 2048;
// Pads that one buffer may take, in rows of all pads: two slots each for inputs and result.
constexpr int64_t most_buffer_rows = 2048;
// Cycles of a line that the instruction cache misses.
constexpr double line_miss_cycles = 35;

// The value of `parts` for blocks of two pages.
constexpr int64_t in_pages = 2;

// How the result is cut into blocks: `cols` of the innermost dimension times `rows` of the next; the others are loops.
struct Tiling {
    int64_t width = 1, height = 1;   // of the whole result: innermost dimension, next dimension
    int64_t cols = 1, rows = 1;
    int64_t stored_cols = lanes;     // of a row in the pads
    int64_t row_unroll = 1, vector_unroll = 1;
    int64_t blocks = 1;              // of the two dimensions
    bool guarded = false;            // rows end inside a vector
};

class PointwiseWorkload : public PipelineWorkload {
public:
    PointwiseWorkload(const WorkloadRequest &request, ExpressionNode expression) : PipelineWorkload(request), expression_(std::move(expression)), names_(expression_.inputs()) {
        std::vector<Shape> shapes;
        for (const WorkloadRequest::Tensor &tensor : request.tensors) {
            shapes.push_back(tensor.shape);
            inputs_.push_back(tensor_spec(tensor.name, tensor.shape));
        }
        if (shapes.size() != names_.size())
            throw Error(fmt::format("{}: {} has {} inputs, but {} shapes are given", request.op, expression_.text(), names_.size(), shapes.size()));
        if (names_.empty()) throw Error(fmt::format("{}: {} has no input", request.op, expression_.text()));
        result_ = broadcast_shape(request.op, shapes);
        outputs_ = {tensor_spec("result", result_)};
        nest_ = collapse(result_, shapes);
        if (nest_.dims.empty()) nest_.dims.push_back({1, std::vector<bool>(names_.size(), true)});
        column_ = std::any_of(nest_.dims[0].present.begin(), nest_.dims[0].present.end(), [](bool present) { return !present; }) && nest_.dims.size() > 1;
        if (column_) {
            column_ = false;
            for (size_t i = 0; i < names_.size(); i++) column_ = column_ || (!nest_.is_present(i, 0) && !nest_.is_single(i));
        }
        rest_ = without_parts(expression_);
        count_ = count_of(rest_);
    }

    std::string expression() const override { return expression_.text(); }

    Space space(const Machine &machine) const override {
        Space space;
        std::set<int64_t> sizes;
        const Tiling whole = tiling(machine, nest_.dims.size() == 1 ? nest_.dims[0].extent : largest());
        for (int64_t rows = row_step(machine); rows <= most_buffer_rows / 2; rows *= 2) {
            const int64_t size = size_of(machine, rows);
            if (fits(machine, tiling(machine, size))) sizes.insert(size);
        }
        // Rows with a number each are straight-line code where they are not whole vectors of such numbers.
        const bool short_code = !column_ || largest() % lanes == 0 || largest() <= 4 * lanes;
        if (short_code && fits(machine, whole)) sizes.insert(nest_.dims.size() == 1 ? round_down(nest_.dims[0].extent) : largest());
        if (sizes.empty()) sizes.insert(size_of(machine, 1));
        space.parameter("block", nest_.dims.size() == 1 ? "elements that come and go together" : "rows that come and go together", {sizes.begin(), sizes.end()})
            .choice("unroll", "vectors in straight-line code", {4, 8, 16, 32})
            .choice("pads", "pads that a buffer goes round: with fewer, transfers in and out meet less often", {4, 2, 1})
            .choice("parts", "a pad holds every so manieth vector of a block (0) or one part of it (1); 2: blocks are parts of two pages of the DRAM", {0, 1, in_pages});
        space.constraint("pads", {"pads"}, "There are as many pads.", [count = machine.pad.count](const Point &point) { return point["pads"] <= count; });
        space.constraint("parts", {"pads", "block", "parts"}, "A block has as many equal parts as pads.", [this, machine](const Point &point) {
            if (point["parts"] == in_pages) return point["pads"] > 1 && has_pages(machine, point["block"]);
            return point["parts"] == 0 || (machine.timed() && !column_ && point["pads"] > 1 && part_of(tiling(machine, point["block"]), point["pads"]) > 1);
        });
        space.constraint("room", {"pads", "block"}, "A buffer fits its pads.", [this, machine](const Point &point) {
            const Tiling t = tiling(machine, point["block"]);
            const int64_t slots = t.blocks > 1 && machine.timed() ? 2 : 1, buffers = operands() + 1;
            const int64_t groups = std::max<int64_t>(1, machine.pad.count / point["pads"]);
            const int64_t rows = (t.rows * t.stored_cols / lanes + point["pads"] - 1) / point["pads"] * slots;
            return (buffers + groups - 1) / groups * rows + small_operands() <= machine.pad_rows();
        });
        return space;
    }

    std::string words(const Machine &machine, const Point &point) const override {
        const Tiling t = tiling(machine, point["block"]);
        return fmt::format("{} block{} of {} row{} of {}, {} vectors unrolled, a buffer {}in {} pad{}", t.blocks, t.blocks == 1 ? "" : "s", t.rows, t.rows == 1 ? "" : "s", t.cols,
                           point["unroll"], point["parts"] > 0 ? "in parts " : "", point["pads"], point["pads"] == 1 ? "" : "s");
    }

    KernelDefinition build(const Machine &machine, const Point &point) const override;

    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override {
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
    // Each operator is within three; in a chain each adds its own.
    double tolerance_ulps() const override { return 3.0 * static_cast<double>(std::max(1, expression_.calls())); }

    double draft(const Machine &machine, const Point &point) const override {
        const Tiling t = tiling(machine, point["block"]);
        double others = 1;
        for (size_t d = 2; d < nest_.dims.size(); d++) others *= static_cast<double>(nest_.dims[d].extent);
        const double vectors = static_cast<double>(t.rows * t.stored_cols / lanes);
        const double lane = static_cast<double>(std::max({count_.work.adds, count_.work.muls, (count_.work.adds + count_.work.muls + count_.copies) / 2})) * static_cast<double>(machine.vec.ii);
        const double moved = static_cast<double>(operands() + 1) * (t.cols < lanes ? 3.0 : 2.0) * 1.1;
        // A block's first transfers and its loop's start; the first block alone waits for everything.
        // Straight-line code that does not fit the instruction cache comes anew every turn, a line of packets at a time.
        const double code = static_cast<double>(point["unroll"] * (count_.work.adds + count_.work.muls + 4) * machine.issue.packet_bytes);
        const double misses = machine.timed() && code > static_cast<double>(machine.icache.bytes) ? line_miss_cycles * code / static_cast<double>(machine.icache.line) : 0;
        const double block = vectors * std::max(lane + (40.0 + misses) / static_cast<double>(point["unroll"]), moved) + 60;
        return 400 + static_cast<double>(t.blocks) * others * block + vectors * (moved + lane);
    }

protected:
    KernelWork work(const Machine &) const override {
        KernelWork work;
        work.bytes = tensor_bytes();
        const auto counted = [&](const LaneCount &count, int64_t elements) {
            const int64_t vectors = tiles_of(elements);
            work.lanes.adds += count.work.adds * vectors;
            work.lanes.muls += count.work.muls * vectors;
            work.lanes.exps += count.work.exps * vectors;
            work.copies += count.copies * vectors;
        };
        counted(count_, outputs_[0].elements());
        for (const Part &part : parts_) counted(count_of(part.node), nest_.dims[part.dim].extent);
        const int64_t vectors = tiles_of(outputs_[0].elements());
        work.rows_loaded = work.rows_stored = vectors;
        return work;
    }

private:
    // What depends on one dimension alone, the innermost or the next, is computed once for all others.
    struct Part {
        std::string name;
        ExpressionNode node;
        size_t dim = 0;
    };

    int64_t operands() const { return static_cast<int64_t>(names_.size() + parts_.size()); }
    // Those that take rows of their own beside a block: what is computed once, single numbers.
    int64_t small_operands() const {
        auto count = static_cast<int64_t>(parts_.size());
        for (size_t i = 0; i < names_.size(); i++) count += nest_.is_single(i) ? 1 : 0;
        return count;
    }
    size_t input_of(const std::string &name) const { return static_cast<size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin()); }

    // The only dimension that all inputs of a call have, where others are without it.
    std::optional<size_t> only_dim(const ExpressionNode &node) const {
        if (node.kind != ExpressionNode::Call || nest_.dims.size() < 2) return {};
        std::optional<size_t> found;
        for (const std::string &name : node.inputs()) {
            size_t dims = 0, last = 0;
            for (size_t d = 0; d < nest_.dims.size(); d++)
                if (nest_.is_present(input_of(name), d)) dims++, last = d;
            if (dims != 1 || last > 1 || (found && *found != last)) return {};
            found = last;
        }
        return found;
    }
    ExpressionNode without_parts(const ExpressionNode &node) {
        if (const std::optional<size_t> dim = only_dim(node)) {
            for (const Part &part : parts_)
                if (part.node.text() == node.text()) return ExpressionNode::input(part.name);
            parts_.push_back({fmt::format("part {}", parts_.size()), node, *dim});
            return ExpressionNode::input(parts_.back().name);
        }
        ExpressionNode rest = node;
        for (ExpressionNode &argument : rest.arguments) argument = without_parts(argument);
        return rest;
    }
    // What an expression costs does not depend on the shape.
    static LaneCount count_of(const ExpressionNode &node) {
        std::map<std::string, Expr> values;
        for (const std::string &name : node.inputs()) values[name] = Internal::Variable::make(Halide::BFloat(16), name);
        return count_lane_operations(machine_expression(node, values));
    }

    int64_t largest() const { return nest_.dims.size() > 1 ? nest_.dims[1].extent : 1; }
    static int64_t round_down(int64_t n) { return n < lanes ? n : n < 4 * lanes ? n / lanes * lanes : n / (4 * lanes) * 4 * lanes; }
    // Blocks are so many rows, or multiples of it: a round of the pads, or a vector of numbers with one for each row.
    int64_t row_step(const Machine &machine) const { return !column_ ? 4 : machine.timed() ? lanes : 8; }

    // Elements of a row in one tile: all buffers must fit the pads with at least four rows (or one column of numbers) each.
    int64_t most_cols(const Machine &machine) const {
        const int64_t slots = machine.timed() ? 2 : 1, rows = row_step(machine);
        const int64_t vectors = machine.pad.count * machine.pad_rows() / (slots * rows * (operands() + 2));
        int64_t cols = longest_row;
        while (cols > lanes && cols / lanes > vectors) cols /= 2;
        return cols;
    }
    // The block parameter for about so many rows of 32.
    int64_t size_of(const Machine &machine, int64_t rows) const {
        const int64_t n = nest_.dims[0].extent;
        if (nest_.dims.size() == 1) return round_down(std::min(n, rows * lanes));
        const int64_t high = std::max<int64_t>(1, rows * lanes / round_up(std::min(n, most_cols(machine)), lanes));
        const int64_t step = row_step(machine);
        if (largest() < step) return largest();
        return std::min(largest() / step * step, std::max(step, high / step * step));
    }

    Tiling tiling(const Machine &machine, int64_t block) const {
        const int64_t pads = machine.pad.count;
        Tiling t;
        t.width = nest_.dims[0].extent;
        t.height = largest();
        if (nest_.dims.size() == 1) {
            t.cols = block;
            t.rows = 1;
        } else {
            const int64_t most = most_cols(machine);
            t.cols = t.width <= most ? t.width : std::max<int64_t>(lanes, most / 2);
            t.rows = std::min(block, t.height);
        }
        t.guarded = t.cols % lanes != 0;
        t.stored_cols = round_up(t.cols, lanes);
        if (nest_.dims.size() > 1 && t.stored_cols > 2 * lanes) t.stored_cols = round_up(t.cols, pads * lanes);
        t.blocks = ((t.width + t.cols - 1) / t.cols) * ((t.height + t.rows - 1) / t.rows);
        return t;
    }
    // ---- a long vector as pages of the DRAM: a block has a piece of two neighbours, which are in different bank groups

    static int64_t page_elements(const Machine &machine) { return machine.dram.row_bytes / 2; }
    bool has_pages(const Machine &machine, int64_t block) const {
        const int64_t page = page_elements(machine);
        return machine.timed() && parts_.empty() && nest_.dims.size() == 1 && block % (2 * 4 * lanes) == 0 && page % (block / 2) == 0 && nest_.dims[0].extent % (2 * page) == 0;
    }
    LoopNest pages_of(const Machine &machine, int64_t block) const {
        const int64_t page = page_elements(machine);
        LoopNest nest;
        for (int64_t extent : {block / 2, int64_t{2}, page / (block / 2), nest_.dims[0].extent / (2 * page)}) nest.dims.push_back({extent, nest_.dims[0].present});
        return nest;
    }
    static Tiling pages_tiling(const Machine &, int64_t block) {
        Tiling t;
        t.width = t.cols = t.stored_cols = block / 2;
        t.height = t.rows = 2;
        return t;
    }
    template <class Param> static void set_page_strides(Param param, const Machine &machine, const Tiling &t) {
        const int64_t page = page_elements(machine);
        param.dim(1).set_stride(static_cast<int>(page));
        param.dim(2).set_stride(static_cast<int>(t.cols));
        param.dim(3).set_stride(static_cast<int>(2 * page));
    }

    // Of the dimension that is divided among the pads (vectors of a row, or rows), what one of them gets; 0: it does not divide.
    int64_t part_of(const Tiling &t, int64_t pads) const {
        const int64_t all = nest_.dims.size() == 1 ? t.stored_cols / lanes : t.rows;
        return all % pads == 0 ? all / pads : 0;
    }
    bool fits(const Machine &machine, const Tiling &t) const {
        const int64_t slots = t.blocks > 1 && machine.timed() ? 2 : 1;
        const int64_t rows = round_up(t.rows * t.stored_cols / lanes, machine.pad.count) * slots;
        return rows * (operands() + 1) + 4 * small_operands() <= machine.pad.count * machine.pad_rows() &&
               rows <= 4 * most_buffer_rows;
    }

    ExpressionNode expression_, rest_;   // rest_: with parts in place of what they compute
    std::vector<std::string> names_;
    std::vector<Part> parts_;
    Shape result_;
    LoopNest nest_;
    bool column_ = false;   // an input has one element for each row
    LaneCount count_;
};

KernelDefinition PointwiseWorkload::build(const Machine &machine, const Point &point) const {
    const bool paged = point["parts"] == in_pages;
    const LoopNest nest = paged ? pages_of(machine, point["block"]) : nest_;
    const Tiling t = paged ? pages_tiling(machine, point["block"]) : tiling(machine, point["block"]);
    const size_t rank = nest.dims.size();
    const bool many = t.blocks > 1 || rank > 2;
    const auto size = [](int64_t n) { return static_cast<int>(n); };

    std::vector<Var> vars;
    for (size_t d = 0; d < rank; d++) vars.emplace_back(fmt::format("d{}_", d));
    Var n = vars[0], no("no"), ni("ni"), mo("mo"), mi("mi"), vu("v_unroll"), mu("m_unroll"), pu("p_unroll"), lane("lane");
    Func out("result"), y("y");

    // ---- algorithm
    KernelDefinition kernel;
    std::map<std::string, Expr> values;
    std::vector<Func> staged;
    std::vector<ImageParam> tensors;
    const std::vector<std::string> used = rest_.inputs();
    for (size_t i = 0; i < names_.size(); i++) {
        std::vector<int64_t> extents = nest.extents_of(i);
        if (extents.empty()) extents = {1};
        ImageParam tensor = vocabulary::tensor("in_" + names_[i], extents);
        if (paged && !nest.is_single(i)) set_page_strides(tensor, machine, t);
        tensors.push_back(tensor);
        kernel.arguments.push_back(tensor);
        kernel.inputs.push_back({names_[i], extents});
        if (std::find(used.begin(), used.end(), names_[i]) == used.end()) {
            staged.emplace_back();
            continue;
        }
        Func rows(names_[i] + "_rows");
        if (nest.is_single(i)) {
            rows(lane) = select(lane < 1, tensor(min(lane, 0)), undef<BFloat>());
            values[names_[i]] = rows(0);
        } else {
            std::vector<Var> own;
            std::vector<Expr> index;
            for (size_t d = 0; d < rank; d++)
                if (nest.is_present(i, d)) {
                    own.push_back(vars[d]);
                    index.emplace_back(vars[d]);
                }
            const std::vector<Expr> use = index;
            // The innermost dimension's rows may end inside a vector.
            const int64_t inner = extents[0];
            if (nest.is_present(i, 0) && t.guarded) {
                index[0] = min(index[0], size(inner) - 1);
                rows(own) = select(own[0] < size(inner), tensor(index), undef<BFloat>());
            } else {
                rows(own) = tensor(index);
            }
            values[names_[i]] = rows(use);
        }
        staged.push_back(rows);
    }
    std::vector<std::pair<std::vector<Func>, const Part *>> computed;   // the inputs of a part, then the part
    for (const Part &part : parts_) {
        const Var v = vars[part.dim];
        const int extent = size(nest_.dims[part.dim].extent);
        std::map<std::string, Expr> own;
        std::vector<Func> funcs;
        for (const std::string &name : part.node.inputs()) {
            Func rows(fmt::format("{}_{}_rows", name, computed.size()));
            rows(v) = select(v < extent, tensors[input_of(name)](min(v, extent - 1)), undef<BFloat>());
            own[name] = rows(v);
            funcs.push_back(rows);
        }
        Func values_of_part(fmt::format("part_{}", computed.size()));
        values_of_part(v) = Internal::common_subexpression_elimination(machine_expression(part.node, own), true);
        values[part.name] = values_of_part(v);
        funcs.push_back(values_of_part);
        computed.emplace_back(std::move(funcs), &part);
    }
    // Parts that are used several times are named, or Halide would walk through each use.
    y(vars) = Internal::common_subexpression_elimination(machine_expression(rest_, values), true);
    out(vars) = y(vars);

    // ---- schedule
    for (size_t d = 0; d < rank; d++) out.bound(vars[d], 0, size(nest.dims[d].extent));
    out.split(n, no, ni, size(t.cols), TailStrategy::ShiftInwards);
    std::vector<VarOrRVar> order = {ni};
    Var tile = no;
    if (rank > 1) {
        out.split(vars[1], mo, mi, size(t.rows), TailStrategy::ShiftInwards);
        order.insert(order.end(), {mi, mo, no});
        tile = mo;
        for (size_t d = 2; d < rank; d++) order.emplace_back(vars[d]);
        out.reorder(order);
    }
    y.compute_at(out, tile).bound_extent(n, size(t.stored_cols)).vectorize(n, size(lanes));
    const int64_t vectors = t.stored_cols / lanes, unroll = point["unroll"];
    const auto largest_divisor = [](int64_t of, int64_t most) {
        while (of % most != 0) most--;
        return most;
    };
    // Straight-line code goes round all pads, so that the pad of each access is known.
    int64_t across = 1, down = 1;
    if (column_) {
        down = t.rows % lanes == 0 ? lanes : t.rows;
    } else {
        across = largest_divisor(vectors, std::min(vectors, unroll));
        if (rank > 1) down = largest_divisor(t.rows, std::min(t.rows, std::max<int64_t>(1, unroll / across)));
    }
    const int64_t pads = point["pads"], share = paged ? vectors * 2 / pads : point["parts"] > 0 ? part_of(t, pads) : 0;
    if (paged) {
        const int64_t together = largest_divisor(share, std::clamp<int64_t>(unroll / pads, 1, share));
        y.rename(vars[1], mu);
        if (pads > 2) y.split(n, pu, n, size(share)).split(n, n, vu, size(together)).reorder(vu, pu, mu, n);
        else y.split(n, n, vu, size(together)).reorder(vu, mu, n);
        across = together * pads / 2;
        down = 2;
    } else if (share > 0) {
        // Straight-line code takes as much from each share.
        const Var each = rank == 1 ? n : vars[1];
        const int64_t together = rank == 1 ? largest_divisor(share, std::clamp<int64_t>(unroll / pads, 1, share))
                                           : largest_divisor(share, std::clamp<int64_t>(unroll / (pads * across), 1, share));
        y.split(each, pu, each, size(share));
        if (rank > 1 && across > 1) y.split(n, n, vu, size(across));
        if (together > 1) y.split(each, each, mu, size(together));
        std::vector<VarOrRVar> inner;
        if (rank > 1 && across > 1) inner.emplace_back(vu);
        if (rank > 1) inner.emplace_back(n);
        if (together > 1) inner.emplace_back(mu);
        inner.emplace_back(pu);
        inner.emplace_back(each);
        y.reorder(inner);
        across = rank == 1 ? pads * together : across;
        down = rank == 1 ? 1 : pads * together;
    } else {
        if (across > 1) y.split(n, n, vu, size(across));
        if (down > 1) {
            y.split(vars[1], vars[1], mu, size(down));
            y.reorder(n, mu, vars[1]);
        }
    }
    // Two slots where transfers can run beside a loop that computes.
    const bool ring = many && machine.timed() && vectors * t.rows > across * down;
    if (ring) y.hoist_storage_root().ring_buffer(2);
    in_pads({y});
    for (const auto &[funcs, part] : computed) {
        const Var v = vars[part->dim];
        const bool by_tile = part->dim == 0 ? t.width > t.cols : t.rows < t.height;
        const int64_t extent = round_up(part->dim == 0 ? t.stored_cols : t.rows, lanes);
        for (Func f : funcs) {
            if (by_tile) f.compute_at(out, part->dim == 0 ? no : tile).bound_extent(v, size(extent));
            else f.compute_root().bound(v, 0, size(extent));
            in_pads({f});
        }
        Func last = funcs.back();
        last.vectorize(v, size(lanes));
    }
    for (size_t i = 0; i < names_.size(); i++) {
        Func rows = staged[i];
        if (!rows.defined()) continue;
        if (nest.is_single(i)) {
            rows.compute_root().bound(lane, 0, size(lanes));
        } else {
            // Where nothing it depends on changes further in, it stays.
            size_t level = rank;   // the loop over this dimension
            if (nest.is_present(i, 0) && t.width > t.cols) level = 0;
            for (size_t d = rank; d-- > 2;)
                if (nest.is_present(i, d)) level = std::min(level, d);
            const bool follows_rows = rank > 1 && nest.is_present(i, 1);
            const bool in_tile = rank == 1 || (follows_rows && t.rows < t.height);
            // Loops from outside: dimensions rank-1 .. 2, blocks of columns, blocks of rows.
            Var at = tile;
            bool root = false;
            if (!in_tile) {
                if (nest.is_present(i, 0) && t.width > t.cols) at = no;
                else if (level < rank && level >= 2) at = vars[level];
                else root = true;
            }
            if (root) rows.compute_root();
            else rows.compute_at(out, at);
            if (nest.is_present(i, 0)) rows.bound_extent(n, size(t.stored_cols));
            else rows.align_storage(rows.args().front(), size(lanes));
            if (!root && ring) rows.hoist_storage_root().ring_buffer(2);
        }
        in_pads({rows});
    }
    whole_loops(out);
    const int64_t rows_of_part = share * (rank == 1 || paged ? 1 : vectors);
    for (size_t i = 0; i < names_.size(); i++) {
        const bool whole = nest.is_present(i, 0) && (rank == 1 || nest.is_present(i, 1));
        kernel.layouts[names_[i] + "_rows"] = {size(pads), whole ? rows_of_part : 0};
    }
    kernel.layouts["y"] = {size(pads), rows_of_part};
    std::vector<int64_t> extents;
    for (const LoopNest::Dim &dim : nest.dims) extents.push_back(dim.extent);
    fix_shape(out.output_buffer(), extents);
    if (paged) set_page_strides(out.output_buffer(), machine, t);
    kernel.pipeline = Pipeline(out);
    kernel.outputs = {{"result", extents}};
    return kernel;
}

}  // namespace

std::unique_ptr<Workload> pointwise_workload(const WorkloadRequest &request, ExpressionNode expression) {
    std::vector<Shape> shapes;
    for (const WorkloadRequest::Tensor &tensor : request.tensors) shapes.push_back(tensor.shape);
    if (const Shape result = broadcast_shape(request.op, shapes); element_count(result) == 0) return constant_workload(request, result);
    return std::make_unique<PointwiseWorkload>(request, std::move(expression));
}

}  // namespace atalla
