// Where tests find files outside their own folder.
#pragma once

#include "tests/support/source_path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace atalla {

inline std::string read_text(const std::filesystem::path &file) {
    std::ifstream input(file, std::ios::binary);
    std::ostringstream text;
    text << input.rdbuf();
    EXPECT_TRUE(input.good() || input.eof()) << file;
    return std::move(text).str();
}

// A folder of its own for one test, removed with it.
class TemporaryFolder {
public:
    TemporaryFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "atalla-test-XXXXXX").string();
        path_ = mkdtemp(name.data());
    }
    ~TemporaryFolder() { std::filesystem::remove_all(path_); }
    TemporaryFolder(const TemporaryFolder &) = delete;
    TemporaryFolder &operator=(const TemporaryFolder &) = delete;

    const std::filesystem::path &path() const { return path_; }

private:
    std::filesystem::path path_;
};

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
