// The tensors of an archive: parameters, buffers and constants, found through its two indexes.
#pragma once

#include <map>
#include <string>

#include "graph_import/archive.h"
#include "graph_import/json_view.h"
#include "graph_import/tensor.h"

namespace atalla {

// A tensor's sizes, strides and type as the archive writes them, without data.
struct StoredTensor {
    HostTensor tensor;    // its storage is null where there is no data
    std::string missing;  // why not
};

class WeightStore {
public:
    // `root` is the archive's folder with its slash, "" or "model/". Error if an index is there but cannot be read.
    WeightStore(const Archive &archive, std::string root, std::string model, bool check_data);

    // Of a parameter or persistent buffer (`constant` false), or of a constant or buffer that is not persistent. Both are
    // looked through. Error if no index has it or its payload is not what the index says.
    StoredTensor find(const std::string &name, bool constant);

private:
    struct Entry {
        std::string path;  // of the payload in the archive
        nlohmann::json meta;
        bool pickled = false;
    };
    void read_index(const std::string &folder, const std::string &model, std::map<std::string, Entry> &entries);
    std::shared_ptr<const Storage> payload(const std::string &path, DType dtype);

    const Archive &archive_;
    std::string root_;
    bool check_data_, swap_bytes_ = false;
    std::map<std::string, Entry> weights_, constants_;
    std::map<std::string, std::shared_ptr<const Storage>> payloads_;
};

}  // namespace atalla
