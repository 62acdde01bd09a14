// Schedules that were chosen are kept: the next compile takes them and makes the same program.
#include "model/schedule_cache.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generators/registry.h"
#include "isa/error.h"
#include "tests/model/graphs.h"

namespace atalla {
namespace {

class Cache : public testing::Test {
protected:
    void SetUp() override { std::filesystem::remove_all(folder); }
    void TearDown() override { std::filesystem::remove_all(folder); }

    const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "atalla_schedule_cache_test",
                                file = folder / "below" / "cache.jsonl";
    const Operator &op = find_operator("relu");
    const std::shared_ptr<const Workload> workload = op.workload_of({{"x", {16, 96}}}, {});

    // Of a set that may look into the file.
    ChosenKernel chosen(const char *machine = "ax01") {
        ScheduleCache cache(file);
        KernelOptions options;
        options.cache = &cache;
        KernelSet kernels(find_machine(machine), options);
        return kernels.kernels()[kernels.add(op, workload)];
    }
    std::string content() const {
        std::ifstream stream(file);
        return {std::istreambuf_iterator<char>(stream), {}};
    }
};

TEST_F(Cache, SavesTheChoice) {
    const ChosenKernel first = chosen();
    EXPECT_GT(first.cycles, 0);
    const std::string written = content();
    EXPECT_THAT(written, testing::HasSubstr("relu"));
    const ChosenKernel second = chosen();
    EXPECT_EQ(second.point, first.point);
    EXPECT_EQ(second.cycles, first.cycles);
    EXPECT_EQ(second.from, first.from);
    EXPECT_EQ(second.routine.program.packets.size(), first.routine.program.packets.size());
    EXPECT_EQ(content(), written);
}

TEST_F(Cache, IsWhatDecides) {
    const std::string key = std::to_string(KernelOptions().measured) + ": relu " + workload->text();
    const Point slow = workload->naive_point(find_machine("ax01"));
    ScheduleCache(file).keep(key, {"draft", slow, 12345, ""});
    EXPECT_EQ(chosen().point, slow);
    EXPECT_EQ(chosen().cycles, 12345);
    ScheduleCache(file).keep(key, {"", {}, 0, "nothing compiles"});
    EXPECT_THAT([&] { chosen(); }, testing::ThrowsMessage<Error>("nothing compiles"));
}

TEST_F(Cache, DamageIsPassedOver) {
    const Point good = chosen().point;
    for (const char *damage : {"{\"key\": \"4: re", "[]\n", "{\"key\": 3}\n", "\xff\xfe\n"}) {
        std::ofstream(file) << damage;
        EXPECT_EQ(chosen().point, good) << damage;
    }
    // A schedule that the space does not have.
    std::filesystem::remove(file);
    ScheduleCache(file).keep("4: relu " + workload->text(), {"draft", Point{{"nonsense", 1}}, 1, ""});
    EXPECT_EQ(chosen().point, good);
    // A folder in place of the file.
    std::filesystem::remove(file);
    std::filesystem::create_directories(file);
    EXPECT_EQ(chosen().point, good);
}

TEST_F(Cache, ModelsAreTheSameWithAndWithoutIt) {
    const Graph graph = [] {
        Graph made;
        made.name = "two";
        const ValueId x = add_input(made, "x", {8, 64}, GraphInput::Kind::User);
        const ValueId sum = add_node(made, "aten::add.Tensor", {{"self", x}, {"other", x}, {"alpha", SymInt(1)}}, {8, 64});
        const ValueId norm = add_node(made, "aten::softmax.int", {{"self", sum}, {"dim", SymInt(1)}}, {8, 64});
        GraphOutput output;
        output.value = add_node(made, "aten::relu", {{"self", norm}}, {8, 64});
        output.name = "y";
        made.outputs.push_back(output);
        return made;
    }();
    const auto bytes = [&](bool keeps) {
        ScheduleCache cache(file);
        CompileModelOptions options;
        options.kernels.cache = keeps ? &cache : nullptr;
        return compile_model(graph, find_machine("ax01"), options).bytes;
    };
    const std::vector<uint8_t> without = bytes(false);
    EXPECT_EQ(bytes(true), without);
    EXPECT_EQ(bytes(true), without) << "from the file";
}

}  // namespace
}  // namespace atalla
