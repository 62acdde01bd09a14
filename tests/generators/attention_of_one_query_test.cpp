// Attention of a single query a head: its bound, its schedules, and heads that share their keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "generators/evaluate.h"
#include "generators/registry.h"
#include "schedules/random.h"
#include "tests/generators/sampled_point.h"

namespace atalla {
namespace {

constexpr const char *name = "scaled_dot_product_attention";

// Lanes may sum the values of a single query, whatever its kernel does: the bound has no work of the array for them, as it has
// of two queries.
TEST(AttentionOfOneQuery, ValuesAreNoWorkOfTheArrayInTheBound) {
    const auto array = [](const char *machine, int64_t queries, int64_t keys, int64_t width) {
        const Bound bound = find_operator(name)
                                .workload({{"shape", fmt::format("{0}x32,{1}x32,{1}x{2}", queries, keys, width)}})
                                ->bound(find_machine(machine));
        return std::ranges::find(bound.terms, "array", [](const auto &term) { return term.first; })->second;
    };
    for (const char *machine : {"ax01", "ax01-psum", "fsim"})
        for (const int64_t keys : {64, 20000}) {
            EXPECT_EQ(array(machine, 1, keys, 32), array(machine, 1, keys, 320)) << machine << " " << keys;
            EXPECT_LT(array(machine, 2, keys, 32), array(machine, 2, keys, 320)) << machine << " " << keys;
        }
}

// A single query for each head: keys and values in whole tiles and not, more and fewer of them than the softmax has in
// straight-line code, of one head, of several and of groups of heads, wherever these lie, with a mask for each head or for all.
TEST(AttentionOfOneQuery, RandomSchedules) {
    const WorkloadArguments inside = {{"heads-inside", "kv"}};
    struct Case {
        std::string shape;
        WorkloadArguments more;
    };
    const std::array<Machine, 2> machines = {find_machine("ax01"), find_machine("ax01-psum")};
    Random random(11);
    size_t number = 0;
    for (const Case &c : {Case{"12x1x64,12x128x64,12x128x64", {}}, Case{"1x64,1000x64,1000x64", {}}, Case{"1x7,1x7,1x7", {}},
                          Case{"3x1x128,3x352x128,3x352x33", {}}, Case{"4x1x33,4x77x33,4x77x64", {{"scale", "-0.3"}}},
                          Case{"2x1x96,2x544x96,2x544x40", {}}, Case{"3x1x40,3x70x40,3x70x33,1x70", {}},
                          Case{"2x3x1x20,2x3x96x20,2x3x96x20,2x1x1x96", {}}, Case{"1x4x1x20,1x70x4x20,1x70x4x20", inside},
                          Case{"2x1x3x64,2x256x3x64,2x256x3x64", {{"heads-inside", "qkvo"}}}}) {
        WorkloadArguments arguments = c.more;
        arguments["shape"] = c.shape;
        const Machine &machine = machines[number++ % machines.size()];
        SCOPED_TRACE(fmt::format("{} on {}", arguments["shape"], machine.name));
        const std::shared_ptr<const Workload> workload = find_operator(name).workload(arguments);
        EXPECT_NO_THROW(workload->space(machine).find("depth"));
        const Evaluator evaluator(workload, machine, number);
        for (int point = 0; point < 2; point++) check_sampled_point(*workload, machine, evaluator, random);
    }
}

// Heads of one query each that share keys and values run as the queries of one head, wherever these lie: the same program.
TEST(AttentionOfOneQuery, SharesKeys) {
    const WorkloadArguments shared = {{"enable-gqa", "true"}};
    struct Case {
        std::string shape, queries;
        WorkloadArguments more;
    };
    for (const Case &c :
         {Case{"6x1x20,2x70x20,2x70x20", "2x3x20,2x70x20,2x70x20", shared},
          Case{"5x6x1x20,5x2x70x20,5x2x70x20", "10x3x20,10x70x20,10x70x20", shared},
          Case{"6x1x20,1x70x20,1x70x20", "6x20,70x20,70x20", {}},
          Case{"6x1x20,2x70x20,2x70x20,6x1x70", "2x3x20,2x70x20,2x70x20,2x3x70", shared},
          Case{"1x1x6x20,1x70x2x20,1x70x2x20", "2x3x20,70x2x20,70x2x20", {{"enable-gqa", "true"}, {"heads-inside", "qkvo"}}}}) {
        SCOPED_TRACE(c.shape);
        WorkloadArguments arguments = c.more;
        arguments["shape"] = c.shape;
        const std::shared_ptr<const Workload> heads = find_operator(name).workload(arguments);
        arguments = {{"shape", c.queries}};
        if (c.more.count("heads-inside") > 0) arguments["heads-inside"] = "kv";
        const std::shared_ptr<const Workload> queries = find_operator(name).workload(arguments);
        for (const char *machine_name : {"ax01", "fsim"}) {
            const Machine machine = find_machine(machine_name);
            const Point point = heads->naive_point(machine);
            EXPECT_EQ(Evaluator(heads, machine).evaluate(point).cycles, Evaluator(queries, machine).evaluate(point).cycles);
            EXPECT_EQ(Evaluator(heads, machine).verify(point), "");
        }
    }
}

}  // namespace
}  // namespace atalla
