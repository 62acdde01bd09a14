// Pointwise kernels whose result is one run of rows, each of which meets a number.
#include <functional>

#include <fmt/format.h>

#include "generators/pointwise_workload.h"
#include "generators/vocabulary.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// The first `there` elements of a tensor from one on, with what is behind them in the last vector.
Expr elements_of(const ImageParam &tensor, const Expr &from, const Var &at, int64_t there) {
    return there % lanes == 0 ? Expr(tensor(from + at))
                              : select(at < size(there), tensor(from + min(at, size(there - 1))), undef<BFloat>());
}

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

}  // namespace

KernelDefinition PointwiseWorkload::build_of_rows(const Machine &machine, const Point &point) const {
    const int64_t block = point["block"], pads = point["pads"];
    const JoinedRows &rows_of_image = blocks_.run(), run = rows_of_image.in_blocks_of(block);
    const int64_t count = ceil_div(run.whole(), block), rest = run.rows - run.whole();
    const RowTurn turn = RowTurn::of(run, point["unroll"] / pads);
    const Var i("i"), b("b"), m("m"), n("n"), k("k");
    KernelDefinition kernel;
    std::vector<ImageParam> tensors;
    std::map<std::string, Expr> of_all;  // values of single numbers
    std::map<std::string, ImageParam> whole;
    const std::set<std::string> used = inputs_of(rest_);
    const auto single_number = [&](const std::string &name, const ImageParam &tensor) {
        Func row(name);
        row(k) = elements_of(tensor, 0, k, 1);
        row.compute_root().bound(k, 0, lanes);
        in_pads({row});
        return row;
    };
    for (size_t at = 0; at < names_.size(); at++) {
        const bool single = nest_.is_single(at), number = !nest_.is_present(at, 0);
        const std::vector<int64_t> extents = single   ? std::vector<int64_t>{1}
                                             : number ? std::vector{rows_of_image.rows}
                                                      : std::vector{run.elements * run.rows, run.images};
        const ImageParam tensor = vocabulary::tensor("in_" + names_[at], extents);
        tensors.push_back(tensor);
        kernel.add_input(names_[at], tensor);
        if (!used.count(names_[at])) continue;
        if (single)
            of_all[names_[at]] = single_number(names_[at] + "_rows", tensor)(0);
        else if (!number)
            whole[names_[at]] = tensor;
    }
    for (size_t at = 0; at < parts_.size(); at++) {
        if (parts_[at].dim != PointwisePart::of_single_numbers) continue;
        std::map<std::string, Expr> inputs;
        for (const std::string &name : parts_[at].inputs)
            inputs[name] = single_number(fmt::format("{}_of_part_{}", name, at), tensors[input_of(name)])(k);
        Func values(fmt::format("part_{}", at));
        values(k) = Internal::substitute(inputs, parts_[at].value);
        values.compute_root().bound(k, 0, lanes).vectorize(k, lanes);
        in_pads({values});
        of_all[parts_[at].name] = values(0);
    }
    const auto make_numbers = [&](NumbersOfRows &numbers) {
        for (size_t at = 0; at < names_.size(); at++)
            if (used.count(names_[at]) && !nest_.is_single(at) && !nest_.is_present(at, 0))
                numbers.spread(names_[at], numbers.bring(names_[at], tensors[at]));
        for (size_t at = 0; at < parts_.size(); at++) {
            if (parts_[at].dim == PointwisePart::of_single_numbers) continue;
            std::map<std::string, Expr> inputs;
            for (const std::string &name : parts_[at].inputs)
                inputs[name] = numbers.value(numbers.bring(name, tensors[input_of(name)]));
            numbers.spread(parts_[at].name,
                           numbers.compute(fmt::format("part_{}", at), Internal::substitute(inputs, parts_[at].value)));
        }
    };
    const auto value_of = [&](const std::map<std::string, Expr> &elements, const std::map<std::string, Expr> &of_row) {
        std::map<std::string, Expr> values = of_all;
        values.insert(elements.begin(), elements.end());
        values.insert(of_row.begin(), of_row.end());
        return Internal::common_subexpression_elimination(Internal::substitute(values, rest_), true);
    };
    const auto at_root = [](Func func) {
        func.compute_root();
        in_pads({func});
    };

    Func out("result");
    out(n, m) = undef<BFloat>();
    if (rest > 0) {
        // With a row behind them, which makes the last one's last vector.
        const int64_t begin = run.whole() * run.elements, elements = rest * run.elements, made = rest + 1,
                      stored = rest * run.elements / lanes + run.vectors_of_row();
        NumbersOfRows numbers("_rest", made, rest, size(run.whole()), {});
        make_numbers(numbers);
        std::map<std::string, Func> rows;
        for (const auto &[name, tensor] : whole) {
            Func of_rest(name + "_rest");
            of_rest(i) = select(i < size(elements), tensor(size(begin) + min(i, size(elements - 1)), 0), undef<BFloat>());
            of_rest.bound(i, 0, size(stored * lanes));
            at_root(of_rest);
            rows[name] = of_rest;
        }
        Func y("y_of_rest");
        make_rows(y, {}, {run, {1, turn.parts, turn.vectors}, 1, made, made, made, 0}, numbers,
                  [&](const Expr &element, const std::map<std::string, Expr> &of_row) {
                      std::map<std::string, Expr> elements_of_row;
                      for (const auto &[name, func] : rows) elements_of_row[name] = func(element);
                      return value_of(elements_of_row, of_row);
                  });
        at_root(y);
        numbers.place(at_root, false);
        const RDom each(0, size(elements), "rest");
        out(each.x + size(begin), m) = y(each.x % lanes, each.x / lanes);
    }
    // The last block begins earlier.
    const auto first_of = [&](const Expr &at) {
        return run.whole() % block == 0 ? at * size(block) : min(at * size(block), size(run.whole() - block));
    };
    const bool own = rows_of_image.has_own_numbers(block);
    const int64_t of_block = rows_of_image.numbers_of_block(block), together = run.rows_together(machine, pads, block);
    NumbersOfRows numbers("", of_block, of_block, own ? first_of(b) : Expr(0), own ? std::optional(b) : std::nullopt);
    make_numbers(numbers);
    std::map<std::string, Func> rows;
    std::vector<Func> moved;
    for (const auto &[name, tensor] : whole) {
        Func of_block(name + "_rows");
        of_block(i, b, m) = tensor(first_of(b) * size(run.elements) + i, m);
        of_block.bound_extent(i, size(block * run.elements));
        rows[name] = of_block;
        moved.push_back(of_block);
    }
    Func y("y");
    make_rows(y, {b, m}, {run, turn, pads, block / pads, together, of_block, own || count == 1 ? Expr(0) : first_of(b)},
              numbers, [&](const Expr &element, const std::map<std::string, Expr> &of_row) {
                  std::map<std::string, Expr> elements_of_row;
                  for (const auto &[name, func] : rows) elements_of_row[name] = func(element, b, m);
                  return value_of(elements_of_row, of_row);
              });
    moved.push_back(y);
    const RDom each(0, size(block * run.elements), 0, size(count), 0, size(run.images), "each");
    out(first_of(each.y) * size(run.elements) + each.x, each.z) = y(each.x % lanes, each.x / lanes, each.y, each.z);
    const auto at_block = [&](Func func) {
        func.compute_at(out, count > 1 ? each.y : each.z);
        in_pads({func});
    };
    for (Func func : moved) {
        at_block(func);
        if (count * run.images > 1) func.hoist_storage_root().ring_buffer(2);
        kernel.lay_out(func, {size(pads), run.vectors(together)});
    }
    numbers.place(own ? std::function<void(Func)>(at_block) : at_root, own);
    out.bound(n, 0, size(run.elements * run.rows)).bound(m, 0, size(run.images));
    whole_loops(out);
    fix_shape(out.output_buffer(), {run.elements * run.rows, run.images});
    kernel.pipeline = Pipeline(out);
    kernel.outputs = {{"result", {run.elements * run.rows, run.images}}};
    return kernel;
}

}  // namespace atalla
