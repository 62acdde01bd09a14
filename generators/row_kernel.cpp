#include "generators/row_kernel.h"

#include <algorithm>
#include <numeric>

#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// Running extrema of a row.
constexpr int most_sides = 4;

}  // namespace

RowKernel::RowKernel(const RowShape &shape, const Machine &machine, const Point &point, std::string name, std::string prefix)
    : machine_(machine),
      rows_(static_cast<int>(shape.rows)),
      length_(static_cast<int>(shape.length)),
      vectors_(static_cast<int>(shape.vectors())),
      block_(static_cast<int>(std::min(point["rows"], shape.rows))),
      row_unroll_(static_cast<int>(point["row_unroll"])),
      vector_unroll_(static_cast<int>(point["vector_unroll"])),
      reduced_(point["reduced"] != 0),
      stored_(point["stored"] != 0),
      grouped_(point["grouped"] != 0),
      skewed_(is_skewed(point)),
      apart_(rows_apart(shape, machine, point)),
      streams_(point.contains("skewed") && rows_stream(shape, machine, point)),
      columns_(!is_skewed(point) && (!is_beside(point) || numbers_spread(shape, point)) && rows_in_columns(shape, machine)),
      spare_(point.contains("skewed") ? static_cast<int>(spare_rows(shape, machine, point)) : 0),
      beside_(is_beside(point) ? static_cast<int>(rows_beside(shape, point)) : 0),
      spread_(numbers_spread(shape, point)),
      neighbours_(streams_ ? static_cast<int>(neighbours_of(shape, machine, point)) : 0),
      parts_(static_cast<int>(shape.parts())),
      part_(static_cast<int>(shape.part)),
      prefix_(std::move(prefix)),
      out_(std::move(name)) {
    ones_(k_, w_) = bf16(1.0f);
}

Expr RowKernel::row_of_tensor(const Expr &row) const {
    const int pads = static_cast<int>(machine_.pad.count), together = neighbours_;
    if (together == 0) return row;
    const int of_pad = rows_ / pads;
    return (row % of_pad / together * pads + row / of_pad) * together + row % together;
}

Expr RowKernel::row_in_pads(const Expr &row) const {
    const int pads = static_cast<int>(machine_.pad.count), together = neighbours_;
    if (together == 0) return row;
    return row / together % pads * (rows_ / pads) + row / (pads * together) * together + row % together;
}

Func RowKernel::by_element(const std::string &name, const Func &columns) const {
    Func elements(name);
    elements(n, m) = columns(n % lanes, m, n / lanes);
    return elements;
}

Func RowKernel::rows_of(const std::string &name, std::optional<float> beyond) {
    Input input{tensor(prefix_ + name, {length_, rows_}), Func(prefix_ + name + "_rows"), false, pass(), {}};
    for (const Input &before : inputs_) {
        if (before.param.name() != input.param.name()) continue;
        if (before.pass == input.pass) return before.elements;
        input.param = before.param;
        input.rows = Func(prefix_ + name + "_again_" + static_cast<char>('a' + input.pass));
    }
    if (columns_) {
        input.rows = Func(prefix_ + name + "_columns");
        const Expr at = v_ * lanes + k_;
        if (beyond) input.rows(k_, m, v_) = bf16(*beyond);
        input.rows(k_, m, v_) = select(at < length_, input.param(min(at, length_ - 1), m), undef<BFloat>());
        input.elements = by_element(prefix_ + name + "_rows", input.rows);
    } else {
        if (whole_vectors()) {
            input.rows(n, m) = input.param(n, row_of_tensor(m));
        } else {
            if (beyond) input.rows(n, m) = bf16(*beyond);
            input.rows(n, m) = select(n < length_, input.param(min(n, length_ - 1), m), undef<BFloat>());
        }
        input.elements = input.rows;
    }
    inputs_.push_back(input);
    return input.elements;
}

Func RowKernel::row_of(const std::string &name) {
    Input input{tensor(prefix_ + name, {length_}), Func(prefix_ + name + "_row"), true, 0, {}};
    input.rows(n) =
        whole_vectors() ? Expr(input.param(n)) : select(n < length_, input.param(min(n, length_ - 1)), undef<BFloat>());
    inputs_.push_back(input);
    return input.rows;
}

void RowKernel::each(Func step) {
    if (!in_parts()) each_.push_back(std::move(step));
}
void RowKernel::each_light(Func step) {
    if (!makes_again()) each(std::move(step));
}
void RowKernel::single(Func step) { single_.push_back(std::move(step)); }
void RowKernel::each_before(Func step) {
    if (beside_ > 0) before_.push_back(std::move(step));
}

