// Pipelines of several operator families through the same passes: bit for bit what the host's JIT makes of the same schedule.
#include "tests/generators/pipelines.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "isa/machine.h"
#include "tests/generators/host_jit.h"
#include "tests/generators/kernel_check.h"

namespace atalla {
namespace {

using pipelines::Plane;

struct Case {
    std::string name;
    std::function<KernelDefinition()> kernel;
    bool any_pattern = false;     // element-wise: zeros, denormals, infinities and NaN too
    int steps = 15;
    float step = 0.25f;
    bool fits_fsim = true;
};

void PrintTo(const Case &c, std::ostream *out) { *out << c.name; }

class Pipelines : public testing::TestWithParam<Case> {};

TEST_P(Pipelines, EqualTheHost) {
    const Case &c = GetParam();
    std::mt19937 random(1);
    const KernelDefinition reference = c.kernel();
    std::vector<TensorData> inputs;
    for (const TensorSpec &tensor : reference.inputs)
        inputs.push_back(c.any_pattern ? random_patterns(tensor, random) : random_tensor(tensor, random, c.steps, c.step));
    const std::vector<TensorData> expected = run_on_host(reference, inputs);
    for (const char *name : {"ax01", "ax01-psum", "fsim"}) {
        if (!c.fits_fsim && name == std::string("fsim")) continue;
        const Machine machine = find_machine(name);
        for (bool optimize : {false, true})
            expect_equal(reference, run_checked(reference, machine, optimize, inputs), expected, fmt::format("{}, optimize {}", name, optimize));
    }
}

INSTANTIATE_TEST_SUITE_P(Relu, Pipelines, testing::Values(
    Case{"whole", [] { return pipelines::relu({8, 64, 4}); }, true},
    Case{"tails", [] { return pipelines::relu({7, 50, 3}); }, true},
    Case{"one", [] { return pipelines::relu({1, 1, 1}); }, true},
    Case{"ring", [] { return pipelines::relu({12, 45, 2, true}); }, true}));
INSTANTIATE_TEST_SUITE_P(BiasAdd, Pipelines, testing::Values(
    Case{"whole", [] { return pipelines::bias_add({8, 64, 4}); }, true},
    Case{"tails", [] { return pipelines::bias_add({7, 50, 3}); }, true}));
INSTANTIATE_TEST_SUITE_P(Chain, Pipelines, testing::Values(
    Case{"whole", [] { return pipelines::exponential_chain({8, 64, 4}); }, true},
    Case{"tails", [] { return pipelines::exponential_chain({7, 50, 3}); }, true}));
INSTANTIATE_TEST_SUITE_P(Softmax, Pipelines, testing::Values(
    Case{"whole", [] { return pipelines::softmax({8, 64, 4}); }, false, 14, 0.25f},
    Case{"tails", [] { return pipelines::softmax({7, 50, 3}); }, false, 14, 0.25f},
    Case{"wide", [] { return pipelines::softmax({5, 200, 1}); }, false, 14, 0.25f, false},
    Case{"one", [] { return pipelines::softmax({1, 1, 1}); }, false, 14, 0.25f}));
INSTANTIATE_TEST_SUITE_P(Layernorm, Pipelines, testing::Values(
    Case{"whole", [] { return pipelines::layernorm({8, 64, 2}); }, false, 4, 0.5f},
    Case{"tails", [] { return pipelines::layernorm({7, 50, 2}); }, false, 4, 0.5f}));
INSTANTIATE_TEST_SUITE_P(Spread, Pipelines, testing::Values(
    Case{"whole", [] { return pipelines::spread({8, 64, 2}); }},
    Case{"tails", [] { return pipelines::spread({7, 50, 3}); }}));
INSTANTIATE_TEST_SUITE_P(Product, Pipelines, testing::Values(
    Case{"whole", [] { return pipelines::product({12, 64, 64, 4}); }, false, 15, 0.25f, false},
    Case{"tails", [] { return pipelines::product({13, 50, 45, 4, true}); }, false, 15, 0.25f, false},
    Case{"ring", [] { return pipelines::product({16, 20, 20, 4, false, true}); }, false, 15, 0.25f, false},
    Case{"one", [] { return pipelines::product({1, 1, 1, 1, false, false, 1}); }}));
INSTANTIATE_TEST_SUITE_P(Convolution, Pipelines, testing::Values(
    Case{"small", [] { return pipelines::convolution({3, 2, 5, 7}); }},
    Case{"image", [] { return pipelines::convolution({6, 5, 40, 33}); }, false, 15, 0.25f, false}));

}  // namespace
}  // namespace atalla
