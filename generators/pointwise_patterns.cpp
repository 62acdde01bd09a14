// Pointwise kernels whose result is one run that meets patterns of operands without outer dimensions.
#include <fmt/format.h>

#include "generators/pointwise_workload.h"
#include "generators/vocabulary.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// The repetitions of an operand in the pads. What does not end with a vector, or is computed, is written to memory so many
// times, one after the other, where the result will be, and comes back as whole vectors.
class PatternFuncs {
public:
    // `row`: the operand over its elements, in the pads; or none, where `tensor` has whole vectors.
    PatternFuncs(const std::string &name, const Pattern &pattern, Func row, ImageParam tensor, int64_t block)
        : pattern_(pattern), base_(name + "_base"), all_(name + "_pattern") {
        const int64_t elements = pattern.elements(), copies = pattern.copies();
        if (!row.defined()) {
            base_(n_, k_) = tensor(n_);
            base_.bound(n_, 0, size(elements)).bound(k_, 0, size(copies));
        } else {
            Func written(name + "_copies"), vectors(name + "_vectors");
            written(n_) = undef<BFloat>();
            const int64_t whole = elements / lanes, rest = elements % lanes;
            if (pattern.by_vectors()) {
                vectors(lane_, k_, v_) = row(lane_ + v_ * lanes);
                const Var k_unroll("k_unroll");
                vectors.compute_root()
                    .bound(lane_, 0, lanes)
                    .bound(k_, 0, size(round_up(copies, most_alike)))
                    .bound(v_, 0, size(tiles_of(elements)))
                    .split(k_, k_, k_unroll, size(most_alike))
                    .reorder(lane_, k_unroll, k_, v_)
                    .vectorize(lane_, lanes);
                in_pads({vectors});
                if (whole > 0) {
                    const RDom of_whole(0, lanes, 0, size(copies), 0, size(whole), "whole");
                    written(of_whole.x + of_whole.y * size(elements) + of_whole.z * lanes) =
                        vectors(of_whole.x, of_whole.y, of_whole.z);
                }
                if (rest > 0) {
                    const RDom of_rest(0, size(rest), 0, size(copies), "rest");
                    written(of_rest.x + of_rest.y * size(elements) + size(whole * lanes)) =
                        vectors(of_rest.x, of_rest.y, size(whole));
                }
            } else {
                const RDom each(0, size(elements), 0, size(copies), "copy");
                written(each.x + each.y * size(elements)) = row(each.x);
            }
            written.compute_root().bound_extent(n_, size(elements * copies)).store_in(MemoryType::Heap);
            whole_loops(written);
            base_(n_) = written(n_);
            base_.bound(n_, 0, size(pattern.base() * lanes));
        }
        base_.compute_root();
        in_pads({base_});

        // What is loaded once is stored for all repetitions, where these are few.
        const int64_t times = pattern.times(block), together = largest_divisor(pattern.base(), most_alike);
        const bool few = times <= most_times;
        const RDom again(0, size(few ? times : pattern.base()), 0, size(few ? pattern.base() : times), "again");
        const RVar vector = few ? again.y : again.x, time = few ? again.x : again.y, v_unroll("v_unroll"), k_unroll("k_unroll");
        all_(lane_, v_) = undef<BFloat>();
        const Expr place = vector * lanes + lane_;
        all_(lane_, vector + time * size(pattern.step())) =
            row.defined() ? base_(place) : base_(place % size(elements), place / size(elements));
        all_.compute_root().bound(lane_, 0, lanes).bound_extent(v_, size(pattern.vectors(block))).vectorize(lane_, lanes);
        Stage stage = all_.update();
        stage.vectorize(lane_, lanes).split(vector, vector, v_unroll, size(together));
        if (few) stage.rename(time, k_unroll);
        in_pads({all_});
    }

    // Element `i` of a block that begins `first` vectors behind the start of a turn.
    Expr at(const Expr &i, const Expr &first) const { return all_(i % lanes, first + i / lanes); }
    const Pattern &pattern() const { return pattern_; }

private:
    static constexpr int64_t most_alike = 4, most_times = 16;
    Pattern pattern_;
    Func base_, all_;
    Var n_{"n"}, k_{"k"}, lane_{"lane"}, v_{"v"};
};

}  // namespace

