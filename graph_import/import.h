// Reads a model that torch.export.save wrote.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "graph_import/graph.h"

namespace atalla {

struct ImportOptions {
    std::string model;       // which of several models in one archive; empty: the only one, or the one called "model"
    bool check_data = true;  // compare the weights with the archive's checksums
};

struct ImportedModel {
    Graph graph;
    std::string torch_version;   // that wrote it, "2.13.0+cpu"
    std::string schema_version;  // "8.20"
    std::string dialect;         // "ATEN" after decompositions, "TRAINING" for a plain export
};

// Archives of PyTorch 2.9 and newer, schema major 8. Weights are mapped, not copied, and live as long as the graph's tensors.
// Error, naming the file, for everything that cannot be read right: another file, a damaged or hostile archive, a schema or
// container that is not known, a plain export that mutates or uses autocast (its remedy is `run_decompositions({})`).
// Operators are not judged here: an import of unknown ones succeeds, support.h reports on them.
ImportedModel import_model(const std::filesystem::path &file, const ImportOptions &options = {});
// The same from bytes, which are copied; `name` stands for the file in messages.
ImportedModel import_model(std::span<const std::byte> bytes, std::string_view name, const ImportOptions &options = {});

}  // namespace atalla
