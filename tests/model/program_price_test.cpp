// Fusions that are close alone are taken or not by what their program takes.
#include "model/program_price.h"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/fusion.h"
#include "runtime/bf16.h"
#include "tests/model/graphs.h"

namespace atalla {
namespace {

const std::vector<int64_t> sizes = {8, 64};

// Layers of linear and relu, with a softmax behind them.
Graph layers(int count) {
    Graph graph;
    ValueId x = add_input(graph, "x", sizes, GraphInput::Kind::User);
    for (int layer = 0; layer < count; layer++) {
        const ValueId weight = add_input(graph, "w" + std::to_string(layer), {64, 64}, GraphInput::Kind::Parameter,
                                         random_tensor({64, 64}, static_cast<unsigned>(layer), 0.3f));
        const ValueId product =
            add_node(graph, "aten::linear", {{"input", x}, {"weight", weight}, {"bias", std::monostate{}}}, sizes);
        x = add_node(graph, "aten::relu", {{"self", product}}, sizes);
    }
    GraphOutput output;
    output.value = add_node(graph, "aten::softmax.int", {{"self", x}, {"dim", SymInt(1)}}, sizes);
    output.name = "y";
    graph.outputs.push_back(output);
    return graph;
}

struct Outcome {
    bool chosen = false;  // the one fusion
    int64_t together = 0, apart = 0, cycles = 0;
    std::vector<uint16_t> result;
};

class ProgramPrice : public testing::Test {
protected:
    void SetUp() override { std::filesystem::remove(file); }
    void TearDown() override { std::filesystem::remove(file); }

    Outcome compiled(bool price_programs) const {
        ScheduleCache cache(file);
        CompileModelOptions options;
        options.price_programs = price_programs;
        options.kernels.measured = measured;
        options.kernels.cache = &cache;
        const CompiledModel model = compile_model(graph, machine, options);
        const auto &fusions = model.tables.specializations.at(0)->fusions;
        EXPECT_EQ(fusions.size(), 1u);
        ContextCounters counters;
        const HostTensor result = run(model, random_tensor(sizes, 3, 2), &counters);
        return {fusions.at(0)->chosen, fusions[0]->cycles, fusions[0]->apart, static_cast<int64_t>(counters.last.cycles),
                bf16_elements(result)};
    }
    std::string content() const {
        std::ifstream stream(file);
        return {std::istreambuf_iterator<char>(stream), {}};
    }

    static constexpr uint64_t measured = 2;
    const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "atalla_program_price_test.jsonl";
    const Machine machine = find_machine("ax01");
    const Graph graph = layers(1);
    const PlacedNode fused = find_fusions(graph, place_nodes(graph)).at(0).kernel;
    const std::string key = fmt::format("{}: {} {}", measured, fused.op->name(), fused.workload->text());
};

TEST_F(ProgramPrice, TakesWhatIsSlowerAlone) {
    const Outcome as_it_is = compiled(true);
    KeptSchedule schedule = *ScheduleCache(file).find(key);
    ASSERT_EQ(schedule.cycles, as_it_is.together);
    schedule.cycles = as_it_is.apart + 100;
    ScheduleCache(file).keep(key, schedule);
    const Outcome alone = compiled(false), in_program = compiled(true);
    EXPECT_FALSE(alone.chosen);
    EXPECT_TRUE(in_program.chosen);
    EXPECT_GT(in_program.together, in_program.apart);
    EXPECT_LT(in_program.cycles, alone.cycles);
    EXPECT_EQ(in_program.result, alone.result);
}

TEST_F(ProgramPrice, LeavesWhatIsFasterAlone) {
    const Outcome as_it_is = compiled(true);
    ScheduleCache(file).keep(key, {"draft", fused.workload->naive_point(machine), as_it_is.apart - 100, "", false});
    const Outcome alone = compiled(false), in_program = compiled(true);
    EXPECT_TRUE(alone.chosen);
    EXPECT_FALSE(in_program.chosen);
    EXPECT_LT(in_program.together, in_program.apart);
    EXPECT_LT(in_program.cycles, alone.cycles);
    EXPECT_EQ(in_program.result, alone.result);
}

TEST_F(ProgramPrice, LeavesWhatIsFarFromClose) {
    const Outcome as_it_is = compiled(true);
    KeptSchedule schedule = *ScheduleCache(file).find(key);
    schedule.cycles = as_it_is.apart + 100'000;
    ScheduleCache(file).keep(key, schedule);
    EXPECT_FALSE(compiled(true).chosen);
}

TEST_F(ProgramPrice, IsKept) {
    compiled(true);
    const std::string written = content();
    EXPECT_THAT(written, testing::HasSubstr("\"program\""));
    compiled(true);
    EXPECT_EQ(content(), written);
}

TEST_F(ProgramPrice, OfLongProgramsIsThatOfNeighbours) {
    constexpr int count = 12;
    const Graph deep = layers(count);
    const std::vector<PlacedNode> apart = place_nodes(deep);
    std::vector<PlacedNode> together = apart;
    for (const Fusion &fusion : find_fusions(deep, apart)) apply(fusion, together);
    KernelOptions options;
    options.measured = 1;
    KernelSet kernels(machine, options);
    ProgramPrices prices(kernels);
    for (const bool whole : {true, false}) {
        const ProgramPrices::Cost one = prices.cost(deep, together, whole), other = prices.cost(deep, apart, whole);
        int64_t rows = 0;
        for (const auto &[row, times] : other.rows) rows += times;
        EXPECT_EQ(rows, 1);
        EXPECT_LT(other.rows.size(), 2 * count) << "equal layers are simulated once";
        EXPECT_TRUE(prices.takes_less(one, other));
        EXPECT_FALSE(prices.takes_less(other, one));
        EXPECT_FALSE(prices.takes_less(one, one));
    }
}

}  // namespace
}  // namespace atalla
