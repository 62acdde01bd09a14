// The signatures of ATen's operators: archives leave out arguments that have their default.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph_import/graph.h"

namespace atalla {

struct SchemaArgument {
    std::string name;
    std::string type;                   // "Tensor", "SymInt[2]", "Scalar", "bool?"
    std::optional<Argument> otherwise;  // the default
};

struct Schema {
    std::vector<SchemaArgument> arguments;
    std::vector<std::string> returns;  // types
};

// Of "aten::add.Tensor"; null if the operator is not one of ATen's, or one that no inference program has.
const Schema *find_schema(std::string_view target);

// "name(Tensor self, int dim=0) -> Tensor" without the name. Error if the text is not of this form.
Schema parse_schema(std::string_view text);

}  // namespace atalla
