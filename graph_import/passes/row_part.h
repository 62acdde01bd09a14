// Which elements of a tensor a chain of views, transposes, selections and slices takes, and whether they are the same part of
// each row.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph_import/graph.h"

namespace atalla {

// Elements start to end - 1 of each row.
struct RowPart {
    int64_t start = 0, end = 0;
};

// Elements of a dense tensor as the axes of another: element (i, j, ...) is at offset + i * strides[0] + j * strides[1] + ...
class Places {
public:
    // All of a tensor of these sizes.
    explicit Places(const Sizes &sizes);

    // What a canonical view, permute, select or slice by steps of 1 leaves of them; nothing if the call is another one or has
    // no such strides.
    std::optional<Places> after(const Node &node, const Sizes &result) const;

    // If they are, in the order of memory, one part of each row of the tensor.
    std::optional<RowPart> part_of_rows(const Sizes &whole) const;

private:
    bool view_as(const Sizes &sizes);

    struct Axis {
        SymInt size, stride;
    };
    std::vector<Axis> axes_;
    SymInt offset_ = 0;
};

}  // namespace atalla