KernelDefinition PointwiseWorkload::build_of_patterns(const Machine &machine, const Point &point) const {
    const PatternRun &run = blocks_.patterns();
    const int64_t block = point["block"], pads = point["pads"], unroll = point["unroll"], all = run.whole(machine),
                  count = ceil_div(all, block), rest = run.elements - all, share = block / lanes / pads;
    const Var n("n"), i("i"), b("b"), m("m");
    KernelDefinition kernel;
    std::map<std::string, Expr> of_all;  // values of single numbers
    std::map<std::string, PatternFuncs> patterns;
    std::map<std::string, ImageParam> whole;
    std::map<std::string, Func> shared;  // by all images
    std::vector<ImageParam> tensors;
    const std::set<std::string> used = inputs_of(rest_);
    // A row of elements, or a single number, with what is behind it in the last vector.
    const auto row_of = [&](const std::string &name, const ImageParam &tensor, int64_t elements) {
        Func row(name);
        row(n) = elements % lanes == 0 ? Expr(tensor(n))
                                       : select(n < size(elements), tensor(min(n, size(elements - 1))), undef<BFloat>());
        row.compute_root().bound(n, 0, size(round_up(elements, lanes)));
        in_pads({row});
        return row;
    };
    for (size_t at = 0; at < names_.size(); at++) {
        const std::string &name = names_[at];
        const bool single = nest_.is_single(at);
        int64_t elements = 1;
        for (const int64_t extent : nest_.extents_of(at)) elements *= extent;
        const bool is_whole = elements == run.elements * run.images;
        const std::vector<int64_t> extents = is_whole ? std::vector{run.elements, run.images} : std::vector{elements};
        const ImageParam tensor = vocabulary::tensor("in_" + name, extents);
        tensors.push_back(tensor);
        kernel.add_input(name, tensor);
        if (!used.count(name)) continue;
        if (single)
            of_all[name] = row_of(name + "_rows", tensor, 1)(0);
        else if (is_whole)
            whole[name] = tensor;
        else if (run.in_images())
            shared[name] = row_of(name + "_shared", tensor, elements);
        else
            patterns.try_emplace(name, name, run.pattern(machine, elements),
                                 elements % lanes == 0 ? Func() : row_of(name + "_row", tensor, elements), tensor,
                                 block / lanes);
    }
    std::map<std::string, Expr> of_parts;
    for (size_t at = 0; at < parts_.size(); at++) {
        const PointwisePart &part = parts_[at];
        const bool single = part.dim == PointwisePart::of_single_numbers;
        const int64_t elements = single ? 1 : nest_.dims[0].extent;
        for (const std::string &name : part.inputs)
            if (!of_parts.count(name)) of_parts[name] = row_of(name + "_of_part", tensors[input_of(name)], elements)(n);
        Func values(fmt::format("part_{}_values", at));
        values(n) = Internal::substitute(of_parts, part.value);
        values.compute_root().bound(n, 0, size(round_up(elements, lanes))).vectorize(n, lanes);
        in_pads({values});
        if (single)
            of_all[part.name] = values(0);
        else
            patterns.try_emplace(part.name, fmt::format("part_{}", at), run.pattern(machine, elements), values, ImageParam(),
                                 block / lanes);
    }

    Func out("result");
    out(n, m) = undef<BFloat>();
    // Blocks; in `unit`s of elements.
    const auto first_of = [&](const Expr &of, int64_t unit) {
        const Expr first = of * size(block / unit);
        return all % block == 0 ? first : min(first, size((all - block) / unit));
    };
    if (rest > 0) {
        const RDom each(0, size(rest), 0, size(run.images), "rest");
        const int64_t stored = round_up(rest, lanes);
        std::map<std::string, Expr> values = of_all;
        for (const auto &[name, tensor] : whole) {
            Func rows(name + "_rest");
            const Expr from = i + size(all);
            rows(i, m) = rest == stored ? Expr(tensor(from, m))
                                        : select(i < size(rest), tensor(min(from, size(run.elements - 1)), m), undef<BFloat>());
            rows.compute_root().bound(i, 0, size(stored)).bound(m, 0, size(run.images));
            in_pads({rows});
            values[name] = rows(i, m);
        }
        for (const auto &[name, rows] : shared) values[name] = rows(i + size(all));
        for (const auto &[name, funcs] : patterns) values[name] = funcs.at(i, size(all / lanes % funcs.pattern().turn()));
        Func y("y_of_rest");
        y(i, m) = Internal::common_subexpression_elimination(Internal::substitute(values, rest_), true);
        const Var each_unroll("i_unroll");
        y.compute_root().bound(i, 0, size(stored)).bound(m, 0, size(run.images)).split(i, each_unroll, i, lanes).vectorize(i);
        in_pads({y});
        out(each.x + size(all), each.y) = y(each.x, each.y);
    }
    const RDom each(0, size(block), 0, size(count), 0, size(run.images), "each");
    std::map<std::string, Expr> values = of_all;
    std::vector<Func> moved;
    for (const auto &[name, tensor] : whole) {
        Func rows(name + "_rows");
        rows(i, b, m) = tensor(first_of(b, 1) + i, m);
        values[name] = rows(i, b, m);
        moved.push_back(rows);
    }
    for (const auto &[name, rows] : shared) {
        values[name] = rows(first_of(b, 1) + i);
        if (all % block == 0) kernel.lay_out(rows, {size(pads), share});
    }
    for (const auto &[name, funcs] : patterns) {
        const int64_t turns = funcs.pattern().turn() / machine.pad.count;
        values[name] =
            funcs.at(i, turns == 1 ? Expr(0) : first_of(b, PatternRun::round(machine)) % size(turns) * size(machine.pad.count));
    }
    Func y("y");
    y(i, b, m) = Internal::common_subexpression_elimination(Internal::substitute(values, rest_), true);
    out(first_of(each.y, 1) + each.x, each.z) = y(each.x, each.y, each.z);
    moved.push_back(y);
    y.vectorize(i, lanes);
    const Var pu("p_unroll"), mu("m_unroll");
    const int64_t together = largest_divisor(share, std::clamp<int64_t>(unroll / pads, 1, share));
    y.split(i, pu, i, size(share)).split(i, i, mu, size(together)).reorder(mu, pu, i);
    for (Func &func : moved) {
        func.compute_at(out, count > 1 ? each.y : each.z).bound_extent(i, size(block));
        if (count * run.images > 1 && block / lanes > unroll) func.hoist_storage_root().ring_buffer(2);
        in_pads({func});
        kernel.lay_out(func, {size(pads), share});
    }
    out.bound(n, 0, size(run.elements)).bound(m, 0, size(run.images));
    whole_loops(out);
    fix_shape(out.output_buffer(), {run.elements, run.images});
    kernel.pipeline = Pipeline(out);
    kernel.outputs = {{"result", {run.elements, run.images}}};
    return kernel;
}

}  // namespace atalla
