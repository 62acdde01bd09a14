// Spaces against brute force: enumeration, counting, sampling and neighbours over random constraint problems.
#include "schedules/space.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tests/support/error_of.h"

namespace atalla {
namespace {

using testing::HasSubstr;

// Every combination of values, in lexicographic order, that all constraints admit.
std::vector<Point> brute_force(const Space &space) {
    std::vector<Point> points{Point()};
    for (const Parameter &parameter : space.parameters) {
        std::vector<Point> longer;
        for (const Point &point : points) {
            for (const int64_t value : parameter.values) {
                longer.push_back(point);
                longer.back().set(parameter.name, value);
            }
        }
        points = std::move(longer);
    }
    std::erase_if(points, [&](const Point &point) {
        return std::any_of(space.constraints.begin(), space.constraints.end(),
                           [&](const Constraint &constraint) { return !constraint.holds(point); });
    });
    return points;
}

std::vector<Point> enumerate(const Space &space) {
    std::vector<Point> points;
    EXPECT_TRUE(for_each(space, [&](const Point &point) {
        points.push_back(point);
        return true;
    }));
    return points;
}

// A space with a random structure: constraints are random relations over one to three parameters.
Space random_space(uint64_t seed) {
    Random random(seed);
    Space space;
    const uint64_t parameters = 1 + random.below(5);
    for (uint64_t i = 0; i < parameters; i++) {
        std::vector<int64_t> values{-3, 1, 2, 4, 8, 16, 32};
        random.shuffle(values);
        values.resize(1 + random.below(5));
        const std::string name(1, static_cast<char>('e' - i));  // declared in another order than that of the names
        random.below(3) == 0 ? space.choice(name, "a choice", values) : space.parameter(name, "a number", values);
    }
    const uint64_t constraints = random.below(5);
    for (uint64_t i = 0; i < constraints; i++) {
        std::vector<std::string> names;
        for (uint64_t j = 0; j <= random.below(3); j++) {
            names.push_back(space.parameters[random.below(parameters)].name);
        }
        const uint64_t salt = random.next(), share = 1 + random.below(4);
        space.constraint(fmt::format("relation {}", i), names, "A random relation.", [=](const Point &point) {
            uint64_t hash = salt;
            for (const std::string &name : names) {
                hash = Random(hash ^ static_cast<uint64_t>(point[name])).next();
            }
            return hash % 5 >= share;
        });
    }
    return space;
}

Space tiles() {
    Space space;
    space.parameter("tile_m", "rows of the tile, in elements", {32, 64, 128})
        .parameter("tile_n", "columns of the tile, in elements", {32, 64, 128})
        .choice("order", "the outer loop", {0, 1})
        .constraint("pad", {"tile_m", "tile_n"}, "A tile fits its pad.",
                    [](const Point &point) { return point["tile_m"] * point["tile_n"] <= 4096; });
    return space;
}

TEST(Space, EnumerationEqualsBruteForce) {
    int empty = 0, constrained = 0;
    for (uint64_t seed = 0; seed < 500; seed++) {
        const Space space = random_space(seed);
        const std::vector<Point> expected = brute_force(space);
        ASSERT_EQ(enumerate(space), expected) << "seed " << seed;
        ASSERT_EQ(count(space), expected.size());
        ASSERT_EQ(count(space, 3), std::min<size_t>(3, expected.size()));
        empty += expected.empty();
        constrained += !space.constraints.empty() && !expected.empty();
    }
    EXPECT_GT(empty, 10) << "the generator of spaces must give empty ones too";
    EXPECT_GT(constrained, 200);
}

TEST(Space, EnumerationStopsWhenTold) {
    int visited = 0;
    EXPECT_FALSE(for_each(tiles(), [&](const Point &) { return ++visited < 4; }));
    EXPECT_EQ(visited, 4);
}

TEST(Space, ConstraintsCutBranchesEarly) {
    // 2^30 combinations; the constraint on the first two parameters leaves a single one.
    Space space;
    for (int i = 0; i < 30; i++) {
        space.parameter(fmt::format("p{}", i), "a bit", {0, 1});
        if (i > 0) {
            const std::string one = fmt::format("p{}", i - 1), other = fmt::format("p{}", i);
            space.constraint(one + other, {other, one}, "Bits agree and are set.",
                             [=](const Point &point) { return point[one] == 1 && point[other] == 1; });
        }
    }
    EXPECT_EQ(count(space), 1u);
    Random random(1);
    EXPECT_EQ(sample(space, random), enumerate(space).front()) << "found by descent: uniform draws have no chance";
}

TEST(Space, ASpaceWithoutParametersHasOnePoint) { EXPECT_EQ(enumerate(Space()), std::vector<Point>{Point()}); }

TEST(Space, SamplesAreValidAndFixedBySeed) {
    for (uint64_t seed = 0; seed < 200; seed++) {
        const Space space = random_space(seed);
        const std::vector<Point> all = brute_force(space);
        Random random(seed), same(seed);
        const std::optional<Point> point = sample(space, random);
        ASSERT_EQ(point.has_value(), !all.empty()) << "seed " << seed;
        ASSERT_EQ(sample(space, same), point);
        ASSERT_TRUE(!point || std::count(all.begin(), all.end(), *point) == 1);
    }
}

TEST(Space, SamplingIsUniform) {
    // Under tile_m = 128 fewer points are valid than under tile_m = 32: a descent by parameter would prefer them.
    const Space space = tiles();
    const size_t points = brute_force(space).size();
    ASSERT_EQ(points, 12u);
    std::map<Point, int> seen;
    Random random(42);
    constexpr int draws = 12'000;
    for (int draw = 0; draw < draws; draw++) {
        seen[*sample(space, random)]++;
    }
    ASSERT_EQ(seen.size(), points);
    for (const auto &[point, times] : seen) {
        EXPECT_NEAR(times, draws / 12, 160) << point.text();  // five standard deviations
    }
}

TEST(Space, DistinctSamplesAreDistinct) {
    for (uint64_t seed = 0; seed < 100; seed++) {
        const Space space = random_space(seed);
        const std::vector<Point> all = brute_force(space);
        Random random(seed);
        const std::vector<Point> some = sample_distinct(space, 7, random);
        ASSERT_EQ(some.size(), std::min<size_t>(7, all.size()));
        ASSERT_EQ(std::set<Point>(some.begin(), some.end()).size(), some.size());
        for (const Point &point : some) {
            ASSERT_EQ(std::count(all.begin(), all.end(), point), 1);
        }
    }
}

TEST(Space, DistinctSamplesOfALargeSpace) {
    Space space;
    for (const char *name : {"a", "b", "c", "d", "e", "f"}) {
        space.parameter(name, "a number", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
    }
    space.constraint("odd sum", {"a", "f"}, "The sum is odd.",
                     [](const Point &point) { return (point["a"] + point["f"]) % 2 == 1; });
    Random random(5), same(5);
    const std::vector<Point> points = sample_distinct(space, 2000, random);
    EXPECT_EQ(points, sample_distinct(space, 2000, same));
    EXPECT_EQ(std::set<Point>(points.begin(), points.end()).size(), 2000u);
    int64_t sum = 0;
    for (const Point &point : points) {
        ASSERT_EQ(violation(space, point), "");
        sum += point["a"];
    }
    EXPECT_NEAR(static_cast<double>(sum) / 2000, 5.5, 0.35) << "not the beginning of the enumeration";
}

TEST(Space, AWalkThatFindsNothingCanBeEnded) {
    struct Enough {};
    Space space;
    for (int i = 0; i < 20; i++) space.parameter(fmt::format("p{}", i), "a digit", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    space.constraint("never", {"p19"}, "Nothing.", [](const Point &) { return false; });
    int64_t tried = 0;
    space.pulse = [&] {
        if (++tried == 1000) throw Enough();
    };
    EXPECT_THROW(count(space), Enough);
    Random random(1);
    tried = 0;
    EXPECT_THROW(sample_distinct(space, 1, random), Enough);
}

// Nine pairs of digits, each of equal ones: of 10^9 draws one is valid.
TEST(Space, SamplesOfASparseSpaceTakeFewQuestions) {
    Space space;
    int64_t asked = 0;
    for (int i = 0; i < 18; i++) {
        space.parameter(fmt::format("p{}", i), "a digit", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
        if (i % 2 == 0) continue;
        const std::string one = fmt::format("p{}", i - 1), other = fmt::format("p{}", i);
        space.constraint(one + other, {one, other}, "Digits of a pair are equal.", [=, &asked](const Point &point) {
            asked++;
            return point[one] == point[other];
        });
    }
    Random random(3);
    constexpr size_t wanted = 5000;
    const std::vector<Point> points = sample_distinct(space, wanted, random);
    EXPECT_EQ(std::set<Point>(points.begin(), points.end()).size(), wanted);
    for (const Point &point : points) ASSERT_EQ(violation(space, point), "");
    // A descent asks 5.5 times for each pair, the enumeration in front of it for each of its points; one uniform draw that is
    // valid would take 10^9.
    EXPECT_LT(asked, 1'000'000);
}

// Drawing half of the points of a space, each once, repeats points all the time; enumerating them does not.
TEST(Space, SamplesOfMuchOfASpaceTakeFewQuestions) {
    Space space;
    int64_t asked = 0;
    for (const char *name : {"a", "b", "c"}) {
        std::vector<int64_t> values(30);
        std::iota(values.begin(), values.end(), 0);
        space.parameter(name, "a number", values);
    }
    space.constraint("even", {"a", "b", "c"}, "The sum is even.", [&asked](const Point &point) {
        asked++;
        return (point["a"] + point["b"] + point["c"]) % 2 == 0;
    });
    Random random(3);
    constexpr size_t all = 13'500, wanted = all / 2;
    const std::vector<Point> points = sample_distinct(space, wanted, random);
    EXPECT_EQ(std::set<Point>(points.begin(), points.end()).size(), wanted);
    EXPECT_LE(asked, 2 * 2 * all);
    // Of each half of the space as many, in any order.
    const auto low = [](const Point &point) { return point["a"] < 15; };
    EXPECT_NEAR(static_cast<double>(std::count_if(points.begin(), points.end(), low)), wanted / 2, 200);
    EXPECT_NEAR(static_cast<double>(std::count_if(points.begin(), points.begin() + wanted / 2, low)), wanted / 4, 200);
}

// The definition, by brute force: a valid point that differs in one parameter with nothing valid between the two in its
// list (or anything, for a choice).
std::set<Point> one_step(const Space &space, const Point &from) {
    const std::vector<Point> all = brute_force(space);
    std::set<Point> found;
    for (const Parameter &parameter : space.parameters) {
        const auto place = [&](const Point &point) {
            return std::find(parameter.values.begin(), parameter.values.end(), point[parameter.name]) -
                   parameter.values.begin();
        };
        std::map<int64_t, Point> line;  // the valid points that differ from `from` in this parameter alone
        for (const Point &point : all) {
            Point moved = point;
            moved.set(parameter.name, from[parameter.name]);
            if (moved == from) {
                line[place(point)] = point;
            }
        }
        const auto here = line.find(place(from));
        for (auto it = line.begin(); it != line.end(); ++it) {
            const bool next = it == std::next(here) || std::next(it) == here;
            if (it != here && (parameter.choice || next)) {
                found.insert(it->second);
            }
        }
    }
    return found;
}

TEST(Space, NeighboursEqualTheirDefinition) {
    for (uint64_t seed = 0; seed < 150; seed++) {
        const Space space = random_space(seed);
        Random random(seed);
        const std::optional<Point> point = sample(space, random);
        if (!point) {
            continue;
        }
        const std::vector<Point> found = neighbours(space, *point);
        EXPECT_EQ(std::set<Point>(found.begin(), found.end()), one_step(space, *point)) << "seed " << seed;
        EXPECT_EQ(std::set<Point>(found.begin(), found.end()).size(), found.size());
    }
}

TEST(Space, TwoStepsFollowTheEdgeOfAConstraint) {
    const Point edge{{"tile_m", 64}, {"tile_n", 64}, {"order", 0}};
    const std::vector<Point> near = neighbours(tiles(), edge);
    const std::vector<Point> far = neighbours(tiles(), edge, 2);
    const Point along{{"tile_m", 128}, {"tile_n", 32}, {"order", 0}};
    EXPECT_EQ(std::count(near.begin(), near.end(), along), 0);
    EXPECT_EQ(std::count(far.begin(), far.end(), along), 1);
    ASSERT_LT(near.size(), far.size());
    EXPECT_TRUE(std::equal(near.begin(), near.end(), far.begin())) << "moves of one parameter come first";
    for (const Point &point : far) {
        EXPECT_EQ(violation(tiles(), point), "");
        EXPECT_NE(point, edge);
    }
    EXPECT_EQ(std::set<Point>(far.begin(), far.end()).size(), far.size());
}

TEST(Space, NeighboursSkipOverInvalidValues) {
    Space space;
    space.parameter("a", "a number", {1, 2, 3, 4})
        .constraint("even hole", {"a"}, "2 and 3 are not possible.",
                    [](const Point &point) { return point["a"] != 2 && point["a"] != 3; });
    EXPECT_EQ(neighbours(space, {{"a", 1}}), std::vector<Point>({Point{{"a", 4}}}));
    EXPECT_THAT(error_of([&] { neighbours(space, {{"a", 2}}); }), HasSubstr("violates the constraint 'even hole'"));
}

TEST(Space, ViolationsSayWhatIsProtected) {
    const Space space = tiles();
    EXPECT_EQ(violation(space, {{"tile_m", 32}, {"tile_n", 128}, {"order", 1}}), "");
    EXPECT_EQ(violation(space, {{"tile_m", 128}, {"tile_n", 64}, {"order", 1}}),
              "tile_m = 128, tile_n = 64 violates the constraint 'pad': A tile fits its pad.");
    EXPECT_EQ(violation(space, {{"tile_m", 128}, {"tile_n", 65}, {"order", 1}}),
              "tile_n = 65 is not one of the values 32, 64, 128");
    EXPECT_EQ(violation(space, {{"tile_m", 128}, {"order", 1}}),
              "the point has no value for the parameter 'tile_n' (columns of the tile, in elements)");
    EXPECT_EQ(violation(space, {{"tile_m", 32}, {"tile_n", 32}, {"order", 1}, {"oder", 1}}),
              "the schedule space has no parameter 'oder'; did you mean 'order'?");
}

TEST(Space, EmptyOnesNameEachConstraintWithoutWhichTheyAreNot) {
    Space space;
    space.parameter("a", "a number", {1, 2}).parameter("b", "another", {1, 2});
    space.constraint("small", {"a"}, "It is small.", [](const Point &point) { return point["a"] == 1; })
        .constraint("large", {"a", "b"}, "It is large.", [](const Point &point) { return point["a"] + point["b"] == 4; })
        .constraint("any", {"b"}, "It is.", [](const Point &) { return true; });
    EXPECT_EQ(why_empty(space),
              "each point of its space violates the constraint 'small': It is small; or 'large': It is large.");
}

TEST(Space, ViolationAgreesWithBruteForce) {
    for (uint64_t seed = 0; seed < 100; seed++) {
        const Space space = random_space(seed);
        Space product = space;
        product.constraints.clear();
        const std::vector<Point> all = brute_force(space);
        const std::set<Point> valid(all.begin(), all.end());
        for (const Point &point : brute_force(product)) {
            ASSERT_EQ(violation(space, point).empty(), valid.contains(point));
        }
    }
}

TEST(Space, RestrictKeepsThePointsThatAgree) {
    const Space some = restrict_to(tiles(), {{"tile_n", 64}, {"order", 1}});
    EXPECT_EQ(enumerate(some), std::vector<Point>({Point{{"tile_m", 32}, {"tile_n", 64}, {"order", 1}},
                                                   Point{{"tile_m", 64}, {"tile_n", 64}, {"order", 1}}}));
    EXPECT_EQ(error_of([] { restrict_to(tiles(), {{"tile_n", 65}}); }), "tile_n = 65 is not one of the values 32, 64, 128");
    EXPECT_EQ(error_of([] {
                  restrict_to(tiles(), {{"tile_o", 64}});
              }),
              "the schedule space has no parameter 'tile_o'; did you mean 'tile_m'?");
}

TEST(Space, WrongDefinitionsAreRefused) {
    const auto always = [](const Point &) { return true; };
    EXPECT_EQ(error_of([] { check_space(Space().parameter("a", "", {1}).parameter("a", "", {1})); }),
              "the schedule space has two parameters 'a'");
    EXPECT_EQ(error_of([] { check_space(Space().parameter("a", "", {})); }),
              "the parameter 'a' of the schedule space has no values");
    EXPECT_EQ(error_of([] {
                  check_space(Space().parameter("a", "", {1, 2, 1}));
              }),
              "the parameter 'a' of the schedule space lists 1 twice");
    EXPECT_EQ(error_of([] { check_space(Space().parameter("tile m", "", {1})); }),
              "'tile m' is not the name of a parameter: letters, digits, '_' and '.' make one");
    EXPECT_THAT(error_of([] { check_space(Space().parameter("", "", {1})); }), HasSubstr("'' is not the name"));
    EXPECT_EQ(error_of([&] { check_space(Space().parameter("tile", "", {1}).constraint("c", {"tyle"}, "", always)); }),
              "the constraint 'c' is about an unknown parameter 'tyle'; did you mean 'tile'?");
    EXPECT_EQ(error_of([&] { check_space(Space().parameter("tile", "", {1}).constraint("c", {}, "", always)); }),
              "the constraint 'c' needs a predicate and the parameters that it is about");
    EXPECT_EQ(error_of([] { count(Space().parameter("a", "", {})); }), "the parameter 'a' of the schedule space has no values");
}

TEST(Space, AConstraintThatReadsMoreThanItDeclaresIsFound) {
    Space space;
    space.parameter("a", "", {1, 2}).parameter("b", "", {1, 2}).constraint("c", {"a"}, "", [](const Point &point) {
        return point["a"] == point["b"];
    });
    EXPECT_THAT(error_of([&] { count(space); }), HasSubstr("has no value for the parameter 'b'"));
}

TEST(Space, DescribeListsEverything) {
    EXPECT_EQ(describe(tiles()),
              "parameters:\n"
              "  tile_m  32 64 128  rows of the tile, in elements\n"
              "  tile_n  32 64 128  columns of the tile, in elements\n"
              "  order   0 1        the outer loop (a choice)\n"
              "constraints:\n"
              "  pad (tile_m, tile_n): A tile fits its pad.\n");
}

}  // namespace
}  // namespace atalla
