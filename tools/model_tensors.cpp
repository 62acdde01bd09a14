#include "tools/model_tensors.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "isa/error.h"
#include "tools/npy.h"

namespace atalla {

namespace {

constexpr std::pair<std::string_view, DType> names[] = {
    {"<f4", DType::Float32},  {"<f8", DType::Float64},       {"<f2", DType::Float16}, {"<V2", DType::BFloat16},
    {"|V2", DType::BFloat16}, {"bfloat16", DType::BFloat16}, {"<i8", DType::Int64},   {"<i4", DType::Int32},
    {"<i2", DType::Int16},    {"|i1", DType::Int8},          {"|u1", DType::UInt8},   {"|b1", DType::Bool},
};

}  // namespace

std::vector<std::filesystem::path> port_files(const std::vector<std::string> &given, const Ports &ports,
                                              std::string_view what) {
    std::vector<std::filesystem::path> files(ports.size());
    std::vector<std::string> names;
    for (const auto *port : ports) names.push_back(port->name()->str());
    size_t next = 0;
    for (const std::string &text : given) {
        const size_t equals = text.find('=');
        const auto named = std::find(names.begin(), names.end(), text.substr(0, equals));
        size_t at = next;
        if (equals != std::string::npos) {
            if (named == names.end())
                throw Error(
                    fmt::format("the model has no {} '{}'; it has {}", what, text.substr(0, equals), fmt::join(names, ", ")));
            at = static_cast<size_t>(named - names.begin());
        } else {
            next++;
        }
        if (at >= files.size())
            throw Error(fmt::format("{} {}s are given, but the model has {}: {}", given.size(), what, files.size(),
                                    fmt::join(names, ", ")));
        files[at] = equals == std::string::npos ? text : text.substr(equals + 1);
    }
    return files;
}

HostTensor read_model_tensor(const std::filesystem::path &file) {
    const NpyArray array = read_npy_array(file);
    for (const auto &[descr, dtype] : names) {
        if (array.descr != descr) continue;
        HostTensor tensor = make_tensor(dtype, array.shape);
        if (!array.bytes.empty()) std::memcpy(mutable_data(tensor), array.bytes.data(), array.bytes.size());
        return tensor;
    }
    throw Error(fmt::format("{}: elements of type '{}' are not those of a model's tensor", file.string(), array.descr));
}

void write_model_tensor(const std::filesystem::path &file, const HostTensor &tensor) {
    const HostTensor dense = tensor.is_dense() ? tensor : dense_copy(tensor);
    for (const auto &[descr, dtype] : names) {
        if (dense.dtype != dtype) continue;
        const auto *bytes = reinterpret_cast<const uint8_t *>(dense.begin());
        const auto size = static_cast<size_t>(dense.elements() * element_bytes(dtype));
        write_npy_array(file,
                        {dense.sizes, std::string(descr), static_cast<size_t>(element_bytes(dtype)), {bytes, bytes + size}});
        return;
    }
    throw Error(fmt::format("{}: a tensor of {} cannot be written", file.string(), dtype_name(dense.dtype)));
}

}  // namespace atalla
