// Pipelines of several operator families through the same passes: bit for bit what the host's JIT makes of the same schedule.
#include "tests/generators/pipelines.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "generators/host_jit.h"
#include "isa/machine.h"
#include "tests/generators/kernel_check.h"

namespace atalla {
namespace {

using pipelines::Plane;

struct Case {
    std::string name;
    std::function<KernelDefinition()> kernel;
    bool any_pattern = false;  // element-wise: zeros, denormals, infinities and NaN too
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
            expect_equal(reference, run_checked(reference, machine, optimize, inputs), expected,
                         fmt::format("{}, optimize {}", name, optimize));
    }
}

INSTANTIATE_TEST_SUITE_P(Relu, Pipelines,
                         testing::Values(Case{"whole",
                                              [] {
                                                  return pipelines::relu({8, 64, 4});
                                              },
                                              true},
                                         Case{"tails",
                                              [] {
                                                  return pipelines::relu({7, 50, 3});
                                              },
                                              true},
                                         Case{"one",
                                              [] {
                                                  return pipelines::relu({1, 1, 1});
                                              },
                                              true},
                                         Case{"ring",
                                              [] {
                                                  return pipelines::relu({12, 45, 2, true});
                                              },
                                              true},
                                         Case{"guard",
                                              [] {
                                                  return pipelines::relu({11, 45, 4, false, true});
                                              },
                                              true},
                                         Case{"guarded_ring",
                                              [] {
                                                  return pipelines::relu({11, 45, 4, true, true});
                                              },
                                              true}));
INSTANTIATE_TEST_SUITE_P(AtLeastOne, Pipelines,
                         testing::Values(Case{"checked",
                                              [] {
                                                  return pipelines::at_least_one({8, 64, 4});
                                              },
                                              true},
                                         Case{"unchecked",
                                              [] {
                                                  return pipelines::at_least_one({8, 64, 4, false, false, true});
                                              },
                                              true},
                                         Case{"unchecked_tails",
                                              [] {
                                                  return pipelines::at_least_one({23, 50, 6, false, false, true});
                                              },
                                              true},
                                         Case{"unchecked_ring",
                                              [] {
                                                  return pipelines::at_least_one({24, 96, 4, true, false, true});
                                              },
                                              true},
                                         Case{"unchecked_numbers", [] {
                                                  return pipelines::at_least_one({24, 96, 4, true, false, true});
                                              }}));
INSTANTIATE_TEST_SUITE_P(BiasAdd, Pipelines,
                         testing::Values(Case{"whole",
                                              [] {
                                                  return pipelines::bias_add({8, 64, 4});
                                              },
                                              true},
                                         Case{"tails",
                                              [] {
                                                  return pipelines::bias_add({7, 50, 3});
                                              },
                                              true}));
INSTANTIATE_TEST_SUITE_P(Chain, Pipelines,
                         testing::Values(Case{"whole",
                                              [] {
                                                  return pipelines::exponential_chain({8, 64, 4});
                                              },
                                              true},
                                         Case{"tails",
                                              [] {
                                                  return pipelines::exponential_chain({7, 50, 3});
                                              },
                                              true}));
INSTANTIATE_TEST_SUITE_P(Softmax, Pipelines,
                         testing::Values(Case{"whole",
                                              [] {
                                                  return pipelines::softmax({8, 64, 4});
                                              },
                                              false, 14, 0.25f},
                                         Case{"tails",
                                              [] {
                                                  return pipelines::softmax({7, 50, 3});
                                              },
                                              false, 14, 0.25f},
                                         Case{"wide",
                                              [] {
                                                  return pipelines::softmax({5, 200, 1});
                                              },
                                              false, 14, 0.25f, false},
                                         Case{"one",
                                              [] {
                                                  return pipelines::softmax({1, 1, 1});
                                              },
                                              false, 14, 0.25f}));
INSTANTIATE_TEST_SUITE_P(Layernorm, Pipelines,
                         testing::Values(Case{"whole",
                                              [] {
                                                  return pipelines::layernorm({8, 64, 2});
                                              },
                                              false, 4, 0.5f},
                                         Case{"tails",
                                              [] {
                                                  return pipelines::layernorm({7, 50, 2});
                                              },
                                              false, 4, 0.5f}));
INSTANTIATE_TEST_SUITE_P(Spread, Pipelines,
                         testing::Values(Case{"whole",
                                              [] {
                                                  return pipelines::spread({8, 64, 2});
                                              }},
                                         Case{"tails", [] {
                                                  return pipelines::spread({7, 50, 3});
                                              }}));
INSTANTIATE_TEST_SUITE_P(Product, Pipelines,
                         testing::Values(Case{"whole",
                                              [] {
                                                  return pipelines::product({12, 64, 64, 4});
                                              },
                                              false, 15, 0.25f, false},
                                         Case{"tails",
                                              [] {
                                                  return pipelines::product({13, 50, 45, 4, true});
                                              },
                                              false, 15, 0.25f, false},
                                         Case{"ring",
                                              [] {
                                                  return pipelines::product({16, 20, 20, 4, false, true});
                                              },
                                              false, 15, 0.25f, false},
                                         Case{"one", [] {
                                                  return pipelines::product({1, 1, 1, 1, false, false, 1});
                                              }}));
INSTANTIATE_TEST_SUITE_P(Convolution, Pipelines,
                         testing::Values(Case{"small",
                                              [] {
                                                  return pipelines::convolution({3, 2, 5, 7});
                                              }},
                                         Case{"image",
                                              [] {
                                                  return pipelines::convolution({6, 5, 40, 33});
                                              },
                                              false, 15, 0.25f, false}));

// ---- random shapes

struct Family {
    std::string name;
    std::function<KernelDefinition(std::mt19937 &)> kernel;
};

void PrintTo(const Family &family, std::ostream *out) { *out << family.name; }

int between(std::mt19937 &random, int low, int high) {
    return low + static_cast<int>(random() % static_cast<uint32_t>(high - low + 1));
}

// Often at the edges of whole vectors.
int size(std::mt19937 &random, int largest) {
    static const std::vector<int> edges = {1, 31, 32, 33, 63, 64, 65, 96};
    const int n = random() % 2 == 0 ? edges[random() % edges.size()] : between(random, 1, largest);
    return std::min(n, largest);
}
Plane plane(std::mt19937 &random) {
    Plane p{between(random, 1, 12), size(random, 150), 1, random() % 3 == 0, random() % 3 == 0};
    p.step = between(random, 1, p.rows);
    return p;
}

class RandomShapes : public testing::TestWithParam<Family> {};

TEST_P(RandomShapes, OptimizedEqualsUnoptimized) {
    constexpr int shapes = 16;
    const std::vector<Machine> machines = {find_machine("ax01"), find_machine("ax01-psum")};
    std::mt19937 random(11);
    for (int i = 0; i < shapes; i++) {
        SCOPED_TRACE(fmt::format("shape {}", i));
        const KernelDefinition kernel = GetParam().kernel(random);
        std::vector<TensorData> inputs;
        for (const TensorSpec &tensor : kernel.inputs) inputs.push_back(random_patterns(tensor, random));
        const Machine &machine = machines[static_cast<size_t>(i) % machines.size()];
        const std::vector<TensorData> plain = run_checked(kernel, machine, false, inputs);
        ASSERT_FALSE(plain.empty());
        expect_equal(kernel, run_checked(kernel, machine, true, inputs), plain, machine.name);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Families, RandomShapes,
    testing::Values(Family{"relu", [](std::mt19937 &random) { return pipelines::relu(plane(random)); }},
                    Family{"bias_add", [](std::mt19937 &random) { return pipelines::bias_add(plane(random)); }},
                    Family{"exponential_chain",
                           [](std::mt19937 &random) { return pipelines::exponential_chain(plane(random)); }},
                    Family{"softmax", [](std::mt19937 &random) { return pipelines::softmax(plane(random)); }},
                    Family{"layernorm", [](std::mt19937 &random) { return pipelines::layernorm(plane(random)); }},
                    Family{"spread", [](std::mt19937 &random) { return pipelines::spread(plane(random)); }},
                    Family{"product",
                           [](std::mt19937 &random) {
                               pipelines::Product p{between(random, 1, 40), size(random, 100), size(random, 150), 1,
                                                    random() % 2 == 0,      random() % 2 == 0};
                               p.step = between(random, 1, p.m);
                               return pipelines::product(p);
                           }},
                    Family{"convolution",
                           [](std::mt19937 &random) {
                               return pipelines::convolution(
                                   {between(random, 1, 6), between(random, 1, 6), size(random, 70), size(random, 70)});
                           }}),
    [](const auto &info) { return info.param.name; });

}  // namespace
}  // namespace atalla
