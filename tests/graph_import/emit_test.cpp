// The forms of other tools, read by those tools where they are installed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "graph_import/emit.h"
#include "graph_import/passes.h"
#include "isa/error.h"
#include "tests/graph_import/fixtures.h"
#include "tests/support/shell.h"
#include "tests/support/source_path.h"

namespace atalla {
namespace {

bool has_program(const std::string &name) { return run_shell("command -v " + name).status == 0; }

class Emit : public testing::Test {
protected:
    std::filesystem::path folder = std::filesystem::temp_directory_path() / ("atalla_emit_" + std::to_string(getpid()));
    void SetUp() override { std::filesystem::create_directories(folder); }
    void TearDown() override { std::filesystem::remove_all(folder); }

    std::string written(const std::string &name, const std::string &text) const {
        std::ofstream(folder / name) << text;
        return (folder / name).string();
    }
};

TEST_F(Emit, MlirOptReadsEveryFixture) {
    if (!has_program("mlir-opt-19")) GTEST_SKIP() << "needs mlir-opt-19 of mlir-19-tools";
    // One file, split where mlir-opt is told to: one start for all.
    for (const char *archive : {"scenarios", "models"}) {
        const Fixtures fixtures(archive);
        std::string together;
        for (const Fixture &fixture : fixtures.all()) {
            Graph graph = fixtures.import(fixture).graph;
            together += emit_mlir(graph) + "// -----\n";
            run_passes(graph);
            together += emit_mlir(graph) + "// -----\n";
        }
        const Output outcome = run_shell("mlir-opt-19 --allow-unregistered-dialect --split-input-file -o /dev/null " +
                                         written(std::string(archive) + ".mlir", together));
        EXPECT_EQ(outcome.status, 0) << outcome.error.substr(0, 2000);
    }
}

TEST_F(Emit, MlirUsesNamedOperations) {
    const auto mlir = [](const char *name) {
        const Fixtures fixtures("scenarios");
        Graph graph = fixtures.import(fixtures.find(name)).graph;
        run_passes(graph);
        return emit_mlir(graph);
    };
    EXPECT_THAT(mlir("add"), testing::HasSubstr("arith.addf"));
    EXPECT_THAT(mlir("exp"), testing::HasSubstr("math.exp"));
    EXPECT_THAT(mlir("matmul"), testing::HasSubstr("linalg.matmul"));
    EXPECT_THAT(mlir("bmm"), testing::HasSubstr("linalg.batch_matmul"));
    EXPECT_THAT(mlir("permute"), testing::HasSubstr("linalg.transpose"));
    EXPECT_THAT(mlir("softmax"), testing::HasSubstr("\"aten.softmax.int\""));
    EXPECT_THAT(mlir("dynamic_batch"), testing::HasSubstr("tensor<?x5xf32>"));
}

TEST_F(Emit, Dot) {
    const Fixtures fixtures("models");
    const std::string dot = emit_dot(fixtures.import(fixtures.find("mlp")).graph);
    EXPECT_THAT(dot, testing::AllOf(testing::StartsWith("digraph \"model\" {"), testing::HasSubstr("[label=\"aten::gelu\"]")));
    if (!has_program("dot")) GTEST_SKIP() << "needs dot of graphviz to read it";
    EXPECT_EQ(run_shell("dot -Tsvg -o /dev/null " + written("graph.dot", dot)).status, 0);
}

TEST_F(Emit, TheTutorialComputesWhatPyTorchComputes) {
    Graph graph = import_model(source_path("examples/rpn-tutorial/double.pt2").string()).graph;
    const std::string before = emit_rpn(graph);
    run_passes(graph);
    const std::string after = emit_rpn(graph);
    EXPECT_THAT(before, testing::HasSubstr("la 2 *"));
    EXPECT_THAT(after, testing::HasSubstr("la la +"));
    if (!has_program("dc")) GTEST_SKIP() << "needs dc";
    EXPECT_EQ(run_shell("echo 5 | dc -f " + written("before.dc", before)).out, "13\n");
    EXPECT_EQ(run_shell("echo 5 | dc -f " + written("after.dc", after)).out, "13\n");
    EXPECT_EQ(run_shell("echo _2.5 | dc -f " + written("after.dc", after)).out, "-2.0\n");
}

TEST_F(Emit, RpnSaysWhatItCannotSay) {
    const Fixtures models("models"), scenarios("scenarios");
    const auto error = [](const Fixtures &fixtures, const char *name) -> std::string {
        try {
            emit_rpn(fixtures.import(fixtures.find(name)).graph);
        } catch (const Error &e) {
            return e.what();
        }
        return "";
    };
    EXPECT_THAT(error(models, "mlp"), testing::HasSubstr("RPN knows single numbers; p_0_weight is float32[16, 12]"));
    EXPECT_THAT(error(scenarios, "exp_scalar"), testing::HasSubstr("RPN cannot say aten::exp; it has add, sub"));
}

}  // namespace
}  // namespace atalla
