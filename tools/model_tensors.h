// A model's tensors in .npy files.
#pragma once

#include <filesystem>

#include "graph_import/tensor.h"

namespace atalla {

// Of the file's element type; bf16 as write_npy() writes it. Error, naming the file, for a type that no model has.
HostTensor read_model_tensor(const std::filesystem::path &file);
void write_model_tensor(const std::filesystem::path &file, const HostTensor &tensor);

}  // namespace atalla
