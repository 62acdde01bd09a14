// Lists of the matrix products that a model is made of: files like examples/shapes/bert-base.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace atalla {

// C[m,n] = A[m,k] B[k,n], all row-major in bf16.
struct ModelGemm {
    enum class Layout { KN, NK };  // how B is stored: as [k, n], or transposed as [n, k], as torch.nn.Linear does

    std::string name;  // layer and role, unique in its file
    int64_t m = 0, n = 0, k = 0;
    int64_t count = 1;  // how often the model runs it
    bool bias = false;  // a vector of n is added to every row
    Layout b = Layout::KN;
};

struct ModelShapes {
    std::string model;
    std::string source;  // where the shapes come from: architecture, sequence length, batch
    std::vector<ModelGemm> gemms;
};

// Reads {"model", "source", "gemms": [{"name", "m", "n", "k", "count", "bias", "b"}]}; count, bias and b ("kn" or "nk") may
// be left out. Error that names the file and the line of a syntax error, or the entry and key of a wrong value; an unknown
// key gets the nearest known one.
ModelShapes read_model_shapes(const std::filesystem::path &file);
// The same from text; `name` stands for the file in messages.
ModelShapes parse_model_shapes(const std::string &text, const std::string &name);

// The products alone.
std::vector<ModelGemm> read_shapes(const std::filesystem::path &file);

}  // namespace atalla
