// atalla-run from outside: tensors in, tensors out, and what it refuses.
#include <gmock/gmock.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "generators/evaluate.h"
#include "generators/registry.h"
#include "tests/tools/tool_fixture.h"
#include "tools/npy.h"

namespace atalla {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Run : public testing_tools::Tool {
protected:
    Output run_gemm(const std::string &arguments) const { return run(ATALLA_RUN_TOOL, "--op gemm " + arguments); }

    std::string refusal(const std::string &arguments) const {
        const Output output = run_gemm(arguments);
        EXPECT_EQ(output.status, 1);
        EXPECT_FALSE(std::filesystem::exists(file("C.npy")));
        return output.error;
    }

    // Random tensors of a workload, as files a.npy, b.npy, ...
    std::vector<TensorData> write_inputs(const Workload &workload, NpyType type, const std::vector<std::string> &names) const {
        std::vector<TensorData> inputs = random_inputs(workload.inputs(), DataSet::Normal, 9);
        const std::vector<TensorSpec> tensors = workload.inputs();
        for (size_t i = 0; i < inputs.size(); i++)
            write_npy(file(names[i]), std::vector<int64_t>(tensors[i].extents.rbegin(), tensors[i].extents.rend()), inputs[i],
                      type);
        return inputs;
    }
};

TEST_F(Run, TunesFirstAndThenNoMore) {
    const Machine machine = find_machine("ax01");
    const auto workload = find_operator("gemm").workload({{"shape", "40x64x96"}, {"bias", "true"}, {"relu", "true"}});
    const std::vector<TensorData> inputs = write_inputs(*workload, NpyType::Bf16, {"A.npy", "B.npy", "bias.npy"});
    const Output first = run_gemm("--a A.npy --b B.npy --bias bias.npy --relu -o C.npy");
    EXPECT_EQ(first.status, 0) << first.error;
    EXPECT_THAT(first.error, HasSubstr("x.db has no verified schedule for gemm 40x64x96, bias, relu on ax01: tuning first\n"));
    const NpyTensor result = read_npy(file("C.npy"));
    EXPECT_EQ(result.shape, (std::vector<int64_t>{40, 64}));
    EXPECT_EQ(result.stored_as, "<V2");
    EXPECT_EQ(difference(workload->outputs()[0], result.values, workload->host_result(machine, inputs)[0]), "");

    const Output second = run_gemm("--a A.npy --b B.npy --bias bias.npy --relu -o D.npy --json");
    EXPECT_EQ(second.error, "");
    EXPECT_EQ(json::parse(second.out)["shape"], "40x64x96");
    EXPECT_GE(json::parse(second.out)["cycles"], json::parse(second.out)["bound_cycles"]);
    EXPECT_EQ(read("D.npy"), read("C.npy"));
}

TEST_F(Run, ModelsAreKnownByTheirFilesWhereverTheyStand) {
    const Output exported = run(ATALLA_RUN_TOOL, "--input x.npy model.pt2"),
                 missing = run(ATALLA_RUN_TOOL, "--input x.npy model.atl");
    EXPECT_EQ(exported.status, 1);
    EXPECT_THAT(exported.error,
                HasSubstr("model.pt2 is not compiled: ./atalla compile model.pt2 -o MODEL.atl makes what runs"));
    EXPECT_THAT(missing.error, HasSubstr("model.atl: cannot be read: No such file"));
}

TEST_F(Run, FloatsComeOutAsFloats) {
    const auto workload = find_operator("gemm").workload({{"shape", "32x32x32"}});
    write_inputs(*workload, NpyType::Float32, {"A.npy", "B.npy"});
    EXPECT_EQ(run_gemm("--a A.npy --b B.npy -o C.npy --quiet").status, 0);
    EXPECT_EQ(read_npy(file("C.npy")).stored_as, "<f4");
    EXPECT_EQ(run_gemm("--a A.npy --b B.npy -o D.npy --type bf16 --quiet").status, 0);
    EXPECT_EQ(read_npy(file("D.npy")).stored_as, "<V2");
    EXPECT_EQ(read_npy(file("D.npy")).values, read_npy(file("C.npy")).values);
}

TEST_F(Run, ResultsHaveTheDimensionsOfPyTorch) {
    using Sizes = std::vector<int64_t>;
    const auto result = [&](const std::string &op, const std::vector<Sizes> &tensors) {
        std::string files;
        for (const Sizes &sizes : tensors) {
            int64_t elements = 1;
            for (const int64_t size : sizes) elements *= size;
            const std::string name = fmt::format("{}.npy", files.size());
            write_npy(file(name), sizes, std::vector<uint16_t>(static_cast<size_t>(elements), 0x3f80), NpyType::Bf16);
            files += " " + name;
        }
        const Output output = run(ATALLA_RUN_TOOL, fmt::format("--op {}{} -o y.npy --machine fsim --quiet", op, files));
        EXPECT_EQ(output.status, 0) << output.error;
        return read_npy(file("y.npy")).shape;
    };
    EXPECT_EQ(result("conv1d", {{2, 3, 18}, {8, 3, 2}}), (Sizes{2, 8, 17}));
    EXPECT_EQ(result("conv1d", {{3, 18}, {8, 3, 2}}), (Sizes{8, 17}));
    EXPECT_EQ(result("conv2d", {{2, 3, 6, 7}, {4, 3, 3, 3}}), (Sizes{2, 4, 4, 5}));
    EXPECT_EQ(result("conv2d --groups 3", {{1, 3, 6, 7}, {3, 1, 3, 3}}), (Sizes{1, 3, 4, 5}));
    EXPECT_EQ(result("scaled_dot_product_attention", {{1, 9, 8}, {1, 7, 8}, {1, 7, 8}}), (Sizes{1, 9, 8}));
    EXPECT_EQ(result("linear", {{2, 3, 8}, {5, 8}}), (Sizes{2, 3, 5}));
    EXPECT_EQ(result("matmul", {{8}, {8}}), Sizes());
    EXPECT_EQ(result("sum --dim 0", {{4}}), Sizes());
    EXPECT_EQ(result("relu", {{}}), Sizes());
    EXPECT_EQ(result("select --dim 0 --index 1", {{4}}), Sizes());
}

// PyTorch's weights, in the order that the kernel reads: on fsim there is no other kernel, on ax01 it takes fewer cycles.
TEST_F(Run, ArrangesWeightsUnlessToldHowTheyLie) {
    const auto workload = find_operator("conv2d").workload({{"shape", "1x3x8x8,4x3x3x3"}});
    const std::vector<TensorData> inputs = write_inputs(*workload, NpyType::Bf16, {"x.npy", "w.npy"});
    const auto convolve = [&](const std::string &arguments) {
        return run(ATALLA_RUN_TOOL, "--op conv2d x.npy w.npy -o y.npy --json " + arguments);
    };
    for (const char *machine : {"fsim", "ax01"}) {
        const Output output = convolve(fmt::format("--machine {}", machine));
        ASSERT_EQ(output.status, 0) << output.error;
        const NpyTensor result = read_npy(file("y.npy"));
        EXPECT_EQ(result.shape, (std::vector<int64_t>{4, 6, 6}));
        EXPECT_LE(largest_error_ulps(result.values, workload->reference(inputs)[0]), workload->tolerance_ulps()) << machine;
    }
    const Output given = convolve("--machine ax01 --weight-layout oihw"), arranged = convolve("--machine ax01");
    EXPECT_LT(json::parse(arranged.out)["cycles"], json::parse(given.out)["cycles"]);
    EXPECT_THAT(convolve("--machine fsim --weight-layout oihw").error, HasSubstr("has no schedule on machine fsim"));
}

TEST_F(Run, RefusesTensorsThatDoNotFit) {
    const std::vector<uint16_t> values(64, 0);
    write_npy(file("a.npy"), std::vector<int64_t>{4, 8}, std::vector<uint16_t>(32), NpyType::Bf16);
    write_npy(file("b.npy"), std::vector<int64_t>{8, 4}, std::vector<uint16_t>(32), NpyType::Bf16);
    write_npy(file("flat.npy"), std::vector<int64_t>{32}, std::vector<uint16_t>(32), NpyType::Bf16);
    write("text.npy", "not a tensor");
    EXPECT_EQ(refusal("--a a.npy --b b.npy -o C.npy"),
              "atalla-run: gemm: b of 8x4 does not fit a of 4x8: stored as nk it must have 8 columns; stored as kn it fits: "
              "--b-layout kn\n");
    EXPECT_EQ(refusal("--a flat.npy --b b.npy -o C.npy"), "atalla-run: gemm: a must have 2 dimensions, not 1\n");
    EXPECT_THAT(refusal("--a a.npy -o C.npy"), HasSubstr("gemm needs --b: B, of n x k"));
    EXPECT_THAT(refusal("--a a.npy --b none.npy -o C.npy"), HasSubstr("none.npy"));
    EXPECT_THAT(refusal("--a a.npy --b text.npy -o C.npy"), HasSubstr("text.npy"));
    EXPECT_THAT(refusal("--a a.npy --b a.npy"), HasSubstr("--output is required"));
}

}  // namespace
}  // namespace atalla
