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
    if (std::filesystem::is_directory(file, ignored))
        throw Error(fmt::format("cannot write '{}': it is a folder", file.string()));
    const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
    if (!std::filesystem::is_directory(folder, ignored) || ::access(folder.c_str(), W_OK) != 0) throw cannot_write(file);
}

std::filesystem::path unfinished_of(const std::filesystem::path &file) {
    std::error_code ignored;
    const std::filesystem::file_status status = std::filesystem::status(file, ignored);
    const bool replaced =
        !std::filesystem::exists(status) || std::filesystem::is_regular_file(status) || std::filesystem::is_directory(status);
    return replaced ? std::filesystem::path(file.string() + ".part") : file;
}

void discard_unfinished(const std::filesystem::path &file) {
    std::error_code ignored;
    if (const std::filesystem::path unfinished = unfinished_of(file); unfinished != file)
        std::filesystem::remove(unfinished, ignored);
}

void write_file(const std::filesystem::path &file, const std::function<void(std::ostream &)> &write) {
    const std::filesystem::path unfinished = unfinished_of(file);
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
        discard_unfinished(file);
        throw;
    }
}

}  // namespace atalla
