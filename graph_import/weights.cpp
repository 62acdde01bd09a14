#include "graph_import/weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "isa/error.h"

namespace atalla {

namespace {

constexpr int64_t largest_index = int64_t{64} << 20;
constexpr int64_t strided_layout = 7;

std::vector<int64_t> plain_integers(const JsonView &sizes) {
    std::vector<int64_t> result;
    sizes.each([&](const JsonView &size) { result.push_back(size["as_int"].integer()); });
    return result;
}

std::shared_ptr<const Storage> swapped(const Storage &storage, int64_t component) {
    std::shared_ptr<std::byte[]> memory(new std::byte[std::max<int64_t>(storage.bytes, 1)]);
    std::copy(storage.data, storage.data + storage.bytes, memory.get());
    for (int64_t at = 0; at + component <= storage.bytes; at += component) {
        std::reverse(memory.get() + at, memory.get() + at + component);
    }
    return std::make_shared<Storage>(Storage{memory, memory.get(), storage.bytes});
}

}  // namespace

WeightStore::WeightStore(const Archive &archive, std::string root, std::string model, bool check_data)
    : archive_(archive), root_(std::move(root)), check_data_(check_data) {
    if (archive.has(root_ + "byteorder")) {
        const std::string order = archive.read_text(root_ + "byteorder", 16);
        if (order != "little" && order != "big")
            throw Error(fmt::format("{}: byte order '{}' is not known", archive.name(), order));
        swap_bytes_ = order == "big";
    }
    read_index("data/weights/", model, weights_);
    read_index("data/constants/", model, constants_);
}

void WeightStore::read_index(const std::string &folder, const std::string &model, std::map<std::string, Entry> &entries) {
    const bool constants = folder == "data/constants/";
    const std::string plain = fmt::format("{}{}{}_{}_config.json", root_, folder, model, constants ? "constants" : "weights");
    const std::string other =
        fmt::format("{}{}{}_model_{}_config.json", root_, folder, model, constants ? "constants" : "param");
    const std::string pickle = fmt::format("{}{}{}.pt", root_, folder, model);
    const std::string name = archive_.has(plain) || !archive_.has(other) ? plain : other;
    if (!archive_.has(name)) {
        if (archive_.has(pickle)) {
            throw Error(
                fmt::format("{}: its tensors are in the pickle {}, as PyTorch 2.8 wrote them; export the model again "
                            "with PyTorch 2.9 or newer",
                            archive_.name(), pickle));
        }
        return;
    }
    const std::string what = fmt::format("{}: {}", archive_.name(), name);
    const nlohmann::json document = parse_foreign_json(archive_.read_text(name, largest_index), what);
    JsonView(document, what)["config"].each_field([&](const std::string &tensor, const JsonView &entry) {
        Entry found;
        found.path = root_ + folder + entry["path_name"].string();
        found.pickled = entry.has("use_pickle") && entry["use_pickle"].boolean();
        if (entry.has("tensor_meta")) found.meta = entry["tensor_meta"].json();
        entries.emplace(tensor, std::move(found));
    });
}

std::shared_ptr<const Storage> WeightStore::payload(const std::string &path, DType dtype) {
    auto &known = payloads_[path];
    if (known) return known;
    known = archive_.read(path, check_data_);
    const int64_t component = is_complex(dtype) ? element_bytes(dtype) / 2 : element_bytes(dtype);
    if (swap_bytes_ && component > 1) known = swapped(*known, component);
    return known;
}

StoredTensor WeightStore::find(const std::string &name, bool constant) {
    const Entry *entry = nullptr;
    for (const auto *entries : {constant ? &constants_ : &weights_, constant ? &weights_ : &constants_}) {
        const auto found = entries->find(name);
        if (found != entries->end() && !entry) entry = &found->second;
    }
    if (!entry) {
        throw Error(fmt::format("{}: the archive has no data of {}; save the model again with torch.export.save",
                                archive_.name(), name));
    }
    if (entry->pickled || entry->meta.is_null()) {
        throw Error(
            fmt::format("{}: {} is a pickled object (a tensor subclass or custom object), not a plain tensor; convert it "
                        "to a plain tensor before the export",
                        archive_.name(), name));
    }
    const std::string what = fmt::format("{}: {}", archive_.name(), name);
    const JsonView meta(entry->meta, what);
    if (meta["layout"].integer() != strided_layout) {
        throw Error(fmt::format("{} is a sparse tensor; only dense ones are supported", what));
    }
    StoredTensor stored;
    HostTensor &tensor = stored.tensor;
    tensor.dtype = dtype_of_number(meta["dtype"].integer());
    tensor.sizes = plain_integers(meta["sizes"]);
    tensor.strides = plain_integers(meta["strides"]);
    tensor.offset = meta.has("storage_offset") ? meta["storage_offset"]["as_int"].integer() : 0;
    const auto bytes = payload(entry->path, tensor.dtype);
    const bool empty = std::find(tensor.sizes.begin(), tensor.sizes.end(), 0) != tensor.sizes.end();
    if (bytes->bytes == 0 && !empty) {
        stored.missing = "the archive holds no weights: the model was saved with fake tensors";
        return stored;
    }
    tensor.storage = bytes;
    require_inside(tensor, what);
    return stored;
}

}  // namespace atalla
