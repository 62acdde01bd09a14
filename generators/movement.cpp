#include "generators/movement.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "generators/interleave.h"
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

// Longer runs are cut into rows of this many elements where the pads have room.
constexpr int64_t longest_run = 1024;

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

// Of the parameter `turn`: a pad has one run in turn.
constexpr int64_t of_run = 1;
const std::vector<int64_t> all_turns = {0, of_run, 32, 64, 128};

// A piece of a box that one loop nest moves: `run` neighbouring elements, `rows` of them and `planes` of these at a time, the
// other loops around.
struct Piece {
    MovedBox box;  // where it begins; no dims
    int64_t run = 1;
    int64_t step = 0;    // from an element of a run to the next in the input; 0: all are one
    int64_t behind = 0;  // constants behind a run
    MovedBox::Dim rows = {1, 0, 0}, planes = {1, 0, 0};
    std::vector<MovedBox::Dim> loops;  // innermost first
    bool operator==(const Piece &) const = default;
    int64_t length() const { return run + behind; }                                    // of a run in the result
    int64_t vectors() const { return rows.extent * tiles_of(length()); }               // of a plane
    int64_t neighbours() const { return apart() ? rows.extent : tiles_of(length()); }  // that a loop of its own makes
    // The rows that a pad has in turn: all of a plane where there are several.
    int64_t turn(int64_t wanted) const { return planes.extent > 1 ? vectors() : wanted == of_run ? neighbours() : wanted; }
    // Are its rows whole turns of several pads?
    bool takes_turns(int64_t wanted, int64_t pads) const {
        return vectors() % (turn(wanted) * pads) == 0 && (neighbours() % turn(wanted) == 0 || turn(wanted) % neighbours() == 0);
    }
    bool apart() const {
        return (step == 1 || box.input < 0) && behind == 0 && run % lanes == 0 && run > lanes && run / lanes < lanes &&
               rows.extent > run / lanes;
    }
};

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
        space.constraint(
            "turns", {"rows", "pads", "turn"}, "The rows of a buffer, or most of them, are whole turns of several pads.",
            [this, machine](const Point &point) { return turns(pieces(machine, point), point["turn"], point["pads"]); });
        space.constraint(
            "distinct", {"rows", "pads", "turn"},
            "Rows and turns that make no other kernel than fewer rows, or than a turn in front of them, are left out.",
            [this, machine](const Point &point) { return is_first_of_kernel(machine, point); });
        space.constraint("room", {"rows", "turn"}, "The longest run of each piece fits the pads.",
                         [this, machine](const Point &point) {
                             int64_t all = 0;
                             for (const Piece &piece : pieces(machine, point))
                                 all += round_up(piece.planes.extent * piece.vectors(), machine.pad.count);
                             return all <= machine.pad.count * machine.pad_rows();
                         });
        return space;
    }
    std::string words(const Machine &machine, const Point &point) const override {
        return fmt::format("{} rows of 32 at a time, a buffer in {} pads{}, {} loop nests", point["rows"], point["pads"],
                           point["turn"] == of_run ? ", a run at a turn"
                           : point["turn"] > 0     ? fmt::format(", {} rows at a turn", point["turn"])
                                                   : "",
                           pieces(machine, point).size());
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
        for (const Piece &piece : pieces(machine, point)) {
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
    static bool turns(const std::vector<Piece> &list, int64_t turn, int64_t pads) {
        if (turn == 0) return true;
        const auto in_turns = [&](const Piece &piece) { return piece.takes_turns(turn, pads); };
        // A run at a turn is one way for all; of others, some rows may be left over.
        return pads > 1 && (turn == of_run ? std::ranges::all_of(list, in_turns) : std::ranges::any_of(list, in_turns));
    }
    // 0: as the code generator finds best.
    static int64_t turn_of(const Piece &piece, int64_t turn, int64_t pads) {
        return turn > of_run && !piece.takes_turns(turn, pads) ? 0 : piece.turn(turn);
    }
    bool is_first_of_kernel(const Machine &machine, const Point &point) const {
        const std::vector<Piece> list = pieces(machine, point);
        Point other = point;
        other.set("rows", point["rows"] / 2);
        if (point["rows"] > 1 && pieces(machine, other) == list) return false;
        other.set("rows", point["rows"]);
        return std::none_of(all_turns.begin(), std::ranges::find(all_turns, point["turn"]), [&](int64_t turn) {
            const auto lies_alike = [&](const Piece &piece) {
                return turn_of(piece, turn, point["pads"]) == turn_of(piece, point["turn"], point["pads"]);
            };
            other.set("turn", turn);
            return turns(list, turn, point["pads"]) && pieces(machine, other) == list && std::ranges::all_of(list, lies_alike);
        });
    }

    // Of a tile that comes, or goes.
    static TransferCost transfers_of_tile(const Machine &machine, const Point &point, const Piece &piece, bool result) {
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

    int64_t most_run(const Machine &machine) const {
        const int64_t rows =
            machine.pad.count * machine.pad_rows() / (8 * static_cast<int64_t>(std::max<size_t>(1, boxes_.size())));
        int64_t run = longest_run;
        while (run > lanes && run / lanes > rows) run /= 2;
        return run;
    }

    // Every loop bound is a constant: what is left over becomes a piece of its own.
    std::vector<Piece> pieces(const Machine &machine, const Point &point) const {
        const int64_t most = most_run(machine), vectors = point["rows"];
        const int64_t turn = point["turn"] > of_run ? point["turn"] * point["pads"] : 0;
        std::vector<Piece> list;
        for (const MovedBox &box : boxes_) {
            std::vector<MovedBox::Dim> dims = box.dims;
            int64_t run = 1;
            // Neighbours in the result that are none in the input are moved one by one.
            Piece start{box, 1, 0, 0, {}, {}, {}};
            start.box.dims.clear();
            if (!dims.empty() && dims[0].to == 1 && (box.input < 0 || dims[0].from == 1)) {
                run = dims[0].extent;
                start.step = dims[0].from;
                dims.erase(dims.begin());
            }
            const auto take = [&](int64_t length) {
                if (length == 0) return;
                start.run = length;
                append(list, start, dims, vectors, turn);
                start.box.from += length * start.step;
                start.box.to += length;
                run -= length;
            };
            const Cut cut = best_cut(start, run, dims);
            take(cut.head);
            if (run > most) {
                const int64_t count = run / most;
                std::vector<MovedBox::Dim> rows = dims;
                rows.insert(rows.begin(), {count, most * start.step, most});
                start.run = most;
                append(list, start, rows, vectors, turn);
                start.box.from += count * most * start.step;
                start.box.to += count * most;
                run %= most;
            }
            if (cut.tail) take(run / lanes * lanes);
            start.behind = run > 0 ? box.behind : 0;
            take(run);
            if (start.behind < box.behind) {
                start.box.input = -1;
                start.step = 0;
                take(box.behind);
            }
        }
        return list;
    }
    // Where a run of rows is cut: its first elements up to a beat on one side, and its last ones, which end inside a vector.
    struct Cut {
        int64_t head = 0;
        bool tail = false;
    };
    // A row of a transfer that begins inside a beat takes three beats instead of two, and vectors that are not all whole go one
    // at a time, where others of many rows share a transfer. Each piece has transfers to begin and to wait for. Where rows
    // are in different pages of the DRAM, each vector that they share transfers of opens these pages again.
    static Cut best_cut(const Piece &start, int64_t run, const std::vector<MovedBox::Dim> &dims) {
        constexpr int64_t beat = 16, cycles_of_piece = 150, cycles_of_transfer = 15, cycles_of_page = 24, page = 4096;
        if ((start.step == 0 && start.box.input >= 0) || run <= lanes) return {};
        int64_t rows = 1;
        bool from_beats = true, to_beats = true;
        const int64_t apart = dims.empty() ? 0 : std::min(dims[0].from, page) + std::min(dims[0].to, page);
        for (const MovedBox::Dim &dim : dims) {
            rows *= dim.extent;
            from_beats = from_beats && dim.from % beat == 0;
            to_beats = to_beats && dim.to % beat == 0;
        }
        const auto cycles = [&](const Cut &cut) {
            const auto row = [&](bool beats, int64_t at) { return beats && (at + cut.head) % beat == 0 ? 2 : 3; };
            const int64_t inner = run - cut.head, vectors = (cut.head > 0 ? 1 : 0) + (inner + lanes - 1) / lanes;
            const int64_t whole = cut.tail || inner % lanes == 0 ? 0 : rows * vectors * cycles_of_transfer,
                          pages = cut.tail && inner / lanes < lanes ? rows * (vectors - 1) * apart * cycles_of_page / page : 0;
            return pages + vectors * rows * (row(from_beats, start.box.from) + row(to_beats, start.box.to)) + whole +
                   cycles_of_piece * ((cut.head > 0 ? 1 : 0) + (cut.tail ? 1 : 0));
        };
        Cut best;
        for (const int64_t at : {int64_t{0}, start.box.to, start.box.to + beat, start.box.from, start.box.from + beat})
            for (const bool tail : {false, true}) {
                const Cut cut = {(lanes - at % lanes) % lanes, tail};
                if (tail && (run - cut.head) % lanes == 0) continue;
                if (cycles(cut) < cycles(best)) best = cut;
            }
        return best;
    }

    // The innermost dimension that fills a transfer, or the longest, of those that are read row by row, or of a constant,
    // becomes the rows of a tile. Where a run repeats and nothing else is read, a tile holds some of its copies. What is left
    // of whole turns of all pads, of so many vectors, is a piece of its own.
    static void append(std::vector<Piece> &list, Piece piece, std::vector<MovedBox::Dim> dims, int64_t vectors, int64_t turn) {
        const int64_t most = std::max<int64_t>(1, vectors / tiles_of(piece.length()));
        const bool once = piece.box.input >= 0 &&
                          std::any_of(dims.begin(), dims.end(), [](const MovedBox::Dim &dim) { return dim.from != 0; });
        size_t best = dims.size();
        for (size_t d = 0; d < dims.size(); d++) {
            if (dims[d].from == 0 && once) continue;
            if (best == dims.size() || std::min<int64_t>(dims[d].extent, lanes) > std::min<int64_t>(dims[best].extent, lanes))
                best = d;
        }
        if (best == dims.size()) {
            piece.loops = std::move(dims);
            list.push_back(std::move(piece));
            return;
        }
        const MovedBox::Dim rows = dims[best];
        dims.erase(dims.begin() + static_cast<ptrdiff_t>(best));
        in_tiles(piece, dims, rows, tile_of(rows.extent, most, turn / tiles_of(piece.length())),
                 [&](Piece part, std::vector<MovedBox::Dim> loops) {
                     part.rows = part.planes;
                     part.planes = {1, 0, 0};
                     // Several short planes, each in a pad: transfers of one walk through a page or two of the DRAM alone.
                     const auto next = std::find_if(loops.begin(), loops.end(),
                                                    [&](const MovedBox::Dim &dim) { return dim.from != 0 || !once; });
                     if (part.rows.extent < rows.extent || most / rows.extent < 2 || next == loops.end()) {
                         part.loops = std::move(loops);
                         list.push_back(std::move(part));
                         return;
                     }
                     const MovedBox::Dim planes = *next;
                     loops.erase(next);
                     in_tiles(part, loops, planes, tile_of(planes.extent, most / rows.extent, 0),
                              [&](Piece of_planes, std::vector<MovedBox::Dim> around) {
                                  of_planes.loops = std::move(around);
                                  list.push_back(std::move(of_planes));
                              });
                 });
    }
    // So many of `extent`, at most `most`: whole rounds of the pads, equally many each time where that takes half of them or
    // more.
    static int64_t tile_of(int64_t extent, int64_t most, int64_t turn) {
        constexpr int64_t round = 4;
        if (turn > 1 && extent <= most && extent > turn) return extent / turn * turn;
        if (extent <= most || most < round) return std::min(extent, most);
        for (int64_t tile = most / round * round; 2 * tile > most; tile -= round)
            if (extent % tile == 0) return tile;
        return most / round * round;
    }
    // A dimension in tiles, as the planes of a piece, and what is left over.
    template <class Take>
    static void in_tiles(Piece piece, std::vector<MovedBox::Dim> loops, const MovedBox::Dim &dim, int64_t tile,
                         const Take &take) {
        const int64_t whole = dim.extent / tile, rest = dim.extent % tile;
        piece.planes = {tile, dim.from, dim.to};
        std::vector<MovedBox::Dim> around = loops;
        if (whole > 1) around.insert(around.begin(), {whole, dim.from * tile, dim.to * tile});
        take(piece, around);
        if (rest == 0) return;
        piece.box.from += whole * tile * dim.from;
        piece.box.to += whole * tile * dim.to;
        piece.planes.extent = rest;
        take(piece, std::move(loops));
    }

    std::vector<MovedBox> boxes_;
};

KernelDefinition MovementWorkload::build(const Machine &machine, const Point &point) const {
    KernelDefinition kernel;
    std::vector<ImageParam> params;
    for (const TensorSpec &tensor : inputs_) {
        params.push_back(vocabulary::tensor("in_" + tensor.name, {tensor.elements()}));
        kernel.arguments.push_back(params.back());
        kernel.inputs.push_back({tensor.name, {tensor.elements()}});
    }
    Var i("i"), a("a"), b("b"), v("v"), p("p"), unrolled("unrolled");
    Func out("result");
    out(i) = undef<BFloat>();
    const std::vector<Piece> list = pieces(machine, point);
    const bool whole = std::ranges::all_of(list, [](const Piece &piece) {
        return piece.box.input < 0 || std::ranges::all_of(piece.loops, [](const MovedBox::Dim &dim) { return dim.from == 0; });
    });
    std::vector<Func> stages;
    std::vector<RDom> domains;
    for (const Piece &piece : list) {
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
