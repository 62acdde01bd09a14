// Pointwise kernels whose result is one run of rows, each of which meets a number.
#include <functional>
#include <optional>

#include <fmt/format.h>

#include "generators/pointwise_kernel.h"
#include "generators/vocabulary.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// The rows of a buffer: so many in each pad, of which some follow each other in memory before the next pads have theirs.
struct RowsInPads {
    JoinedRows run;
    RowTurn turn;
    int64_t pads, rows, together;
    int64_t numbers;    // after so many rows they begin anew
    Expr first_number;  // that of the first row

    int64_t vectors() const { return pads * run.vectors(rows); }
};

// What depends on a number for each row alone, for some rows: brought, computed, and spread over vectors of equal lanes, each
// behind that of the row before.
class NumbersOfRows {
public:
    // `rows` are spread, of which `there` have numbers, from `first` on; blocks have their own where `b` is defined.
    NumbersOfRows(std::string suffix, int64_t rows, int64_t there, Expr first, const std::optional<Var> &b)
        : suffix_(std::move(suffix)), rows_(rows), there_(there), first_(std::move(first)) {
        if (b) block_.push_back(*b);
    }

    Func bring(const std::string &name, const ImageParam &tensor) {
        if (const auto found = brought_.find(name); found != brought_.end()) return found->second;
        // Halide realizes Funcs in the order of their names: transfers of rows start in front.
        Func numbers("z_" + name + "_numbers" + suffix_);
        numbers(vars()) = elements_of(tensor, first_, k_, there_);
        numbers.bound_extent(k_, size(round_up(rows_, lanes)));
        return brought_[name] = numbers;
    }
    // `value`: of numbers that were brought.
    Func compute(const std::string &name, const Expr &value) {
        Func values(name + suffix_);
        values(vars()) = value;
        values.bound_extent(k_, size(round_up(rows_, lanes))).vectorize(k_, lanes);
        made_.push_back(values);
        return values;
    }
    void spread(const std::string &name, const Func &numbers) {
        Func vectors(numbers.name().substr(0, numbers.name().find('$')) + "_spread");
        const RDom r(0, size(std::min<int64_t>(rows_, lanes)), 0, size(tiles_of(rows_)), "number");
        const Expr row = r.x + r.y * lanes;
        vectors(with_block({lane_, q_})) = undef<BFloat>();
        vectors(with_block({lane_, row + 1})) = numbers(with_block({row}));
        vectors.bound(lane_, 0, lanes).update().vectorize(lane_, lanes).reorder(lane_, r.x, r.y).rename(r.x, RVar("n_unroll"));
        made_.push_back(vectors);
        spread_[name] = vectors;
    }

    // Those of a Func over the numbers.
    std::vector<Var> vars() const {
        std::vector<Var> all = {k_};
        all.insert(all.end(), block_.begin(), block_.end());
        return all;
    }
    Expr value(const Func &numbers) const { return numbers(with_block({k_})); }
    // What a vector of a row meets, whose first lanes, so many as are given, are those of the row before.
    std::map<std::string, Expr> values(const Var &lane, const Expr &row, const std::optional<Expr> &before) const {
        std::map<std::string, Expr> values;
        for (const auto &[name, vectors] : spread_) {
            const Expr at = vectors(with_block({lane, row + 1}));
            values[name] = before ? select(lane < *before, vectors(with_block({lane, row})), at) : at;
        }
        return values;
    }

    // At a loop over blocks, where their numbers come ahead; or in front of all.
    void place(const std::function<void(Func)> &place, bool ahead) const {
        for (Func func : made_) place(func);
        for (auto [name, func] : brought_) {
            place(func);
            if (ahead) func.hoist_storage_root().ring_buffer(2);
        }
    }

private:
    std::vector<Expr> with_block(std::vector<Expr> index) const {
        index.insert(index.end(), block_.begin(), block_.end());
        return index;
    }

    std::string suffix_;
    int64_t rows_, there_;
    Expr first_;
    std::vector<Var> block_;
    std::map<std::string, Func> brought_, spread_;
    std::vector<Func> made_;
    Var k_{"k"}, q_{"q"}, lane_{"lane"};
};

