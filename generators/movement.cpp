#include "generators/movement.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "generators/interleave.h"
#include "generators/movement_pieces.h"
#include "generators/transfer_cost.h"
#include "generators/transpose.h"
#include "generators/vocabulary.h"
#include "isa/error.h"
#include "isa/vectors.h"
#include "schedules/movement_bound.h"
#include "simulator/numerics.h"
#include "simulator/within_bf16.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// Dimensions of one element go, neighbours that continue each other on both sides become one. Innermost (in the result) first.
void simplify(MovedBox &box) {
    std::erase_if(box.dims, [](const MovedBox::Dim &dim) { return dim.extent == 1; });
    std::stable_sort(box.dims.begin(), box.dims.end(), [](const auto &a, const auto &b) { return a.to < b.to; });
    std::vector<MovedBox::Dim> merged;
    for (const MovedBox::Dim &dim : box.dims) {
        if (!merged.empty() && dim.to == merged.back().to * merged.back().extent &&
            dim.from == merged.back().from * merged.back().extent)
            merged.back().extent *= dim.extent;
        else
            merged.push_back(dim);
    }
    box.dims = std::move(merged);
}

const std::vector<int64_t> all_turns = {0, MovedPiece::of_run, 32, 64, 128};

class MovementWorkload : public PipelineWorkload {
public:
    MovementWorkload(const WorkloadRequest &request, const Shape &result, std::vector<MovedBox> boxes)
        : PipelineWorkload(request), boxes_(std::move(boxes)) {
        for (const WorkloadRequest::Tensor &tensor : request.tensors) {
            inputs_.push_back(tensor_spec(tensor.name, tensor.shape));
            if (inputs_.size() > 1) inputs_.back().name += std::string(1, static_cast<char>('a' + (inputs_.size() - 1) % 26));
        }
        set_result("result", result);
        std::erase_if(boxes_, [](const MovedBox &box) {
            return std::any_of(box.dims.begin(), box.dims.end(), [](const auto &dim) { return dim.extent == 0; });
        });
        for (MovedBox &box : boxes_) simplify(box);
    }

    Space space(const Machine &machine) const override {
        Space space;
        std::vector<int64_t> rows;
        for (int64_t n = 1; n <= 4096; n *= 2)
            if (n * 4 <= machine.pad.count * machine.pad_rows()) rows.push_back(n);
        space.parameter("rows", "rows of 32 elements that come and go together", rows)
            .choice("pads", "pads that a buffer goes round", {4, 2, 1})
            .choice(
                "turn",
                "rows that stay in a pad before the next pad's turn, 0: as the code generator finds best, 1: those of a run",
                all_turns);
        space.constraint("pads", {"pads"}, "There are as many pads.",
                         [count = machine.pad.count](const Point &point) { return point["pads"] <= count; });
        space.constraint("turns", {"rows", "pads", "turn"},
                         "The rows of a buffer, or most of them, are whole turns of several pads.",
                         [this, machine](const Point &point) {
                             return turns(pieces_of(boxes_, machine, point), point["turn"], point["pads"]);
                         });
        space.constraint(
            "distinct", {"rows", "pads", "turn"},
            "Rows and turns that make no other kernel than fewer rows, or than a turn in front of them, are left out.",
            [this, machine](const Point &point) { return is_first_of_kernel(machine, point); });
        space.constraint("room", {"rows", "turn"}, "The longest run of each piece fits the pads.",
                         [this, machine](const Point &point) {
                             int64_t all = 0;
                             for (const MovedPiece &piece : pieces_of(boxes_, machine, point))
                                 all += round_up(piece.planes.extent * piece.vectors(), machine.pad.count);
                             return all <= machine.pad.count * machine.pad_rows();
                         });
        return space;
    }
    std::string words(const Machine &machine, const Point &point) const override {
        return fmt::format("{} rows of 32 at a time, a buffer in {} pads{}, {} loop nests", point["rows"], point["pads"],
                           point["turn"] == MovedPiece::of_run ? ", a run at a turn"
                           : point["turn"] > 0                 ? fmt::format(", {} rows at a turn", point["turn"])
                                                               : "",
                           pieces_of(boxes_, machine, point).size());
    }
    KernelDefinition build(const Machine &machine, const Point &point) const override;