Expr RowKernel::in_lanes(const std::string &name, Func number, const std::function<Expr(const Expr &)> &made) {
    numbers_ = Func(name + "_numbers");
    made_ = Func(name);
    const Var l("l"), b("b");
    if (beside_ == 0) {
        numbers_(l, m) = bf16(number(m));
        made_(l, m) = made(numbers_(l, m));
        lanes_of(numbers_, l);
        lanes_of(made_, l);
        return made_(n % lanes, m);
    }
    rows_beside_ = RDom(0, beside_, name + "_rows");
    Expr of_row = bf16(number(b * beside_ + rows_beside_));
    if (spread_) {
        numbers_of_rows_ = Func(name + "_number");
        numbers_of_rows_(l, m) = bf16(number(m));
        of_row = numbers_of_rows_(l, b * beside_ + rows_beside_);
    }
    numbers_(l, b) = bf16(1.0f);
    numbers_(l, b) = select(l == rows_beside_, of_row, numbers_(l, b));
    made_(l, b) = made(numbers_(l, b));
    if (!spread_) return made_(m % beside_, m / beside_);
    spread_made_ = Func(name + "_spread");
    spread_made_(l, m) = made_(m % beside_, m / beside_);
    return spread_made_(n % lanes, m);
}
void RowKernel::lanes_of(Func step, Var lane) { lanes_.emplace_back(std::move(step), std::move(lane)); }

// 32 vectors (or fewer, and zeros) are the weights of the array, through which one row of ones goes: lane w is the sum of
// vector w.
Func RowKernel::grouped_sum(const std::string &name, Func values) {
    const int tiles = parts_, members = vectors_ / tiles;
    Sum s{Func(name + "_part"),
          Func(name + "_block"),
          Func(name),
          Var("l"),
          RDom(0, lanes, name + "_q"),
          RDom(0, tiles, name + "_r"),
          Func(name + "_weights"),
          Func(name + "_group"),
          RDom(0, lanes, name + "_g"),
          values,
          pass()};
    const Var t("t");
    const Expr vector = t * members + (members == lanes ? Expr(w_) : min(w_, members - 1)),
               element = values(vector * lanes + k_, m);
    s.weights(k_, w_, m, t) = members == lanes ? element : select(w_ < members, element, bf16(0.0f));
    s.part(s.lane, m, t) = 0.0f;
    s.part(s.lane, m, t) += f32(s.weights(s.depth, s.lane, m, t));
    s.block(s.lane, m, t) = bf16(s.part(s.lane, m, t));
    s.group(m, t) = 0.0f;
    s.group(m, t) += f32(s.block(s.members, m, t));
    s.total(m) = -0.0f;
    s.total(m) = strict_float(s.total(m) + f32(bf16(s.group(m, s.blocks))));
    sums_.push_back(s);
    return s.total;
}

Func RowKernel::sum(const std::string &name, Func values) {
    if (grouped_) return grouped_sum(name, values);
    Sum s{Func(name + "_part"),
          Func(name + "_block"),
          Func(name),
          Var("l"),
          RDom(0, lanes, name + "_q"),
          RDom(0, vectors_, name + "_r"),
          {},
          {},
          {},
          values,
          pass()};
    Var b("b");
    const Expr value = f32(values(b * lanes + s.depth, m));
    s.total(m) = -0.0f;
    if (parts_ > 0) {
        // As grouped_sum(), with the vectors of a part one after the other.
        s.blocks = RDom(0, parts_, name + "_r");
        s.members = RDom(0, vectors_ / parts_, name + "_g");
        s.group = Func(name + "_group");
        const Var t("t");
        s.part(s.lane, m, b) = 0.0f;
        s.part(s.lane, m, b) += value * f32(ones_(s.depth, s.lane));
        s.block(s.lane, m, b) = bf16(s.part(s.lane, m, b));
        s.group(m, t) = 0.0f;
        s.group(m, t) = strict_float(s.group(m, t) + f32(s.block(0, m, t * (vectors_ / parts_) + s.members)));
        s.total(m) = strict_float(s.total(m) + f32(bf16(s.group(m, s.blocks))));
    } else if (reduced_) {
        s.part(m, b) = 0.0f;
        s.part(m, b) += value;
        s.block(m, b) = bf16(s.part(m, b));
        s.total(m) = strict_float(s.total(m) + f32(s.block(m, s.blocks)));
    } else {
        s.part(s.lane, m, b) = 0.0f;
        s.part(s.lane, m, b) += value * f32(ones_(s.depth, s.lane));
        s.block(s.lane, m, b) = bf16(s.part(s.lane, m, b));
        s.total(m) = strict_float(s.total(m) + f32(s.block(0, m, s.blocks)));
    }
    sums_.push_back(s);
    return s.total;
}

