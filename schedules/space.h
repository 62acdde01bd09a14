// A schedule space: parameters with finite value lists, and constraints that make every proposed point valid by construction.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "schedules/point.h"
#include "schedules/random.h"

namespace atalla {

struct Parameter {
    std::string name;
    std::string meaning;          // one phrase with the unit: "rows of the output tile, in elements"
    std::vector<int64_t> values;  // the candidates, each once, in the order in which neighbours are taken
    // A choice has no order (a loop order, a buffering scheme): every other value is a neighbour of each.
    bool choice = false;
};

// The divisors of n up to `most`, ascending: values of what must divide an extent.
std::vector<int64_t> divisors(int64_t n, int64_t most);

// A predicate over some of the parameters. It is asked as soon as all of them have values, with a point that may still
// lack the others, and must depend on nothing else.
struct Constraint {
    std::string name;
    std::vector<std::string> parameters;
    std::string protects;  // a sentence: "The tiles of one step fit the pad they are loaded to."
    std::function<bool(const Point &)> holds;
};

struct Space {
    std::vector<Parameter> parameters;
    std::vector<Constraint> constraints;
    // Called for every value that an enumeration or a sample tries, so also where it meets no valid point for long; what it
    // throws ends that. May be empty.
    std::function<void()> pulse;

    // Builders; they return the space so that a definition reads as a list.
    Space &parameter(std::string name, std::string meaning, std::vector<int64_t> values);
    Space &choice(std::string name, std::string meaning, std::vector<int64_t> values);
    Space &constraint(std::string name, std::vector<std::string> parameters, std::string protects,
                      std::function<bool(const Point &)> holds);

    // The parameter of this name; Error naming the nearest.
    const Parameter &find(std::string_view name) const;
};

// Throws Error if the definition is wrong: a name used twice, a parameter without values or with a value twice,
// a constraint over an unknown parameter or without a predicate. All functions below check this first.
void check_space(const Space &space);

// Calls `visit` for every valid point, in lexicographic order of the declared parameters and values. `visit` returns
// false to stop. Branches are cut at the first constraint that fails, so the cost follows the valid part of the space.
// Returns whether the enumeration reached its end.
bool for_each(const Space &space, const std::function<bool(const Point &)> &visit);

// The number of valid points, or `limit` if there are at least that many.
uint64_t count(const Space &space, uint64_t limit = UINT64_MAX);

// Why a space has no point, as the end of a sentence: "each point of its space violates the constraint 'pads': The tiles fit
// the pads.", or that no constraint alone is to blame.
std::string why_empty(const Space &space);

// A valid point; nothing if the space is empty. Exactly uniform while a constraint-satisfying draw is found within a few
// thousand tries; in sparser spaces a random descent, which reaches every point but not with equal chance.
std::optional<Point> sample(const Space &space, Random &random);

// `n` different valid points in random order; the whole space, shuffled, if it has no more than that. Uniform while a point
// takes few draws, as sample() otherwise.
std::vector<Point> sample_distinct(const Space &space, size_t n, Random &random);

// Valid points around a valid one. steps = 1: one parameter moved up or down its list to the nearest value that is valid
// (any other value of a choice). steps = 2: also two parameters moved by one place each, which is how a search follows
// the edge of a capacity constraint. No duplicates, not the point itself, deterministic order, one-parameter moves first.
std::vector<Point> neighbours(const Space &space, const Point &point, int steps = 1);

// Why a point is not of the space, as a sentence: a parameter missing, unknown or with a value not listed, or the
// constraint it violates with what that protects. Empty for a valid point, whatever its choices_parameter.
std::string violation(const Space &space, const Point &point);

// The space with the parameters of `fixed` reduced to the values given there. Error if the value is not in the list.
Space restrict_to(const Space &space, const Point &fixed);

// A readable table of parameters, values and constraints.
std::string describe(const Space &space);

}  // namespace atalla
