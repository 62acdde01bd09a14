// What the passes make of a few small kernels, as text. With ATALLA_UPDATE_GOLDEN set the files are written anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>

#include "codegen/compile.h"
#include "isa/machine.h"
#include "tests/generators/pipelines.h"
#include "tests/support/source_path.h"

namespace atalla {
namespace {

// Halide numbers names through the whole process.
std::string without_numbers_of_names(const std::string &text) {
    static const std::regex number("\\$[0-9]+");
    return std::regex_replace(text, number, "");
}

std::string dump(const KernelDefinition &kernel, const std::string &machine_name) {
    const Machine machine = find_machine(machine_name);
    std::string text;
    codegen::CompileOptions options;
    options.dump_after = "all";
    options.dump = [&](const std::string &pass, const std::string &dumped) {
        if (pass == "match" || pass == "overlap" || pass == "pack")
            text += "---- " + pass + "\n" + without_numbers_of_names(dumped);
    };
    codegen::compile(kernel.pipeline, kernel.arguments, machine, kernel.compile_options(options));
    return text;
}

struct Golden {
    std::string name, machine;
    std::function<KernelDefinition()> kernel;
};

void PrintTo(const Golden &golden, std::ostream *out) { *out << golden.name; }

class GoldenText : public testing::TestWithParam<Golden> {};

TEST_P(GoldenText, IsAsRecorded) {
    const Golden &golden = GetParam();
    const std::filesystem::path file = source_path("tests/codegen/golden") / (golden.name + ".txt");
    const std::string actual = dump(golden.kernel(), golden.machine);
    if (std::getenv("ATALLA_UPDATE_GOLDEN") != nullptr) std::ofstream(file) << actual;
    std::ifstream input(file);
    ASSERT_TRUE(input.good()) << file << " is missing; run this test with ATALLA_UPDATE_GOLDEN=1";
    std::ostringstream expected;
    expected << input.rdbuf();
    EXPECT_EQ(actual, expected.str())
        << "if the change is meant, run this test with ATALLA_UPDATE_GOLDEN=1 and look at the difference in " << file;
}

INSTANTIATE_TEST_SUITE_P(Kernels, GoldenText,
                         testing::Values(Golden{"relu", "ax01",
                                                [] {
                                                    return pipelines::relu({3, 40, 2});
                                                }},
                                         Golden{"relu_ring", "ax01",
                                                [] {
                                                    return pipelines::relu({8, 32, 2, true});
                                                }},
                                         Golden{"softmax", "ax01",
                                                [] {
                                                    return pipelines::softmax({1, 40, 1});
                                                }},
                                         Golden{"product", "ax01",
                                                [] {
                                                    return pipelines::product({4, 32, 64, 4});
                                                }},
                                         Golden{"product_partial_sums", "ax01-psum",
                                                [] {
                                                    return pipelines::product({4, 32, 64, 4, true});
                                                }},
                                         Golden{"product_fsim", "fsim",
                                                [] {
                                                    return pipelines::product({1, 8, 20, 1, true, false, 1});
                                                }}),
                         [](const auto &info) { return info.param.name; });

}  // namespace
}  // namespace atalla