Func RowKernel::largest(const std::string &name, Func values) {
    // Running maxima side by side: one alone would wait for itself, and so would each of four in a loop over eight vectors.
    constexpr int most_in_loop = 2 * most_sides;
    const int in_loop = vectors_ % most_in_loop == 0 && vector_unroll_ % most_in_loop == 0 ? most_in_loop
                        : vectors_ % most_sides == 0                                       ? most_sides
                                                                                           : 1;
    const int most = in_parts()   ? std::gcd(most_sides, vector_unroll_)
                     : skewed_    ? std::gcd(most_sides, vector_unroll_ / parts_in_turn())
                     : unrolled() ? std::min(most_sides, (vectors_ + 1) / 2)
                                  : in_loop;
    const int sides = std::max(1, most), steps = (vectors_ + sides - 1) / sides, first = skewed_ || in_parts() ? 0 : 1;
    Extremum x{Func(name + "_lanes"),
               Func(name),
               Var("l"),
               Var("side"),
               steps > first ? RDom(first, steps - first, name + "_r") : RDom(),
               RDom(0, lanes, name + "_q"),
               sides,
               pass()};
    const int at_once = skewed_ ? vector_unroll_ / parts_in_turn() / sides : 0;
    if (skewed_) x.rest = RDom({{0, at_once}, {0, parts_in_turn()}, {0, vectors_ / vector_unroll_}}, name + "_alike");
    if (in_parts()) x.rest = RDom(0, part_ / sides, 0, parts_, name + "_alike");
    // A pass that is one loop with others takes all vectors of the row as they do.
    x.lanes(x.lane, x.side, m) = first == 0 ? bf16(-infinity) : values(x.side * lanes + x.lane, m);
    if (steps > first) {
        // The last vector once more where there are too few.
        const Expr step = in_parts() ? x.rest.y * (part_ / sides) + x.rest.x
                          : skewed_  ? x.rest.y * (steps / parts_in_turn()) + x.rest.z * at_once + x.rest.x
                                     : Expr(x.rest);
        const Expr at = step * sides + x.side, vector = vectors_ % sides == 0 ? at : min(at, vectors_ - 1);
        x.lanes(x.lane, x.side, m) = strict_float(max(values(vector * lanes + x.lane, m), x.lanes(x.lane, x.side, m)));
    }
    std::vector<Expr> all;
    for (int side = 0; side < sides; side++) all.push_back(x.lanes(x.all, side, m));
    while (all.size() > 1) {
        const size_t half = (all.size() + 1) / 2;
        for (size_t i = 0; i < all.size() / 2; i++) all[i] = strict_float(max(all[half + i], all[i]));
        all.resize(half);
    }
    // In float32: Halide's JIT has no maximum of bf16 lanes.
    x.value(m) = -infinity;
    x.value(m) = max(x.value(m), f32(all[0]));
    extrema_.push_back(x);
    return x.value;
}

KernelDefinition RowKernel::finish(Func result) {
    if (columns_)
        result = schedule_columns(result);
    else if (in_parts())
        schedule_in_parts(result);
    else
        schedule_rows(result);
    if (sums_with_ones()) ones_.compute_root();
    whole_loops(out_);
    fix_shape(out_.output_buffer(), {length_, rows_});

    KernelDefinition kernel;
    kernel.pipeline = Pipeline(out_);
    const int pads = static_cast<int>(machine_.pad.count);
    // Rows that are apart, or the columns of a block.
    const bool blocks = apart_ || columns_;
    const codegen::PadLayout neighbours{pads, columns_ ? block_ + spare_ : block_ / pads * vectors_};
    if (blocks) kernel.lay_out(result, neighbours);
    if (parts_go_round()) {
        const codegen::PadLayout parts{pads, vectors_ / parts_};
        kernel.lay_out(result, parts);
        for (const Func &step : each_) kernel.lay_out(step, parts);
        for (const Input &input : inputs_)
            if (!input.one_row) kernel.lay_out(input.rows, parts);
    }
    for (const Input &input : inputs_) {
        if (input.pass > 0) continue;
        kernel.add_input(input.param.name(), input.param);
        if (blocks && !input.one_row) kernel.lay_out(input.rows, neighbours);
    }
    kernel.outputs = {{out_.name(), {length_, rows_}}};
    return kernel;
}

std::vector<Argument> RowKernel::arguments() const {
    std::vector<Argument> list;
    for (const Input &input : inputs_)
        if (input.pass == 0) list.emplace_back(input.param);
    return list;
}

}  // namespace atalla