    std::vector<Reference> reference(const std::vector<TensorData> &inputs) const override {
        const std::vector<TensorData> moved = move(inputs);
        Reference reference;
        for (uint16_t half : moved[0]) {
            reference.values.push_back(bf16_float(half));
            reference.peaks.push_back(std::abs(reference.values.back()));
        }
        return {reference};
    }
    double tolerance_ulps() const override { return 0; }
    std::vector<TensorData> host_result(const Machine &, const std::vector<TensorData> &inputs) const override {
        return move(inputs);
    }
    // Fitted to all schedules of 38 kernels on ax01: copies of rows and of planes, parts, joined and padded images.
    double draft(const Machine &machine, const Point &point) const override {
        constexpr double start = 400, of_turn = 30, code_of_transfer = 40, longest_code = 40;
        double cycles = start;
        for (const MovedPiece &piece : pieces_of(boxes_, machine, point)) {
            // What repeats without being read again comes once.
            double loads = 1, results = 1;
            for (const MovedBox::Dim &dim : piece.loops) {
                results *= static_cast<double>(dim.extent);
                if (dim.from != 0) loads *= static_cast<double>(dim.extent);
            }
            double transfers = 0;
            const auto take = [&](bool result, double tiles) {
                const TransferCost cost = transfers_of_tile(machine, point, piece, result);
                cycles += tiles * cost.cycles();
                transfers += static_cast<double>(cost.transfers());
            };
            if (piece.box.input >= 0) take(false, loads);
            take(true, results);
            cycles += of_turn * results + code_of_transfer * std::min(longest_code, transfers);
        }
        return cycles;
    }

protected:
    KernelWork work(const Machine &machine) const override {
        KernelWork work;
        // Only what is moved is read, each element at least once.
        int64_t read = 0;
        for (const MovedBox &box : boxes_) {
            if (box.input < 0) continue;
            int64_t elements = 1;
            for (const MovedBox::Dim &dim : box.dims)
                if (dim.from != 0) elements *= dim.extent;
            read = std::max(read, int64_t{0}) + elements;
        }
        int64_t all = 0;
        for (const TensorSpec &tensor : inputs_) all += tensor.elements();
        work.bytes = 2 * (std::min(read, all) + outputs_[0].elements());
        work.reads = read > 0;
        // Beats that are filled in part cross the bus whole.
        if (machine.timed() && read <= all)
            work.bytes = std::max(work.bytes, machine.sdma.beat * least_moved_beats(machine, moved_runs()));
        return work;
    }

private:
    static bool turns(const std::vector<MovedPiece> &list, int64_t turn, int64_t pads) {
        if (turn == 0) return true;
        const auto in_turns = [&](const MovedPiece &piece) { return piece.takes_turns(turn, pads); };
        // A run at a turn is one way for all; of others, some rows may be left over.
        return pads > 1 &&
               (turn == MovedPiece::of_run ? std::ranges::all_of(list, in_turns) : std::ranges::any_of(list, in_turns));
    }
    // 0: as the code generator finds best.
    static int64_t turn_of(const MovedPiece &piece, int64_t turn, int64_t pads) {
        return turn > MovedPiece::of_run && !piece.takes_turns(turn, pads) ? 0 : piece.turn(turn);
    }
    bool is_first_of_kernel(const Machine &machine, const Point &point) const {
        const std::vector<MovedPiece> list = pieces_of(boxes_, machine, point);
        Point other = point;
        other.set("rows", point["rows"] / 2);
        if (point["rows"] > 1 && pieces_of(boxes_, machine, other) == list) return false;
        other.set("rows", point["rows"]);
        return std::none_of(all_turns.begin(), std::ranges::find(all_turns, point["turn"]), [&](int64_t turn) {
            const auto lies_alike = [&](const MovedPiece &piece) {
                return turn_of(piece, turn, point["pads"]) == turn_of(piece, point["turn"], point["pads"]);
            };
            other.set("turn", turn);
            return turns(list, turn, point["pads"]) && pieces_of(boxes_, machine, other) == list &&
                   std::ranges::all_of(list, lies_alike);
        });
    }