// A loop over the rows makes vectors of `y`, over a lane, the vector and `outer`.
void make_rows(Func y, const std::vector<Var> &outer, const RowsInPads &in, const NumbersOfRows &numbers,
               const std::function<Expr(const Expr &element, const std::map<std::string, Expr> &of_row)> &value) {
    const Var lane("lane"), v("v");
    const JoinedRows &run = in.run;
    const RowTurn &turn = in.turn;
    const RDom r(0, size(turn.vectors), 0, size(turn.rows), 0, size(in.pads), 0, size(turn.turns(in.rows)), "turn");
    const Expr row = (turn.parts == 1 ? Expr(r.w) : r.w / size(turn.parts)) * size(turn.rows) + r.y;
    const bool equal = turn.parts * turn.vectors == run.vectors_of_row(), whole = run.elements % lanes == 0;
    Expr behind = r.x;  // vectors, the one in which the row begins
    if (turn.parts > 1) {
        const Expr part = r.w % size(turn.parts) * size(turn.vectors);
        behind += equal ? part : min(part, size(run.vectors_of_row() - turn.vectors));
    }
    // A row's place among those together, and how many times as many are in front of these in its pad.
    const bool all = in.rows == in.together;
    const int64_t round = in.pads * in.together;
    const Expr place = all ? row : row % size(in.together), in_front = all ? Expr(0) : row / size(in.together),
               begin = place * size(run.elements);
    const Expr of_pad = whole && equal && all && turn.parts > 1 ? r.w * size(turn.vectors) + r.x : begin / lanes + behind,
               vector = in_front * size(run.vectors(round)) + r.z * size(run.vectors(in.together)) + of_pad;
    Expr number = in.first_number + in_front * size(round) + r.z * size(in.together) + place;
    if (in.pads * in.rows > in.numbers)
        number = in.numbers % round == 0 ? in_front % size(in.numbers / round) * size(round) + r.z * size(in.together) + place
                                         : place % size(in.numbers);
    std::vector<Expr> pure = {lane, v}, stored = {lane, vector};
    for (const Var &o : outer) {
        pure.emplace_back(o);
        stored.emplace_back(o);
    }
    y(pure) = undef<BFloat>();
    y(stored) = value(vector * lanes + lane,
                      numbers.values(lane, number, whole ? std::nullopt : std::optional(begin % lanes - behind * lanes)));
    y.bound(lane, 0, lanes).bound_extent(v, size(in.vectors()));
    y.update()
        .vectorize(lane, lanes)
        .reorder(lane, r.x, r.y, r.z, r.w)
        .rename(r.x, RVar("v_unroll"))
        .rename(r.y, RVar("r_unroll"))
        .rename(r.z, RVar("p_unroll"));
}

using Values = std::map<std::string, Expr>;

class JoinedRowsKernel : PointwiseKernel {
public:
    JoinedRowsKernel(const PointwiseAlgorithm &algorithm, const PointwiseBlocks &blocks, const Machine &machine,
                     const Point &point)
        : PointwiseKernel(algorithm, blocks, machine, point),
          block_(point["block"]),
          pads_(point["pads"]),
          rows_of_image_(blocks.run()),
          run_(rows_of_image_.in_blocks_of(block_)),
          turn_(RowTurn::of(run_, point["unroll"] / pads_)) {}

    KernelDefinition build() {
        for (size_t at = 0; at < algorithm_.names.size(); at++) add_operand(at);
        for (size_t at = 0; at < algorithm_.parts.size(); at++)
            if (is_of_all(at)) add_part_of_all(at);
        out_(n_, m_) = undef<BFloat>();
        if (run_.rows > run_.whole()) make_rest();
        make_blocks();
        out_.bound(n_, 0, size(run_.elements * run_.rows)).bound(m_, 0, size(run_.images));
        return finish(out_, {run_.elements * run_.rows, run_.images});
    }

private:
    bool is_number(size_t input) const { return !algorithm_.nest.is_present(input, 0); }
    bool is_of_all(size_t part) const { return algorithm_.parts[part].dim == PointwisePart::of_single_numbers; }

    void add_operand(size_t at) {
        const std::string &name = algorithm_.names[at];
        const bool single = algorithm_.nest.is_single(at);
        const ImageParam tensor = add_tensor(name, single          ? std::vector<int64_t>{1}
                                                   : is_number(at) ? std::vector{rows_of_image_.rows}
                                                                   : std::vector{run_.elements * run_.rows, run_.images});
        if (!is_read(name)) return;
        if (single)
            of_all_[name] = row_of(name + "_rows", tensor, 1)(0);
        else if (!is_number(at))
            whole_[name] = tensor;
    }

    void add_part_of_all(size_t at) {
        const PointwisePart &part = algorithm_.parts[at];
        Values inputs;
        for (const std::string &name : part.inputs)
            inputs[name] = row_of(fmt::format("{}_of_part_{}", name, at), tensor_of(name), 1)(element_);
        of_all_[part.name] = computed_row(fmt::format("part_{}", at), Internal::substitute(inputs, part.value), 1)(0);
    }

    // What is brought and what is computed of it.
    void make_numbers(NumbersOfRows &numbers) const {
        for (size_t at = 0; at < algorithm_.names.size(); at++) {
            const std::string &name = algorithm_.names[at];
            if (is_read(name) && !algorithm_.nest.is_single(at) && is_number(at))
                numbers.spread(name, numbers.bring(name, tensor_of(name)));
        }
        for (size_t at = 0; at < algorithm_.parts.size(); at++) {
            if (is_of_all(at)) continue;
            const PointwisePart &part = algorithm_.parts[at];
            Values inputs;
            for (const std::string &name : part.inputs) inputs[name] = numbers.value(numbers.bring(name, tensor_of(name)));
            numbers.spread(part.name, numbers.compute(fmt::format("part_{}", at), Internal::substitute(inputs, part.value)));
        }
    }

