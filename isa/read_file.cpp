#include "isa/read_file.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "isa/error.h"

namespace atalla {

std::string unreadable(const std::filesystem::path &file, int error) {
    if (file.empty()) return "a file is named by an empty text: give its path";
    return fmt::format("{}: cannot be read: {}", file.string(), std::strerror(error));
}

std::ifstream open_to_read(const std::filesystem::path &file) {
    // A stream opens folders, too, and fails when it reads.
    std::error_code ignored;
    if (std::filesystem::is_directory(file, ignored)) throw Error(unreadable(file, EISDIR));
    errno = 0;
    std::ifstream stream(file, std::ios::binary);
    if (!stream) throw Error(unreadable(file, errno));
    return stream;
}

}  // namespace atalla