    // Of a tile that comes, or goes.
    static TransferCost transfers_of_tile(const Machine &machine, const Point &point, const MovedPiece &piece, bool result) {
        constexpr int64_t beat = 16;
        const auto step = [&](const MovedBox::Dim &dim) { return result ? dim.to : dim.from; };
        const int64_t pads = point["pads"], turn = std::max<int64_t>(1, turn_of(piece, point["turn"], pads)),
                      vectors = tiles_of(piece.length());
        TransferCost cost(machine, pads,
                          std::ranges::any_of(piece.loops, [&](const MovedBox::Dim &dim) { return step(dim) % beat != 0; }));
        int64_t at = 0;
        const auto move = [&](int64_t plane, int64_t row, int64_t vector) {
            cost.add(at++ / turn % pads,
                     (result ? piece.box.to : piece.box.from) + plane * step(piece.planes) + row * step(piece.rows) +
                         vector * lanes * (result ? 1 : piece.step),
                     std::min<int64_t>(lanes, piece.length() - vector * lanes));
        };
        for (int64_t plane = 0; plane < piece.planes.extent; plane++)
            for (int64_t outer = 0; outer < (piece.apart() ? vectors : piece.rows.extent); outer++)
                for (int64_t inner = 0; inner < piece.neighbours(); inner++)
                    piece.apart() ? move(plane, inner, outer) : move(plane, outer, inner);
        return cost;
    }

    std::vector<MovedRuns> moved_runs() const {
        std::vector<MovedRuns> list;
        for (const MovedBox &box : boxes_) {
            MovedRuns runs{1, box.from, box.to, {}, box.input < 0};
            for (const MovedBox::Dim &dim : box.dims) {
                const bool neighbours = &dim == &box.dims.front() && dim.to == 1 && (box.input < 0 || dim.from == 1);
                if (neighbours)
                    runs.run = dim.extent;
                else
                    runs.dims.push_back({dim.extent, dim.from, dim.to});
            }
            list.push_back(runs);
            if (box.behind == 0) continue;
            runs.constant = true;
            runs.run = box.behind;
            list.push_back(std::move(runs));
        }
        return list;
    }

    std::vector<TensorData> move(const std::vector<TensorData> &inputs) const {
        TensorData result(static_cast<size_t>(outputs_[0].elements()));
        for (const MovedBox &box : boxes_) {
            const uint16_t constant = bf16_truncate(bf16_round(static_cast<float>(within_bf16(box.constant))));
            int64_t count = 1;
            for (const MovedBox::Dim &dim : box.dims) count *= dim.extent;
            for (int64_t at = 0; at < count; at++) {
                int64_t rest = at, from = box.from, to = box.to;
                for (const MovedBox::Dim &dim : box.dims) {
                    from += rest % dim.extent * dim.from;
                    to += rest % dim.extent * dim.to;
                    rest /= dim.extent;
                }
                result[static_cast<size_t>(to)] =
                    box.input < 0 ? constant : inputs[static_cast<size_t>(box.input)][static_cast<size_t>(from)];
                if (box.behind > 0 && at % box.dims[0].extent == box.dims[0].extent - 1)
                    std::fill_n(result.begin() + to + 1, box.behind, constant);
            }
        }
        return {result};
    }

    std::vector<MovedBox> boxes_;
};

