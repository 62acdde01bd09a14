// The code generator's choices: no way gives other results, and only those that a kernel leaves open give another program.
#include "codegen/choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isa/disassembler.h"
#include "tests/generators/kernel_check.h"
#include "tests/generators/pipelines.h"
#include "tests/support/error_of.h"

namespace atalla {
namespace {

using codegen::Choice;
using codegen::Choices;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Choices, AreASetThatANumberHolds) {
    Choices some(Choice::FullTiles);
    some.add(Choice::FewPackets);
    EXPECT_THAT(some.list(), ElementsAre(Choice::FullTiles, Choice::FewPackets));
    EXPECT_EQ(Choices::from_bits(some.bits()).list(), some.list());
    EXPECT_EQ(some.words(), "full tiles, straight code in few packets");
    EXPECT_TRUE(Choices().empty());
    EXPECT_EQ(Choices().words(), "");
    for (const int64_t bits : {int64_t{-1}, int64_t{1} << codegen::choice_count})
        EXPECT_THAT(error_of([&] { Choices::from_bits(bits); }), HasSubstr("is no set of the code generator's choices"));
}

struct Kernel {
    std::string name;
    KernelDefinition (*make)();
};
void PrintTo(const Kernel &kernel, std::ostream *out) { *out << kernel.name; }

class EachChoice : public testing::TestWithParam<Kernel> {};

TEST_P(EachChoice, KeepsTheResultsAndTheProgramWhereItIsNotOpen) {
    const Machine machine = find_machine("ax01");
    KernelDefinition kernel = GetParam().make();
    std::mt19937 random(7);
    std::vector<TensorData> inputs;
    for (const TensorSpec &tensor : kernel.inputs) inputs.push_back(random_tensor(tensor, random, 64, 0.125F));
    const std::vector<TensorData> expected = run_checked(kernel, machine, true, inputs);
    const auto compiled = [&] {
        return codegen::compile(kernel.pipeline, kernel.arguments, machine, kernel.compile_options());
    };
    const codegen::CompiledKernel usual = compiled();
    const std::string program = disassemble(usual.program);
    int open = 0;
    for (size_t choice = 0; choice < codegen::choice_count; choice++) {
        kernel.choices = static_cast<Choice>(choice);
        const std::string what = kernel.choices.words();
        if (usual.open.contains(static_cast<Choice>(choice))) {
            open++;
            expect_equal(kernel, run_checked(kernel, machine, true, inputs), expected, what);
        } else {
            EXPECT_EQ(disassemble(compiled().program), program) << what;
        }
    }
    EXPECT_GT(open, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, EachChoice,
    testing::Values(
        Kernel{"relu", [] { return pipelines::relu({.rows = 256, .cols = 64, .step = 32, .ring = true}); }},
        Kernel{"softmax", [] { return pipelines::softmax({.rows = 64, .cols = 128, .step = 16, .ring = true}); }},
        Kernel{"layernorm", [] { return pipelines::layernorm({.rows = 64, .cols = 96, .step = 16}); }},
        Kernel{"product", [] { return pipelines::product({.m = 64, .n = 64, .k = 128, .step = 32, .ring = true}); }},
        Kernel{"convolution", [] { return pipelines::convolution({.width = 12, .height = 10, .ci = 32, .co = 32}); }}),
    [](const auto &info) { return info.param.name; });

}  // namespace
}  // namespace atalla
