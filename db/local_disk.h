// Refuses network file systems, on which SQLite's write-ahead log loses and corrupts data.
#pragma once

#include <cstdint>
#include <filesystem>

namespace atalla {

// Whether the magic number that statfs gives for a file system is that of a network one (linux/magic.h).
bool is_network_file_system(uint32_t magic);

// Error if the folder is on a network file system. The folder must exist.
void require_local_disk(const std::filesystem::path &folder);

}  // namespace atalla