KernelDefinition MovementWorkload::build(const Machine &machine, const Point &point) const {
    KernelDefinition kernel;
    std::vector<ImageParam> params;
    for (const TensorSpec &tensor : inputs_) {
        params.push_back(vocabulary::tensor("in_" + tensor.name, {tensor.elements()}));
        kernel.add_input(tensor.name, params.back());
    }
    Var i("i"), a("a"), b("b"), v("v"), p("p"), unrolled("unrolled");
    Func out("result");
    out(i) = undef<BFloat>();
    const std::vector<MovedPiece> list = pieces_of(boxes_, machine, point);
    const bool whole = std::ranges::all_of(list, [](const MovedPiece &piece) {
        return piece.box.input < 0 || std::ranges::all_of(piece.loops, [](const MovedBox::Dim &dim) { return dim.from == 0; });
    });
    std::vector<Func> stages;
    std::vector<RDom> domains;
    for (const MovedPiece &piece : list) {
        // Where it repeats without being read again, the loops stay outside of the stage.
        // A transfer's rows follow each other in a pad: short runs are cut into vectors, and these lie apart.
        const bool apart = piece.apart();
        const int run = apart ? size(lanes) : size(piece.length()), cuts = apart ? size(piece.run / lanes) : 1;
        Region ranges = {Range(0, run), Range(0, size(piece.rows.extent)), Range(0, cuts), Range(0, size(piece.planes.extent))};
        const int first_loop = size(static_cast<int64_t>(ranges.size()));  // of those around a tile
        std::vector<MovedBox::Dim> loops = piece.loops;
        std::stable_sort(loops.begin(), loops.end(),
                         [](const auto &x, const auto &y) { return (x.from == 0) > (y.from == 0); });
        size_t repeats = 0;
        for (const MovedBox::Dim &dim : loops) {
            ranges.push_back(Range(0, size(dim.extent)));
            repeats += dim.from == 0;
        }
        ranges.push_back(Range(0, 1));
        const RDom r(ranges, fmt::format("r{}_", stages.size()));
        Func stage(fmt::format("rows_{}_", stages.size()));
        std::vector<Var> vars = {a, b};
        std::vector<Expr> used = {r[0], r[1]};
        Expr from = size(piece.box.from) + a * size(piece.step) + b * size(piece.rows.from),
             to = size(piece.box.to) + r[0] + r[1] * size(piece.rows.to);
        if (apart) {
            vars.push_back(v);
            used.emplace_back(r[2]);
            from += v * run;
            to += r[2] * run;
        }
        if (piece.planes.extent > 1) {
            vars.push_back(p);
            used.emplace_back(r[3]);
            from += p * size(piece.planes.from);
            to += r[3] * size(piece.planes.to);
        }
        for (size_t d = 0; d < loops.size(); d++) {
            const RVar loop = r[first_loop + static_cast<int>(d)];
            to += loop * size(loops[d].to);
            if (loops[d].from == 0) continue;
            vars.emplace_back(fmt::format("c{}_", d));
            used.emplace_back(loop);
            from += vars.back() * size(loops[d].from);
        }
        const Expr constant = bf16(static_cast<float>(bfloat16_t(static_cast<float>(within_bf16(piece.box.constant)))));
        if (piece.box.input < 0) {
            stage(vars) = constant;
            stage.vectorize(a, size(lanes));
            // Straight-line code goes round the pads.
            const int pads = size(machine.pad.count);
            if (piece.planes.extent > 1 && piece.planes.extent % pads == 0)
                stage.split(p, p, unrolled, pads).unroll(unrolled).reorder(a, b, unrolled, p);
            else if (!apart && tiles_of(piece.run) % pads == 0)
                stage.split(a, a, unrolled, pads).unroll(unrolled);
        } else {
            ImageParam &param = params[static_cast<size_t>(piece.box.input)];
            if (piece.behind > 0) {
                stage(vars) = constant;
                stage.vectorize(a, size(lanes));
            }
            if (piece.length() % lanes == 0 && piece.behind == 0)
                stage(vars) = param(from);
            else
                stage(vars) = select(a < size(piece.run),
                                     param(Internal::substitute(a.name(), min(a, size(piece.run) - 1), from)), undef<BFloat>());
        }
        out(to) = stage(used);
        stage.bound_extent(a, size(round_up(run, lanes)));
        stages.push_back(stage);
        domains.push_back(r);
        // What one transfer moves is in one pad, where the code for four takes longer than they do.
        const bool lone = piece.box.input >= 0 && repeats == loops.size() && list.size() > 1 && piece.planes.extent == 1 &&
                          piece.vectors() <= machine.sdma.max_rows &&
                          (piece.rows.extent == 1 || (piece.rows.to == piece.length() && piece.rows.from == piece.run));
        kernel.layouts[fmt::format("rows_{}_", stages.size() - 1)] = {lone ? 1 : size(point["pads"]),
                                                                      lone ? 0 : turn_of(piece, point["turn"], point["pads"])};
        // Pieces that all come whole do so before any leaves, since DRAM then seldom turns between reading and writing. Of
        // others the first loop that brings something else, or the one of one iteration that stands last.
        if (whole && piece.box.input >= 0)
            stage.compute_root();
        else
            stage.compute_at(out, RVar(r[first_loop + static_cast<int>(repeats)]));
        in_pads({stage});
    }
    out.bound(i, 0, size(outputs_[0].elements()));
    whole_loops(out);
    fix_shape(out.output_buffer(), {outputs_[0].elements()});
    kernel.pipeline = Pipeline(out);
    kernel.outputs = {{"result", {outputs_[0].elements()}}};
    return kernel;
}

}  // namespace

