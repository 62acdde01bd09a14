// Where tests find files outside their own folder.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/files.h"
#include "tests/support/source_path.h"

namespace atalla {

// Unpacks an archive of the shared reference files and lists its files that end in `extension`, sorted. Empty if the
// archive is not there.
inline std::vector<std::filesystem::path> unpack_vectors(const std::string &archive, const std::string &extension,
                                                         const TemporaryFolder &folder) {
    const std::filesystem::path packed = source_path("../shared/atalla") / archive;
    std::vector<std::filesystem::path> files;
    if (!std::filesystem::exists(packed)) {
        return files;
    }
    const std::string command = "tar -xf '" + packed.string() + "' -C '" + folder.path().string() + "'";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    for (const auto &entry : std::filesystem::recursive_directory_iterator(folder.path())) {
        if (entry.path().extension() == extension) {
            files.push_back(entry.path());
        }
    }
    std::sort(files.begin(), files.end());
    return files;
}

}  // namespace atalla
