// A file's bytes, mapped: nothing is read before it is used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace atalla {

class MappedFile {
public:
    // Error naming the file if it cannot be opened or is no regular file.
    explicit MappedFile(const std::filesystem::path &file);
    ~MappedFile();
    MappedFile(const MappedFile &) = delete;
    MappedFile &operator=(const MappedFile &) = delete;

    std::span<const uint8_t> bytes() const { return {data_, size_}; }

private:
    const uint8_t *data_ = nullptr;
    size_t size_ = 0;
};

}  // namespace atalla
