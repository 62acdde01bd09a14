// Opens files to read, with one sentence for all that cannot be read.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace atalla {

// "FILE: cannot be read: REASON", with the system's reason for `error`, an errno; of an empty path, that it is one.
std::string unreadable(const std::filesystem::path &file, int error);

// The bytes of a file. Error naming it and the reason if it cannot be opened or is a folder.
std::ifstream open_to_read(const std::filesystem::path &file);

}  // namespace atalla
