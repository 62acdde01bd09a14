// Arguments of every operator of the registry at random shapes: what tests over all operators draw from.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "generators/operator.h"
#include "isa/machine.h"
#include "schedules/random.h"

namespace atalla {

// Sizes are small enough for an unoptimized program to take no time worth mentioning: 1, 2, 31 to 33, 64, 65, primes and
// others.
class RandomSizes {
public:
    RandomSizes(Random &random, bool small) : random_(random), small_(small) {}

    bool small() const { return small_; }  // for machines with small pads, whose programs are slow to simulate
    int64_t below(int64_t end) { return static_cast<int64_t>(random_.below(static_cast<uint64_t>(end))); }
    int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
    bool often() { return below(2) == 0; }
    bool seldom() { return below(4) == 0; }
    int64_t size(int64_t largest);
    // Of `rank` dimensions with at most so many elements; half as many where small.
    Shape shape(int64_t rank, int64_t most);

private:
    Random &random_;
    bool small_;
};

// By the operator's name. Operators of the family "pointwise" share pointwise_arguments().
using ArgumentsOf = std::function<WorkloadArguments(RandomSizes &)>;
const std::map<std::string, ArgumentsOf> &random_arguments();
// By the expression: products with what is in front of them and behind them.
const std::map<std::string, ArgumentsOf> &random_product_expressions();
WorkloadArguments pointwise_arguments(const Operator &op, RandomSizes &sizes);

}  // namespace atalla
