#include "isa/write_file.h"

#include <unistd.h>

#include <fmt/format.h>

#include <fstream>

#include "isa/error.h"

namespace atalla {

namespace {

Error cannot_write(const std::filesystem::path &file) {
    return Error(fmt::format("cannot write '{}': check that its folder exists and can be written", file.string()));
}

}  // namespace

void require_writable(const std::filesystem::path &file) {
    if (file.empty()) return;
    std::error_code ignored;
    if (std::filesystem::is_directory(file, ignored)) throw Error(fmt::format("cannot write '{}': it is a folder", file.string()));
    const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
    if (!std::filesystem::is_directory(folder, ignored) || ::access(folder.c_str(), W_OK) != 0) throw cannot_write(file);
}

void write_file(const std::filesystem::path &file, const std::function<void(std::ostream &)> &write) {
    const std::filesystem::path unfinished = file.string() + ".part";
    std::ofstream out(unfinished, std::ios::binary);
    if (!out) throw cannot_write(file);
    try {
        write(out);
        out.close();
        if (!out) throw Error(fmt::format("writing '{}' failed: is the disk full?", file.string()));
        std::error_code failure;
        std::filesystem::rename(unfinished, file, failure);
        if (failure) throw Error(fmt::format("cannot write '{}': {}", file.string(), failure.message()));
    } catch (...) {
        std::error_code ignored;
        std::filesystem::remove(unfinished, ignored);
        throw;
    }
}

}  // namespace atalla
