// Sums of many bf16 one after the other: a sum that has grown past 256 times its terms takes none of them any more. Long sums
// are made of the sums of groups, and those of the sums of smaller ones, where they are many.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <Halide.h>

namespace atalla {

// Of a term for each step of each plane. A run adds all of them one after the other.
struct LongSum {
    int64_t steps = 1, planes = 1;
    int64_t groups = 0;                    // 0: a run
    std::shared_ptr<const LongSum> group;  // each of the groups, and
    std::shared_ptr<const LongSum> rest;   // what they leave

    bool in_groups() const { return groups > 0; }
    const LongSum &run() const { return in_groups() ? group->run() : *this; }  // most terms are in runs like this
    int64_t runs() const { return in_groups() ? group->runs() + (rest ? rest->runs() : 0) : 1; }
    int64_t additions_in_a_row() const {
        return in_groups() ? groups + group->additions_in_a_row() + (rest ? 1 : 0) : steps * planes;
    }
};

LongSum long_sum(int64_t steps, int64_t planes = 1);

// The Funcs of a long sum.
struct SummingFunc {
    Halide::Func sum;
    LongSum of;
    Halide::RDom terms;  // of a run its steps, and its planes if there are several; otherwise groups
    size_t reader = 0;   // which of the Funcs adds this one: as groups, or
    bool is_rest = false;

    // Where it is made, given where the first of all Funcs is.
    Halide::LoopLevel place(const std::vector<SummingFunc> &all, const Halide::LoopLevel &of_first) const;
};

// What a run adds, for a step and a plane; asked for each run by its number.
using SumTerm = std::function<Halide::Expr(const Halide::Expr &step, const Halide::Expr &plane)>;
using SumTerms = std::function<SumTerm(size_t run)>;

// `sum`, which has these arguments, is the first of the Funcs. `steps`: the name of a run's RDom.
std::vector<SummingFunc> summing_funcs(const Halide::Func &sum, const std::vector<Halide::Var> &arguments, const LongSum &of,
                                       const SumTerms &terms, const std::string &steps = "steps");

// Vectors of `lane`, where `of_first` says, in registers. `straight`: runs are straight-line code.
void schedule_sums(std::vector<SummingFunc> &all, const Halide::Var &lane, const Halide::LoopLevel &of_first, bool straight);

}  // namespace atalla