Shape row_major_strides(const Shape &shape) {
    Shape strides(shape.size());
    int64_t stride = 1;
    for (size_t d = shape.size(); d-- > 0; stride *= shape[d]) strides[d] = stride;
    return strides;
}

MovedBox moved_box(int input, const Shape &shape, int64_t from, const Shape &from_strides, int64_t to,
                   const Shape &to_strides) {
    MovedBox box;
    box.input = input;
    box.from = from;
    box.to = to;
    for (size_t d = 0; d < shape.size(); d++) box.dims.push_back({shape[d], from_strides[d], to_strides[d]});
    return box;
}

std::unique_ptr<Workload> constant_workload(const WorkloadRequest &request, const Shape &result, double value) {
    MovedBox box = moved_box(-1, result, 0, Shape(result.size(), 0), 0, row_major_strides(result));
    box.constant = value;
    return std::make_unique<MovementWorkload>(request, result, std::vector<MovedBox>{box});
}

namespace {

// Where nothing would go through the array a request that is `exact` is like any other: one text, a database's key, has its
// winners.
WorkloadRequest whatever_exact(WorkloadRequest request) {
    request.attributes.erase("exact");
    nlohmann::json text = nlohmann::json::parse(request.text);
    text.at("attributes").erase("exact");
    request.text = text.dump();
    return request;
}

}  // namespace

std::unique_ptr<Workload> movement_workload(const WorkloadRequest &request, const Shape &result, std::vector<MovedBox> boxes) {
    const auto moved = [&](const WorkloadRequest &by) { return std::make_unique<MovementWorkload>(by, result, boxes); };
    std::vector<MovedBox> simple = boxes;
    for (MovedBox &box : simple) simplify(box);
    const bool any = element_count(result) > 0 && !simple.empty() &&
                     std::ranges::all_of(simple, [](const MovedBox &box) { return box.behind == 0; });
    const bool turns = any && simple.size() == 1 && request.tensors.size() == 1 && !simple[0].dims.empty() &&
                       is_transpose(simple[0], element_count(request.tensors[0].shape));
    // Elements that are further apart come to their places in less time where blocks are turned.
    constexpr int64_t most_apart = 6;
    std::optional<Interleaving> rows = any ? interleaving_of(simple) : std::nullopt;
    if (rows && turns && rows->apart() > most_apart) rows.reset();
    if (!rows && !turns) return moved(whatever_exact(request));
    if (request.attributes.contains("exact") && request.flag("exact")) return moved(request);
    return rows ? interleaving_workload(request, result, *rows, moved(request))
                : transpose_workload(request, result, simple[0], moved(request));
}

}  // namespace atalla
