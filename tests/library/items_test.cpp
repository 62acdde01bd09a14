// Which operators' tensors fall into independent parts, and that a library serves other numbers of these bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>

#include "generators/evaluate.h"
#include "generators/registry.h"
#include "library/operator_dispatch.h"
#include "tools/independent_items.h"
#include "tools/library_build.h"

namespace atalla {
namespace {

using testing::ElementsAre;

std::vector<std::vector<int64_t>> shapes_of(const Workload &workload) {
    std::vector<std::vector<int64_t>> shapes;
    const nlohmann::json text = nlohmann::json::parse(workload.text());
    for (const nlohmann::json &tensor : text.at("tensors")) shapes.push_back(tensor.at(1).get<std::vector<int64_t>>());
    return shapes;
}

std::shared_ptr<const Workload> workload(const std::string &op, const WorkloadArguments &arguments) {
    return find_operator(op).workload(arguments);
}

IndependentItems items(const std::string &op, const WorkloadArguments &arguments) {
    const auto one = workload(op, arguments);
    return independent_items(*one, find_machine("ax01"), shapes_of(*one));
}

TEST(IndependentItems, AreFoundByExperiment) {
    EXPECT_EQ(items("relu", {{"shape", "6x4"}}).items, 24) << "each element by itself";
    EXPECT_EQ(items("add", {{"shape", "6x4,6x4"}}).items, 24);
    const IndependentItems broadcast = items("add", {{"shape", "6x4,4"}});
    EXPECT_EQ(broadcast.items, 6);
    EXPECT_THAT(broadcast.sliced, ElementsAre(true, false));
    EXPECT_EQ(items("softmax", {{"shape", "6x8"}}).items, 6);
    const IndependentItems norm = items("layer_norm", {{"shape", "6x8,8,8"}});
    EXPECT_EQ(norm.items, 6);
    EXPECT_THAT(norm.sliced, ElementsAre(true, false, false));
    const IndependentItems product = items("mm", {{"shape", "6x8,8x6"}});
    EXPECT_EQ(product.items, 6);
    EXPECT_THAT(product.sliced, ElementsAre(true, false));
    EXPECT_EQ(items("bmm", {{"shape", "3x4x5,3x5x4"}}).items, 3);
}

TEST(IndependentItems, AreNotSeenWherePartsDependOnEachOther) {
    EXPECT_EQ(items("sum", {{"shape", "6x8"}}).items, 0);
    EXPECT_EQ(items("transpose", {{"shape", "4x6x32"}, {"dim0", "0"}, {"dim1", "1"}}).items, 0);
}

// Libraries of unoptimized schedules, which need no tuning.
KernelLibrary library_of(const WorkloadList &list) {
    const std::filesystem::path file = std::filesystem::temp_directory_path() / fmt::format("atalla-items-{}.db", getpid());
    KernelLibrary library;
    {
        Database database(file);
        const Machine machine = find_machine("ax01");
        for (const ListedWorkload &listed : list.workloads) {
            Trial trial;
            trial.point = listed.workload->naive_point(machine);
            trial.status = Trial::Ok;
            trial.cycles = 1000;
            const TrialKey key{listed.op->name(), listed.workload->text(), machine.fingerprint(), compiler_fingerprint()};
            database.record_trial(key, trial);
            database.mark_verified(key, trial.point);
        }
        library = parse_library(library_bytes(build_library(list, machine, database).library));
    }
    for (const char *suffix : {"", "-wal", "-shm"}) std::filesystem::remove(file.string() + suffix);
    return library;
}

TEST(IndependentItems, ServeOtherShapesBitForBit) {
    struct Case {
        const char *op, *tuned, *called;
        int64_t runs;
    };
    const Case cases[] = {{"relu", "4x16", "3x5x7", 2},
                          {"softmax", "4x32", "2x5x32", 3},
                          {"layer_norm", "4x32,32,32", "9x32,32,32", 3},
                          {"mm", "8x32,32x32", "20x32,32x32", 3},
                          {"add", "4x32,32", "3x3x32,32", 3}};
    WorkloadList list;
    for (const Case &one : cases) list.add({&find_operator(one.op), workload(one.op, {{"shape", one.tuned}}), one.op, 1});
    const KernelLibrary library = library_of(list);
    ASSERT_EQ(library.kernels.size(), std::size(cases));
    const OperatorDispatch dispatch(library);
    for (const Case &one : cases) {
        const auto called = workload(one.op, {{"shape", one.called}});
        for (const DataSet set : {DataSet::Normal, DataSet::Special}) {
            const std::vector<TensorData> inputs = random_inputs(called->inputs(), set, 5);
            OperatorCall call{one.op, "{}", {}};
            const auto shapes = shapes_of(*called);
            for (size_t i = 0; i < shapes.size(); i++) call.inputs.push_back({shapes[i], inputs[i].data()});
            OperatorChoice choice;
            const std::vector<Bf16> results = dispatch.run(call, &choice);
            EXPECT_EQ(choice.runs, one.runs) << one.op;
            EXPECT_EQ(difference(called->outputs().front(), results.front(),
                                 called->host_result(find_machine("ax01"), inputs).front()),
                      "")
                << one.op;
        }
    }
}

}  // namespace
}  // namespace atalla
