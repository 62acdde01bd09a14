#include "tools/shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isa/error.h"
#include "tests/support/source_path.h"

namespace atalla {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const std::filesystem::path examples = source_path("examples/shapes");

ModelShapes parse(const std::string &gemms) {
    return parse_model_shapes("{\"model\": \"x\", \"source\": \"y\", \"gemms\": " + gemms + "}", "x.json");
}

auto refuse(const std::string &gemms) {
    return [=] { parse(gemms); };
}

struct Totals {
    int64_t multiplications = 0;
    int64_t weights = 0;  // of layers, not of attention
};

Totals totals(const std::string &file) {
    Totals sum;
    for (const ModelGemm &gemm : read_shapes(examples / file)) {
        sum.multiplications += gemm.m * gemm.n * gemm.k * gemm.count;
        sum.weights += gemm.name.find("per head") == std::string::npos ? gemm.n * gemm.k * gemm.count : 0;
    }
    return sum;
}

TEST(Shapes, ReadsAllKeys) {
    const ModelShapes shapes = parse(R"([{"name": "a", "m": 1, "n": 2, "k": 3, "count": 4, "bias": true, "b": "nk"},
                                         {"name": "b", "m": 5, "n": 6, "k": 7}])");
    EXPECT_EQ(shapes.model, "x");
    EXPECT_EQ(shapes.source, "y");
    ASSERT_EQ(shapes.gemms.size(), 2u);
    const ModelGemm &full = shapes.gemms[0], &defaults = shapes.gemms[1];
    EXPECT_EQ(full.name, "a");
    EXPECT_EQ((std::vector{full.m, full.n, full.k, full.count}), (std::vector<int64_t>{1, 2, 3, 4}));
    EXPECT_TRUE(full.bias);
    EXPECT_EQ(full.b, ModelGemm::Layout::NK);
    EXPECT_EQ(defaults.count, 1);
    EXPECT_FALSE(defaults.bias);
    EXPECT_EQ(defaults.b, ModelGemm::Layout::KN);
}

// Against the published parameter counts of the models, less what is not a matrix: embeddings, biases, normalization.
TEST(Shapes, HoldTheWeightsOfTheirModels) {
    constexpr int64_t hidden = 768, layers = 12, per_layer = 12 * hidden * hidden;
    EXPECT_EQ(totals("bert-base.json").weights, layers * per_layer + hidden * hidden);
    EXPECT_EQ(totals("gpt2.json").weights, layers * per_layer + 50257 * hidden);
    EXPECT_EQ(totals("vit-b-16.json").weights, layers * per_layer + 16 * 16 * 3 * hidden + 1000 * hidden);
    EXPECT_EQ(totals("resnet-50.json").weights, 25'557'032 - 53'120 - 1000);
    // Prefill and decoding use the same weights; 6,738,415,616 with embedding and 65 norms of 4096.
    EXPECT_EQ(totals("llama-7b.json").weights, 2 * (6'738'415'616 - 32000 * 4096 - 65 * 4096));
}

TEST(Shapes, HoldTheWorkOfTheirModels) {
    EXPECT_NEAR(static_cast<double>(totals("resnet-50.json").multiplications), 4.09e9, 0.01e9);
    EXPECT_NEAR(static_cast<double>(totals("vit-b-16.json").multiplications), 17.56e9, 0.01e9);
    EXPECT_NEAR(static_cast<double>(totals("bert-base.json").multiplications), 11.17e9, 0.01e9);
}

TEST(Shapes, NamesTheLineOfASyntaxError) {
    EXPECT_THAT([] { parse_model_shapes("{\n  \"model\": \"x\",\n  \"gemms\": [,]\n}\n", "x.json"); },
                ThrowsMessage<Error>(HasSubstr("x.json:3: this is not JSON: ")));
    EXPECT_THAT([] { parse_model_shapes("", "x.json"); }, ThrowsMessage<Error>(HasSubstr("x.json:1: ")));
    EXPECT_THAT([] { read_shapes("/nonexistent.json"); },
                ThrowsMessage<Error>(HasSubstr("/nonexistent.json: cannot be read: No such file")));
    EXPECT_THAT([] { read_shapes(""); }, ThrowsMessage<Error>(HasSubstr("a file is named by an empty text: give its path")));
    EXPECT_THAT([] { read_shapes("/"); }, ThrowsMessage<Error>(HasSubstr("/: cannot be read: Is a directory")));
}

TEST(Shapes, NamesTheEntryAndKeyOfAWrongValue) {
    EXPECT_THAT([] { parse_model_shapes("[]", "x.json"); }, ThrowsMessage<Error>("x.json: must be an object, not array"));
    EXPECT_THAT([] { parse_model_shapes("{\"model\": 3}", "x.json"); },
                ThrowsMessage<Error>("x.json: \"model\" must be a text that is not empty, not 3"));
    EXPECT_THAT([] { parse_model_shapes("{\"modl\": 3}", "x.json"); },
                ThrowsMessage<Error>("x.json: unknown key \"modl\"; did you mean \"model\"?"));
    EXPECT_THAT([] { parse_model_shapes("{\"x\": 3}", "x.json"); },
                ThrowsMessage<Error>("x.json: unknown key \"x\"; the keys are model, source, gemms"));
    EXPECT_THAT(refuse("[]"), ThrowsMessage<Error>("x.json: \"gemms\" must be a list of at least one product, not []"));
    EXPECT_THAT(refuse("[3]"), ThrowsMessage<Error>("x.json: gemms[0]: must be an object, not number"));
    EXPECT_THAT(refuse(R"([{"m": 1}])"), ThrowsMessage<Error>("x.json: gemms[0]: \"name\" is missing"));
    EXPECT_THAT(refuse(R"([{"name": "fc", "m": 1, "n": 2}])"),
                ThrowsMessage<Error>("x.json: gemms[0] (\"fc\"): \"k\" is missing"));
    for (const char *wrong : {"0", "-1", "1.5", "\"8\"", "18446744073709551615", "4294967297", "null"}) {
        EXPECT_THAT(refuse(std::string(R"([{"name": "fc", "m": )") + wrong + "}]"),
                    ThrowsMessage<Error>(
                        std::string("x.json: gemms[0] (\"fc\"): \"m\" must be an integer from 1 to 4294967296, not ") + wrong));
    }
    const auto entry = [](const std::string &rest) {
        return refuse(R"([{"name": "fc", "m": 1, "n": 2, "k": 3, )" + rest + "}]");
    };
    EXPECT_THAT(entry(R"("bias": 1)"), ThrowsMessage<Error>(HasSubstr("\"bias\" must be true or false, not 1")));
    EXPECT_THAT(entry(R"("b": "mn")"), ThrowsMessage<Error>(HasSubstr("\"b\" must be \"kn\" or \"nk\", not \"mn\"")));
    EXPECT_THAT(entry(R"("biass": true)"), ThrowsMessage<Error>(HasSubstr("unknown key \"biass\"; did you mean \"bias\"?")));
    EXPECT_THAT(refuse(R"([{"name": "a", "m": 1, "n": 1, "k": 1}, {"name": "a", "m": 1, "n": 1, "k": 1}])"),
                ThrowsMessage<Error>("x.json: gemms[1]: the name \"a\" is taken by an earlier product"));
}

}  // namespace
}  // namespace atalla
