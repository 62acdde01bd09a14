// Pointwise kernels whose result is one run that meets patterns of operands without outer dimensions.
#include <fmt/format.h>

#include "generators/pointwise_kernel.h"
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

class PatternKernel : PointwiseKernel {
public:
    PatternKernel(const PointwiseAlgorithm &algorithm, const PointwiseBlocks &blocks, const Machine &machine,
                  const Point &point)
        : PointwiseKernel(algorithm, blocks, machine, point),
          run_(blocks.patterns()),
          block_(point["block"]),
          pads_(point["pads"]),
          unroll_(point["unroll"]),
          all_(run_.whole(machine)),
          count_(ceil_div(all_, block_)),
          share_(block_ / lanes / pads_) {}

    KernelDefinition build() {
        for (size_t at = 0; at < algorithm_.names.size(); at++) add_operand(at);
        for (size_t at = 0; at < algorithm_.parts.size(); at++) add_part(at);
        out_(n_, m_) = undef<BFloat>();
        if (run_.elements > all_) make_rest();
        make_blocks();
        out_.bound(n_, 0, size(run_.elements)).bound(m_, 0, size(run_.images));
        return finish(out_, {run_.elements, run_.images});
    }

private:
    void add_operand(size_t at) {
        const std::string &name = algorithm_.names[at];
        int64_t elements = 1;
        for (const int64_t extent : algorithm_.nest.extents_of(at)) elements *= extent;
        const bool is_whole = elements == run_.elements * run_.images;
        const ImageParam tensor = add_tensor(name, is_whole ? std::vector{run_.elements, run_.images} : std::vector{elements});
        if (!is_read(name)) return;
        if (algorithm_.nest.is_single(at))
            of_all_[name] = row_of(name + "_rows", tensor, 1)(0);
        else if (is_whole)
            whole_[name] = tensor;
        else if (run_.in_images())
            shared_[name] = row_of(name + "_shared", tensor, elements);
        else
            patterns_.try_emplace(name, name, run_.pattern(machine_, elements),
                                  elements % lanes == 0 ? Func() : row_of(name + "_row", tensor, elements), tensor,
                                  block_ / lanes);
    }

    void add_part(size_t at) {
        const PointwisePart &part = algorithm_.parts[at];
        const bool single = part.dim == PointwisePart::of_single_numbers;
        const int64_t elements = single ? 1 : algorithm_.nest.dims[0].extent;
        for (const std::string &name : part.inputs)
            if (!of_parts_.count(name)) of_parts_[name] = row_of(name + "_of_part", tensor_of(name), elements)(element_);
        const Func values =
            computed_row(fmt::format("part_{}_values", at), Internal::substitute(of_parts_, part.value), elements);
        if (single)
            of_all_[part.name] = values(0);
        else
            patterns_.try_emplace(part.name, fmt::format("part_{}", at), run_.pattern(machine_, elements), values, ImageParam(),
                                  block_ / lanes);
    }

    // Less than a round of the pads behind the blocks.
    void make_rest() {
        const int64_t rest = run_.elements - all_, stored = round_up(rest, lanes);
        std::map<std::string, Expr> values = of_all_;
        for (const auto &[name, tensor] : whole_) {
            Func rows(name + "_rest");
            const Expr from = i_ + size(all_);
            rows(i_, m_) = rest == stored
                               ? Expr(tensor(from, m_))
                               : select(i_ < size(rest), tensor(min(from, size(run_.elements - 1)), m_), undef<BFloat>());
            rows.compute_root().bound(i_, 0, size(stored)).bound(m_, 0, size(run_.images));
            in_pads({rows});
            values[name] = rows(i_, m_);
        }
        for (const auto &[name, rows] : shared_) values[name] = rows(i_ + size(all_));
        for (const auto &[name, funcs] : patterns_) values[name] = funcs.at(i_, size(all_ / lanes % funcs.pattern().turn()));
        Func y("y_of_rest");
        y(i_, m_) = result_of(values);
        const Var each_unroll("i_unroll");
        y.compute_root()
            .bound(i_, 0, size(stored))
            .bound(m_, 0, size(run_.images))
            .split(i_, each_unroll, i_, lanes)
            .vectorize(i_);
        in_pads({y});
        const RDom each(0, size(rest), 0, size(run_.images), "rest");
        out_(each.x + size(all_), each.y) = y(each.x, each.y);
    }

    // Where a block begins, in `unit`s of elements. The last one begins earlier.
    Expr first_of(const Expr &of, int64_t unit) const {
        const Expr first = of * size(block_ / unit);
        return all_ % block_ == 0 ? first : min(first, size((all_ - block_) / unit));
    }

    void make_blocks() {
        std::map<std::string, Expr> values = of_all_;
        std::vector<Func> moved;
        for (const auto &[name, tensor] : whole_) {
            Func rows(name + "_rows");
            rows(i_, b_, m_) = tensor(first_of(b_, 1) + i_, m_);
            values[name] = rows(i_, b_, m_);
            moved.push_back(rows);
        }
        for (const auto &[name, rows] : shared_) {
            values[name] = rows(first_of(b_, 1) + i_);
            if (all_ % block_ == 0) kernel_.lay_out(rows, {size(pads_), share_});
        }
        for (const auto &[name, funcs] : patterns_) {
            const int64_t turns = funcs.pattern().turn() / machine_.pad.count;
            values[name] = funcs.at(
                i_, turns == 1 ? Expr(0) : first_of(b_, PatternRun::round(machine_)) % size(turns) * size(machine_.pad.count));
        }
        Func y("y");
        y(i_, b_, m_) = result_of(values);
        const RDom each(0, size(block_), 0, size(count_), 0, size(run_.images), "each");
        out_(first_of(each.y, 1) + each.x, each.z) = y(each.x, each.y, each.z);
        moved.push_back(y);
        go_through_parts(y);
        for (Func &func : moved) {
            func.compute_at(out_, count_ > 1 ? each.y : each.z).bound_extent(i_, size(block_));
            if (count_ * run_.images > 1 && block_ / lanes > unroll_) func.hoist_storage_root().ring_buffer(2);
            in_pads({func});
            kernel_.lay_out(func, {size(pads_), share_});
        }
    }

    // Of a block each pad has a part.
    void go_through_parts(Func y) const {
        const Var pu("p_unroll"), mu("m_unroll");
        const int64_t together = largest_divisor(share_, std::clamp<int64_t>(unroll_ / pads_, 1, share_));
        y.vectorize(i_, lanes).split(i_, pu, i_, size(share_)).split(i_, i_, mu, size(together)).reorder(mu, pu, i_);
    }

    const PatternRun &run_;
    const int64_t block_, pads_, unroll_;
    const int64_t all_, count_;  // elements of all blocks, and how many these are
    const int64_t share_;        // vectors of a block that a pad has
    const Var n_{"n"}, i_{"i"}, b_{"b"}, m_{"m"};
    Func out_{"result"};
    std::map<std::string, Expr> of_all_, of_parts_;  // single numbers; what parts are made of
    std::map<std::string, PatternFuncs> patterns_;
    std::map<std::string, ImageParam> whole_;  // operands with all elements
    std::map<std::string, Func> shared_;       // by all images
};

}  // namespace

KernelDefinition pointwise_of_patterns(const PointwiseAlgorithm &algorithm, const PointwiseBlocks &blocks,
                                       const Machine &machine, const Point &point) {
    return PatternKernel(algorithm, blocks, machine, point).build();
}

}  // namespace atalla
