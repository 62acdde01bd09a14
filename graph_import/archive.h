// A zip archive from an untrusted place, its stored entries mapped.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph_import/tensor.h"

namespace atalla {

// Error, naming the file, unless it is a well-formed zip archive: refused are damaged and truncated files, names that leave
// the archive or occur twice, entries that overlap, encrypted entries, more than 200,000 entries, and any whose expanded
// entries together are larger than 256 MiB and 20 times the file.
class Archive {
public:
    static Archive open(const std::filesystem::path &file);
    // Of bytes that are copied; `name` stands for the file in messages.
    static Archive of_bytes(std::span<const std::byte> bytes, std::string_view name);
    Archive(Archive &&) noexcept;
    Archive &operator=(Archive &&) noexcept;
    ~Archive();

    const std::string &name() const;
    // In the archive's order, folders left out.
    const std::vector<std::string> &entries() const;
    bool has(std::string_view entry) const;
    int64_t bytes(std::string_view entry) const;
    // The entry's contents: a part of the mapped file if it is stored, inflated memory if it is deflated. Error if there is
    // no such entry, or with `check` if the contents are not what the checksum says.
    std::shared_ptr<const Storage> read(std::string_view entry, bool check = true) const;
    std::string read_text(std::string_view entry, int64_t most_bytes) const;

private:
    struct State;
    explicit Archive(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace atalla
