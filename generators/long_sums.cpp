#include "generators/long_sums.h"

#include <algorithm>
#include <limits>

#include "generators/vocabulary.h"
#include "isa/vectors.h"

namespace atalla {

using namespace Halide;
using namespace vocabulary;

namespace {

// So few additions in a row round little. Longer runs are made where groups would cost more than they are good for: all of a
// sum, or what has no equal groups. A run of 80 magnitudes loses what one of 64 does, 0.4 %; one of 100 twice as much, since
// more of its additions are of bf16 that are 64 times an element.
constexpr int64_t most_in_a_row = 32, longest_run = 80;

bool leaves_nothing(int64_t count, int64_t terms);

// How many of `count` are a group, each of which has so many terms: about 16 additions in each row, nothing left over if
// possible, and nothing of what is left over, since each run of its own has rows of its own in the pads.
int64_t of_group(int64_t count, int64_t terms) {
    constexpr int64_t in_a_row = 16, shortest_run = 10, cost_of_rest = 16;
    int64_t size = 1;
    while (size * 13 / 8 * (most_in_a_row + 1) < count * terms) size *= in_a_row;
    const int64_t least = std::max<int64_t>({size / 4 / terms, ceil_div(count, most_in_a_row + 1), 1}),
                  most = std::max(least, std::min(size * 13 / 8 / terms, count - 1));
    if (size > in_a_row * in_a_row) return std::clamp(size / terms, least, most);  // of so many the rest is a small part
    int64_t best = least, least_cost = std::numeric_limits<int64_t>::max();
    for (int64_t members = most; members >= least; members--) {
        const int64_t rest = count % members;
        int64_t cost = members * terms * in_a_row / size + count / members;
        if (rest != 0) cost += leaves_nothing(rest, terms) ? cost_of_rest : 4 * cost_of_rest;
        if (!leaves_nothing(members, terms)) cost += 4 * cost_of_rest;
        if (size == in_a_row) cost += std::max<int64_t>(0, shortest_run - members * terms);
        if (cost >= least_cost) continue;
        best = members;
        least_cost = cost;
    }
    return best;
}

bool leaves_nothing(int64_t count, int64_t terms) {
    if (count * terms <= most_in_a_row || (count == 1 && terms <= longest_run)) return true;
    if (count == 1) return leaves_nothing(terms, 1);
    const int64_t members = of_group(count, terms);
    return count % members == 0 && leaves_nothing(members, terms);
}

LongSum in_groups_of(int64_t steps, int64_t planes);

std::shared_ptr<const LongSum> part(int64_t steps, int64_t planes) {
    const int64_t terms = steps * planes;
    const bool is_run = terms <= most_in_a_row || (planes == 1 && terms <= longest_run && !leaves_nothing(steps, 1));
    return std::make_shared<const LongSum>(is_run ? LongSum{steps, planes, 0, nullptr, nullptr} : in_groups_of(steps, planes));
}

LongSum in_groups_of(int64_t steps, int64_t planes) {
    if (planes == 1) {
        const int64_t members = of_group(steps, 1);
        return {steps, 1, steps / members, part(members, 1), steps % members == 0 ? nullptr : part(steps % members, 1)};
    }
    int64_t members = of_group(planes, steps);
    // Where steps leave something over as well, small pads would not hold the rows of all runs.
    if (planes % members != 0 && !leaves_nothing(steps, 1)) members = 1;
    return {steps, planes, planes / members, part(steps, members),
            planes % members == 0 ? nullptr : part(steps, planes % members)};
}

}  // namespace

LongSum long_sum(int64_t steps, int64_t planes) {
    return steps * planes <= longest_run ? LongSum{steps, planes, 0, nullptr, nullptr} : in_groups_of(steps, planes);
}

LoopLevel SummingFunc::place(const std::vector<SummingFunc> &all, const LoopLevel &of_first) const {
    const SummingFunc &by = all[reader];
    if (&by == this) return of_first;
    return is_rest ? by.place(all, of_first) : LoopLevel(by.sum, by.terms.x);
}

namespace {

class SumMaker {
public:
    SumMaker(const SumTerms &terms, const std::string &steps) : terms_(terms), steps_(steps) {}

    // `sum` adds the steps and planes from these on.
    void make(Func sum, const std::vector<Var> &arguments, const LongSum &of, const Expr &step, const Expr &plane,
              size_t reader, bool is_rest) {
        const size_t self = funcs_.size();
        funcs_.push_back({sum, of, {}, reader, is_rest});
        sum(arguments) = bf16(-0.0f);
        const std::vector<Expr> here(arguments.begin(), arguments.end());
        if (!of.in_groups()) {
            const RDom terms =
                of.planes == 1 ? RDom(0, size(of.steps), steps_) : RDom(0, size(of.steps), 0, size(of.planes), steps_);
            const Expr term = terms_(runs_++)(step + terms.x, of.planes == 1 ? plane : plane + terms.y);
            sum(arguments) = strict_float(sum(here) + term);
            funcs_[self].terms = terms;
            return;
        }
        const Var g(sum.name() + "_of");
        std::vector<Var> of_groups = arguments;
        of_groups.push_back(g);
        const int steps = of.planes == 1 ? size(of.group->steps) : 0, planes = of.planes == 1 ? 0 : size(of.group->planes),
                  groups = size(of.groups);
        Func group(sum.name() + "_group");
        const RDom all(0, groups, "groups");
        funcs_[self].terms = all;
        make(group, of_groups, *of.group, step + g * steps, plane + g * planes, self, false);
        std::vector<Expr> one = here;
        one.emplace_back(all.x);
        sum(arguments) = strict_float(sum(here) + group(one));
        if (!of.rest) return;
        Func rest(sum.name() + "_rest");
        make(rest, arguments, *of.rest, step + groups * steps, plane + groups * planes, self, true);
        sum(arguments) = strict_float(sum(here) + rest(here));
    }

    std::vector<SummingFunc> take() { return std::move(funcs_); }

private:
    const SumTerms &terms_;
    const std::string &steps_;
    std::vector<SummingFunc> funcs_;
    size_t runs_ = 0;
};

}  // namespace

std::vector<SummingFunc> summing_funcs(const Func &sum, const std::vector<Var> &arguments, const LongSum &of,
                                       const SumTerms &terms, const std::string &steps) {
    SumMaker maker(terms, steps);
    maker.make(sum, arguments, of, 0, 0, 0, false);
    return maker.take();
}

void schedule_sums(std::vector<SummingFunc> &all, const Var &lane, const LoopLevel &of_first, bool straight) {
    for (SummingFunc &one : all) {
        one.sum.compute_at(one.place(all, of_first)).vectorize(lane, lanes).bound_extent(lane, lanes);
        std::vector<VarOrRVar> order = {lane, one.terms.x};
        if (one.terms.dimensions() > 1) order.emplace_back(one.terms.y);
        one.sum.update().reorder(order).vectorize(lane, lanes);
        for (size_t i = 1; i < order.size() && straight && !one.of.in_groups(); i++) one.sum.update().unroll(order[i]);
        if (one.of.rest) one.sum.update(1).vectorize(lane, lanes);
        in_registers({one.sum});
    }
}

}  // namespace atalla
