// Operators that are taken apart give what PyTorch gave, and none of them is left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph_import/interpret.h"
#include "graph_import/passes.h"
#include "graph_import/support.h"
#include "tests/graph_import/fixtures.h"

namespace atalla {
namespace {

TEST(Decompose, GivesWhatPyTorchGave) {
    // clang-format off
    const std::set<std::string> left = {
        "aten::addcmul", "aten::addcdiv", "aten::lerp.Scalar", "aten::lerp.Tensor", "aten::prelu", "aten::_prelu_kernel",
        "aten::selu", "aten::celu", "aten::log_sigmoid", "aten::threshold", "aten::glu", "aten::outer",
        "aten::var", "aten::var.dim", "aten::std", "aten::std.dim", "aten::std.correction", "aten::linalg_vector_norm",
        "aten::logsumexp", "aten::max.dim", "aten::min.dim", "aten::adaptive_max_pool2d", "aten::repeat", "aten::tile",
        "aten::repeat_interleave.self_int", "aten::unfold", "aten::pixel_shuffle", "aten::pixel_unshuffle",
        "aten::select_scatter", "aten::slice_scatter", "aten::copy", "aten::square", "aten::channel_shuffle",
        "aten::upsample_nearest2d.vec", "aten::upsample_bilinear2d.vec", "aten::upsample_bicubic2d.vec", "aten::pad",
        "aten::conv_transpose1d", "aten::conv_transpose2d.input", "aten::einsum", "aten::_transformer_encoder_layer_fwd",
        "aten::_grouped_mm", "transformers::grouped_mm_fallback", "aten::conv3d", "aten::conv3d.padding", "aten::cdist",
        "aten::bilinear", "aten::im2col", "aten::max_pool3d", "aten::avg_pool3d", "aten::adaptive_avg_pool3d",
        "aten::_adaptive_avg_pool3d", "aten::adaptive_max_pool1d", "aten::adaptive_max_pool3d", "aten::std_mean.dim",
        "aten::var_mean.dim", "aten::var_mean", "aten::var_mean.correction", "aten::std_mean.correction",
        "aten::_upsample_nearest_exact1d.vec", "aten::_upsample_nearest_exact2d.vec", "aten::_upsample_bilinear2d_aa.vec",
        "aten::_upsample_bicubic2d_aa.vec", "aten::upsample_nearest1d.vec", "aten::upsample_linear1d.vec",
        "aten::upsample_nearest3d.vec", "aten::upsample_trilinear3d.vec", "aten::clamp.Tensor", "aten::clamp_min.Tensor",
        "aten::masked_fill.Tensor", "aten::sign", "aten::sgn", "aten::log2", "aten::log10", "aten::tril", "aten::triu",
        "aten::dist", "aten::view_as_complex", "aten::view_as_real", "aten::polar", "aten::complex", "aten::_fft_r2c",
        "aten::_fft_c2c", "aten::_fft_c2r"};
    // clang-format on
    const Fixtures fixtures("decompositions");
    std::set<std::string> seen;
    for (const Fixture &fixture : fixtures.all()) {
        Graph graph = fixtures.import(fixture).graph;
        for (const Node &node : graph.nodes) seen.insert(node.target);
        PassOptions options;
        options.after = [&](const Pass &pass, int, const Graph &now) {
            if (pass.name == "canonicalize" || pass.name == "complex") return;  // the interpreter does not know all of them
            if (pass.name == "decompose") {
                for (const Node &node : now.nodes)
                    EXPECT_FALSE(
                        (left.contains(node.target) && !(node.target == "aten::pad" && node.string("mode") == "constant")) ||
                        (fixture.name == "volume_core" && node.target == "aten::convolution"))
                        << fixture.name << ": " << node.target;
            }
            const Interpretation result = interpret(now, fixture.inputs);
            ASSERT_EQ(result.outputs.size(), fixture.outputs.size()) << fixture.name;
            for (size_t i = 0; i < fixture.outputs.size(); i++)
                EXPECT_LE(difference(*result.outputs[i], fixture.outputs[i]), 3e-6)
                    << fixture.name << " after " << pass.name << ", output " << i;
        };
        run_passes(graph, options);
    }
    for (const std::string &target : left) {
        if (target == "aten::_prelu_kernel" || target == "aten::std" || target == "aten::var")
            continue;  // other names, which PyTorch does not write here
        EXPECT_TRUE(seen.contains(target)) << target << " has no fixture";
    }
}

TEST(Decompose, IsSaidByTheSupportReport) {
    const Fixtures fixtures("decompositions");
    for (const char *name : {"celu", "glu", "einsum_dots", "transposed_tiles"}) {
        const SupportReport report = support_report(fixtures.import(fixtures.find(name)).graph, {&host_registry()});
        EXPECT_TRUE(report.runnable()) << name;
        EXPECT_GE(report.count(SupportKind::Parts), 1) << name;
    }
    // Weights that are not known keep a transposed convolution whole.
    const Fixtures scenarios("scenarios");
    EXPECT_EQ(support_report(scenarios.import(scenarios.find("conv_transpose2d")).graph, {&host_registry()})
                  .count(SupportKind::Parts),
              0);
}

}  // namespace
}  // namespace atalla
