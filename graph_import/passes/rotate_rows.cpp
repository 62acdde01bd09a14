// Rows put together from parts of another tensor's rows, some of them negated, as rotary embeddings turn halves or every other
// element: a product with a matrix of 1, -1 and 0, which gives each element as it is. Elements that would be moved by several
// calls pass the array once.
#include <algorithm>
#include <optional>

#include "graph_import/decompositions/expansion.h"
#include "graph_import/infinities.h"
#include "graph_import/passes.h"
#include "graph_import/passes/row_slice.h"

namespace atalla {

namespace {

// The matrix of a longer row costs more than the movements.
constexpr int64_t longest_row = 128;

// Elements of a tensor's rows, each times `sign`.
struct RowPart {
    ValueId source;
    RowSlice slice;
    double sign = 1;
    int64_t count() const { return (slice.end - slice.start + slice.step - 1) / slice.step; }
};

std::optional<int64_t> row_length(const Graph &graph, ValueId id) {
    const Sizes &sizes = graph.type(id).sizes;
    return sizes.empty() || !sizes.back().is_constant() ? std::nullopt : std::optional(sizes.back().value());
}

std::optional<RowPart> row_part(const Graph &graph, const Rewriter &rewriter, ValueId id) {
    RowPart part;
    part.source = id;
    const Node *node = rewriter.producer(id);
    if (node != nullptr && node->target == "aten::neg") {
        part.sign = -1;
        part.source = node->tensor("self");
        node = rewriter.producer(part.source);
    }
    if (const std::optional<RowSlice> slice = node != nullptr ? row_slice(graph, *node) : std::nullopt) {
        part.source = node->tensor("self");
        part.slice = *slice;
    } else {
        part.slice.end = row_length(graph, part.source).value_or(0);
    }
    return part.count() > 0 ? std::optional(part) : std::nullopt;
}

// The parts that a call puts side by side, or element by element, along the last dimension; none if it is another call.
std::vector<RowPart> row_parts(const Graph &graph, const Rewriter &rewriter, const Node &node) {
    const auto last = static_cast<int64_t>(graph.type(node.outputs[0]).sizes.size()) - 1;
    if (const int64_t dim = node.integer("dim"); dim != -1 && dim != last) return {};
    std::vector<RowPart> parts;
    for (const ValueId id : node.tensors("tensors")) {
        const std::optional<RowPart> part = row_part(graph, rewriter, id);
        if (!part || (!parts.empty() && parts[0].source != part->source)) return {};
        parts.push_back(*part);
    }
    const bool turns = std::ranges::any_of(parts, [](const RowPart &part) { return part.sign < 0; });
    return turns ? parts : std::vector<RowPart>();
}

}  // namespace

int rotate_rows(Graph &graph) {
    // A product would spread them over the row.
    const std::vector<bool> infinities = intended_infinities(graph);
    const auto infinite = [&](ValueId id) {
        return static_cast<size_t>(id.index) < infinities.size() && infinities[static_cast<size_t>(id.index)];
    };
    Rewriter rewriter(graph);
    return rewriter.sweep([&](Node &node) {
        const bool stacked = node.target == "aten::stack";
        if ((!stacked && node.target != "aten::cat") || !is_floating(graph.type(node.outputs[0]).dtype)) return;
        const std::vector<RowPart> parts = row_parts(graph, rewriter, node);
        if (parts.empty()) return;
        const ValueId source = parts[0].source;
        int64_t results = 0;
        for (const RowPart &part : parts) results += part.count();
        const int64_t length = *row_length(graph, source);
        if (std::max(length, results) > longest_row || infinite(source) ||
            graph.type(source).dtype != graph.type(node.outputs[0]).dtype)
            return;
        // Each result's element of the source: parts one after the other, or the first of each, the second of each, ...
        std::vector<double> matrix;
        const auto add_row = [&](const RowPart &part, int64_t at) {
            matrix.resize(matrix.size() + static_cast<size_t>(length));
            matrix[matrix.size() - static_cast<size_t>(length - (part.slice.start + at * part.slice.step))] = part.sign;
        };
        if (stacked) {
            for (int64_t at = 0; at < parts[0].count(); at++)
                for (const RowPart &part : parts) add_row(part, at);
        } else {
            for (const RowPart &part : parts)
                for (int64_t at = 0; at < part.count(); at++) add_row(part, at);
        }
        Expansion e(graph, rewriter, node);
        const ValueId weight = e.constant("rotation", {results, length}, matrix);
        if (stacked) {
            Sizes rows = e.sizes(source);
            rows.back() = results;
            e.last_view(e.call("aten::linear", {{"input", source}, {"weight", weight}}, rows));
        } else {
            e.last("aten::linear", {{"input", source}, {"weight", weight}});
        }
        rewriter.count();
    });
}

}  // namespace atalla
