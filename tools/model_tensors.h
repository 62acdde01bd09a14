// A model's tensors in .npy files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "graph_import/tensor.h"
#include "runtime/loadable_generated.h"

namespace atalla {

// Of the file's element type; bf16 as write_npy() writes it. Error, naming the file, for a type that no model has.
HostTensor read_model_tensor(const std::filesystem::path &file);
void write_model_tensor(const std::filesystem::path &file, const HostTensor &tensor);

using Ports = flatbuffers::Vector<flatbuffers::Offset<loadable::Port>>;
// A file for each port, empty where none is given: "name=file", or a file alone for the next port in order. Error for a name
// that no port has and for too many. `what` is "input" or "output".
std::vector<std::filesystem::path> port_files(const std::vector<std::string> &given, const Ports &ports, std::string_view what);

}  // namespace atalla
