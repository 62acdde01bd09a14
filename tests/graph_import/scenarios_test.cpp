// Every exported scenario imports, computes what PyTorch computed, and does so after the passes as well.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph_import/interpret.h"
#include "graph_import/passes.h"
#include "isa/error.h"
#include "tests/graph_import/fixtures.h"

namespace atalla {
namespace {

double tolerance(DType dtype) {
    switch (dtype) {
        case DType::BFloat16:
            return 0x1p-7;  // an intermediate rounding may go the other way
        case DType::Float16:
            return 0x1p-10;
        case DType::Float32:
            return 2e-6;
        case DType::Float64:
            return 1e-14;
        default:
            return 0;
    }
}

void expect_outputs(const Graph &graph, const Fixture &fixture, const std::string &what) {
    Interpretation result;
    try {
        result = interpret(graph, fixture.inputs);
    } catch (const Error &error) {
        ADD_FAILURE() << what << ": " << error.what();
        return;
    }
    std::vector<HostTensor> tensors;
    for (const auto &output : result.outputs) {
        if (output) tensors.push_back(*output);
    }
    ASSERT_EQ(tensors.size(), fixture.outputs.size()) << what;
    for (size_t i = 0; i < tensors.size(); i++) {
        EXPECT_LE(difference(tensors[i], fixture.outputs[i]), tolerance(tensors[i].dtype)) << what << ", output " << i;
    }
}

class Programs : public testing::TestWithParam<const char *> {};

TEST_P(Programs, ComputeWhatPyTorchComputed) {
    const Fixtures fixtures(GetParam());
    for (const Fixture &fixture : fixtures.all()) expect_outputs(fixtures.import(fixture).graph, fixture, fixture.name);
}

TEST_P(Programs, ComputeTheSameAfterThePasses) {
    const Fixtures fixtures(GetParam());
    for (const Fixture &fixture : fixtures.all()) {
        Graph graph = fixtures.import(fixture).graph;
        PassOptions options;
        options.after = [&](const Pass &pass, int changes, const Graph &now) {
            if (changes) expect_outputs(now, fixture, fixture.name + " after " + pass.name);
        };
        run_passes(graph, options);
    }
}

INSTANTIATE_TEST_SUITE_P(All, Programs, testing::Values("scenarios", "models"), [](const auto &info) { return info.param; });

TEST(Scenarios, AreMany) { EXPECT_GE(Fixtures("scenarios").all().size(), 200u); }

}  // namespace
}  // namespace atalla