    // Of rows in the pads, at an element; `block`: the other indices of these.
    Expr result_of_row(const std::map<std::string, Func> &rows, const Expr &element, const std::vector<Var> &block,
                       const Values &of_row) const {
        std::vector<Expr> index(block.begin(), block.end());
        index.insert(index.begin(), element);
        Values values = of_all_;
        for (const auto &[name, func] : rows) values[name] = func(index);
        values.insert(of_row.begin(), of_row.end());
        return result_of(values);
    }

    static void at_root(Func func) {
        func.compute_root();
        in_pads({func});
    }

    // Rows that are no whole vectors together.
    void make_rest() {
        // With a row behind them, which makes the last one's last vector.
        const int64_t rest = run_.rows - run_.whole(), begin = run_.whole() * run_.elements, elements = rest * run_.elements,
                      made = rest + 1, stored = rest * run_.elements / lanes + run_.vectors_of_row();
        NumbersOfRows numbers("_rest", made, rest, size(run_.whole()), {});
        make_numbers(numbers);
        std::map<std::string, Func> rows;
        for (const auto &[name, tensor] : whole_) {
            Func of_rest(name + "_rest");
            of_rest(i_) = select(i_ < size(elements), tensor(size(begin) + min(i_, size(elements - 1)), 0), undef<BFloat>());
            of_rest.bound(i_, 0, size(stored * lanes));
            at_root(of_rest);
            rows[name] = of_rest;
        }
        Func y("y_of_rest");
        make_rows(y, {}, {run_, {1, turn_.parts, turn_.vectors}, 1, made, made, made, 0}, numbers,
                  [&](const Expr &element, const Values &of_row) { return result_of_row(rows, element, {}, of_row); });
        at_root(y);
        numbers.place(at_root, false);
        const RDom each(0, size(elements), "rest");
        out_(each.x + size(begin), m_) = y(each.x % lanes, each.x / lanes);
    }

    // The first row of a block. The last block begins earlier.
    Expr first_of(const Expr &at) const {
        return run_.whole() % block_ == 0 ? at * size(block_) : min(at * size(block_), size(run_.whole() - block_));
    }

    void make_blocks() {
        const int64_t count = ceil_div(run_.whole(), block_), of_block = rows_of_image_.numbers_of_block(block_),
                      together = run_.rows_together(machine_, pads_, block_);
        const bool own = rows_of_image_.has_own_numbers(block_);
        NumbersOfRows numbers("", of_block, of_block, own ? first_of(b_) : Expr(0), own ? std::optional(b_) : std::nullopt);
        make_numbers(numbers);
        std::map<std::string, Func> rows;
        std::vector<Func> moved;
        for (const auto &[name, tensor] : whole_) {
            Func of_block(name + "_rows");
            of_block(i_, b_, m_) = tensor(first_of(b_) * size(run_.elements) + i_, m_);
            of_block.bound_extent(i_, size(block_ * run_.elements));
            rows[name] = of_block;
            moved.push_back(of_block);
        }
        Func y("y");
        make_rows(y, {b_, m_},
                  {run_, turn_, pads_, block_ / pads_, together, of_block, own || count == 1 ? Expr(0) : first_of(b_)}, numbers,
                  [&](const Expr &element, const Values &of_row) {
                      return result_of_row(rows, element, {b_, m_}, of_row);
                  });
        moved.push_back(y);
        const RDom each(0, size(block_ * run_.elements), 0, size(count), 0, size(run_.images), "each");
        out_(first_of(each.y) * size(run_.elements) + each.x, each.z) = y(each.x % lanes, each.x / lanes, each.y, each.z);
        const auto at_block = [&](Func func) {
            func.compute_at(out_, count > 1 ? each.y : each.z);
            in_pads({func});
        };
        for (Func func : moved) {
            at_block(func);
            if (count * run_.images > 1) func.hoist_storage_root().ring_buffer(2);
            kernel_.lay_out(func, {size(pads_), run_.vectors(together)});
        }
        numbers.place(own ? std::function<void(Func)>(at_block) : at_root, own);
    }

    const int64_t block_, pads_;
    const JoinedRows &rows_of_image_;
    const JoinedRows run_;
    const RowTurn turn_;
    const Var i_{"i"}, b_{"b"}, m_{"m"}, n_{"n"};
    Func out_{"result"};
    Values of_all_;                            // of single numbers
    std::map<std::string, ImageParam> whole_;  // operands with rows
};

}  // namespace

KernelDefinition pointwise_of_rows(const PointwiseAlgorithm &algorithm, const PointwiseBlocks &blocks, const Machine &machine,
                                   const Point &point) {
    return JoinedRowsKernel(algorithm, blocks, machine, point).build();
}

}  // namespace atalla
