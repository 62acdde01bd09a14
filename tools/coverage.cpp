#include "tools/coverage.h"

#include <map>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "generators/registry.h"

namespace atalla {

namespace {

// The overloads of 31 model families exported with PyTorch 2.13: in the functional form, and those that the core form adds.
constexpr const char *functional =
    "add.Tensor sym_size.int view linear clone mul.Tensor transpose.int scaled_dot_product_attention arange expand "
    "_assert_tensor_metadata unsqueeze embedding _to_copy index.Tensor layer_norm __and__.Tensor new_ones conv2d gelu "
    "slice.Tensor cat "
    "ge.Scalar le.Tensor pow.Tensor_Scalar _unsafe_view alias mean.dim tanh relu rsqrt select.int sub.Tensor where.ScalarOther "
    "adaptive_avg_pool2d cos matmul neg silu sin softmax.int zeros _native_batch_norm_legit_no_training permute sigmoid cumsum "
    "gather "
    "ne.Scalar pad max_pool2d diff div.Tensor eq.Scalar eq.Tensor gt.Tensor hardtanh split.Tensor type_as _operator.mul abs "
    "adaptive_avg_pool1d addmm argmax avg_pool2d conv1d conv2d.padding full_like gt.Scalar log log_softmax.int lt.Scalar "
    "masked_fill.Scalar min.other roll where.self";
constexpr const char *core_only =
    "_softmax bmm any.dim arange.start_step logical_not mul.Scalar scalar_tensor full native_layer_norm bitwise_and.Tensor "
    "convolution mm "
    "constant_pad_nd max_pool2d_with_indices split_with_sizes _adaptive_avg_pool2d _log_softmax _operator.add as_strided "
    "fmod.Scalar "
    "index_select minimum squeeze.dims";

std::vector<std::string> words(const char *text) {
    std::istringstream stream(text);
    std::vector<std::string> list;
    for (std::string word; stream >> word;) list.push_back(word);
    return list;
}

struct Row {
    std::string schema, form, place, by;
};

std::vector<Row> rows() {
    std::map<std::string, std::vector<std::string>> operators_of;
    for (const Operator *op : operators())
        for (const std::string &schema : op->schemas()) operators_of[schema].push_back(op->name());
    std::vector<Row> list;
    for (const auto &[form, text] : {std::pair("functional", functional), {"core", core_only}})
        for (const std::string &schema : words(text)) {
            Row row{schema, form, place_name(Resolution::Unsupported), ""};
            const OperatorDecision *decision = find_decision(schema);
            if (const auto found = operators_of.find(schema); found != operators_of.end()) {
                row.place = place_name(Resolution::Accelerator);
                row.by = fmt::format("{}", fmt::join(found->second, ", "));
                if (decision != nullptr)
                    row.by += fmt::format("; otherwise {}: {}", place_name(decision->place), decision->reason);
            } else if (decision != nullptr) {
                row.place = place_name(decision->place);
                row.by = decision->reason;
            }
            list.push_back(std::move(row));
        }
    return list;
}

}  // namespace

nlohmann::ordered_json coverage_json() {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const Row &row : rows())
        all.push_back({{"schema", row.schema}, {"form", row.form}, {"place", row.place}, {"by", row.by}});
    return all;
}

std::string coverage_markdown() {
    const std::vector<Row> all = rows();
    std::map<std::string, int> counts, functional_counts;
    for (const Row &row : all) {
        counts[row.place]++;
        if (row.form == "functional") functional_counts[row.place]++;
    }
    std::string text =
        "# Where ATen overloads run\n\nThe overloads of the graphs that PyTorch 2.13 exports for 31 model families: those of "
        "the functional form, then those that only\n"
        "the core form has. `atalla ops --coverage` prints this page.\n\n| place | functional | both forms |\n| --- | --- | "
        "--- |\n";
    for (const auto &[place, count] : counts) text += fmt::format("| {} | {} | {} |\n", place, functional_counts[place], count);
    text +=
        "\n*accelerator*: a kernel of the named operator. *view*: costs nothing. *folded*: computed when the graph is "
        "compiled. *host*: on the host, for\n"
        "the reason given. *dropped*: an assertion.\n\n| overload | form | place | operator, or reason |\n| --- | --- | --- | "
        "--- |\n";
    for (const Row &row : all) text += fmt::format("| `{}` | {} | {} | {} |\n", row.schema, row.form, row.place, row.by);
    return text;
}

}  // namespace atalla
